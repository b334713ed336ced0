"""What a learner asks of a network, so that any callable module will do.

A network is a pytree that maps **one** observation to its outputs:

    network(observation, *, key=None) -> [outputs]
    network(observation, fractions, *, key=None) -> [fractions, actions]     implicit quantiles

Its arrays of floats are trained, but for those inside a `Frozen`. `key` is handed on where the
signature has it: None when an agent is evaluated, otherwise one key for the whole batch, so that
noisy layers draw once a pass. Two methods are optional, and there for speed:

    view(observation)                          what needs no weight: made once for both networks
    batch(views, fractions=None, *, key=None)  the outputs of a batch of views
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Shaped

from munchausen._src.errors import UserError

Network = Any  # a pytree that is called as above
Apply = Callable[..., Float[Array, "B *outputs"]]  # of views, and of fractions where it has them


class Frozen(eqx.Module):
    """Marks a part of a network that is not trained. The network reads it as `part.value`."""

    value: PyTree


def trainable(network: Network) -> PyTree:
    """True for each array of floats that is not frozen, as `equinox.partition` takes it."""
    return jax.tree.map(
        lambda x: not isinstance(x, Frozen) and eqx.is_inexact_array(x),
        network,
        is_leaf=lambda x: isinstance(x, Frozen),
    )


class OnlyArrays(eqx.Module):
    """A module whose leaves that are no arrays (functions, numbers) became part of its type:
    programs and checkpoints take arrays alone."""

    arrays: PyTree
    rest: tuple[Any, ...] = eqx.field(static=True)  # leaves and structure

    def __init__(self, module: Any):
        self.arrays, rest = eqx.partition(module, eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        self.rest = (tuple(leaves), structure)

    @property
    def module(self) -> Any:
        leaves, structure = self.rest
        return eqx.combine(self.arrays, jax.tree.unflatten(structure, leaves))

    def __call__(self, *arguments: Any, key: PRNGKeyArray | None = None) -> Any:
        return call(self.module, *arguments, key=key)


def only_arrays(module: Any) -> Any:
    """As it is where all its leaves are arrays, and callable as before otherwise."""
    module = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, module)
    if all(map(eqx.is_array, jax.tree.leaves(module))) or not callable(module):
        return module
    return OnlyArrays(module)


def checked(network: Network) -> Network:
    """With arrays as its only leaves. Refuses one that has nothing to train."""
    if not any(jax.tree.leaves(trainable(network))):
        raise UserError(
            f"{type(network).__name__} has no arrays of floats to train: a network is a pytree "
            "(such as an equinox.Module) that holds its weights"
        )
    return only_arrays(network)


def view(network: Network, observations: Shaped[Array, "B ..."]) -> Shaped[Array, "B ..."]:
    network = _opened(network)
    return jax.vmap(network.view)(observations) if _has(network, "view") else observations


def batched(network: Network, key: PRNGKeyArray | None = None) -> Apply:
    """`network` as a function of a batch of views, and of fractions for implicit quantiles."""
    network = _opened(network)
    if _has(network, "batch"):
        return partial(call, network.batch, key=key)
    return jax.vmap(partial(call, network, key=key))


def call(layer: Callable[..., Any], *arguments: Any, key: PRNGKeyArray | None = None) -> Any:
    """`layer` of these, with `key` if it takes one."""
    try:
        parameters = inspect.signature(layer).parameters.values()
    except (TypeError, ValueError):  # it does not say what it takes
        parameters = ()
    takes_key = any(p.name == "key" or p.kind is p.VAR_KEYWORD for p in parameters)
    return layer(*arguments, key=key) if takes_key else layer(*arguments)


def _has(network: Network, method: str) -> bool:
    """Of its class: a field may be called so too."""
    return callable(getattr(type(network), method, None))


def _opened(network: Network) -> Network:
    """As its author made it."""
    return network.module if isinstance(network, OnlyArrays) else network
