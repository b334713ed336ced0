"""Priorities follow the ring's eligible transitions, and draws follow the priorities."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import CASES, PLANS, ROWS, assert_frequencies, assert_gathers, play

from munchausen._src.core.replay import FrameReplay, FrameStore, Priorities
from munchausen._src.core.replay import ring as rings
from munchausen._src.core.replay.frames import rows_at
from munchausen._src.core.replay.prioritised import draw, make_priorities, put


@partial(jax.jit, static_argnames=("n_step", "stack", "first"))
def advance(priorities, ring, cut, *, n_step, stack, first):
    replay = FrameReplay(1, 1.0, n_step, stack, prioritised=True)
    return replay._follow(FrameStore(ring, priorities), ring, cut, first).priorities


def sample_now(priorities, ring, key, batch):
    places, weights = draw(priorities, key, batch)
    return *rows_at(ring, places), weights


sample = jax.jit(sample_now, static_argnames="batch")


@jax.jit
def update(priorities, ring, row, env, losses):
    return put(priorities, row % ring.rows * ring.envs + env, jnp.sqrt(losses + 1e-10))


def importance_weights(priorities):
    weights = 1 / np.sqrt(np.asarray(priorities, np.float64) + 1e-10)
    return weights / weights.max()


def made_loss(env, row):
    """A transition drawn twice in one batch has the same loss both times."""
    return np.random.default_rng([env, row]).choice([0.0, 1e-8, 1e-3, 0.2, 3.0, 40.0])


def filled(values, envs=1, wraps=3):
    """These priorities by slot and environment, and a ring whose head is in its middle."""
    values = np.asarray(values, np.float32)
    empty = make_priorities(values.size)
    padded = np.zeros(empty.values.size, np.float32)
    padded[: values.size] = values
    rows = values.size // envs
    ring = rings.make_ring(jnp.zeros((envs, 1)), values.size)
    heads = jnp.arange(envs, dtype=jnp.int32) + wraps * rows + rows // 2
    return Priorities(padded.reshape(empty.values.shape), empty.largest), ring._replace(head=heads)


@pytest.mark.parametrize("case", CASES, ids=str)
@settings(derandomize=True, deadline=None, max_examples=8)
@given(plan=PLANS, learns=st.integers(1, 5))
def test_priorities_of_a_stream(case, plan, learns):
    """Positive exactly where eligible: the largest seen when new, then as losses come in."""
    model, largest = {}, np.float32(1.0)
    priorities = make_priorities(case.batch)
    for i, moment in enumerate(play(case, plan)):
        ring = moment.ring
        # All environments at once, or one first and then the others.
        for some in [slice(0, 1), slice(1, None)] if i % 2 else [slice(0, None)]:
            cut = moment.cut[some]
            if i and len(cut):
                arguments = {"n_step": case.n_step, "stack": case.stack, "first": some.start}
                priorities = advance(priorities, ring, cut, **arguments)
        found = moment.eligible(case)
        model = {pair: model.get(pair, largest) for pair in found}

        wanted = np.zeros(priorities.values.size, np.float32)
        for (env, row), priority in model.items():
            wanted[row % ROWS * case.envs + env] = priority
        values = np.asarray(priorities.values).reshape(-1)
        np.testing.assert_array_equal(values > 0, wanted > 0)
        np.testing.assert_allclose(values, wanted, rtol=1e-6)
        np.testing.assert_allclose(priorities.largest, largest, rtol=1e-6)

        if i % learns or not model:
            continue
        row, env, weights = map(np.asarray, sample(priorities, ring, jax.random.key(i), case.batch))
        pairs = list(zip(env.tolist(), row.tolist(), strict=True))
        drawn = [model[pair] for pair in pairs]  # a row that is not eligible is not in there
        np.testing.assert_allclose(weights, importance_weights(drawn), rtol=1e-5)
        assert_gathers(case, ring, row, env, [found[pair] for pair in pairs])

        losses = np.array([made_loss(*pair) for pair in pairs], np.float32)
        priorities = update(priorities, ring, row, env, losses)
        model.update(zip(pairs, np.sqrt(losses + np.float32(1e-10)), strict=True))
        largest = max(largest, *(model[pair] for pair in pairs))


def test_by_hand():
    """Two environments of 3 slots, at rows 7 and 8: slots 0 1 2 hold rows 6 7 5 and 6 7 8."""
    ring = rings.make_ring(jnp.zeros((2, 1)), 6)._replace(head=jnp.array([7, 8]))
    values = jnp.zeros(6).at[4].set(4.0)  # slot 2 of environment 0
    priorities = Priorities(values.reshape(2, 3), jnp.float32(4.0))
    row, env, weights = sample(priorities, ring, jax.random.key(0), 5)
    np.testing.assert_array_equal(row, [5] * 5)
    np.testing.assert_array_equal(env, [0] * 5)
    np.testing.assert_array_equal(weights, [1.0] * 5)

    # 4 and 1 share 5 draws from 5 equal shares: slot 0 of environment 1 comes first, once.
    values = values.at[1].set(1.0)
    priorities = priorities._replace(values=values.reshape(2, 3))
    row, env, weights = sample(priorities, ring, jax.random.key(0), 5)
    np.testing.assert_array_equal(row, [6, 5, 5, 5, 5])
    np.testing.assert_array_equal(env, [1, 0, 0, 0, 0])
    np.testing.assert_allclose(weights, [1.0, 0.5, 0.5, 0.5, 0.5], rtol=1e-6)  # √¼

    after = update(priorities, ring, row[:2], env[:2], jnp.array([0.0, 9.0]))
    np.testing.assert_allclose(after.values.reshape(-1), [0, 1e-5, 0, 0, 3, 0], rtol=1e-6)
    assert after.largest == 4.0  # of old
    after = update(after, ring, row[:1], env[:1], jnp.array([25.0]))
    np.testing.assert_allclose(after.largest, 5.0, rtol=1e-6)


MIXED = np.random.default_rng(1).choice([0.0, 0.1, 0.5, 1.0, 4.0], size=33)


def test_a_batch_has_its_share_of_every_transition():
    """Of equal shares a priority covers some wholly and two at most in part."""
    priorities, ring = filled(MIXED, envs=3)
    row, env, _ = sample(priorities, ring, jax.random.key(0), 5000)
    counts = np.bincount(row % ring.rows * 3 + env, minlength=33)
    np.testing.assert_allclose(counts, 5000 * MIXED / MIXED.sum(), atol=2)
    assert (counts[MIXED == 0] == 0).all()


def test_a_draw_within_its_share_follows_the_priorities():
    priorities, ring = filled(MIXED, envs=3)
    keys = jax.random.split(jax.random.key(0), 20_000)
    row, env, weights = jax.vmap(lambda key: sample(priorities, ring, key, 1))(keys)
    np.testing.assert_array_equal(weights, 1.0)
    counts = np.bincount((row % ring.rows * 3 + env).reshape(-1), minlength=33)
    assert_frequencies(counts, MIXED / MIXED.sum())


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    values=arrays(np.float32, 33, elements=st.sampled_from([0.0, 1e-12, 1e-5, 1.0, 1e6])).filter(
        np.any
    ),
    seed=st.integers(0, 1000),
)
def test_nothing_of_priority_zero_is_drawn(values, seed):
    priorities, ring = filled(values, envs=3)
    row, env, weights = map(np.asarray, sample(priorities, ring, jax.random.key(seed), 256))
    drawn = values[row % ring.rows * 3 + env]
    assert (drawn > 0).all()
    head = np.asarray(ring.head)[env]
    assert ((head - ROWS < row) & (row <= head)).all()
    np.testing.assert_allclose(weights, importance_weights(drawn), rtol=1e-5)
    shares = values.astype(np.float64) / values.sum(dtype=np.float64)
    counts = np.bincount(row % ring.rows * 3 + env, minlength=33)
    np.testing.assert_allclose(counts, 256 * shares, atol=2.01)


@pytest.mark.parametrize("priority", [1e-12, 1.0, 1e6])
def test_the_only_transition_is_always_drawn(priority):
    for index in range(33):
        priorities, ring = filled(np.eye(33)[index] * priority, envs=3)
        row, env, weights = sample(priorities, ring, jax.random.key(index), 64)
        np.testing.assert_array_equal(row % ring.rows * 3 + env, index)
        np.testing.assert_array_equal(weights, 1.0)


def test_a_draw_at_the_start_of_its_share(monkeypatch):
    """Of 16 equal priorities with zeros before, between and after, 16 shares draw each once."""
    monkeypatch.setattr(jax.random, "uniform", lambda _, shape: jnp.zeros(shape))
    values = np.arange(33) % 2
    priorities, ring = filled(values)
    # Not compiled: a compiled program would outlive the patch.
    row, _, _ = sample_now(priorities, ring, jax.random.key(0), 16)
    np.testing.assert_array_equal(row % ring.rows, np.flatnonzero(values))


def tall(*items):
    """Priorities in 300 blocks of 300, which is long enough for XLA to sum in tiles."""
    values = np.zeros((300, 300), np.float32)
    for block, slot, priority in items:
        values[block, slot] = priority
    return values.reshape(-1)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.eye(33)[17], id="one slot"),
        pytest.param(np.eye(33)[17] + np.eye(33)[30], id="two blocks"),
        # A block's sum is larger here than the end of its running sum.
        pytest.param(tall((0, 1, 2**24), *((0, i, 1) for i in range(2, 300))), id="long block"),
        # 2²⁴ + 1 is 2²⁴ in float32. In tiles the two ones are added first, but only for what
        # comes after them: there the running sum ends in 2²⁴, 2²⁴ + 2.
        pytest.param(tall((0, 0, 2**24), (256, 0, 1), (272, 0, 1)), id="blocks"),
        pytest.param(tall((0, 0, 2**24), (0, 256, 1), (0, 272, 1)), id="slots"),
    ],
)
def test_a_draw_at_the_end_of_its_share(values, monkeypatch):
    """The last number below 1 is rounded up to 1 there, and must still draw something positive."""
    monkeypatch.setattr(jax.random, "uniform", lambda _, shape: jnp.full(shape, 1 - 2.0**-23))
    priorities, ring = filled(values)
    row, _, _ = sample_now(priorities, ring, jax.random.key(0), 32)
    assert (values[row % ring.rows] > 0).all()
