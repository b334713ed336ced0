"""Episodes that a limit ends are counted as such, and programs are compiled once."""

import gymnasium
import numpy as np
import pytest

from munchausen import Agent
from munchausen._src.errors import UserError
from munchausen._src.experiment import evaluation

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


def test_other_networks_seeds_and_epsilons_need_no_other_program():
    """A training has a phase after every iteration."""
    evaluation._host_programs.cache_clear()
    small = {"envs": 4, "capacity": 400, "warmup_steps": 100, "network": "minatar-linear"}
    agents = [Agent("m-dqn", seed=seed, **small).learn(8) for seed in (0, 1)]
    for i, agent in enumerate(agents):
        agent.evaluate(episodes=2, epsilon=1.0 - 0.1 * i, seed=i)
    settings = agents[0]._settings
    program = evaluation._device_program(settings.listing, settings.config, 2, False)
    assert program._cache_size() == 1
    agents = [Agent("m-dqn", "gym/CartPole-v1", seed=seed, **CHANGES).learn(8) for seed in (0, 1)]
    for i, agent in enumerate(agents):
        agent.evaluate(episodes=2, epsilon=1.0 - 0.1 * i, seed=i)
    programs = evaluation._host_programs(agents[0].config, 2)
    assert (programs.decide._cache_size(), programs.store._cache_size()) == (1, 1)


@pytest.mark.parametrize("seed", (-1, 2**31, 2**64))
def test_a_seed_that_is_none(seed):
    agent = Agent("m-dqn", "gym/CartPole-v1", **CHANGES).learn(8)
    with pytest.raises(UserError, match="a seed is a whole number from 0 to"):
        agent.evaluate(episodes=1, seed=seed)
    with pytest.raises(UserError, match="a seed is a whole number from 0 to"):
        Agent("m-dqn", "gym/CartPole-v1", seed=seed, **CHANGES)
