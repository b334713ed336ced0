"""The expected return: one value an action (DQN)."""

from dataclasses import dataclass

import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from munchausen._src.core.backup import Backup
from munchausen._src.core.heads.base import Estimate, Loss, huber, of_action, split_outputs
from munchausen._src.core.network import Apply
from munchausen._src.errors import unknown

_LOSSES = ("huber", "mse")


@dataclass(frozen=True)
class Expected:
    loss_function: str = "huber"  # or "mse"
    cosines = None

    def __post_init__(self) -> None:
        if self.loss_function not in _LOSSES:
            raise unknown("loss", self.loss_function, _LOSSES)

    def outputs(self, actions: int) -> int:
        return actions

    def policy_q(
        self, network: Apply, views: Shaped[Array, "B ..."], key: PRNGKeyArray
    ) -> Float[Array, "B A"]:
        return self.estimate(network, views, key).q

    def estimate(
        self, network: Apply, views: Shaped[Array, "B ..."], key: PRNGKeyArray
    ) -> Estimate:
        del key
        q = self._values(network, views)
        return Estimate(q, q)

    def push(self, backup: Backup, returns_t: Float[Array, " A"]) -> Float[Array, ""]:
        """r̃ + γ ⟨π, q' − τ ln π⟩"""
        return backup.expectation(returns_t)

    def loss(
        self,
        network: Apply,
        views: Shaped[Array, "B ..."],
        actions: Int[Array, " B"],
        targets: Float[Array, " B"],
        key: PRNGKeyArray,
    ) -> Loss:
        del key
        q = self._values(network, views)
        error = targets - jax.vmap(of_action)(q, actions)
        return Loss(huber(error) if self.loss_function == "huber" else error**2, q)

    def _values(self, network: Apply, views: Shaped[Array, "B ..."]) -> Float[Array, "B A"]:
        q = network(views)
        split_outputs(q, self, 1, "actions")
        return q
