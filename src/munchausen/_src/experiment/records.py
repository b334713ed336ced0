"""Append-only records of a run: one JSON object a line, one line an iteration and lane.

Only this module writes them. Metrics and figures read them and know nothing of agents.
"""

import contextlib
import fcntl
import json
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from munchausen._src.errors import UserError

RECORDS = "records.jsonl"
# The other files of a run's folder, named here because those who read records read them too.
CONFIG, MACHINE, RESULT, LOCK = "config.json", "machine.jsonl", "result.json", "lock"
ACTION_GAPS = "action_gaps.jsonl"  # a line a trajectory of `munchausen evaluate --action-gaps`


class RecordWriter:
    """Appends rows to a run's records."""

    def __init__(self, folder: Path, keep_bytes: int = 0):
        """`keep_bytes`: the length of the records when the checkpoint was written. Later rows are
        deleted, because their steps are about to be taken again."""
        if records_bytes(folder) < keep_bytes:
            raise UserError(
                f"{folder / RECORDS} is shorter than its checkpoint says ({keep_bytes} bytes); "
                "put the whole file back, or train again into another --out"
            )
        self._file = open(folder / RECORDS, "ab")  # noqa: SIM115  (open as long as the run)
        self._file.truncate(keep_bytes)
        self._file.seek(0, os.SEEK_END)

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        for row in rows:
            self._file.write(json.dumps(row, allow_nan=False).encode() + b"\n")
        self._file.flush()

    def sync(self) -> int:
        """Makes sure all rows are on disk; returns how many bytes they are."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        # Every row was flushed; what a full disk left in the buffer was an error there.
        with contextlib.suppress(OSError):
            self._file.close()


def records_bytes(folder: Path) -> int:
    path = folder / RECORDS
    return path.stat().st_size if path.exists() else 0


def is_live(path: Path) -> bool:
    """Whether a process trains in a folder now: it holds the lock."""
    try:
        with open(path / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_json(path: Path) -> dict[str, Any]:
    """What a file of a run's folder holds; nothing where it is not there, or damaged."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def write_action_gaps(
    folder: Path, agent: str, seed: int, trajectories: Iterable[Iterable[float]]
) -> Path:
    """Action gaps along trajectories of one lane; those it had before go."""
    path = folder / ACTION_GAPS
    kept = [row for row in read_action_gaps(folder) if (row["agent"], row["seed"]) != (agent, seed)]
    new = [
        {"agent": agent, "seed": seed, "gaps": [float(f"{x:.6g}") for x in trajectory]}
        for trajectory in trajectories
    ]
    writing = path.with_name(path.name + ".writing")
    writing.write_text("".join(json.dumps(row) + "\n" for row in kept + new))
    os.replace(writing, path)
    return path


def read_action_gaps(folder: Path) -> list[dict[str, Any]]:
    path = Path(folder) / ACTION_GAPS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def read_records(folder: Path) -> list[dict[str, Any]]:
    """All rows. A last line cut short by a crash is dropped with a warning."""
    path = Path(folder) / RECORDS
    if not path.exists():
        return []
    rows = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            rows.append(json.loads(line))
        except ValueError:
            if number != len(lines):
                raise
            warnings.warn(f"{path}: dropped a last line that was cut short", stacklevel=2)
    return rows
