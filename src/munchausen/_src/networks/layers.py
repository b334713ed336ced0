"""Layers and named initialisers. Weights lie as equinox keeps them, on every machine."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from munchausen._src.kernels import convolution, dense

InitialiserName = Literal["glorot_uniform", "fan_in_uniform"]

INITIALISERS: dict[str, Callable[..., Array]] = {
    # The DQN family (Dopamine's default).
    "glorot_uniform": jax.nn.initializers.glorot_uniform(),
    # Rainbow, C51 and IQN in Dopamine: variance scaling 1/√3, fan-in, uniform.
    "fan_in_uniform": jax.nn.initializers.variance_scaling(1 / np.sqrt(3.0), "fan_in", "uniform"),
}


class Dense(eqx.Module):
    """W x + b."""

    weight: Float[Array, "O I"]
    bias: Float[Array, " O"] | None

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        initialiser: InitialiserName = "glorot_uniform",
        key: PRNGKeyArray,
        bias: bool = True,
    ):
        self.weight = INITIALISERS[initialiser](key, (inputs, outputs)).T
        self.bias = jnp.zeros(outputs) if bias else None

    def __call__(self, x: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        return dense.dense(x, self.weight, self.bias)


class Convolution(eqx.Module):
    """A convolution over a batch of images whose channels come last."""

    weight: Float[Array, "O I k k"]
    bias: Float[Array, " O"]
    stride: int = eqx.field(static=True)
    padding: convolution.Padding = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int,
        padding: convolution.Padding,
        initialiser: InitialiserName = "glorot_uniform",
        key: PRNGKeyArray,
    ):
        drawn = INITIALISERS[initialiser](key, (kernel, kernel, inputs, outputs))
        self.weight = drawn.transpose(3, 2, 0, 1)
        self.bias = jnp.zeros(outputs)
        self.stride, self.padding = stride, padding

    def __call__(self, images: Float[Array, "n H W I"]) -> Float[Array, "n h w O"]:
        return self.of_views(jax.vmap(self.view)(images))

    def view(self, image: Float[Array, "H W I"]) -> Float[Array, "b c B"]:
        """What can be done to an image before any weight is known."""
        kernel = self.weight.shape[-1]
        return convolution.blocks(image, kernel, stride=self.stride, padding=self.padding)

    def of_views(self, views: Float[Array, "n b c B"]) -> Float[Array, "n h w O"]:
        return convolution.of_blocks(
            views, self.weight, self.bias, stride=self.stride, padding=self.padding
        )
