"""Alignment of runs, and agents against baselines."""

import numpy as np
import pytest

from munchausen._src.errors import UserError
from munchausen._src.evidence.metrics.alignment import align, filled
from munchausen._src.evidence.metrics.comparison import (
    aggregate_band,
    aggregate_curve,
    compare,
    default_baselines,
    make_scale,
)
from munchausen._src.evidence.metrics.reading import read_table
from munchausen._src.evidence.metrics.reference import random_score
from written_runs import ITERATION_STEPS, row_of, write_run, write_study

NAN = np.nan


def aligned_of(path, at=None):
    return align(read_table([path]), at)


def test_final_is_the_mean_of_the_last_five(tmp_path):
    write_run(tmp_path / "r", [[100, 1, 2, 3, 4, 5], [0, 2, 2, 2, 2, NAN]])
    final = aligned_of(tmp_path).final("m-dqn")
    assert final[:, 0].tolist() == [3.0, 2.0]  # an iteration without an episode keeps the score
    assert aligned_of(tmp_path).final("m-dqn", last=1)[0, 0] == 5.0


def test_maximum_is_the_best_iteration_of_the_mean(tmp_path):
    write_run(tmp_path / "r", [[0, 9, 1], [0, 1, 7]])
    assert aligned_of(tmp_path).maximum("m-dqn").tolist() == [5.0]


def test_gaps_are_filled_from_before():
    np.testing.assert_array_equal(filled(np.array([NAN, 1, NAN, 3])), [NAN, 1, 1, 3])


def test_a_run_that_stopped_early_is_left_out_and_said(tmp_path):
    write_run(tmp_path / "a", [[1] * 8, [2] * 8, [3] * 8])
    write_run(tmp_path / "b", [[50] * 3], first_seed=9, status="diverged", error="NaN")
    aligned = aligned_of(tmp_path)
    assert aligned.final("m-dqn")[:, 0].tolist() == [1, 2, 3]
    (note,) = aligned.notes
    assert "left out" in note
    assert "3,000 of 8,000 steps, diverged" in note


def test_longer_runs_are_cut_and_said(tmp_path):
    write_run(tmp_path / "a", [[1] * 6, [1] * 6], agent="dqn")
    write_run(tmp_path / "b", [[2] * 6 + [99] * 6])
    aligned = aligned_of(tmp_path)
    assert aligned.final("m-dqn")[0, 0] == 2
    assert "cut at 6,000 steps" in aligned.notes[0]


def test_compare_at_a_step(tmp_path):
    write_run(tmp_path / "a", [np.arange(1, 11)])
    assert aligned_of(tmp_path, at=5_000).final("m-dqn", last=1)[0, 0] == 5


def test_rows_at_other_steps_are_put_on_the_coarser_grid(tmp_path):
    write_run(tmp_path / "a", [[1, 2, 3, 4]])
    text = "game,agent,run,step,score\n" + "".join(
        f"minatar/breakout,other,0,{step},{step}\n" for step in range(500, 4001, 500)
    )
    (tmp_path / "b.csv").write_text(text)
    aligned = align(read_table([tmp_path / "a", tmp_path / "b.csv"]))
    np.testing.assert_array_equal(aligned.grid("minatar/breakout"), [1000, 2000, 3000, 4000])
    np.testing.assert_array_equal(
        aligned.curves("minatar/breakout", "other"), [[1000, 2000, 3000, 4000]]
    )


def test_a_run_without_an_episode_is_left_out(tmp_path):
    write_run(tmp_path / "a", [[NAN, NAN], [1, 2]])
    aligned = aligned_of(tmp_path)
    assert len(aligned.runs("minatar/breakout", "m-dqn")) == 1
    assert "no episode ended" in aligned.notes[0]


def test_order_of_agents_comes_out(tmp_path):
    aligned = aligned_of(write_study(tmp_path))
    assert default_baselines(aligned) == ["dqn"]
    comparison = compare(aligned, "dqn")
    rows = {row.agent: row for row in comparison.rows}
    assert list(rows) == ["dqn", "adam-dqn", "m-dqn"]
    assert rows["dqn"].mean.value == pytest.approx(1.0)
    assert rows["dqn"].improved == 0
    assert rows["m-dqn"].improved == 2
    assert rows["m-dqn"].better.value == 1.0
    assert rows["dqn"].better is None
    assert rows["dqn"].iqm.value < rows["adam-dqn"].iqm.low
    assert rows["m-dqn"].steps_to_baseline < rows["adam-dqn"].steps_to_baseline
    assert rows["m-dqn"].steps_to_baseline <= 4 * ITERATION_STEPS
    assert rows["m-dqn"].area.value > rows["adam-dqn"].area.value
    low = random_score("minatar/asterix")
    score = aligned.final("m-dqn")[:, 0].mean()
    base = aligned.final("dqn")[:, 0].mean()
    assert comparison.scores["m-dqn"][:, 0].mean() == pytest.approx((score - low) / (base - low))


def test_one_seed_has_no_interval_and_it_is_said(tmp_path):
    comparison = compare(aligned_of(write_study(tmp_path, seeds=1)), "dqn")
    assert all(row.iqm.low is None for row in comparison.rows)
    assert "no interval" in comparison.notes[-1]


def test_a_game_without_reference_is_left_out_and_said(tmp_path):
    write_study(tmp_path / "known")
    write_study(tmp_path / "new", games=["gym/Unheard-v0"])
    comparison = compare(aligned_of(tmp_path), "dqn")
    assert comparison.games == ["minatar/asterix", "minatar/breakout"]
    assert any("gym/Unheard-v0 has no random score" in note for note in comparison.notes)


def test_no_game_to_scale_is_an_error(tmp_path):
    write_study(tmp_path, games=["gym/Unheard-v0"])
    with pytest.raises(UserError, match="no game can be scaled"):
        compare(aligned_of(tmp_path), "dqn")


def test_human_scores_need_atari(tmp_path):
    aligned = aligned_of(write_study(tmp_path))
    with pytest.raises(UserError, match="no human score"):
        compare(aligned, "human")
    with pytest.raises(UserError, match="unknown baseline 'rainbo'"):
        compare(aligned, "rainbo")


def test_agents_on_few_games_leave_the_others_alone(tmp_path):
    games = ["minatar/breakout", "minatar/asterix", "minatar/freeway"]
    write_study(tmp_path / "study", games=games)
    write_run(tmp_path / "extra", [[5] * 10, [6] * 10], agent="iqn", env=games[0])
    comparison = compare(aligned_of(tmp_path), "dqn")
    assert len(comparison.games) == 3
    assert "iqn" not in comparison.scores
    assert any("iqn was run on few" in note for note in comparison.notes)


def test_aggregates_are_over_games_that_all_have(tmp_path):
    write_study(tmp_path / "study")
    write_run(tmp_path / "extra", [[5] * 10, [6] * 10], agent="iqn", env="minatar/breakout")
    comparison = compare(aligned_of(tmp_path), "dqn")
    assert comparison.games == ["minatar/breakout"]
    assert any("1 of 2 games" in note for note in comparison.notes)


def test_improved_counts_a_baseline_below_random(tmp_path):
    """(a − b)/|b − r| > 0 although (a − r)/|b − r| < 1: Rainbow on Skiing."""
    write_run(tmp_path / "a", [[-20_000] * 5] * 2, agent="rainbow", env="atari/Skiing")
    write_run(tmp_path / "b", [[-18_000] * 5] * 2, agent="m-dqn", env="atari/Skiing")
    comparison = compare(aligned_of(tmp_path), "rainbow")
    assert row_of(comparison, "m-dqn").mean.value < 0
    assert row_of(comparison, "m-dqn").improved == 1
    assert row_of(comparison, "rainbow").improved == 0


def test_aggregate_curves_begin_where_all_runs_have_a_score(tmp_path):
    write_run(tmp_path / "a", [[NAN, 2, 3], [1, 2, 3]], agent="dqn")
    aligned = aligned_of(tmp_path)
    scale = make_scale(aligned, "dqn")
    cube = scale(aligned.cube("dqn", scale.games))
    start, values = aggregate_curve(cube, "median")
    assert start == 1
    r = random_score("minatar/breakout")
    base = (2.5 + 2) / 2 - r  # finals: the means of 2, 3 and of 1, 2, 3
    np.testing.assert_allclose(values, (np.array([2, 3]) - r) / base)
    limits = aggregate_band(cube, "median")
    assert (limits[0] <= values + 1e-9).all()
    assert (values <= limits[1] + 1e-9).all()
