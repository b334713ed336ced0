"""Per-game improvement over a baseline, as bars (the paper's Fig. 4 and its appendix)."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from munchausen._src.evidence.figures.style import COLOURS, literal, new_figure, percent, tidy
from munchausen._src.evidence.metrics.aggregates import game_means
from munchausen._src.evidence.metrics.alignment import LAST_ITERATIONS, Aligned
from munchausen._src.evidence.metrics.comparison import make_scale
from munchausen._src.evidence.metrics.runs import short_names

_BETTER, _WORSE = COLOURS[0], COLOURS[1]
_NUMBERED = 12  # games, at most, whose bars have room for their numbers


def improvement_bars(
    aligned: Aligned, agent: str, baseline: str, last: int = LAST_ITERATIONS
) -> Figure:
    """(a − b)/|b − r| of final scores on each game that both were run on, from the worst to the
    best. Where one is doubled, the axis is logarithmic beyond ±10%: one game can be a hundred
    times another."""
    scale = make_scale(aligned, baseline, last, [agent])
    games = scale.games
    final = game_means(aligned.final(agent, last))[[aligned.games.index(game) for game in games]]
    values = scale.improvement(final)
    order = np.argsort(values)
    values, names = values[order], [short_names(games)[games[i]] for i in order]
    figure = new_figure(max(4.5, 1.2 + 0.19 * len(games)), 3.8)
    axes = figure.subplots()
    bars = axes.bar(range(len(games)), values, color=[_BETTER if v > 0 else _WORSE for v in values])
    if len(games) <= _NUMBERED:
        axes.bar_label(bars, [f"{v:.0%}" for v in values], padding=2, fontsize=8)
    axes.axhline(0, color="black", lw=0.8)
    highest = np.abs(values).max(initial=0.1)
    if highest >= 1:
        axes.set_yscale("symlog", linthresh=0.1)
        ticks = [t for t in (0.1, 1, 10, 100, 1000) if t <= 2 * highest]
        if highest < 20:
            ticks = sorted({*ticks, *(t for t in (0.2, 0.5, 2, 5) if t <= 1.6 * highest)})
        axes.yaxis.set_major_locator(FixedLocator([*(-t for t in reversed(ticks)), 0, *ticks]))
    axes.set_ylim(*_limits(values, 1.6 if highest >= 1 else 1.15))
    axes.yaxis.set_major_formatter(percent)
    axes.set_xticks(range(len(games)), [literal(n) for n in names], rotation=90, fontsize=7)
    axes.set_xlim(-0.7, len(games) - 0.3)
    better = int((values > 0).sum())
    axes.set(
        ylabel="improvement" + (" (logarithmic beyond 10%)" if highest >= 1 else ""),
        title=f"{literal(agent)} against {literal(scale.baseline)}\n"
        f"better on {better} of {len(games)} game{'s' * (len(games) != 1)}",
    )
    tidy(axes)
    axes.grid(visible=False, axis="x")
    return figure


def _limits(values: np.ndarray, room: float) -> tuple[float, float]:
    low, high = min(values.min(initial=0.0), 0.0), max(values.max(initial=0.0), 0.0)
    return (low * room if low < 0 else -0.02), (high * room if high > 0 else 0.02)
