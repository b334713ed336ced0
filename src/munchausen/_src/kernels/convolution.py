"""Convolutions of images with weights as equinox keeps them, computed in the way that is fastest
on each kind of machine.

Most are matrix products. A stride s is brought to 1 first: blocks of s × s pixels become channels,
and the kernel shrinks by s. Then either the shifted images lie beside each other and are
multiplied by all weights, or one product gives what each pixel adds to all its neighbours and the
shifted products are added: whichever moves fewer bytes. XLA's own convolution has slow gradients
on a GPU at these sizes, and becomes a grouped one under `vmap` over networks; it is taken on a GPU
for a single network without a gradient, and on a CPU where `dispatch` says so.
"""

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from munchausen._src.kernels import dispatch
from munchausen._src.kernels.dense import sum_in_two

Padding = Literal["SAME", "VALID"]


def convolution(
    images: Float[Array, "n H W I"],
    weight: Float[Array, "O I k k"],
    bias: Float[Array, " O"],
    *,
    stride: int,
    padding: Padding,
) -> Float[Array, "n h w O"]:
    kernel = weight.shape[-1]
    cut = jax.vmap(lambda image: blocks(image, kernel, stride=stride, padding=padding))(images)
    return of_blocks(cut, weight, bias, stride=stride, padding=padding)


def blocks(
    image: Float[Array, "H W I"], kernel: int, *, stride: int, padding: Padding
) -> Float[Array, "b c B"]:
    """The half of a convolution that needs no weight: padding, and blocks of stride × stride
    pixels as channels. It is the same for an online and a target network."""
    inputs = image.shape[2]
    if stride == 1 or _is_xlas(kernel, inputs, stride):
        return image
    tall, broad = (_fit(size, kernel, stride, padding) for size in image.shape[:2])
    x = jax.lax.pad(image, 0.0, ((*tall.pad, 0), (*broad.pad, 0), (0, 0, 0)))
    x = x.reshape(x.shape[0] // stride, stride, x.shape[1] // stride, stride, inputs)
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], stride * stride * inputs)


def of_blocks(
    images: Float[Array, "n b c B"],
    weight: Float[Array, "O I k k"],
    bias: Float[Array, " O"],
    *,
    stride: int,
    padding: Padding,
) -> Float[Array, "n h w O"]:
    """The other half: of images that went through `blocks`."""
    _, inputs, kernel, _ = weight.shape
    weight = _gradient_in_order(weight)
    if _is_xlas(kernel, inputs, stride):
        return _convolve(images, weight.transpose(2, 3, 1, 0), stride, padding) + bias
    layer = _Layer(weight, bias, stride, padding)
    if dispatch.has_many(kernel * kernel * inputs):
        return _convolution_or_products(layer, images)
    return _products(layer, images)


@jax.custom_vjp
def _gradient_in_order(weight: Float[Array, "O I k k"]) -> Float[Array, "O I k k"]:
    """As it is. Its gradient is rearranged before an optimiser takes it, or XLA reads it across
    memory within the optimiser's loop, which then goes element by element."""
    return weight


_gradient_in_order.defvjp(
    lambda weight: (weight, None), lambda _, gradient: (jax.lax.optimization_barrier(gradient),)
)


def _is_xlas(kernel: int, inputs: int, stride: int) -> bool:
    # A kernel that is no multiple of its stride has no whole blocks.
    return kernel % stride > 0 or dispatch.uses_xlas_convolution(kernel * kernel * inputs)


class _Layer(eqx.Module):
    """A convolution with its weights rearranged as each way of computing it needs them. In names
    of axes s is a pixel's place in its block, w a block's place in the kernel."""

    weight: Float[Array, "O I k k"]
    bias: Float[Array, " O"]
    stride: int = eqx.field(static=True)
    padding: Padding = eqx.field(static=True)

    @property
    def wide(self) -> int:
        """The kernel's size in blocks."""
        return self.weight.shape[-1] // self.stride

    @property
    def is_beside(self) -> bool:
        """Whether shifted images lie beside each other, not products."""
        outputs, inputs = self.weight.shape[:2]
        return self.stride * self.stride * inputs < outputs

    @property
    def cut(self) -> Float[Array, "O I w s w s"]:
        return self.weight.reshape(*self.weight.shape[:2], *(self.wide, self.stride) * 2)

    @property
    def block_filters(self) -> Float[Array, "w w ssI O"]:
        """What is applied to blocks, with stride 1."""
        filters = self.cut.transpose(2, 4, 3, 5, 1, 0)
        return filters.reshape(self.wide, self.wide, -1, len(self.bias))

    def as_product(self, x: Float[Array, "b c B"]) -> Float[Array, "h w O"]:
        if not self.is_beside:
            weight = self.cut.transpose(3, 5, 1, 2, 4, 0).reshape(x.shape[-1], -1)
            return _add_shifted(x @ weight, self.shifts(*x.shape[:2])) + self.bias
        if dispatch.joins_columns_before_rows():
            tall, broad = self.fits(*x.shape[:2])
            x = jax.lax.pad(x, 0.0, ((*tall.pad, 0), (*broad.pad, 0), (0, 0, 0)))
            columns = [x[:, j : j + broad.windows] for j in range(self.wide)]
            x = jnp.concatenate(columns, axis=-1)
            rows = [x[i : i + tall.windows] for i in range(self.wide)]
            beside = jnp.concatenate(rows, axis=-1)
        else:
            shifts = self.shifts(*x.shape[:2])
            beside = jnp.concatenate([_shift(x, by) for by in shifts], axis=-1)
        return beside @ self.block_filters.reshape(-1, len(self.bias)) + self.bias

    def pull_back(
        self, images: Float[Array, "n b c B"], gradient: Float[Array, "n h w O"]
    ) -> tuple["_Layer", Float[Array, "n b c B"]]:
        """Of shifted products: the gradients of weights and images, by that of the outputs.

        What JAX would derive has the shifted gradients beside each other and multiplies them by
        images and by weights. On a GPU the weights' product is then one long sum, which XLA cuts
        into pieces, and pads and copies both sides to do so; here each image is a piece. And the
        images' gradient, for which the layers below wait, is a product first and shifted after,
        as the outputs are.
        """
        outputs, inputs, *_ = self.weight.shape
        _, b, c, _ = images.shape
        turned = self.cut.transpose(0, 2, 4, 3, 5, 1).reshape(outputs, -1)
        # Behind the barrier the gradient is made once, not again for each shift, and `turned` is
        # not made in one kernel with the weights' update, which comes last.
        gradient, turned = jax.lax.optimization_barrier((gradient, turned))
        back = [_Shift(*((-low, -high) for low, high in by)) for by in self.shifts(b, c)]

        shifted = jnp.concatenate([_shift(gradient, by) for by in back], axis=-1)
        # Pixels on one axis: of two, XLA copies the images.
        pixels, of_shifts = (x.reshape(len(x), b * c, -1) for x in (images, shifted))
        by_image = jnp.einsum("npi,npo->nio", pixels, of_shifts)
        # Without the barrier XLA makes one sum of the two again.
        weight = jnp.sum(jax.lax.optimization_barrier(by_image), axis=0)
        weight = weight.reshape(*(self.stride,) * 2, inputs, *(self.wide,) * 2, outputs)
        weight = weight.transpose(5, 2, 3, 0, 4, 1).reshape(self.weight.shape)
        bias = sum_in_two(gradient.swapaxes(0, 1))  # rows first, then images and columns
        of_layer = _Layer(weight, bias, self.stride, self.padding)
        return of_layer, _add_shifted(gradient @ turned, back)

    def shifts(self, *sizes: int) -> list["_Shift"]:
        """What brings each block of a kernel to the top left, by row and column."""
        fits = self.fits(*sizes)

        def along(axis: int, offset: int) -> tuple[int, int]:
            before = fits[axis].pad[0] - offset
            return before, fits[axis].windows - sizes[axis] - before

        wide = range(self.wide)
        return [_Shift(along(0, i), along(1, j)) for i in wide for j in wide]

    def fits(self, *sizes: int) -> list["_Fit"]:
        """How windows lie over blocks, which are padded already where the stride is above 1."""
        padding = self.padding if self.stride == 1 else "VALID"
        return [_fit(size, self.wide, 1, padding) for size in sizes]


class _Fit(NamedTuple):
    """How windows lie along an axis: how many, and the pixels to add before and after it
    (less than none: pixels no window reaches are dropped)."""

    windows: int
    pad: tuple[int, int]


class _Shift(NamedTuple):
    """Rows and columns of zeros to add before and after an image; less than none: to drop."""

    rows: tuple[int, int]
    columns: tuple[int, int]


def _fit(size: int, kernel: int, stride: int, padding: Padding) -> _Fit:
    if padding == "VALID":
        windows, before = (size - kernel) // stride + 1, 0
    else:
        windows = -(-size // stride)
        before = ((windows - 1) * stride + kernel - size) // 2
    return _Fit(windows, (before, (windows - 1) * stride + kernel - size - before))


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


def _products(layer: _Layer, images: Float[Array, "n b c B"]) -> Float[Array, "n h w O"]:
    return jax.vmap(layer.as_product)(images)


@custom_vmap
def _of_one_network(layer: _Layer, images: Float[Array, "n b c B"]) -> Float[Array, "n h w O"]:
    padding = "VALID" if layer.stride > 1 else layer.padding  # blocks are padded already
    return _convolve(images, layer.block_filters, 1, padding) + layer.bias


@_of_one_network.def_vmap
def _of_more(_, batched, layer: _Layer, images: Array):
    """More images are still one convolution; more networks are products."""
    of_layer, of_images = batched
    if any(jax.tree.leaves(of_layer)):
        axes = jax.tree.map(lambda x: 0 if x else None, (of_layer, of_images))
        return jax.vmap(_products, in_axes=axes)(layer, images), True
    out = _of_one_network(layer, images.reshape(-1, *images.shape[2:]))
    return out.reshape(*images.shape[:2], *out.shape[1:]), True


@jax.custom_vjp
def _convolution_or_products(
    layer: _Layer, images: Float[Array, "n b c B"]
) -> Float[Array, "n h w O"]:
    """JAX takes this where no gradient is asked for, and the next two where one is."""
    return _of_one_network(layer, images)


def _forward(layer: _Layer, images: Array):
    return _products(layer, images), (layer, images)


def _backward(kept: tuple[_Layer, Array], gradient: Array):
    layer, images = kept
    if layer.is_beside:
        return jax.vjp(_products, layer, images)[1](gradient)
    return layer.pull_back(images, gradient)


_convolution_or_products.defvjp(_forward, _backward)


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
