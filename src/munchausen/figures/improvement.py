"""Per-game improvement over a baseline, as bars (the paper's Fig. 4 and its appendix)."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from munchausen.figures.style import COLOURS, literal, new_figure, percent, tidy
from munchausen.metrics.aggregates import game_means
from munchausen.metrics.alignment import LAST_ITERATIONS, Aligned
from munchausen.metrics.comparison import make_scale
from munchausen.metrics.normalisation import improvement
from munchausen.metrics.runs import short_names

_BETTER, _WORSE = COLOURS[0], COLOURS[1]


def improvement_bars(
    aligned: Aligned, agent: str, baseline: str, last: int = LAST_ITERATIONS
) -> Figure:
    """(a − b)/|b − r| of final scores on each game, from the worst to the best. Linear up to
    ±10%, logarithmic beyond: one game can be a hundred times another."""
    scale = make_scale(aligned, baseline, last)
    games = [game for game in scale.games if aligned.has(game, agent)]
    at = [aligned.games.index(game) for game in games]
    of = [scale.games.index(game) for game in games]
    final = game_means(aligned.final(agent, last))[at]
    values = improvement(final, scale.random[of], scale.score[of])
    order = np.argsort(values)
    values, names = values[order], [short_names(games)[games[i]] for i in order]
    figure = new_figure(max(4.5, 1.2 + 0.19 * len(games)), 3.8)
    axes = figure.subplots()
    axes.bar(range(len(games)), values, color=[_BETTER if v > 0 else _WORSE for v in values])
    axes.axhline(0, color="black", lw=0.8)
    axes.set_yscale("symlog", linthresh=0.1)
    highest = max(np.abs(values).max(initial=0.1), 0.1)
    ticks = [t for t in (0.1, 1, 10, 100, 1000) if t <= 2 * highest]
    axes.yaxis.set_major_locator(FixedLocator([*(-t for t in reversed(ticks)), 0, *ticks]))
    axes.set_ylim(*_limits(values))
    axes.yaxis.set_major_formatter(percent)
    axes.set_xticks(range(len(games)), [literal(n) for n in names], rotation=90, fontsize=7)
    axes.set_xlim(-0.7, len(games) - 0.3)
    better = int((values > 0).sum())
    axes.set(
        ylabel="improvement",
        title=f"{literal(agent)} against {literal(scale.baseline)}: "
        f"better on {better} of {len(games)} games",
    )
    tidy(axes)
    axes.grid(visible=False, axis="x")
    return figure


def _limits(values: np.ndarray) -> tuple[float, float]:
    low, high = min(values.min(initial=0.0), 0.0), max(values.max(initial=0.0), 0.0)
    return (low * 1.6 if low < 0 else -0.02), (high * 1.6 if high > 0 else 0.02)
