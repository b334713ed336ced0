"""`munchausen train` and `evaluate`, as a user meets them: what they print, write and return."""

import errno
import json
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from command_line import CARTPOLE, SMALL, assert_refused, assert_refused_late, munchausen
from munchausen import Agent
from munchausen._src.agents.config import FIELDS
from munchausen._src.commands import evaluate as evaluate_command
from munchausen._src.experiment.checkpoint import list_checkpoints, read_arrays
from munchausen._src.experiment.records import read_records
from munchausen._src.experiment.settings import REGULARISER

COLUMNS = {
    *("env", "agent", "seed", "iteration", "step"),
    *("score", "score_100", "episodes", "episodes_total", "episode_length"),
    *("loss", "q", "action_gap", "entropy", "updates_total"),
    *("steps_per_second", "seconds"),
}


class TestTraining:
    def test_last_line_is_json(self, trained):
        run, result = trained
        line = result.out.splitlines()[-1]
        assert result.out == line + "\n"  # and nothing else is on standard output
        summary = json.loads(line)
        assert summary["run"] == str(run)
        assert summary["agent"] == "m-dqn"
        assert summary["env"] == "minatar/asterix"
        assert summary["steps"] == 2000
        assert summary["episodes"] > 0
        assert summary["score"] >= 0
        assert summary["steps_per_second"] > 0
        assert summary["lanes"] == [{"agent": "m-dqn", "seed": 0, "score": summary["score"]}]
        assert json.loads((run / "result.json").read_text()) == {"status": "finished", **summary}

    def test_curve_is_a_png(self, trained):
        run, _ = trained
        assert (run / "curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

    def test_records(self, trained):
        run, result = trained
        rows = read_records(run)
        assert all(row.keys() == COLUMNS for row in rows)
        assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5]
        assert [row["step"] for row in rows] == [400, 800, 1200, 1600, 2000]
        assert {(r["env"], r["agent"], r["seed"]) for r in rows} == {
            ("minatar/asterix", "m-dqn", 0)
        }
        # An update every 4 steps once the 400 of the warm-up are over.
        assert [row["updates_total"] for row in rows] == [0, 100, 200, 300, 400]
        assert [row["loss"] is None for row in rows] == [True, False, False, False, False]
        summary = json.loads(result.out)
        assert rows[-1]["episodes_total"] == summary["episodes"]
        assert rows[-1]["episodes_total"] == sum(row["episodes"] for row in rows)
        assert rows[-1]["score_100"] == summary["score"]

    def test_folder(self, trained):
        run, _ = trained
        config = json.loads((run / "config.json").read_text())
        assert config["env"] == "minatar/asterix"
        assert config["config"].keys() | set(REGULARISER) == FIELDS.keys()
        assert set(REGULARISER) < config["lanes"][0].keys()
        assert config["config"]["capacity"] == 4000
        assert [place.name for place in list_checkpoints(run)] == [
            "step-000000001600",
            "step-000000002000",
        ]

    def test_evaluate_all_lanes(self, tmp_path):
        run = str(tmp_path / "run")
        two = ("train", "adam-dqn,m-dqn", *CARTPOLE, "--seeds", "2", "--steps", "400", "--out", run)
        assert munchausen(*two).code == 0
        result = munchausen("evaluate", run, "--episodes", "2", "--lane", "all", "--json")
        lanes = json.loads(result.out)["lanes"]
        named = [(lane["lane"], lane["agent"], lane["seed"]) for lane in lanes]
        assert named == [(0, "adam-dqn", 0), (1, "adam-dqn", 1), (2, "m-dqn", 0), (3, "m-dqn", 1)]
        alone = munchausen("evaluate", run, "--episodes", "2", "--lane", "2", "--json")
        assert json.loads(alone.out) == lanes[2]
        said = munchausen("evaluate", run, "--episodes", "2", "--lane", "all").out
        mean = (lanes[2]["mean"] + lanes[3]["mean"]) / 2
        assert f"m-dqn, 2 seeds: mean return {mean:.2f}" in said
        first = munchausen("evaluate", run, "--episodes", "2").out
        assert "with adam-dqn seed 0, lane 0 (--lane all or another number)" in first

    def test_evaluate(self, trained):
        run, _ = trained
        result = munchausen("evaluate", str(run), "--episodes", "5", "--epsilon", "1", "--json")
        assert result.code == 0, result.err
        report = json.loads(result.out)
        assert (report["agent"], report["env"]) == ("m-dqn", "minatar/asterix")
        assert (report["step"], report["episodes"], report["epsilon"]) == (2000, 5, 1.0)
        assert report["min"] <= report["median"] <= report["max"]
        assert report["mean_length"] > 0
        assert_refused(
            munchausen("evaluate", str(run), "--lane", "1"),
            "has no lane 1; there are: 0 m-dqn seed 0",
        )

    def test_a_folder_that_cannot_be_written(self, trained, tmp_path, monkeypatch):
        """Somebody else's results, say."""
        run = tmp_path / "run"
        shutil.copytree(trained[0], run)
        (run / "lock").unlink()
        (run / "lock").mkdir()
        assert_refused(munchausen("train", "--resume", "--out", str(run)), "cannot write to")

        def refuse(*_):
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(evaluate_command, "write_action_gaps", refuse)
        result = munchausen("evaluate", str(run), "--episodes", "1", "--action-gaps", "--json")
        assert_refused_late(result, "cannot write to", "Read-only file system")

    def test_default_folder_is_free(self, tmp_path, monkeypatch):
        """Without --out a run goes under runs/, a second one beside it."""
        monkeypatch.chdir(tmp_path)
        arguments = ("train", *CARTPOLE, "--steps", "400", "--json")
        runs = [json.loads(munchausen(*arguments).out)["run"] for _ in range(2)]
        assert runs == ["runs/gym-CartPole-v1_m-dqn_seed0", "runs/gym-CartPole-v1_m-dqn_seed0_2"]
        assert all((tmp_path / run / "result.json").exists() for run in runs)

    def test_iterations_without_an_episode(self, tmp_path):
        """No warning of NumPy's reaches the user: warnings are errors here."""
        options = (*CARTPOLE, "--iteration-steps", "8", "--steps", "400")
        result = munchausen("train", *options, "--out", str(tmp_path / "run"))
        assert result.code == 0


class TestLanes:
    EXPECTED = [("adam-dqn", 0), ("adam-dqn", 1), ("m-dqn", 0), ("m-dqn", 1)]  # noqa: RUF012

    def test_agents_by_seeds(self, lanes):
        run, summary = lanes
        assert [(lane["agent"], lane["seed"]) for lane in summary["lanes"]] == self.EXPECTED
        assert summary["agent"] == "adam-dqn,m-dqn"
        rows = read_records(run)
        assert [(row["agent"], row["seed"]) for row in rows] == self.EXPECTED * 2
        assert summary["episodes"] == sum(row["episodes"] for row in rows)

    def test_they_are_different_runs(self, lanes):
        run, _ = lanes
        rows = read_records(run)[-4:]
        assert len({row["loss"] for row in rows}) == 4

    def test_each_can_be_loaded(self, lanes):
        run, _ = lanes
        observation = np.eye(10, dtype=bool)[..., None].repeat(4, -1)
        values = {tuple(Agent.load(run, lane=i).q_values(observation)) for i in (0, 3)}
        assert len(values) == 2


def test_sigterm_writes_a_checkpoint_and_exits_with_143(tmp_path):
    run = tmp_path / "run"
    options = (*SMALL, "--checkpoint-seconds", "1000", "--steps", "10_000_000", "--out", str(run))
    process = subprocess.Popen(
        [sys.executable, "-m", "munchausen", "train", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not read_whole_records(run):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert_refused(munchausen("train", "--resume", "--out", str(run)), "in use")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "stopped by SIGTERM at step" in err
    assert "Traceback" not in err
    assert f"munchausen train --resume --out {run}" in out
    [place] = list_checkpoints(run)
    step = read_arrays(place)[0]["step"]
    assert step % 400 == 0
    result = munchausen("train", "--resume", "--out", str(run), "--steps", str(step + 400))
    assert result.code == 0, result.err
    assert f"resumed at step {step:,}" in result.out
    assert [row["step"] for row in read_records(run)] == list(range(400, step + 401, 400))


def read_whole_records(run: Path) -> list:
    """The rows while another process writes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_records(run)
