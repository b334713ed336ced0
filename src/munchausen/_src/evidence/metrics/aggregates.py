"""One number from the scores of many runs on many games.

Scores are `[..., runs, games]`; leading axes are resamples or time. Games may have different
numbers of runs: NaN stands where there is none. The interquartile mean, the optimality gap,
profiles and the probability of improvement are those of Agarwal et al. 2021, Deep Reinforcement
Learning at the Edge of the Statistical Precipice.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

Scores = Float[np.ndarray, "*batch runs games"]
Number = Float[np.ndarray, "*batch"] | np.floating  # without leading axes, NumPy's scalar
Statistic = Callable[[Scores], Number]


def game_means(scores: Scores) -> Float[np.ndarray, "*batch games"]:
    """The mean over runs of each game; NaN for a game without any."""
    known = np.isfinite(scores)
    with np.errstate(invalid="ignore"):
        return np.where(known, scores, 0.0).sum(axis=-2) / known.sum(axis=-2)


def mean(scores: Scores) -> Number:
    """The mean over games: a single game can carry it."""
    return game_means(scores).mean(axis=-1)


def median(scores: Scores) -> Number:
    """The median over games of their means. It ignores how good or bad half of the games are."""
    return np.median(game_means(scores), axis=-1)


def interquartile_mean(scores: Scores) -> Number:
    """The mean of the middle half of all runs on all games."""
    flat = np.sort(_all_runs(scores), axis=-1)
    cut = flat.shape[-1] // 4
    return flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)


def optimality_gap(scores: Scores) -> Number:
    """How far runs stay below 1 on average; what lies above 1 counts as 1."""
    return 1.0 - np.minimum(_all_runs(scores), 1.0).mean(axis=-1)


def best_counts(means: Float[np.ndarray, "agents games"]) -> Int[np.ndarray, "agents"]:
    """On how many games each agent has the highest mean. A tie counts for the first."""
    known = np.isfinite(means).any(axis=0)
    winners = np.nanargmax(means[:, known], axis=0)
    return np.bincount(winners, minlength=len(means))


def performance_profile(
    scores: Scores, thresholds: Float[np.ndarray, "levels"]
) -> Float[np.ndarray, "*batch levels"]:
    """The fraction of all runs whose score is above each threshold."""
    flat = _all_runs(scores)
    return np.stack([(flat > level).mean(axis=-1) for level in thresholds], axis=-1)


def probability_of_improvement(
    scores: Float[np.ndarray, "*batch runs games"], others: Float[np.ndarray, "*batch runs2 games"]
) -> Number:
    """How likely a run of the one is above a run of the other on a game drawn at random;
    equal scores count half."""
    wins = pairs = np.zeros(())
    for run in range(scores.shape[-2]):
        mine = scores[..., run : run + 1, :]
        known = np.isfinite(mine) & np.isfinite(others)
        wins = wins + ((mine > others) + 0.5 * (mine == others)).sum(axis=-2)
        pairs = pairs + known.sum(axis=-2)
    return (wins / pairs).mean(axis=-1)


def area_under_curve(
    steps: Float[np.ndarray, "T"], curves: Float[np.ndarray, "*batch T"]
) -> Number:
    """The mean height of curves over the whole of training, by trapezoids. A curve that begins
    later (no episode had ended yet) counts from its beginning; a single point is a height."""
    if curves.shape[-1] == 1:
        return curves[..., 0]
    heights = (curves[..., 1:] + curves[..., :-1]) / 2
    known = np.isfinite(heights)
    widths = np.where(known, np.diff(steps), 0.0)
    with np.errstate(invalid="ignore"):
        return (np.where(known, heights, 0.0) * widths).sum(axis=-1) / widths.sum(axis=-1)


def steps_to_reach(
    steps: Float[np.ndarray, "T"],
    curves: Float[np.ndarray, "*batch T"],
    target: Float[np.ndarray, "*batch"] | float,
) -> Number:
    """Sample efficiency: the first step at which a curve is at the target; infinite if never."""
    reached = curves >= np.asarray(target)[..., None]
    first = np.asarray(steps, float)[reached.argmax(axis=-1)]
    return np.where(reached.any(axis=-1), first, np.inf)


def _all_runs(scores: Scores) -> Float[np.ndarray, "*batch all"]:
    """All runs of all games in one axis. Resamples have their gaps in the same places."""
    flat = scores.reshape(*scores.shape[:-2], -1)
    known = np.isfinite(flat)
    return flat if known.all() else flat[..., known.reshape(-1, flat.shape[-1]).all(axis=0)]
