"""The table of maximum scores, as a figure (the paper's last table)."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from munchausen._src.evidence.figures.style import literal, new_figure
from munchausen._src.evidence.metrics.aggregates import best_counts
from munchausen._src.evidence.metrics.alignment import Aligned
from munchausen._src.evidence.metrics.comparison import references
from munchausen._src.evidence.metrics.runs import short_names


def score_table(aligned: Aligned) -> Figure:
    """Random and human scores where there are such, and the best iteration of each agent's mean
    over runs. The best of each game is bold, and the last line counts them."""
    columns = references(aligned) | {agent: aligned.maximum(agent) for agent in aligned.agents}
    scores = np.stack(list(columns.values()))
    counts = best_counts(scores)
    names = short_names(aligned.games)
    text = [
        [names[game], *("–" if np.isnan(x) else _number(x) for x in scores[:, at])]
        for at, game in enumerate(aligned.games)
    ]
    text.append(["best", *(str(n) for n in counts)])
    widths = [max(len(row[i]) for row in [["", *columns], *text]) for i in range(len(text[0]))]
    widths = [0.085 * width + 0.15 for width in widths]
    figure = new_figure(sum(widths), 0.4 + 0.19 * len(text))
    axes = figure.subplots()
    axes.set_axis_off()
    table = axes.table(
        cellText=[[literal(cell) for cell in row] for row in text],
        colLabels=["", *map(literal, columns)],
        cellLoc="right",
        colLoc="right",
        colWidths=[width / sum(widths) for width in widths],
        bbox=Bbox.unit(),
        edges="horizontal",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(7.5)
    for at in range(len(aligned.games)):
        if np.isfinite(scores[:, at]).any():
            best = int(np.nanargmax(scores[:, at]))
            table[at + 1, best + 1].set_text_props(weight="bold")
    for (row, column), cell in table.get_celld().items():
        cell.set_linewidth(0.3)
        cell.set_edgecolor("0.6")
        if row in (0, len(text)):
            cell.set_text_props(weight="bold")
        if column == 0:
            cell.set_text_props(ha="left")
    return figure


def _number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"
