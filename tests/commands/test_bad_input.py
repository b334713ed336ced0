"""Bad input is refused in a line or two, before anything is written."""

import subprocess
import sys

import pytest

from command_line import assert_refused, contents, munchausen

BAD_TRAINING = {
    # Names.
    "agent without its hyphen": (["mdqn"], ["agent 'mdqn'", "'m-dqn'"]),
    "no such agent": (["sarsa"], ["agent 'sarsa'", "m-dqn", "m-iqn"]),
    "one agent of two": (["m-dqn,adam-dqm"], ["'adam-dqm'", "'adam-dqn'"]),
    "agent twice": (["m-dqn,m-dqn"], ["twice"]),
    "misspelt game": (["--env", "minatar/brekout"], ["'minatar/breakout'"]),
    "misspelt game without its suite": (["--env", "breakot"], ["'minatar/breakout'"]),
    "misspelt Gymnasium id": (["--env", "gym/CartPol-v1"], ["'gym/CartPole-v1'"]),
    "misspelt option": (["--alhpa", "0.5"], ["option '--alhpa'", "'--alpha'"]),
    "misspelt option with =": (["--alhpa=0.5"], ["option '--alhpa'", "'--alpha'"]),
    "abbreviated option": (["--learning", "0.1"], ["option '--learning'", "'--learning-rate'"]),
    "underscore in an option": (["--n_step", "3"], ["option '--n_step'", "'--n-step'"]),
    "no such network": (["--network", "minatar-lin"], ["'minatar-linear'"]),
    "no such optimiser": (["--optimizer", "adm"], ["'adam'"]),
    "a word too many": (["m-dqn", "fast"], ["'fast'", "--help"]),
    # Types.
    "text for an int": (["--n-step", "two"], ["n_step", "whole number", "'two'"]),
    "text for a float": (["--alpha", "x"], ["alpha", "number", "'x'"]),
    "fraction for an int": (["--batch-size", "1.5"], ["batch_size", "whole number", "'1.5'"]),
    "text for a bool": (["--clip-rewards", "yes"], ["clip_rewards", "true or false", "'yes'"]),
    "text for the steps": (["--steps", "many"], ["steps", "whole number", "'many'"]),
    "infinite steps": (["--steps", "inf"], ["steps", "whole number"]),
    "text for the seconds": (["--checkpoint-seconds", "x"], ["checkpoint_seconds", "'x'"]),
    "no value": (["--alpha"], ["--alpha"]),
    # Ranges.
    "alpha above 1": (["--alpha", "1.5"], ["alpha must be in [0, 1], not 1.5"]),
    "alpha below 0": (["--alpha", "-0.1"], ["alpha must be in [0, 1], not -0.1"]),
    "alpha that is none": (["--alpha", "nan"], ["alpha must be in [0, 1], not nan"]),
    "tau below 0": (["--tau", "-1"], ["tau must be at least 0, not -1"]),
    "tau that is none": (["--tau", "nan"], ["tau"]),
    "tau without end": (["--tau", "inf"], ["tau", "finite"]),
    "clip above 0": (["--clip-min", "0.5"], ["clip_min must be at most 0, not 0.5"]),
    "no step": (["--n-step", "0"], ["n_step must be at least 1, not 0"]),
    "epsilon above 1": (["--epsilon", "2"], ["epsilon must be in [0, 1], not 2"]),
    "learning rate 0": (["--learning-rate", "0"], ["learning_rate"]),
    # Schedules.
    "misspelt schedule": (["--tau", "linaer:0.1:0"], ["tau", "'linaer'", "'linear'"]),
    "schedule without its end": (["--epsilon", "linear:1"], ["epsilon", "linear:START:END"]),
    "schedule of no step": (["--tau", "linear:1:0:0"], ["tau", "counted from 1", "not 0"]),
    "schedule out of range": (
        ["--epsilon", "linear:1:-0.5:1000"],
        ["epsilon must be in [0, 1], not -0.5", "linear:1:-0.5:1000", "at step 1000"],
    ),
    "schedule to no temperature": (
        ["m-dqn-stochastic", "--tau", "linear:0.1:0:1000"],
        ["--tau above 0", "0 at step 1000"],
    ),
    "schedule where none goes": (["--n-step", "linear:1:3"], ["n_step", "whole number"]),
    "no steps": (["--steps", "0"], ["steps must be at least 1"]),
    "seed below 0": (["--seed", "-1"], ["seed must be at least 0"]),
    "no name of an agent": ([""], ["an agent's name is missing"]),
    "several environments": (
        ["--env", "minatar/breakout,minatar/asterix"],
        ["sweep --agents m-dqn --envs minatar/breakout,minatar/asterix"],
    ),
    "a name where a number goes": (["--envs", "minatar/breakout"], ["--env minatar/breakout"]),
    "seed too large": (["--seed", str(2**31)], ["a seed is a whole number from 0 to 2³¹ - 1"]),
    "no seeds": (["--seeds", "0"], ["seeds must be at least 1"]),
    "time below 0": (["--checkpoint-seconds", "-1"], ["checkpoint_seconds must be at least 0"]),
    # Together.
    "batch above capacity": (
        ["--batch-size", "500", "--capacity", "400"],
        ["batch_size 500", "capacity 400", "--capacity"],
    ),
    "warm-up above capacity": (["--capacity", "900"], ["warmup_steps", "--capacity"]),
    "atoms upside down": (["c51", "--v-min", "5", "--v-max", "-5"], ["v_min", "v_max"]),
    "environments out of step": (["--envs", "6"], ["envs 6", "--envs 4"]),
    "no temperature to draw from": (["adam-dqn", "--exploration", "stochastic"], ["--tau"]),
    "agents of different heads": (["m-dqn,iqn"], ["m-dqn and iqn", "head", "one by one"]),
    # Environments that do not fit.
    "continuous actions": (["--env", "gym/Pendulum-v1"], ["actions Box", "gym/CartPole-v1"]),
    # Resuming.
    "resume nothing": (["--resume"], ["--out"]),
    "resume a folder that is not there": (["--resume", "--out", "runs/x"], ["runs/x is no run"]),
}


@pytest.mark.parametrize(("arguments", "said"), BAD_TRAINING.values(), ids=BAD_TRAINING.keys())
def test_bad_input_is_refused_and_nothing_written(empty, arguments, said):
    assert_refused(munchausen("train", *arguments), *said)
    assert contents(empty) == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], ["give a command"]),
        (["trian"], ["'trian'", "'train'"]),
        (["agents", "mdqn"], ["'mdqn'", "'m-dqn'"]),
        (["agents", "m-dqn", "--env", "minatar/brekout"], ["'minatar/breakout'"]),
        (["envs", "--jsn"], ["'--jsn'", "'--json'"]),
        (["evaluate"], ["RUN"]),
        (["evaluate", "."], ["is no run", "munchausen train"]),
        (["evaluate", "nowhere"], ["nowhere is no run", "munchausen train"]),
        (["evaluate", ".", "--episodes", "0"], ["episodes must be at least 1"]),
        (["evaluate", ".", "--epsilon", "1.5"], ["epsilon must be in [0, 1]"]),
    ],
    ids=" ".join,
)
def test_other_commands_refuse_too(empty, arguments, said):
    assert_refused(munchausen(*arguments), *said)
    assert contents(empty) == {}


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["trian"], ["--jsn"]])
def test_what_needs_no_jax_does_not_wait_for_it(words):
    code = (
        "import sys\nfrom munchausen._src import cli\n"
        f"try: cli.main({words})\nexcept SystemExit: pass\n"
        "sys.exit('jax' in sys.modules or 'matplotlib' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_negative_number_with_an_exponent(empty):
    assert_refused(munchausen("train", "--tau", "-1e-3"), "tau must be at least 0")
    assert contents(empty) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--env", "gym/CartPole-v1", "--network", "minatar"],
        ["--seed", str(2**64)],
        ["c51", "--v-max", "inf"],
    ],
    ids=" ".join,
)
def test_bad_input_that_gets_through(empty, arguments):
    assert_refused(munchausen("train", "--capacity", "4000", *arguments))
    assert contents(empty) == {}


@pytest.mark.parametrize(
    ("missing", "env", "pip"),
    [
        ("pgx", "minatar/breakout", "[minatar]'"),
        ("pgx_minatar", "minatar/breakout", "[minatar]'"),
        ("Box2D", "gym/LunarLander-v3", "[box2d]'"),
    ],
)
def test_a_missing_extra_names_the_pip_line(empty, monkeypatch, missing, env, pip):
    for name in list(sys.modules):
        if name.startswith("gymnasium.envs.box2d"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert_refused(munchausen("train", "--env", env), pip)
    assert contents(empty) == {}
