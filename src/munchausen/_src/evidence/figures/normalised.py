"""Normalised scores over all games as training goes on: the paper's main figures.

One function draws them, for all agents or for those that the paper's figures choose.
"""

from matplotlib.figure import Figure

from munchausen._src.evidence.figures import style
from munchausen._src.evidence.metrics.alignment import Aligned
from munchausen._src.evidence.metrics.comparison import (
    aggregate_band,
    aggregate_curve,
    common_agents,
    make_scale,
)
from munchausen._src.evidence.metrics.reference import HUMAN
from munchausen._src.evidence.metrics.runs import find_agent

TITLES = {"mean": "mean", "median": "median", "iqm": "interquartile mean"}
# Figures of chosen agents: whom each is about, and all it shows.
CHOSEN = {
    # From DQN to M-DQN, one change at a time (Fig. 3, and its Rainbow-normalised form).
    "ablation": ("m-dqn", ("dqn", "adam-dqn", "soft-dqn", "soft-dqn-low", "al", "m-dqn")),
    # M-DQN acting ε-greedily, and by its softmax policy (appendix).
    "stochastic": ("m-dqn-stochastic", ("m-dqn", "m-dqn-stochastic")),
    # M-IQN and IQN with 1-step and 3-step returns, and Rainbow (appendix).
    "n-step": ("m-iqn-1step", ("m-iqn", "m-iqn-1step", "iqn", "iqn-1step", "rainbow")),
}


def normalised_scores(
    aligned: Aligned,
    baseline: str = HUMAN,
    agents: list[str] | None = None,
    statistics: tuple[str, ...] = ("mean", "median"),
) -> Figure:
    """Mean and median over games against frames (Fig. 1, and with `baseline="rainbow"` its
    counterpart in the appendix); shaded: 95% stratified bootstrap intervals over seeds."""
    scale = make_scale(aligned, baseline)
    styles = style.agent_styles(aligned.agents)
    figure = style.new_figure(4.6 * len(statistics), 3.6)
    panels = figure.subplots(1, len(statistics), squeeze=False)[0]
    share = aligned.shared_grid(scale.games)
    lengths = {aligned.length[game] for game in scale.games}
    name, unit = style.step_label(scale.games)
    for agent in agents or common_agents(aligned):
        cube = scale(aligned.cube(agent, scale.games))
        for axes, statistic in zip(panels, statistics, strict=True):
            start, values = aggregate_curve(cube, statistic)
            x = share[start:] * (max(lengths) * unit if len(lengths) == 1 else 1.0)
            style.draw_curve(axes, x, values, aggregate_band(cube, statistic), agent, styles[agent])
    for axes, statistic in zip(panels, statistics, strict=True):
        axes.set(
            title=f"{style.literal(scale.baseline)}-normalised {TITLES[statistic]}",
            xlabel=name if len(lengths) == 1 else "fraction of training",
        )
        axes.axhline(1.0, color="0.5", lw=0.8, ls=":")
        if len(lengths) == 1:
            axes.xaxis.set_major_formatter(style.thousands)
        axes.yaxis.set_major_formatter(style.percent)
        style.tidy(axes)
    style.legend(figure, panels[0])
    return figure


def chosen(aligned: Aligned, name: str) -> list[str]:
    """The agents of one of the figures above that were run on enough games; none where the one it
    is about is missing, or any other to hold it against."""
    subject, names = CHOSEN[name]
    found = [agent for n in names if (agent := find_agent(common_agents(aligned), n))]
    return found if len(found) >= 2 and find_agent(found, subject) else []
