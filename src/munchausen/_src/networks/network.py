"""A network is an encoder, hidden dense layers and a linear output; torsos are data."""

import math
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from munchausen._src.errors import UserError
from munchausen._src.networks.convolution import Convolution, Padding
from munchausen._src.networks.layers import Dense, InitialiserName, add_in_two


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

    @property
    def is_large(self) -> bool:
        """Whether a convolution takes another's outputs, as Atari's do."""
        return sum(isinstance(layer, ConvolutionSpec) for layer in self.encoder) > 1


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


class Network(eqx.Module):
    """Maps views of observations to their outputs. A plain pytree: all leaves are arrays."""

    encoder: tuple[Convolution | Dense, ...]
    hidden: tuple[Dense, ...]
    output: Dense
    embedding: Dense | None  # of the cosines of implicit quantiles
    scale: float = eqx.field(static=True)  # what observations are multiplied by

    def view(self, observation: Shaped[Array, "..."]) -> Float[Array, "..."]:
        """An observation as the first layer takes it. No weight has a part in it: it is the
        same for the online and the target network, so a learner makes it once."""
        x = observation.astype(jnp.float32)
        if self.scale != 1.0:
            x = x * self.scale
        first = self.encoder[0] if self.encoder else None
        return first.blocks(x) if isinstance(first, Convolution) else x.reshape(-1)

    def features(self, views: Float[Array, "B ..."]) -> Float[Array, "B F"]:
        x = views
        for i, layer in enumerate(self.encoder):
            if isinstance(layer, Dense):
                x = jax.vmap(layer)(x)
            else:
                x = layer.of_blocks(x) if i == 0 else layer(x)
            x = jax.nn.relu(x)
        return x.reshape(len(x), -1)

    def __call__(self, views: Float[Array, "B ..."]) -> Float[Array, "B O"]:
        features = self.features(views)
        # A GPU's few outputs are sums of one state; a CPU has all states' in one product.
        on_cpu = jax.default_backend() == "cpu"
        return self._decode(features) if on_cpu else jax.vmap(self._decode)(features)

    def batch(self, views, fractions=None, *, key=None):
        del key
        return self(views) if fractions is None else self.at_fractions(views, fractions)

    def at_fractions(
        self, views: Float[Array, "B ..."], fractions: Float[Array, "B N"]
    ) -> Float[Array, "B N O"]:
        """Implicit quantiles: cos(π·i·fraction), i = 1.., embedded and multiplied into the
        features before the hidden layers (IQN, Dabney et al. 2018). The fractions of all states
        are the rows of one product."""
        embedding = self.embedding
        assert embedding is not None
        assert embedding.bias is not None
        order = jnp.arange(1, embedding.weight.shape[1] + 1)
        # Behind the barrier they are made once, not again within each product that takes them.
        cosines = jax.lax.optimization_barrier(jnp.cos(math.pi * order * fractions[..., None]))
        product = embedding.product(cosines)
        # In two, the bias's gradient is summed over fractions in the same pass as the features'.
        add_bias = partial(add_in_two, bias=embedding.bias)
        gates = jax.nn.relu(jax.vmap(add_bias)(product))
        features, rows = self.features(views)[:, None], fractions.size
        if jax.default_backend() != "cpu":
            # Multiplied as rows: of [B, N, F] XLA makes [B, F, N] and back, 60 MB each on Atari.
            features = jnp.broadcast_to(features, gates.shape).reshape(rows, -1)
            gates = gates.reshape(rows, -1)
        x = (features * gates).reshape(rows, -1)
        return self._decode(x).reshape(*fractions.shape, -1)

    def _decode(self, x: Float[Array, "*N F"]) -> Float[Array, "*N O"]:
        for layer in self.hidden:
            x = jax.nn.relu(layer(x))
        return self.output(x)


def make_network(
    torso: Torso,
    observation_shape: tuple[int, ...],
    outputs: int,
    *,
    scale: float,
    cosines: int | None,
    initialiser: InitialiserName,
    key: PRNGKeyArray,
) -> Network:
    """Builds a network; `cosines` is the size of the implicit-quantile embedding, or None."""
    images = bool(torso.encoder) and not isinstance(torso.encoder[0], int)
    if images and len(observation_shape) != 3:
        raise UserError(
            f"this network needs images, but an observation has shape {observation_shape}; "
            "try --network mlp"
        )
    keys = iter(jax.random.split(key, len(torso.encoder) + len(torso.hidden) + 2))
    shape, encoder = observation_shape, []
    for spec in torso.encoder:
        if isinstance(spec, int):
            width = math.prod(shape)
            encoder.append(Dense(width, spec, initialiser=initialiser, key=next(keys)))
            shape = (spec,)
        else:
            layer = Convolution(
                shape[-1],
                spec.channels,
                spec.kernel,
                stride=spec.stride,
                padding=spec.padding,
                initialiser=initialiser,
                key=next(keys),
            )
            shape = jax.eval_shape(layer, jnp.zeros((1, *shape))).shape[1:]
            encoder.append(layer)
    features = width = math.prod(shape)
    hidden = []
    for outer in torso.hidden:
        hidden.append(Dense(width, outer, initialiser=initialiser, key=next(keys)))
        width = outer
    output = Dense(width, outputs, initialiser=initialiser, key=next(keys), bias=torso.output_bias)
    embedding = None
    if cosines is not None:
        embedding = Dense(cosines, features, initialiser=initialiser, key=next(keys))
    return Network(tuple(encoder), tuple(hidden), output, embedding, scale)
