"""The ring against the plain stream: nothing crosses an episode, an environment or the head."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from reference import (
    CASES,
    DISCOUNT,
    PLANS,
    ROWS,
    Case,
    Plan,
    append,
    assert_frequencies,
    assert_gathers,
    cut_episodes,
    gather,
    play,
)

from munchausen._src.core.replay import Outcome
from munchausen._src.core.replay import ring as replay
from munchausen._src.core.replay.ring import FINAL

current_observations = jax.jit(replay.current_observations, static_argnames="stack")
eligible_rows = jax.jit(replay.eligible_rows, static_argnames=("rows", "n_step", "stack"))
sample_uniform = jax.jit(
    replay.sample_uniform, static_argnames=("batch", "n_step", "stack", "truncates")
)

every_case = pytest.mark.parametrize("case", CASES, ids=str)
few = settings(derandomize=True, deadline=None, max_examples=8)


def eligible(case, ring):
    """What the ring itself says, as pairs of environment and row."""
    first, count = eligible_rows(ring.head, rows=ring.rows, n_step=case.n_step, stack=case.stack)
    kinds = np.asarray(ring.kinds)
    bounds = zip(first.tolist(), (first + count).tolist(), strict=True)
    return {
        (env, row)
        for env, (start, stop) in enumerate(bounds)
        for row in range(start, stop)
        if kinds[row % ring.rows, env] != FINAL
    }


@every_case
@few
@given(plan=PLANS)
def test_current_observations(case, plan):
    """At every step, and right after a cut."""
    for ring, _, streams in play(case, plan):
        wanted = [s.running.observation(len(s.running.frames) - 1, case.stack) for s in streams]
        observations = current_observations(ring, stack=case.stack)
        assert observations.dtype == wanted[0].dtype
        np.testing.assert_array_equal(observations, np.stack(wanted))


@every_case
@few
@given(plan=PLANS)
def test_eligible_rows(case, plan):
    """All transitions that are complete and whole, but for those that `Stream.eligible` names."""
    heads = np.zeros(case.envs, int)
    for i, moment in enumerate(play(case, plan)):
        ring, cut, streams = moment
        assert ring.rows == ROWS
        np.testing.assert_array_equal(ring.head, [stream.head for stream in streams])
        if i:
            np.testing.assert_array_equal(ring.head, heads + 1 + np.asarray(cut))
        heads = np.asarray(ring.head)
        assert eligible(case, ring) == moment.eligible(case).keys()
    assert heads.min() > 3 * ROWS


@every_case
@few
@given(plan=PLANS)
def test_gather_of_every_eligible_row(case, plan):
    envs, backs = (x.reshape(-1) for x in np.mgrid[: case.envs, :ROWS])
    for moment in play(case, plan):
        rows = np.asarray(moment.ring.head)[envs] - backs
        found = moment.eligible(case)
        wanted = [found.get((env, row)) for env, row in zip(envs, rows, strict=True)]
        assert sum(x is not None for x in wanted) == len(found)
        assert_gathers(case, moment.ring, rows, envs, wanted)


@every_case
@few
@given(plan=PLANS)
def test_samples_are_eligible(case, plan):
    """And so never FINAL; what is gathered for them is the reference's."""
    for i, moment in enumerate(play(case, plan, cut_at_first_frames=False)):
        found = moment.eligible(case)
        if not found:
            continue
        row, env = sample_uniform(
            moment.ring,
            jax.random.key(i),
            batch=case.batch,
            n_step=case.n_step,
            stack=case.stack,
            truncates=case.truncates,
        )
        row, env = np.asarray(row), np.asarray(env)
        wanted = [found[pair] for pair in zip(env.tolist(), row.tolist(), strict=True)]
        assert_gathers(case, moment.ring, row, env, wanted)


TRUNCATIONS = Plan(
    [
        [(3, "truncated"), (4, "terminated"), (6, "truncated")],
        [(5, "truncated"), (30, "truncated")],
        [(9, "terminated"), (7, "truncated")],
    ]
)
TERMINATIONS = Plan([[(9, "terminated"), (2, "terminated")], [(4, "terminated")], [(30, "both")]])


@pytest.mark.parametrize("ticks", [7, 31], ids=("filling", "full"))
@pytest.mark.parametrize(
    "case",
    [
        Case(1, 1, 1, (2,)),
        Case(3, 1, 3, (2,)),
        Case(3, 4, 1, (2,)),
        Case(3, 3, 3, (2,), truncates=False),
    ],
    ids=str,
)
def test_uniform_over_eligible_transitions(case, ticks):
    """While the ring fills, environments that were cut more often have more rows than others."""
    *_, moment = play(case, TRUNCATIONS if case.truncates else TERMINATIONS, ticks=ticks)
    assert np.any(np.asarray(moment.ring.kinds) == FINAL) == case.truncates
    found = sorted(moment.eligible(case))
    row, env = sample_uniform(
        moment.ring,
        jax.random.key(3),
        batch=1000 * len(found),
        n_step=case.n_step,
        stack=case.stack,
        truncates=case.truncates,
    )
    drawn, counts = np.unique(np.stack([env, row], axis=1), axis=0, return_counts=True)
    assert [tuple(pair) for pair in drawn.tolist()] == found
    assert_frequencies(counts, np.full(len(found), 1 / len(found)))


def test_by_hand():
    """Frames 1 2 3, cut at 4; then 5 6, which terminates; the current frame is 7."""
    ring = replay.make_ring(jnp.array([[1.0]]), capacity=20)
    steps = [
        # reward, terminated, truncated, current frame, outcome
        (1.0, False, False, 2.0, 2.0),
        (10.0, False, False, 3.0, 3.0),
        (100.0, False, True, 5.0, 4.0),
        (1000.0, False, False, 6.0, 6.0),
        (10000.0, True, False, 7.0, -1.0),
    ]
    for action, (reward, terminated, truncated, frame, outcome) in enumerate(steps):
        ring, _ = append(
            ring,
            jnp.array([action]),
            Outcome(
                jnp.array([reward]),
                jnp.array([terminated]),
                jnp.array([truncated]),
                jnp.array([[frame]]),
                jnp.array([[outcome]]),
            ),
            truncates=True,
        )
    np.testing.assert_array_equal(ring.head, [6])
    first, count = eligible_rows(ring.head, rows=ring.rows, n_step=2, stack=2)
    assert (first[0], count[0]) == (0, 5)  # rows 0 to 4; row 3 is FINAL

    rows = jnp.array([0, 1, 2, 4])
    batch = gather(ring, rows, jnp.zeros(4, int), n_step=2, stack=2, discount=0.5)
    np.testing.assert_array_equal(batch.observation_tm1, [[0, 1], [1, 2], [2, 3], [0, 5]])
    np.testing.assert_array_equal(batch.a_tm1, [0, 1, 2, 3])
    np.testing.assert_array_equal(batch.r_t, [6.0, 60.0, 100.0, 6000.0])
    # Row 2 was cut after one step, and bootstraps from the true final frame; row 4 terminated.
    np.testing.assert_array_equal(batch.discount_t, [0.25, 0.25, 0.5, 0.0])
    np.testing.assert_array_equal(batch.observation_t[:3], [[2, 3], [3, 4], [3, 4]])


def test_a_cut_is_a_truncation_at_the_current_frame():
    """`cut_episodes` after a step leaves the ring that this step, truncated, would have left."""
    rng = np.random.default_rng(0)
    frames = jnp.asarray(rng.normal(size=(4, 2, 3)), jnp.float32)
    never, always = jnp.zeros(2, bool), jnp.ones(2, bool)
    actions, reward = jnp.array([1, 2]), jnp.array([0.5, -1.0])

    def step(ring, truncated, frame, outcome):
        step = Outcome(reward, never, truncated, frame, outcome)
        return append(ring, actions, step, truncates=True)[0]

    for start in range(5):  # the new rows lie at any slot of the 5
        ring = replay.make_ring(frames[0], capacity=10)
        for _ in range(start):
            ring = step(ring, never, frames[1], frames[1])
        truncated = step(ring, always, frames[3], frames[2])
        cut = cut_episodes(step(ring, never, frames[2], frames[2]), frames[3])
        jax.tree.map(np.testing.assert_array_equal, cut, truncated)
        assert (cut.kinds[(start + 1) % 5] == FINAL).all()
        batch = gather(
            cut, jnp.array([start]), jnp.array([1]), n_step=3, stack=1, discount=DISCOUNT
        )
        np.testing.assert_allclose(batch.discount_t, [DISCOUNT], rtol=1e-6)
        np.testing.assert_array_equal(batch.observation_t[0], frames[2, 1])
