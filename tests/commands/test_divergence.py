"""A training that goes wrong stops, says where and keeps what was good."""

import json
import re

import numpy as np
import pytest

from command_line import CARTPOLE, munchausen
from munchausen import Agent
from munchausen._src.experiment.checkpoint import list_checkpoints, read_arrays


class TestDivergence:
    @pytest.fixture(scope="class")
    @staticmethod
    def diverged(tmp_path_factory):
        run = tmp_path_factory.mktemp("diverged") / "run"
        options = (*CARTPOLE, "--steps", "1600", "--learning-rate", "1e30")
        return run, munchausen("train", *options, "--out", str(run))

    def test_says_where_and_what_to_try(self, diverged):
        run, result = diverged
        assert result.code == 1
        assert "Traceback" not in result.err
        line = result.err.strip().splitlines()[-1]
        # The first update is after step 404: its own loss is finite, a later one's is not.
        step = re.search(r"the (loss|Q-value) is (inf|nan) at step ([\d,]+)", line)
        assert step, line
        assert step[3] == "408"
        assert "--learning-rate" in line
        assert str(run) in line

    def test_the_result_says_so(self, diverged):
        run, _ = diverged
        result = json.loads((run / "result.json").read_text())
        assert result["status"] == "diverged"
        assert "at step 408" in result["error"]

    def test_the_last_good_checkpoint_is_kept(self, diverged):
        run, _ = diverged
        counters, _ = read_arrays(list_checkpoints(run)[-1])
        assert counters["step"] == 400
        assert np.isfinite(Agent.load(run).q_values(np.ones(4))).all()

    def test_before_the_first_checkpoint(self, tmp_path):
        run = tmp_path / "run"
        options = (*CARTPOLE, "--iteration-steps", "800", "--learning-rate", "1e30")
        result = munchausen("train", *options, "--steps", "1600", "--out", str(run))
        assert result.code == 1
        assert list_checkpoints(run) == []
        assert "checkpoint is kept" not in result.err

    def test_by_the_last_update_before_a_checkpoint(self, tmp_path):
        """One update before the checkpoint at 800: its loss is finite, but without ε Adam makes
        NaN (0/0) of every weight that had no gradient."""
        run = tmp_path / "run"
        options = (*CARTPOLE, "--warmup-steps", "796", "--optimizer-eps", "0", "--steps", "1600")
        result = munchausen("train", *options, "--out", str(run))
        assert result.code == 1
        assert list_checkpoints(run) != []
        assert np.isfinite(Agent.load(run).q_values(np.ones(4))).all()


# Munchausen RL, appendix B, and Dopamine's configurations:
# head, α, τ, n-step, replay, optimiser, learning rate.
