"""What this machine has to train on, found without touching it: a sweep's own process must not
take a GPU's memory from the processes it starts."""

import os
import subprocess
from typing import NamedTuple


class Gpu(NamedTuple):
    name: str  # its index, or its UUID
    memory_bytes: int


def available_bytes() -> int:
    """Of memory, short of swapping."""
    try:
        with open("/proc/meminfo") as file:
            sizes = dict(line.split(":", 1) for line in file)
        return int(sizes["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def gpus() -> list[Gpu]:
    """NVIDIA's that JAX may use here."""
    if os.environ.get("JAX_PLATFORMS", "cuda") not in ("cuda", "gpu", "cuda,cpu", ""):
        return []
    if not _has_cuda_plugin():
        return []
    query = ["nvidia-smi", "--query-gpu=index,memory.total", "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout
        pairs = [line.split(",") for line in text.splitlines() if line]
        found = [Gpu(name.strip(), int(megabytes) * 2**20) for name, megabytes in pairs]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    allowed = [name.strip() for name in visible.split(",") if name.strip()]
    if all(name.isdigit() for name in allowed):
        return [gpu for gpu in found if gpu.name in allowed]
    # By UUID: as many as are named, taken to be alike.
    return [Gpu(name, found[0].memory_bytes) for name in allowed] if found else []


def _has_cuda_plugin() -> bool:
    """Whether the extra `cuda` is installed: on a machine with GPUs JAX may be the CPU's."""
    from importlib.metadata import distributions

    names = ("jax-cuda12-plugin", "jax-cuda13-plugin")
    return any((d.name or "").replace("_", "-") in names for d in distributions())


def threads_environment(count: int) -> dict[str, str]:
    """Tells a process to use so many cores. They are not pinned: whatever else runs here moves
    them aside. NPROC is the size of XLA's thread pools."""
    return {"NPROC": str(count), "OMP_NUM_THREADS": str(count)}
