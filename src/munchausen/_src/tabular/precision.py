"""Double precision for the theory alone: a residual of 1e-12 means nothing in float32.

JAX's own switch is global, and a user who imports this package must not find it turned. So the
entry points of `tabular` turn it for the time of their call. Results keep their float64; to
compute on with them in JAX, do so `with float64():`.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax

# Of the theory's programs most of the time goes into compiling them.
QUICKLY = {"xla_backend_optimization_level": 0}


@contextlib.contextmanager
def float64() -> Iterator[None]:
    """Double precision for JAX: `with float64():`, or `@float64()` before a function."""
    with jax.enable_x64(True):
        yield


def compiled_quickly(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` for a program that runs for less time than it takes to compile it well.

    Traced anew for each call of this: JAX would otherwise remember `function` as it first was.
    """
    return jax.jit(lambda *args: function(*args), compiler_options=QUICKLY)
