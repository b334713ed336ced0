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


class _Closed(eqx.Module):
    """A network whose leaves that are no arrays (functions, numbers) became part of its type:
    programs take arrays alone."""

    arrays: PyTree
    rest: PyTree = eqx.field(static=True)


def closed(network: Network) -> Network:
    """`network` with arrays as its only leaves. Refuses one that has nothing to train."""
    if not any(jax.tree.leaves(trainable(network))):
        raise UserError(
            f"{type(network).__name__} has no arrays of floats to train: a network is a pytree "
            "(such as an equinox.Module) that holds its weights"
        )
    if all(eqx.is_array(leaf) for leaf in jax.tree.leaves(network)):
        return network
    return _Closed(*eqx.partition(network, eqx.is_array))


def opened(network: Network) -> Network:
    """The network as its author made it."""
    if isinstance(network, _Closed):
        return eqx.combine(network.arrays, network.rest)
    return network


def view(network: Network, observations: Shaped[Array, "B ..."]) -> Shaped[Array, "B ..."]:
    own = getattr(opened(network), "view", None)
    return observations if own is None else jax.vmap(own)(observations)


def batched(network: Network, key: PRNGKeyArray | None = None) -> Apply:
    """`network` as a function of a batch of views, and of fractions for implicit quantiles."""
    network = opened(network)
    function = getattr(network, "batch", network)
    if takes_key(function):
        function = partial(function, key=key)
    if not hasattr(network, "batch"):
        return lambda *arguments: jax.vmap(function)(*arguments)
    return function


def takes_key(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a built-in function says nothing of itself
        return False
    return any(p.name == "key" or p.kind is p.VAR_KEYWORD for p in parameters)
