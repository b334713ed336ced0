"""A replay of whole transitions against a plain list of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from munchausen import UserError, core

CAPACITY = 7
EXAMPLE = core.Transitions(np.zeros(2, np.float32), 0, 0.0, 0.0, np.zeros(2, np.float32))
few = settings(derandomize=True, deadline=None, max_examples=30)


def numbered(first, count):
    """Transitions whose parts all say which one they are."""
    n = np.arange(first, first + count)
    states = np.stack([n, -n], axis=1).astype(np.float32)
    return core.Transitions(states, n, n + 0.5, n / 100, states + 0.25)


def number_of(batch):
    """Which ones these are; no part may be another's."""
    n = np.asarray(batch.a_tm1)
    wanted = numbered(0, 1000)
    for ours, theirs in zip(batch, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs[n], rtol=1e-6)
    return n


@few
@given(counts=st.lists(st.integers(1, CAPACITY), min_size=1, max_size=8))
def test_it_holds_the_newest(counts):
    replay = core.TransitionReplay(CAPACITY)
    state, total = replay.init(EXAMPLE), 0
    for i, count in enumerate(counts):
        state = replay.add(state, numbered(total, count))
        total += count
        drawn = number_of(replay.sample(state, jax.random.key(i), 200).transitions)
        assert set(drawn) == set(range(max(0, total - CAPACITY), total))


@few
@given(
    counts=st.lists(st.integers(1, CAPACITY), min_size=1, max_size=6),
    priorities=st.lists(st.sampled_from([0.25, 1.0, 9.0]), min_size=CAPACITY, max_size=CAPACITY),
)
def test_priorities_of_the_newest(counts, priorities):
    """New ones get the largest there was; a draw's share is its priority's."""
    replay = core.TransitionReplay(CAPACITY, prioritised=True)
    state, total, model, largest = replay.init(EXAMPLE), 0, {}, 1.0
    for i, count in enumerate(counts):
        state = replay.add(state, numbered(total, count))
        model |= dict.fromkeys(range(total, total + count), largest)
        total += count
        model = {n: p for n, p in model.items() if n >= total - CAPACITY}
        sample = replay.sample(state, jax.random.key(i), 400)
        drawn = number_of(sample.transitions)
        counted = np.bincount(drawn, minlength=total)
        shares = np.array([model.get(n, 0.0) for n in range(total)])
        np.testing.assert_allclose(counted, 400 * shares / shares.sum(), atol=2.01)
        weights = 1 / np.sqrt([model[n] for n in drawn])
        np.testing.assert_allclose(sample.weights, weights / weights.max(), rtol=1e-5)
        places = np.unique(sample.places)
        new = np.array([priorities[p] for p in places], np.float32)
        state = replay.update_priorities(state, jnp.asarray(places), jnp.asarray(new))
        of_place = dict(zip(np.asarray(sample.places).tolist(), drawn.tolist(), strict=True))
        model |= {of_place[p]: float(x) for p, x in zip(places.tolist(), new, strict=True)}
        largest = max(largest, *new.tolist())


def test_a_uniform_replay_has_no_priorities_to_update():
    replay = core.TransitionReplay(CAPACITY)
    state = replay.add(replay.init(EXAMPLE), numbered(0, 3))
    sample = replay.sample(state, jax.random.key(0), 4)
    assert sample.weights is None
    assert replay.update_priorities(state, sample.places, jnp.ones(4)) is state


def test_what_does_not_fit():
    replay = core.TransitionReplay(CAPACITY)
    state = replay.init(EXAMPLE)
    with pytest.raises(UserError, match="a batch of 8 transitions does not fit a replay of 7"):
        replay.add(state, numbered(0, 8))
    with pytest.raises(UserError, match=r"a_tm1 \[2\]"):
        replay.add(state, numbered(0, 3)._replace(a_tm1=np.zeros(2, int)))
    with pytest.raises(UserError, match="needs room for a transition, not 0"):
        core.TransitionReplay(0).init(EXAMPLE)


def test_an_example_of_zeros_does_not_make_rewards_whole_numbers():
    replay = core.TransitionReplay(CAPACITY)
    state = replay.init(core.Transitions({"a": np.zeros(2)}, 0, 0, 0, {"a": np.zeros(2)}))
    seen, numbers = {"a": np.full((3, 2), 0.25)}, (np.full(3, 0.7), np.full(3, 0.9))
    state = replay.add(state, core.Transitions(seen, np.ones(3, int), *numbers, seen))
    batch = replay.sample(state, jax.random.key(0), 5).transitions
    np.testing.assert_allclose(batch.r_t, 0.7, rtol=1e-6)
    np.testing.assert_allclose(batch.discount_t, 0.9, rtol=1e-6)
    np.testing.assert_allclose(batch.observation_t["a"], 0.25)
