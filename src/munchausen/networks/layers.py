"""Dense and convolutional layers with named initialisers, on one example at a time."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

InitialiserName = Literal["glorot_uniform", "fan_in_uniform"]
Padding = Literal["SAME", "VALID"]

INITIALISERS: dict[str, Callable[..., Array]] = {
    # The DQN family (Dopamine's default).
    "glorot_uniform": jax.nn.initializers.glorot_uniform(),
    # Rainbow, C51 and IQN in Dopamine: variance scaling 1/√3, fan-in, uniform.
    "fan_in_uniform": jax.nn.initializers.variance_scaling(1 / np.sqrt(3.0), "fan_in", "uniform"),
}


class Dense(eqx.Module):
    weight: Float[Array, "I O"]
    bias: Float[Array, " O"] | None

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        initialiser: InitialiserName,
        key: PRNGKeyArray,
        bias: bool = True,
    ):
        self.weight = INITIALISERS[initialiser](key, (inputs, outputs))
        self.bias = jnp.zeros(outputs) if bias else None

    def __call__(self, x: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        product = x @ self.weight
        return product if self.bias is None else product + self.bias


class Convolution(eqx.Module):
    """A convolution over [height, width, channels].

    At stride 1 it is written as one matrix product over the shifted images. Under `vmap`
    over networks (seeds side by side) that stays a batched product, where a convolution
    would become a grouped one, an order of magnitude slower on both CPU and GPU.
    """

    weight: Float[Array, "kh kw I O"]
    bias: Float[Array, " O"]
    stride: int = eqx.field(static=True)
    padding: Padding = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int,
        padding: Padding,
        initialiser: InitialiserName,
        key: PRNGKeyArray,
    ):
        self.weight = INITIALISERS[initialiser](key, (kernel, kernel, inputs, outputs))
        self.bias = jnp.zeros(outputs)
        self.stride = stride
        self.padding = padding

    def __call__(self, x: Float[Array, "H W I"]) -> Float[Array, "h w O"]:
        product = self._as_matrix_product if self.stride == 1 else self._as_convolution
        return product(x) + self.bias

    def _as_convolution(self, x: Array) -> Array:
        return jax.lax.conv_general_dilated(
            x[None],
            self.weight,
            window_strides=(self.stride, self.stride),
            padding=self.padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )[0]

    def _as_matrix_product(self, x: Array) -> Array:
        kernel, _, inputs, outputs = self.weight.shape
        if self.padding == "SAME":
            before, after = (kernel - 1) // 2, kernel // 2
            x = jnp.pad(x, ((before, after), (before, after), (0, 0)))
        height, width = x.shape[0] - kernel + 1, x.shape[1] - kernel + 1
        shifted = [x[i : i + height, j : j + width] for i in range(kernel) for j in range(kernel)]
        patches = jnp.concatenate(shifted, axis=-1)
        weight = self.weight.reshape(kernel * kernel * inputs, outputs)
        return patches @ weight
