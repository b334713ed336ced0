"""Figures from records: what is drawn is what the records say."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from munchausen._src.evidence.figures import normalised
from munchausen._src.evidence.figures.action_gap import (
    action_gap_along_trajectories,
    smoothed,
    trajectories_of,
)
from munchausen._src.evidence.figures.distributions import interval_estimates, performance_profiles
from munchausen._src.evidence.figures.everything import _figures, save_figures
from munchausen._src.evidence.figures.grid import learning_curves, original_protocol
from munchausen._src.evidence.figures.improvement import improvement_bars
from munchausen._src.evidence.figures.score_table import score_table
from munchausen._src.evidence.figures.style import agent_styles, save, step_label, thousands
from munchausen._src.evidence.metrics.alignment import align
from munchausen._src.evidence.metrics.comparison import compare, default_baselines
from munchausen._src.evidence.metrics.reading import read_table
from munchausen._src.experiment.records import write_action_gaps
from written_runs import write_run, write_study

GAMES = ["minatar/breakout", "minatar/asterix"]


@pytest.fixture(scope="module")
def aligned(tmp_path_factory):
    return align(read_table([write_study(tmp_path_factory.mktemp("study"), games=GAMES)]))


@pytest.fixture(scope="module")
def comparison(aligned):
    return compare(aligned, "dqn", resamples=50)


def lines(axes):
    """Curves by name, without rules."""
    return {
        line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")
    }


def test_normalised_scores(aligned):
    left, right = normalised.normalised_scores(aligned, "dqn").axes
    assert list(lines(left)) == ["dqn", "adam-dqn", "m-dqn"]
    assert left.get_title() == "dqn-normalised mean"
    assert right.get_title() == "dqn-normalised median"
    top = lines(left)["m-dqn"]
    assert top.get_xdata()[-1] == 10_000
    assert 2.5 < top.get_ydata()[-1] < 4
    assert len(left.collections) == 3  # a band each


def test_figures_of_chosen_agents(tmp_path):
    for name in ("m-dqn", "m-dqn-stochastic", "m-iqn", "m-iqn-1step", "iqn", "soft-dqn", "dqn"):
        write_run(tmp_path / name, [[1, 2, 3], [2, 3, 4]], agent=name)
    aligned = align(read_table([tmp_path]))
    for name, expected in (
        ("ablation", ["dqn", "soft-dqn", "m-dqn"]),
        ("stochastic", ["m-dqn", "m-dqn-stochastic"]),
        ("n-step", ["m-iqn", "m-iqn-1step", "iqn"]),
    ):
        agents = normalised.chosen(aligned, name)
        figure = normalised.normalised_scores(aligned, "dqn", agents)
        assert list(lines(figure.axes[0])) == expected


def test_improvement_bars(aligned):
    axes = improvement_bars(aligned, "m-dqn", "dqn").axes[0]
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == sorted(heights)
    assert axes.get_title() == "m-dqn against dqn\nbetter on 2 of 2 games"
    assert (axes.get_yscale(), axes.get_ylabel()) == (
        "symlog",
        "improvement (logarithmic beyond 10%)",
    )
    at = aligned.games.index("minatar/breakout")
    a, b = (aligned.final(name)[:, at].mean() for name in ("m-dqn", "dqn"))
    assert any(h == pytest.approx((a - b) / (b - 0.39)) for h in heights)


def test_improvement_over_the_games_of_both(tmp_path):
    """A third agent that lacks a game takes it from nobody else. Small ones are drawn linearly."""
    for game in ("breakout", "asterix"):
        for agent, score in (("dqn", 10.0), ("m-dqn", 12.0), ("iqn", 14.0)):
            if (agent, game) != ("iqn", "asterix"):
                folder = tmp_path / f"{agent}-{game}"
                write_run(folder, [[score] * 5] * 2, agent=agent, env=f"minatar/{game}")
    axes = improvement_bars(align(read_table([tmp_path])), "m-dqn", "dqn").axes[0]
    assert axes.get_title() == "m-dqn against dqn\nbetter on 2 of 2 games"
    assert axes.get_yscale() == "linear"
    assert [text.get_text() for text in axes.texts] == ["21%", "21%"]


def test_learning_curves_of_all_games(aligned):
    figure = learning_curves(aligned)
    assert [axes.get_title() for axes in figure.axes] == ["asterix", "breakout"]
    np.testing.assert_allclose(
        lines(figure.axes[1])["m-dqn"].get_ydata(),
        aligned.curves("minatar/breakout", "m-dqn").mean(axis=0),
    )
    gaps = learning_curves(aligned, "action_gap")
    np.testing.assert_allclose(lines(gaps.axes[0])["dqn"].get_ydata(), 0.1 * np.arange(1, 11))


def test_original_protocol_has_a_panel_for_each_family(tmp_path):
    for name in ("dqn", "m-dqn", "rainbow", "iqn"):
        write_run(tmp_path / name, [[1, 2, 3], [2, 3, 4]], agent=name, env="atari-original/Asterix")
    figure = original_protocol(align(read_table([tmp_path])))
    assert [list(lines(axes)) for axes in figure.axes] == [["dqn", "m-dqn"], ["rainbow", "iqn"]]
    assert figure.axes[0].get_xlabel() == "frames"
    assert lines(figure.axes[0])["dqn"].get_xdata().tolist() == [4000, 8000, 12000]


def figures_of(root):
    aligned = align(read_table([root]))
    comparisons = [compare(aligned, name, resamples=20) for name in default_baselines(aligned)]
    return dict(_figures(aligned, comparisons, 5))


def test_the_original_protocol_is_drawn_of_its_own_runs(tmp_path):
    """And not of the modern ones; it is normalised, and its axis counts frames."""
    for protocol in ("atari", "atari-original"):
        for agent, score in (("dqn", 40.0), ("m-dqn", 60.0)):
            scores = [[score] * 3, [score + 2] * 3]
            folder = tmp_path / protocol / agent
            write_run(folder, scores, agent=agent, env=f"{protocol}/Breakout")
    modern = figures_of(tmp_path / "atari")
    original = figures_of(tmp_path / "atari-original")
    assert original.keys() - modern.keys() == {"original-protocol"}
    assert "normalised-by-human" in original
    axes = original["original-protocol"]().axes[0]
    assert (axes.get_title(), axes.get_xlabel()) == ("Breakout", "frames")
    assert lines(axes)["dqn"].get_xdata().tolist() == [4000, 8000, 12000]
    left, _ = original["normalised-by-human"]().axes
    assert left.get_xlabel() == "frames"
    # Random play has 2 and a human 30.
    np.testing.assert_allclose(lines(left)["m-dqn"].get_ydata(), np.full(3, (61 - 2) / (30 - 2)))


def test_the_time_axis_of_several_games():
    assert step_label(["atari/Breakout", "atari-original/Asterix"]) == ("frames", 4)
    assert step_label(["atari/Breakout", "minatar/breakout"]) == ("steps", 1)
    assert step_label(["minatar/breakout", "nobody/knows"]) == ("steps", 1)


def test_action_gap_along_trajectories():
    gaps = {"al": [np.full(50, 2.0), np.full(30, 4.0)], "m-dqn": [np.arange(40.0)]}
    drawn = lines(action_gap_along_trajectories(gaps).axes[0])
    np.testing.assert_allclose(drawn["al"].get_ydata(), np.full(30, 3.0))
    assert len(drawn["m-dqn"].get_ydata()) == 40


def test_smoothing_by_hand():
    np.testing.assert_allclose(
        smoothed(np.array([1.0, 4.0, 0.0]), 0.5), [1.0, (4 + 0.5) / 1.5, (0 + 2 + 0.25) / 1.75]
    )


def test_profiles_and_intervals(comparison):
    profiles = lines(performance_profiles(comparison).axes[0])
    assert list(profiles) == ["dqn", "adam-dqn", "m-dqn"]
    assert (profiles["m-dqn"].get_ydata() >= profiles["dqn"].get_ydata()).all()
    titles = [axes.get_title() for axes in interval_estimates(comparison).axes]
    assert titles == ["median", "interquartile mean", "mean", "optimality gap"]


def test_score_table_counts_the_best(aligned):
    cells = score_table(aligned).axes[0].tables[0].get_celld()
    header = [cells[0, i].get_text().get_text() for i in range(5)]
    assert header == ["", "random", "dqn", "adam-dqn", "m-dqn"]
    assert [cells[3, i].get_text().get_text() for i in range(5)] == ["best", "0", "0", "0", "2"]
    assert cells[1, 4].get_text().get_weight() == "bold"


def test_agents_can_be_told_apart():
    styles = agent_styles([f"agent-{i}" for i in range(17)])
    assert len(set(styles.values())) == 17


def test_names_are_drawn_as_they_are(tmp_path):
    """Neither mathematics nor markup, nor a path."""
    hostile = "$x_{$ ../<script>alert(1)</script>"
    write_run(tmp_path / "r", [[1, 2, 3], [2, 3, 4]], agent=hostile)
    write_run(tmp_path / "s", [[1, 2, 3], [2, 3, 4]], agent="dqn")
    aligned = align(read_table([tmp_path]))
    comparison = compare(aligned, "dqn", resamples=20)
    written = save_figures(aligned, [comparison], tmp_path / "figures")
    assert all(path.parent == tmp_path / "figures" for path in written)
    for path in written:
        if path.suffix == ".svg":
            text = "".join(ElementTree.parse(path).getroot().itertext())
            assert "<script>alert(1)</script>" in text or "improvement" not in path.name


def test_saved_as_png_and_svg_and_the_same_each_time(tmp_path, aligned):
    first = save(improvement_bars(aligned, "m-dqn", "dqn"), tmp_path / "a" / "bars")
    again = save(improvement_bars(aligned, "m-dqn", "dqn"), tmp_path / "b" / "bars")
    assert [path.name for path in first] == ["bars.png", "bars.svg"]
    assert first[0].read_bytes()[:4] == b"\x89PNG"
    assert first[1].read_text() == again[1].read_text()
    assert ">improvement (logarithmic beyond 10%)</text>" in first[1].read_text()


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1500, "1.5k"), (2e8, "200M"), (-3e9, "-3G"), (0.25, "0.25")]
)
def test_large_numbers_are_brief(value, text):
    assert thousands(value) == text


def test_games_of_different_length_share_a_fraction_of_training(tmp_path):
    write_run(tmp_path / "a", [[1, 2, 3], [2, 3, 4]], agent="dqn")
    write_run(tmp_path / "b", [[1] * 6, [2] * 6], agent="dqn", env="minatar/asterix")
    figure = normalised.normalised_scores(align(read_table([tmp_path])), "dqn")
    assert figure.axes[0].get_xlabel() == "fraction of training"
    assert lines(figure.axes[0])["dqn"].get_xdata()[-1] == 1.0
    assert json.dumps(figure.axes[0].get_xlim())  # finite


def test_trajectories_kept_by_evaluate_are_drawn(tmp_path):
    run = write_run(tmp_path / "r", [[1, 2, 3], [2, 3, 4]])
    write_action_gaps(run, "m-dqn", 0, [[9.0]])
    write_action_gaps(run, "m-dqn", 0, [[1.0, 1.0, 1.0]])  # in place of the ones before
    write_action_gaps(run, "m-dqn", 1, [[3.0, 3.0]])
    aligned = align(read_table([tmp_path]))
    trajectories = trajectories_of(aligned, "minatar/breakout")
    assert [len(t) for t in trajectories["m-dqn"]] == [3, 2]
    drawn = lines(action_gap_along_trajectories(trajectories).axes[0])
    np.testing.assert_allclose(drawn["m-dqn"].get_ydata(), [2.0, 2.0])
