"""A run's folder: who may write there, and going on with what is there."""

import fcntl
import json
import os
import warnings

import pytest

from command_line import SMALL, assert_refused, assert_refused_late, contents, munchausen
from munchausen._src.experiment.checkpoint import list_checkpoints
from munchausen._src.experiment.records import read_records


class TestFolder:
    """The folder given as --out, where it does not fit."""

    def test_already_a_run(self, run):
        before = contents(run)
        assert_refused(munchausen("train", "--out", str(run)), "already holds a run", "--resume")
        assert contents(run) == before

    def test_not_empty(self, empty):
        (empty / "thesis.tex").write_text("years of work")
        before = contents(empty)
        assert_refused(munchausen("train", "--out", str(empty)), "not empty", "--out")
        assert contents(empty) == before

    def test_a_file(self, empty):
        (empty / "out").write_text("")
        assert_refused(munchausen("train", "--out", "out"), "--out")
        assert_refused(munchausen("train", "--out", "out/run"), "out/run")
        assert contents(empty) == {"out": b""}

    def test_resume_no_run(self, empty):
        (empty / "thesis.tex").write_text("years of work")
        before = contents(empty)
        assert_refused(munchausen("train", "--resume", "--out", "."), "is no run", "config.json")
        assert contents(empty) == before

    @pytest.mark.parametrize("resume", [[], ["--resume"]])
    def test_in_use(self, run, resume):
        before = contents(run)
        with open(run / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert_refused(
                munchausen("train", *resume, "--out", str(run)), "in use", "munchausen train"
            )
        assert contents(run) == before

    @pytest.mark.parametrize(
        "config",
        [
            "",
            "{}",
            '{"env": "minatar/breakout"}',
            pytest.param(
                '{"config": []}',
            ),
        ],
    )
    def test_a_damaged_configuration(self, run, config):
        (run / "config.json").write_text(config)
        assert_refused(munchausen("evaluate", str(run)), "config.json cannot be read")
        assert_refused(munchausen("train", "--resume", "--out", str(run)), "config.json")


class TestResume:
    @pytest.mark.parametrize(
        ("asked", "field"),
        [
            (["--alpha", "0.3"], "alpha: the run has 0.9, you asked for 0.3"),
            (["--n-step", "3"], "n_step: the run has 1, you asked for 3"),
            (["--clip-min=-inf"], "clip_min: the run has -1.0, you asked for -inf"),
            (["adam-dqn"], "agent: the run has m-dqn, you asked for adam-dqn"),
            (["m-iqn"], "agent: the run has m-dqn, you asked for m-iqn"),
            (["m-dqn-stochastic"], "agent: the run has m-dqn"),
            (["m-dqn,adam-dqn"], "you asked for m-dqn, adam-dqn"),
            (["--env", "minatar/breakout"], "env: the run has minatar/asterix"),
            (["--seed", "1"], "seeds: the run has [0], you asked for [1]"),
            (["--seeds", "2"], "seeds: the run has [0], you asked for [0, 1]"),
            (["--iteration-steps", "800"], "iteration_steps: the run has 400"),
        ],
        ids=lambda x: " ".join(x) if isinstance(x, list) else "",
    )
    def test_another_configuration_is_refused_by_name(self, run, asked, field):
        before = contents(run)
        result = munchausen("train", *asked, "--resume", "--out", str(run))
        assert_refused(result, "cannot resume", field)
        assert contents(run) == before

    def test_unknown_names_as_ever(self, run):
        before = contents(run)
        resume = ("--resume", "--out", str(run))
        assert_refused(munchausen("train", "mdqn", *resume), "'m-dqn'")
        assert_refused(munchausen("train", "--alpha", "2", *resume), "alpha must be in [0, 1]")
        assert contents(run) == before

    def test_the_same_configuration_spelt_out(self, run):
        """A finished run has nothing left to do, and says what it came to."""
        records = (run / "records.jsonl").read_bytes()
        result = munchausen(
            *("train", "m-dqn", *SMALL, "--steps", "2000"),
            *("--alpha", "0.9", "--resume", "--out", str(run), "--json"),
        )
        assert result.code == 0, result.err
        assert "resumed at step 2,000" in result.err
        assert json.loads(result.out)["steps"] == 2000
        assert (run / "records.jsonl").read_bytes() == records

    def test_more_steps(self, run):
        rows = read_records(run)
        result = munchausen("train", "--resume", "--out", str(run), "--steps", "2400")
        assert result.code == 0, result.err
        after = read_records(run)
        assert after[:-1] == rows
        assert after[-1]["step"] == 2400
        assert json.loads((run / "config.json").read_text())["steps"] == 2400
        # Without --steps it means the longer run from now on.
        assert munchausen("train", "--resume", "--out", str(run)).code == 0
        assert read_records(run) == after

    def test_more_steps_that_are_no_whole_group(self, run):
        result = munchausen("train", "--resume", "--out", str(run), "--steps", "2003")
        assert result.code == 0
        assert read_records(run)[-1]["step"] == 2008

    def test_fewer_steps_are_refused_and_forgotten(self, run):
        before = contents(run)
        result = munchausen("train", "--resume", "--out", str(run), "--steps", "400")
        assert result.code == 2
        assert "is at step 2,000 already; ask for more --steps" in result.err
        assert munchausen("train", "--resume", "--out", str(run)).code == 0
        assert contents(run)["config.json"] == before["config.json"]

    def test_a_field_that_one_lane_has_already(self, lanes):
        run, _ = lanes  # adam-dqn, the first lane, has alpha 0; m-dqn has not
        result = munchausen("train", "--alpha", "0", "--resume", "--out", str(run))
        assert_refused(result, "alpha")

    def test_a_damaged_checkpoint_is_named_and_passed_over(self, run):
        newest = list_checkpoints(run)[-1]
        os.truncate(newest / "state.safetensors", 100)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            result = munchausen("train", "--resume", "--out", str(run), "--json")
        assert result.code == 0, result.err
        assert f"warning: {newest}/state.safetensors was cut or altered" in result.err
        assert "resumed at step 1,600" in result.err
        assert json.loads(result.out)["steps"] == 2000

    def test_no_checkpoint_is_whole(self, run):
        for place in list_checkpoints(run):
            (place / "manifest.json").unlink()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            resumed = munchausen("train", "--resume", "--out", str(run), "--json")
            evaluated = munchausen("evaluate", str(run))
        assert_refused_late(resumed, "no checkpoint of", "--out")
        assert_refused_late(evaluated, "no whole checkpoint")
