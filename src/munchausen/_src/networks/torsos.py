"""Torsos: what lies between an observation and the output of a network. Ours are data."""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from munchausen._src.errors import UserError
from munchausen._src.kernels.convolution import Padding
from munchausen._src.networks.layers import Convolution, Dense, InitialiserName


@dataclass(frozen=True)
class ConvolutionSpec:
    channels: int
    kernel: int
    stride: int
    padding: Padding


@dataclass(frozen=True)
class Torso:
    """What lies before the output. Implicit quantiles are multiplied in after the encoder."""

    encoder: tuple[ConvolutionSpec | int, ...]  # a convolution, or the width of a dense layer
    hidden: tuple[int, ...]
    source: str
    output_bias: bool = True


TORSOS = {
    "nature": Torso(
        encoder=(
            ConvolutionSpec(32, kernel=8, stride=4, padding="SAME"),
            ConvolutionSpec(64, kernel=4, stride=2, padding="SAME"),
            ConvolutionSpec(64, kernel=3, stride=1, padding="SAME"),
        ),
        hidden=(512,),
        source="Dopamine's NatureDQNNetwork: SAME padding, 7,744 features",
    ),
    "minatar": Torso(
        encoder=(ConvolutionSpec(16, kernel=3, stride=1, padding="VALID"),),
        hidden=(128,),
        source="Young & Tian 2019, the authors of MinAtar",
    ),
    "minatar-linear": Torso(
        encoder=(ConvolutionSpec(16, kernel=3, stride=1, padding="SAME"),),
        hidden=(),
        source="Obando-Ceron & Castro 2021, Revisiting Rainbow",
    ),
    "mlp": Torso(
        encoder=(512, 512),
        hidden=(),
        source="Obando-Ceron & Castro 2021, Revisiting Rainbow (classic control)",
    ),
    "mlp-small": Torso(encoder=(64, 64), hidden=(), source="ours, for tests and tiny problems"),
    "table": Torso(
        encoder=(),
        hidden=(),
        output_bias=False,
        source="one weight a feature and action: a table where observations are one-hot",
    ),
}


class Encoder(eqx.Module):
    """Convolutions or dense layers, each with a ReLU behind it. Callable with one observation,
    as any torso is; `view` and `batch` are the same in two halves, for a batch."""

    layers: tuple[Convolution | Dense, ...]

    def __call__(self, observation: Float[Array, "..."]) -> Float[Array, " F"]:
        return self.batch(self.view(observation)[None])[0]

    def view(self, observation: Float[Array, "..."]) -> Float[Array, "..."]:
        """What can be done to an observation before any weight is known."""
        first = self.layers[0] if self.layers else None
        return first.view(observation) if isinstance(first, Convolution) else observation.ravel()

    def batch(self, views: Float[Array, "B ..."]) -> Float[Array, "B F"]:
        x = views
        for i, layer in enumerate(self.layers):
            if isinstance(layer, Dense):
                x = jax.vmap(layer)(x.reshape(len(x), -1))
            else:
                x = layer.of_views(x) if i == 0 else layer(x)
            x = jax.nn.relu(x)
        return x.reshape(len(x), -1)


def make_encoder(
    specs: tuple[ConvolutionSpec | int, ...],
    observation_shape: tuple[int, ...],
    initialiser: InitialiserName,
    keys: Array,
) -> Encoder:
    """An encoder of these layers; one key for each."""
    if specs and not isinstance(specs[0], int) and len(observation_shape) != 3:
        raise UserError(
            f"this network needs images, but an observation has shape {observation_shape}; "
            "try --network mlp"
        )
    shape, layers = observation_shape, []
    for spec, key in zip(specs, keys, strict=True):
        options: Any = {"initialiser": initialiser, "key": key}
        if isinstance(spec, int):
            layers.append(Dense(math.prod(shape), spec, **options))
            shape = (spec,)
        else:
            layer = Convolution(
                shape[-1],
                spec.channels,
                spec.kernel,
                stride=spec.stride,
                padding=spec.padding,
                **options,
            )
            shape = jax.eval_shape(layer, jnp.zeros((1, *shape))).shape[1:]
            layers.append(layer)
    return Encoder(tuple(layers))
