"""Live progress: a bar on a terminal, a plain line every few seconds elsewhere."""

import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from munchausen._src.experiment.pace import Progress

_EVERY_SECONDS = 5.0


def _score(progress: Progress) -> str:
    scores = [s for s in progress.scores if s is not None]
    if not scores:
        return "score –"
    return f"score {sum(scores) / len(scores):.2f}"


def _plain(stream: Any) -> Callable[[Progress], None]:
    last = -_EVERY_SECONDS

    def watch(p: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if p.compiling:
            print("compiling …", file=stream, flush=True)
        elif now - last >= _EVERY_SECONDS or p.step >= p.steps:
            last = now
            eta = _eta(p)
            print(
                f"{p.step:,}/{p.steps:,} steps  {_score(p)}  {p.speed}  ETA {eta}",
                file=stream,
                flush=True,
            )

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
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn("[green]{task.fields[score]}"),
        TextColumn("{task.fields[speed]}"),
        TextColumn("ETA {task.fields[eta]}"),
    )
    with Bar(*columns, console=Console(file=out)) as bar:
        task = bar.add_task(name, total=1, score="compiling …", speed="", eta="–")

        def watch(p: Progress) -> None:
            if p.compiling:
                bar.update(task, completed=p.step, total=p.steps, score="compiling …", speed="")
                return
            bar.update(
                task,
                completed=p.step,
                total=p.steps,
                score=_score(p),
                speed=p.speed,
                eta=_eta(p),
            )

        yield watch


@contextmanager
def show_counter(name: str, stream: Any = None):
    """Yields a watcher of (done, total, what), for work that is counted. A total of 0 is not
    known."""
    out = stream or sys.stderr
    if not out.isatty():
        yield _plain_counter(name, out)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn("[green]{task.fields[what]}"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(file=out), transient=True) as bar:
        task = bar.add_task(name, total=None, what="")
        yield lambda done, total, what="": bar.update(
            task, completed=done, total=total or None, what=what
        )


def _plain_counter(name: str, stream: Any) -> Callable[..., None]:
    """Silent when it is quick: the first line comes after a few seconds."""
    last = time.monotonic()

    def watch(done: int, total: int, what: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY_SECONDS:
            last = now
            of = f" of {total:,}" * bool(total)
            print(f"{name}: {done:,}{of}  {what}".rstrip(), file=stream, flush=True)

    return watch
