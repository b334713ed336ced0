"""The host loop: Gymnasium environments, the same agents."""

import jax
import numpy as np
import pytest

from munchausen._src.agents import override, resolve
from munchausen._src.agents.config import LaneSpec
from munchausen._src.experiment.settings import make_settings
from munchausen._src.experiment.training import Training
from munchausen._src.loops.host import HostLoop
from munchausen._src.suites import find, make_host

SMALL = {
    "network": "mlp-small",
    "capacity": 512,
    "warmup_steps": 64,
    "batch_size": 16,
    "envs": 4,
    "target_period_steps": 40,
}


def make_loop(agent="m-dqn", seeds=(0,), env="gym/CartPole-v1", batches=1, **changes):
    config = override(resolve(agent, "gym"), SMALL | changes)
    lanes = [LaneSpec(agent, seed, config) for seed in seeds]
    return HostLoop(config, lambda count: make_host(find(env), count), lanes, batches=batches)


def run(loop, steps=400):
    state, report = loop.advance(loop.init(), 0, steps)
    loop.close()
    return state, report()


@pytest.mark.parametrize("agent", ("m-dqn", "m-iqn", "m-rainbow", "qr-dqn"))
def test_runs_and_is_reproducible(agent):
    state, chunk = run(make_loop(agent))
    assert chunk.loss.shape == (1, (400 - 64) // 4)
    assert np.isfinite(chunk.loss).all()
    again, repeated = run(make_loop(agent))
    np.testing.assert_array_equal(chunk.loss, repeated.loss)
    np.testing.assert_array_equal(state.lane.replay.ring.rewards, again.lane.replay.ring.rewards)


def test_episodes_are_counted_whole():
    """CartPole gives 1 a step: return and length of an episode agree, and add up."""
    state, chunk = run(make_loop())
    episodes = chunk.episodes[0]
    np.testing.assert_array_equal(episodes.returns, episodes.lengths)
    assert episodes.lengths.sum() + state.episode_length.sum() == 400


def test_lanes_play_their_own_episodes():
    _, together = run(make_loop(seeds=(1, 2)), 60 * 4)
    for lane, seed in enumerate((1, 2)):
        _, alone = run(make_loop(seeds=(seed,)), 60 * 4)
        # During the warm-up nothing is learned yet: the very same play.
        count = 3
        np.testing.assert_array_equal(
            together.episodes[lane].returns[:count], alone.episodes[0].returns[:count]
        )


def test_truncation_keeps_the_final_frame():
    """MountainCar is cut at 200 steps: its last frame is stored and bootstrapped from."""
    loop = make_loop(env="gym/MountainCar-v0", envs=1, capacity=1_000)
    state, _ = run(loop, 404)
    ring = jax.tree.map(np.asarray, state.lane.replay.ring)
    final = np.flatnonzero(ring.kinds[:, 0] == 2)
    np.testing.assert_array_equal(final, [200, 401])  # rows 0..199, the final frame, 201..
    step = np.abs(ring.frames[200, 0] - ring.frames[199, 0])
    assert step[0] < 0.07  # one more move of the car, not a jump to a new start
    assert ring.head == 404 + 2


def test_resume_cuts_running_episodes():
    loop = make_loop()
    state, _ = loop.advance(loop.init(), 0, 200)
    rows = np.asarray(state.lane.replay.ring.head)
    resumed = loop.restore(loop.snapshot(state))
    loop.close()
    np.testing.assert_array_equal(resumed.lane.replay.ring.head, rows + 1)
    for env in range(4):
        assert resumed.lane.replay.ring.kinds[rows[env] % 128, env] == 2
    assert (resumed.episode_length == 0).all()


@pytest.mark.parametrize("batches", (1, 2))
def test_training_goes_on_from_where_it_was_only_played(batches):
    """The actions on their way are the last ones played: they are the first to be stored."""
    loop = make_loop(seeds=(1, 2), envs=8, batches=batches)
    state, played = loop.init(), np.random.default_rng(0).integers(0, 2, (3, 2, 8), np.int32)
    for actions in played:
        loop.play(actions)
    state, _ = loop.advance(state, 0, 80)
    loop.close()
    np.testing.assert_array_equal(state.lane.replay.ring.actions[:, 0], played[-1])
    np.testing.assert_array_equal(state.lane.replay.ring.head, np.full((2, 8), 10))


@pytest.mark.parametrize("env", ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3"))
def test_presets_of_classic_control(env):
    settings = make_settings(
        ["m-dqn"], f"gym/{env}", seeds=[0], steps=800, changes={"network": "mlp-small"}
    )
    training = Training(settings)
    training.start()
    training.run()
    training.close()
    assert training.accounts[0].updates == (800 - settings.config.warmup_steps) // 4


@pytest.mark.slow
@pytest.mark.parametrize("agent", ("adam-dqn", "m-dqn", "m-iqn-1step"))
def test_learns_cartpole(agent):
    settings = make_settings(
        [agent], "gym/CartPole-v1", seeds=[0], steps=30_000, changes={"network": "mlp-small"}
    )
    training = Training(settings)
    training.start()
    training.run()
    training.close()
    assert training.accounts[0].score > 100  # random play: about 22
