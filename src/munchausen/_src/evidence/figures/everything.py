"""All figures that the records allow, into a folder."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from munchausen._src.evidence.figures import normalised
from munchausen._src.evidence.figures.action_gap import (
    action_gap_along_trajectories,
    trajectories_of,
)
from munchausen._src.evidence.figures.distributions import interval_estimates, performance_profiles
from munchausen._src.evidence.figures.grid import (
    action_gap_over_training,
    learning_curves,
    original_protocol,
)
from munchausen._src.evidence.figures.improvement import improvement_bars
from munchausen._src.evidence.figures.score_table import score_table
from munchausen._src.evidence.figures.style import save
from munchausen._src.evidence.metrics.alignment import LAST_ITERATIONS, Aligned
from munchausen._src.evidence.metrics.comparison import Comparison, common_agents
from munchausen._src.evidence.metrics.reference import protocol_of
from munchausen._src.evidence.metrics.runs import ACTION_GAP, find_agent, short_names

# Each Munchausen agent against the one it modifies.
PAIRS = (("m-dqn", "dqn"), ("m-dqn", "adam-dqn"), ("m-iqn", "iqn"), ("m-rainbow", "rainbow"))


def save_figures(
    aligned: Aligned,
    comparisons: list[Comparison],
    folder: Path,
    last: int = LAST_ITERATIONS,
    watch: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    written = []
    for name, draw in _figures(aligned, comparisons, last):
        watch(name)
        written += save(draw(), folder / re.sub(r"[^A-Za-z0-9.+-]+", "-", name))
    return written


def _figures(
    aligned: Aligned, comparisons: list[Comparison], last: int
) -> Iterator[tuple[str, Callable[[], Figure]]]:
    yield "learning-curves", lambda: learning_curves(aligned)
    yield "maximum-scores", lambda: score_table(aligned)
    for comparison in comparisons:
        by = comparison.scale.baseline
        yield f"normalised-by-{by}", lambda by=by: normalised.normalised_scores(aligned, by)
        yield f"profiles-by-{by}", lambda c=comparison: performance_profiles(c)
        yield f"intervals-by-{by}", lambda c=comparison: interval_estimates(c)
        for name, agents, draw in (
            ("ablation", normalised.ABLATION, normalised.ablation),
            ("stochastic", normalised.EXPLORATION, normalised.greedy_against_stochastic),
            ("n-step", normalised.N_STEPS, normalised.one_step_against_three),
        ):
            if normalised.shows(aligned, agents):
                yield f"{name}-by-{by}", lambda draw=draw, by=by: draw(aligned, by)
        if by in aligned.agents:
            for agent in common_agents(aligned):
                if agent != by:
                    yield _bars(aligned, agent, by, last)
    done = {c.scale.baseline for c in comparisons}
    for names in PAIRS:
        agent, baseline = (find_agent(common_agents(aligned), name) for name in names)
        if agent and baseline and baseline not in done:
            yield _bars(aligned, agent, baseline, last)
    original = [game for game in aligned.games if protocol_of(game) == "original"]
    if len(original) == 1:  # as in the paper, which shows Asterix so
        yield "original-protocol", lambda: original_protocol(aligned, original[0])
    names = short_names(aligned.games)
    for game in aligned.games:
        if trajectories := trajectories_of(aligned, game):
            name = f"action-gap-along-trajectories-{names[game]}"
            yield name, lambda t=trajectories, n=names[game]: action_gap_along_trajectories(t, n)
    gaps = [r.columns.get(ACTION_GAP) for group in aligned.groups.values() for r in group]
    if any(gap is not None and np.isfinite(gap).any() for gap in gaps):
        yield "action-gap", lambda: action_gap_over_training(aligned)


def _bars(
    aligned: Aligned, agent: str, baseline: str, last: int
) -> tuple[str, Callable[[], Figure]]:
    name = f"improvement-{agent}-over-{baseline}"
    return name, lambda: improvement_bars(aligned, agent, baseline, last)
