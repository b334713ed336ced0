"""Dense and convolutional layers with named initialisers, on one example at a time."""

from collections.abc import Callable
from typing import Literal, NamedTuple

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


_FEW = 20  # outputs of a dense layer: the values of at most 18 actions
_MANY = 200  # inputs to one output: MinAtar's convolution has at most 90, Atari's at least 256


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
        few = x.ndim == 1 and len(self.weight) <= _FEW
        if few and jax.default_backend() != "cpu":
            return _multiply_few(x, self.weight)
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


class Convolution(eqx.Module):
    """A convolution over [height, width, channels], written as one matrix product.

    Stride s is brought to 1 first: blocks of s × s pixels become channels, and the kernel
    shrinks by s. Then either the shifted images lie beside each other and are multiplied by all
    weights, or one product gives what each pixel adds to all its neighbours and the shifted
    products are added: whichever moves fewer bytes. XLA's own convolution is slower on a GPU at
    these sizes, and under `vmap` over networks (seeds side by side) it becomes a grouped one. On
    a CPU it is the faster one where it has many channels to work on (Atari), and its weight
    gradient is slower by an order of magnitude where it has few (MinAtar).

    Weights are kept as that product takes them, so that a GPU has not to turn them, their
    gradients and their moments at every update; `filters` has the usual form.
    """

    weight: Float[Array, "rows columns"]
    bias: Float[Array, " O"]
    inputs: int = eqx.field(static=True)
    kernel: int = eqx.field(static=True)
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
        self.bias = jnp.zeros(outputs)
        self.inputs, self.kernel = inputs, kernel
        self.stride, self.padding = stride, padding
        filters = INITIALISERS[initialiser](key, (kernel, kernel, inputs, outputs))
        wide = kernel // stride
        # [wide, wide, stride, stride, inputs, outputs]: a block's channels together
        blocks = filters.reshape(wide, stride, wide, stride, inputs, outputs).swapaxes(1, 2)
        if not self._is_beside:
            blocks = blocks.transpose(2, 3, 4, 0, 1, 5)
        self.weight = blocks.reshape(-1, outputs if self._is_beside else wide * wide * outputs)

    @property
    def filters(self) -> Float[Array, "h w I O"]:
        stride, wide = self.stride, self.kernel // self.stride
        if self._is_beside:
            blocks = self.weight.reshape(wide, wide, stride, stride, self.inputs, -1)
        else:
            blocks = self.weight.reshape(stride, stride, self.inputs, wide, wide, -1)
            blocks = blocks.transpose(3, 4, 0, 1, 2, 5)
        return blocks.swapaxes(1, 2).reshape(self.kernel, self.kernel, self.inputs, -1)

    @property
    def _is_beside(self) -> bool:
        """Whether shifted images lie beside each other, not products."""
        return self.stride * self.stride * self.inputs < self.bias.shape[-1]

    def __call__(self, x: Float[Array, "H W I"]) -> Float[Array, "h w O"]:
        return self.of_blocks(self.blocks(x))

    def blocks(self, x: Float[Array, "H W I"]) -> Float[Array, "b c B"]:
        """What can be done to an image before any weight is known: padding, and blocks of
        stride × stride pixels as channels."""
        stride, inputs = self.stride, x.shape[2]
        if stride == 1 or self._is_convolution:
            return x
        tall, broad = (self._fit(size) for size in x.shape[:2])
        x = jax.lax.pad(x, 0.0, ((*tall.pad, 0), (*broad.pad, 0), (0, 0, 0)))
        x = x.reshape(x.shape[0] // stride, stride, x.shape[1] // stride, stride, inputs)
        return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], stride * stride * inputs)

    def of_blocks(self, x: Float[Array, "b c B"]) -> Float[Array, "h w O"]:
        return self._as_convolution(x) if self._is_convolution else self._as_product(x)

    @property
    def _is_convolution(self) -> bool:
        many = self.kernel * self.kernel * self.inputs >= _MANY
        return many and jax.default_backend() == "cpu"

    def _as_convolution(self, x: Float[Array, "H W I"]) -> Float[Array, "h w O"]:
        product = jax.lax.conv_general_dilated(
            x[None],
            self.filters,
            window_strides=(self.stride, self.stride),
            padding=self.padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return product[0] + self.bias

    def _as_product(self, x: Float[Array, "b c B"]) -> Float[Array, "h w O"]:
        wide = self.kernel // self.stride
        if self.stride > 1:
            fits = [_Fit(size - wide + 1, (0, 0)) for size in x.shape[:2]]
        else:
            fits = [self._fit(size) for size in x.shape[:2]]
        windows, pads = [fit.windows for fit in fits], [fit.pad for fit in fits]

        def shift(image: Array, i: int, j: int) -> Array:
            """Row i and column j come first; zeros where there is no pixel."""
            low = (pads[0][0] - i, pads[1][0] - j)
            edges = [(low[k], windows[k] - image.shape[k] - low[k], 0) for k in (0, 1)]
            return jax.lax.pad(image, 0.0, (*edges, (0, 0, 0)))

        offsets = [(i, j) for i in range(wide) for j in range(wide)]
        if self._is_beside:
            if jax.default_backend() == "cpu":
                # Columns, then rows: longer stretches to copy, in 2/3 of the time.
                x = jax.lax.pad(x, 0.0, ((*pads[0], 0), (*pads[1], 0), (0, 0, 0)))
                columns = [x[:, j : j + windows[1]] for j in range(wide)]
                x = jnp.concatenate(columns, axis=-1)
                rows = [x[i : i + windows[0]] for i in range(wide)]
                beside = jnp.concatenate(rows, axis=-1)
            else:
                beside = jnp.concatenate([shift(x, i, j) for i, j in offsets], axis=-1)
            return self._add_bias(beside @ self.weight)
        # Split and not sliced: the gradient of a split is one concatenation.
        parts = jnp.split(x @ self.weight, len(offsets), axis=-1)
        shifted = [shift(part, i, j) for part, (i, j) in zip(parts, offsets, strict=True)]
        return self._add_bias(sum(shifted[1:], start=shifted[0]))

    def _add_bias(self, x: Float[Array, "h w O"]) -> Float[Array, "h w O"]:
        large = x.shape[0] * x.shape[1] > 100
        return add_in_two(x, self.bias) if large else x + self.bias

    def _fit(self, size: int) -> "_Fit":
        kernel, stride = self.kernel, self.stride
        if self.padding == "VALID":
            windows = (size - kernel) // stride + 1
            before = 0
        else:
            windows = -(-size // stride)
            before = ((windows - 1) * stride + kernel - size) // 2
        return _Fit(windows, (before, (windows - 1) * stride + kernel - size - before))


class _Fit(NamedTuple):
    """How windows lie along an axis: how many, and the pixels to add before and after it
    (less than none: pixels no window reaches are dropped)."""

    windows: int
    pad: tuple[int, int]


def add_in_two(x: Float[Array, "n *B O"], bias: Float[Array, " O"]) -> Float[Array, "n *B O"]:
    """x + bias. On an accelerator its gradient is summed over the first axis and then over the
    rest: in one step, XLA gives a long and narrow sum to few threads."""
    return x + bias if jax.default_backend() == "cpu" else _add_in_two(x, bias)


@jax.custom_vjp
def _add_in_two(x: Array, bias: Array) -> Array:
    return x + bias


def _add_forward(x: Array, bias: Array) -> tuple[Array, None]:
    return x + bias, None


def _add_backward(_: None, gradient: Array) -> tuple[Array, Array]:
    # Without the barrier XLA makes one sum of the two again.
    first = jax.lax.optimization_barrier(jnp.sum(gradient, axis=0))
    return gradient, jnp.sum(first, axis=tuple(range(first.ndim - 1)))


_add_in_two.defvjp(_add_forward, _add_backward)
