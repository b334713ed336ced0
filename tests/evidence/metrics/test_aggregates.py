"""Aggregates against numbers worked out by hand."""

import numpy as np
import pytest

from munchausen._src.evidence.metrics import aggregates as agg

NAN = np.nan
# Two runs, four games.
SCORES = np.array([[0.0, 1.0, 2.0, 9.0], [0.2, 0.6, 4.0, 11.0]])


def test_by_hand():
    assert agg.game_means(SCORES).tolist() == pytest.approx([0.1, 0.8, 3.0, 10.0])
    assert agg.mean(SCORES) == pytest.approx(13.9 / 4)
    assert agg.median(SCORES) == pytest.approx(1.9)
    # 0, .2, .6, 1, 2, 4, 9, 11: the middle four.
    assert agg.interquartile_mean(SCORES) == pytest.approx((0.6 + 1 + 2 + 4) / 4)
    assert agg.optimality_gap(SCORES) == pytest.approx(1 - (0 + 0.2 + 0.6 + 5) / 8)


@pytest.mark.parametrize(
    "statistic", [agg.mean, agg.median, agg.interquartile_mean, agg.optimality_gap]
)
def test_leading_axes_are_computed_one_by_one(statistic):
    many = np.random.default_rng(0).normal(1, 1, (3, 2, 5, 6))
    one_by_one = [[statistic(many[i, j]) for j in range(2)] for i in range(3)]
    np.testing.assert_allclose(statistic(many), one_by_one)


def test_games_with_different_numbers_of_runs():
    ragged = np.array([[0.0, 1.0], [NAN, 2.0], [NAN, 3.0]])
    assert agg.game_means(ragged).tolist() == [0.0, 2.0]
    assert agg.mean(ragged) == 1.0
    assert agg.interquartile_mean(ragged) == pytest.approx(1.5)
    assert agg.optimality_gap(ragged) == pytest.approx(0.25)
    assert agg.performance_profile(ragged, np.array([0.0, 1.5])).tolist() == [0.75, 0.5]


def test_profile_is_strictly_above():
    assert agg.performance_profile(SCORES, np.array([-1.0, 0.0, 1.0, 11.0])).tolist() == [
        *(1.0, 7 / 8, 4 / 8, 0.0)
    ]


def test_probability_of_improvement_by_hand():
    mine, others = np.array([[1.0], [3.0]]), np.array([[0.0], [1.0], [5.0]])
    # 1 beats 0, ties with 1; 3 beats 0 and 1.
    assert agg.probability_of_improvement(mine, others) == pytest.approx(3.5 / 6)
    assert agg.probability_of_improvement(others, mine) == pytest.approx(2.5 / 6)


def test_probability_of_improvement_with_missing_runs():
    mine = np.array([[1.0, 4.0], [3.0, NAN]])
    others = np.array([[2.0, 3.0], [NAN, 5.0]])
    assert agg.probability_of_improvement(mine, others) == pytest.approx((0.5 + 0.5) / 2)


def test_best_counts_give_a_tie_to_the_first():
    means = np.array([[1.0, 5.0, 2.0, NAN], [1.0, 6.0, NAN, NAN], [0.0, 7.0, 1.0, NAN]])
    assert agg.best_counts(means).tolist() == [2, 0, 1]


def test_area_by_hand():
    steps = np.array([0.0, 1.0, 3.0])
    curves = np.array([[0.0, 2.0, 2.0], [NAN, 4.0, 0.0]])
    assert agg.area_under_curve(steps, curves).tolist() == pytest.approx([5 / 3, 2.0])


def test_steps_to_reach():
    steps = np.array([10.0, 20.0, 30.0])
    curves = np.array([[0.0, 2.0, 1.0], [0.0, 0.5, 0.9], [NAN, NAN, 1.0]])
    assert agg.steps_to_reach(steps, curves, 1.0).tolist() == [20.0, np.inf, 30.0]
