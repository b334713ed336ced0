"""How far a training of a sweep is, for those who watch it from outside.

Records come once an iteration, which on Atari can be a quarter of an hour; a heartbeat comes every
second. It contains no time: the reader notices by its own clock when it changes, so a clock that is
set differently on another machine cannot make a run look stuck.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from munchausen._src.errors import writing
from munchausen._src.experiment.folder import write_json
from munchausen._src.experiment.pace import Progress

HEARTBEAT = "heartbeat.json"
_EVERY_SECONDS = 1.0


class Heartbeat(NamedTuple):
    step: int
    steps: int
    scores: list[float | None]  # of each lane
    steps_per_second: float  # of all lanes together


def write_heartbeats(folder: Path) -> Callable[[Progress], None]:
    """A watcher of a training."""
    last = -_EVERY_SECONDS

    def watch(p: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY_SECONDS or p.step >= p.steps:
            last = now
            beat = Heartbeat(p.step, p.steps, p.scores, round(p.steps_per_second, 1))
            with writing(folder):
                write_json(folder / HEARTBEAT, beat._asdict())

    return watch


def read_heartbeat(folder: Path) -> Heartbeat | None:
    """None if there is none, or what is there is not one."""
    try:
        data = json.loads((folder / HEARTBEAT).read_text())
        return Heartbeat(
            int(data["step"]),
            int(data["steps"]),
            [None if score is None else float(score) for score in data["scores"]],
            float(data["steps_per_second"]),
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
