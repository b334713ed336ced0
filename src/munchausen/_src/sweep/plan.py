"""From a grid to jobs: what one process trains, and in which folder.

A run is one agent on one environment with one seed; a job is one run, or the seeds of one
configuration in one program where that is faster.
"""

import hashlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from munchausen._src.errors import UserError
from munchausen._src.experiment.settings import Settings
from munchausen._src.suites import frame_bytes
from munchausen._src.sweep.grid import Grid, configurations

# What a process costs before its first step (imports, compiled programs out of the cache, a
# picture at the end), to the order of magnitude, as a suite's `core_steps_per_second`: they decide
# only whether short runs share a process. Measured on 2 cores, see benchmarks/README.md.
PROCESS_SECONDS = 6.0

MOST_LANES = 16  # a program of more is hardly faster on an H200 for each lane, see benchmarks


@dataclass(frozen=True)
class Job:
    """`name` is its folder in the sweep's, of plain letters whatever it is made of."""

    name: str
    label: str  # the agent, with the values of fields that vary
    agent: str
    env: str
    seeds: tuple[int, ...]  # one after another
    steps: int
    iteration_steps: int
    checkpoint_seconds: float
    changes: tuple[tuple[str, Any], ...] = ()
    imports: tuple[str, ...] = ()  # modules that its process is to import first

    def arguments(self, out: Path) -> list[str]:
        """Of `munchausen`, for a new run. '=' keeps values that begin with '-' values."""
        return [
            *("train", self.agent, f"--env={self.env}", f"--steps={self.steps}"),
            *(f"--seed={self.seeds[0]}", f"--seeds={len(self.seeds)}"),
            f"--iteration-steps={self.iteration_steps}",
            f"--checkpoint-seconds={self.checkpoint_seconds}",
            *(f"--{name.replace('_', '-')}={value}" for name, value in self.changes),
            *(f"--import={module}" for module in self.imports),
            f"--out={out}",
        ]


def make_jobs(grid: Grid, together: int) -> list[Job]:
    """At most `together` seeds in one job. The order is that of the grid, seeds first, so that
    a sweep that is cut has every agent and environment at few seeds, not few at every seed."""
    settings = configurations(grid)
    groups = seed_groups(grid.seeds, together)
    varying = {name for name, values in grid.overrides if len(values) > 1}
    kinds = [(each.lanes[0].agent, each.env, each.changes) for each in settings]
    if len(set(kinds)) != len(kinds):
        agent, env, _ = next(kind for kind in kinds if kinds.count(kind) > 1)
        raise UserError(f"{agent} on {env} is in the sweep twice; name each once")
    return _unique([_job(each, seeds, varying) for seeds in groups for each in settings])


def one_by_one(job: Job) -> list[Job]:
    """The runs of a job, each as a job of its own."""
    start = job.name.removesuffix(_spell(job.seeds))
    return [replace(job, name=start + _spell((seed,)), seeds=(seed,)) for seed in job.seeds]


def seed_groups(seeds: Iterable[int], together: int) -> list[tuple[int, ...]]:
    """Runs of consecutive seeds: a program takes them from its first seed on."""
    groups: list[tuple[int, ...]] = []
    for seed in sorted(seeds):
        if groups and len(groups[-1]) < together and groups[-1][-1] == seed - 1:
            groups[-1] = (*groups[-1], seed)
        else:
            groups.append((seed,))
    return groups


def seeds_together_on_cpu(grid: Grid, slots: int) -> int:
    """How many seeds share a process on `slots` cores. Seeds in one process are trained in turn,
    with the same bits as alone, and share its start-up time: that pays where runs are short and
    enough jobs are left for all cores. Of the numbers within 5% of the best time the smallest is
    taken, so that runs end independently of each other."""
    settings = configurations(grid)
    seconds = max(each.steps / each.listing.suite.core_steps_per_second for each in settings)

    def sweep_seconds(together: int) -> float:
        groups = seed_groups(grid.seeds, together)
        rounds = math.ceil(len(settings) * len(groups) / slots)
        return rounds * (PROCESS_SECONDS + max(map(len, groups)) * seconds)

    times = {k: sweep_seconds(k) for k in range(1, len(grid.seeds) + 1)}
    return next(k for k, time in times.items() if time <= 1.05 * min(times.values()))


def seeds_together_on_gpu(grid: Grid, memory_bytes: int | float) -> int:
    """Lanes of a program cost little more than one while the device is not full: as many seeds
    as fit its memory."""
    most = max(lane_bytes(each) for each in configurations(grid))
    fitting = int(memory_bytes * 0.8 / most)
    return max(1, min(len(grid.seeds), fitting, MOST_LANES))


def lane_bytes(settings: Settings) -> int:
    """Of memory for a lane: its replay, and room for networks and batches."""
    return replay_bytes(settings) + 256 * 2**20


def replay_bytes(settings: Settings) -> int:
    return settings.config.capacity * (frame_bytes(settings.listing) + 12)


def _job(settings: Settings, seeds: tuple[int, ...], varying: set[str]) -> Job:
    agent = settings.lanes[0].agent
    changes = [(name, value) for name, value in settings.changes if name in varying]
    words = [f"{name} {value}" for name, value in changes]
    parts = [settings.env, agent, *(f"{name}-{value}" for name, value in changes)]
    return Job(
        f"{_plain('_'.join(parts))}_{_spell(seeds)}",
        f"{agent} ({', '.join(words)})" if words else agent,
        agent,
        settings.env,
        seeds,
        settings.steps,
        settings.iteration_steps,
        settings.checkpoint_seconds,
        settings.changes,
    )


def _spell(seeds: tuple[int, ...]) -> str:
    return f"seed{seeds[0]}" if len(seeds) == 1 else f"seeds{seeds[0]}-{seeds[-1]}"


def _plain(text: str) -> str:
    """A folder's name, whatever the text: no slash, no dot in front, not too long. Texts that
    come to the same name are told apart by a hash of what they were."""
    name = re.sub(r"[^A-Za-z0-9_.+-]", "-", text).lstrip(".-")
    return name if len(name) <= 150 else f"{name[:130]}_{_digest(text)}"


def _unique(jobs: list[Job]) -> list[Job]:
    """`gym/a/b` and `gym/a-b` are both written gym-a-b."""
    names = [job.name.lower() for job in jobs]  # some file systems do not see capitals
    return [
        job if names.count(name) == 1 else replace(job, name=f"{_digest(job.env)}_{job.name}")
        for job, name in zip(jobs, names, strict=True)
    ]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
