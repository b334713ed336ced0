"""Trackers: the rows of the records, each once, whatever happened to the run."""

import errno
import io
import json
import sys
import types
import warnings
from contextlib import redirect_stderr, redirect_stdout

import pytest

from munchausen._src import cli
from munchausen._src.errors import StorageError, UserError
from munchausen._src.experiment import trackers
from munchausen._src.experiment.records import RECORDS, read_records
from munchausen._src.experiment.trackers import check_tracker, open_tracker

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of TensorBoard's own imports
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

SMALL = [
    *("--env", "gym/CartPole-v1", "--envs", "4", "--capacity", "4000", "--warmup-steps", "400"),
    *("--iteration-steps", "400", "--checkpoint-seconds", "0", "--network", "mlp-small"),
    *("--batch-size", "16"),
]


def row(step, seed=0, **values):
    return {"env": "e", "agent": "m-dqn", "seed": seed, "iteration": 1, "step": step, **values}


def points(folder):
    """All (step, tag, value) of a folder's event files."""
    found = []
    for path in sorted(folder.iterdir()):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                number = value.simple_value or sum(value.tensor.float_val)
                found.append((event.step, value.tag, number))
    return found


def munchausen(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.main(list(arguments))
    return code, out.getvalue(), err.getvalue()


def test_tensorboard_gets_the_numbers_of_each_lane(tmp_path):
    tracker = open_tracker("tensorboard", tmp_path, {}, [])
    tracker.append([row(10, score=None, loss=0.5, episodes=3), row(10, seed=1, score=2.0)])
    tracker.append([row(20, score=1.0, loss=0.25)])
    tracker.close()
    folder = tmp_path / trackers.FOLDER
    assert points(folder / "m-dqn_seed0") == [
        (10, "loss", 0.5),
        (10, "episodes", 3.0),
        (20, "score", 1.0),
        (20, "loss", 0.25),
    ]
    assert points(folder / "m-dqn_seed1") == [(10, "score", 2.0)]


def test_a_resumed_training_has_each_point_once(tmp_path):
    """Rows behind the checkpoint are taken again, and their points with them."""
    run = tmp_path / "r"
    code, _, err = munchausen(
        "train", "dqn", *SMALL, "--steps", "1200", "--out", str(run), "--track", "tensorboard"
    )
    assert code == 0, err
    # As if it had been killed after rows that no checkpoint vouches for.
    with open(run / RECORDS, "a") as file:
        file.write(json.dumps(row(99_999, score=1.0)) + "\n")
    stale = open_tracker("tensorboard", run, {}, read_records(run))
    stale.close()
    assert (99_999, "score", 1.0) in points(run / trackers.FOLDER / "m-dqn_seed0")
    code, _, err = munchausen(
        *("train", "--resume", "--out", str(run), "--steps", "2000", "--track", "tensorboard")
    )
    assert code == 0, err
    assert [path.name for path in (run / trackers.FOLDER).iterdir()] == ["dqn_seed0"]
    tracked = [p for p in points(run / trackers.FOLDER / "dqn_seed0") if p[1] == "episodes_total"]
    records = [(r["step"], "episodes_total", float(r["episodes_total"])) for r in read_records(run)]
    assert tracked == records
    assert [step for step, _, _ in tracked] == [400, 800, 1200, 1600, 2000]


class FakeService(types.ModuleType):
    """What both services offer: `init` gives a run with `log` and `finish`."""

    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = types.SimpleNamespace()
        self.options, self.logged, self.finished = [], [], 0

    def init(self, **options):
        self.options.append(options)
        return self

    def log(self, values, step):
        self.logged.append((step, values))

    def finish(self):
        self.finished += 1


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_services_get_nothing_twice(tmp_path, monkeypatch, name):
    service = FakeService(name)
    monkeypatch.setitem(sys.modules, name, service)
    config = {"lanes": [{"agent": "m-dqn", "seed": 0}, {"agent": "m-dqn", "seed": 1}]}
    tracker = open_tracker(name, tmp_path, config, [])
    tracker.append([row(10, score=1.0), row(10, seed=1, score=2.0)])
    tracker.append([row(20, score=3.0)])
    tracker.close()
    # Cut, and resumed from step 10: the row at 20 is made again.
    again = open_tracker(name, tmp_path, config, [row(10, score=1.0)])
    again.append([row(20, score=3.0)])
    again.append([row(30, score=4.0)])
    again.close()
    assert service.logged == [
        (10, {"m-dqn_seed0/score": 1.0, "m-dqn_seed1/score": 2.0}),
        (20, {"m-dqn_seed0/score": 3.0}),
        (30, {"m-dqn_seed0/score": 4.0}),
    ]
    assert service.finished == 2
    first, second = service.options
    assert first == second
    assert first["resume"] == "allow"


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio"])
def test_a_tracker_that_is_not_installed(monkeypatch, tmp_path, name):
    monkeypatch.setattr(trackers, "find_spec", lambda _: None)
    run = tmp_path / "r"
    code, out, err = munchausen("train", *SMALL, "--out", str(run), "--track", name)
    assert (code, out) == (2, "")
    assert trackers.INSTALL[name] in err
    assert not run.exists()


def test_an_unknown_tracker():
    with pytest.raises(UserError, match="did you mean 'tensorboard'"):
        check_tracker("tensorbord")


def test_a_damaged_state_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", FakeService("wandb"))
    (tmp_path / trackers.STATE).write_text("{")
    with pytest.raises(UserError, match="damaged"):
        open_tracker("wandb", tmp_path, {}, [])


def test_a_service_that_is_gone_is_not_a_full_disk(tmp_path, monkeypatch):
    service = FakeService("wandb")
    monkeypatch.setitem(sys.modules, "wandb", service)
    tracker = open_tracker("wandb", tmp_path, {}, [])

    def log(*_, **__):
        raise ConnectionResetError("gone")

    service.log = log
    with pytest.raises(ConnectionResetError):
        tracker.append([row(10, score=1.0)])


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_full_disk_is_one(tmp_path, monkeypatch, name):
    if name == "wandb":
        monkeypatch.setitem(sys.modules, name, FakeService(name))
    tracker = open_tracker(name, tmp_path, {}, [])
    monkeypatch.setattr("pathlib.Path.mkdir", full)
    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(StorageError, match="No space left"):
        tracker.append([row(10, score=1.0)])


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")
