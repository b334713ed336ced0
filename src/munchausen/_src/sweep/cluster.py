"""The Ray backend: the same attempts, each in a task of an existing cluster.

Ray only chooses the node and the GPU. A task does not train: it watches a process that trains, as
on one machine, so that cancelling a task ends everything it started. Records and checkpoints are on
storage that all nodes share. If Ray loses a worker or a node, that is an error of the task, and the
schedule submits the job again, to continue from its checkpoint.
"""

import logging
import os
import stat
import time
import warnings
from pathlib import Path
from typing import Any

from munchausen._src.errors import UserError, install_line
from munchausen._src.kernels.machine import threads_environment
from munchausen._src.sweep.attempt import EVERY_SECONDS, Attempt, Outcome
from munchausen._src.sweep.folder import SWEEP
from munchausen._src.sweep.grid import Grid
from munchausen._src.sweep.local import Arrangement, gpu_environment
from munchausen._src.sweep.plan import Job, seeds_together_on_cpu, seeds_together_on_gpu

_GPU_BYTES = 40 * 2**30  # Ray does not say how much a GPU has; --together says what fits


def train_on_node(
    job: Job, root: str, stall_seconds: float, environment: dict[str, str]
) -> Outcome:
    """The body of a task. Ray cancels it by a KeyboardInterrupt."""
    if not (Path(root) / SWEEP).exists():
        return Outcome(
            "failed", f"{root} is not on node {os.uname().nodename}: --out must be shared by all"
        )
    attempt = Attempt(job, Path(root), stall_seconds, environment)
    while True:
        try:
            while (outcome := attempt.poll()) is None:
                time.sleep(EVERY_SECONDS)
            return outcome
        except KeyboardInterrupt:
            attempt.stop()
        except BaseException:
            attempt.kill()
            raise


class RayBackend:
    def __init__(
        self,
        root: Path,
        ray: Any,
        *,
        stall_seconds: float,
        cpus: float,
        fraction: float | None,
        parallel: int | None,
    ):
        self._ray = ray
        self._root = str(root.resolve())
        self._stall_seconds = stall_seconds
        self._cpus, self._fraction, self._parallel = cpus, fraction, parallel
        self._environment = threads_environment(max(1, int(cpus))) | gpu_environment(fraction)
        self._running: dict[Any, Job] = {}
        # Retries are the schedule's, which sees whether an attempt got any further.
        options = {"num_cpus": cpus, "num_gpus": fraction or 0, "max_retries": 0}
        self._task = ray.remote(**options)(train_on_node)

    def room(self) -> int:
        slots = self._parallel or cluster_slots(self._ray, self._cpus, self._fraction)
        return max(0, slots - len(self._running))

    def submit(self, job: Job) -> None:
        task = self._task.options(name=job.name)
        reference = task.remote(job, self._root, self._stall_seconds, self._environment)
        self._running[reference] = job

    def poll(self) -> list[tuple[Job, Outcome]]:
        if not self._running:
            return []
        references = list(self._running)
        ready, _ = self._ray.wait(references, num_returns=len(references), timeout=EVERY_SECONDS)
        return [(self._running.pop(reference), self._outcome(reference)) for reference in ready]

    def stop(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=False)

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._ray.shutdown()

    def _outcome(self, reference: Any) -> Outcome:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.TaskCancelledError:  # before it had begun
            return Outcome("stopped")
        except self._ray.exceptions.RayTaskError as error:
            return Outcome("failed", f"the worker failed: {error.cause}", retry=True)
        except self._ray.exceptions.RayError as error:
            lost = str(error).split("\n")[0]
            return Outcome("failed", f"{type(error).__name__}: {lost}", retry=True)


def cluster_slots(ray: Any, cpus: float, fraction: float | None) -> int:
    """How many tasks fit the nodes there are now, at least one: more may be on their way."""
    slots = 0
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        fits = int(node["Resources"].get("CPU", 0) / cpus + 1e-9)
        if fraction:
            on_gpu = int(1 / fraction + 1e-9) if fraction < 1 else 1 / fraction
            fits = min(fits, int(node["Resources"].get("GPU", 0) * on_gpu))
        slots += fits
    return max(1, slots)


def connect(address: str | None) -> Any:
    """To a cluster that is there. None: the one Ray finds (RAY_ADDRESS, or this machine's)."""
    # Under `uv run` Ray would build the environment anew on each node: it is there already.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise UserError(f"--backend ray needs an extra: {install_line('ray')}") from error
    _check_token()
    try:
        ray.init(address=address or "auto", log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        where = address or "this machine or RAY_ADDRESS"
        first = str(error).strip().split("\n")[0]
        raise UserError(
            f"no Ray cluster at {where}: {first}; start one with `ray start --head`"
        ) from error
    return ray


def _check_token() -> None:
    """Whoever reads a cluster's token runs code on it."""
    token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", Path.home() / ".ray" / "auth_token"))
    if os.environ.get("RAY_AUTH_MODE") == "token" and "RAY_AUTH_TOKEN" not in os.environ:
        try:
            mode = stat.S_IMODE(token.stat().st_mode)
        except OSError as error:
            raise UserError(
                f"RAY_AUTH_MODE=token, but {token} cannot be read: {error.strerror}"
            ) from error
        if mode & 0o077:
            warnings.warn(f"{token} can be read by others; chmod 600 {token}", stacklevel=2)


def arrange_cluster(
    ray: Any,
    grid: Grid,
    *,
    cpus: float,
    parallel: int | None,
    together: int | None,
    fraction: float | None,
) -> Arrangement:
    """`fraction` of a GPU for each process; a whole one where the cluster has GPUs."""
    if fraction is None and ray.cluster_resources().get("GPU"):
        fraction = 1.0
    slots = parallel or cluster_slots(ray, cpus, fraction)
    if together is None:
        if fraction:
            together = seeds_together_on_gpu(grid, _GPU_BYTES * min(1, fraction))
        else:
            together = seeds_together_on_cpu(grid, slots)
    nodes = sum(node["Alive"] for node in ray.nodes())
    return Arrangement(slots, together, f"{nodes} node" + "s" * (nodes > 1), fraction)
