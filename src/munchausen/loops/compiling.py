"""How the programs of both loops are compiled."""

from collections.abc import Callable
from typing import Any

import jax

GPU_OPTIONS = {
    # A GPU gets a program's kernels as one graph. XLA's default puts them in a line; so those that
    # need nothing of each other run side by side.
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
    # Images stay as they are: XLA's default turns them to have their channels first, and back.
    "xla_gpu_force_conv_nhwc": True,
}


def compiled(function: Callable[..., Any], *, uses_up_first: bool = False) -> Callable[..., Any]:
    """`function` as a program for this machine's device. It may write its results over its
    first argument (a lane, gigabytes of it replay) if that is used up by the call."""
    return jax.jit(
        function,
        donate_argnums=0 if uses_up_first else (),
        compiler_options=GPU_OPTIONS if jax.default_backend() == "gpu" else None,
    )
