"""The stream in plain Python, where every episode is kept whole in lists, and random streams
that feed it and the ring alike.

Every pixel of every frame has a number of its own, as has every action, so what equals the
reference came from that very step of that very environment.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from munchausen._src.core.replay import Outcome, Ring
from munchausen._src.core.replay import ring as replay

ROWS = 11  # of each environment's ring: prime, and little more than the least that is allowed
TICKS = 40
DISCOUNT = 0.9


class Expected(NamedTuple):
    """One n-step transition, and the first and last row of the stream that it needs."""

    observation_tm1: np.ndarray
    action: int
    reward: float
    discount: float
    observation_t: np.ndarray | None  # None on termination: nothing is bootstrapped
    oldest: int
    newest: int


@dataclass
class Episode:
    start: int  # the row of its first frame
    frames: list[np.ndarray]  # without the outcome of a terminal step, which is not kept
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    ending: str = "none yet"

    def observation(self, t: int, stack: int) -> np.ndarray:
        nothing = np.zeros_like(self.frames[0])
        frames = [self.frames[i] if i >= 0 else nothing for i in range(t - stack + 1, t + 1)]
        if nothing.ndim == 2:
            return np.stack(frames, axis=-1)
        return np.concatenate(frames, axis=-1)

    def transition(self, t: int, n_step: int, stack: int) -> Expected | None:
        """From step `t`; None while its outcome is still to come."""
        rewards = self.rewards[t : t + n_step]
        last = t + len(rewards)
        if len(rewards) < n_step and self.ending == "none yet":
            return None
        terminal = self.ending == "terminated" and last == len(self.actions)
        return Expected(
            observation_tm1=self.observation(t, stack),
            action=self.actions[t],
            reward=sum(DISCOUNT**k * reward for k, reward in enumerate(rewards)),
            discount=0.0 if terminal else DISCOUNT ** len(rewards),
            observation_t=None if terminal else self.observation(last, stack),
            oldest=self.start + max(t - stack + 1, 0),
            newest=self.start + (last - 1 if terminal else last),
        )


class Stream:
    """The episodes of one environment."""

    def __init__(self, first_frame: np.ndarray):
        self.episodes = [Episode(0, [first_frame])]

    @property
    def running(self) -> Episode:
        return self.episodes[-1]

    @property
    def head(self) -> int:
        return self.running.start + len(self.running.frames) - 1

    def step(self, action: int, reward: float, ending: str, outcome, next_frame) -> None:
        self.running.actions.append(action)
        self.running.rewards.append(reward)
        if ending != "terminated":
            self.running.frames.append(outcome)
        if ending != "none yet":
            self.end(ending, next_frame)

    def end(self, ending: str, first_frame: np.ndarray) -> None:
        self.running.ending = ending
        self.episodes.append(Episode(self.head + 1, [first_frame]))

    def whole(self, n_step: int, stack: int) -> dict[int, Expected]:
        """By row: all complete transitions that need none but the last `ROWS` rows."""
        oldest = self.head - ROWS + 1
        found = {}
        for episode in self.episodes:
            if episode.start + len(episode.frames) > oldest:
                for t in range(len(episode.actions)):
                    transition = episode.transition(t, n_step, stack)
                    if transition is not None and transition.oldest >= oldest:
                        assert transition.newest <= self.head
                        found[episode.start + t] = transition
        return found

    def eligible(self, n_step: int, stack: int) -> dict[int, Expected]:
        """All that are whole, but for two kinds that the ring gives up for simplicity:

        - the newest `n_step` rows (the current frame's among them), although their outcome is
          known where an episode has just ended;
        - the `stack` - 1 rows behind the write head, full or about to be, although they are
          whole where an episode began among them.
        """
        oldest = self.head - ROWS + 1
        first = max(oldest + stack - 1, 0)
        whole = self.whole(n_step, stack)
        return {row: x for row, x in whole.items() if first <= row <= self.head - n_step}


class Case(NamedTuple):
    """What is static, and so costs a compilation."""

    envs: int
    stack: int
    n_step: int
    frame_shape: tuple[int, ...]
    truncates: bool = True

    @property
    def batch(self) -> int:
        """One size for all batches of transitions: as many as the ring has slots."""
        return ROWS * self.envs


_FRAMES = itertools.cycle([(2,), (2, 3), (2, 1, 3)])
CASES = [
    *(Case(*c, next(_FRAMES)) for c in itertools.product((1, 3), (1, 3, 4), (1, 3))),
    Case(3, 4, 3, (2, 3), truncates=False),
    Case(1, 1, 1, (2,), truncates=False),
]


class Plan(NamedTuple):
    """How long the episodes of each environment are and how they end, over and over again;
    and the ticks at which all running ones are cut from outside."""

    episodes: list[list[tuple[int, str]]]
    cuts: frozenset[int] = frozenset()


_ENDINGS = st.sampled_from(["terminated", "truncated", "both"])
_EPISODES = st.lists(st.tuples(st.integers(1, 16), _ENDINGS), min_size=1, max_size=8)
PLANS = st.builds(
    Plan,
    st.lists(_EPISODES, min_size=3, max_size=3),
    st.frozensets(st.integers(0, TICKS - 1), max_size=4),
)


class Moment(NamedTuple):
    ring: Ring
    cut: jax.Array  # which environments the last `append` moved by two rows
    streams: list[Stream]

    def eligible(self, case: Case) -> dict[tuple[int, int], Expected]:
        """By environment and row."""
        return {
            (env, row): transition
            for env, stream in enumerate(self.streams)
            for row, transition in stream.eligible(case.n_step, case.stack).items()
        }


make_ring = jax.jit(replay.make_ring, static_argnames="capacity")
append = jax.jit(replay.append, static_argnames=("truncates", "first"))
cut_episodes = jax.jit(replay.cut_episodes)
gather = jax.jit(replay.gather, static_argnames=("n_step", "stack", "discount"))


def play(
    case: Case, plan: Plan, *, ticks: int = TICKS, cut_at_first_frames: bool = True
) -> Iterator[Moment]:
    """The ring and its reference at the start, after each step and after each cut.

    Without `cut_at_first_frames` a cut waits until no episode is at its first frame: a cut
    there leaves two FINAL rows on end, or a stream of nothing else.
    """
    size = int(np.prod(case.frame_shape))
    dtype = np.float32 if len(case.frame_shape) == 1 else np.uint16
    numbers = itertools.count(1)
    rewards = np.random.default_rng(0)

    def new_frame() -> np.ndarray:
        pixels = next(numbers) * size + np.arange(size)
        return pixels.reshape(case.frame_shape).astype(dtype)

    def new_frames() -> list[np.ndarray]:
        return [new_frame() for _ in range(case.envs)]

    frames = new_frames()
    streams = [Stream(frame) for frame in frames]
    # A capacity that the environments do not divide: the rest is left out.
    ring = make_ring(np.stack(frames), capacity=case.batch + case.envs - 1)
    nothing_cut = jnp.zeros(case.envs, bool)
    yield Moment(ring, nothing_cut, streams)

    plans = [itertools.cycle(episodes) for episodes in plan.episodes[: case.envs]]
    left, endings = map(list, zip(*(next(p) for p in plans), strict=True))
    due = False
    for tick in range(ticks):
        due = due or (case.truncates and tick in plan.cuts)
        if due and (cut_at_first_frames or all(s.running.actions for s in streams)):
            due, frames = False, new_frames()
            for env, stream in enumerate(streams):
                stream.end("truncated", frames[env])
                left[env], endings[env] = next(plans[env])
            ring = cut_episodes(ring, np.stack(frames))
            yield Moment(ring, nothing_cut, streams)

        actions = np.arange(case.envs, dtype=np.int32) + tick * case.envs
        reward = rewards.normal(size=case.envs).astype(np.float32)
        # Where nothing ends the current frame is the outcome itself.
        outcomes = new_frames()
        frames = list(outcomes)
        terminated, truncated = np.zeros((2, case.envs), bool)
        for env, stream in enumerate(streams):
            ending = "none yet"
            left[env] -= 1
            if left[env] == 0:
                terminated[env] = endings[env] != "truncated" or not case.truncates
                truncated[env] = endings[env] != "terminated" and case.truncates
                ending = "terminated" if terminated[env] else "truncated"
                frames[env] = new_frame()
                left[env], endings[env] = next(plans[env])
            stream.step(actions[env], reward[env], ending, outcomes[env], frames[env])
        outcome = Outcome(reward, terminated, truncated, np.stack(frames), np.stack(outcomes))
        # All environments at once, or one first and then the others.
        cuts = []
        for some in [slice(0, 1), slice(1, case.envs)] if tick % 3 == 1 else [slice(0, case.envs)]:
            part = jax.tree.map(lambda x, some=some: x[some], outcome)
            if len(part.reward):
                ring, cut = append(
                    ring, actions[some], part, truncates=case.truncates, first=some.start
                )
                cuts.append(cut)
        yield Moment(ring, jnp.concatenate(cuts), streams)


def assert_gathers(
    case: Case, ring: Ring, row: np.ndarray, env: np.ndarray, wanted: list[Expected | None]
) -> None:
    """That the transitions of these rows are those wanted; None is not looked at."""
    arguments = {"n_step": case.n_step, "stack": case.stack, "discount": DISCOUNT}
    batch = gather(ring, row.astype(np.int32), env.astype(np.int32), **arguments)
    observation_tm1, observation_t = (
        np.asarray(batch.observation_tm1),
        np.asarray(batch.observation_t),
    )
    chosen = [i for i, x in enumerate(wanted) if x is not None]
    if not chosen:
        return
    kept = [wanted[i] for i in chosen]
    observations = np.stack([x.observation_tm1 for x in kept])
    assert observation_tm1.dtype == observation_t.dtype == observations.dtype
    np.testing.assert_array_equal(observation_tm1[chosen], observations)
    np.testing.assert_array_equal(np.asarray(batch.a_tm1)[chosen], [x.action for x in kept])
    rewards = [x.reward for x in kept]
    np.testing.assert_allclose(np.asarray(batch.r_t)[chosen], rewards, rtol=1e-5, atol=1e-6)
    discounts = [x.discount for x in kept]
    np.testing.assert_allclose(np.asarray(batch.discount_t)[chosen], discounts, rtol=1e-6)
    chosen = [i for i in chosen if wanted[i].observation_t is not None]
    if chosen:
        observations = np.stack([wanted[i].observation_t for i in chosen])
        np.testing.assert_array_equal(observation_t[chosen], observations)


def assert_frequencies(counts: np.ndarray, probabilities: np.ndarray) -> None:
    """χ² no more than five standard deviations above its mean: about 1 chance in 10⁵."""
    assert (counts[probabilities == 0] == 0).all()
    counts, probabilities = counts[probabilities > 0], probabilities[probabilities > 0]
    expected = counts.sum() * probabilities
    assert expected.min() > 20, "too few draws for χ²"
    freedom = len(counts) - 1
    statistic = np.sum((counts - expected) ** 2 / expected)
    assert statistic < freedom + 5 * np.sqrt(2 * freedom), counts / expected
