"""`munchausen sweep --dry-run`: the plan, its time and its disk."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from munchausen._src.commands.console import speaker, table
from munchausen._src.experiment.pace import in_words
from munchausen._src.sweep.estimate import Estimate, estimate, measured
from munchausen._src.sweep.grid import Grid, configurations
from munchausen._src.sweep.local import Arrangement
from munchausen._src.sweep.plan import make_jobs


def show_plan(
    grid: Grid,
    out: Path,
    arrangement: Arrangement,
    environment: dict[str, str],
    rate: float | None,
    *,
    as_json: bool,
) -> None:
    """`environment`: of a process of the sweep. `rate`: steps/s of one, not to be measured."""
    say = speaker(as_json)
    jobs = make_jobs(grid, arrangement.together)
    say(f"{_count(grid.runs, 'run')} in {_count(len(jobs), 'process')}, {arrangement.in_words}")
    rates = (lambda _: rate) if rate else measured(2.0, say)
    # Measured with as many cores as a process of the sweep would have.
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        cost = estimate(configurations(grid), arrangement.together, arrangement.slots, rates)
    finally:
        os.environ.clear()
        os.environ.update(before)
    if as_json:
        print(json.dumps(_plan_json(grid, out, len(jobs), arrangement, cost)))
        return
    table(
        [
            {
                "agents": ", ".join(grid.agents),
                "environments": len(grid.envs),
                "seeds": len(grid.seeds),
                **{k: ", ".join(map(str, v)) for k, v in grid.overrides},
            }
        ],
        ("agents", "environments", "seeds", *(name for name, _ in grid.overrides)),
    )
    for name, speed in cost.rates.items():
        print(f"{name}: {speed:,.0f} steps/s in one process")
    print(f"time: about {in_words(cost.seconds)}, if all processes are so fast side by side")
    free = _free(out)
    short = ": not enough" if cost.disk_bytes > free else ""
    print(f"disk: about {_bytes(cost.disk_bytes)}, {_bytes(free)} free at {out}{short}")


def _plan_json(
    grid: Grid, out: Path, jobs: int, arrangement: Arrangement, cost: Estimate
) -> dict[str, Any]:
    return {
        "sweep": str(out),
        "runs": grid.runs,
        "processes": jobs,
        "at_once": arrangement.slots,
        "seeds_together": arrangement.together,
        "grid": grid.to_json(),
        "seconds": round(cost.seconds),
        "disk_bytes": round(cost.disk_bytes),
        "disk_free_bytes": _free(out),
        "steps_per_second": cost.rates,
    }


def _count(number: int, what: str) -> str:
    plural = "es" if what.endswith("s") else "s"
    return f"{number:,} {what}{plural * (number != 1)}"


def _free(path: Path) -> int:
    while not path.exists():
        path = path.absolute().parent
    return shutil.disk_usage(path).free


def _bytes(number: int | float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB"
