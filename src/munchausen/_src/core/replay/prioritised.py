"""Prioritised sampling on top of the ring (Schaul et al. 2016, as Dopamine's Rainbow has it).

A two-level sum in place of a tree: priorities lie in about √N blocks of √N. A draw finds
its block in the running sum of the blocks, then its slot in the running sum of that block.
Nothing but the priorities is stored, so no sum can drift.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from munchausen._src.core.replay.ring import FINAL, Ring

_TINY = 1e-10  # Dopamine's, in priorities and in importance weights


class Priorities(NamedTuple):
    values: Float[Array, "blocks block"]  # slot-major: slot·E + env; 0 where not eligible
    largest: Float[Array, ""]  # ever given: what a new transition gets


def make_priorities(capacity: int) -> Priorities:
    block = math.ceil(math.sqrt(capacity))
    blocks = math.ceil(capacity / block)
    return Priorities(jnp.zeros((blocks, block)), jnp.ones(()))


def advance(
    priorities: Priorities,
    ring: Ring,
    cut: Bool[Array, " e"],
    *,
    n_step: int,
    stack: int,
    first: int = 0,
) -> Priorities:
    """Follows one `append`: transitions whose outcome arrived become eligible at the largest
    priority, those about to lose a frame to the write head leave."""
    values = priorities.values.reshape(-1)
    some = slice(first, first + len(cut))
    env = jnp.arange(some.start, some.stop)

    def put(values: Array, row: Array, value: Array | float, where: Array) -> Array:
        index = (row % ring.rows) * ring.envs + env
        return values.at[jnp.where(where, index, values.size)].set(value, mode="drop")

    always = jnp.ones_like(cut)
    # Up to two rows were written (the second where an episode was cut).
    for back in (1, 0):
        head = ring.head[some] - back
        moved = always if back == 0 else cut
        for ahead in range(stack):
            values = put(values, head + ahead, 0.0, moved)
        ready = head - n_step
        kind = ring.kinds[ready % ring.rows, env]
        fits = moved & (ready >= 0) & (kind != FINAL)
        values = put(values, ready, priorities.largest, fits)
    return priorities._replace(values=values.reshape(priorities.values.shape))


def sample_prioritised(
    priorities: Priorities, ring: Ring, key: PRNGKeyArray, batch: int
) -> tuple[Int[Array, " B"], Int[Array, " B"], Float[Array, " B"]]:
    """Rows, environments and importance weights; one draw from each of `batch` equal shares
    of the total priority (Dopamine's stratified sampling)."""
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

    index = block * priorities.values.shape[1] + offset
    slot, env = index // ring.envs, index % ring.envs
    weights = 1.0 / jnp.sqrt(priorities.values[block, offset] + _TINY)
    # Back from slots to rows of the stream: the latest row at or before the head.
    row = ring.head[env] - (ring.head[env] - slot) % ring.rows
    return row, env, weights / jnp.max(weights)


def update_priorities(
    priorities: Priorities,
    ring: Ring,
    row: Int[Array, " B"],
    env: Int[Array, " B"],
    losses: Float[Array, " B"],
) -> Priorities:
    """Priority √(loss + 1e-10)."""
    new = jnp.sqrt(losses + _TINY)
    index = (row % ring.rows) * ring.envs + env
    values = priorities.values.reshape(-1).at[index].set(new)
    return Priorities(
        values.reshape(priorities.values.shape), jnp.maximum(priorities.largest, jnp.max(new))
    )


def _below(x: Float[Array, "*B"], bound: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """Rounding must not push a draw to the very end of a running sum, past its last item."""
    return jnp.clip(x, 0.0, jnp.nextafter(bound, jnp.zeros_like(bound)))
