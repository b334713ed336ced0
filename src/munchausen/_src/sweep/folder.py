"""A sweep is a folder of run folders, and what is needed to go on with it.

sweep.json       the grid, and how many seeds share a process
attempts.jsonl   a line for each attempt that ended: job, outcome, and why it failed
logs/            what each job's processes printed
split/           jobs of several seeds that failed together and are trained one by one
lock             held while a sweep runs here
NAME/            a run's folder, as `munchausen train` makes it
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from munchausen._src.errors import UserError, refused
from munchausen._src.experiment.folder import lock_folder, write_json
from munchausen._src.experiment.records import CONFIG, LOCK, RECORDS, RESULT, read_json
from munchausen._src.sweep.attempt import LOGS, Outcome
from munchausen._src.sweep.grid import Grid, difference, grid_from
from munchausen._src.sweep.plan import Job, make_jobs, one_by_one

SWEEP, ATTEMPTS, SPLIT = "sweep.json", "attempts.jsonl", "split"


class SweepFolder:
    """An open sweep folder, locked against any other sweep."""

    def __init__(self, path: Path, lock: Any):
        self.path = path
        self._lock = lock

    def close(self) -> None:
        self._lock.close()

    def note(self, job: Job, outcome: Outcome) -> None:
        """Keeps what an attempt came to, with the run too where it has a folder, for reports."""
        line = json.dumps({"job": job.name, "status": outcome.status, "error": outcome.error})
        with open(self.path / ATTEMPTS, "a+b") as file:
            if file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
                file.write(b"\n")  # a line that a kill cut short stays one line
            file.write(line.encode() + b"\n")
        place = self.path / job.name
        crashed = outcome.status == "failed" and not read_json(place / RESULT).get("status")
        if crashed and (place / CONFIG).exists():
            write_json(place / RESULT, {"status": "failed", "error": outcome.error})

    def split(self, job: Job) -> list[Job]:
        """Sets a job aside whose seeds failed together; each is trained anew by itself."""
        (self.path / SPLIT).mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path / job.name, self.path / SPLIT / job.name)
        _hide(self.path / SPLIT / job.name)
        return one_by_one(job)


def _hide(place: Path) -> None:
    """No report counts the rows of a job that was split: its runs have rows of their own."""
    place.mkdir(parents=True, exist_ok=True)
    for name in (CONFIG, RECORDS):
        with contextlib.suppress(FileNotFoundError):
            os.rename(place / name, place / f"{name}.split")


def check_out(path: Path) -> None:
    """A sweep needs its own folder, an empty one, or one that is not there yet."""
    if (path / SWEEP).exists() or not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"{path} is a file; name a folder as --out")
    if {p.name for p in path.iterdir()} - {LOCK, f"{SWEEP}.writing"}:
        raise UserError(f"{path} is not empty and no sweep; name another --out")


def open_sweep(path: Path, grid: Grid, together: int) -> SweepFolder:
    """Begins a sweep, or goes on with the one that is there, which must be of the same grid."""
    saved = read_grid(path)
    if saved is not None and (wrong := difference(saved[0], grid)):
        raise UserError(f"{path} holds another sweep: {wrong}; name another --out")
    check_out(path)
    if saved is not None:
        together = saved[1]  # folders are of so many seeds, whatever this machine would choose
    make_jobs(grid, together)  # a mistake is found before anything is written
    with refused(f"write to {path}"):
        path.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(path, "munchausen sweep")
        write_json(path / SWEEP, {"together": together, "grid": grid.to_json()})
        (path / LOGS).mkdir(exist_ok=True)
    return SweepFolder(path, lock)


def read_grid(path: Path) -> tuple[Grid, int] | None:
    """The grid of a sweep and how many seeds share a process; None if there is no sweep."""
    place = path / SWEEP
    if not place.exists():
        return None
    try:
        data = json.loads(place.read_text())
        return grid_from(data["grid"], str(place)), max(1, int(data["together"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise UserError(f"{place} cannot be read: {error}") from error


def current_jobs(path: Path, grid: Grid, together: int) -> list[Job]:
    """Names are made from the grid, never read from files. Jobs that were split are replaced."""
    return [
        each
        for job in make_jobs(grid, together)
        for each in (one_by_one(job) if _is_split(path, job) else [job])
    ]


def _is_split(path: Path, job: Job) -> bool:
    return len(job.seeds) > 1 and (path / SPLIT / job.name).is_dir()


def finish_splits(path: Path, grid: Grid, together: int) -> None:
    """What a kill in the middle of a split left undone."""
    for job in make_jobs(grid, together):
        if _is_split(path, job):
            _hide(path / SPLIT / job.name)


def read_attempts(path: Path) -> dict[str, Outcome]:
    """The last outcome of each job. Unreadable lines, such as one cut by a kill, are skipped."""
    outcomes = {}
    try:
        lines = (path / ATTEMPTS).read_text(errors="replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            data = json.loads(line)
            outcomes[str(data["job"])] = Outcome(str(data["status"]), str(data["error"] or ""))
    return outcomes
