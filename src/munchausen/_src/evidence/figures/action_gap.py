"""Action gaps along trajectories of trained agents (the paper's Fig. 2)."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from munchausen._src.evidence.figures.style import agent_styles, legend, literal, new_figure, tidy
from munchausen._src.evidence.metrics.alignment import Aligned

SMOOTHING = 0.99  # as in the paper


def smoothed(values: Float[np.ndarray, "T"], decay: float = SMOOTHING) -> Float[np.ndarray, "T"]:
    """Exponential smoothing without the pull of its start towards zero:
    s_t = Σ_k decay^k x_{t−k} / Σ_k decay^k."""
    total, weight = 0.0, 0.0
    out = np.empty(len(values))
    for t, value in enumerate(values):
        total = decay * total + float(value)
        weight = decay * weight + 1.0
        out[t] = total / weight
    return out


def mean_gap(trajectories: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over an agent's trajectories, up to the end of the shortest, smoothed."""
    length = min(len(t) for t in trajectories)
    mean = np.mean([np.asarray(t, float)[:length] for t in trajectories], axis=0)
    return smoothed(mean)


def trajectories_of(aligned: Aligned, game: str) -> dict[str, list[np.ndarray]]:
    """By agent, those of all its runs on the game."""
    found = {
        agent: [t for run in aligned.runs(game, agent) for t in run.trajectories]
        for agent in aligned.agents
    }
    return {agent: trajectories for agent, trajectories in found.items() if trajectories}


def action_gap_along_trajectories(
    gaps: Mapping[str, Sequence[np.ndarray]], title: str = ""
) -> Figure:
    """One curve an agent, see `mean_gap`."""
    figure = new_figure(4.8, 3.6)
    axes = figure.subplots()
    styles = agent_styles(gaps)
    for agent, trajectories in gaps.items():
        axes.plot(mean_gap(trajectories), lw=1.6, label=literal(agent), **styles[agent]._asdict())
    axes.set(xlabel="step of the trajectory", ylabel="action gap", title=literal(title))
    tidy(axes)
    legend(figure, axes)
    return figure
