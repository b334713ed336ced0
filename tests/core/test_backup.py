"""The one backup: what it becomes at the corners of (α, τ, l0)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from munchausen._src.core.backup import Regulariser, backup, munchausen_term
from munchausen._src.core.operators import soft_value

Q_TM1 = jnp.array([1.0, 2.0, 0.5])
Q_T = jnp.array([0.2, -1.0, 3.0])


def target(alpha, tau, clip_min, a=0, r=0.5, discount=0.9, q_tm1=Q_TM1, q_t=Q_T):
    regulariser = Regulariser(alpha, tau, clip_min)
    b = backup(
        regulariser, q_tm1, jnp.int32(a), jnp.float32(r), jnp.float32(discount), jnp.asarray(q_t)
    )
    return b.expectation(jnp.asarray(q_t))


def test_by_hand():
    # π(·|s) = (¼, ¾) at τ = 1, so τ ln π(a₀) = ln ¼ = −1.386; α = 0.5.
    q = jnp.array([0.0, jnp.log(3.0)])
    value = target(0.5, 1.0, -10.0, q_tm1=q, q_t=q)
    np.testing.assert_allclose(value, 0.5 + 0.5 * np.log(0.25) + 0.9 * np.log(4.0), rtol=1e-6)
    # Clipped at −1 the term is α · (−1).
    value = target(0.5, 1.0, -1.0, q_tm1=q, q_t=q)
    np.testing.assert_allclose(value, 0.5 - 0.5 + 0.9 * np.log(4.0), rtol=1e-6)


def test_clip_is_on_the_scaled_log_policy():
    """clip(τ ln π, l0, 0), not τ · clip(ln π, l0, 0): at τ = 0.03 they differ."""
    q = jnp.array([0.0, 0.3])  # ln π(a₀) ≈ −10, τ ln π ≈ −0.3
    term = munchausen_term(Regulariser(1.0, 0.03, -1.0), q, jnp.int32(0))
    np.testing.assert_allclose(term, -0.3, atol=1e-5)


def test_zero_temperature_is_dqn_exactly():
    assert target(0.0, 0.0, -1.0) == jnp.float32(0.5) + jnp.float32(0.9) * 3.0
    assert target(0.0, 0.0, -1.0, discount=0.0) == 0.5


@pytest.mark.parametrize("a", (0, 1, 2))
def test_zero_temperature_is_advantage_learning_exactly(a):
    """r + α(q(s,a) − max q(s,·)) + γ max q(s',·); the γ is missing in the paper's print."""
    expected = jnp.float32(0.5) + 0.9 * (Q_TM1[a] - 2.0) + jnp.float32(0.9) * 3.0
    assert target(0.9, 0.0, -jnp.inf, a=a) == expected


def test_small_temperature_tends_to_advantage_learning():
    np.testing.assert_allclose(target(0.9, 1e-4, -jnp.inf), target(0.9, 0.0, -jnp.inf), atol=1e-5)


def test_alpha_zero_is_soft_dqn():
    expected = 0.5 + 0.9 * soft_value(Q_T, 0.03)
    np.testing.assert_allclose(target(0.0, 0.03, -1.0), expected, rtol=1e-6)
    # Without the values at s, as agents with α = 0 compute it: the same bits.
    assert target(0.0, 0.03, -1.0, q_tm1=None) == target(0.0, 0.03, -1.0)


@settings(deadline=None, derandomize=True, max_examples=80)
@given(
    alpha=st.floats(0, 1),
    tau=st.sampled_from((0.0, 0.003, 0.03, 1.0)),
    clip_min=st.sampled_from((-np.inf, -1.0, 0.0)),
    discount=st.sampled_from((0.0, 0.97, 0.99)),
    seed=st.integers(0, 10_000),
)
def test_equals_the_oracle(alpha, tau, clip_min, discount, seed):
    random = np.random.default_rng(seed)
    q_tm1, q_t = random.normal(size=(2, 4)).astype(np.float32)
    a, r = int(random.integers(4)), np.float32(random.normal())
    ours = target(alpha, tau, clip_min, a, r, discount, jnp.asarray(q_tm1), q_t)
    theirs = oracle.expected_target(q_tm1, a, r, discount, q_t, alpha, tau, clip_min)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_traced_regulariser_shares_a_program():
    """DQN, Soft-DQN, AL and M-DQN side by side under vmap."""
    table = [(0.0, 0.0, -1.0), (0.0, 0.03, -1.0), (0.9, 0.0, -np.inf), (0.9, 0.03, -1.0)]
    together = jax.jit(jax.vmap(lambda *p: target(*p)))(*jnp.asarray(table, jnp.float32).T)
    alone = [target(*row) for row in table]
    np.testing.assert_allclose(together, alone, rtol=1e-6)
