"""The numbers of the curves published with Dopamine. They are not part of this repository: set
MUNCHAUSEN_BASELINES to a folder with dopamine_atari.csv.gz (columns game, agent, run, iteration,
score; github google/dopamine, baselines/atari/data) and dopamine_asterix.json from there."""

import os
from pathlib import Path

import numpy as np
import pytest

from munchausen._src.evidence.metrics import aggregates as agg
from munchausen._src.evidence.metrics.alignment import align
from munchausen._src.evidence.metrics.comparison import compare
from munchausen._src.evidence.metrics.reading import read_table
from munchausen._src.suites import ATARI
from written_runs import row_of

FOLDER = Path(os.environ.get("MUNCHAUSEN_BASELINES", "nowhere"))
CURVES = FOLDER / "dopamine_atari.csv.gz"
pytestmark = pytest.mark.skipif(
    not CURVES.exists(),
    reason="set MUNCHAUSEN_BASELINES to a folder with Dopamine's published curves",
)


@pytest.fixture(scope="module")
def aligned():
    return align(read_table([CURVES]))


@pytest.fixture(scope="module")
def by_human(aligned):
    return compare(aligned, "human", last=1, resamples=200)


@pytest.fixture(scope="module")
def by_rainbow(aligned):
    return compare(aligned, "rainbow", last=1, resamples=200)


def percentages(row):
    return round(100 * row.mean.value), round(100 * row.median.value)


@pytest.mark.parametrize(
    ("agent", "mean", "median", "improved"),
    [("DQN", 226, 71, 23), ("C51", 335, 111, 33), ("Rainbow", 406, 148, 43), ("IQN", 432, 139, 41)],
)
def test_human_normalised(by_human, agent, mean, median, improved):
    row = row_of(by_human, agent)
    assert percentages(row) == (mean, median)
    assert row.improved == improved


@pytest.mark.parametrize(
    ("agent", "mean", "median", "improved", "above_one"),
    [("DQN", 51, 51, 4, 3), ("C51", 84, 70, 13, 12), ("IQN", 107, 100, 28, 27)],
)
def test_rainbow_normalised(by_rainbow, agent, mean, median, improved, above_one):
    """The paper prints 51/51/3, 84/70/11 and 105/99/27. It counts scores above 100%, which leaves
    out Skiing: Rainbow is worse than random there, and every agent better than Rainbow."""
    row = row_of(by_rainbow, agent)
    assert percentages(row) == (mean, median)
    assert row.improved == improved
    assert (agg.game_means(by_rainbow.scores[agent]) > 1).sum() == above_one


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("DQN", [(45, 13), (73, 29), (115, 47)]),
        ("C51", [(53, 23), (110, 45), (160, 70)]),
        ("Rainbow", [(113, 49), (229, 94), (317, 115)]),
        ("IQN", [(209, 70), (282, 110), (365, 129)]),
    ],
)
def test_human_normalised_at_10_20_and_40_million_frames(aligned, by_human, agent, expected):
    cube = by_human.scale(aligned.cube(agent, by_human.games))
    found = [
        (100 * float(agg.mean(cube[t])), 100 * float(agg.median(cube[t]))) for t in (9, 19, 39)
    ]
    np.testing.assert_allclose(found, expected, atol=0.6)


@pytest.mark.parametrize("agent", ["IQN", "DQN", "Rainbow"])
def test_the_papers_table_is_the_best_iteration_of_the_mean(aligned, agent):
    printed = [
        ATARI.references[game.removeprefix("atari/")][agent.lower()] for game in aligned.games
    ]
    np.testing.assert_array_equal(np.round(aligned.maximum(agent)), printed)


def test_the_original_file_holds_the_same_curves(aligned):
    original = align(read_table([FOLDER / "dopamine_asterix.json"]))
    assert original.games == ["atari/Asterix"]
    for agent in original.agents:
        np.testing.assert_allclose(
            original.curves("atari/Asterix", agent),
            aligned.curves("atari/Asterix", agent),
            atol=5e-4,
        )
