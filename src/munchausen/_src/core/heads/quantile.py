"""Fixed quantiles of the return (QR-DQN), and the quantile regression loss IQN shares."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from munchausen._src.core.backup import Backup
from munchausen._src.core.heads.base import Estimate, Loss, huber, of_action, split_outputs
from munchausen._src.core.network import Apply


@dataclass(frozen=True)
class Quantile:
    quantiles: int = 200
    kappa: float = 1.0
    cosines = None

    def outputs(self, actions: int) -> int:
        return actions * self.quantiles

    def policy_q(
        self, network: Apply, views: Shaped[Array, "B ..."], key: PRNGKeyArray
    ) -> Float[Array, "B A"]:
        return self.estimate(network, views, key).q

    def estimate(
        self, network: Apply, views: Shaped[Array, "B ..."], key: PRNGKeyArray
    ) -> Estimate:
        del key
        z = self._quantiles(network, views)
        return Estimate(jnp.mean(z, axis=1), z)

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
        del key
        z = self._quantiles(network, views)
        midpoints = (jnp.arange(self.quantiles) + 0.5) / self.quantiles
        taken = jax.vmap(of_action)(z, actions)
        losses = jax.vmap(quantile_loss, in_axes=(0, None, 0, None))(
            taken, midpoints, targets, self.kappa
        )
        return Loss(losses, jnp.mean(z, axis=1))

    def _quantiles(self, network: Apply, views: Shaped[Array, "B ..."]) -> Float[Array, "B N A"]:
        outputs, each = network(views), self.quantiles
        batch, actions = split_outputs(outputs, self, each, f"{each} quantiles × actions")
        return outputs.reshape(batch, each, actions)


def quantile_loss(
    z: Float[Array, " N"],
    fractions: Float[Array, " N"],
    targets: Float[Array, " M"],
    kappa: float,
) -> Float[Array, ""]:
    """Quantile Huber loss: summed over the estimated fractions, averaged over the targets
    (Dabney et al. 2018, eq. 3)."""
    error = targets[None, :] - z[:, None]
    weight = jnp.abs(fractions[:, None] - (error < 0))
    return jnp.sum(jnp.mean(weight * huber(error, kappa) / kappa, axis=1))
