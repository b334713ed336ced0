"""Faults that are not a kill: full disks, crafted files, other runs' checkpoints, clocks."""

import datetime
import hashlib
import json
import pickle
import resource
import shutil
import signal
import struct
import time
from itertools import count
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from safetensors.numpy import load_file, save_file

from munchausen._src import cli
from munchausen._src.errors import StorageError, TrainingDiverged, UserError
from munchausen._src.experiment import checkpoint, folder, segments
from munchausen._src.experiment.accounting import LaneAccount, check_finite
from munchausen._src.experiment.checkpoint import (
    DamagedCheckpoint,
    list_checkpoints,
    read_arrays,
    read_latest,
)
from munchausen._src.experiment.policy import load_run
from munchausen._src.experiment.records import RECORDS, RecordWriter, read_records
from munchausen._src.experiment.settings import make_settings
from munchausen._src.experiment.training import Training, make_loop
from munchausen._src.loops.chunk import Chunk
from munchausen._src.loops.host import HostLoop

ITERATION_STEPS = 400


def small(steps: int, agent: str = "m-dqn", env: str = "gym/CartPole-v1", seed: int = 0):
    changes = {
        "envs": 4,
        "network": "mlp-small",
        "warmup_steps": 400,
        "capacity": 2000,
        "batch_size": 16,
    }
    return make_settings(
        [agent],
        env,
        steps=steps,
        seeds=[seed],
        changes=changes,
        iteration_steps=ITERATION_STEPS,
        checkpoint_seconds=0.0,
    )


def train(settings, run: Path, *, resume: bool = False, watch=lambda _: None) -> Training:
    opened = folder.reopen(run, settings) if resume else folder.create(run, settings)
    training = Training(settings, opened)
    try:
        training.start()
        training.run(watch)
    finally:
        training.close()
    return training


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run = tmp_path_factory.mktemp("survival") / "run"
    train(small(800), run)
    return run


@pytest.fixture
def run(trained, tmp_path):
    return Path(shutil.copytree(trained, tmp_path / "run"))


def steps_of(run: Path) -> list[int]:
    return [row["step"] for row in read_records(run)]


class TestFullDisk:
    """The limit on a file's size stands for the disk: the same call fails the same way, after a
    part of the file was written."""

    @pytest.fixture
    @staticmethod
    def limit():
        """No program is kept meanwhile: half of one would be found by the tests that follow."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()

        def set_limit(size: int) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

        yield set_limit
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        jax.config.update("jax_enable_compilation_cache", True)
        compilation_cache.reset_cache()

    def test_during_a_checkpoint(self, run, limit):
        """Records still fit, the checkpoint does not."""
        good = read_arrays(list_checkpoints(run)[-1])

        def watch(progress):
            if progress.step == 1200:
                limit((run / RECORDS).stat().st_size + 4000)

        with pytest.raises(StorageError, match=r"cannot write to .*too large.*--resume"):
            train(small(1600), run, resume=True, watch=watch)
        limit(resource.RLIM_INFINITY)
        counters, arrays = read_arrays(list_checkpoints(run)[-1])
        assert counters == good[0]
        assert all(np.array_equal(arrays[name], good[1][name]) for name in good[1])
        # With room again it goes on, and no row is there twice.
        train(small(1600), run, resume=True)
        assert steps_of(run) == [400, 800, 1200, 1600]

    def test_during_a_record(self, run, limit):
        size = (run / RECORDS).stat().st_size

        def watch(progress):
            if progress.step == 1200:
                limit(size + 10)

        with pytest.raises(StorageError, match="cannot write to"):
            train(small(1600), run, resume=True, watch=watch)
        limit(resource.RLIM_INFINITY)
        assert (run / RECORDS).stat().st_size == size + 10  # a torn line, of this very fault
        train(small(1600), run, resume=True)
        assert steps_of(run) == [400, 800, 1200, 1600]

    def test_the_command_line_says_so_and_fails(self, run, limit, capsys):
        limit((run / RECORDS).stat().st_size + 4000)
        assert cli.main(["train", "--resume", "--out", str(run), "--steps", "1600"]) == 1
        limit(resource.RLIM_INFINITY)
        err = capsys.readouterr().err
        assert "munchausen: cannot write to" in err
        assert "Traceback" not in err

    def test_when_closing_fails_too(self, tmp_path, limit):
        """What is still in the buffer is written again when the file is closed."""
        writer = RecordWriter(tmp_path)
        limit(10)
        with pytest.raises(OSError, match="too large"):
            writer.append([{"step": 10**20}])
        writer.close()

    @pytest.mark.parametrize("room", (10, 10_000))
    def test_at_the_start_or_while_the_curve_is_drawn(self, run, limit, capsys, room):
        """One line; the run is done, and asked again it draws the curve."""
        limit(room)
        code = cli.main(["train", "--resume", "--out", str(run)])
        limit(resource.RLIM_INFINITY)
        said = capsys.readouterr().err
        assert code == 1
        assert said.strip().splitlines()[-1].startswith(f"munchausen: cannot write to {run}: ")
        assert "Traceback" not in said
        assert cli.main(["train", "--resume", "--out", str(run)]) == 0
        assert (run / "curve.png").stat().st_size > 1000


def test_an_error_of_the_environment_is_not_a_full_disk(run, monkeypatch):
    def lost(*_):
        raise ConnectionResetError("the simulator is gone")

    monkeypatch.setattr(HostLoop, "advance", lost)
    with pytest.raises(ConnectionResetError, match="the simulator is gone"):
        train(small(1600), run, resume=True)


class TestAnotherRun:
    """A checkpoint that is whole but of another run, put in place of ours."""

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ({"agent": "adam-dqn"}, "its agent is adam-dqn, this run's is m-dqn"),
            ({"agent": "iqn"}, "its agent is iqn, this run's is m-dqn"),
            ({"env": "gym/Acrobot-v1"}, "its env is gym/Acrobot-v1, this run's is gym/CartPole-v1"),
            ({"seed": 7}, r"its seeds is \[7\], this run's is \[0\]"),
        ],
        ids=["same network", "another network", "another game and action count", "another seed"],
    )
    def test_is_refused_by_the_field(self, run, tmp_path, other, said):
        train(small(ITERATION_STEPS, **other), tmp_path / "other")
        shutil.rmtree(run / checkpoint.CHECKPOINTS)
        shutil.copytree(tmp_path / "other" / checkpoint.CHECKPOINTS, run / checkpoint.CHECKPOINTS)
        before = (run / RECORDS).read_bytes()
        with pytest.raises(UserError, match=said):
            train(small(1600), run, resume=True)
        assert (run / RECORDS).read_bytes() == before


def vouch(place: Path, **changes) -> None:
    """A manifest whose every hash is right, as anybody can make one."""
    manifest = json.loads((place / checkpoint.MANIFEST).read_text())
    manifest.pop("sha256")
    manifest |= changes
    manifest["files"] = {
        checkpoint.STATE: hashlib.sha256((place / checkpoint.STATE).read_bytes()).hexdigest()
    }
    manifest["sha256"] = checkpoint._manifest_hash(manifest)
    (place / checkpoint.MANIFEST).write_text(json.dumps(manifest))


HUGE = b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4]}}'


class TestCrafted:
    """Files made to harm. Hashes keep out accidents, not people: theirs are right."""

    @pytest.fixture(scope="class")
    @staticmethod
    def shapes():
        loop = make_loop(small(800))
        yield jax.eval_shape(lambda: loop.snapshot(loop.init()))
        loop.close()

    def falls_back(self, run: Path, shapes, match: str) -> None:
        with pytest.warns(UserWarning, match=match):
            found = read_latest(run, shapes)
        assert found.counters["step"] == 400

    @pytest.mark.parametrize(
        "state",
        [
            struct.pack("<Q", 2**63) + b"{}",
            struct.pack("<Q", 2**40) + b"{}",
            struct.pack("<Q", 300_000_000) + b"{" * 1000,
            struct.pack("<Q", 62)
            + b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4]}}',
            b"PK\x03\x04" + bytes(100),
            pickle.dumps({"a": 1}),
            b"",
        ],
        ids=["2^63", "2^40", "nested", "huge shape", "zip", "pickle", "empty"],
    )
    def test_a_state_that_is_none(self, run, shapes, state):
        place = list_checkpoints(run)[-1]
        (place / checkpoint.STATE).write_bytes(state)
        vouch(place)
        self.falls_back(run, shapes, "is damaged")

    def test_names_of_leaves_are_no_paths(self, run, shapes, tmp_path):
        """A tensor named ../../x is a tensor that nobody asks for."""
        place = list_checkpoints(run)[-1]
        arrays = load_file(place / checkpoint.STATE)
        save_file(arrays | {"../../../escaped": np.zeros(3)}, place / checkpoint.STATE)
        vouch(place)
        before = {p for p in tmp_path.rglob("*") if run not in p.parents and p != run}
        assert read_latest(run, shapes).counters["step"] == 800
        assert {p for p in tmp_path.rglob("*") if run not in p.parents and p != run} == before

    @pytest.mark.parametrize(
        "counters",
        [
            {},
            {"step": "x"},
            {"step": -1, "seconds": 0, "accounts": [], "records_bytes": 0},
            {"step": 1, "seconds": 0, "accounts": [{}, {}], "records_bytes": 0},
        ],
    )
    def test_counters_that_are_none(self, run, counters):
        vouch(list_checkpoints(run)[-1], counters=counters)
        with pytest.raises(UserError, match="counters"):
            train(small(1200), run, resume=True)

    def test_counters_that_are_no_table(self, run, shapes):
        vouch(list_checkpoints(run)[-1], counters=[])
        self.falls_back(run, shapes, "counters")

    def test_a_manifest_nested_without_end(self, run, shapes):
        (list_checkpoints(run)[-1] / checkpoint.MANIFEST).write_text("[" * 100_000)
        self.falls_back(run, shapes, "is damaged")

    @pytest.mark.parametrize("size", [2**45, 2**63], ids=["32 TB", "2^63"])
    def test_a_block_that_unfolds_to_more_than_there_is(self, tmp_path, size):
        """A Zstandard frame says how large it gets; that much is taken before it is read."""
        descriptor = 0b11100000  # eight bytes of size, one segment
        frame = b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + struct.pack("<Q", size) + b"\1\0\0"
        path = tmp_path / "rows-000000000000.zst"
        path.write_bytes(frame)
        with pytest.raises(ValueError, match="larger than a block"):
            segments.read_block(path, hashlib.sha256(frame).hexdigest(), 2**30)

    @pytest.mark.parametrize("first", ["../../../x", None, 2**70, [1], -5])
    def test_blocks_are_found_by_number_alone(self, tmp_path, first):
        place = tmp_path / "step-000000000001"
        place.mkdir()
        manifest = {"replay": {"rows": 1, "full": [[first, "00"]], "tail": []}}
        with pytest.raises(DamagedCheckpoint):
            list(checkpoint._read_blocks(place, manifest, 2**20))
        assert [p.name for p in tmp_path.rglob("*")] == [place.name]


def test_a_damaged_checkpoint_is_not_played(run):
    """One flipped bit: whoever plays the run plays the checkpoint before it, and is told."""
    newest = list_checkpoints(run)[-1]
    data = bytearray((newest / checkpoint.STATE).read_bytes())
    data[-1] ^= 1
    (newest / checkpoint.STATE).write_bytes(data)
    with pytest.warns(UserWarning, match=rf"{newest.name}.*altered; trying the one before it"):
        assert load_run(run).step == 400


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize(("field", "said"), [("loss", "loss"), ("q", "Q-value")])
def test_the_first_bad_number_is_named_with_its_step(field, said, value):
    """Values can overflow while the loss, which clips errors, is still finite."""
    settings = small(800)
    numbers = {name: np.ones((1, 5), np.float32) for name in ("loss", "q", "action_gap", "entropy")}
    numbers[field][0, 2:] = value
    step = 800 - 2 * settings.config.update_period_steps
    with pytest.raises(
        TrainingDiverged, match=f"m-dqn seed 0: the {said} is {value} at step {step};"
    ):
        check_finite(Chunk(episodes=[], **numbers), settings, 800)


def test_the_clock_jumps_backwards(tmp_path, monkeypatch):
    """An hour back at every look: rows stay in order, durations positive, checkpoints in turn."""
    hours = count()

    def jumping() -> float:
        return 1_700_000_000.0 - 3600 * next(hours)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(jumping(), tz)

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr(time, "time_ns", lambda: int(jumping() * 1e9))
    monkeypatch.setattr(datetime, "datetime", Clock)
    run = tmp_path / "run"
    speeds = []
    train(small(800), run, watch=lambda p: speeds.append(p.steps_per_second))
    train(small(1600), run, resume=True, watch=lambda p: speeds.append(p.steps_per_second))
    rows = read_records(run)
    assert [row["step"] for row in rows] == [400, 800, 1200, 1600]
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    assert all(row["steps_per_second"] > 0 for row in rows)
    assert min(speeds) >= 0
    assert [p.name for p in list_checkpoints(run)] == ["step-000000001200", "step-000000001600"]
    lines = (run / "machine.jsonl").read_text().splitlines()
    started = [json.loads(line)["started"] for line in lines]
    assert started == sorted(started, reverse=True)  # the clock did jump


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_has_its_own_exit_code(run, monkeypatch, capsys, number):
    add = LaneAccount.add

    def add_and_signal(*args):
        signal.raise_signal(number)
        return add(*args)

    monkeypatch.setattr(LaneAccount, "add", add_and_signal)
    assert cli.main(["train", "--resume", "--out", str(run), "--steps", "4000"]) == 128 + number
    assert f"stopped by {number.name} at step 1,200" in capsys.readouterr().err
    assert list_checkpoints(run)[-1].name == "step-000000001200"


def test_a_kill_before_the_configuration_was_written(tmp_path):
    """The folder of a run that never began is no obstacle to it."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "lock").touch()
    (run / "config.json.writing").write_text('{"env": "gym')
    train(small(400), run)
    assert steps_of(run) == [400]
    assert not (run / "config.json.writing").exists()
