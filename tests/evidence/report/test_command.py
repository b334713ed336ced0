"""`munchausen report` as a user meets it."""

import io
import json
import os
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

from munchausen._src import cli
from munchausen._src.experiment import records as run_records
from munchausen._src.experiment.records import RECORDS
from written_runs import write_run, write_study


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("munchausen._src.evidence.report.results.RESAMPLES", 50)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # `main` sets its own


def report(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.main(["report", *map(str, arguments)])
    return code, out.getvalue(), err.getvalue()


def test_a_page_and_a_summary(tmp_path):
    write_study(tmp_path / "runs")
    code, out, err = report(tmp_path / "runs", "--out", tmp_path / "r.html", "--title", "Mine")
    assert (code, err) == (0, "")
    assert "dqn-normalised scores, 2 games" in out
    assert "m-dqn" in out
    assert "<title>Mine</title>" in (tmp_path / "r.html").read_text()


def test_a_terminal_obeys_no_name(tmp_path):
    write_study(tmp_path / "runs")
    for game in ("breakout", "asterix"):
        folder, agent = tmp_path / "runs" / game, "\x1b[2J\x1b]0;mine\x07"
        write_run(folder, np.ones((3, 10)), agent=agent, env=f"minatar/{game}")
    code, out, err = report(tmp_path / "runs", "--out", tmp_path / "r.html")
    assert code == 0
    assert "]0;mine" in out
    assert not set("\x1b\x07") & set(out + err)


def test_report_html_is_the_default(tmp_path, monkeypatch):
    write_study(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    assert report("runs")[0] == 0
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("form", "begins"), [("md", "## dqn-normalised"), ("csv", "table,baseline,game"), ("json", "{")]
)
def test_tables_go_to_standard_output_or_a_file(tmp_path, form, begins):
    write_study(tmp_path / "runs")
    code, out, _ = report(tmp_path / "runs", "--format", form)
    assert code == 0
    assert out.startswith(begins)
    code, _, _ = report(tmp_path / "runs", "--format", form, "--out", tmp_path / "t")
    assert (tmp_path / "t").read_text() == out


def test_json_alone_on_standard_output(tmp_path):
    write_study(tmp_path / "runs")
    code, out, _ = report(tmp_path / "runs", "--json", "--out", tmp_path / "r.html")
    data = json.loads(out)
    assert code == 0
    assert data["written"] == [str(tmp_path / "r.html")]
    assert data["rows"]


def test_figures(tmp_path):
    write_study(tmp_path / "runs", seeds=2)
    code, out, err = report(
        tmp_path / "runs", "--out", tmp_path / "r.html", "--figures", tmp_path / "figures"
    )
    assert code == 0, err
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    expected = {"learning-curves", "maximum-scores", "normalised-by-dqn", "profiles-by-dqn"}
    expected |= {"intervals-by-dqn", "ablation-by-dqn", "improvement-m-dqn-over-dqn", "action-gap"}
    expected |= {"improvement-adam-dqn-over-dqn", "improvement-m-dqn-over-adam-dqn"}
    assert names == {name + suffix for name in expected for suffix in (".png", ".svg")}
    assert f"figures: {len(names)} files" in out


def test_figures_are_no_report(tmp_path):
    write_study(tmp_path / "runs")
    code, out, _ = report(tmp_path / "runs", "--format", "md", "--figures", tmp_path / "figures")
    assert code == 0
    assert "report:" not in out


def test_the_first_row_of_a_run(tmp_path):
    """What a newcomer looks at: one iteration, stopped; a point, no NaN and no warning."""
    run = write_run(tmp_path / "run", [[3.0]], status=None)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"steps": 100_000}))
    figures = tmp_path / "figures"
    code, out, err = report(run, "--out", tmp_path / "r.html", "--figures", figures)
    assert code == 0
    assert "nan" not in (out + (tmp_path / "r.html").read_text()).lower().replace("finance", "")
    assert "warning" not in err
    assert "was stopped at 1,000 of 100,000 steps" in err
    assert "fewer than 5 iterations on minatar/breakout" in err
    assert (figures / "learning-curves.png").exists()


def test_a_baseline_is_offered_only_if_it_is_there(tmp_path):
    write_study(tmp_path / "runs")
    code, _, err = report(tmp_path / "runs", "--baseline", "nobody")
    assert code == 2
    assert "human" not in err


def test_baselines_and_lengths_can_be_chosen(tmp_path):
    write_study(tmp_path / "runs")
    code, out, _ = report(
        *(tmp_path / "runs", "--baseline", "adam-dqn,dqn", "--at", "4000", "--last", "1"),
        *("--format", "json"),
    )
    assert code == 0
    rows = json.loads(out)["rows"]
    assert {r["baseline"] for r in rows} == {"adam-dqn", "dqn", ""}
    final = next(r for r in rows if r["agent"] == "m-dqn" and r["measure"] == "final")
    assert final["value"] == pytest.approx(12, abs=1)  # 30 × 0.4, at the fourth of ten iterations


def test_what_is_left_out_is_said(tmp_path):
    write_study(tmp_path / "runs")
    short = write_run(tmp_path / "runs" / "short", [[1, 2, 3]], agent="m-dqn", first_seed=9)
    path = short / RECORDS
    path.write_bytes(path.read_bytes()[:-9])
    code, _, err = report(tmp_path / "runs", "--out", tmp_path / "r.html")
    assert code == 0
    assert err.count("cut short") == 1
    assert "2,000 of 10,000 steps" in err
    page = (tmp_path / "r.html").read_text()
    assert page.count("dropped a last line that was cut short") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("EMPTY",), "no runs in"),
        (("EMPTY/nowhere",), "is not there"),
        (("RUNS", "--format", "pdf"), "unknown format 'pdf'"),
        (("RUNS", "--baseline", "m-dqm"), "did you mean 'm-dqn'"),
        (("RUNS", "--baseline", "human"), "no human score"),
        (("RUNS", "--at", "0"), "at least 1"),
        (("RUNS", "--last", "x"), "whole number"),
        (("RUNS", "--out", "EMPTY"), "name a file"),
        (("RUNS", "--out", "EMPTY/a/b.html"), "name a file"),
        (("RUNS/../notes.txt",), "neither a run's folder"),
        ((), "required"),
    ],
)
def test_mistakes_get_a_clear_word(tmp_path, arguments, said):
    write_study(tmp_path / "RUNS", games=["minatar/breakout"], seeds=1)
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    places = ("EMPTY", "RUNS")
    code, out, err = report(*(str(tmp_path / a) if a.startswith(places) else a for a in arguments))
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) <= 2
    assert sys.exc_info() == (None, None, None)


def test_some_agents_on_some_games(tmp_path):
    write_study(tmp_path / "runs")
    code, out, err = report(
        tmp_path / "runs", "--format", "md", "--agents", "M-DQN, dqn", "--games", "breakout"
    )
    assert code == 0
    assert "## dqn-normalised scores, 1 game" in out
    assert "| breakout |" in out
    assert "| asterix |" not in out
    assert "left out, as asked: adam-dqn, minatar/asterix" in out + err
    _, out, err = report(tmp_path / "runs", "--format", "md", "--agents", "m-dqn")
    assert "left out, as asked: dqn" in out + err


def test_an_agent_or_a_game_that_is_not_there(tmp_path):
    write_study(tmp_path / "runs")
    code, _, err = report(tmp_path / "runs", "--agents", "mdqn")
    assert code == 2
    assert "unknown agent 'mdqn'; did you mean 'm-dqn'" in err
    code, _, err = report(tmp_path / "runs", "--games", "brakout")
    assert code == 2
    assert "unknown game 'brakout'; did you mean 'breakout'" in err
    name = "dqn (envs=4, tau=0.1)"
    write_run(tmp_path / "runs" / "x", np.ones((3, 10)), agent=name, env="minatar/breakout")
    code, _, err = report(tmp_path / "runs", "--agents", name, "--games", "asterix")
    assert code == 2
    assert f"there are no runs of {name} on minatar/asterix" in err


def test_a_baseline_that_is_left_out(tmp_path):
    write_study(tmp_path / "runs")
    code, _, err = report(tmp_path / "runs", "--agents", "m-dqn,adam-dqn", "--baseline", "DQN")
    assert code == 2
    assert "the baseline dqn is left out by --agents; add it there" in err


def test_a_step_that_no_run_has(tmp_path):
    write_study(tmp_path / "runs")
    code, _, err = report(tmp_path / "runs", "--at", "99_999_999")
    assert code == 2
    assert "no run has 99,999,999 steps; the longest has" in err


def test_no_name_is_no_choice(tmp_path):
    write_study(tmp_path / "runs")
    code, _, err = report(tmp_path / "runs", "--agents", "")
    assert code == 2
    assert "unknown agent ''" in err


def test_what_cannot_be_read_is_left_out_and_said(tmp_path, monkeypatch):
    write_study(tmp_path / "runs")
    (tmp_path / "runs" / "locked").mkdir()
    scandir, records = os.scandir, run_records.read_records

    def refuse(path, *rest):
        if "locked" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path, *rest)

    def unreadable(path):
        if path.name == broken.name:
            raise PermissionError(13, "Permission denied", str(path))
        return records(path)

    broken = next(p.parent for p in sorted((tmp_path / "runs").rglob(RECORDS)))
    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(run_records, "read_records", unreadable)
    code, _, err = report(tmp_path / "runs", "--out", tmp_path / "r.html")
    assert code == 0
    assert "locked is left out: it cannot be read (Permission denied)" in err
    assert f"{broken} is left out: it cannot be read (Permission denied)" in err
