"""Atari, killed and resumed. Emulators cannot be saved, so no bits are compared: every step is
counted once, every update made once, and what the replay held it still holds."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from munchausen._src.experiment.checkpoint import (
    CHECKPOINTS,
    DamagedCheckpoint,
    list_checkpoints,
    read_latest,
    read_manifest,
)
from munchausen._src.experiment.folder import load_settings
from munchausen._src.experiment.records import MACHINE, read_records
from munchausen._src.experiment.segments import REPLAY, block_path, read_block
from munchausen._src.experiment.training import Training

pytest.importorskip("ale_py", reason="pip install 'munchausen[atari]'")

ENVS, ITERATION_STEPS, WARMUP_STEPS, PERIOD_STEPS = 8, 400, 800, 200
# The least capacity whose replay is kept in blocks, a small network and few updates.
RUN = [
    *("m-dqn", "--env", "atari/Breakout", "--envs", str(ENVS), "--capacity", "20000"),
    *("--warmup-steps", str(WARMUP_STEPS), "--update-period-steps", str(PERIOD_STEPS)),
    *("--iteration-steps", str(ITERATION_STEPS), "--checkpoint-seconds", "0"),
    *("--network", "mlp-small"),
]


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "munchausen", "train", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def newest(run: Path) -> str:
    return max((place.name for place in list_checkpoints(run)), default="")


def kill_somewhere(process: subprocess.Popen, run: Path, rng: random.Random) -> None:
    """After one to three new checkpoints, at a random moment of the next."""
    for _ in range(rng.randint(1, 3)):
        before, deadline = newest(run), time.monotonic() + 240
        while newest(run) == before:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.01)
    time.sleep(rng.uniform(0, 0.5))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"


def vouched(run: Path) -> tuple[int, dict[int, str]]:
    """The step of the newest whole checkpoint and the blocks of replay it names."""
    for place in reversed(list_checkpoints(run)):
        try:
            manifest = read_manifest(place)
        except DamagedCheckpoint:
            continue
        return manifest["counters"]["step"], dict(manifest["replay"]["full"])
    return 0, {}


def killed_run(run: Path, kills: int, seed: int, steps: int) -> None:
    rng = random.Random(seed)
    reached, blocks = 0, {}
    for i in range(kills):
        resume = ["--resume"] if i else []
        process = start(*RUN, *resume, "--steps", str(10 * steps), "--out", str(run))
        kill_somewhere(process, run, rng)
        step, named = vouched(run)
        assert step > reached
        # Blocks are written once: those still named are those named before.
        shared = named.keys() & blocks.keys()
        assert {first: named[first] for first in shared} == {f: blocks[f] for f in shared}
        reached, blocks = step, named
        for first, digest in named.items():
            read_block(block_path(run / CHECKPOINTS / REPLAY, first), digest)
    steps = max(steps, -(-reached // ITERATION_STEPS + 1) * ITERATION_STEPS)
    process = start("--resume", "--out", str(run), "--steps", str(steps))
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    assert "warning" not in err
    check(run, steps)


def check(run: Path, steps: int) -> None:
    rows = read_records(run)
    assert [row["step"] for row in rows] == list(range(ITERATION_STEPS, steps + 1, ITERATION_STEPS))
    assert [row["iteration"] for row in rows] == list(range(1, len(rows) + 1))
    expected = [max(0, row["step"] - WARMUP_STEPS) // PERIOD_STEPS for row in rows]
    assert [row["updates_total"] for row in rows] == expected
    assert rows[-1]["episodes_total"] == sum(row["episodes"] for row in rows)
    # Each start says from where it went on, and how many running episodes were cut for it.
    starts = [json.loads(line) for line in (run / MACHINE).read_text().splitlines()]
    assert [start["step"] for start in starts] == sorted(start["step"] for start in starts)
    assert len(starts) > 1
    for start in starts:
        assert start["episodes_cut"] == (ENVS if start["step"] else 0)
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)
    # The replay: every hash is right, and it holds a row a step of each environment, full.
    settings = load_settings(run)
    training = Training(settings)
    try:
        loop = training.loop
        shapes = jax.eval_shape(lambda: loop.snapshot(loop.init()))
        found = read_latest(run, shapes, segmented=True)
    finally:
        training.close()
    ring = found.state.lane.replay.ring
    assert found.counters["step"] == steps
    assert int(ring.head.min()) >= steps // ENVS
    held = min(int(ring.head.min()), ring.frames.shape[1])
    assert (ring.frames[0, :held].reshape(held, -1).max(axis=1) > 0).all()


def test_killed(tmp_path):
    killed_run(tmp_path / "run", kills=1, seed=2, steps=1600)


@pytest.mark.slow
def test_killed_20_times(tmp_path):
    """Through more steps than the replay holds, so that blocks are pruned too."""
    killed_run(tmp_path / "run", kills=20, seed=20, steps=26_000)


@pytest.mark.slow
def test_blocks_of_a_killed_run_are_checked(tmp_path):
    """One flipped bit in a block: refused by name, and the checkpoint before it is used."""
    run = tmp_path / "run"
    process = start(*RUN, "--steps", "2000", "--out", str(run))
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    _, new = list_checkpoints(run)
    tails = sorted(new.glob("tail-*.zst"))
    assert tails
    data = bytearray(tails[0].read_bytes())
    data[len(data) // 2] ^= 1
    tails[0].write_bytes(data)
    process = start("--resume", "--out", str(run), "--steps", "2400")
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    assert f"warning: {new} is damaged: {tails[0]} was cut or altered" in err
    check(run, 2400)
