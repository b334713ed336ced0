"""The device loop: every agent runs, the schedule is Algorithm 1's, lanes are independent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corridor import Corridor
from munchausen._src.agents import AGENTS, override, resolve
from munchausen._src.agents.config import LaneSpec
from munchausen._src.loops.device import DeviceLoop
from munchausen._src.loops.lanes import lane_of

SMALL = {
    "network": "mlp-small",
    "capacity": 256,
    "warmup_steps": 64,
    "batch_size": 8,
    "envs": 8,
    "target_period_steps": 40,
    "fractions": 4,
    "target_fractions": 5,
    "policy_fractions": 6,
    "quantiles": 7,
    "atoms": 11,
    "epsilon_decay_steps": 100,
}


def make_loop(agent="m-dqn", seeds=(0,), *, lanes=None, batched=None, **changes):
    config = override(resolve(agent, "gym"), SMALL | changes)
    if lanes is None:
        lanes = [LaneSpec(agent, seed, config) for seed in seeds]
    return DeviceLoop(config, Corridor(), lanes, batched=batched)


def run(loop, steps=160):
    state, report = loop.advance(loop.init(), 0, steps)
    return loop.snapshot(state), report()


def arrays(tree):
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
        for x in jax.tree.leaves(tree)
    ]


def same_bits(a, b):
    return all(np.array_equal(x, y) for x, y in zip(arrays(a), arrays(b), strict=True))


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_runs_and_is_reproducible(agent):
    loop = make_loop(agent)
    before = loop.snapshot(loop.init())
    after, chunk = run(loop)
    # 160 steps, a warm-up of 64, an update every 4 steps.
    assert chunk.loss.shape == (1, (160 - 64) // 4)
    for metric in (chunk.loss, chunk.q, chunk.action_gap, chunk.entropy):
        assert np.isfinite(metric).all()
    assert (chunk.action_gap >= 0).all()
    assert (chunk.entropy >= 0).all()
    assert not same_bits(before.lane.learner.online, after.lane.learner.online)
    assert len(chunk.episodes[0].returns) > 0
    again, _ = run(loop)
    assert same_bits(after, again)


def test_a_fresh_program_is_the_same_bits():
    assert same_bits(run(make_loop())[0], run(make_loop())[0])


def test_another_seed_is_another_run():
    first, _ = run(make_loop(seeds=(0,)))
    second, _ = run(make_loop(seeds=(1,)))
    assert not same_bits(first.lane.learner.online, second.lane.learner.online)
    assert not same_bits(first.lane.replay.ring, second.lane.replay.ring)


def test_one_stretch_or_many_are_the_same_bits():
    loop = make_loop()
    whole, _ = run(loop)
    state = loop.init()
    for t in range(0, 160, 16):
        state, _ = loop.advance(state, t, 16)
    assert same_bits(whole, loop.snapshot(state))


def test_schedule_of_algorithm_1():
    """One environment: an update every 4 steps after the warm-up, a target copy every 40,
    initialised apart."""
    loop = make_loop(envs=1)
    state, updates = loop.init(), 0
    copied = []
    for t in range(0, 200, 4):
        state, report = loop.advance(state, t, 4)
        updates += report().loss.shape[1]
        after = t + 4
        assert updates == max(0, (after - 64) // 4)
        learner = loop.snapshot(state).lane.learner
        if same_bits(learner.online, learner.target):
            copied.append(after)
    assert copied == [80, 120, 160, 200]


def test_many_environments_keep_the_ratio_of_updates_and_copies():
    for envs in (2, 16):
        loop = make_loop(envs=envs)
        state, report = loop.advance(loop.init(), 0, 320)
        assert report().loss.shape[1] == (320 - 64) // 4
        heads = loop.snapshot(state).lane.replay.ring.head
        # A row for each step, and one more for each truncated episode's last frame.
        assert heads.sum() >= 320
        assert heads.shape == (envs,)


def test_lanes_side_by_side_equal_their_single_runs():
    together, chunk = run(make_loop(seeds=(3, 4, 5)))
    for lane, seed in enumerate((3, 4, 5)):
        alone, single = run(make_loop(seeds=(seed,)))
        assert same_bits(lane_of(together, lane, 3), alone)
        np.testing.assert_array_equal(chunk.loss[lane], single.loss[0])
        np.testing.assert_array_equal(chunk.episodes[lane].returns, single.episodes[0].returns)


def test_lanes_as_a_batch_axis_equal_their_single_runs_up_to_rounding():
    """As accelerators run them. Products are summed in another order there, so a run differs
    from its single one by rounding error; until then acting and storing are the same."""
    together, chunk = run(make_loop(seeds=(3, 4), batched=True), steps=96)
    for lane, seed in enumerate((3, 4)):
        alone, single = run(make_loop(seeds=(seed,)), steps=96)
        mine = lane_of(together, lane, 2)
        assert same_bits(mine.lane.replay.ring, alone.lane.replay.ring)
        np.testing.assert_allclose(chunk.loss[lane], single.loss[0], rtol=1e-4, atol=1e-6)


def test_agents_that_differ_in_the_regulariser_share_a_program():
    names = ("adam-dqn", "soft-dqn", "al", "m-dqn")
    configs = {name: resolve(name, "gym") for name in names}
    lanes = [LaneSpec(name, 0, c) for name, c in configs.items()]
    loop = make_loop("adam-dqn", lanes=lanes)
    _, report = loop.advance(loop.init(), 0, 160)
    shared = report()
    # Two programs in all: one for the warm-up, one for learning.
    assert len(loop._programs) == 2
    for lane, name in enumerate(names):
        _, alone = run(make_loop(name))
        np.testing.assert_allclose(shared.loss[lane], alone.loss[0], rtol=1e-5, atol=1e-7)
    assert len({tuple(row) for row in shared.loss}) == 4


def test_snapshot_restores_to_any_split():
    loop = make_loop(seeds=(3, 4))
    state, _ = loop.advance(loop.init(), 0, 160)
    batched = make_loop(seeds=(3, 4), batched=True)
    snapshot = loop.snapshot(state)
    assert same_bits(batched.snapshot(batched.restore(snapshot)), snapshot)
    assert same_bits(loop.snapshot(loop.restore(snapshot)), snapshot)


def test_learns_the_corridor():
    """Always right: 4 steps or little more to the end."""
    loop = make_loop(target_period_steps=20, learning_rate=1e-2, capacity=2_000, epsilon=0.05)
    _, chunk = run(loop, 2_400)
    assert chunk.episodes[0].returns[-50:].mean() > 0.95
    assert chunk.episodes[0].lengths[-50:].mean() < 7
    assert chunk.episodes[0].lengths[:20].mean() > 7
