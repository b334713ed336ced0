"""Normalised scores over all games as training goes on: the paper's main figures.

One function draws them; the others choose agents, as the paper's figures do.
"""

from matplotlib.figure import Figure

from munchausen._src.evidence.figures.style import (
    BAND_ALPHA,
    agent_styles,
    alone,
    legend,
    literal,
    new_figure,
    percent,
    step_label,
    thousands,
    tidy,
)
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
ABLATION = ("dqn", "adam-dqn", "soft-dqn", "soft-dqn-low", "al", "m-dqn")
EXPLORATION = ("m-dqn", "m-dqn-stochastic")
N_STEPS = ("m-iqn", "m-iqn-1step", "iqn", "iqn-1step", "rainbow")


def normalised_scores(
    aligned: Aligned,
    baseline: str = HUMAN,
    agents: list[str] | None = None,
    statistics: tuple[str, ...] = ("mean", "median"),
) -> Figure:
    """Mean and median over games against frames (Fig. 1, and with `baseline="rainbow"` its
    counterpart in the appendix); shaded: 95% stratified bootstrap intervals over seeds."""
    scale = make_scale(aligned, baseline)
    styles = agent_styles(aligned.agents)
    figure = new_figure(4.6 * len(statistics), 3.6)
    panels = figure.subplots(1, len(statistics), squeeze=False)[0]
    share = aligned.shared_grid(scale.games)
    lengths = {aligned.length[game] for game in scale.games}
    name, unit = step_label(scale.games)
    for agent in agents or common_agents(aligned):
        cube = scale(aligned.cube(agent, scale.games))
        for axes, statistic in zip(panels, statistics, strict=True):
            start, values = aggregate_curve(cube, statistic)
            x = share[start:] * (max(lengths) * unit if len(lengths) == 1 else 1.0)
            style = styles[agent]
            mark = alone(values)
            axes.plot(x, values, lw=1.8, marker=mark, label=literal(agent), **style._asdict())
            limits = aggregate_band(cube, statistic)
            if limits is not None:
                axes.fill_between(x, *limits, color=style.color, alpha=BAND_ALPHA, lw=0)
    for axes, statistic in zip(panels, statistics, strict=True):
        who = "human" if scale.baseline == HUMAN else literal(scale.baseline)
        axes.set(
            title=f"{who}-normalised {TITLES[statistic]}",
            xlabel=name if len(lengths) == 1 else "fraction of training",
        )
        axes.axhline(1.0, color="0.5", lw=0.8, ls=":")
        if len(lengths) == 1:
            axes.xaxis.set_major_formatter(thousands)
        axes.yaxis.set_major_formatter(percent)
        tidy(axes)
    legend(figure, panels[0])
    return figure


def ablation(aligned: Aligned, baseline: str = HUMAN) -> Figure:
    """From DQN to M-DQN, one change at a time (Fig. 3, and its Rainbow-normalised form)."""
    return normalised_scores(aligned, baseline, _present(aligned, ABLATION))


def greedy_against_stochastic(aligned: Aligned, baseline: str = HUMAN) -> Figure:
    """M-DQN acting ε-greedily, and by its softmax policy (appendix)."""
    return normalised_scores(aligned, baseline, _present(aligned, EXPLORATION))


def one_step_against_three(aligned: Aligned, baseline: str = HUMAN) -> Figure:
    """M-IQN and IQN with 1-step and 3-step returns, and Rainbow (appendix)."""
    return normalised_scores(aligned, baseline, _present(aligned, N_STEPS))


def _present(aligned: Aligned, names: tuple[str, ...]) -> list[str]:
    found = [find_agent(common_agents(aligned), name) for name in names]
    return [agent for agent in found if agent is not None]


def shows(aligned: Aligned, names: tuple[str, ...]) -> bool:
    """Whether the runs have the agent the figure is about and another to hold it against."""
    found = _present(aligned, names)
    subject = {ABLATION: "m-dqn", EXPLORATION: "m-dqn-stochastic", N_STEPS: "m-iqn-1step"}[names]
    return len(found) >= 2 and find_agent(found, subject) is not None
