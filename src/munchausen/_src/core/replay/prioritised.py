"""Drawing by priority (Schaul et al. 2016, as Dopamine's Rainbow has it).

A two-level sum in place of a tree: priorities lie in about √N blocks of √N. A draw finds
its block in the running sum of the blocks, then its place in the running sum of that block.
Nothing but the priorities is stored, so no sum can drift.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

_TINY = 1e-10  # Dopamine's, in importance weights


class Priorities(NamedTuple):
    values: Float[Array, "blocks block"]  # place after place; 0 where nothing can be drawn
    largest: Float[Array, ""]  # ever given: what a new transition gets


def make_priorities(capacity: int) -> Priorities:
    block = math.ceil(math.sqrt(capacity))
    blocks = math.ceil(capacity / block)
    return Priorities(jnp.zeros((blocks, block)), jnp.ones(()))


def draw(
    priorities: Priorities, key: PRNGKeyArray, batch: int
) -> tuple[Int[Array, " B"], Float[Array, " B"]]:
    """Places and importance weights 1/√p over their largest; one draw from each of `batch`
    equal shares of the total priority (Dopamine's stratified sampling)."""
    sums = jnp.sum(priorities.values, axis=1)
    ends = jnp.cumsum(sums)
    # Compilers sum in tiles, so a running sum may rise where nothing was added: only where
    # there is something does it count.
    running = jnp.where(sums > 0, ends, 0.0)
    total = jnp.broadcast_to(jnp.max(running), (batch,))
    shares = (jnp.arange(batch) + jax.random.uniform(key, (batch,))) / batch
    mass = _below(shares * total, total)
    block = jnp.argmax(running > mass[:, None], axis=1)
    inside = priorities.values[block]
    within = jnp.where(inside > 0, jnp.cumsum(inside, axis=1), 0.0)
    start = jnp.where(block > 0, ends[block - 1], 0.0)
    mass = _below(mass - start, jnp.max(within, axis=1))
    offset = jnp.argmax(within > mass[:, None], axis=1)

    weights = 1.0 / jnp.sqrt(priorities.values[block, offset] + _TINY)
    return block * priorities.values.shape[1] + offset, weights / jnp.max(weights)


def put(priorities: Priorities, places: Int[Array, " B"], new: Float[Array, " B"]) -> Priorities:
    values = priorities.values.reshape(-1).at[places].set(new)
    return Priorities(
        values.reshape(priorities.values.shape), jnp.maximum(priorities.largest, jnp.max(new))
    )


def _below(x: Float[Array, "*B"], bound: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """Rounding must not push a draw to the very end of a running sum, past its last item."""
    return jnp.clip(x, 0.0, jnp.nextafter(bound, jnp.zeros_like(bound)))
