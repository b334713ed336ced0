"""Convolutions and products of large networks on a CPU, by oneDNN.

jaxlib holds the library on x86, and XLA has custom calls for it, which it puts into no program of
its own accord. On two cores the convolutions of Atari's network take two thirds of the time of
Eigen's (benchmarks/README.md). But the calls are no public interface. So they are taken

- with versions of jaxlib that they were tried with, as a description that one does not know ends
  the process, and after a first one came out right;
- within `calls(True)`, where the program is made that holds them, and
- where `never_kept()` sees to it that it stays out of JAX's folder of compiled programs: jaxlib
  writes a call of this kind as one of another, and reads past its end.

`MUNCHAUSEN_ONEDNN=0` in the environment leaves all to XLA.
"""

import functools
import json
import math
import os
import platform
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.version import __version__ as jaxlib_version
from jaxtyping import Array, Float

TRIED = ("0.10.2", "0.11.2", "0.12.0.1")  # versions of jaxlib

Pad = tuple[tuple[int, int], tuple[int, int]]  # rows before and after, columns before and after

# Within `calls(True)` a program is made that may hold calls. JAX keeps what it has traced apart by
# such a context, so that no part of that program is taken for another one.
calls = jax.make_user_context(False)


def is_wanted() -> bool:
    return calls.value


@functools.cache
def is_here() -> bool:
    """Whether this machine has the calls. Asked once: it tries one."""
    if os.environ.get("MUNCHAUSEN_ONEDNN") == "0":
        return False
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    if jaxlib_version not in TRIED:
        why = f"jaxlib {jaxlib_version} was not tried with them ({', '.join(TRIED)} were)"
    elif not _comes_out_right():
        why = f"jaxlib {jaxlib_version} as it is installed here has none that come out right"
    else:
        return True
    warnings.warn(
        f"no convolutions by oneDNN: {why}, so large networks are slower than they were measured "
        "to be (benchmarks/README.md)",
        stacklevel=2,
    )
    return False


def _comes_out_right() -> bool:
    """jaxlib can be built without oneDNN: XLA refuses the program then."""
    random = np.random.default_rng(0)
    images, filters, bias = (
        jnp.asarray(random.normal(size=size), jnp.float32)
        for size in ((2, 5, 5, 3), (3, 3, 3, 4), (4,))
    )
    pad = (1, 1), (1, 1)
    expected = jax.nn.relu(_by_xla(images, filters, pad=pad) + bias)
    try:
        made = never_kept(jax.jit(partial(_convolve, pad=pad)))(images, filters, bias)
    except jax.errors.JaxRuntimeError:
        return False
    return bool(jnp.allclose(made, expected, atol=1e-4))


def never_kept(program: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles `program` without writing it to a folder."""
    from jax._src import config  # the public way is for all threads

    @functools.wraps(program)
    def run(*arguments: Any) -> Any:
        with config.persistent_cache_min_compile_time_secs(math.inf):
            return program(*arguments)

    return run


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def convolve_and_rectify(
    images: Float[Array, "n H W I"],
    filters: Float[Array, "k l I O"],
    bias: Float[Array, " O"],
    stride: int,
    pad: Pad,
) -> Float[Array, "n h w O"]:
    """max(0, convolution + bias), in one pass."""
    return _convolve(images, filters, bias, stride=stride, pad=pad)


def _forward(
    images: Array, filters: Array, bias: Array, stride: int, pad: Pad
) -> tuple[Array, tuple[Array, Array, Array]]:
    out = _convolve(images, filters, bias, stride=stride, pad=pad)
    return out, (images, filters, out)


def _backward(
    stride: int, pad: Pad, kept: tuple[Array, Array, Array], gradient: Array
) -> tuple[Array, Array, Array]:
    images, filters, out = kept
    gradient = jnp.where(out > 0, gradient, 0.0)
    of_images = _gradient_of_images(images.shape, filters, gradient, stride, pad)
    if stride > 1:
        of_filters = _gradient_of_filters(images, gradient, stride, pad)
    else:  # Eigen is the faster
        of_filters = jax.vjp(partial(_by_xla, images, pad=pad), filters)[1](gradient)[0]
    return of_images, of_filters, jnp.sum(gradient, axis=(0, 1, 2))


convolve_and_rectify.defvjp(_forward, _backward)


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
    """With a bias, also rectified."""
    sizes = [
        (size + sum(of_axis) - kernel) // stride + 1
        for size, of_axis, kernel in zip(images.shape[1:3], pad, filters.shape[:2], strict=True)
    ]
    shape = (len(images), sizes[0], sizes[1], filters.shape[3])
    return _call_convolution(images, filters, bias, shape=shape, stride=stride, pad=pad)


def _by_xla(images: Array, filters: Array, *, pad: Pad) -> Array:
    return jax.lax.conv_general_dilated(
        images, filters, (1, 1), pad, dimension_numbers=("NHWC", "HWIO", "NHWC")
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
        "fusions": {"ops": [] if bias is None else ["BIAS", "RELU"]},
        "feature_groups": 1,
    }
    arguments = (images, filters) if bias is None else (images, filters, bias)
    return _call("convolution", {"onednn_conv_config": description}, shape, *arguments)


def multiply(
    left: Float[Array, "M K"], right: Float[Array, "..."], *, turned: bool = False
) -> Float[Array, "M N"]:
    """left @ right, or left @ right' of `right` as it lies in memory."""
    shape = (left.shape[0], right.shape[0 if turned else 1])

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
    assert all(x.dtype == jnp.float32 for x in arguments)
    return jax.ffi.ffi_call(
        f"__onednn${name}",
        jax.ShapeDtypeStruct(shape, jnp.float32),
        vmap_method="sequential",
        custom_call_api_version=2,  # a description as text
        legacy_backend_config=json.dumps(description),
    )(*arguments)
