"""`munchausen sweep`: agents × environments × seeds, on this machine or a Ray cluster."""

import argparse
import contextlib
import importlib.util
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from munchausen._src.agents.fields import parse_value
from munchausen._src.commands import field_flags
from munchausen._src.commands.console import import_named, printable, program, speaker, table, whole
from munchausen._src.commands.sweep_plan import show_plan
from munchausen._src.commands.sweep_table import (
    run_name,
    show_sweep,
    summary,
    table_row,
)
from munchausen._src.errors import UserError, unknown
from munchausen._src.experiment.policy import environment_spec
from munchausen._src.experiment.stopping import Interrupted
from munchausen._src.sweep.attempt import LOGS
from munchausen._src.sweep.cluster import RayBackend, arrange_cluster, connect
from munchausen._src.sweep.folder import (
    check_out,
    current_jobs,
    finish_splits,
    open_sweep,
    read_grid,
)
from munchausen._src.sweep.grid import (
    Grid,
    configurations,
    grid_from,
    paper_grid,
    read_toml,
)
from munchausen._src.sweep.local import Arrangement, LocalBackend, arrange
from munchausen._src.sweep.plan import Job
from munchausen._src.sweep.schedule import Schedule
from munchausen._src.sweep.status import JobState, RunStatus, count, read_states, run_statuses

DESCRIPTION = """\
Train every agent on every environment with every seed. Started again, it skips what is done,
resumes what was cut and retries what failed.

  munchausen sweep --agents dqn,m-dqn --envs minatar/breakout,minatar/asterix --seeds 3
  munchausen sweep --agents m-dqn --envs minatar/breakout --alpha 0,0.5,0.9 --seeds 5
  munchausen sweep study.toml                       agents, envs, seeds, [overrides] in a file
  munchausen sweep --out runs/sweep                 go on with a sweep
  munchausen sweep status runs/sweep                from another terminal
  munchausen sweep --paper --dry-run                the paper's 1,800 runs: time and disk
  munchausen sweep study.toml --backend ray --address HOST:6379 --out /shared/study
"""

BACKENDS = ("local", "ray")
DEFAULT_OUT = Path("runs/sweep")
_GRID = ("agents", "envs", "seeds", "protocol", "steps", "iteration_steps", "checkpoint_seconds")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="FILE | status DIR", help="a TOML file")
    parser.add_argument("--agents", help="names of `munchausen agents`, with commas between")
    parser.add_argument("--envs", help="names of `munchausen envs`, with commas between")
    parser.add_argument("--seeds", help="how many, from 0 on (default 1)")
    parser.add_argument("--protocol", help="modern (default) or original, for Atari")
    parser.add_argument("--steps", help="agent steps of each run (default: the environment's)")
    parser.add_argument("--iteration-steps", help="steps between rows of the records")
    parser.add_argument("--checkpoint-seconds", help="least time between checkpoints")
    parser.add_argument("--paper", action="store_true", help="the paper's 60 games × 10 agents × 3")
    parser.add_argument("--out", type=Path, help=f"the sweep's folder (default {DEFAULT_OUT})")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, time and disk")
    parser.add_argument("--rate", help="for --dry-run: steps/s of one process, not measured here")
    parser.add_argument("--parallel", help="processes at once (default: as many as fit)")
    parser.add_argument("--together", help="seeds in one process (default: what is faster)")
    parser.add_argument("--retries", default="2", help="in a row without progress (default 2)")
    parser.add_argument(
        "--stall-seconds", default="600", help="kill a run that hangs so long (default 600)"
    )
    parser.add_argument("--backend", default="local", help="local (default) or ray")
    parser.add_argument("--address", help="of the Ray cluster (default: the one Ray finds)")
    parser.add_argument("--gpu-fraction", help="of a GPU for each process: 0.5 puts two on one")
    parser.add_argument("--cpus", default="1", help="of a Ray node for each process (default 1)")
    field_flags.add(parser, several=True)


def run(options: argparse.Namespace) -> int:
    words = options.words
    if words and words[0] == "status":
        if len(words) != 2:
            raise UserError("name the sweep's folder: munchausen sweep status DIR")
        return show_status(Path(words[1]), as_json=options.json)
    if len(words) > 1:
        raise UserError(f"unexpected {words[1]!r}; see munchausen sweep --help")
    if options.backend not in BACKENDS:
        raise unknown("backend", options.backend, BACKENDS)
    if options.address and options.backend != "ray":
        raise UserError("--address is for --backend ray")
    if options.rate and not options.dry_run:
        raise UserError("--rate is for --dry-run")
    named, out = read_toml(Path(words[0])) if words else (None, None)
    out = options.out or out or DEFAULT_OUT
    saved = read_grid(out)
    grid = _grid(named or (saved[0] if saved and not options.agents else None), options)
    if named or options.agents:  # asked for now, and not by what a folder says
        import_named([], grid.envs)
    configurations(grid)  # names and numbers are checked before anything is started
    _check_extras(grid)
    if options.dry_run:
        return _dry_run(grid, out, saved[1] if saved else None, options)
    return _sweep(grid, out, saved[1] if saved else None, options)


def _check_extras(grid: Grid) -> None:
    """Before a thousand processes say so. Looking for a package is quicker than loading it."""
    for settings in configurations(grid):
        package = settings.listing.suite.package
        if package and importlib.util.find_spec(package) is None:
            environment_spec(settings)


def _dry_run(grid: Grid, out: Path, together: int | None, options: argparse.Namespace) -> int:
    check_out(out)
    arrangement, ray, slots = _arrange(grid, together, options)
    if ray is not None:
        ray.shutdown()
    rate = _positive("rate", options.rate) if options.rate else None
    environment = slots[0] if slots else {}
    show_plan(grid, out, arrangement, environment, rate, as_json=options.json)
    return 0


def _sweep(grid: Grid, out: Path, together: int | None, options: argparse.Namespace) -> int:
    say = speaker(options.json)
    stall_seconds = _positive("stall_seconds", options.stall_seconds)
    retries = whole("retries", options.retries, 0) or 0
    arrangement, ray, slots = _arrange(grid, together, options)
    folder = open_sweep(out, grid, arrangement.together)
    try:
        finish_splits(out, grid, arrangement.together)
        imports = tuple(options.imports)
        jobs = [replace(x, imports=imports) for x in current_jobs(out, grid, arrangement.together)]
        if ray is None:
            backend = LocalBackend(out, slots, stall_seconds)
        else:
            backend = RayBackend(
                out,
                ray,
                stall_seconds=stall_seconds,
                cpus=_positive("cpus", options.cpus),
                fraction=arrangement.fraction,
                parallel=whole("parallel", options.parallel, 1),
            )
        schedule = Schedule(folder, jobs, backend, retries)
        say(f"{grid.runs:,} run{'s' * (grid.runs != 1)}, {arrangement.in_words}")
        say(f"sweep: {out}    from another terminal: {program()} sweep status {out}")
        try:
            quiet = _ray_to(out / LOGS / "ray.log") if ray else contextlib.nullcontext()
            with quiet, show_sweep(out) as watch:
                schedule.run(watch)
        except Interrupted:
            say(f"to go on: {program()} sweep --out {out}")
            raise
        return _report(out, schedule.states, say, as_json=options.json)
    finally:
        folder.close()


def _arrange(
    grid: Grid, together: int | None, options: argparse.Namespace
) -> tuple[Arrangement, Any, list[dict[str, str]]]:
    """Where and how many at once; a sweep that goes on keeps its seeds together."""
    given = {
        "parallel": whole("parallel", options.parallel, 1),
        "together": together or whole("together", options.together, 1),
        "fraction": _fraction(options.gpu_fraction),
    }
    if options.backend == "ray":
        ray = connect(options.address)
        return arrange_cluster(ray, grid, cpus=_positive("cpus", options.cpus), **given), ray, []
    arrangement, slots = arrange(grid, **given)
    return arrangement, None, slots


def _report(out: Path, states: dict[Job, JobState], say: Any, *, as_json: bool) -> int:
    rows = _rows(out, states, as_json=as_json)
    failed = [row for row in rows if row.status == "failed"]
    say("")
    say(summary(rows))
    for row in failed:
        say(f"failed: {run_name(row)}: {printable(row.error)}")
        say(f"        {out / LOGS / (row.folder.name + '.log')}")
    if failed:
        say(f"to try them again: {program()} sweep --out {shlex.quote(str(out))}")
    else:
        say(f"next: {program()} report {shlex.quote(str(out))}")
    return 1 if failed else 0


def show_status(path: Path, *, as_json: bool) -> int:
    rows = _rows(path, read_states(path), as_json=as_json)
    if as_json:
        return 0
    cells = [table_row(row) for row in rows]
    table(cells, tuple(cells[0]))
    print()
    print(summary(rows))
    for row in rows:
        if row.status == "failed":
            print(f"failed: {run_name(row)}: {printable(row.error)}")
    return 0


def _rows(path: Path, states: dict[Job, JobState], *, as_json: bool) -> list[RunStatus]:
    """What has become of each run, printed for machines too where that is asked for."""
    rows = [row for job, state in states.items() for row in run_statuses(path, job, state)]
    if as_json:
        runs = [row._asdict() | {"folder": str(row.folder)} for row in rows]
        print(json.dumps({"sweep": str(path), **count(rows), "runs": runs}))
    return rows


def _grid(base: Grid | None, options: argparse.Namespace) -> Grid:
    """Of a file, of the sweep that is there, or of --paper, with flags on top."""
    if options.paper:
        base = paper_grid()
    given = {k: getattr(options, k) for k in _GRID if getattr(options, k) is not None}
    fields = field_flags.given(options, "field_")
    if base is None and not given.keys() >= {"agents", "envs"}:
        missing = " and ".join(f"--{k}" for k in ("agents", "envs") if k not in given)
        raise UserError(f"name {missing}, or a TOML file, --paper, or --out of a sweep")
    data = (base.to_json() if base else {}) | given
    data["overrides"] = data.get("overrides", {}) | fields
    return grid_from(data, options.words[0] if options.words else "the command line")


@contextlib.contextmanager
def _ray_to(path: Path):
    """Ray prints what it has lost to standard output, which is for tables and JSON."""
    with open(path, "a") as log, contextlib.redirect_stdout(log):
        yield


def _positive(name: str, value: str) -> float:
    number = parse_value(name, float, value)
    if not 0 < number < float("inf"):
        raise UserError(f"{name} must be above 0 and finite, not {value}")
    return number


def _fraction(value: str | None) -> float | None:
    if value is None:
        return None
    fraction = _positive("gpu_fraction", value)
    if fraction > 1:
        raise UserError(f"gpu_fraction must be at most 1, not {value}: a run uses one GPU")
    return fraction
