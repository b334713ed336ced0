"""Lanes side by side: several share an axis in front of every array; a single one has none.

(With an axis of length 1 a matrix product would still be a batched one, at half the speed on a
CPU, and XLA could not update a network's weights in place.)
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def over_lanes(function: Callable[..., Any], width: int, *, shared: int = 0) -> Callable[..., Any]:
    """`function` of one lane as a function of `width` lanes, which share its last `shared`
    arguments."""
    if width == 1:
        return function

    def mapped(*arguments: Any) -> Any:
        axes = [0] * (len(arguments) - shared) + [None] * shared
        return jax.vmap(function, in_axes=tuple(axes))(*arguments)

    return mapped


def side_by_side(lanes: Sequence[Any]) -> Any:
    """Trees of one lane each as one tree."""
    if len(lanes) == 1:
        return lanes[0]
    return jax.tree.map(lambda *x: jnp.stack(x), *lanes)


def lane_of(tree: Any, lane: int, width: int) -> Any:
    """One lane out of a tree of `width`."""
    return tree if width == 1 else jax.tree.map(lambda x: x[lane], tree)
