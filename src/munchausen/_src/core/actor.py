"""Acting: ε-greedy, or ε-softmax for the stochastic variant. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from munchausen._src.core.heads import Head
from munchausen._src.core.network import Network, batched, view
from munchausen._src.core.operators import Scalar
from munchausen._src.errors import unknown

_EXPLORATIONS = ("greedy", "stochastic")


class Decision(NamedTuple):
    actions: Int[Array, " E"]
    q: Float[Array, "E A"]  # the values they were chosen by


@dataclass(frozen=True)
class Actor:
    """How actions come from a network: by which head, and with which exploration."""

    head: Head
    exploration: str = "greedy"  # or "stochastic"

    def __post_init__(self) -> None:
        if self.exploration not in _EXPLORATIONS:
            raise unknown("exploration", self.exploration, _EXPLORATIONS)

    def act(
        self,
        network: Network,
        observations: Shaped[Array, "E ..."],
        key: PRNGKeyArray,
        *,
        epsilon: Float[Array, " E"] | Scalar = 0.0,
        tau: Scalar = 0.0,
        evaluating: bool = False,
    ) -> Int[Array, " E"]:
        """With probability ε a random action; otherwise the greedy one, or with "stochastic"
        exploration a draw from softmax(q/τ) (the logits are q/τ, not the probabilities).

        Args:
            observations: those of E environments.
            key: for everything that is drawn.
            epsilon: one for all environments, or one each.
            tau: the temperature of "stochastic" exploration.
            evaluating: noisy layers are without noise.
        """
        return self.decide(
            network, observations, key, epsilon=epsilon, tau=tau, evaluating=evaluating
        ).actions

    def decide(
        self,
        network: Network,
        observations: Shaped[Array, "E ..."],
        key: PRNGKeyArray,
        *,
        epsilon: Float[Array, " E"] | Scalar = 0.0,
        tau: Scalar = 0.0,
        evaluating: bool = False,
    ) -> Decision:
        """As `act`, with the values that it chose by."""
        draw_key, explore_key = jax.random.split(key)
        q = self.values(network, observations, draw_key, evaluating=evaluating)
        if self.exploration == "stochastic":
            choice_key = jax.random.fold_in(draw_key, 1)
            chosen = jax.random.categorical(choice_key, q / jnp.asarray(tau), axis=-1)
        else:
            chosen = jnp.argmax(q, axis=-1)
        batch, actions = q.shape
        explore, which = jax.random.uniform(explore_key, (2, batch))
        random = jnp.floor(which * actions).astype(chosen.dtype)
        return Decision(jnp.where(explore < epsilon, random, chosen), q)

    def values(
        self,
        network: Network,
        observations: Shaped[Array, "E ..."],
        key: PRNGKeyArray,
        *,
        evaluating: bool = False,
    ) -> Float[Array, "E A"]:
        """The value of each action. `key`: for heads and layers that draw."""
        noise = None if evaluating else jax.random.fold_in(key, 2)
        return self.head.policy_q(batched(network, noise), view(network, observations), key)
