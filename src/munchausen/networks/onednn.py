"""Convolutions and products of large networks on a CPU, by oneDNN.

jaxlib holds the library on x86, and XLA has custom calls for it, which it puts into no program of
its own accord. With them an update of Atari's network takes a fifth less time than with Eigen's
convolutions where there is AVX-512 (benchmarks/README.md). But they are no public interface:
`loops/onednn_here.py` says when they are taken.
"""

import json
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Pad = tuple[tuple[int, int], tuple[int, int]]  # rows before and after, columns before and after

# Within `calls(True)` a program is made that may hold calls. JAX keeps what it has traced apart by
# such a context, so that no part of that program is taken for another one.
calls = jax.make_user_context(False)


def is_wanted() -> bool:
    return calls.value


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def convolve(
    images: Float[Array, "n H W I"],
    filters: Float[Array, "k l I O"],
    bias: Float[Array, " O"],
    stride: int,
    pad: Pad,
) -> Float[Array, "n h w O"]:
    """Square filters, a multiple of `stride` wide. Padding is narrower than a filter, and the last
    window ends where it does. (ReLU, which the call could do too, makes 0 of what is no number:
    a training that diverged would go on.)"""
    kernel, _, inputs, outputs = filters.shape
    if filters.shape[1] != kernel or kernel % stride:
        raise ValueError(f"filters of {filters.shape[:2]} at stride {stride}")
    for size, (before, after) in zip(images.shape[1:3], pad, strict=True):
        rest = before + size + after - kernel
        if not (0 <= before < kernel and 0 <= after < kernel and rest >= 0 == rest % stride):
            raise ValueError(f"windows of {kernel} at {stride} over {before} + {size} + {after}")
    if (images.shape[3], bias.shape) != (inputs, (outputs,)):
        raise TypeError(f"images {images.shape}, filters {filters.shape}, bias {bias.shape}")
    return _convolve(images, filters, bias, stride=stride, pad=pad)


def _forward(
    images: Array, filters: Array, bias: Array, stride: int, pad: Pad
) -> tuple[Any, tuple[Array, Array]]:
    return convolve(images, filters, bias, stride, pad), (images, filters)


def _backward(
    stride: int, pad: Pad, kept: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array, Array]:
    images, filters = kept
    of_images = _gradient_of_images(images.shape, filters, gradient, stride, pad)
    if stride > 1:
        of_filters = _gradient_of_filters(images, gradient, stride, pad)
    else:  # Eigen is the faster
        by_xla = partial(convolve_by_xla, images, stride=1, pad=pad)
        of_filters = jax.vjp(by_xla, filters)[1](gradient)[0]
    return of_images, of_filters, jnp.sum(gradient, axis=(0, 1, 2))


convolve.defvjp(_forward, _backward)


def _gradient_of_images(
    shape: tuple[int, ...], filters: Array, gradient: Array, stride: int, pad: Pad
) -> Array:
    """A convolution at stride 1 whose outputs are blocks of stride × stride pixels."""
    kernel, _, inputs, outputs = filters.shape
    wide = kernel // stride
    # [wide, stride, wide, stride, I, O], windows turned round, to [wide, wide, O, a block]
    blocks = filters.reshape(wide, stride, wide, stride, inputs, outputs)[::-1, :, ::-1]
    blocks = blocks.transpose(0, 2, 5, 1, 3, 4).reshape(wide, wide, outputs, -1)
    spans = [
        _Span(size, windows, stride, wide, before)
        for size, windows, (before, _) in zip(shape[1:3], gradient.shape[1:3], pad, strict=True)
    ]
    rows, columns = spans
    made = _convolve(gradient, blocks, pad=(rows.pad, columns.pad))
    made = made.reshape(-1, rows.blocks, columns.blocks, stride, stride, inputs).swapaxes(2, 3)
    made = made.reshape(-1, rows.blocks * stride, columns.blocks * stride, inputs)
    return made[:, rows.first : rows.first + shape[1], columns.first : columns.first + shape[2]]


class _Span:
    """The blocks along an axis that hold pixels, not padding alone."""

    def __init__(self, size: int, windows: int, stride: int, wide: int, before: int):
        empty = before // stride
        self.first = before - empty * stride  # pixel of the first block
        self.blocks = -(-(size + before) // stride) - empty
        start = wide - 1 - empty
        self.pad = (start, self.blocks - windows - start + wide - 1)


def _gradient_of_filters(images: Array, gradient: Array, stride: int, pad: Pad) -> Array:
    """A convolution of images by gradients, whose pixels lie `stride` apart; images are its
    channels, and its outputs the pixels of a filter."""
    kernel = sum(pad[0]) + images.shape[1] - (gradient.shape[1] - 1) * stride
    turned = images.transpose(3, 1, 2, 0)
    shape = (len(turned), kernel, kernel, gradient.shape[3])
    made = _call_convolution(
        turned, gradient, shape=shape, pad=pad, apart=stride, filter_axes=(1, 2, 0, 3)
    )
    return made.transpose(1, 2, 0, 3)


def _convolve(
    images: Array, filters: Array, bias: Array | None = None, *, stride: int = 1, pad: Pad
) -> Array:
    sizes = [
        (size + sum(of_axis) - kernel) // stride + 1
        for size, of_axis, kernel in zip(images.shape[1:3], pad, filters.shape[:2], strict=True)
    ]
    shape = (len(images), sizes[0], sizes[1], filters.shape[3])
    return _call_convolution(images, filters, bias, shape=shape, stride=stride, pad=pad)


def convolve_by_xla(images: Array, filters: Array, *, stride: int, pad: Pad) -> Array:
    return jax.lax.conv_general_dilated(
        images, filters, (stride, stride), pad, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _call_convolution(
    images: Array,
    filters: Array,
    bias: Array | None = None,
    *,
    shape: tuple[int, ...],
    stride: int = 1,
    pad: Pad,
    apart: int = 1,
    filter_axes: tuple[int, int, int, int] = (0, 1, 2, 3),
) -> Array:
    """`filter_axes`: where the filters' rows, columns, inputs and outputs are."""
    rows, columns, inputs, outputs = filter_axes
    (top, bottom), (left, right) = pad
    of_images = {"dims": 4, "data": {"batch_dim": 0, "feature_dim": 3, "spatial_dims": [1, 2]}}
    of_filters = {
        "input_feature_dim": inputs,
        "output_feature_dim": outputs,
        "spatial_dims": [rows, columns],
        "shape": filters.shape,
    }
    window = {
        "size": [filters.shape[rows], filters.shape[columns]],
        "pad_left": [top, left],
        "pad_right": [bottom, right],
        "strides": [stride] * 2,
        "window_dilations": [apart] * 2,
    }
    description = {
        "dims": 4,
        "input": of_images,
        "kernel": {"dims": 4, "filter": of_filters},
        "output": of_images,
        "window": window,
        "fusions": {"ops": [] if bias is None else ["BIAS"]},
        "feature_groups": 1,
    }
    arguments = (images, filters) if bias is None else (images, filters, bias)
    return _call("convolution", {"onednn_conv_config": description}, shape, *arguments)


def multiply(
    left: Float[Array, "M K"], right: Float[Array, "..."], *, turned: bool = False
) -> Float[Array, "M N"]:
    """left @ right, or left @ right' of `right` as it lies in memory."""
    inner, outputs = right.shape[::-1] if turned else right.shape
    if left.shape[1] != inner:
        raise TypeError(f"a product of {left.shape} and {(inner, outputs)}")
    shape = (left.shape[0], outputs)

    def of(shape: tuple[int, ...]) -> dict:
        return {"dims": 2, "tensor": {"dimensions": [1, 2], "shape": shape}}

    description = {
        "transpose_a": False,
        "transpose_b": turned,
        "lhs": of(left.shape),
        "rhs": of(right.shape),
        "result": of(shape),
    }
    return _call("matmul", {"onednn_matmul_config": description}, shape, left, right)


def _call(name: str, description: dict, shape: tuple[int, ...], *arguments: Array) -> Array:
    if any(x.dtype != jnp.float32 for x in arguments):  # they would be read as if they were
        raise TypeError(f"oneDNN is given {', '.join(str(x.dtype) for x in arguments)}")
    return jax.ffi.ffi_call(
        f"__onednn${name}",
        jax.ShapeDtypeStruct(shape, jnp.float32),
        vmap_method="sequential",
        custom_call_api_version=2,  # a description as text
        legacy_backend_config=json.dumps(description),
    )(*arguments)
