"""The command line, as a user meets it: what it prints, writes and returns."""

import contextlib
import errno
import fcntl
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from munchausen import Agent, cli
from munchausen.agent.config import FIELDS
from munchausen.commands import evaluate as evaluate_command
from munchausen.experiment.checkpoint import list_checkpoints, read_arrays
from munchausen.experiment.records import read_records
from munchausen.experiment.training import Training

# Small enough to train in a second once compiled. All of one shape, to be compiled once.
SMALL = [
    *("--env", "minatar/asterix", "--envs", "8", "--capacity", "4000", "--warmup-steps", "400"),
    *("--iteration-steps", "400", "--checkpoint-seconds", "0", "--network", "minatar-linear"),
]
# Quicker to compile: where any environment does.
CARTPOLE = [
    *("--env", "gym/CartPole-v1", "--envs", "4", "--capacity", "4000", "--warmup-steps", "400"),
    *("--iteration-steps", "400", "--checkpoint-seconds", "0", "--network", "mlp-small"),
    *("--batch-size", "16"),
]
COLUMNS = {
    *("env", "agent", "seed", "iteration", "step"),
    *("score", "score_100", "episodes", "episodes_total", "episode_length"),
    *("loss", "q", "action_gap", "entropy", "updates_total"),
    *("steps_per_second", "seconds"),
}


class Result(NamedTuple):
    code: int
    out: str
    err: str


def munchausen(*arguments: str) -> Result:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(list(arguments))
    return Result(code, out.getvalue(), err.getvalue())


def assert_refused(result: Result, *said: str) -> None:
    """One or two lines on standard error that say what is wrong, and exit code 2."""
    assert result.code == 2, result
    assert result.out == ""
    lines = result.err.strip().splitlines()
    assert 1 <= len(lines) <= 2, result.err
    assert lines[0].startswith("munchausen: ")
    for part in said:
        assert part in result.err, result.err


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """An empty working folder, and no training should bad input get through."""

    def never(*_):
        raise AssertionError("the input was accepted and training began")

    monkeypatch.setattr(Training, "run", never)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run of five iterations, and what its command printed. Copy it to change it."""
    run = tmp_path_factory.mktemp("cli") / "run"
    result = munchausen("train", "m-dqn", *SMALL, "--steps", "2000", "--json", "--out", str(run))
    assert result.code == 0, result.err
    return run, result


@pytest.fixture
def run(trained, tmp_path):
    return Path(shutil.copytree(trained[0], tmp_path / "run"))


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
        "import sys\nfrom munchausen import cli\n"
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


class TestFolder:
    """The folder given as --out, where it does not fit."""

    def test_already_a_run(self, run):
        before = contents(run)
        assert_refused(munchausen("train", "--out", str(run)), "already holds a run", "--resume")
        assert contents(run) == before

    def test_not_empty(self, empty):
        (empty / "thesis.tex").write_text("years of work")
        before = contents(empty)
        assert_refused(munchausen("train", "--out", str(empty)), "not empty", "--out")
        assert contents(empty) == before

    def test_a_file(self, empty):
        (empty / "out").write_text("")
        assert_refused(munchausen("train", "--out", "out"), "--out")
        assert_refused(munchausen("train", "--out", "out/run"), "out/run")
        assert contents(empty) == {"out": b""}

    def test_resume_no_run(self, empty):
        (empty / "thesis.tex").write_text("years of work")
        before = contents(empty)
        assert_refused(munchausen("train", "--resume", "--out", "."), "is no run", "config.json")
        assert contents(empty) == before

    @pytest.mark.parametrize("resume", [[], ["--resume"]])
    def test_in_use(self, run, resume):
        before = contents(run)
        with open(run / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert_refused(
                munchausen("train", *resume, "--out", str(run)), "in use", "munchausen train"
            )
        assert contents(run) == before

    @pytest.mark.parametrize(
        "config",
        [
            "",
            "{}",
            '{"env": "minatar/breakout"}',
            pytest.param(
                '{"config": []}',
            ),
        ],
    )
    def test_a_damaged_configuration(self, run, config):
        (run / "config.json").write_text(config)
        assert_refused(munchausen("evaluate", str(run)), "config.json cannot be read")
        assert_refused(munchausen("train", "--resume", "--out", str(run)), "config.json")


class TestResume:
    @pytest.mark.parametrize(
        ("asked", "field"),
        [
            (["--alpha", "0.3"], "alpha: the run has 0.9, you asked for 0.3"),
            (["--n-step", "3"], "n_step: the run has 1, you asked for 3"),
            (["--clip-min=-inf"], "clip_min: the run has -1.0, you asked for -inf"),
            (["adam-dqn"], "agent: the run has m-dqn, you asked for adam-dqn"),
            (["m-iqn"], "agent: the run has m-dqn, you asked for m-iqn"),
            (["m-dqn-stochastic"], "agent: the run has m-dqn"),
            (["m-dqn,adam-dqn"], "you asked for m-dqn, adam-dqn"),
            (["--env", "minatar/breakout"], "env: the run has minatar/asterix"),
            (["--seed", "1"], "seeds: the run has [0], you asked for [1]"),
            (["--seeds", "2"], "seeds: the run has [0], you asked for [0, 1]"),
            (["--iteration-steps", "800"], "iteration_steps: the run has 400"),
        ],
        ids=lambda x: " ".join(x) if isinstance(x, list) else "",
    )
    def test_another_configuration_is_refused_by_name(self, run, asked, field):
        before = contents(run)
        result = munchausen("train", *asked, "--resume", "--out", str(run))
        assert_refused(result, "cannot resume", field)
        assert contents(run) == before

    def test_unknown_names_as_ever(self, run):
        before = contents(run)
        resume = ("--resume", "--out", str(run))
        assert_refused(munchausen("train", "mdqn", *resume), "'m-dqn'")
        assert_refused(munchausen("train", "--alpha", "2", *resume), "alpha must be in [0, 1]")
        assert contents(run) == before

    def test_the_same_configuration_spelt_out(self, run):
        """A finished run has nothing left to do, and says what it came to."""
        records = (run / "records.jsonl").read_bytes()
        result = munchausen(
            *("train", "m-dqn", *SMALL, "--steps", "2000"),
            *("--alpha", "0.9", "--resume", "--out", str(run), "--json"),
        )
        assert result.code == 0, result.err
        assert "resumed at step 2,000" in result.err
        assert json.loads(result.out)["steps"] == 2000
        assert (run / "records.jsonl").read_bytes() == records

    def test_more_steps(self, run):
        rows = read_records(run)
        result = munchausen("train", "--resume", "--out", str(run), "--steps", "2400")
        assert result.code == 0, result.err
        after = read_records(run)
        assert after[:-1] == rows
        assert after[-1]["step"] == 2400
        assert json.loads((run / "config.json").read_text())["steps"] == 2400
        # Without --steps it means the longer run from now on.
        assert munchausen("train", "--resume", "--out", str(run)).code == 0
        assert read_records(run) == after

    def test_more_steps_that_are_no_whole_group(self, run):
        result = munchausen("train", "--resume", "--out", str(run), "--steps", "2003")
        assert result.code == 0
        assert read_records(run)[-1]["step"] == 2008

    def test_fewer_steps_are_refused_and_forgotten(self, run):
        before = contents(run)
        result = munchausen("train", "--resume", "--out", str(run), "--steps", "400")
        assert result.code == 2
        assert "is at step 2,000 already; ask for more --steps" in result.err
        assert munchausen("train", "--resume", "--out", str(run)).code == 0
        assert contents(run)["config.json"] == before["config.json"]

    def test_a_field_that_one_lane_has_already(self, lanes):
        run, _ = lanes  # adam-dqn, the first lane, has alpha 0; m-dqn has not
        result = munchausen("train", "--alpha", "0", "--resume", "--out", str(run))
        assert_refused(result, "alpha")

    def test_a_damaged_checkpoint_is_named_and_passed_over(self, run):
        newest = list_checkpoints(run)[-1]
        os.truncate(newest / "state.safetensors", 100)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            result = munchausen("train", "--resume", "--out", str(run), "--json")
        assert result.code == 0, result.err
        assert f"warning: {newest}/state.safetensors was cut or altered" in result.err
        assert "resumed at step 1,600" in result.err
        assert json.loads(result.out)["steps"] == 2000

    def test_no_checkpoint_is_whole(self, run):
        for place in list_checkpoints(run):
            (place / "manifest.json").unlink()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            resumed = munchausen("train", "--resume", "--out", str(run), "--json")
            evaluated = munchausen("evaluate", str(run))
        assert_refused_late(resumed, "no checkpoint of", "--out")
        assert_refused_late(evaluated, "no whole checkpoint")


def assert_refused_late(result: Result, *said: str) -> None:
    """After the run was introduced: the last line says what is wrong."""
    assert result.code == 2, result
    assert result.out == ""
    for part in said:
        assert part in result.err.strip().splitlines()[-1]


class TestDivergence:
    @pytest.fixture(scope="class")
    @staticmethod
    def diverged(tmp_path_factory):
        run = tmp_path_factory.mktemp("diverged") / "run"
        options = (*CARTPOLE, "--steps", "1600", "--learning-rate", "1e30")
        return run, munchausen("train", *options, "--out", str(run))

    def test_says_where_and_what_to_try(self, diverged):
        run, result = diverged
        assert result.code == 1
        assert "Traceback" not in result.err
        line = result.err.strip().splitlines()[-1]
        # The first update is after step 404: its own loss is finite, a later one's is not.
        step = re.search(r"the (loss|Q-value) is (inf|nan) at step ([\d,]+)", line)
        assert step, line
        assert step[3] == "408"
        assert "--learning-rate" in line
        assert str(run) in line

    def test_the_result_says_so(self, diverged):
        run, _ = diverged
        result = json.loads((run / "result.json").read_text())
        assert result["status"] == "diverged"
        assert "at step 408" in result["error"]

    def test_the_last_good_checkpoint_is_kept(self, diverged):
        run, _ = diverged
        counters, _ = read_arrays(list_checkpoints(run)[-1])
        assert counters["step"] == 400
        assert np.isfinite(Agent.load(run).q_values(np.ones(4))).all()

    def test_before_the_first_checkpoint(self, tmp_path):
        run = tmp_path / "run"
        options = (*CARTPOLE, "--iteration-steps", "800", "--learning-rate", "1e30")
        result = munchausen("train", *options, "--steps", "1600", "--out", str(run))
        assert result.code == 1
        assert list_checkpoints(run) == []
        assert "checkpoint is kept" not in result.err

    def test_by_the_last_update_before_a_checkpoint(self, tmp_path):
        """One update before the checkpoint at 800: its loss is finite, but without ε Adam makes
        NaN (0/0) of every weight that had no gradient."""
        run = tmp_path / "run"
        options = (*CARTPOLE, "--warmup-steps", "796", "--optimizer-eps", "0", "--steps", "1600")
        result = munchausen("train", *options, "--out", str(run))
        assert result.code == 1
        assert list_checkpoints(run) != []
        assert np.isfinite(Agent.load(run).q_values(np.ones(4))).all()


# Munchausen RL, appendix B, and Dopamine's configurations:
# head, α, τ, n-step, replay, optimiser, learning rate.
AGENTS = {
    "dqn": ("expected", 0, 0, 1, "uniform", "rmsprop", 2.5e-4),
    "adam-dqn": ("expected", 0, 0, 1, "uniform", "adam", 5e-5),
    "soft-dqn": ("expected", 0, 0.03, 1, "uniform", "adam", 5e-5),
    "soft-dqn-low": ("expected", 0, 0.003, 1, "uniform", "adam", 5e-5),
    "al": ("expected", 0.9, 0, 1, "uniform", "adam", 5e-5),
    "m-dqn": ("expected", 0.9, 0.03, 1, "uniform", "adam", 5e-5),
    "m-dqn-stochastic": ("expected", 0.9, 0.03, 1, "uniform", "adam", 5e-5),
    "c51": ("categorical", 0, 0, 1, "uniform", "adam", 2.5e-4),
    "m-c51": ("categorical", 0.9, 0.03, 1, "uniform", "adam", 2.5e-4),
    "rainbow": ("categorical", 0, 0, 3, "prioritised", "adam", 6.25e-5),
    "m-rainbow": ("categorical", 0.9, 0.03, 3, "prioritised", "adam", 6.25e-5),
    "qr-dqn": ("quantile", 0, 0, 1, "uniform", "adam", 5e-5),
    "m-qr-dqn": ("quantile", 0.9, 0.03, 1, "uniform", "adam", 5e-5),
    "iqn": ("implicit", 0, 0, 3, "uniform", "adam", 5e-5),
    "iqn-1step": ("implicit", 0, 0, 1, "uniform", "adam", 5e-5),
    "m-iqn": ("implicit", 0.9, 0.03, 3, "uniform", "adam", 5e-5),
    "m-iqn-1step": ("implicit", 0.9, 0.03, 1, "uniform", "adam", 5e-5),
}
AGENT_COLUMNS = ("head", "alpha", "tau", "n_step", "replay", "optimizer", "learning_rate")


class TestListings:
    def test_agents(self):
        result = munchausen("agents", "--json")
        assert result.code == 0
        assert result.err == ""
        rows = json.loads(result.out)
        assert {row["name"]: tuple(row[c] for c in AGENT_COLUMNS) for row in rows} == AGENTS
        assert len(rows) == 17
        # Advantage learning is the limit without a clip; the Munchausen agents clip at −1.
        clips = {row["name"]: row["clip_min"] for row in rows if row["alpha"]}
        assert clips.pop("al") == "-inf"
        assert set(clips.values()) == {-1.0}
        assert all(row["description"] for row in rows)

    def test_agents_as_a_table(self):
        lines = munchausen("agents").out.splitlines()
        assert lines[0].split()[:4] == ["name", "head", "alpha", "tau"]
        assert [line.split()[0] for line in lines[1:]] == list(AGENTS)

    def test_one_agent(self):
        result = munchausen("agents", "m-dqn", "--env", "minatar/breakout", "--json")
        assert result.code == 0
        agent = json.loads(result.out)
        assert agent.keys() == {"name", *FIELDS}
        assert (agent["alpha"], agent["tau"], agent["clip_min"]) == (0.9, 0.03, -1.0)
        assert agent["network"] == "minatar"
        assert agent["stack"] == 1
        paper = json.loads(munchausen("agents", "m-dqn", "--json").out)
        assert paper["network"] == "nature"
        assert (paper["stack"], paper["capacity"], paper["batch_size"]) == (4, 1_000_000, 32)
        text = munchausen("agents", "m-dqn", "--env", "minatar/breakout").out
        for name in FIELDS:
            assert re.search(rf"^  {name} +\S", text, re.MULTILINE), name

    def test_environments(self):
        result = munchausen("envs", "--json")
        assert result.code == 0
        assert result.err == ""
        rows = {row["name"]: row for row in json.loads(result.out)}
        games = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
        classic = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3")
        named = {f"minatar/{g}" for g in games} | {f"gym/{id}" for id in classic}
        assert {name for name in rows if not name.startswith("atari/")} == named
        assert len(rows) - len(named) == 60
        for row in rows.values():
            assert row["loop"] == ("device" if row["suite"] == "minatar" else "host")
            assert row["steps"] % row["iteration_steps"] == 0
        table = munchausen("envs").out
        assert all(name in table for name in rows)
        assert "gym/ID" in table

    @pytest.mark.parametrize("command", ["train", "evaluate", "agents", "envs", "theory"])
    def test_help(self, command, capsys):
        with pytest.raises(SystemExit) as done:
            cli.main([command, "--help"])
        assert done.value.code == 0
        text = capsys.readouterr().out
        assert "--json" in text
        if command == "train":
            for name in FIELDS:
                assert "--" + name.replace("_", "-") in text


class TestTraining:
    def test_last_line_is_json(self, trained):
        run, result = trained
        line = result.out.splitlines()[-1]
        assert result.out == line + "\n"  # and nothing else is on standard output
        summary = json.loads(line)
        assert summary["run"] == str(run)
        assert summary["agent"] == "m-dqn"
        assert summary["env"] == "minatar/asterix"
        assert summary["steps"] == 2000
        assert summary["episodes"] > 0
        assert summary["score"] >= 0
        assert summary["steps_per_second"] > 0
        assert summary["lanes"] == [{"agent": "m-dqn", "seed": 0, "score": summary["score"]}]
        assert json.loads((run / "result.json").read_text()) == {"status": "finished", **summary}

    def test_curve_is_a_png(self, trained):
        run, _ = trained
        assert (run / "curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

    def test_records(self, trained):
        run, result = trained
        rows = read_records(run)
        assert all(row.keys() == COLUMNS for row in rows)
        assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5]
        assert [row["step"] for row in rows] == [400, 800, 1200, 1600, 2000]
        assert {(r["env"], r["agent"], r["seed"]) for r in rows} == {
            ("minatar/asterix", "m-dqn", 0)
        }
        # An update every 4 steps once the 400 of the warm-up are over.
        assert [row["updates_total"] for row in rows] == [0, 100, 200, 300, 400]
        assert [row["loss"] is None for row in rows] == [True, False, False, False, False]
        summary = json.loads(result.out)
        assert rows[-1]["episodes_total"] == summary["episodes"]
        assert rows[-1]["episodes_total"] == sum(row["episodes"] for row in rows)
        assert rows[-1]["score_100"] == summary["score"]

    def test_folder(self, trained):
        run, _ = trained
        config = json.loads((run / "config.json").read_text())
        assert config["env"] == "minatar/asterix"
        assert config["config"].keys() == FIELDS.keys()
        assert config["config"]["capacity"] == 4000
        assert [place.name for place in list_checkpoints(run)] == [
            "step-000000001600",
            "step-000000002000",
        ]

    def test_evaluate_all_lanes(self, tmp_path):
        run = str(tmp_path / "run")
        two = ("train", "adam-dqn,m-dqn", *CARTPOLE, "--seeds", "2", "--steps", "400", "--out", run)
        assert munchausen(*two).code == 0
        result = munchausen("evaluate", run, "--episodes", "2", "--lane", "all", "--json")
        lanes = json.loads(result.out)["lanes"]
        named = [(lane["lane"], lane["agent"], lane["seed"]) for lane in lanes]
        assert named == [(0, "adam-dqn", 0), (1, "adam-dqn", 1), (2, "m-dqn", 0), (3, "m-dqn", 1)]
        alone = munchausen("evaluate", run, "--episodes", "2", "--lane", "2", "--json")
        assert json.loads(alone.out) == lanes[2]
        said = munchausen("evaluate", run, "--episodes", "2", "--lane", "all").out
        mean = (lanes[2]["mean"] + lanes[3]["mean"]) / 2
        assert f"m-dqn, 2 seeds: mean return {mean:.2f}" in said
        first = munchausen("evaluate", run, "--episodes", "2").out
        assert "with adam-dqn seed 0, lane 0 (--lane all or another number)" in first

    def test_evaluate(self, trained):
        run, _ = trained
        result = munchausen("evaluate", str(run), "--episodes", "5", "--epsilon", "1", "--json")
        assert result.code == 0, result.err
        report = json.loads(result.out)
        assert (report["agent"], report["env"]) == ("m-dqn", "minatar/asterix")
        assert (report["step"], report["episodes"], report["epsilon"]) == (2000, 5, 1.0)
        assert report["min"] <= report["median"] <= report["max"]
        assert report["mean_length"] > 0
        assert_refused(
            munchausen("evaluate", str(run), "--lane", "1"),
            "has no lane 1; there are: 0 m-dqn seed 0",
        )

    def test_a_folder_that_cannot_be_written(self, trained, tmp_path, monkeypatch):
        """Somebody else's results, say."""
        run = tmp_path / "run"
        shutil.copytree(trained[0], run)
        (run / "lock").unlink()
        (run / "lock").mkdir()
        assert_refused(munchausen("train", "--resume", "--out", str(run)), "cannot write to")

        def refuse(*_):
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(evaluate_command, "write_action_gaps", refuse)
        result = munchausen("evaluate", str(run), "--episodes", "1", "--action-gaps", "--json")
        assert_refused_late(result, "cannot write to", "Read-only file system")

    def test_default_folder_is_free(self, tmp_path, monkeypatch):
        """Without --out a run goes under runs/, a second one beside it."""
        monkeypatch.chdir(tmp_path)
        arguments = ("train", *CARTPOLE, "--steps", "400", "--json")
        runs = [json.loads(munchausen(*arguments).out)["run"] for _ in range(2)]
        assert runs == ["runs/gym-CartPole-v1_m-dqn_seed0", "runs/gym-CartPole-v1_m-dqn_seed0_2"]
        assert all((tmp_path / run / "result.json").exists() for run in runs)

    def test_iterations_without_an_episode(self, tmp_path):
        """No warning of NumPy's reaches the user: warnings are errors here."""
        options = (*CARTPOLE, "--iteration-steps", "8", "--steps", "400")
        result = munchausen("train", *options, "--out", str(tmp_path / "run"))
        assert result.code == 0


@pytest.fixture(scope="module")
def lanes(tmp_path_factory):
    run = tmp_path_factory.mktemp("lanes") / "run"
    options = ("--seeds", "2", "--steps", "800", *SMALL, "--out", str(run), "--json")
    result = munchausen("train", "adam-dqn,m-dqn", *options)
    assert result.code == 0, result.err
    return run, json.loads(result.out)


class TestLanes:
    EXPECTED = [("adam-dqn", 0), ("adam-dqn", 1), ("m-dqn", 0), ("m-dqn", 1)]  # noqa: RUF012

    def test_agents_by_seeds(self, lanes):
        run, summary = lanes
        assert [(lane["agent"], lane["seed"]) for lane in summary["lanes"]] == self.EXPECTED
        assert summary["agent"] == "adam-dqn,m-dqn"
        rows = read_records(run)
        assert [(row["agent"], row["seed"]) for row in rows] == self.EXPECTED * 2
        assert summary["episodes"] == sum(row["episodes"] for row in rows)

    def test_they_are_different_runs(self, lanes):
        run, _ = lanes
        rows = read_records(run)[-4:]
        assert len({row["loss"] for row in rows}) == 4

    def test_each_can_be_loaded(self, lanes):
        run, _ = lanes
        observation = np.eye(10, dtype=bool)[..., None].repeat(4, -1)
        values = {tuple(Agent.load(run, lane=i).q_values(observation)) for i in (0, 3)}
        assert len(values) == 2


def test_sigterm_writes_a_checkpoint_and_exits_with_143(tmp_path):
    run = tmp_path / "run"
    options = (*SMALL, "--checkpoint-seconds", "1000", "--steps", "10_000_000", "--out", str(run))
    process = subprocess.Popen(
        [sys.executable, "-m", "munchausen", "train", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not read_whole_records(run):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert_refused(munchausen("train", "--resume", "--out", str(run)), "in use")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "stopped by SIGTERM at step" in err
    assert "Traceback" not in err
    assert f"munchausen train --resume --out {run}" in out
    [place] = list_checkpoints(run)
    step = read_arrays(place)[0]["step"]
    assert step % 400 == 0
    result = munchausen("train", "--resume", "--out", str(run), "--steps", str(step + 400))
    assert result.code == 0, result.err
    assert f"resumed at step {step:,}" in result.out
    assert [row["step"] for row in read_records(run)] == list(range(400, step + 401, 400))


def read_whole_records(run: Path) -> list:
    """The rows while another process writes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_records(run)
