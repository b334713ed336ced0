"""The status of each run of a sweep, read from its folder."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from munchausen._src.errors import UserError
from munchausen._src.experiment.records import RESULT, is_live, read_json
from munchausen._src.sweep.folder import current_jobs, read_attempts, read_grid
from munchausen._src.sweep.heartbeat import read_heartbeat
from munchausen._src.sweep.plan import Job

STATUSES = ("running", "done", "failed", "waiting")


class JobState(NamedTuple):
    status: str  # of STATUSES
    error: str = ""


class RunStatus(NamedTuple):
    label: str
    agent: str
    env: str
    seed: int
    changes: dict[str, Any]
    status: str
    step: int
    steps: int
    score: float | None  # over the last 100 episodes
    steps_per_second: float | None  # of this run alone
    error: str
    folder: Path


def is_done(root: Path, job: Job) -> bool:
    result = read_json(root / job.name / RESULT)
    try:
        return result.get("status") == "finished" and int(result["steps"]) >= job.steps
    except (KeyError, TypeError, ValueError):
        return False


def read_states(root: Path) -> dict[Job, JobState]:
    """From another terminal: whoever holds a run's lock trains it."""
    saved = read_grid(root)
    if saved is None:
        raise UserError(f"{root} is no sweep; give the folder a `munchausen sweep` made")
    attempts = read_attempts(root)
    return {job: _state(root, job, attempts) for job in current_jobs(root, *saved)}


def _state(root: Path, job: Job, attempts: dict[str, Any]) -> JobState:
    if is_done(root, job):
        return JobState("done")
    if is_live(root / job.name):
        return JobState("running")
    last = attempts.get(job.name)
    if last is not None and last.status == "failed":
        return JobState("failed", last.error)
    return JobState("waiting")


def run_statuses(root: Path, job: Job, state: JobState) -> list[RunStatus]:
    """The runs of a job, each by itself."""
    place = root / job.name
    count = len(job.seeds)
    step, scores, rate = 0, [None] * count, None
    if state.status == "done":
        result = read_json(place / RESULT)
        step, scores = job.steps, [_lane_score(result, i) for i in range(count)]
        rate = _number(result.get("steps_per_second"))
    elif beat := read_heartbeat(place):
        step, rate = beat.step, beat.steps_per_second
        scores = (beat.scores + scores)[:count]
    return [
        RunStatus(
            job.label,
            job.agent,
            job.env,
            seed,
            dict(job.changes),
            state.status,
            min(step, job.steps),
            job.steps,
            score,
            rate / count if rate else None,
            state.error,
            place,
        )
        for seed, score in zip(job.seeds, scores, strict=True)
    ]


def count(rows: Iterable[RunStatus]) -> dict[str, int]:
    found = Counter(row.status for row in rows)
    return {status: found[status] for status in STATUSES}


def seconds_left(rows: list[RunStatus]) -> float | None:
    """Assumes that as many runs go on at once as now, each at the known average speed. Runs that
    share a program each have a part of its speed."""
    rates = [row.steps_per_second for row in rows if row.steps_per_second]
    running = sum(row.status == "running" for row in rows)
    if not rates or not running:
        return None
    usual = sum(rates) / len(rates)
    left = [
        (row.steps - row.step) / (row.steps_per_second or usual)
        for row in rows
        if row.status in ("running", "waiting")
    ]
    return max(sum(left) / running, max(left, default=0.0))


def _lane_score(result: dict[str, Any], lane: int) -> float | None:
    try:
        return _number(result["lanes"][lane]["score"])
    except (KeyError, IndexError, TypeError):
        return None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
