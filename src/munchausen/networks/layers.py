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
    bias: Float[Array, " O"]

    def __init__(
        self, inputs: int, outputs: int, *, initialiser: InitialiserName, key: PRNGKeyArray
    ):
        self.weight = INITIALISERS[initialiser](key, (inputs, outputs))
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        return x @ self.weight + self.bias


class Convolution(eqx.Module):
    """A convolution over [height, width, channels], written as one matrix product.

    Stride s is brought to 1 first: blocks of s × s pixels become channels, and the kernel
    shrinks by s. Then the shifted images lie beside each other and one product with the
    weights does the rest. XLA's own convolution is slower at these sizes: its weight gradient
    on a CPU by an order of magnitude, and under `vmap` over networks (seeds side by side) it
    becomes a grouped one.
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
        if kernel % stride:
            raise ValueError(f"a kernel of {kernel} is no multiple of its stride {stride}")
        self.weight = INITIALISERS[initialiser](key, (kernel, kernel, inputs, outputs))
        self.bias = jnp.zeros(outputs)
        self.stride = stride
        self.padding = padding

    def __call__(self, x: Float[Array, "H W I"]) -> Float[Array, "h w O"]:
        kernel, _, inputs, outputs = self.weight.shape
        stride, wide = self.stride, kernel // self.stride
        (top, bottom, height), (left, right, width) = (self._fit(n) for n in x.shape[:2])
        x = jnp.pad(x[: height - top, : width - left], ((top, bottom), (left, right), (0, 0)))
        blocks = x.reshape(height // stride, stride, width // stride, stride, inputs)
        blocks = blocks.swapaxes(1, 2).reshape(height // stride, width // stride, -1)
        h, w = height // stride - wide + 1, width // stride - wide + 1
        shifted = [blocks[i : i + h, j : j + w] for i in range(wide) for j in range(wide)]
        weight = self.weight.reshape(wide, stride, wide, stride, inputs, outputs)
        weight = weight.swapaxes(1, 2).reshape(-1, outputs)
        return jnp.concatenate(shifted, axis=-1) @ weight + self.bias

    def _fit(self, size: int) -> tuple[int, int, int]:
        """Pixels to add before and after an axis, and its length then: a multiple of the
        stride. Pixels no window reaches are dropped."""
        kernel, stride = self.weight.shape[0], self.stride
        if self.padding == "VALID":
            windows = (size - kernel) // stride + 1
            return 0, 0, (windows - 1) * stride + kernel
        windows = -(-size // stride)
        length = (windows - 1) * stride + kernel
        missing = max(length - size, 0)
        return missing // 2, missing - missing // 2, length
