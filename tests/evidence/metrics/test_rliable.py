"""Agreement with rliable on values it produced; `make_rliable_values.py` says how."""

import json
from pathlib import Path

import numpy as np
import pytest

from munchausen._src.evidence.metrics import aggregates as agg
from munchausen._src.evidence.metrics.bootstrap import estimate

STORED = json.loads(Path(__file__).with_name("rliable_values.json").read_text())
SCORES = {agent: np.array(x) for agent, x in STORED["scores"].items()}
STATISTICS = {
    "mean": agg.mean,
    "median": agg.median,
    "iqm": agg.interquartile_mean,
    "optimality_gap": agg.optimality_gap,
}


@pytest.mark.parametrize("agent", ["a", "b"])
@pytest.mark.parametrize("name", STATISTICS)
def test_values_and_intervals(name, agent):
    ours = estimate(STATISTICS[name], SCORES[agent], resamples=20_000)
    assert ours.value == pytest.approx(STORED["values"][name][agent], abs=1e-12)
    # Both are drawn at random: within 3% of the interval's width.
    low, high = STORED["intervals"][name][agent]
    assert ours.low == pytest.approx(low, abs=0.03 * (high - low))
    assert ours.high == pytest.approx(high, abs=0.03 * (high - low))


def test_probability_of_improvement():
    ours = estimate(agg.probability_of_improvement, SCORES["b"], SCORES["a"], resamples=20_000)
    low, high = STORED["improvement"]["interval"]
    assert ours.value == pytest.approx(STORED["improvement"]["value"], abs=1e-12)
    assert ours.low == pytest.approx(low, abs=0.03 * (high - low))
    assert ours.high == pytest.approx(high, abs=0.03 * (high - low))


@pytest.mark.parametrize("agent", ["a", "b"])
def test_profiles(agent):
    ours = agg.performance_profile(SCORES[agent], np.array(STORED["levels"]))
    np.testing.assert_allclose(ours, STORED["profiles"][agent], atol=1e-12)
