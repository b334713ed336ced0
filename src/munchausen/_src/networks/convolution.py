"""Convolutions, in the form that each kind of machine has soonest."""

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, PRNGKeyArray

from munchausen._src.networks.layers import INITIALISERS, InitialiserName, sum_in_two

Padding = Literal["SAME", "VALID"]

_MANY = 200  # inputs to one output: MinAtar's convolution has at most 90, Atari's at least 256


class Convolution(eqx.Module):
    """A convolution over images [n, height, width, channels], written as one matrix product.

    Stride s is brought to 1 first: blocks of s × s pixels become channels, and the kernel
    shrinks by s. Then either the shifted images lie beside each other and are multiplied by all
    weights, or one product gives what each pixel adds to all its neighbours and the shifted
    products are added: whichever moves fewer bytes. XLA's own convolution has slow gradients on a
    GPU at these sizes, and under `vmap` over networks (seeds side by side) it becomes a grouped
    one. Where there are many inputs to an output (Atari), it is taken for one network without a
    gradient on a GPU, and always on a CPU; with few (MinAtar) a CPU's weight gradient is slow too.

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
        if not self.is_beside:
            blocks = blocks.transpose(2, 3, 4, 0, 1, 5)
        self.weight = blocks.reshape(-1, outputs if self.is_beside else wide * wide * outputs)

    @property
    def filters(self) -> Float[Array, "h w I O"]:
        stride, wide = self.stride, self.kernel // self.stride
        blocks = self.block_filters.reshape(wide, wide, stride, stride, self.inputs, -1)
        return blocks.swapaxes(1, 2).reshape(self.kernel, self.kernel, self.inputs, -1)

    @property
    def block_filters(self) -> Float[Array, "h w B O"]:
        """What is applied to blocks, with stride 1."""
        wide = self.kernel // self.stride
        if self.is_beside:
            return self.weight.reshape(wide, wide, -1, self.bias.shape[-1])
        return self.weight.reshape(-1, wide, wide, self.bias.shape[-1]).transpose(1, 2, 0, 3)

    @property
    def is_beside(self) -> bool:
        """Whether shifted images lie beside each other, not products."""
        return self.stride * self.stride * self.inputs < self.bias.shape[-1]

    def __call__(self, images: Float[Array, "n H W I"]) -> Float[Array, "n h w O"]:
        return self.of_blocks(jax.vmap(self.blocks)(images))

    def blocks(self, x: Float[Array, "H W I"]) -> Float[Array, "b c B"]:
        """What can be done to one image before any weight is known: padding, and blocks of
        stride × stride pixels as channels."""
        stride, inputs = self.stride, x.shape[2]
        if stride == 1 or (self._has_many and jax.default_backend() == "cpu"):
            return x
        tall, broad = (self._fit(size) for size in x.shape[:2])
        x = jax.lax.pad(x, 0.0, ((*tall.pad, 0), (*broad.pad, 0), (0, 0, 0)))
        x = x.reshape(x.shape[0] // stride, stride, x.shape[1] // stride, stride, inputs)
        return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], stride * stride * inputs)

    def of_blocks(self, images: Float[Array, "n b c B"]) -> Float[Array, "n h w O"]:
        if not self._has_many:
            return _learning(self, images)
        if jax.default_backend() == "cpu":  # they were not cut into blocks
            return _convolve(images, self.filters, self.stride, self.padding) + self.bias
        return _frozen_or_learning(self, images)

    @property
    def _has_many(self) -> bool:
        return self.kernel * self.kernel * self.inputs >= _MANY

    def as_product(self, x: Float[Array, "b c B"]) -> Float[Array, "h w O"]:
        shifts = self._shifts(x.shape[0], x.shape[1])
        if not self.is_beside:
            return _add_shifted(x @ self.weight, shifts) + self.bias
        if jax.default_backend() == "cpu":
            # Columns, then rows: longer stretches to copy, in 2/3 of the time.
            wide, (tall, broad) = self.kernel // self.stride, self._block_fits(*x.shape[:2])
            x = jax.lax.pad(x, 0.0, ((*tall.pad, 0), (*broad.pad, 0), (0, 0, 0)))
            columns = [x[:, j : j + broad.windows] for j in range(wide)]
            x = jnp.concatenate(columns, axis=-1)
            rows = [x[i : i + tall.windows] for i in range(wide)]
            beside = jnp.concatenate(rows, axis=-1)
        else:
            beside = jnp.concatenate([_shift(x, by) for by in shifts], axis=-1)
        return beside @ self.weight + self.bias

    def pull_back(
        self, images: Float[Array, "n b c B"], gradient: Float[Array, "n h w O"]
    ) -> tuple["Convolution", Float[Array, "n b c B"]]:
        """Of shifted products: the gradients of weights and images, by that of the outputs.

        What JAX would derive has the shifted gradients beside each other and multiplies them by
        images and by weights. On a GPU the weights' product is then one long sum, which XLA cuts
        into pieces, and pads and copies both sides to do so; here each image is a piece. And the
        images' gradient, for which the layers below wait, is a product first and shifted after,
        as the outputs are.
        """
        _, b, c, inputs = images.shape
        turned = self.weight.reshape(inputs, -1, gradient.shape[-1]).transpose(2, 1, 0)
        # Behind the barrier the gradient is made once, not again for each shift, and `turned` is
        # not made in one kernel with the weights' update, which comes last.
        gradient, turned = jax.lax.optimization_barrier((gradient, turned))
        shifts_back = [_Shift(*((-low, -high) for low, high in by)) for by in self._shifts(b, c)]

        shifted = jnp.concatenate([_shift(gradient, by) for by in shifts_back], axis=-1)
        # Pixels on one axis: of two, XLA copies the images.
        pixels, of_shifts = (x.reshape(len(x), b * c, -1) for x in (images, shifted))
        by_image = jnp.einsum("npi,npo->nio", pixels, of_shifts)
        # Without the barrier XLA makes one sum of the two again.
        weight = jnp.sum(jax.lax.optimization_barrier(by_image), axis=0)
        bias = sum_in_two(gradient.swapaxes(0, 1))  # rows first, then images and columns
        product = gradient @ turned.reshape(len(turned), -1)
        of_layer = eqx.tree_at(lambda layer: (layer.weight, layer.bias), self, (weight, bias))
        return of_layer, _add_shifted(product, shifts_back)

    def _shifts(self, *sizes: int) -> list["_Shift"]:
        """What brings each pixel of a kernel to the top left, by row and column."""
        wide, fits = self.kernel // self.stride, self._block_fits(*sizes)

        def along(axis: int, offset: int) -> tuple[int, int]:
            before = fits[axis].pad[0] - offset
            return before, fits[axis].windows - sizes[axis] - before

        return [_Shift(along(0, i), along(1, j)) for i in range(wide) for j in range(wide)]

    def _block_fits(self, *sizes: int) -> list["_Fit"]:
        """How windows lie over blocks, which are padded already."""
        if self.stride == 1:
            return [self._fit(size) for size in sizes]
        wide = self.kernel // self.stride
        return [_Fit(size - wide + 1, (0, 0)) for size in sizes]

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


class _Shift(NamedTuple):
    """Rows and columns of zeros to add before and after an image; less than none: to drop."""

    rows: tuple[int, int]
    columns: tuple[int, int]


def _shift(images: Float[Array, "*n b c K"], by: _Shift) -> Float[Array, "*n h w K"]:
    as_it_is = (0, 0, 0)
    edges = [as_it_is] * (images.ndim - 3) + [(*by.rows, 0), (*by.columns, 0), as_it_is]
    return jax.lax.pad(images, 0.0, edges)


def _add_shifted(product: Float[Array, "*n b c SO"], shifts: list[_Shift]) -> Array:
    """A part of the last axis for each shift."""
    # Split and not sliced: the gradient of a split is one concatenation.
    parts = jnp.split(product, len(shifts), axis=-1)
    shifted = [_shift(part, by) for part, by in zip(parts, shifts, strict=True)]
    return sum(shifted[1:], start=shifted[0])


def _learning(layer: Convolution, images: Float[Array, "n b c B"]) -> Float[Array, "n h w O"]:
    return jax.vmap(layer.as_product)(images)


@custom_vmap
def _frozen(layer: Convolution, images: Float[Array, "n b c B"]) -> Float[Array, "n h w O"]:
    padding = "VALID" if layer.stride > 1 else layer.padding  # blocks are padded already
    return _convolve(images, layer.block_filters, 1, padding) + layer.bias


@_frozen.def_vmap
def _frozen_of_many(_, batched, layer: Convolution, images: Array):
    """More images are still one convolution; more networks are one product."""
    of_layer, of_images = batched
    if any(jax.tree.leaves(of_layer)):
        axes = jax.tree.map(lambda x: 0 if x else None, (of_layer, of_images))
        return jax.vmap(_learning, in_axes=axes)(layer, images), True
    out = _frozen(layer, images.reshape(-1, *images.shape[2:]))
    return out.reshape(*images.shape[:2], *out.shape[1:]), True


@jax.custom_vjp
def _frozen_or_learning(
    layer: Convolution, images: Float[Array, "n b c B"]
) -> Float[Array, "n h w O"]:
    """JAX takes this where no gradient is asked for, and the next two where one is."""
    return _frozen(layer, images)


def _learning_forward(layer: Convolution, images: Array):
    return _learning(layer, images), (layer, images)


def _learning_backward(kept: tuple[Convolution, Array], gradient: Array):
    layer, images = kept
    if layer.is_beside:
        return jax.vjp(_learning, layer, images)[1](gradient)
    return layer.pull_back(images, gradient)


_frozen_or_learning.defvjp(_learning_forward, _learning_backward)


def _convolve(
    images: Float[Array, "n H W I"],
    filters: Float[Array, "k l I O"],
    stride: int,
    padding: Padding,
) -> Float[Array, "n h w O"]:
    return jax.lax.conv_general_dilated(
        images,
        filters,
        window_strides=(stride, stride),
        padding=padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
