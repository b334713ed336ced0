"""Gymnasium environments: their names, those of a user, and what their observations become."""

import sys
import types

import gymnasium
import numpy as np
import pytest

from munchausen import Agent
from munchausen._src import cli
from munchausen._src.errors import TrainingDiverged, UserError
from munchausen._src.suites import find, import_module_of, make_host
from munchausen._src.suites.gym.environments import GymEnvironments, GymScreen

CHANGES = {"network": "mlp-small", "capacity": 400, "warmup_steps": 100, "batch_size": 8}


class Line(gymnasium.Env):
    """Five places; both a number and an array are seen."""

    observation_space = gymnasium.spaces.Dict(
        {
            "place": gymnasium.spaces.Discrete(5),
            "speed": gymnasium.spaces.Box(-1, 1, (2,), np.float32),
        }
    )
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, bad=None):
        self.bad = bad

    def seen(self):
        return {"place": self.place, "speed": np.full(2, 0.5, np.float32)}

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.place = 2
        return self.seen(), {}

    def step(self, action):
        self.place += 2 * int(action) - 1
        reward = float(self.place == 4) if self.bad is None else self.bad
        return self.seen(), reward, self.place in (0, 4), False, {}


@pytest.fixture
def line(tmp_path, monkeypatch):
    """A module that registers an environment, on a path of its own. Its classes are these."""
    lines = types.ModuleType("lines_of_mine_classes")
    lines.Line = Line
    monkeypatch.setitem(sys.modules, "lines_of_mine_classes", lines)
    (tmp_path / "lines_of_mine.py").write_text(
        "import gymnasium\n"
        "from lines_of_mine_classes import Line\n"
        "gymnasium.register('Line-v0', Line)\n"
        "gymnasium.register('Bad-v0', lambda: Line(float('nan')))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "gym/lines_of_mine:Line-v0"
    sys.modules.pop("lines_of_mine", None)
    for name in ("Line-v0", "Bad-v0"):
        gymnasium.registry.pop(name, None)


class TestOwn:
    def test_from_the_command_line(self, line, capsys):
        short = ["--network", "mlp-small", "--capacity", "400", "--warmup-steps", "100"]
        assert cli.main(["train", "--env", line, "--steps", "200", "--out", "run", *short]) == 0
        assert "evaluate run --import lines_of_mine" in capsys.readouterr().out
        # As a new process would find it: a run's folder alone makes nothing be imported.
        del sys.modules["lines_of_mine"]
        assert cli.main(["evaluate", "run", "--episodes", "2"]) == 2
        assert "if you trust that module, --import lines_of_mine" in capsys.readouterr().err
        assert "lines_of_mine" not in sys.modules
        gymnasium.registry.pop("Line-v0")
        gymnasium.registry.pop("Bad-v0")
        assert cli.main(["evaluate", "run", "--episodes", "2", "--import", "lines_of_mine"]) == 0

    def test_from_python(self, line):
        sys.path.insert(0, "")
        agent = Agent("m-dqn", env=line, **CHANGES).learn(200)
        assert agent.evaluate(episodes=2).returns.shape == (2,)
        gymnasium.spec("Line-v0")
        assert find("gym/Line-v0").name == "gym/Line-v0"  # once it is registered

    def test_a_module_that_is_not_there(self):
        with pytest.raises(UserError, match="cannot import 'nowhere_to_be_found'"):
            import_module_of("gym/nowhere_to_be_found:X-v0")

    def test_a_name_that_nobody_registered(self):
        with pytest.raises(UserError, match=r"gym/CartPole-v1.*gym/MODULE:ID or --import MODULE"):
            find("gym/Quite-Another-Thing")
        with pytest.raises(UserError, match="did you mean 'gym/CartPole-v1'"):
            find("gym/CartPol-v1")

    @pytest.mark.filterwarnings("ignore:.*The reward is a NaN value")  # Gymnasium's own
    def test_a_reward_that_is_no_number_is_said(self, line):
        sys.path.insert(0, "")
        import_module_of(line)
        with pytest.raises(
            TrainingDiverged, match=r"gym/.*Bad-v0 gave an observation or reward that is"
        ):
            Agent("m-dqn", env="gym/lines_of_mine:Bad-v0", **CHANGES).learn(8)


class TestObservations:
    def test_parts_are_flattened(self, line):
        sys.path.insert(0, "")
        import_module_of(line)
        envs = GymEnvironments("lines_of_mine:Line-v0", 2)
        np.testing.assert_array_equal(envs.reset([0, 1]), [[0, 0, 1, 0, 0, 0.5, 0.5]] * 2)
        assert (envs.spec.frame_shape, envs.spec.frame_dtype) == ((7,), "float32")
        envs.close()

    def test_a_state_becomes_one_hot(self):
        envs = make_host(find("gym/FrozenLake-v1"), 3)
        assert envs.spec.frame_shape == (16,)
        np.testing.assert_array_equal(envs.reset([0, 1, 2]), np.eye(16)[[0, 0, 0]])
        envs.send(np.array([1, 1, 1]))
        assert (envs.receive().frame.sum(axis=1) == 1).all()
        envs.close()

    def test_what_is_watched_is_what_was_learned_from(self):
        screen = GymScreen("FrozenLake-v1", 0)
        np.testing.assert_array_equal(screen.reset(), np.eye(16)[:1])
        assert screen.screen().shape[-1] == 3
        screen.close()

    def test_a_missing_package_is_said(self, monkeypatch):
        def missing(*_, **__):
            raise ModuleNotFoundError("No module named 'flax'")

        monkeypatch.setattr(gymnasium, "make_vec", missing)
        with pytest.raises(UserError, match="needs an extra: No module named 'flax'"):
            GymEnvironments("CartPole-v1", 1)


class Dial(gymnasium.Env):
    """One number without an axis is seen, and there is no picture."""

    observation_space = gymnasium.spaces.Box(-1, 1, (), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        return np.float32(0.5), {}

    def step(self, action):  # noqa: ARG002
        return np.float32(0.25), 1.0, True, False, {}


@pytest.fixture
def dial():
    gymnasium.register("Dial-v0", Dial)
    yield "Dial-v0"
    del gymnasium.registry["Dial-v0"]


@pytest.mark.filterwarnings("ignore")  # Gymnasium's own, of an environment like this
def test_a_number_without_an_axis(dial):
    agent = Agent("m-dqn", env=f"gym/{dial}", **CHANGES).learn(8)
    assert agent.q_values(np.array([0.5])).shape == (2,)
    assert agent.evaluate(episodes=2).returns.tolist() == [1, 1]


@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_drawn_is_said(dial):
    with pytest.raises(UserError, match="gym/Dial-v0 cannot be drawn here"):
        GymScreen(dial, 0)
