"""Torsos that a user gives: a name, an import path, a class, a module, a pair of functions."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree, Shaped

from munchausen._src.core.network import call, only_arrays
from munchausen._src.errors import UserError, unknown
from munchausen._src.networks.torsos import TORSOS, Torso, make_encoder

_FORMS = (
    "a name, MODULE:NAME, a class or function called with (observation_shape, key=key), a module "
    "such as equinox's, or a pair of functions (init, apply)"
)


class TorsoFactory:
    """Makes a torso for observations of a shape: a module that maps one to its features. Networks
    that shall be of one structure, as an online and a target network, come from one factory."""

    def __init__(self, name: str, make: Callable[..., Any], data: Torso | None = None):
        """`name`: as a run's configuration writes it. `data`: of a torso of ours."""
        self.name = name
        self.data = data
        self._make = make
        self._structures: dict[tuple[int, ...], Any] = {}

    def __str__(self) -> str:
        return self.name

    def __call__(self, observation_shape: tuple[int, ...], *, key: PRNGKeyArray) -> Any:
        module = only_arrays(self._make(observation_shape, key=key))
        if not callable(module):
            raise UserError(
                f"network {self.name} makes {_a(module)}, which cannot be called with an "
                "observation; give it a method __call__"
            )
        # A function within a module (a lambda) is another one each time it is made, and would
        # make another structure of the same arrays.
        structure = self._structures.setdefault(observation_shape, jax.tree.structure(module))
        return jax.tree.unflatten(structure, jax.tree.leaves(module))


def torso_factory(given: Any) -> TorsoFactory:
    """`given`: one of these, or a factory as it is:

    - a name in `TORSOS`, or a `Torso`;
    - `MODULE:NAME`, of a module that is imported already;
    - a class or function that is called with `(observation_shape, key=key)`;
    - a module that can be called with one observation: its weights are the initial ones;
    - a pair `(init, apply)`, or an object with both as methods: `init(key, observation)` gives
      parameters, `apply(parameters, observation)` features.
    """
    if isinstance(given, TorsoFactory):
        return given
    if isinstance(given, str):
        return _by_name(given)
    if isinstance(given, Torso):
        names = [name for name, torso in TORSOS.items() if torso == given]
        return TorsoFactory(names[0] if names else _unwritten(given), _encoder_of(given), given)
    if isinstance(given, type):
        return TorsoFactory(_path_of(given), _checked(given))
    if pair := _pair(given):
        return TorsoFactory(_unwritten(given), lambda shape, *, key: Applied(*pair, shape, key))
    if not callable(given):
        raise UserError(f"a network is {_FORMS}; {_a(given)} is none of these")
    if isinstance(given, eqx.Module) or any(map(_is_array, jax.tree.leaves(given))):
        return TorsoFactory(_unwritten(given), lambda _shape, *, key: given)  # noqa: ARG005
    return TorsoFactory(_path_of(given), _checked(given))


def _by_name(name: str) -> TorsoFactory:
    if name in TORSOS:
        return torso_factory(TORSOS[name])
    if name.startswith("<"):
        raise UserError(
            f"this run's network was an object in Python, {name}: no name brings it back, so give "
            "it again as Agent(…, network=…)"
        )
    module, _, path = name.rpartition(":")
    if not module:
        raise unknown("network", name, TORSOS, ", ".join(TORSOS) + ", or MODULE:NAME of your own")
    # Nothing is imported because a file says so: a run's folder may be somebody else's.
    if module not in sys.modules:
        raise UserError(
            f"network {name} is defined by {module!r}: if you trust that module, --import {module} "
            f"(in Python: import {module})"
        )
    found: Any = sys.modules[module]
    for part in path.split("."):
        if not hasattr(found, part):
            known = [each for each in vars(found) if not each.startswith("_")]
            raise unknown(f"name in {module}", part, known, "none that is alike")
        found = getattr(found, part)
    if isinstance(found, str) or not (callable(found) or _pair(found)):
        raise UserError(f"network {name} is {_a(found)}; it must be {_FORMS}")
    factory = torso_factory(found)
    return TorsoFactory(name, factory._make, factory.data)


def _encoder_of(torso: Torso) -> Callable[..., Any]:
    def make(observation_shape: tuple[int, ...], *, key: PRNGKeyArray) -> Any:
        keys = jax.random.split(key, len(torso.encoder))
        return make_encoder(torso.encoder, observation_shape, "glorot_uniform", keys)

    return make


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    def make(observation_shape: tuple[int, ...], *, key: PRNGKeyArray) -> Any:
        try:
            inspect.signature(function).bind(observation_shape, key=key)
        except TypeError as error:
            raise UserError(
                f"network {_path_of(function)} is called with (observation_shape, key=key), which "
                f"it does not take: {error}"
            ) from None
        except ValueError:
            pass  # it does not say what it takes
        return function(observation_shape, key=key)

    return make


def _pair(given: Any) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    if isinstance(given, tuple) and len(given) == 2:
        init, apply = given
    else:
        init, apply = getattr(given, "init", None), getattr(given, "apply", None)
    return (init, apply) if callable(init) and callable(apply) else None


def _path_of(given: Any) -> str:
    """Of a class or function that can be found again by its name."""
    name = getattr(given, "__qualname__", "<")
    return _unwritten(given) if "<" in name else f"{given.__module__}:{name}"


def _unwritten(given: Any) -> str:
    name = getattr(given, "__qualname__", type(given).__qualname__)
    return f"<{name.replace('<', '').replace('>', '')}>"


def _a(thing: Any) -> str:
    return f"an object of type {type(thing).__name__}"


class Applied(eqx.Module):
    """A pair of functions and its parameters as a module."""

    parameters: PyTree
    apply: Callable[..., Any] = eqx.field(static=True)

    def __init__(
        self,
        init: Callable[..., Any],
        apply: Callable[..., Any],
        observation_shape: tuple[int, ...],
        key: PRNGKeyArray,
    ):
        self.parameters = init(key, jax.numpy.zeros(observation_shape))
        self.apply = apply

    def __call__(self, observation: Shaped[Array, "..."], *, key: PRNGKeyArray | None = None):
        return call(self.apply, self.parameters, observation, key=key)


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray)
