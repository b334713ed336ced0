"""A finite Markov decision process {S, A, P, r, γ} as arrays, checked when it is made."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from munchausen._src.errors import UserError
from munchausen._src.tabular.precision import float64

_ROW_SUM_TOLERANCE = 1e-9


class MDP(NamedTuple):
    """One MDP, or with a leading axis many of one size, to be mapped over."""

    transitions: Float[Array, "*M S A S"]  # P(s'|s, a)
    rewards: Float[Array, "*M S A"]
    discount: Float[Array, "*M"]

    def expect(self, v: Float[Array, " S"]) -> Float[Array, "S A"]:
        """(P v)(s, a) = E[v(s') | s, a]"""
        return self.transitions @ v

    @property
    def actions(self) -> int:
        return self.rewards.shape[-1]

    @property
    def largest_reward(self) -> Float[Array, ""]:
        """r_max: the largest reward in absolute value."""
        return jnp.max(jnp.abs(self.rewards))


@float64()
def make_mdp(transitions: Any, rewards: Any, discount: Any) -> MDP:
    """An MDP from arrays `P[s, a, s']` and `r[s, a]` and a discount in (0, 1)."""
    p, r = _numbers("transitions", transitions), _numbers("rewards", rewards)
    if p.ndim != 3 or p.shape[0] != p.shape[2] or p.size == 0:
        raise UserError(
            f"transitions must have shape [states, actions, states], not {list(p.shape)}"
        )
    if r.shape != p.shape[:2]:
        raise UserError(
            f"rewards must have shape [states, actions] = {list(p.shape[:2])} as the transitions "
            f"have, not {list(r.shape)}"
        )
    if (p < 0).any():
        where = np.unravel_index(np.argmin(p), p.shape)
        place = ", ".join(str(int(i)) for i in where)
        raise UserError(f"transitions[{place}] = {p[where]:g}: a probability cannot be negative")
    sums = p.sum(axis=-1)
    wrong = np.abs(sums - 1) > _ROW_SUM_TOLERANCE
    if wrong.any():
        s, a = (int(i) for i in np.argwhere(wrong)[0])
        raise UserError(
            f"transitions[{s}, {a}] sums to {sums[s, a]:.10g}, not to 1 "
            f"({int(wrong.sum())} of {wrong.size} rows are wrong)"
        )
    if not isinstance(discount, int | float | np.number) or not 0 < discount < 1:
        raise UserError(f"discount must be in (0, 1), not {discount!r}")
    return MDP(jnp.asarray(p), jnp.asarray(r), jnp.asarray(float(discount)))


@float64()
def stack_mdps(mdps: Sequence[MDP]) -> MDP:
    """Many MDPs of one size along a leading axis."""
    shapes = {tuple(m.rewards.shape) for m in mdps}
    if len(shapes) != 1:
        sizes = ", ".join(f"{s} states × {a} actions" for s, a in sorted(shapes))
        raise UserError(f"MDPs that are run together must have one size, not {sizes or 'none'}")
    return MDP(*(jnp.stack(part) for part in zip(*mdps, strict=True)))


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be an array of numbers, all rows of one length") from None
    if not np.isfinite(array).all():
        raise UserError(f"{name} must be finite, but hold NaN or infinity")
    return array
