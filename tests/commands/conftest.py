"""A folder for bad input, and finished runs."""

import json
import shutil
from pathlib import Path

import pytest

from command_line import SMALL, munchausen
from munchausen._src.experiment.training import Training


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """An empty working folder, and no training should bad input get through."""

    def never(*_):
        raise AssertionError("the input was accepted and training began")

    monkeypatch.setattr(Training, "run", never)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run of five iterations, and what its command printed. Copy it to change it."""
    run = tmp_path_factory.mktemp("cli") / "run"
    result = munchausen("train", "m-dqn", *SMALL, "--steps", "2000", "--json", "--out", str(run))
    assert result.code == 0, result.err
    return run, result


@pytest.fixture
def run(trained, tmp_path):
    return Path(shutil.copytree(trained[0], tmp_path / "run"))


@pytest.fixture(scope="module")
def lanes(tmp_path_factory):
    run = tmp_path_factory.mktemp("lanes") / "run"
    options = ("--seeds", "2", "--steps", "800", *SMALL, "--out", str(run), "--json")
    result = munchausen("train", "adam-dqn,m-dqn", *options)
    assert result.code == 0, result.err
    return run, json.loads(result.out)
