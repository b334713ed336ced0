"""The errors ε_{k+1} of an iteration: the actual update minus the ideal one.

An error source is called with a key, the MDP, the value v that the update bootstraps (its ideal
is r + γPv, up to terms free of chance) and the number k of the iteration.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from munchausen._src.core.operators import Scalar
from munchausen._src.tabular.mdp import MDP


@runtime_checkable
class ErrorSource(Protocol):
    def __call__(
        self, key: PRNGKeyArray, mdp: MDP, value: Float[Array, " S"], k: Int[Array, ""], /
    ) -> Float[Array, "S A"]: ...


class NoError(NamedTuple):
    def __call__(self, _key, mdp, _value, _k):
        return jnp.zeros_like(mdp.rewards)


class Gaussian(NamedTuple):
    """Independent normal errors: approximation without a bias."""

    scale: Scalar

    def __call__(self, key, mdp, _value, _k):
        return self.scale * jax.random.normal(key, mdp.rewards.shape)


class Sampling(NamedTuple):
    """`draws` next states for each state-action from a generative model: γ(P̂ − P)v."""

    draws: int

    def __call__(self, key, mdp, value, _k):
        # By the inverse of the distribution function: JAX's multinomial takes seconds to compile.
        edges = jnp.cumsum(mdp.transitions, axis=-1)[..., :-1]
        points = jax.random.uniform(key, (self.draws, *mdp.rewards.shape, 1))
        next_states = jnp.sum(points > edges, axis=-1)
        return mdp.discount * (jnp.mean(value[next_states], axis=0) - mdp.expect(value))


class Given(NamedTuple):
    """Errors of the caller's own, one for each iteration."""

    errors: Float[Array, "K S A"]

    def __call__(self, _key, _mdp, _value, k):
        return self.errors[k]


class OneOf(NamedTuple):
    """The first source where `choice` is true, else the second: for half of a batch of MDPs."""

    choice: Bool[Array, ""]
    first: ErrorSource
    second: ErrorSource

    def __call__(self, key, mdp, value, k):
        errors = (source(key, mdp, value, k) for source in (self.first, self.second))
        return jnp.where(self.choice, *errors)


class Clipped(NamedTuple):
    """Another source's errors, cut so that r + γPv + ε stays within ±`limit`.

    How the paper means its assumption ‖q_k − τ ln π_k‖ ≤ r_max/(1 − γ) to be met (appendix A.3).
    """

    source: ErrorSource
    limit: Scalar

    def __call__(self, key, mdp, value, k):
        ideal = mdp.rewards + mdp.discount * mdp.expect(value)
        noisy = ideal + self.source(key, mdp, value, k)
        return jnp.clip(noisy, -self.limit, self.limit) - ideal
