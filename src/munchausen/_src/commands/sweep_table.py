"""The live table of a sweep, and its plain form."""

import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from munchausen._src.commands.console import printable
from munchausen._src.progress import clock, seldom
from munchausen._src.sweep.plan import Job
from munchausen._src.sweep.status import (
    JobState,
    RunStatus,
    count,
    run_statuses,
    seconds_left,
)

_MOST_ROWS = 20

Watch = Callable[[dict[Job, JobState]], None]


class Board:
    """The statuses of all runs, read again only where they can have changed."""

    def __init__(self, root: Path):
        self._root = root
        self._known: dict[Job, tuple[JobState, list[RunStatus]]] = {}

    def rows(self, states: dict[Job, JobState]) -> list[RunStatus]:
        found = []
        for job, state in states.items():
            known = self._known.get(job)
            if known is None or known[0] != state or state.status == "running":
                self._known[job] = known = (state, run_statuses(self._root, job, state))
            found += known[1]
        return found


@contextmanager
def show_sweep(root: Path):
    """Yields the watcher to hand to a schedule."""
    out = sys.stderr
    board = Board(root)
    if not out.isatty():
        yield _plain(board, out)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(file=out), auto_refresh=False) as live:

        def watch(states: dict[Job, JobState]) -> None:
            live.update(render(board.rows(states)), refresh=True)

        yield watch


def _plain(board: Board, stream: Any) -> Watch:
    say = seldom(stream)
    known: set[tuple[Any, ...]] | None = None

    def watch(states: dict[Job, JobState]) -> None:
        nonlocal known
        rows = board.rows(states)
        over = {(run_name(r), r.status, _score(r), r.error) for r in rows if _is_over(r)}
        for name, status, score, error in sorted(over - (over if known is None else known)):
            words = printable(error) or f"score {score}"
            print(f"{status}: {name}  {words}", file=stream, flush=True)
        known = over
        say(summary(rows), now=all(_is_over(r) for r in rows))

    return watch


def summary(rows: list[RunStatus]) -> str:
    counts = ", ".join(f"{number:,} {status}" for status, number in count(rows).items())
    left = seconds_left(rows)
    return f"{len(rows):,} runs: {counts}" + (f"  ETA {clock(left)}" if left is not None else "")


def render(rows: list[RunStatus]) -> Any:
    """Names and errors come from files: they are text, never markup or control codes."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in ("agent", "environment", "seed", "status", "progress", "score", "ETA"):
        table.add_column(name, justify="right" if name in ("seed", "score", "ETA") else "left")
    shown = [r for r in rows if r.status in ("running", "failed")] or rows
    for row in shown[:_MOST_ROWS]:
        cells = table_row(row)
        table.add_row(*(Text(cells[name]) for name in cells))
    hidden = len(shown) - _MOST_ROWS
    more = [Text(f"… and {hidden:,} more")] if hidden > 0 else []
    return Group(table, *more, Text(summary(rows)))


def table_row(row: RunStatus) -> dict[str, str]:
    running = row.status == "running" and row.steps_per_second
    return {
        "agent": printable(row.label),
        "environment": printable(row.env),
        "seed": str(row.seed),
        "status": row.status,
        "progress": f"{row.step:,}/{row.steps:,}",
        "score": _score(row),
        "ETA": clock((row.steps - row.step) / running) if running else "",
    }


def run_name(row: RunStatus) -> str:
    return printable(f"{row.label} on {row.env} seed {row.seed}")


def _is_over(row: RunStatus) -> bool:
    return row.status in ("done", "failed")


def _score(row: RunStatus) -> str:
    return "–" if row.score is None else f"{row.score:.2f}"
