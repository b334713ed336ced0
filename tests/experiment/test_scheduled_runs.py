"""Runs whose numbers change as they go on: trained, gone on with, kept and played."""

import json

import numpy as np
import pytest

from command_line import CARTPOLE, SMALL, assert_refused, munchausen
from munchausen import Agent
from munchausen._src.errors import UserError
from munchausen._src.experiment.policy import load_run

TAU = ["--tau", "linear:0.1:0.02", "--epsilon", "linear:1:0.1:400"]


class TestOnTheCommandLine:
    @pytest.fixture(scope="class")
    @staticmethod
    def run(tmp_path_factory):
        run = tmp_path_factory.mktemp("scheduled") / "run"
        arguments = ("train", *SMALL, *TAU, "--steps", "800", "--out", str(run))
        assert munchausen(*arguments).code == 0
        return run

    def config(self, run):
        return json.loads((run / "config.json").read_text())

    def test_more_steps_keep_the_schedule_and_its_end(self, run):
        assert self.config(run)["lanes"][0]["tau"] == "linear:0.1:0.02:800"
        resume = ("train", "--resume", "--out", str(run))
        assert munchausen(*resume, "--steps", "1200").code == 0
        # The command that began the run, with more steps: what a sweep says again.
        assert munchausen(*resume, *SMALL, *TAU, "--steps", "1600").code == 0
        assert self.config(run)["steps"] == 1600
        assert self.config(run)["lanes"][0]["tau"] == "linear:0.1:0.02:800"
        assert load_run(run).regulariser.tau == 0.02

    def test_another_schedule_is_refused(self, run):
        resume = ("train", "--resume", "--out", str(run), "--tau")
        assert_refused(munchausen(*resume, "linear:0.1:0.03"), "tau: the run has linear:0.1:0.02:8")
        assert_refused(munchausen(*resume, "0.02"), "tau: the run has linear:0.1:0.02:8")

    def test_it_is_played(self, run):
        assert munchausen("evaluate", str(run), "--episodes", "1").code == 0


CHANGES = {"envs": 4, "capacity": 4000, "warmup_steps": 400, "batch_size": 16}


@pytest.mark.parametrize(
    ("env", "network", "shape"),
    [("gym/CartPole-v1", "mlp-small", (4,)), ("minatar/breakout", "minatar-linear", (10, 10, 4))],
)
@pytest.mark.parametrize(
    "changed", [{"tau": "piecewise:0.1:900:0.01"}, {"alpha": "piecewise:0.9:900:0.1"}]
)
def test_it_learns_by_the_schedule(env, network, shape, changed):
    """A constant, and a schedule that is this constant up to step 900: one run until then."""
    constant = {name: text.split(":")[1] for name, text in changed.items()}
    observation = np.arange(np.prod(shape)).reshape(shape) % 3 / 2
    agents = [
        Agent("m-dqn", env=env, network=network, **{"learning_rate": 1e-2} | CHANGES | given)
        for given in (constant, changed)
    ]
    q = [agent.learn(800).q_values(observation) for agent in agents]
    np.testing.assert_allclose(q[0], q[1], rtol=1e-4, atol=1e-5)
    q = [agent.learn(400).q_values(observation) for agent in agents]
    assert np.abs(q[0] - q[1]).max() > 1e-3


class TestInPython:
    """A function is known where it was given; a file has its name."""

    @pytest.fixture(scope="class")
    @staticmethod
    def run(tmp_path_factory):
        def cooling(step):
            return 0.1 / (1 + step / 400)

        run = tmp_path_factory.mktemp("function") / "run"
        changes = CHANGES | {"tau": cooling, "alpha": "linear:0:0.9", "network": "mlp-small"}
        agent = Agent("m-dqn", env="gym/CartPole-v1", **changes)
        agent.learn(800, out=run).learn(400)
        agent.save(run.parent / "agent.safetensors")
        return agent, run

    def test_schedules_last_as_long_as_the_first_call(self, run):
        _, place = run
        config = json.loads((place / "config.json").read_text())["lanes"][0]
        assert config["alpha"] == "linear:0:0.9:800"
        assert config["tau"].startswith("function:")
        assert config["tau"].endswith("cooling")

    def test_it_is_played_with_from_its_file(self, run):
        agent, place = run
        for path in (place, place.parent / "agent.safetensors"):
            loaded = Agent.load(path)
            observation = np.array([0.1, -0.2, 0.03, 0.4], np.float32)
            np.testing.assert_array_equal(loaded.q_values(observation), agent.q_values(observation))
            assert loaded.predict(observation) == agent.predict(observation)

    def test_it_is_not_resumed_without_the_function(self, run):
        _, place = run
        before = (place / "config.json").read_text()
        result = munchausen("train", "--resume", "--out", str(place), "--steps", "1600")
        assert_refused(result, "cooling", "give it again from Python")
        assert (place / "config.json").read_text() == before

    def test_a_function_that_leaves_the_range(self):
        agent = Agent(env="gym/CartPole-v1", epsilon=lambda step: 1 - step / 500, **CHANGES)
        with pytest.raises(UserError, match=r"epsilon must be in \[0, 1\].*at step 5"):
            agent.learn(800)


def test_a_function_has_no_text(tmp_path):
    result = munchausen("train", *CARTPOLE, "--tau", "function:f", "--out", str(tmp_path / "run"))
    assert_refused(result, "'f'", "from Python")
    assert not (tmp_path / "run").exists()
