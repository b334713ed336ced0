"""What this machine has for us: cores, memory, GPUs, and how to share them out. JAX is asked only
where it says so: a sweep's own process must not take a GPU's memory from those it starts."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Gpu(NamedTuple):
    name: str  # its index, or its UUID
    memory_bytes: int


def cores() -> int:
    """The processor's that this process may use: a batch system may grant a few of many."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_bytes(
    meminfo: Path = Path("/proc/meminfo"),
    membership: Path = Path("/proc/self/cgroup"),
    groups: Path = Path("/sys/fs/cgroup"),
) -> int:
    """Of memory, short of swapping: what the machine has left, or less where a container or a
    batch system grants less (a limit on this process's cgroup, version 2, or on one above it)."""
    try:
        there = _numbers(meminfo.read_text())["MemAvailable:"] * 1024
    except (OSError, KeyError, ValueError):
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return min([there, *_left_in_groups(membership, groups)])


def _left_in_groups(membership: Path, groups: Path) -> Iterator[int]:
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # not on Linux
        return
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    own = groups / path
    for group in (own, *own.parents):
        try:
            limit = int((group / "memory.max").read_text())
            used = int((group / "memory.current").read_text())
            # Of files that were read and are not in use: given back when memory is asked for.
            cached = _numbers((group / "memory.stat").read_text()).get("inactive_file", 0)
            yield max(0, limit - used + cached)
        except (OSError, ValueError):  # no such file, or "max"
            pass
        if group == groups:
            return


def _numbers(text: str) -> dict[str, int]:
    """Of lines such as `name 1024 kB`."""
    words = [line.split() for line in text.splitlines()]
    return {name: int(number) for name, number, *_ in words if number.isdigit()}


def device_memory() -> int | None:
    """Bytes that arrays may take on JAX's device, or None where it does not say."""
    import jax

    device = jax.devices()[0]
    if device.platform == "cpu":
        return available_bytes()
    stats = device.memory_stats()
    return int(stats["bytes_limit"]) if stats else None


def describe() -> dict[str, Any]:
    """For the record of a run: what it had, and the device that JAX chose."""
    import jax

    device = jax.devices()[0]
    return {"cpus": cores(), "device": device.device_kind, "backend": device.platform}


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
