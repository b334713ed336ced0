"""Whether programs may hold oneDNN's calls, and how they are kept from harm.

XLA's calls for oneDNN are no public interface. So they are taken

- with versions of jaxlib that they were tried with, as a description that one cannot use ends the
  process, and after some came out right;
- on processors with AVX2 or more, for which it has kernels of one family (`brg…`); those that it
  takes for older ones write out of bounds when called so;
- in programs that `never_kept` sees to: jaxlib cannot write such a call to JAX's folder of compiled
  programs (`std::bad_alloc`, where it was tried).

`MUNCHAUSEN_ONEDNN=0` in the environment leaves all to XLA.
"""

import functools
import math
import os
import platform
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.version import __version__ as jaxlib_version

from munchausen.networks import onednn

TRIED = ("0.10.2", "0.11.2", "0.12.0.1")  # versions of jaxlib

_PROCESSORS = Path("/proc/cpuinfo")
_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")  # oneDNN then uses no more of a processor
_TOO_LOW = ("SSE41", "AVX")


@functools.cache
def is_here() -> bool:
    """Whether this machine has the calls. Asked once: it tries some."""
    if os.environ.get("MUNCHAUSEN_ONEDNN") == "0":
        return False
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    limited = any(os.environ.get(name, "").upper() in _TOO_LOW for name in _LIMITS)
    if limited or not {"avx2", "fma"} <= _processor_flags():
        return False
    if jaxlib_version not in TRIED:
        why = f"jaxlib {jaxlib_version} was not tried with them ({', '.join(TRIED)} were)"
    elif not _come_out_right():
        why = f"jaxlib {jaxlib_version} as it is installed here has none that come out right"
    else:
        return True
    warnings.warn(
        f"no convolutions by oneDNN: {why}, so large networks are slower than they were measured "
        "to be (benchmarks/README.md)",
        stacklevel=2,
    )
    return False


def _processor_flags() -> set[str]:
    try:
        lines = _PROCESSORS.read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def _come_out_right() -> bool:
    """jaxlib can be built without oneDNN: XLA refuses the program then."""
    random = np.random.default_rng(0)
    shapes = (2, 5, 5, 3), (4, 4, 3, 4), (4,)
    arguments = [jnp.asarray(random.normal(size=shape), jnp.float32) for shape in shapes]
    stride, pad = 2, ((1, 2), (1, 2))

    def results(convolve: Callable[..., Any], multiply: Callable[..., Any]) -> Any:
        def run(*arguments: Any) -> Any:
            out, pull_back = jax.vjp(convolve, *arguments)
            rows = out.reshape(6, -1)
            return out, pull_back(out), multiply(rows, rows.T), multiply(rows.T, rows)

        return never_kept(jax.jit(run))(*arguments)

    def by_xla(images: Any, filters: Any, bias: Any) -> Any:
        return onednn.convolve_by_xla(images, filters, stride=stride, pad=pad) + bias

    try:
        made = results(lambda *x: onednn.convolve(*x, stride, pad), onednn.multiply)
    except jax.errors.JaxRuntimeError:
        return False
    near = partial(jnp.allclose, rtol=1e-4, atol=1e-4)
    return all(jax.tree.leaves(jax.tree.map(near, made, results(by_xla, jnp.matmul))))


def never_kept(program: Callable[..., Any]) -> Callable[..., Any]:
    """`program` without writing it to a folder when it is compiled. It is there to be called and
    for nothing else: what `lower` and `compile` make of the program itself would be kept."""
    from jax._src import config  # the public way is for all threads

    @functools.wraps(program)
    def run(*arguments: Any) -> Any:
        with config.persistent_cache_min_compile_time_secs(math.inf):
            return program(*arguments)

    return run
