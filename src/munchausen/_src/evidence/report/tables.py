"""The tables of a report: for people (Markdown, HTML) and for machines (CSV, JSON)."""

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from munchausen._src.evidence.figures.style import step_label, thousands
from munchausen._src.evidence.metrics.bootstrap import Estimate
from munchausen._src.evidence.metrics.comparison import Comparison
from munchausen._src.evidence.metrics.runs import short_names
from munchausen._src.evidence.report.results import Results


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | int | None = None  # to sort by
    best: bool = False


@dataclass(frozen=True)
class Grid:
    """A table for people. The first column names the row."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]


def number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}" if abs(x) < 100 else f"{x:.1f}"


def known(value: float | None, best: bool = False, spell: Callable[..., str] = number) -> Cell:
    """A number alone, or a dash."""
    return Cell("–") if value is None else Cell(spell(value), value, best)


def score(
    estimate: Estimate | None,
    best: bool = False,
    spell: Callable[..., str] = number,
    unit: str = "",
) -> Cell:
    """A number with its interval, or a dash."""
    if estimate is None:
        return Cell("–")
    value, low, high = estimate
    interval = "" if low is None or high is None else f" [{spell(low)}, {spell(high)}]"
    return Cell(spell(value) + unit + interval, value, best)


def percent(estimate: Estimate | None, best: bool = False) -> Cell:
    return score(estimate, best, lambda x: f"{100 * x:.0f}", "%")


def count(things: int, word: str) -> str:
    return f"{things:,} {word}{'s' * (things != 1)}"


def summary(comparison: Comparison, highest: bool = True) -> Grid:
    """The paper's summary table with intervals. In bold the best of each column."""
    rows = comparison.rows
    name, unit = step_label(comparison.games)

    def best(values: list[Any], of: Callable[..., Any] = max) -> list[bool]:
        there = [v for v in values if v is not None]
        top = of(there) if there and highest and len(rows) > 1 else None
        return [v is not None and v == top for v in values]

    def percents(key: str, of: Callable[..., Any] = max) -> list[Cell]:
        estimates = [getattr(row, key) for row in rows]
        return list(map(percent, estimates, best([e.value for e in estimates], of)))

    columns = {
        "agent": [Cell(row.agent) for row in rows],
        "runs": [Cell(str(row.runs), row.runs) for row in rows],
        "IQM": percents("iqm"),
        "median": percents("median"),
        "mean": percents("mean"),
        "gap": percents("optimality_gap", min),
    }
    marks = best([row.improved or None for row in rows])
    columns["improved"] = [
        Cell("–" if r.agent == comparison.scale.baseline else f"{r.improved} of "
             f"{len(comparison.games)}", r.improved, mark)
        for r, mark in zip(rows, marks, strict=True)
    ]  # fmt: skip
    if any(row.better for row in rows):
        columns["P(better)"] = [percent(row.better) for row in rows]
    columns["area"] = percents("area")
    columns[f"{name} to baseline"] = [
        Cell("never", math.inf)
        if row.steps_to_baseline == math.inf
        else known(row.steps_to_baseline, spell=lambda x: thousands(float(f"{x * unit:.3g}")))
        for row in rows
    ]
    cells = [list(row) for row in zip(*columns.values(), strict=True)]
    games = count(len(comparison.games), "game")
    return Grid(f"{comparison.scale.baseline}-normalised scores, {games}", list(columns), cells)


def _last(results: Results) -> str:
    return f"mean of the last {results.last} iterations" if results.last > 1 else "last iteration"


def final_scores(results: Results) -> Grid:
    """Of each game and agent, the mean over runs and its interval."""
    names = short_names(results.aligned.games)
    rows = []
    for at, game in enumerate(results.aligned.games):
        mine = {agent: estimates[at] for agent, estimates in results.final.items()}
        top = max((e.value for e in mine.values() if e), default=None)
        rows.append(
            [Cell(names[game])]
            + [known(values[at]) for values in results.references.values()]
            + [score(e, e is not None and e.value == top) for e in mine.values()]
        )
    title = f"final scores ({_last(results)})"
    return Grid(title, ["game", *results.references, *results.final], rows)


def action_gaps(results: Results) -> Grid:
    """Best minus second best action value, where the agents recorded it."""
    names = short_names(results.aligned.games)
    rows = [
        [Cell(names[game]), *(score(estimates[at]) for estimates in results.action_gaps.values())]
        for at, game in enumerate(results.aligned.games)
    ]
    title = f"action gaps ({_last(results)})"
    return Grid(title, ["game", *results.action_gaps], rows)


def maximum_scores(results: Results) -> Grid:
    """The best iteration of each agent's mean over runs: the paper's last table."""
    names = short_names(results.aligned.games)
    columns = results.references | results.maximum
    rows = []
    for at, game in enumerate(results.aligned.games):
        top = max((v for c in columns.values() if (v := c[at]) is not None), default=None)
        rows.append(
            [Cell(names[game])]
            + [known(values[at], values[at] == top) for values in columns.values()]
        )
    if rows:
        counts = [Cell(str(results.best[name]), results.best[name]) for name in columns]
        rows.append([Cell("best on"), *counts])
    return Grid("maximum scores", ["game", *columns], rows)


def markdown(results: Results) -> str:
    grids = [summary(c) for c in results.comparisons]
    grids += [final_scores(results), maximum_scores(results)]
    if results.action_gaps:
        grids.append(action_gaps(results))
    parts = [_markdown_table(grid) for grid in grids if grid.rows]
    parts.append("In brackets: 95% stratified bootstrap intervals over runs.")
    if results.notes:
        parts.append("## Notes\n\n" + "\n".join(f"- {_escape(note)}" for note in results.notes))
    return "\n\n".join(parts) + "\n"


def _markdown_table(grid: Grid) -> str:
    lines = [f"## {_escape(grid.title)}", ""]
    lines.append("| " + " | ".join(map(_escape, grid.columns)) + " |")
    lines.append("|---" + "|--:" * (len(grid.columns) - 1) + "|")
    for row in grid.rows:
        cells = [f"**{_escape(c.text)}**" if c.best else _escape(c.text) for c in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _escape(text: str) -> str:
    """A name can neither end its cell nor become markup."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    for mark in "\\|*_`[]":
        text = text.replace(mark, "\\" + mark)
    return text


def tidy_rows(results: Results) -> list[dict[str, Any]]:
    """One number a row."""
    rows = []
    for comparison in results.comparisons:
        by = comparison.scale.baseline
        for row in comparison.rows:
            for measure, value in vars(row).items():
                if measure in ("agent", "runs") or value is None:
                    continue
                estimate = value if isinstance(value, Estimate) else Estimate(float(value))
                rows.append(_row("summary", by, "", row.agent, measure, estimate, row.runs))
    maximum = {
        agent: [None if value is None else Estimate(value) for value in values]
        for agent, values in results.maximum.items()
    }
    of_games = {"final": results.final, "action_gap": results.action_gaps, "maximum": maximum}
    for measure, columns in of_games.items():
        for agent, estimates in columns.items():
            for game, estimate in zip(results.aligned.games, estimates, strict=True):
                if estimate is not None:
                    runs = len(results.aligned.runs(game, agent))
                    rows.append(_row("game", "", game, agent, measure, estimate, runs))
    return rows


def _row(
    table: str, baseline: str, game: str, agent: str, measure: str, estimate: Estimate, runs: int
) -> dict[str, Any]:
    value = estimate.value if math.isfinite(estimate.value) else None
    names = {"table": table, "baseline": baseline, "game": game, "agent": agent}
    numbers = {"value": value, "low": estimate.low, "high": estimate.high, "runs": runs}
    return names | {"measure": measure} | numbers


def csv_text(results: Results) -> str:
    out = io.StringIO()
    rows = tidy_rows(results)
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["table"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def json_data(results: Results) -> dict[str, Any]:
    return {
        "rows": tidy_rows(results),
        "notes": results.notes,
        "runs": [{k: v for k, v in vars(h).items() if k != "gaps"} for h in results.health],
    }


def json_text(results: Results) -> str:
    return json.dumps(json_data(results), indent=1, allow_nan=False) + "\n"
