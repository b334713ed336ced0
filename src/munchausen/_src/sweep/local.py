"""The embedded backend: processes of this machine."""

from pathlib import Path
from typing import NamedTuple

from munchausen._src.errors import UserError
from munchausen._src.kernels.machine import (
    Gpu,
    available_bytes,
    cores,
    gpus,
    threads_environment,
)
from munchausen._src.sweep.attempt import Attempt, Outcome
from munchausen._src.sweep.grid import Grid, configurations
from munchausen._src.sweep.plan import (
    Job,
    lane_bytes,
    make_jobs,
    seeds_together_on_cpu,
    seeds_together_on_gpu,
)

_PROCESS_BYTES = 800 * 2**20  # Python, JAX and compiled programs


class Arrangement(NamedTuple):
    """How many jobs run at once, with how many seeds each."""

    slots: int
    together: int
    where: str
    fraction: float | None = None  # of a GPU, for each

    @property
    def in_words(self) -> str:
        seeds = f", {self.together} seeds in each" if self.together > 1 else ""
        return f"{self.slots} at once on {self.where}{seeds}"


class LocalBackend:
    """Where attempts run. `RayBackend` has the same methods."""

    def __init__(self, root: Path, slots: list[dict[str, str]], stall_seconds: float):
        """`slots`: the environment of the process in each place."""
        self._root = root
        self._free = list(slots)
        self._stall_seconds = stall_seconds
        self._running: list[tuple[Attempt, dict[str, str]]] = []

    def room(self) -> int:
        """How many more jobs to hand over now."""
        return len(self._free)

    def submit(self, job: Job) -> None:
        slot = self._free.pop(0)
        self._running.append((Attempt(job, self._root, self._stall_seconds, slot), slot))

    def poll(self) -> list[tuple[Job, Outcome]]:
        """The attempts that have ended."""
        ended = []
        for attempt, slot in list(self._running):
            outcome = attempt.poll()
            if outcome is not None:
                self._running.remove((attempt, slot))
                self._free.append(slot)
                ended.append((attempt.job, outcome))
        return ended

    def stop(self) -> None:
        """Asks all attempts to write a checkpoint and end; `poll` says when they have."""
        for attempt, _ in self._running:
            attempt.stop()

    def close(self) -> None:
        """Kills what still runs."""
        for attempt, _ in self._running:
            attempt.kill()


def arrange(
    grid: Grid, *, parallel: int | None, together: int | None, fraction: float | None
) -> tuple[Arrangement, list[dict[str, str]]]:
    """What fits this machine: on GPUs one process each, or several by `fraction`; else one
    process a core, as far as memory reaches."""
    found = gpus()
    if found:
        return _on_gpus(grid, found, parallel, together, fraction)
    if fraction is not None:
        raise UserError("--gpu-fraction needs a GPU that JAX can use; there is none here")
    need = _PROCESS_BYTES + max(lane_bytes(each) for each in configurations(grid))
    fitting = max(1, min(cores(), available_bytes() // need))
    slots = parallel or fitting
    together = together or seeds_together_on_cpu(grid, slots)
    slots = min(slots, len(make_jobs(grid, together)))
    threads = max(1, cores() // slots)
    where = f"{cores()} core" + "s" * (cores() > 1)
    return Arrangement(slots, together, where), [threads_environment(threads)] * slots


def _on_gpus(
    grid: Grid, found: list[Gpu], parallel: int | None, together: int | None, fraction: float | None
) -> tuple[Arrangement, list[dict[str, str]]]:
    each = int(1 / fraction + 1e-9) if fraction else 1
    share = gpu_environment(fraction)
    places = [share | {"CUDA_VISIBLE_DEVICES": gpu.name} for _ in range(each) for gpu in found]
    slots = places[:parallel]
    memory = min(gpu.memory_bytes for gpu in found) / each
    together = together or seeds_together_on_gpu(grid, memory)
    where = f"{len(found)} GPU" + "s" * (len(found) > 1)
    return Arrangement(len(slots), together, where), slots


def gpu_environment(fraction: float | None) -> dict[str, str]:
    """JAX takes three quarters of a GPU's memory at once unless it is told its share."""
    share = 0.9 * min(1.0, fraction or 0)
    return {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{share:.3f}"} if share else {}
