"""A categorical distribution of returns on fixed atoms (C51, Rainbow), regularised.

With a policy that mixes actions, the return at s' is a mixture over actions whose parts
are each shifted by that action's entropy bonus: atoms `r̃ + γ(z − τ ln π[a'])` with mass
`π[a']·p[a']`. Projected, that is C51 for τ = 0 and gives M-C51 and M-Rainbow otherwise.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from munchausen._src.core.backup import Backup
from munchausen._src.core.heads.base import Estimate, Loss, of_action, split_outputs
from munchausen._src.core.network import Apply


@dataclass(frozen=True)
class Categorical:
    atoms: int = 51
    v_min: float = -10.0
    v_max: float = 10.0
    cosines = None

    @property
    def support(self) -> Float[Array, " K"]:
        return jnp.linspace(self.v_min, self.v_max, self.atoms)

    def outputs(self, actions: int) -> int:
        return actions * self.atoms

    def policy_q(
        self, network: Apply, views: Shaped[Array, "B ..."], key: PRNGKeyArray
    ) -> Float[Array, "B A"]:
        return self.estimate(network, views, key).q

    def estimate(
        self, network: Apply, views: Shaped[Array, "B ..."], key: PRNGKeyArray
    ) -> Estimate:
        del key
        probabilities = jax.nn.softmax(self._logits(network, views), axis=-1)
        return Estimate(probabilities @ self.support, probabilities)

    def push(self, backup: Backup, returns_t: Float[Array, "A K"]) -> Float[Array, " K"]:
        atoms = backup.returns(jnp.broadcast_to(self.support[:, None], returns_t.T.shape))
        mass = backup.policy_t * returns_t.T
        return project(atoms.reshape(-1), mass.reshape(-1), self.support)

    def loss(
        self,
        network: Apply,
        views: Shaped[Array, "B ..."],
        actions: Int[Array, " B"],
        targets: Float[Array, "B K"],
        key: PRNGKeyArray,
    ) -> Loss:
        del key
        logits = self._logits(network, views)
        log_p = jax.nn.log_softmax(jax.vmap(of_action)(logits.mT, actions), axis=-1)
        q = jax.nn.softmax(logits, axis=-1) @ self.support
        return Loss(-jnp.sum(targets * log_p, axis=-1), q)

    def _logits(self, network: Apply, views: Shaped[Array, "B ..."]) -> Float[Array, "B A K"]:
        outputs = network(views)
        batch, actions = split_outputs(outputs, self, self.atoms, f"actions × {self.atoms} atoms")
        return outputs.reshape(batch, actions, self.atoms)


def project(
    atoms: Float[Array, " M"], mass: Float[Array, " M"], support: Float[Array, " K"]
) -> Float[Array, " K"]:
    """Spreads each atom's mass over its two neighbours in `support`, an even grid, so that
    the mean stays; atoms beyond its ends go to the ends (Bellemare et al. 2017, eq. 7)."""
    step = (support[-1] - support[0]) / (len(support) - 1)
    clipped = jnp.clip(atoms, support[0], support[-1])
    closeness = jnp.clip(1.0 - jnp.abs(clipped - support[:, None]) / step, 0.0, 1.0)
    return closeness @ mass
