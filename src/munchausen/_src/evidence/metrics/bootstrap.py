"""Stratified bootstrap: how much a number would move with other seeds.

Runs are drawn with replacement within each game, games stay: the interval is about seeds, not
about other games (Agarwal et al. 2021). Percentile intervals.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from munchausen._src.evidence.metrics.aggregates import Number, Statistic

RESAMPLES = 2_000
CONFIDENCE = 0.95
_CHUNK_VALUES = 4_000_000  # drawn at once: 32 MB


class Estimate(NamedTuple):
    """A number with its interval; none where one run alone says nothing about others."""

    value: float
    low: float | None = None
    high: float | None = None


def has_intervals(*scores: Float[np.ndarray, "_ games"]) -> bool:
    """Every game needs two runs: a resample of one run is that run."""
    return all(bool((np.isfinite(x).sum(axis=0) >= 2).all()) for x in scores)


def resample(
    scores: Float[np.ndarray, "runs games"], count: int, generator: np.random.Generator
) -> Float[np.ndarray, "resamples runs games"]:
    """Draws runs of each game with replacement; a game keeps its number of runs."""
    return np.take_along_axis(scores[None], _draw(np.isfinite(scores), count, generator), axis=1)


def estimate(
    statistic: Statistic | Callable[..., Number],
    *samples: Float[np.ndarray, "_ games"],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Of a statistic of one agent's scores [runs, games], or of two agents'."""
    value = float(statistic(*samples))
    limits = band(statistic, *samples, resamples=resamples, seed=seed)
    return Estimate(value) if limits is None else Estimate(value, *limits.tolist())


def band(
    statistic: Callable[..., Any],
    *samples: Float[np.ndarray, "_ games"],
    resamples: int = 500,
    seed: int = 0,
) -> Float[np.ndarray, "2 *levels"] | None:
    """Lower and upper limits of a statistic, which may have an axis of its own (a profile). Each
    sample is drawn on its own, in as many chunks as the others."""
    if not has_intervals(*samples):
        return None
    step = max(1, _CHUNK_VALUES // max(x.size for x in samples))
    counts = [min(step, resamples - start) for start in range(0, resamples, step)]
    generators = [np.random.default_rng(seed + i) for i in range(len(samples))]
    parts = [
        statistic(*(resample(x, n, g) for x, g in zip(samples, generators, strict=True)))
        for n in counts
    ]
    return _percentiles(np.concatenate(parts))


def curve_band(
    statistic: Statistic,
    curves: Float[np.ndarray, "T runs games"],
    *,
    resamples: int = 200,
    seed: int = 0,
) -> Float[np.ndarray, "2 T"] | None:
    """Limits of a statistic at each step. A draw takes whole curves, so that the band is as
    smooth as they are."""
    if not has_intervals(curves[-1]):
        return None
    drawn = _draw(np.isfinite(curves[-1]), resamples, np.random.default_rng(seed))
    draws = [statistic(np.take_along_axis(x[None], drawn, axis=1)) for x in curves]
    return _percentiles(np.stack(draws, axis=-1))


def mean_intervals(
    scores: Float[np.ndarray, "runs *rest"],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Float[np.ndarray, "2 *rest"]:
    """Limits of the mean over runs, of each further axis by itself (a game, a step). NaN where
    fewer than two runs have a value."""
    flat = scores.reshape(len(scores), -1)
    known = np.isfinite(flat)
    enough = np.flatnonzero(known.sum(axis=0) >= 2)
    values, weights = np.where(known, flat, 0.0), known.astype(float)
    draws = np.random.default_rng(seed).multinomial(
        len(scores), np.full(len(scores), 1 / len(scores)), size=resamples
    )
    limits = np.full((2, flat.shape[1]), np.nan)
    width = max(1, _CHUNK_VALUES // resamples)
    for start in range(0, len(enough), width):
        part = enough[start : start + width]
        with np.errstate(invalid="ignore"):
            means = (draws @ values[:, part]) / (draws @ weights[:, part])
        limits[:, part] = _percentiles(means)
    return limits.reshape(2, *scores.shape[1:])


def _draw(known: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Which run takes each place [resamples, runs, games]. A place without a run stays so."""
    order = np.argsort(~known, axis=0, kind="stable")  # of each game, first those there are
    runs = known.sum(axis=0)
    uniform = generator.random((count, *known.shape))
    place = np.broadcast_to(np.arange(len(known))[:, None], uniform.shape)
    drawn = np.where(place < runs, (uniform * runs).astype(np.intp), place)
    return np.take_along_axis(np.broadcast_to(order, drawn.shape), drawn, axis=1)


def _percentiles(draws: np.ndarray) -> np.ndarray:
    levels = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    limits = np.quantile(draws, levels, axis=0)
    gaps = np.isnan(limits[0])  # NumPy's function that leaves out NaN is slow
    if gaps.any():
        limits[:, gaps] = np.nanquantile(draws[:, gaps], levels, axis=0)
    return limits
