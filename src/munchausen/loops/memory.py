"""What freed memory becomes, on a CPU."""

import ctypes
import functools
import os

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of glibc's <malloc.h>
_LARGEST_IN_HEAP = 32 * 2**20  # glibc takes no more
_HEAP = 64 * 2**20
_ASKED_FOR = (
    "GLIBC_TUNABLES",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_MMAP_THRESHOLD_",
)


@functools.cache
def keep_freed_memory() -> bool:
    """Freed blocks of up to 32 MB stay with the process, up to a gigabyte of them.

    An update of Atari's network works in 28 MB, which XLA takes and frees each time. As glibc is
    set, it may give them back to the system, which zeroes them anew page by page; whether it does
    depends on what else lies in the heap, so some runs are slower by a sixth and others not
    (benchmarks/README.md). False where nothing was set: another C library, or whoever started the
    process has set it."""
    if any(name in os.environ for name in _ASKED_FOR):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    wanted = {
        # A thread's heap stays while the space in the one before it is under this, a whole heap.
        _TOP_PAD: _HEAP,
        _TRIM_THRESHOLD: 2**30,
        # Each of the others ends glibc's own adjusting, from 128 kB up to this.
        _MMAP_THRESHOLD: _LARGEST_IN_HEAP,
    }
    return all(mallopt(name, value) == 1 for name, value in wanted.items())
