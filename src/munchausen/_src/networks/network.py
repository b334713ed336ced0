"""Our network: a torso, hidden dense layers, a linear output. `core.network` says what any
network is."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from munchausen._src.core.network import call, only_arrays
from munchausen._src.errors import UserError
from munchausen._src.kernels.dense import gate, over_states
from munchausen._src.networks.given import torso_factory
from munchausen._src.networks.layers import Dense, InitialiserName
from munchausen._src.networks.torsos import Encoder, make_encoder


class Network(eqx.Module):
    """Ours. A plain pytree: all leaves are arrays."""

    torso: Any  # an `Encoder`, or a user's
    hidden: tuple[Any, ...]
    output: Dense
    embedding: Dense | None  # of the cosines of implicit quantiles
    scale: float = eqx.field(static=True)  # what observations are multiplied by

    def __call__(
        self,
        observation: Shaped[Array, "..."],
        fractions: Float[Array, " N"] | None = None,
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, " O"] | Float[Array, "N O"]:
        batch = None if fractions is None else fractions[None]
        return self.batch(self.view(observation)[None], batch, key=key)[0]

    def view(self, observation: Shaped[Array, "..."]) -> Float[Array, "..."]:
        x = observation.astype(jnp.float32)
        if self.scale != 1.0:
            x = x * self.scale
        return self.torso.view(x) if isinstance(self.torso, Encoder) else x

    def batch(
        self,
        views: Float[Array, "B ..."],
        fractions: Float[Array, "B N"] | None = None,
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "B O"] | Float[Array, "B N O"]:
        """Implicit quantiles: cos(π·i·fraction), i = 1.., embedded and multiplied into the
        features before the hidden layers (IQN, Dabney et al. 2018)."""
        features = self.features(views, key=_nth(key, 0))
        decode = partial(self._decode, key=key)
        if fractions is None:
            return over_states(decode, features)
        if self.embedding is None or self.embedding.bias is None:
            raise UserError("this network has no embedding of fractions: make it with `cosines`")
        order = jnp.arange(1, self.embedding.weight.shape[1] + 1)
        cosines = jnp.cos(math.pi * order * fractions[..., None])
        x = gate(features, cosines, self.embedding.weight, self.embedding.bias)
        return decode(x).reshape(*fractions.shape, -1)

    def features(
        self, views: Float[Array, "B ..."], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "B F"]:
        if isinstance(self.torso, Encoder):
            return self.torso.batch(views)
        x = jax.vmap(lambda view: call(self.torso, view, key=key))(views)
        return x.reshape(len(x), -1)

    def _decode(self, x: Float[Array, "*N F"], key: PRNGKeyArray | None) -> Float[Array, "*N O"]:
        for i, layer in enumerate(self.hidden, start=1):
            x = jax.nn.relu(call(layer, x, key=_nth(key, i)))
        return call(self.output, x, key=_nth(key, len(self.hidden) + 1))


def _nth(key: PRNGKeyArray | None, i: int) -> PRNGKeyArray | None:
    """The key of a network's i-th part."""
    return None if key is None else jax.random.fold_in(key, i)


def make_network(
    torso: Any,
    observation_shape: tuple[int, ...],
    outputs: int,
    *,
    scale: float = 1.0,
    cosines: int | None = None,
    initialiser: InitialiserName = "glorot_uniform",
    key: PRNGKeyArray,
) -> Network:
    """A whole network for a head that asks for so many `outputs`.

    Args:
        torso: whatever `torso_factory` takes.
        observation_shape: of one observation; channels are last.
        outputs: how many units the last layer has.
        scale: what observations are multiplied by (1/255 brings pixels to [0, 1]).
        cosines: the size of the implicit-quantile embedding, or None for other heads.
        initialiser: of all weights that are not a user's torso's.
        key: for the initial weights.
    """
    factory = torso_factory(torso)
    data = factory.data
    if data is None:
        torso_key, key = jax.random.split(key)
        module = factory(observation_shape, key=torso_key)
        options: Any = {"scale": scale, "cosines": cosines, "initialiser": initialiser}
        return with_head(module, observation_shape, outputs, **options, key=key)
    keys = jax.random.split(key, len(data.encoder) + len(data.hidden) + 2)
    own, keys = keys[: len(data.encoder)], keys[len(data.encoder) :]
    encoder = make_encoder(data.encoder, observation_shape, initialiser, own)
    width = jax.eval_shape(encoder, jnp.zeros(observation_shape)).size
    bias = data.output_bias
    return _put_together(
        encoder, width, data.hidden, outputs, scale, cosines, initialiser, keys, bias
    )


def with_head(
    torso: Callable[..., Any],
    observation_shape: tuple[int, ...],
    outputs: int,
    *,
    hidden: tuple[int, ...] = (),
    scale: float = 1.0,
    cosines: int | None = None,
    initialiser: InitialiserName = "glorot_uniform",
    key: PRNGKeyArray,
) -> Network:
    """A module that maps one observation to features, with what a head needs behind it: `hidden`
    dense layers of these widths and a linear output. The rest as for `make_network`."""
    torso = only_arrays(torso)
    width = _features(torso, observation_shape)
    keys = jax.random.split(key, len(hidden) + 2)
    return _put_together(torso, width, hidden, outputs, scale, cosines, initialiser, keys)


def _put_together(
    torso: Any,
    width: int,
    hidden: tuple[int, ...],
    outputs: int,
    scale: float,
    cosines: int | None,
    initialiser: InitialiserName,
    keys: Array,
    output_bias: bool = True,
) -> Network:
    dense = partial(Dense, initialiser=initialiser)
    widths = (width, *hidden)
    layers = [dense(*sizes, key=keys[i]) for i, sizes in enumerate(itertools.pairwise(widths))]
    output = dense(widths[-1], outputs, key=keys[len(hidden)], bias=output_bias)
    embedding = None if cosines is None else dense(cosines, width, key=keys[len(hidden) + 1])
    return Network(torso, tuple(layers), output, embedding, scale)


def _features(torso: Any, observation_shape: tuple[int, ...]) -> int:
    """How many a user's torso has; says so if it has none."""
    name = type(torso).__name__
    try:
        seen = partial(call, torso, key=jax.random.key(0))  # as in training: layers may draw
        features = jax.eval_shape(seen, jnp.zeros(observation_shape))
    except (TypeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"network {name} cannot take an observation of shape {observation_shape}: {reason}"
        ) from error
    dtype = getattr(features, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.floating) or not features.size:
        gives = f"{dtype}{list(features.shape)}" if dtype else f"{type(features).__name__}"
        raise UserError(f"network {name} must give one array of floats; it gives {gives}")
    return features.size
