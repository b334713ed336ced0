"""A run that was killed, anywhere, and resumed is, bit for bit, the run that never was."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from same_runs import Crash, assert_identical, facts, newest

from munchausen._src import cli
from munchausen._src.experiment import checkpoint
from munchausen._src.experiment.records import RECORDS

# Short iterations, each with a checkpoint: much of the time goes into writing them, so a kill at
# a random moment often lands there.
ITERATION_STEPS = 80
FEW, MANY = 60, 160  # iterations, for a few kills and for many


def command_of(iterations: int) -> list[str]:
    return [
        *("m-dqn", "--env", "minatar/breakout", "--steps", str(iterations * ITERATION_STEPS)),
        *("--envs", "8", "--capacity", "20000", "--warmup-steps", "400"),
        *("--iteration-steps", str(ITERATION_STEPS), "--checkpoint-seconds", "0"),
        *("--network", "minatar-linear"),
    ]


def start(*arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "munchausen", "train", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def finish(process: subprocess.Popen) -> None:
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def wait_until(condition, process: subprocess.Popen, every: float) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, f"it ended before it was killed: {process.communicate()[1]}"
        assert time.monotonic() < deadline, "no progress in two minutes"
        time.sleep(every)


def kill_somewhere(process: subprocess.Popen, run: Path, rng: random.Random) -> None:
    """SIGKILL after a random number of new checkpoints: half the time at a random moment,
    half the time in the middle of writing one."""
    for _ in range(rng.randint(1, 4)):
        before = newest(run)
        wait_until(lambda before=before: newest(run) != before, process, every=0.01)
    if rng.random() < 0.5:
        time.sleep(rng.uniform(0, 0.05))
    else:
        writing = run / checkpoint.CHECKPOINTS
        wait_until(lambda: any(writing.glob(".writing-*")), process, every=0.001)
        time.sleep(rng.uniform(0, 0.005))
    assert process.poll() is None, "it ended before it was killed"
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def train_uninterrupted(run: Path, iterations: int) -> Path:
    finish(start(*command_of(iterations), "--out", str(run)))
    state, _, rows = facts(run)
    assert [row["iteration"] for row in rows] == list(range(1, iterations + 1))
    # The comparison would see a difference in any of these.
    for part in ("online", "target", "optimizer", "ring", "env", "key"):
        assert any(part in name for name in state), part
    return run


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return train_uninterrupted(tmp_path_factory.mktemp("resume") / "uninterrupted", FEW)


def killed_run(run: Path, iterations: int, kills: int, seed: int) -> int:
    """Trains to the end through so many kills. Returns how many hit a checkpoint's writing."""
    rng = random.Random(seed)
    hits = 0
    for i in range(kills):
        resume = ["--resume"] if i else []
        process = start(*command_of(iterations), *resume, "--out", str(run))
        kill_somewhere(process, run, rng)
        hits += any((run / checkpoint.CHECKPOINTS).glob(".writing-*"))
    finish(start("--resume", "--out", str(run)))
    return hits


def test_killed_twice(tmp_path, uninterrupted):
    hits = killed_run(tmp_path / "run", FEW, kills=2, seed=6)
    print(f"{hits} of 2 kills hit the writing of a checkpoint")
    assert_identical(tmp_path / "run", uninterrupted)


@pytest.mark.slow
def test_killed_20_times(tmp_path):
    hits = killed_run(tmp_path / "run", MANY, kills=20, seed=20)
    print(f"{hits} of 20 kills hit the writing of a checkpoint")
    assert_identical(tmp_path / "run", train_uninterrupted(tmp_path / "uninterrupted", MANY))


def half_saved(save_file, rng, arrays, path):
    save_file(arrays, path)
    os.truncate(path, rng.randrange(os.path.getsize(path)))


def half_removed(rmtree, rng, path, **_):
    del rmtree
    files = sorted(Path(path).glob("*"))
    if files:
        rng.choice(files).unlink()


def whole(function, rng, *args, **kwargs):
    del rng
    return function(*args, **kwargs)


# The calls that write a checkpoint and its rows, and what a crash leaves of each.
CALLS = {
    "save_file": (checkpoint, half_saved),
    "dumps": (json, whole),
    "fsync": (os, whole),
    "rename": (os, whole),
    "rmtree": (shutil, half_removed),
}


def crash_at(monkeypatch, name: str, number: int, *, before: bool, rng: random.Random) -> None:
    """The `number`-th call of a function crashes: before it does anything, or after a part."""
    owner, part = CALLS[name]
    function, calls = getattr(owner, name), []

    def crashing(*args, **kwargs):
        calls.append(name)
        if len(calls) != number:
            return function(*args, **kwargs)
        if not before:
            part(function, rng, *args, **kwargs)
        raise Crash(name)

    monkeypatch.setattr(owner, name, crashing)


def test_crashes_in_the_middle_of_writing(tmp_path, uninterrupted, monkeypatch):
    """Each call that writes a checkpoint crashes, before and in the middle, in one process."""
    rng = random.Random(3)
    crashes = [(name, before) for name in CALLS for before in (True, False)]
    rng.shuffle(crashes)
    run = tmp_path / "run"
    for i, (name, before) in enumerate(crashes):
        with monkeypatch.context() as patched:
            crash_at(patched, name, rng.randint(3, 8), before=before, rng=rng)
            resume = ["--resume"] if i else []
            with pytest.raises(Crash, match=name):
                cli.main(["train", *command_of(FEW), *resume, "--out", str(run)])
        with open(run / RECORDS, "ab") as records:
            records.write(b'{"env": "minatar/br')  # a row that was cut
    assert cli.main(["train", "--resume", "--out", str(run)]) == 0
    assert_identical(run, uninterrupted)
