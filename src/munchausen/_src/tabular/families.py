"""MDPs to try things on: random Garnets, a chain, a grid."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from munchausen._src.errors import UserError
from munchausen._src.tabular.mdp import MDP, make_mdp
from munchausen._src.tabular.precision import QUICKLY, float64


@float64()
def garnets(
    key: PRNGKeyArray,
    count: int,
    *,
    states: int = 8,
    actions: int = 3,
    branching: int = 3,
    discounts: tuple[float, float] = (0.5, 0.95),
) -> MDP:
    """`count` random MDPs along a leading axis (Archibald et al. 1995, as Geist & Scherrer 2014).

    From each state-action `branching` distinct next states, with probabilities cut from the
    unit interval at uniform points. Rewards are uniform in [−1, 1], discounts in `discounts`.
    """
    for name, value in (("count", count), ("states", states), ("actions", actions)):
        if value < 1:
            raise UserError(f"{name} must be at least 1, not {value}")
    if not 1 <= branching <= states:
        raise UserError(f"branching must be from 1 to {states} (the states), not {branching}")
    low, high = discounts
    if not 0 < low <= high < 1:
        raise UserError(f"discounts must be in (0, 1), the lower first, not {discounts}")
    return _draw(key, (count, states, actions), branching, jnp.array(discounts))


@functools.partial(jax.jit, static_argnums=(1, 2), compiler_options=QUICKLY)
def _draw(
    key: PRNGKeyArray, rows: tuple[int, int, int], branching: int, discounts: Float[Array, "2"]
) -> MDP:
    count, states, _ = rows
    low, high = discounts
    next_key, cut_key, reward_key, discount_key = jax.random.split(key, 4)
    _, chosen = jax.lax.top_k(jax.random.uniform(next_key, (*rows, states)), branching)
    # Gaps between uniform points are exponentials over their sum: the same law, and no sort.
    lengths = jax.random.exponential(cut_key, (*rows, branching))
    probabilities = lengths / jnp.sum(lengths, axis=-1, keepdims=True)
    targets = jax.nn.one_hot(chosen, states, dtype=jnp.float64)
    return MDP(
        transitions=jnp.einsum("...b,...bs->...s", probabilities, targets),
        rewards=jax.random.uniform(reward_key, rows, minval=-1.0, maxval=1.0),
        discount=jax.random.uniform(discount_key, (count,), minval=low, maxval=high),
    )


def chain_walk(length: int = 10, *, slip: float = 0.1, discount: float = 0.9) -> MDP:
    """Left and right on a line, with a probability to slip the other way.

    The right end pays 1 for going right, the left end 0.1 for going left: the near reward is a
    trap. Walls hold.
    """
    if length < 2:
        raise UserError(f"length must be at least 2, not {length}")
    if not 0 <= slip <= 1:
        raise UserError(f"slip must be in [0, 1], not {slip:g}")
    p = np.zeros((length, 2, length))
    for s in range(length):
        for a, move in enumerate((-1, 1)):
            p[s, a, np.clip(s + move, 0, length - 1)] += 1 - slip
            p[s, a, np.clip(s - move, 0, length - 1)] += slip
    r = np.zeros((length, 2))
    r[0, 0], r[-1, 1] = 0.1, 1.0
    return make_mdp(p, r, discount)


def grid_world(rows: int = 4, columns: int = 4, *, slip: float = 0.1, discount: float = 0.9) -> MDP:
    """Up, right, down, left; with probability `slip` a uniformly random one of the four.

    Every action in the last cell pays 1 and leads back to the first. Many actions are equally
    good, so optimal policies are not unique.
    """
    if rows < 1 or columns < 1 or rows * columns < 2:
        raise UserError(f"a grid needs at least 2 cells, not {rows} × {columns}")
    if not 0 <= slip <= 1:
        raise UserError(f"slip must be in [0, 1], not {slip:g}")
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    states = rows * columns
    to = np.zeros((states, 4, states))
    for s in range(states):
        y, x = divmod(s, columns)
        for a, (dy, dx) in enumerate(moves):
            cell = np.clip(y + dy, 0, rows - 1) * columns + np.clip(x + dx, 0, columns - 1)
            to[s, a, cell] = 1.0
    to[-1] = np.eye(states)[0]
    p = (1 - slip) * to + slip * to.mean(axis=1, keepdims=True)
    r = np.zeros((states, 4))
    r[-1] = 1.0
    return make_mdp(p, r, discount)
