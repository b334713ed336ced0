"""What every head offers the learner and the actor.

A head knows how its network's outputs estimate the return of each action, how that
estimate goes through the `Backup`, and the loss towards the result. It does not know
which agent it serves: plain, soft, advantage-learning and Munchausen forms differ only
in the `Regulariser` inside the backup. The network comes to it as a function of a batch of views
(`core.network.batched`).
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from munchausen._src.core.backup import Backup
from munchausen._src.core.network import Apply
from munchausen._src.errors import UserError


class Estimate(NamedTuple):
    """A head's estimate of the return at a batch of states."""

    q: Float[Array, "B A"]  # its mean: what the policy is made of
    returns: Any  # the estimate itself, leading axis B, as `push` takes it


class Loss(NamedTuple):
    loss: Float[Array, " B"]  # one for each transition, before any weight
    q_tm1: Float[Array, "B A"]  # the online network's values at s, for the records


@runtime_checkable
class Head(Protocol):
    @property
    def cosines(self) -> int | None:
        """Size of the implicit-quantile embedding; None for the others."""
        ...

    def outputs(self, actions: int) -> int:
        """How many units the network's last layer needs."""
        ...

    def policy_q(
        self, network: Apply, views: Shaped[Array, "B ..."], key: PRNGKeyArray
    ) -> Float[Array, "B A"]:
        """The values that define the policy."""
        ...

    def estimate(
        self, network: Apply, views: Shaped[Array, "B ..."], key: PRNGKeyArray
    ) -> Estimate:
        """The estimate of the return after each action, with the values of its policy."""
        ...

    def push(self, backup: Backup, returns_t: Any) -> Float[Array, " N"] | Float[Array, ""]:
        """One transition's target: the estimate at s' pushed through the backup."""
        ...

    def loss(
        self,
        network: Apply,
        views: Shaped[Array, "B ..."],
        actions: Int[Array, " B"],
        targets: Float[Array, "B ..."],
        key: PRNGKeyArray,
    ) -> Loss: ...


def split_outputs(
    outputs: Float[Array, "B *O"], head: "Head", each: int, axes: str
) -> tuple[int, int]:
    """How many states there are and how many actions, if each action has `each` outputs."""
    if outputs.ndim != 2 or outputs.shape[1] % each:
        raise UserError(
            f"the network's output for one state has shape {list(outputs.shape[1:])}; "
            f"{type(head).__name__} needs [{axes}]"
        )
    return len(outputs), outputs.shape[1] // each


def of_action(values: Float[Array, "*N A"], action: Int[Array, ""]) -> Float[Array, "*N"]:
    """`values[..., action]`, as a masked sum: its gradient is a product, where an index's is a
    scatter, three kernels on a GPU and a loop on a CPU."""
    mask = jnp.arange(values.shape[-1]) == action
    return jnp.sum(jnp.where(mask, values, 0.0), axis=-1)


def huber(x: Float[Array, "..."], delta: float = 1.0) -> Float[Array, "..."]:
    """½x² for |x| ≤ δ, δ(|x| − ½δ) beyond. (As printed in the paper it is discontinuous.)"""
    size = jnp.abs(x)
    return jnp.where(size <= delta, 0.5 * x * x, delta * (size - 0.5 * delta))
