"""What the page's charts draw, as JSON: curves on few enough points, four digits each."""

import json
import math
from typing import Any

import numpy as np

from munchausen._src.evidence.figures.action_gap import mean_gap, trajectories_of
from munchausen._src.evidence.figures.distributions import profile_levels
from munchausen._src.evidence.figures.style import step_label
from munchausen._src.evidence.metrics.alignment import Aligned
from munchausen._src.evidence.metrics.bootstrap import mean_intervals
from munchausen._src.evidence.metrics.comparison import (
    ESTIMATES,
    STATISTICS,
    Comparison,
    aggregate_band,
    aggregate_curve,
    profile,
)
from munchausen._src.evidence.metrics.runs import SCORE, short_names
from munchausen._src.evidence.report.results import Results

POINTS = 200  # of a curve: more than a screen shows, and what the paper has
RUN_NUMBERS = 500_000  # single runs are drawn as long as they are no more numbers than this
# Columns of the records besides the score, and how the page calls them.
COLUMNS = {
    "action_gap": "action gap",
    "loss": "loss",
    "q": "mean Q",
    "entropy": "policy entropy",
}


def make_payload(results: Results) -> dict[str, Any]:
    aligned = results.aligned
    grids = {game: _few(aligned.grid(game)) for game in aligned.games}
    numbers = sum(len(group) * len(grids[game]) for (game, _), group in aligned.groups.items())
    present = list(filter(aligned.records, COLUMNS))
    names = short_names(aligned.games)
    gaps = {
        game: {agent: mean_gap(found) for agent, found in trajectories_of(aligned, game).items()}
        for game in aligned.games
    }
    return {
        "agents": aligned.agents,
        "columns": [[SCORE, "score"], *([c, COLUMNS[c]] for c in present)],
        "unit": step_label(aligned.games)[0],
        "games": [
            {
                "name": names[game],
                "full": game,
                "steps": _steps(grids[game] * step_label([game])[1]),
                "unit": step_label([game])[0],
                "references": {k: v[at] for k, v in results.references.items()},
                "final": {
                    agent: _number(estimate.value)
                    for agent, estimates in results.final.items()
                    if (estimate := estimates[at]) is not None
                },
                "curves": {
                    agent: _curves(aligned, game, agent, grids[game], present, numbers)
                    for agent in aligned.agents
                    if aligned.has(game, agent)
                },
                "gaps": {agent: _numbers(_few(gap)) for agent, gap in gaps[game].items()},
                "gapLength": {agent: len(gap) for agent, gap in gaps[game].items()},
            }
            for at, game in enumerate(aligned.games)
        ],
        "comparisons": [_comparison(aligned, c) for c in results.comparisons],
    }


def _curves(
    aligned: Aligned, game: str, agent: str, grid: np.ndarray, columns: list[str], numbers: int
) -> dict[str, Any]:
    scores = aligned.curves(game, agent, SCORE, grid)
    curves: dict[str, Any] = {SCORE: {"mean": _numbers(scores.mean(axis=0))}}
    if len(scores) > 1:
        curves[SCORE] |= _limits(mean_intervals(scores, resamples=400))
        if numbers <= RUN_NUMBERS:
            curves[SCORE]["runs"] = [_numbers(run) for run in scores]
    for column in columns:
        values = aligned.curves(game, agent, column, grid)
        if np.isfinite(values).any():
            curves[column] = {"mean": _numbers(values.mean(axis=0))}
    return curves


def _comparison(aligned: Aligned, comparison: Comparison) -> dict[str, Any]:
    games = comparison.games
    share = aligned.shared_grid(games)
    keep = _few(np.arange(len(share)))
    lengths = {aligned.length[game] for game in games}
    name, unit = step_label(games)
    steps = share[keep] * (max(lengths) * unit if len(lengths) == 1 else 1)
    levels = profile_levels(comparison)
    aggregates, profiles = {}, {}
    for agent, scores in comparison.scores.items():
        cube = comparison.scale(aligned.cube(agent, games))[keep]
        aggregates[agent] = {s: _aggregate(cube, s) for s in STATISTICS}
        values, limits = profile(scores, levels)
        profiles[agent] = {"mean": _numbers(values)} | _limits(limits)
    return {
        "baseline": comparison.scale.baseline,
        "games": [aligned.games.index(game) for game in games],
        "steps": _steps(steps),
        "unit": name if len(lengths) == 1 else "fraction of training",
        "aggregates": aggregates,
        "levels": _numbers(levels),
        "profiles": profiles,
        "estimates": {
            row.agent: {key: [_number(x) for x in getattr(row, key)] for key in ESTIMATES}
            for row in comparison.rows
        },
    }


def _aggregate(cube: np.ndarray, statistic: str) -> dict[str, Any]:
    start, values = aggregate_curve(cube, statistic)
    padding = np.full(start, np.nan)
    limits = aggregate_band(cube, statistic)
    if limits is not None:
        limits = np.concatenate([np.stack([padding, padding]), limits], axis=1)
    return {"mean": _numbers(np.concatenate([padding, values]))} | _limits(limits)


def _limits(limits: np.ndarray | None) -> dict[str, Any]:
    return {} if limits is None else {"low": _numbers(limits[0]), "high": _numbers(limits[1])}


def _few(grid: np.ndarray) -> np.ndarray:
    return grid[np.unique(np.linspace(0, len(grid) - 1, min(len(grid), POINTS)).astype(int))]


def _number(x: float | None) -> float | None:
    return None if x is None or not math.isfinite(x) else float(f"{x:.4g}")


def _numbers(values: np.ndarray) -> list[float | int | None]:
    """Four digits: a screen shows no more, and the page stays small."""
    return [
        None if x != x or x in (math.inf, -math.inf) else int(x) if x == int(x) else x
        for x in map(float, map("%.4g".__mod__, values.tolist()))
    ]


def _steps(values: np.ndarray) -> list[float | int]:
    """Steps as they are; fractions of training on a few digits."""
    return [int(x) if x > 1 else round(x, 5) for x in values.tolist()]


def as_script(data: Any) -> str:
    """JSON that can stand inside a <script>: nothing in it can end the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
