"""Tables for people and for machines, and what is said of the runs."""

import csv
import io
import json

import numpy as np
import pytest

from munchausen._src import cli
from munchausen._src.evidence.metrics.reading import read_table
from munchausen._src.evidence.report import tables
from munchausen._src.evidence.report.results import gather, reproduce
from written_runs import row_of, write_run, write_study


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    write_study(root)
    write_run(root / "x", [[1, 2]], agent="al", status="diverged", error="NaN at step 2,000")
    write_run(root / "y", [[1] * 10], agent="m-iqn", first_seed=4, status=None)
    return gather(read_table([root]), resamples=100)


def test_summary(results):
    (comparison,) = results.comparisons
    grid = tables.summary(comparison)
    assert grid.title == "dqn-normalised scores, 1 game"
    names = ["agent", "runs", "IQM", "median", "mean", "gap", "improved", "P(better)", "area"]
    assert grid.columns == [*names, "steps to baseline"]
    assert [row[0].text for row in grid.rows] == ["dqn", "adam-dqn", "m-dqn", "m-iqn"]
    cells = {row[0].text: row for row in grid.rows}
    assert cells["dqn"][6].text == "–"
    assert cells["m-dqn"][6].text == "1 of 1"
    assert cells["m-dqn"][2].best
    assert not cells["dqn"][2].best
    assert "[" in cells["m-dqn"][2].text
    assert "[" not in cells["m-iqn"][2].text  # one run


def test_scores_of_games_and_best_counts(results):
    final = tables.final_scores(results)
    assert final.columns == ["game", "random", "dqn", "adam-dqn", "m-dqn", "m-iqn"]
    assert [row[0].text for row in final.rows] == ["asterix", "breakout"]
    assert final.rows[0][5].text == "–"
    assert [cell.best for cell in final.rows[0]] == [False] * 4 + [True, False]
    maximum = tables.maximum_scores(results)
    assert [cell.text for cell in maximum.rows[-1]] == ["best on", "0", "0", "0", "2", "0"]


def test_action_gaps_of_games(results):
    """Those of `written_runs`, in the runs that are compared."""
    grid = tables.action_gaps(results)
    assert grid.columns == ["game", "dqn", "adam-dqn", "m-dqn", "m-iqn"]
    runs = results.aligned.runs("minatar/breakout", "m-dqn")
    expected = np.mean([run.columns["action_gap"][-results.last :] for run in runs])
    cell = grid.rows[1][3]
    assert cell.value == pytest.approx(expected)
    assert cell.text.startswith(f"{tables.number(expected)} [")
    assert not any(cell.best for row in grid.rows for cell in row)  # more is not better
    assert "## action gaps" in tables.markdown(results)


def test_published_curves_have_no_action_gaps(tmp_path):
    path = tmp_path / "curves.csv"
    path.write_text("game,agent,run,step,score\nbreakout,dqn,0,1000,1.0\nbreakout,dqn,0,2000,2.0\n")
    results = gather(read_table([path]), resamples=20)
    assert results.action_gaps == {}
    assert "action gaps" not in tables.markdown(results)


def test_markdown_is_a_table_and_says_its_notes(results):
    text = tables.markdown(results)
    assert "| m-dqn | 3 | **" in text
    assert "## final scores" in text
    assert "of 10,000 steps, diverged" in text
    widths = {line.count("|") for line in text.split("\n\n")[1].splitlines()}
    assert len(widths) == 1


def test_csv_and_json_hold_the_same_numbers(results):
    rows = list(csv.DictReader(io.StringIO(tables.csv_text(results))))
    data = json.loads(tables.json_text(results))
    assert len(rows) == len(data["rows"])
    wanted = ("summary", "m-dqn", "iqm")
    (iqm,) = [r for r in data["rows"] if (r["table"], r["agent"], r["measure"]) == wanted]
    assert iqm["low"] < iqm["value"] < iqm["high"]
    assert iqm["value"] == row_of(results.comparisons[0], "m-dqn").iqm.value
    of_csv = next(r for r in rows if r["agent"] == "m-dqn" and r["measure"] == "iqm")
    assert float(of_csv["value"]) == iqm["value"]
    never = next(r for r in data["rows"] if r["measure"] == "steps_to_baseline")
    assert never["value"] is None or never["value"] > 0
    assert {run["status"] for run in data["runs"]} == {"finished", "diverged", "stopped"}


def test_health_puts_trouble_first(results):
    first, second = results.health[:2]
    assert {first.agent, second.agent} == {"al", "m-iqn"}
    assert {first.problem[:3], second.problem[:3]} == {"NaN", "it "}
    assert not any(h.problem for h in results.health[2:])
    assert results.health[-1].steps_per_second == 5_000


def test_one_run_is_said_to_have_no_interval(results):
    assert any("m-iqn: one run on a game" in note for note in results.notes)


def test_commands_make_the_same_settings(tmp_path):
    """Read back by the parser of `munchausen train`."""
    write_run(
        tmp_path / "r", [[1, 2], [3, 4]], first_seed=3, changes={"clip_min": "-inf", "n_step": 3}
    )
    command = reproduce(read_table([tmp_path]).runs[0])
    options = cli._parse(command.split()[1:])
    assert (options.command, options.agent, options.env) == ("train", "m-dqn", "minatar/breakout")
    assert (options.steps, options.seed, options.seeds) == ("2000", "3", "2")
    assert (options.clip_min, options.n_step, options.iteration_steps) == ("-inf", "3", "1000")


def test_a_hostile_name_cannot_leave_its_quotes(tmp_path):
    write_run(tmp_path / "r", [[1]], agent="x; rm -rf ~")
    assert "'x; rm -rf ~'" in reproduce(read_table([tmp_path]).runs[0])


def test_a_hostile_name_is_text_in_markdown(tmp_path):
    """It neither ends its cell nor its line, nor becomes a link, emphasis or HTML."""
    name = "a|b\n# c <img src=x> [d](e) *f* `g` &lt;"
    write_run(tmp_path / "r", [[1, 2], [2, 3]], agent=name)
    write_run(tmp_path / "s", [[1, 2], [2, 3]], agent="dqn")
    text = tables.markdown(gather(read_table([tmp_path]), resamples=20))
    assert "a\\|b # c &lt;img src=x> \\[d\\](e) \\*f\\* \\`g\\` &amp;lt;" in text
    assert "<img" not in text
    assert "\n# c" not in text


def test_settings_are_grouped(results):
    agents = [c.agent for c in results.configurations]
    assert agents == ["adam-dqn", "al", "dqn", "m-dqn", "m-iqn"]
    mine = results.configurations[3]
    assert (mine.runs, len(mine.games), len(mine.commands)) == (6, 2, 2)
    assert mine.values["alpha"] == 0.9
    assert results.machines == ["cpu, 2 cores, jax 0.10.2, Python 3.11"]


def test_nothing_to_scale_by_is_said(tmp_path):
    write_study(tmp_path, games=["gym/Unheard-v0"])
    results = gather(read_table([tmp_path]))
    assert results.comparisons == []
    assert "nothing is normalised" in results.notes[-1]
    assert tables.final_scores(results).rows
