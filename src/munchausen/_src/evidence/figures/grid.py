"""Learning curves: of all games in one grid, and of one game in panels."""

import math

import numpy as np
from matplotlib.figure import Figure

from munchausen._src.evidence.figures import style
from munchausen._src.evidence.metrics.alignment import Aligned
from munchausen._src.evidence.metrics.bootstrap import mean_intervals
from munchausen._src.evidence.metrics.runs import ACTION_GAP, SCORE, find_agent, short_names

# The paper's comparison in the original protocol: a panel for each family.
ORIGINAL_PROTOCOL = (("dqn", "m-dqn"), ("rainbow", "iqn", "m-iqn"))
_COLUMNS = {SCORE: "score, mean over the iteration's episodes", ACTION_GAP: "action gap"}


def draw_panel(axes, aligned: Aligned, game: str, agents: list[str], column: str = SCORE) -> None:
    """The mean over runs, and its 95% bootstrap interval."""
    _, unit = style.step_label([game])
    x = aligned.grid(game) * unit
    styles = style.agent_styles(aligned.agents)
    for agent in agents:
        if not aligned.has(game, agent):
            continue
        values = aligned.curves(game, agent, column)
        known = np.isfinite(values).all(axis=0)
        if not known.any():
            continue
        values = values[:, known]
        limits = mean_intervals(values, resamples=400) if len(values) > 1 else None
        style.draw_curve(axes, x[known], values.mean(axis=0), limits, agent, styles[agent], 1.3)
    axes.xaxis.set_major_formatter(style.thousands)
    axes.yaxis.set_major_formatter(style.thousands)
    style.tidy(axes)


def learning_curves(aligned: Aligned, column: str = SCORE) -> Figure:
    """A panel for each game (the paper's last figures): scores, or for example the action gap, the
    mean between the best and the second best action of the batches learned from."""
    columns = min(6, math.ceil(math.sqrt(len(aligned.games))))
    rows = math.ceil(len(aligned.games) / columns)
    width, height = (2.3, 1.75) if len(aligned.games) > 9 else (3.3, 2.5)
    figure = style.new_figure(width * columns + 0.3, height * rows + 0.6)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat[len(aligned.games) :]:
        axes.set_visible(False)
    names = short_names(aligned.games)
    for axes, game in zip(panels.flat, aligned.games, strict=False):
        draw_panel(axes, aligned, game, aligned.agents, column)
        axes.set_title(style.literal(names[game]), fontsize=8)
        axes.tick_params(labelsize=6.5)
    for column_of_panels in panels.T:
        last = [axes for axes in column_of_panels if axes.get_visible()][-1]
        last.set_xlabel(style.step_label(aligned.games)[0], fontsize=8)
    figure.supylabel(_COLUMNS.get(column, column), fontsize=8)
    style.legend(figure, *panels.flat, fontsize=8.0)
    return figure


def original_protocol(aligned: Aligned, game: str = "atari-original/Asterix") -> Figure:
    """DQN and M-DQN; Rainbow, IQN and M-IQN: two panels, since their scales are far apart."""
    groups = [[find_agent(aligned.agents, n) for n in names] for names in ORIGINAL_PROTOCOL]
    groups = [[agent for agent in group if agent] for group in groups]
    groups = [group for group in groups if group] or [aligned.agents]
    figure = style.new_figure(4.6 * len(groups), 3.6)
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    name = style.literal(short_names([game])[game])
    for axes, group in zip(panels, groups, strict=True):
        draw_panel(axes, aligned, game, group)
        axes.set(title=name, xlabel=style.step_label([game])[0], ylabel="score")
        axes.legend(frameon=False)
    return figure
