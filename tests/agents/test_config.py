"""Fields: defaults where they are declared, schedules as values, ranges at every step."""

import dataclasses
import json

import pytest

from munchausen._src.agents import AgentConfig, override, resolve
from munchausen._src.agents.config import DEFAULTS, FIELDS, HINTS, SCHEDULABLE
from munchausen._src.core.schedules import Cosine, Function, Linear
from munchausen._src.errors import UserError


def test_the_defaults_are_adam_dqn_on_atari():
    """But for how many environments step at once, which is a suite's."""
    assert dataclasses.replace(resolve("adam-dqn", "atari"), envs=1) == AgentConfig()


def test_every_number_says_where_it_comes_from():
    chosen = {"alpha", "tau", "envs"}  # 0 is plain DQN, 1 is Algorithm 1
    for name, field in FIELDS.items():
        if HINTS[name] in (int, float) or name in SCHEDULABLE:
            assert bool(field.metadata["source"]) == (name not in chosen), name
        assert field.metadata["help"]


def test_four_fields_take_schedules():
    assert set(SCHEDULABLE) == {"alpha", "tau", "learning_rate", "epsilon"}
    for name in FIELDS:
        if name not in SCHEDULABLE:
            with pytest.raises(UserError, match=f"{name}"):
                override(AgentConfig(), {name: "linear:1:2"})
        if name not in (*SCHEDULABLE, "network"):  # a function may make a network
            with pytest.raises(UserError, match=f"{name}"):
                override(AgentConfig(), {name: lambda step: step})


def decay(step):
    return 0.1 / (1 + step)


def test_values_as_a_user_gives_them():
    changes = {"tau": "linear:0.1:0.01", "alpha": Linear(0.0, 0.9, 5), "learning_rate": decay}
    config = override(AgentConfig(), changes)
    assert config.tau == Linear(0.1, 0.01)
    assert config.alpha == Linear(0.0, 0.9, 5)
    assert config.learning_rate == Function("decay", decay)
    assert hash(config) == hash(override(AgentConfig(), changes))
    begun = config.resolved(500)
    assert (begun.tau, begun.alpha) == (Linear(0.1, 0.01, 500), Linear(0.0, 0.9, 5))
    assert begun.resolved(9_000) == begun


def test_to_json_and_back():
    changes = {"tau": "cosine:0.1:0.01", "clip_min": "-inf", "learning_rate": decay}
    config = override(resolve("m-iqn", "minatar"), changes).resolved(600)
    data = json.loads(json.dumps(config.to_json(), allow_nan=False))
    assert (data["tau"], data["clip_min"]) == ("cosine:0.1:0.01:600", "-inf")
    assert data["learning_rate"] == "function:decay"
    read = AgentConfig.from_json(data)
    assert read.tau == Cosine(0.1, 0.01, 600)
    assert dataclasses.replace(read, learning_rate=config.learning_rate) == config
    with pytest.raises(UserError, match=r"'decay'.* give it again from Python"):
        read.resolved(600)


def test_a_run_of_an_older_version_and_of_a_newer_one():
    data = resolve("m-iqn", "minatar").to_json()
    old = {k: v for k, v in data.items() if k not in ("precision", "kappa")}
    read = AgentConfig.from_json(old)
    assert (read.precision, read.kappa) == (DEFAULTS["precision"], DEFAULTS["kappa"])
    assert read == resolve("m-iqn", "minatar")
    with pytest.raises(UserError, match="no field dueling, hue: a newer one made it") as error:
        AgentConfig.from_json(data | {"dueling": True, "hue": 3})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": "linear:2:0:10"}, "in [0, 1], not 2, which linear:2:0:10 is at step 0"),
        ({"epsilon": "linear:1:-1:10"}, "in [0, 1], not -1, which linear:1:-1:10 is at step 10"),
        ({"alpha": "cosine:0:1.5"}, "not 1.5, which cosine:0:1.5 is at its end"),
        ({"tau": "piecewise:1:10:-3:20:2"}, "at least 0, not -3"),
        ({"tau": "piecewise:1:10:-3:20:2"}, "is at step 10"),
        ({"learning_rate": "linear:1e-4:0"}, "learning_rate must be at least 1e-12, not 0"),
        ({"tau": "linaer:1:2"}, "tau: unknown schedule 'linaer'; did you mean 'linear'?"),
        ({"tau": "linear"}, "tau: 'linear' is no schedule"),
        ({"tau": "linear_1_2"}, "must be a number or a schedule such as linear:1:0.1:50000"),
        (
            {"exploration": "stochastic", "tau": "linear:0.1:0:50"},
            "needs --tau above 0; linear:0.1:0:50 is 0 at step 50",
        ),
        (
            {"exploration": "stochastic", "tau": "cosine:0.1:0"},
            "needs --tau above 0; cosine:0.1:0 is 0 at its end",
        ),
    ],
)
def test_bad_schedules(changes, said):
    with pytest.raises(UserError) as error:
        override(resolve("m-dqn", "minatar"), changes)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_function_is_looked_at_over_the_run():
    config = override(AgentConfig(), {"epsilon": lambda step: 1 - step / 100})
    config.resolved(100)
    with pytest.raises(UserError, match=r"epsilon must be in \[0, 1\], not -0.0.*at step 1"):
        config.resolved(200)
    stochastic = {"exploration": "stochastic", "tau": lambda step: 1 - step / 100}
    config = override(AgentConfig(), stochastic)
    config.resolved(99)
    with pytest.raises(UserError, match="is 0 at step 100"):
        config.resolved(100)
