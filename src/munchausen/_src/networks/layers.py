"""Dense layers and named initialisers."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

InitialiserName = Literal["glorot_uniform", "fan_in_uniform"]

INITIALISERS: dict[str, Callable[..., Array]] = {
    # The DQN family (Dopamine's default).
    "glorot_uniform": jax.nn.initializers.glorot_uniform(),
    # Rainbow, C51 and IQN in Dopamine: variance scaling 1/√3, fan-in, uniform.
    "fan_in_uniform": jax.nn.initializers.variance_scaling(1 / np.sqrt(3.0), "fan_in", "uniform"),
}


_FEW = 20  # outputs of a dense layer: the values of at most 18 actions
_LARGE, _FEW_ROWS = 1_000_000, 256  # weights of Atari's hidden layer; states of a batch

_in_memory = jax.lax.optimization_barrier  # a product takes what is behind it as it lies there


class Dense(eqx.Module):
    """x W' + b. W is kept [outputs, inputs]: on a CPU its gradient is then the faster product,
    by four where there are few outputs."""

    weight: Float[Array, "O I"]
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
        self.weight = INITIALISERS[initialiser](key, (inputs, outputs)).T
        self.bias = jnp.zeros(outputs) if bias else None

    def __call__(self, x: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        product = self.product(x)
        return product if self.bias is None else product + self.bias

    def product(self, x: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        on_cpu = jax.default_backend() == "cpu"
        if not on_cpu and x.ndim == 1 and len(self.weight) <= _FEW:
            return _multiply_few(x, self.weight)
        if on_cpu and x.ndim == 2 and len(x) <= _FEW_ROWS and self.weight.size >= _LARGE:
            return _multiply_large(x, self.weight)
        return x @ self.weight.T


@jax.custom_vjp
def _multiply_few(x: Float[Array, " I"], weight: Float[Array, "O I"]) -> Float[Array, " O"]:
    """x W' for a few outputs, as a GPU has it soonest: the sums take in what made x, and the
    gradient of x goes into one kernel with the loss's and the activation's. As products these are
    kernels of their own, which take longer to start than to run."""
    return jnp.sum(x * weight, axis=-1)


def _multiply_few_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _multiply_few(x, weight), (x, weight)


def _multiply_few_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = kept
    # Written out, not summed over an axis: a sum would be a kernel.
    by_output = [gradient[i] * weight[i] for i in range(len(weight))]
    return sum(by_output[1:], start=by_output[0]), gradient[:, None] * x


_multiply_few.defvjp(_multiply_few_forward, _multiply_few_backward)


@jax.custom_vjp
def _multiply_large(x: Float[Array, "B I"], weight: Float[Array, "O I"]) -> Float[Array, "B O"]:
    """x W' for many weights and few rows, as a CPU has it soonest: W x', with x' in memory. As
    x W' the library turns W, 16 MB of it on Atari, to have it by columns."""
    return _in_memory(weight @ _in_memory(x.T)).T  # or XLA makes x W' of it again


def _multiply_large_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _multiply_large(x, weight), (x, weight)


def _multiply_large_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = kept
    return gradient @ weight, _in_memory(gradient.T) @ x


_multiply_large.defvjp(_multiply_large_forward, _multiply_large_backward)


def add_in_two(x: Float[Array, "n *B O"], bias: Float[Array, " O"]) -> Float[Array, "n *B O"]:
    """x + bias. On an accelerator its gradient is summed in two steps."""
    return x + bias if jax.default_backend() == "cpu" else _add_in_two(x, bias)


@jax.custom_vjp
def _add_in_two(x: Array, bias: Array) -> Array:
    return x + bias


def _add_forward(x: Array, bias: Array) -> tuple[Array, None]:
    return x + bias, None


def _add_backward(_: None, gradient: Array) -> tuple[Array, Array]:
    return gradient, sum_in_two(gradient)


_add_in_two.defvjp(_add_forward, _add_backward)


def sum_in_two(x: Float[Array, "n *B O"]) -> Float[Array, " O"]:
    """Over the first axis and then over the rest: in one step, XLA gives a long and narrow sum to
    few threads of an accelerator."""
    # Without the barrier XLA makes one sum of the two again.
    first = jax.lax.optimization_barrier(jnp.sum(x, axis=0))
    return jnp.sum(first, axis=tuple(range(first.ndim - 1)))
