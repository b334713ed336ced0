"""Episodes that a limit ends are counted as such."""

import gymnasium
import numpy as np
import pytest

from munchausen import Agent
from munchausen.experiment import evaluation

CHANGES = {"network": "mlp-small", "capacity": 400, "warmup_steps": 100, "batch_size": 8}


class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):  # noqa: ARG002
        return np.zeros(2, np.float32), 1.0, False, False, {}


@pytest.fixture
def endless():
    gymnasium.register("Endless-v0", Endless)
    yield "gym/Endless-v0"
    del gymnasium.registry["Endless-v0"]


def test_a_time_limit_is_said():
    agent = Agent("m-dqn", env="gym/MountainCar-v0", **CHANGES).learn(8)
    result = agent.evaluate(episodes=3)
    assert (result.cut, result.lengths.tolist()) == (3, [200] * 3)


def test_an_environment_without_an_end_is_left_at_the_cap(endless, monkeypatch):
    monkeypatch.setattr(evaluation, "CAP_STEPS", 50)
    result = Agent("m-dqn", env=endless, **CHANGES).learn(8).evaluate(episodes=20)
    # 16 play; the four that were to play a second time are not begun again.
    assert (result.cut, result.returns.tolist()) == (16, [50.0] * 16)
