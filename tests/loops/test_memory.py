"""That freed memory stays with the process, in processes of their own: it is for a whole one."""

import os
import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes
import os
import threading
from munchausen.loops import memory

BLOCK = 24 * 2**20
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def blocks_that_stay():
    before = resident()
    blocks = [libc.malloc(BLOCK) for _ in range(4)]
    for block in blocks:
        libc.memset(block, 1, BLOCK)
    for block in blocks:
        libc.free(block)
    print(round((resident() - before) / BLOCK))

print(memory.keep_freed_memory())
blocks_that_stay()
thread = threading.Thread(target=blocks_that_stay)
thread.start()
thread.join()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="for glibc")
@pytest.mark.parametrize(
    ("environment", "kept"),
    (({}, True), ({"GLIBC_TUNABLES": ""}, False), ({"MALLOC_TOP_PAD_": "131072"}, False)),
)
def test_freed_blocks_stay_unless_the_environment_says_otherwise(environment, kept):
    """Four of 24 MB, in the heap of the process and in those of a thread."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", _PROGRAM]
    output = subprocess.run(command, env=clean | environment, check=True, stdout=subprocess.PIPE)
    said, *stay = output.stdout.decode().split()
    assert (said, stay == ["4", "4"]) == (str(kept), kept)
