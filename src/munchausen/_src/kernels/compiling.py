"""How programs that hold a network are compiled: XLA's options for each kind of device."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax

from munchausen._src.kernels import dispatch

OPTIONS: dict[str, dict[str, Any]] = {
    "gpu": {
        # A GPU gets a program's kernels as one graph. XLA's default puts them in a line; so those
        # that need nothing of each other run side by side.
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
        # Images stay as they are: XLA's default turns them to have their channels first, and back.
        "xla_gpu_force_conv_nhwc": True,
    },
    "cpu": {
        # The default but for convolutions, which then are Eigen's: Atari's take 1.6 to 2.1 ms in
        # place of 2.6 to 2.9 on two cores.
        "xla_cpu_experimental_ynn_fusion_type": (
            "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"
        ),
        # By default the weights of Atari's hidden layer, 16 MB, are copied before they are updated.
        "xla_cpu_copy_insertion_use_region_analysis": True,
    },
}

_UNKNOWN = ("No such compile option", "not a valid enum value")


def compiled(
    function: Callable[..., Any], precision: str, *, uses_up_first: bool = False
) -> Callable[..., Any]:
    """`function` of an agent's network as a program for this machine's device.

    With `uses_up_first` the program may write its results over its first argument (a lane is
    gigabytes of replay), which nobody may read after the call."""

    @functools.wraps(function)
    def exact(*arguments: Any) -> Any:
        with jax.default_matmul_precision("float32"):  # JAX's default on a GPU is tf32
            return function(*arguments)

    return jax.jit(
        exact if precision == "float32" else function,
        donate_argnums=0 if uses_up_first else (),
        compiler_options=known_options(dispatch.backend()),
    )


@functools.cache
def known_options(backend: str) -> dict[str, Any]:
    """Those that this version of XLA has: it refuses a program with one that it lacks."""
    known = {}
    for name, value in OPTIONS.get(backend, {}).items():
        try:
            jax.jit(lambda x: x + 1, compiler_options={name: value})(0)
            known[name] = value
        except jax.errors.JaxRuntimeError as error:
            if not any(words in str(error) for words in _UNKNOWN):
                raise
            warnings.warn(
                f"jax {jax.__version__} has no option {name}={value}: programs will be slower "
                "than they were measured to be",
                stacklevel=2,
            )
    return known
