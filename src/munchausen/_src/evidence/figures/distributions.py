"""Beyond means: performance profiles and interval estimates (Agarwal et al. 2021)."""

import numpy as np
from matplotlib.figure import Figure

from munchausen._src.evidence.figures import style
from munchausen._src.evidence.metrics.comparison import Comparison, profile

ESTIMATES = {
    "median": "median",
    "iqm": "interquartile mean",
    "mean": "mean",
    "optimality_gap": "optimality gap",
}


def profile_levels(comparison: Comparison, count: int = 101) -> np.ndarray:
    """From 0 to where few runs of any agent are left, and no further than 6: a few games have far
    more."""
    top = max(float(np.nanquantile(scores, 0.9)) for scores in comparison.scores.values())
    return np.linspace(0.0, min(max(1.5, top), 6.0), count)


def performance_profiles(comparison: Comparison) -> Figure:
    """The fraction of runs above each score: a curve above another is better there."""
    figure = style.new_figure(5.6, 3.9)
    axes = figure.subplots()
    levels = profile_levels(comparison)
    for agent, look in style.agent_styles(comparison.scores).items():
        values, limits = profile(comparison.scores[agent], levels)
        style.draw_curve(axes, levels, values, limits, agent, look)
    axes.set(
        xlabel=f"{style.literal(comparison.scale.baseline)}-normalised score",
        ylabel="fraction of runs above",
        ylim=(0, 1),
        xlim=(0, levels[-1]),
    )
    axes.xaxis.set_major_formatter(style.percent)
    style.tidy(axes)
    style.legend(figure, axes)
    return figure


def interval_estimates(comparison: Comparison) -> Figure:
    """Median, interquartile mean, mean and optimality gap with 95% intervals."""
    rows = comparison.rows
    figure = style.new_figure(10.5, 0.9 + 0.3 * len(rows))
    panels = figure.subplots(1, len(ESTIMATES), sharey=True)
    styles = style.agent_styles(comparison.scores)
    for axes, (name, title) in zip(panels, ESTIMATES.items(), strict=True):
        for at, row in enumerate(rows):
            value, low, high = getattr(row, name)
            color = styles[row.agent].color
            if low is not None:
                axes.barh(at, high - low, left=low, height=0.55, color=color, alpha=0.35)
            axes.plot([value, value], [at - 0.3, at + 0.3], color=color, lw=2)
        axes.set_title(title, fontsize=9)
        axes.xaxis.set_major_formatter(style.percent)
        axes.tick_params(labelsize=8)
        axes.margins(x=0.08)
        style.tidy(axes)
    panels[0].set_yticks(range(len(rows)), [style.literal(row.agent) for row in rows])
    panels[0].invert_yaxis()
    figure.supxlabel(f"{style.literal(comparison.scale.baseline)}-normalised score", fontsize=9)
    return figure
