"""That freed memory stays with the process, in processes of their own: it is for a whole one."""

import ctypes
import os
import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes
import sys
from munchausen.loops.memory import keep_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]

class Mallinfo2(ctypes.Structure):
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]

libc.mallinfo2.restype = Mallinfo2
before = libc.mallinfo2().hblkhd
print(keep_freed_memory(), keep_freed_memory())
assert libc.malloc(24 * 2**20)
print(libc.mallinfo2().hblkhd - before >= 24 * 2**20)  # mapped: unmapped when freed
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="not glibc 2.33 or later")
@pytest.mark.parametrize(
    ("environment", "kept"),
    (({}, True), ({"GLIBC_TUNABLES": ""}, False), ({"MALLOC_TOP_PAD_": "131072"}, False)),
)
def test_large_blocks_stay_unless_the_environment_says_otherwise(environment, kept):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", _PROGRAM]
    output = subprocess.run(command, env=clean | environment, check=True, stdout=subprocess.PIPE)
    mapped = not kept
    assert output.stdout.decode().split() == [str(kept), str(kept), str(mapped)]
