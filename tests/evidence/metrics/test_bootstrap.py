"""The stratified bootstrap: what is drawn, and that its intervals cover."""

import numpy as np
import pytest

from munchausen._src.evidence.metrics import aggregates as agg
from munchausen._src.evidence.metrics.bootstrap import (
    band,
    curve_band,
    estimate,
    mean_intervals,
    resample,
)

NAN = np.nan


def test_runs_are_drawn_within_their_game():
    scores = np.array([[1.0, 10.0, NAN], [2.0, 20.0, 200.0], [3.0, NAN, 300.0]])
    drawn = resample(scores, 4_000, np.random.default_rng(0))
    assert drawn.shape == (4_000, 3, 3)
    for game in range(3):
        known = scores[np.isfinite(scores[:, game]), game]
        assert set(np.unique(drawn[:, :, game][np.isfinite(drawn[:, :, game])])) == set(known)
        assert (np.isfinite(drawn[:, :, game]).sum(axis=1) == len(known)).all()
        assert np.nanmean(drawn[:, :, game]) == pytest.approx(known.mean(), rel=0.02)


def test_games_are_drawn_independently():
    scores = np.tile(np.arange(4.0)[:, None], (1, 2))
    drawn = resample(scores, 5_000, np.random.default_rng(0))
    assert abs(np.corrcoef(drawn[:, 0, 0], drawn[:, 0, 1])[0, 1]) < 0.05


def test_same_seed_same_interval():
    scores = np.random.default_rng(1).normal(1, 0.3, (5, 8))
    assert estimate(agg.mean, scores) == estimate(agg.mean, scores)
    assert estimate(agg.mean, scores) != estimate(agg.mean, scores, seed=1)


@pytest.mark.parametrize("scores", [np.ones((1, 4)), np.array([[1.0, 2.0], [3.0, NAN]])])
def test_one_run_has_no_interval(scores):
    result = estimate(agg.interquartile_mean, scores)
    assert (result.low, result.high) == (None, None)
    assert estimate(agg.probability_of_improvement, scores, scores).low is None
    assert band(lambda x: agg.performance_profile(x, np.zeros(2)), scores) is None
    assert np.isnan(mean_intervals(scores)[:, -1]).all()


def test_large_samples_are_drawn_in_parts(monkeypatch):
    """Memory stays bounded, and the parts are as good as one."""
    scores = np.random.default_rng(2).normal(1, 0.3, (5, 8))
    whole = estimate(agg.mean, scores)
    monkeypatch.setattr("munchausen._src.evidence.metrics.bootstrap._CHUNK_VALUES", 400)
    parts = estimate(agg.mean, scores)
    assert parts.low == pytest.approx(whole.low, abs=0.02)
    assert parts.high == pytest.approx(whole.high, abs=0.02)


def test_intervals_cover():
    """Of the mean over games of runs with known means. Resampling ten runs understates their
    spread by √(9/10), so 95% intervals cover some 93%."""
    generator = np.random.default_rng(4)
    hits = 0
    for trial in range(300):
        scores = generator.normal([0.5, 1.0, 3.0], 0.5, (10, 3))
        result = estimate(agg.mean, scores, resamples=300, seed=trial)
        hits += result.low < 1.5 < result.high
    assert 0.89 <= hits / 300 <= 0.97


def test_intervals_of_each_game_agree_with_those_of_one():
    scores = np.random.default_rng(5).normal([1.0, 4.0], [0.2, 1.0], (8, 2))
    limits = mean_intervals(scores, resamples=20_000)
    for game in range(2):
        one = estimate(agg.mean, scores[:, [game]], resamples=20_000)
        np.testing.assert_allclose(limits[:, game], [one.low, one.high], atol=0.02)


def test_curve_band_is_the_band_of_each_step():
    curves = np.random.default_rng(6).normal(1, 0.3, (4, 6, 3))
    limits = curve_band(agg.median, curves, resamples=5_000)
    for t in range(4):
        one = estimate(agg.median, curves[t], resamples=5_000)
        np.testing.assert_allclose(limits[:, t], [one.low, one.high], atol=0.03)
