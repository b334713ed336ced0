"""All figures that the records allow, into a folder."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from munchausen._src.evidence.figures import normalised
from munchausen._src.evidence.figures.action_gap import (
    action_gap_along_trajectories,
    trajectories_of,
)
from munchausen._src.evidence.figures.distributions import interval_estimates, performance_profiles
from munchausen._src.evidence.figures.grid import learning_curves, original_protocol
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
    yield "learning-curves", partial(learning_curves, aligned)
    yield "maximum-scores", partial(score_table, aligned)
    for comparison in comparisons:
        by = comparison.scale.baseline
        yield f"normalised-by-{by}", partial(normalised.normalised_scores, aligned, by)
        yield f"profiles-by-{by}", partial(performance_profiles, comparison)
        yield f"intervals-by-{by}", partial(interval_estimates, comparison)
        for name in normalised.CHOSEN:
            if of := normalised.chosen(aligned, name):
                draw = partial(normalised.normalised_scores, aligned, by, of)
                yield f"{name}-by-{by}", draw
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
        yield "original-protocol", partial(original_protocol, aligned, original[0])
    names = short_names(aligned.games)
    for game in aligned.games:
        if trajectories := trajectories_of(aligned, game):
            draw = partial(action_gap_along_trajectories, trajectories, names[game])
            yield f"action-gap-along-trajectories-{names[game]}", draw
    if aligned.records(ACTION_GAP):
        yield "action-gap", partial(learning_curves, aligned, ACTION_GAP)


def _bars(
    aligned: Aligned, agent: str, baseline: str, last: int
) -> tuple[str, Callable[[], Figure]]:
    draw = partial(improvement_bars, aligned, agent, baseline, last)
    return f"improvement-{agent}-over-{baseline}", draw
