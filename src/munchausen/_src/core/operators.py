"""The entropy-regularised maximum, its policy and its log-policy (Munchausen RL, Sec. 3).

Deep agents and the tabular schemes share these. `tau` may be a Python float or a traced
scalar; `tau = 0` is the exact limit, so one program serves DQN (max) and Soft-DQN alike.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Scalar = float | Float[Array, ""]


def soft_value(q: Float[Array, "*B A"], tau: Scalar) -> Float[Array, "*B"]:
    """Entropy-regularised maximum of `q`.

        v_τ(q) = τ ln Σ_a exp(q(a)/τ),   v_0(q) = max_a q(a)

    Munchausen RL, Sec. 3.
    """
    return jnp.max(q, axis=-1) + _scaled_log_partition(_advantage(q), tau)


def scaled_log_policy(q: Float[Array, "*B A"], tau: Scalar) -> Float[Array, "*B A"]:
    """τ ln π for π = softmax(q/τ).

        τ ln π(a) = q(a) − v_τ(q),   at τ = 0: q(a) − max q

    Taken from the advantage, never as τ times a logarithm, so that a small τ neither
    overflows nor yields −∞ (appendix B of the paper).
    """
    advantage = _advantage(q)
    return advantage - _scaled_log_partition(advantage, tau)[..., None]


def policy(q: Float[Array, "*B A"], tau: Scalar) -> Float[Array, "*B A"]:
    """softmax(q/τ); at τ = 0 all mass on the first maximiser of `q`."""
    soft = jax.nn.softmax(_advantage(q) / _positive(tau), axis=-1)
    greedy = jax.nn.one_hot(jnp.argmax(q, axis=-1), q.shape[-1], dtype=q.dtype)
    return jnp.where(jnp.asarray(tau) > 0, soft, greedy)


def _advantage(q: Float[Array, "*B A"]) -> Float[Array, "*B A"]:
    return q - jnp.max(q, axis=-1, keepdims=True)


def _scaled_log_partition(advantage: Float[Array, "*B A"], tau: Scalar) -> Float[Array, "*B"]:
    """τ ln Σ_a exp(advantage(a)/τ), which is 0 at τ = 0."""
    total = jnp.sum(jnp.exp(advantage / _positive(tau)), axis=-1)
    return jnp.where(jnp.asarray(tau) > 0, tau * jnp.log(total), 0.0)


def _positive(tau: Scalar) -> Float[Array, ""]:
    """`tau`, or 1 where it is 0: the branch not taken must not divide by zero."""
    tau = jnp.asarray(tau, dtype=jnp.result_type(float))
    return jnp.where(tau > 0, tau, 1.0)
