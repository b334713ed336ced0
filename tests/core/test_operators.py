"""soft_value, scaled_log_policy and policy: by hand, as identities, and at the extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracle
from munchausen._src.core.operators import policy, scaled_log_policy, soft_value

TAUS = (1e-4, 3e-3, 3e-2, 1.0, 50.0, 1e3)


def test_by_hand():
    q = jnp.array([0.0, jnp.log(3.0)])
    # Σ exp q = 1 + 3 at τ = 1.
    np.testing.assert_allclose(soft_value(q, 1.0), np.log(4.0), rtol=1e-6)
    np.testing.assert_allclose(policy(q, 1.0), [0.25, 0.75], rtol=1e-6)
    np.testing.assert_allclose(scaled_log_policy(q, 1.0), np.log([0.25, 0.75]), rtol=1e-6)
    # At τ = 2, of 2q: twice the value, the same policy.
    np.testing.assert_allclose(soft_value(2 * q, 2.0), 2 * np.log(4.0), rtol=1e-6)
    np.testing.assert_allclose(policy(2 * q, 2.0), [0.25, 0.75], rtol=1e-6)


def test_zero_temperature_is_exact():
    q = jnp.array([1.0, 3.0, 3.0, -2.0])
    assert soft_value(q, 0.0) == 3.0
    np.testing.assert_array_equal(scaled_log_policy(q, 0.0), [-2.0, 0.0, 0.0, -5.0])
    np.testing.assert_array_equal(policy(q, 0.0), [0.0, 1.0, 0.0, 0.0])  # the first maximiser


@pytest.mark.parametrize("tau", (0.0, *TAUS))
def test_traced_temperature_is_the_same_program(tau):
    q = jnp.array([[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]])
    for operator in (soft_value, scaled_log_policy, policy):
        traced = jax.jit(operator)(q, jnp.float32(tau))
        np.testing.assert_allclose(traced, operator(q, tau), rtol=1e-6, atol=1e-6)


values = arrays(np.float32, (5,), elements=st.floats(-1e3, 1e3, width=32))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(q=values, tau=st.sampled_from(TAUS))
def test_stable_and_equal_to_the_oracle(q, tau):
    value = soft_value(jnp.asarray(q), tau)
    log_policy = scaled_log_policy(jnp.asarray(q), tau)
    pi = policy(jnp.asarray(q), tau)
    scale = max(1.0, float(np.abs(q).max()), tau)
    np.testing.assert_allclose(value, oracle.soft_value(q, tau), atol=2e-6 * scale)
    np.testing.assert_allclose(log_policy, oracle.scaled_log_policy(q, tau), atol=2e-6 * scale)
    np.testing.assert_allclose(pi, oracle.policy(q, tau), atol=2e-4)
    assert np.isfinite(log_policy).all()
    assert (np.asarray(log_policy) <= 2e-6 * scale).all()


@settings(deadline=None, derandomize=True, max_examples=40)
@given(q=values, tau=st.sampled_from(TAUS[1:]))
def test_value_is_mean_plus_entropy(q, tau):
    """v_τ = ⟨π, q − τ ln π⟩"""
    q = jnp.asarray(q)
    mean = jnp.sum(policy(q, tau) * (q - scaled_log_policy(q, tau)))
    scale = max(1.0, float(jnp.abs(q).max()), tau)
    np.testing.assert_allclose(mean, soft_value(q, tau), atol=5e-6 * scale)


def test_small_temperature_tends_to_zero_temperature():
    q = jnp.array([0.3, 0.1, 0.9, 0.8])
    np.testing.assert_allclose(soft_value(q, 1e-4), soft_value(q, 0.0), atol=1e-6)
    np.testing.assert_allclose(scaled_log_policy(q, 1e-4), scaled_log_policy(q, 0.0), atol=1e-6)
    np.testing.assert_allclose(policy(q, 1e-4), policy(q, 0.0), atol=1e-6)


def test_gradient_of_the_value_is_the_policy():
    q = jnp.array([0.3, 0.1, 0.9])
    for tau in (0.0, 0.03, 1.0):
        gradient = jax.grad(lambda q, tau=tau: soft_value(q, tau))(q)
        np.testing.assert_allclose(gradient, policy(q, tau), atol=1e-6)
