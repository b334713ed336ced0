"""A large replay in checkpoints: each block written once, read back to the same bits, refused
when altered, and a full disk loses nothing. Small rings are made large here."""

import errno
import hashlib
import json
import signal
import threading

import jax
import numpy as np
import pytest
import zstandard
from safetensors.numpy import load

from munchausen._src.errors import StorageError, UserError
from munchausen._src.experiment import checkpoint as checkpoints
from munchausen._src.experiment import segments
from munchausen._src.experiment.checkpoint import list_checkpoints, read_latest
from munchausen._src.experiment.folder import create, reopen
from munchausen._src.experiment.records import read_records
from munchausen._src.experiment.settings import make_settings
from munchausen._src.experiment.training import Training

CHANGES = {
    "network": "mlp-small",
    "capacity": 400,
    "warmup_steps": 100,
    "envs": 4,
    "batch_size": 8,
}


@pytest.fixture(autouse=True)
def _blocks_of_few_rows(monkeypatch):
    monkeypatch.setattr(segments, "LARGE_BYTES", 0)
    monkeypatch.setattr(segments, "BLOCK_BYTES", 9 * 4 * 2 * 4)  # 9 rows of 4 cars


def settings_for(steps):
    """MountainCar: cut at 200 steps, so environments do not stay in step with each other's
    rows for ever, and a resume cuts again."""
    return make_settings(
        ["m-dqn"],
        "gym/MountainCar-v0",
        seeds=[0],
        steps=steps,
        changes=CHANGES,
        iteration_steps=200,
        checkpoint_seconds=0.0,
    )


def train(folder, steps, *, resume=False, watch=lambda _: None):
    settings = settings_for(steps)
    training = Training(settings, (reopen if resume else create)(folder, settings))
    try:
        training.start()
        training.run(watch)
        # Copies: on a CPU an array may share its memory with a buffer that goes away.
        ring = jax.tree.map(np.array, training.loop.snapshot(training.state).lane.replay.ring)
    finally:
        training.close()
    return ring, training


def read(folder):
    """The ring as the newest whole checkpoint has it."""
    training = Training(settings_for(400))
    shapes = jax.eval_shape(lambda: training.loop.snapshot(training.loop.init()))
    saved = read_latest(folder, shapes, segmented=True)
    training.close()
    return saved


@pytest.mark.parametrize("steps", (200, 400, 800, 2_000))
def test_the_same_bits_come_back(tmp_path, steps):
    """Before the ring is full, at its wrap, and after several rounds."""
    ring, training = train(tmp_path / "run", steps)
    saved = read(tmp_path / "run")
    assert saved.counters["step"] == steps
    for name, mine, theirs in zip(ring._fields, ring, saved.state.lane.replay.ring, strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
    assert training.accounts[0].updates == (steps - 100) // 4


def test_full_blocks_are_written_once_and_old_ones_go(tmp_path, monkeypatch):
    written = []
    original = segments.SegmentWriter._write_full

    def spy(self, block):
        written.append(block.first)
        original(self, block)

    monkeypatch.setattr(segments.SegmentWriter, "_write_full", spy)
    train(tmp_path / "run", 2_000)
    assert written == list(range(0, 500 // 9 * 9, 9))  # 500 rows of each environment
    kept = sorted((tmp_path / "run" / "checkpoints" / "replay").iterdir())
    # The ring's 100 rows, the 50 before them that the last checkpoint but one still needs,
    # and the parts of a block at either end.
    assert 150 // 9 - 1 <= len(kept) <= 150 // 9 + 2


def test_a_resumed_run_writes_no_row_twice_and_none_is_lost(tmp_path):
    train(tmp_path / "run", 1_000)
    _, training = train(tmp_path / "run", 2_000, resume=True)
    rows = read_records(tmp_path / "run")
    assert [row["iteration"] for row in rows] == list(range(1, 11))
    assert [row["step"] for row in rows] == list(range(200, 2_001, 200))
    assert rows[-1]["updates_total"] == training.accounts[0].updates == (2_000 - 100) // 4
    ring = read(tmp_path / "run").state.lane.replay.ring
    assert (np.asarray(ring.head) >= 500).all()


def newest_and_before(folder):
    before, newest = list_checkpoints(folder)
    return newest, before


@pytest.mark.parametrize("harm", ("cut", "flip", "gone", "pickle"))
def test_a_harmed_tail_falls_back_to_the_checkpoint_before(tmp_path, harm):
    train(tmp_path / "run", 1_000)
    newest, before = newest_and_before(tmp_path / "run")
    tail = next(newest.glob("tail-*"))
    data = bytearray(tail.read_bytes())
    if harm == "cut":
        tail.write_bytes(data[: len(data) // 2])
    elif harm == "flip":
        data[len(data) // 2] ^= 4
        tail.write_bytes(data)
    elif harm == "gone":
        tail.unlink()
    else:
        tail.write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR.")
    with pytest.warns(UserWarning, match="trying the one before it"):
        saved = read(tmp_path / "run")
    assert saved.counters["step"] == int(before.name.removeprefix("step-")) < 1_000


def test_a_harmed_block_is_named(tmp_path):
    """One that both checkpoints need: nothing whole is left, and the file is named."""
    train(tmp_path / "run", 1_000)
    newest, before = newest_and_before(tmp_path / "run")
    first = json.loads((before / "manifest.json").read_text())["replay"]["full"][-1][0]
    block = newest.parent / "replay" / f"rows-{first:012d}.zst"
    data = bytearray(block.read_bytes())
    data[-1] ^= 1
    block.write_bytes(data)
    with (
        pytest.warns(UserWarning, match=f"rows-{first:012d}.zst was cut or altered"),
        pytest.raises(UserError, match=r"no checkpoint of .* is whole"),
    ):
        read(tmp_path / "run")


@pytest.mark.parametrize("dtype", ("uint8", "bool", "float32"))
def test_a_block_is_safetensors_compressed(tmp_path, dtype):
    """Its header is written here: the library reads it, each kind of frame, and says the same."""
    random = np.random.default_rng(0)
    arrays = {
        "frames": random.integers(0, 2, (1, 3, 5, 7, 7)).astype(dtype),
        "actions": random.integers(0, 9, (1, 3, 5), dtype=np.int32),
        "rewards": random.normal(size=(1, 5, 3)).astype(np.float32).swapaxes(1, 2),
        "kinds": random.integers(0, 3, (1, 3, 5), dtype=np.uint8),
    }
    digest = segments.write_block(tmp_path / "block", segments.Block(0, arrays))
    compressed = (tmp_path / "block").read_bytes()
    data = zstandard.ZstdDecompressor().decompress(compressed)
    assert zstandard.frame_content_size(compressed) == len(data)
    for read in (segments.read_block(tmp_path / "block", digest), load(data)):
        assert read.keys() == arrays.keys()
        for name, expected in arrays.items():
            np.testing.assert_array_equal(read[name], expected, strict=True)


@pytest.mark.parametrize("where", ("block", "checkpoint"))
def test_a_full_disk_stops_cleanly_and_the_checkpoint_before_stays(tmp_path, monkeypatch, where):
    """Training stops with one line; made room, it resumes and ends."""
    calls = 0
    module = segments if where == "block" else checkpoints
    name = "write_block" if where == "block" else "save_file"
    original = getattr(module, name)

    def full(*arguments):
        nonlocal calls
        calls += 1
        if calls > 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*arguments)

    monkeypatch.setattr(module, name, full)
    with pytest.raises(StorageError, match=r"No space left on device.*--resume"):
        train(tmp_path / "run", 20_000)
    monkeypatch.setattr(module, name, original)
    step = read(tmp_path / "run").counters["step"]
    assert 0 < step < 20_000
    _, training = train(tmp_path / "run", step + 400, resume=True)
    assert training.step == step + 400
    steps = [row["step"] for row in read_records(tmp_path / "run")]
    assert steps == sorted(set(steps))


def test_a_full_disk_at_a_stop_is_said(tmp_path, monkeypatch):
    """The last checkpoint is written in the background: a stop must not outrun its failure."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def stop(progress):
        if progress.step >= 400 and not progress.compiling:
            monkeypatch.setattr(checkpoints, "save_file", full)
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StorageError, match="No space left on device"):
        train(tmp_path / "run", 20_000, watch=stop)


def test_after_a_failure_nothing_more_is_written(tmp_path):
    """What failed is a gap; a checkpoint written after it would name blocks that are not there."""
    training = Training(settings_for(400))
    shapes = jax.eval_shape(lambda: training.loop.snapshot(training.loop.init()))
    training.close()
    writer = segments.SegmentWriter(tmp_path, shapes.lane.replay.ring, [])
    queued, written = threading.Event(), []

    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    for job in (queued.wait, full, lambda: written.append("later")):
        writer.submit(job)
    queued.set()
    with pytest.raises(OSError, match="No space left"):
        writer.wait()
    writer.close()
    assert written == []


def test_a_block_larger_than_this_replay_has_is_refused(tmp_path):
    """Its hash is right; it would be unfolded to as much memory as it says."""
    train(tmp_path / "run", 400)
    newest, before = newest_and_before(tmp_path / "run")
    tail = next(newest.glob("tail-*"))
    block = zstandard.ZstdCompressor().compress(bytes(2**20))
    tail.write_bytes(block)
    manifest = json.loads((newest / "manifest.json").read_text())
    first = int(tail.stem.removeprefix("tail-"))
    digest = hashlib.sha256(block).hexdigest()
    manifest["replay"]["tail"] = [
        [f, digest if f == first else h] for f, h in manifest["replay"]["tail"]
    ]
    del manifest["sha256"]
    manifest["sha256"] = checkpoints._manifest_hash(manifest)
    (newest / "manifest.json").write_text(json.dumps(manifest))
    with pytest.warns(UserWarning, match=f"{tail.name} is larger than a block of this replay"):
        saved = read(tmp_path / "run")
    assert saved.counters["step"] == int(before.name.removeprefix("step-"))


def test_a_hostile_manifest_cannot_name_a_path(tmp_path):
    """File names are made from whole numbers; anything else is damage."""
    train(tmp_path / "run", 400)
    newest, _ = newest_and_before(tmp_path / "run")
    manifest = json.loads((newest / "manifest.json").read_text())
    manifest["replay"]["full"] = [["../../../etc/passwd", "0" * 64]]
    del manifest["sha256"]
    manifest["sha256"] = checkpoints._manifest_hash(manifest)
    (newest / "manifest.json").write_text(json.dumps(manifest))
    with pytest.warns(UserWarning, match="is damaged: invalid literal for int"):
        read(tmp_path / "run")
