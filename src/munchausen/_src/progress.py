"""Live progress: a bar on a terminal, a plain line every few seconds elsewhere."""

import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any

from munchausen._src.experiment.pace import Progress

_EVERY_SECONDS = 5.0


def _score(progress: Progress) -> str:
    scores = [s for s in progress.scores if s is not None]
    if not scores:
        return "score –"
    return f"score {sum(scores) / len(scores):.2f}"


def seldom(stream: Any, last: float = -_EVERY_SECONDS) -> Callable[..., None]:
    """Prints a line every few seconds and no more, except for what is to be said `now`. `last`:
    when a line is taken to have been printed before."""

    def say(line: str, *, now: bool = False) -> None:
        nonlocal last
        if now or time.monotonic() - last >= _EVERY_SECONDS:
            last = time.monotonic()
            print(line, file=stream, flush=True)

    return say


def _plain(stream: Any) -> Callable[[Progress], None]:
    say = seldom(stream)

    def watch(p: Progress) -> None:
        if p.compiling:
            print("compiling …", file=stream, flush=True)
        else:
            line = f"{p.step:,}/{p.steps:,} steps  {_score(p)}  {p.speed}  ETA {_eta(p)}"
            say(line, now=p.step >= p.steps)

    return watch


def _eta(p: Progress) -> str:
    lanes = max(1, len(p.scores))
    if p.steps_per_second <= 0 or not p.learning:
        return "–"
    return clock((p.steps - p.step) * lanes / p.steps_per_second)


def clock(seconds: float) -> str:
    """61 as 1:01."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


@contextmanager
def show_progress(name: str, stream: Any = None):
    """Yields the watcher to hand to a training. On standard error by default."""
    out = stream or sys.stderr
    if not out.isatty():
        yield _plain(out)
        return
    fields = ("[green]{task.fields[score]}", "{task.fields[speed]}", "ETA {task.fields[eta]}")
    first = {"total": 1, "score": "compiling …", "speed": "", "eta": "–"}
    with _bar(name, out, fields, first) as update:

        def watch(p: Progress) -> None:
            said: dict[str, Any] = {"score": _score(p), "speed": p.speed, "eta": _eta(p)}
            if p.compiling:
                said = {"score": "compiling …", "speed": ""}
            update(completed=p.step, total=p.steps, **said)

        yield watch


@contextmanager
def show_counter(name: str):
    """Yields a watcher of (done, total, what), for work that is counted. A total of 0 is not
    known."""
    out = sys.stderr
    if not out.isatty():
        # Silent when it is quick: the first line comes after a few seconds.
        say = seldom(out, time.monotonic())
        yield lambda done, total, what="": say(
            f"{name}: {done:,}{f' of {total:,}' if total else ''}  {what}".rstrip()
        )
        return
    from rich.progress import TimeElapsedColumn

    columns = ("[green]{task.fields[what]}", TimeElapsedColumn())
    with _bar(name, out, columns, {"total": None, "what": ""}, transient=True) as update:
        yield lambda done, total, what="": update(completed=done, total=total or None, what=what)


@contextmanager
def _bar(name: str, out: Any, columns: tuple[Any, ...], first: dict[str, Any], **options: Any):
    """Yields what updates a bar on a terminal. `columns` stand behind it; `first` is what they
    say before the first update."""
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn
    from rich.progress import Progress as Bar

    shown = ("[bold]{task.description}", BarColumn(bar_width=None), TaskProgressColumn(), *columns)
    with Bar(*shown, console=Console(file=out), **options) as bar:
        yield partial(bar.update, bar.add_task(name, **first))
