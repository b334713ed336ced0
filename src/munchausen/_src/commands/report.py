"""`munchausen report`: from runs and published curves to a page, tables and figures."""

import argparse
import itertools
import json
import re
import sys
from pathlib import Path

from munchausen._src.agents import AgentConfig
from munchausen._src.commands.console import printable, speaker, table, whole
from munchausen._src.errors import UserError, refused, unknown
from munchausen._src.evidence.figures.everything import save_figures
from munchausen._src.evidence.metrics.alignment import LAST_ITERATIONS, SAME_LENGTH
from munchausen._src.evidence.metrics.reading import read_table
from munchausen._src.evidence.metrics.runs import Table, find_agent
from munchausen._src.evidence.report import tables
from munchausen._src.evidence.report.html import make_page
from munchausen._src.evidence.report.results import Results, gather
from munchausen._src.progress import show_counter

DESCRIPTION = """\
Turn runs and published curves into a page that opens anywhere, tables and figures.

  munchausen report runs                               every run under runs/, to report.html
  munchausen report runs dopamine/*.json --baseline human,rainbow
  munchausen report runs --agents iqn,m-iqn --games breakout,asterix
  munchausen report runs --format md                   the tables alone, on standard output
  munchausen report runs --figures figures             the paper's figures as PNG and SVG

Published curves: Dopamine's JSON (the file's name is the game), or a CSV with the columns game,
agent, run, score and one of step, frames, iteration.
"""

FORMATS = {"md": tables.markdown, "csv": tables.csv_text, "json": tables.json_text}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="DIR", help="folders of runs, .json or .csv files"
    )
    parser.add_argument("--out", type=Path, help="the file to write (default report.html)")
    parser.add_argument("--format", default="html", help="html (default), md, csv or json")
    parser.add_argument(
        "--baseline", help="what 100%% is: human, an agent, or several with commas between"
    )
    parser.add_argument("--agents", help="only these, with commas between (default: all)")
    parser.add_argument("--games", help="only these, with commas between (default: all)")
    parser.add_argument("--at", help="compare at this step (default: where most runs end)")
    parser.add_argument(
        "--last", help=f"iterations in a final score (default {LAST_ITERATIONS}, as in the paper)"
    )
    parser.add_argument("--title", help="the page's heading")
    parser.add_argument("--figures", type=Path, help="also write figures into this folder")


def run(options: argparse.Namespace) -> int:
    if options.format not in (*FORMATS, "html"):
        raise unknown("format", options.format, ["html", *FORMATS])
    at, last = whole("at", options.at, 1), whole("last", options.last, 1)
    baselines = _names(options.baseline) if options.baseline else None
    out = options.out
    if out is None and options.format == "html":
        out = Path("report.html")
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise UserError(f"cannot write {out}: name a file in a folder that is there")
    with show_counter("reading runs") as watch:
        everything = read_table(options.paths, watch, defaults=AgentConfig().to_json())
    read = _choose(everything, options.agents, options.games, baselines or [])
    longest = max(run.length for run in read.runs)
    if at is not None and at > longest / SAME_LENGTH:
        raise UserError(f"no run has {at:,} steps; the longest has {longest:,}")
    with show_counter("comparing") as watch:
        results = gather(
            read, baselines=baselines, at=at, last=last or LAST_ITERATIONS, watch=watch
        )
    if options.format == "html":
        assert out is not None
        text = make_page(results, out, options.title or _title(options.paths))
    else:
        text = FORMATS[options.format](results)
    if out is not None:
        with refused(f"write {out}"):
            out.write_text(text, encoding="utf-8")
    figures = [] if options.figures is None else _write_figures(results, options.figures)
    if options.json:
        written = [str(out)] * (out is not None) + figures
        print(json.dumps({"written": written, **tables.json_data(results)}, allow_nan=False))
    elif out is None:
        sys.stdout.write(text)
    _say(results, out, figures, quiet=options.json or out is None)
    return 0


def _choose(table: Table, agents: str | None, games: str | None, baselines: list[str]) -> Table:
    """The runs asked for; the reader is told what was left out."""
    of = table.agents if agents is None else [table.agent(name) for name in _names(agents)]
    on = table.games if games is None else [table.game(name) for name in _names(games)]
    for baseline in baselines:
        if (known := find_agent(table.agents, baseline)) and known not in of:
            raise UserError(f"the baseline {known} is left out by --agents; add it there")
    runs = tuple(run for run in table.runs if run.agent in of and run.game in on)
    if not runs:
        raise UserError(f"there are no runs of {', '.join(of)} on {', '.join(on)}")
    missing = [a for a in table.agents if a not in of] + [g for g in table.games if g not in on]
    left_out = ["left out, as asked: " + ", ".join(missing)] if missing else []
    return Table(runs, (*table.notes, *left_out))


def _names(text: str) -> list[str]:
    """Split at commas, but for those within a name: dqn (envs=4, stack=1)."""
    return [name.strip() for name in re.split(r",(?![^(]*\))", text)]


def _say(results: Results, out: Path | None, figures: list[str], quiet: bool) -> None:
    say = speaker(as_json=quiet)
    if not quiet:
        for comparison in results.comparisons:
            grid = tables.summary(comparison, highest=False)
            say(printable(grid.title))
            rows = [dict(zip(grid.columns, (c.text for c in r), strict=True)) for r in grid.rows]
            table(rows, tuple(grid.columns))
            say("")
    for note in results.notes[:8]:
        print(f"note: {printable(note)}", file=sys.stderr)
    if len(results.notes) > 8:
        print(f"note: and {len(results.notes) - 8} more in the report", file=sys.stderr)
    if out is not None:
        say(f"report: {out}")
    if figures:
        say(f"figures: {len(figures)} files in {Path(figures[-1]).parent}")


def _title(paths: list[Path]) -> str:
    names = [path.resolve().name for path in paths]
    return "Report on " + ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def _write_figures(results: Results, folder: Path) -> list[str]:
    drawn = itertools.count(1)
    with refused(f"write to {folder}"), show_counter("drawing") as watch:
        paths = save_figures(
            results.aligned,
            results.comparisons,
            folder,
            results.last,
            lambda _: watch(next(drawn), 0),
        )
        return [str(path) for path in paths]
