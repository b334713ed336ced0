"""Implicit quantiles of the return, at fractions drawn anew each time (IQN, M-IQN)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from munchausen._src.core.backup import Backup
from munchausen._src.core.heads.base import Estimate, Loss, of_action
from munchausen._src.core.heads.quantile import quantile_loss
from munchausen._src.core.network import Apply
from munchausen._src.errors import UserError


@dataclass(frozen=True)
class ImplicitQuantile:
    fractions: int = 64  # N, of the online network in the loss
    target_fractions: int = 64  # N', of the target network at s'
    policy_fractions: int = 32  # K, behind every policy
    cosines: int = 64
    kappa: float = 1.0

    def outputs(self, actions: int) -> int:
        return actions

    def policy_q(
        self, network: Apply, views: Shaped[Array, "B ..."], key: PRNGKeyArray
    ) -> Float[Array, "B A"]:
        fractions = draw_fractions(key, len(views), self.policy_fractions)
        return jnp.mean(_quantiles(network, views, fractions), axis=1)

    def estimate(
        self, network: Apply, views: Shaped[Array, "B ..."], key: PRNGKeyArray
    ) -> Estimate:
        """The quantiles at s' and the values of π(s') come from two separate draws, made
        in one pass of the network."""
        policy_key, returns_key = jax.random.split(key)
        batch, n_policy = len(views), self.policy_fractions
        fractions = jnp.concatenate(
            [
                draw_fractions(policy_key, batch, n_policy),
                draw_fractions(returns_key, batch, self.target_fractions),
            ],
            axis=1,
        )
        z = _quantiles(network, views, fractions)
        return Estimate(jnp.mean(z[:, :n_policy], axis=1), z[:, n_policy:])

    def push(self, backup: Backup, returns_t: Float[Array, "N A"]) -> Float[Array, " N"]:
        """r̃ + γ ⟨π, z'_i − τ ln π⟩ for each target quantile z'_i."""
        return backup.expectation(returns_t)

    def loss(
        self,
        network: Apply,
        views: Shaped[Array, "B ..."],
        actions: Int[Array, " B"],
        targets: Float[Array, "B N"],
        key: PRNGKeyArray,
    ) -> Loss:
        fractions = draw_fractions(key, len(views), self.fractions)
        z = _quantiles(network, views, fractions)
        taken = jax.vmap(of_action)(z, actions)
        losses = jax.vmap(quantile_loss, in_axes=(0, 0, 0, None))(
            taken, fractions, targets, self.kappa
        )
        return Loss(losses, jnp.mean(z, axis=1))


def _quantiles(
    network: Apply, views: Shaped[Array, "B ..."], fractions: Float[Array, "B N"]
) -> Float[Array, "B N A"]:
    z = network(views, fractions)
    if z.ndim != 3 or z.shape[:2] != fractions.shape:
        raise UserError(
            f"the network's output for one state and {fractions.shape[1]} fractions has shape "
            f"{list(z.shape[1:])}; ImplicitQuantile needs [{fractions.shape[1]}, actions]"
        )
    return z


def draw_fractions(key: PRNGKeyArray, batch: int, count: int) -> Float[Array, "B N"]:
    return jax.random.uniform(key, (batch, count))
