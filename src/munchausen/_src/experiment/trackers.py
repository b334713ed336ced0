"""Records in other places too: TensorBoard, or Weights & Biases and Trackio where installed.

A tracker gets the rows that go to the records. The records stay the truth: when a run is resumed
its tracker is brought in line with them, so that no point is there twice.
"""

import importlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from munchausen._src.errors import UserError, install_line, unknown, writing
from munchausen._src.experiment.folder import write_json

FOLDER = "tensorboard"
STATE = "tracked.json"
INSTALL = {
    "tensorboard": install_line("tensorboard"),
    "wandb": "pip install wandb",
    "trackio": "pip install trackio",
}
_NAMES = ("env", "agent", "seed", "iteration", "step")

Row = dict[str, Any]


def check_tracker(name: str) -> None:
    """Refuses what there is not, before anything is written."""
    if name not in INSTALL:
        raise unknown("tracker", name, INSTALL)
    if find_spec(name) is None:
        raise UserError(f"--track {name} needs the package {name}; install it: {INSTALL[name]}")


def open_tracker(name: str, run: Path, config: dict[str, Any], kept: list[Row]) -> "Tracker":
    """`kept`: the rows the run's records begin with; none for a new run."""
    check_tracker(name)
    if name == "tensorboard":
        return TensorBoard(run, kept)
    return Service(name, run, config, kept)


class TensorBoard:
    """Event files in the run's folder, one sub-folder a lane. Each start writes them again from the
    records, so points of steps that will be taken again disappear."""

    def __init__(self, run: Path, kept: list[Row]):
        self._folder = run / FOLDER
        shutil.rmtree(self._folder, ignore_errors=True)
        self._writers: dict[str, Any] = {}
        # Use the run's own clock, shifted so that the last kept row is now: no gap, no 1970.
        self._begun = time.time() - max((_seconds(row) for row in kept), default=0.0)
        self.append(kept)

    def append(self, rows: Iterable[Row]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore

        for row in rows:
            values = [
                Summary.Value(tag=tag, simple_value=value) for tag, value in _numbers(row).items()
            ]
            event = Event(
                wall_time=self._begun + _seconds(row),
                step=row["step"],
                summary=Summary(value=values),
            )
            with writing(self._folder):
                self._writer(row).add_event(event)
        for writer in self._writers.values():
            with writing(self._folder):
                writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _writer(self, row: Row) -> Any:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        lane = _lane(row)
        if lane not in self._writers:
            folder = self._folder / lane.replace("/", "-")
            folder.mkdir(parents=True, exist_ok=True)
            self._writers[lane] = EventFileWriter(str(folder))
        return self._writers[lane]


class Service:
    """Weights & Biases or Trackio. What was sent cannot be taken back, so the last step sent is
    kept beside the records and nothing up to it is sent again."""

    def __init__(self, name: str, run: Path, config: dict[str, Any], kept: list[Row]):
        self._name = name
        self._path = run / STATE
        self._state = _read_state(self._path)
        mine = self._state.setdefault(name, {"id": uuid.uuid4().hex[:12], "step": 0})
        module = importlib.import_module(name)
        project = os.environ.get(f"{name.upper()}_PROJECT", "munchausen")
        options: dict[str, Any] = {"project": project, "config": config, "resume": "allow"}
        if name == "wandb":
            options |= {"id": mine["id"], "name": run.name, "dir": str(run)}
        else:  # Trackio knows a run by its name
            options |= {"name": f"{run.name}-{mine['id']}"}
        self._run = module.init(**options)
        self._lanes = len({_lane(lane) for lane in config.get("lanes", [])})
        self._save()
        self.append(kept)

    def append(self, rows: Iterable[Row]) -> None:
        mine = self._state[self._name]
        at_step: dict[int, dict[str, float]] = {}
        for row in rows:
            if row["step"] <= mine["step"]:
                continue
            lane = f"{_lane(row)}/" if self._lanes > 1 else ""
            values = {lane + tag: value for tag, value in _numbers(row).items()}
            at_step.setdefault(row["step"], {}).update(values)
        for step, values in sorted(at_step.items()):
            self._run.log(values, step=step)
            mine["step"] = step
        self._save()

    def close(self) -> None:
        self._run.finish()

    def _save(self) -> None:
        with writing(self._path):
            write_json(self._path, self._state)


Tracker = TensorBoard | Service


def _numbers(row: Row) -> dict[str, float]:
    return {k: float(v) for k, v in row.items() if k not in _NAMES and isinstance(v, int | float)}


def _seconds(row: Row) -> float:
    return float(row.get("seconds") or 0.0)


def _lane(row: Row) -> str:
    return f"{row['agent']}_seed{row['seed']}"


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); delete it to send the run anew") from error
    return state if isinstance(state, dict) else {}
