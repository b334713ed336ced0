"""Exact values: of a policy, of the optimum, and of both in an entropy-regularised MDP.

P_π q = P⟨π, q⟩. A resolvent over state-actions is solved over states alone, since
(I − γP_π)⁻¹ f = f + γP (I − γP^π)⁻¹ ⟨π, f⟩ with P^π the kernel between states.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy
from jaxtyping import Array, Float

from munchausen._src.core.operators import Scalar, policy
from munchausen._src.errors import UserError
from munchausen._src.tabular.mdp import MDP
from munchausen._src.tabular.precision import float64

_MOST_ITERATIONS = 200  # Newton's needs about ten


def inner(f: Float[Array, "*B A"], g: Float[Array, "*B A"]) -> Float[Array, "*B"]:
    """⟨f, g⟩: the sum over actions, at each state."""
    return jnp.sum(f * g, axis=-1)


def entropy(pi: Float[Array, "S A"]) -> Float[Array, " S"]:
    """H(π) = −⟨π, ln π⟩"""
    return -jnp.sum(xlogy(pi, pi), axis=-1)


def apply_kernel(mdp: MDP, pi: Float[Array, "S A"], f: Float[Array, "S A"]) -> Float[Array, "S A"]:
    """P_π f = P⟨π, f⟩"""
    return mdp.expect(inner(pi, f))


def eliminate(matrix: Float[Array, "S S"], columns: Float[Array, "S N"]) -> Float[Array, "S N"]:
    """Solves matrix · x = columns by Gauss and Jordan, without pivots.

    I − γP is strictly diagonally dominant, so none are needed. JAX's own solver is avoided: in
    jaxlib 0.10.2 a batch of LAPACK's triangular solves waits on the thread pool it runs in, and
    on a machine of few cores a program with several of them can wait for ever.
    """

    def clear(i, both):
        row = both[i] / both[i, i]
        return (both - both[:, i, None] * row).at[i].set(row)

    size = matrix.shape[0]
    both = jnp.concatenate([matrix, columns], axis=1)
    return jax.lax.fori_loop(0, size, clear, both)[:, size:]


@float64()
def resolvent(
    mdp: MDP, pi: Float[Array, "S A"], f: Float[Array, "*N S A"]
) -> Float[Array, "*N S A"]:
    """(I − γP_π)⁻¹ f, for one f or many."""
    between_states = jnp.einsum("sa,sat->st", pi, mdp.transitions)
    matrix = jnp.eye(pi.shape[0]) - mdp.discount * between_states
    means = jnp.einsum("sa,...sa->...s", pi, f)
    columns = means.reshape(-1, means.shape[-1]).T
    v = eliminate(matrix, columns).T.reshape(means.shape)
    return f + mdp.discount * jnp.einsum("sat,...t->...sa", mdp.transitions, v)


@float64()
def policy_q(mdp: MDP, pi: Float[Array, "S A"], tau: Scalar = 0.0) -> Float[Array, "S A"]:
    """q_π^τ: the fixed point of q = r + γP(⟨π, q⟩ + τH(π)); q_π at τ = 0."""
    _check_temperature(tau)
    return resolvent(mdp, pi, mdp.rewards + mdp.discount * mdp.expect(tau * entropy(pi)))


@float64()
def optimal_q(mdp: MDP, tau: Scalar = 0.0) -> Float[Array, "S A"]:
    """q_*^τ: the fixed point of q = r + γP v_τ(q); q_* at τ = 0.

    By policy iteration, which is Newton's method here: exact after finitely many steps at
    τ = 0, quadratic and monotone at τ > 0.
    """
    _check_temperature(tau)
    return _policy_iteration(mdp, tau)


@jax.jit
def _policy_iteration(mdp: MDP, tau: Scalar) -> Float[Array, "S A"]:
    uniform = jnp.full(mdp.rewards.shape, 1.0 / mdp.actions)
    small = 1e-15 * (mdp.largest_reward + 1.0) / (1.0 - mdp.discount)

    def going(carry):
        _, change, count = carry
        return (change > small) & (count < _MOST_ITERATIONS)

    def improve(carry):
        q, _, count = carry
        new = policy_q(mdp, policy(q, tau), tau)
        return new, jnp.max(jnp.abs(new - q)), count + 1

    start = (policy_q(mdp, uniform, tau), jnp.asarray(jnp.inf), jnp.asarray(0))
    return jax.lax.while_loop(going, improve, start)[0]


def _check_temperature(tau: Scalar) -> None:
    if isinstance(tau, float | int) and not tau >= 0:
        raise UserError(f"tau must be at least 0, not {tau:g}")
