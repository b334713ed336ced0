"""When the host loop stores, learns, acts and copies: Algorithm 1 with one environment, and
the same ratios with many."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen._src.agents import override, resolve
from munchausen._src.agents.config import LaneSpec
from munchausen._src.core.replay.ring import gather
from munchausen._src.loops.host import HostLoop
from munchausen._src.suites.spec import EnvironmentSpec, HostSteps

LENGTH = 7  # steps of an episode


class Recorded:
    """A stream known beforehand: the frame counts the steps, the reward is the step's number,
    every seventh step ends an episode."""

    spec = EnvironmentSpec("recorded", (2,), "float32", 3, truncates=True)

    def __init__(self, log, count):
        self.log, self.count, self.t = log, count, 0

    def _frames(self):
        return np.stack([np.array([self.t, env], np.float32) for env in range(self.count)])

    def reset(self, seeds):
        assert len(seeds) == self.count
        return self._frames()

    def send(self, actions):
        self.log.append(("send", actions.copy()))

    def receive(self):
        self.t += 1
        done = np.full(self.count, self.t % LENGTH == 0)
        reward = np.full(self.count, self.t, np.float32)
        self.log.append(("receive", self.t))
        return HostSteps(self._frames(), reward, done, np.zeros_like(done), done, None)

    def close(self):
        pass


def make_loop(log, batches=1, make_envs=Recorded, **changes):
    small = {
        "network": "mlp-small",
        "warmup_steps": 20,
        "capacity": 200,
        "batch_size": 4,
        "target_period_steps": 16,
        "clip_rewards": False,
    }
    config = override(resolve("m-dqn", "gym"), small | changes)
    lane = LaneSpec("m-dqn", 0, config)
    loop = HostLoop(config, partial(make_envs, log), [lane], batches=batches)
    original = loop.programs._call

    def spy(key, *arguments):
        log.append(key)
        return original(key, *arguments)

    loop.programs._call = spy
    return loop


def test_one_environment_is_algorithm_1():
    log = []
    loop = make_loop(log, envs=1)
    state, report = loop.advance(loop.init(), 0, 40)
    report()
    loop.close()
    steps, now = {}, 0
    for what, *detail in log:
        now = detail[0] if what == "receive" else now
        steps.setdefault(now, []).append(what)
    for t in range(1, 41):
        learns = t > 20 and t % 4 == 0
        copies = t > 20 and t % 16 == 0
        wanted = ["receive", "store", *["learn"] * learns, *["copy"] * copies, "act", "send"]
        assert steps[t] == wanted, t

    # What is stored is the stream: s_t, a_t, r_t, and the end of each episode.
    sent = [entry[1][0] for entry in log if entry[0] == "send"]
    ring = state.lane.replay.ring
    row = jnp.arange(39)
    batch = gather(ring, row, jnp.zeros(39, jnp.int32), n_step=1, stack=1, discount=0.99)
    np.testing.assert_array_equal(batch.observation_tm1[:, 0], np.arange(39))
    np.testing.assert_array_equal(batch.a_tm1, sent[:39])
    np.testing.assert_array_equal(batch.r_t, np.arange(1, 40))
    ends = np.arange(1, 40) % LENGTH == 0
    np.testing.assert_allclose(batch.discount_t, np.where(ends, 0.0, 0.99))
    alive = ~ends
    np.testing.assert_array_equal(batch.observation_t[alive, 0], np.arange(1, 40)[alive])


@pytest.mark.parametrize(
    ("envs", "batches", "warmup", "updates"),
    (
        (8, 1, 20, 16),  # one batch passes the warm-up's end at step 24, with two updates due
        (8, 2, 20, 15),
        (16, 4, 32, 12),
    ),
)
def test_many_environments_keep_the_ratios(envs, batches, warmup, updates):
    """One update for every 4 steps, a copy for every 16, after the same warm-up."""
    log = []
    loop = make_loop(log, batches, envs=envs, warmup_steps=warmup)
    assert len(loop.envs) == batches
    state, report = loop.advance(loop.init(), 0, 80)
    chunk = report()
    loop.close()
    assert chunk.loss.shape == (1, updates)
    assert sum(what == "copy" for what, *_ in log) == 80 // 16 - warmup // 16
    # All streams are stored whole, whichever batch they were in.
    rows = 80 // envs
    assert (np.asarray(state.lane.replay.ring.head) == rows).all()
    rewards = np.asarray(state.lane.replay.ring.rewards[:rows])
    np.testing.assert_array_equal(rewards, np.repeat(np.arange(1, rows + 1)[:, None], envs, axis=1))


def test_a_batch_is_acted_for_before_learning_starts():
    """So that its emulators run while the device learns."""
    log = []
    loop = make_loop(log, 2, envs=8)
    state, _ = loop.advance(loop.init(), 0, 24)  # the warm-up
    log.clear()
    loop.advance(state, 24, 64)[1]()
    loop.close()
    words = [what for what, *_ in log if what in ("receive", "store and act", "learn")]
    assert words == ["receive", "store and act", "learn"] * (64 // 4)


class Overwriting(Recorded):
    """As emulators may: what was received is overwritten as soon as the next actions are there.
    Hand-overs take their time, and if asked to fail from the third on."""

    def __init__(self, log, count, *, fails=False):
        super().__init__(log, count)
        self.frames = self._frames()
        self.fails, self.sends, self.on_their_way = fails, 0, False

    def send(self, actions):
        assert not self.on_their_way
        self.sends += 1
        if self.fails and self.sends >= 3:
            raise ValueError("no such action")
        for _ in range(1_000 * (self.sends % 3)):
            actions.sum()
        self.frames[:] = -1.0
        self.on_their_way = True
        super().send(actions)

    def receive(self):
        assert self.on_their_way
        self.on_their_way = False
        step = super().receive()
        self.frames = step.frame
        return step


def run(batches, *, waits_itself):
    loop = make_loop([], batches, Overwriting, envs=16, warmup_steps=32)
    if waits_itself:
        loop._sender.submit = lambda function, *arguments: function(*arguments)
    state, chunks = loop.init(), []
    try:
        for t in (0, 80):
            state, report = loop.advance(state, t, 80)
            chunks.append(report())
    finally:
        loop.close()
    return state, chunks


@pytest.mark.parametrize("batches", (1, 2, 4))
def test_actions_handed_over_meanwhile_change_nothing(batches):
    """No outcome is asked for before its actions are there, and what was received is used up
    before the next ones are: the same bits as in a loop that waits for each."""
    expected, actual = (run(batches, waits_itself=waits) for waits in (True, False))
    for ours, theirs in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        if jnp.issubdtype(ours.dtype, jax.dtypes.prng_key):
            ours, theirs = jax.random.key_data(ours), jax.random.key_data(theirs)
        np.testing.assert_array_equal(ours, theirs)
    assert np.asarray(actual[0].lane.replay.ring.frames)[:11].min() >= 0


@pytest.mark.parametrize(("envs", "batches"), ((1, 1), (8, 2)))
def test_a_loop_that_was_stopped_within_a_turn_does_not_wait_for_ever(envs, batches):
    loop = make_loop([], batches, envs=envs)
    state, _ = loop.advance(loop.init(), 0, 24)

    def interrupted(*_):
        raise KeyboardInterrupt

    store, loop._store = loop._store, interrupted
    with pytest.raises(KeyboardInterrupt):
        loop.advance(state, 24, 8)
    loop._store = store
    with pytest.raises(RuntimeError, match="cannot continue"):
        loop.advance(state, 24, 8)
    state, report = loop.advance(loop.init(), 0, 24)  # but from the beginning
    assert report().episodes[0].returns.size
    loop.close()


def test_actions_that_cannot_be_handed_over():
    """The loop says why, also when it is asked again, and does not wait for their outcome."""
    loop = make_loop([], 2, partial(Overwriting, fails=True), envs=16, warmup_steps=32)
    state = loop.init()
    for _ in range(2):
        with pytest.raises(ValueError, match="no such action"):
            loop.advance(state, 0, 160)
    loop.close()
