"""Every job ends exactly once, whatever becomes of its processes."""

import itertools
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from munchausen._src.errors import StorageError, UserError
from munchausen._src.experiment.pace import Progress
from munchausen._src.experiment.records import CONFIG, RECORDS, is_live
from munchausen._src.experiment.stopping import Interrupted
from munchausen._src.sweep import attempt as attempts
from munchausen._src.sweep import heartbeat
from munchausen._src.sweep.attempt import Attempt, Outcome
from munchausen._src.sweep.folder import (
    ATTEMPTS,
    SPLIT,
    current_jobs,
    finish_splits,
    open_sweep,
    read_attempts,
)
from munchausen._src.sweep.grid import grid_from
from munchausen._src.sweep.local import LocalBackend
from munchausen._src.sweep.schedule import Schedule
from munchausen._src.sweep.status import count, read_states, run_statuses, seconds_left

FAKE = Path(__file__).with_name("fake_training.py")
GRID = {"agents": "dqn", "envs": "minatar/breakout", "steps": 1000}


@pytest.fixture
def behave(monkeypatch):
    """Says how the training of each seed behaves."""
    behaviours: dict[int, str] = {}

    def command(job, place):
        behaviour = next((behaviours[s] for s in job.seeds if s in behaviours), "finish")
        seeds = ",".join(map(str, job.seeds))
        return [sys.executable, str(FAKE), str(place), str(job.steps), seeds, behaviour]

    monkeypatch.setattr(attempts, "train_command", command)
    return behaviours


def sweep(
    root: Path,
    seeds: int,
    *,
    together: int = 1,
    slots: int = 2,
    stall_seconds: float = 30.0,
    retries: int = 2,
    watch=lambda _: None,
):
    grid = grid_from(GRID | {"seeds": seeds}, "test")
    folder = open_sweep(root, grid, together)
    try:
        finish_splits(root, grid, together)
        backend = LocalBackend(root, [{}] * slots, stall_seconds)
        schedule = Schedule(folder, current_jobs(root, grid, together), backend, retries)
        schedule.run(watch)
        return schedule.states
    finally:
        folder.close()


def outcome_of(states) -> dict[int, tuple[str, str]]:
    return {job.seeds[0]: (state.status, state.error) for job, state in states.items()}


def starts(root: Path, seed: int) -> int:
    return len((root / f"minatar-breakout_dqn_seed{seed}" / "starts").read_text().splitlines())


def test_one_bad_run_never_takes_the_sweep_down(tmp_path, behave):
    behave.update({1: "crash", 2: "die", 3: "diverge", 4: "mistake", 5: "lies"})
    found = outcome_of(sweep(tmp_path, 7, retries=1))
    assert [found[i][0] for i in range(7)] == ["done", *["failed"] * 5, "done"]
    assert "the emulator" in found[1][1]
    assert "RuntimeError" in found[1][1]
    assert found[1][1].isprintable()  # it had told the terminal to write in red
    assert found[2][1] == "killed by SIGKILL"
    assert found[3][1] == "the loss is nan at step 3; stopped"
    assert found[4][1] == "no such thing"
    assert "without a result" in found[5][1]
    # What another attempt may change is tried again; what it cannot is not.
    assert [starts(tmp_path, i) for i in range(7)] == [1, 2, 2, 1, 1, 1, 1]


def test_a_run_that_hangs_is_killed_and_named(tmp_path, behave):
    behave[1] = "hang"
    found = outcome_of(sweep(tmp_path, 3, stall_seconds=0.5, retries=0))
    assert [found[i][0] for i in range(3)] == ["done", "failed", "done"]
    assert found[1][1] == "hung: no progress for 0.5 s at step 1; killed"
    assert not is_live(tmp_path / "minatar-breakout_dqn_seed1")


def test_what_a_run_that_hangs_has_started_goes_with_it(tmp_path, behave):
    """Left alone it would hold the run's lock, and nobody could go on with it."""
    behave[0] = "hangs-with-a-child"
    found = outcome_of(sweep(tmp_path, 1, stall_seconds=0.5, retries=0))
    assert found[0][0] == "failed"
    wait_for(lambda: not is_live(tmp_path / "minatar-breakout_dqn_seed0"), seconds=10)


def test_a_worker_that_is_killed_is_started_again(tmp_path, behave):
    behave.update({0: "dies-twice", 1: "dies-five-times-but-gets-on"})
    found = outcome_of(sweep(tmp_path, 2, retries=2))
    assert found == {0: ("done", ""), 1: ("done", "")}
    assert (starts(tmp_path, 0), starts(tmp_path, 1)) == (3, 6)


def test_tries_in_vain_come_to_an_end(tmp_path, behave):
    behave[0] = "die"
    found = outcome_of(sweep(tmp_path, 1, retries=2))
    assert found[0] == ("failed", "killed by SIGKILL")
    assert starts(tmp_path, 0) == 3


def test_started_again_it_does_what_is_left(tmp_path, behave):
    behave.update({1: "diverge", 2: "crash"})
    sweep(tmp_path, 4, retries=0)
    before = (tmp_path / "minatar-breakout_dqn_seed0" / "result.json").stat()
    del behave[2]
    found = outcome_of(sweep(tmp_path, 4, retries=0))
    assert [found[i][0] for i in range(4)] == ["done", "failed", "done", "done"]
    assert [starts(tmp_path, i) for i in range(4)] == [1, 2, 2, 1]
    assert (tmp_path / "minatar-breakout_dqn_seed0" / "result.json").stat() == before
    found = read_attempts(tmp_path)["minatar-breakout_dqn_seed1"]
    assert found == Outcome("failed", "the loss is nan at step 3; stopped")


def test_seeds_that_fail_together_are_trained_one_by_one(tmp_path, behave):
    """One lane's divergence stops its program; the other seeds must not fail with it."""
    behave[1] = "diverge"
    found = outcome_of(sweep(tmp_path, 3, together=3))
    assert {seed: status for seed, (status, _) in found.items()} == {
        0: "done",
        1: "failed",
        2: "done",
    }
    # No row is there twice for whoever looks for runs under this folder.
    rows = [
        (json.loads(line)["seed"])
        for path in tmp_path.rglob(RECORDS)
        for line in path.read_text().splitlines()
    ]
    assert sorted(rows) == [0, 2]
    assert not list((tmp_path / SPLIT).rglob(CONFIG))
    # Started again, it knows.
    del behave[1]
    assert set(outcome_of(sweep(tmp_path, 3, together=3)).values()) == {("done", "")}
    assert [starts(tmp_path, i) for i in range(3)] == [1, 2, 1]


def test_a_split_that_was_cut_is_finished(tmp_path, behave):
    behave[0] = "diverges-together"
    place = tmp_path / SPLIT / "minatar-breakout_dqn_seeds0-1"
    sweep(tmp_path, 2, together=2)
    os.rename(place / f"{CONFIG}.split", place / CONFIG)  # as if killed before this
    sweep(tmp_path, 2, together=2)
    assert not list((tmp_path / SPLIT).rglob(CONFIG))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_trainings_with_a_checkpoint(tmp_path, behave, number):
    behave.update({0: "hang", 1: "hang"})
    before = signal.getsignal(number)  # a shell's background jobs ignore SIGINT
    seen = []

    def watch(states):
        live = [tmp_path / job.name / "heartbeat.json" for job in states if job.seeds[0] < 2]
        if all(path.exists() for path in live) and not seen:
            seen.append(number)
            signal.raise_signal(number)

    with pytest.raises(Interrupted, match=signal.Signals(number).name) as stopped:
        sweep(tmp_path, 4, watch=watch)
    assert stopped.value.number == number
    assert signal.getsignal(number) is before
    for seed in (0, 1):
        place = tmp_path / f"minatar-breakout_dqn_seed{seed}"
        assert [p.name for p in (place / "checkpoints").iterdir()] == ["step-000000000500"]
        assert not is_live(place)
    assert not (tmp_path / "minatar-breakout_dqn_seed2").exists()
    assert count_statuses(tmp_path) == {"running": 0, "done": 0, "failed": 0, "waiting": 4}
    behave.clear()
    assert set(outcome_of(sweep(tmp_path, 4)).values()) == {("done", "")}


def count_statuses(root: Path) -> dict[str, int]:
    states = read_states(root)
    return count(row for job, state in states.items() for row in run_statuses(root, job, state))


def test_a_run_in_use_is_waited_for(tmp_path, behave):
    """By an orphan, or by a node that is thought lost: two must never train one run."""
    behave[0] = "hang"
    root = tmp_path
    grid = grid_from(GRID, "test")
    open_sweep(root, grid, 1).close()
    [job] = current_jobs(root, grid, 1)
    other = Attempt(job, root, 30.0, {})
    wait_for(lambda: other.poll() or is_live(root / job.name))
    # Ctrl-C in a terminal reaches a whole session; trainings are to hear of it from the sweep.
    assert os.getsid(other._process.pid) != os.getsid(0)
    behave.clear()
    mine = Attempt(job, root, 30.0, {})
    assert mine.poll() is None
    assert mine._process is None
    other.kill()
    wait_for(lambda: mine.poll() == Outcome("finished"))
    assert starts(root, 0) == 2


def test_a_clock_that_jumps_changes_nothing(tmp_path, behave, monkeypatch):
    """Forward, a run does not look stuck; backward, one that is stuck is still found."""
    behave[0] = "hang"
    grid = grid_from(GRID, "test")
    open_sweep(tmp_path, grid, 1).close()
    [job] = current_jobs(tmp_path, grid, 1)
    hours = itertools.count()
    monkeypatch.setattr(time, "time", lambda: 3600.0 * next(hours))
    attempt = Attempt(job, tmp_path, 30.0, {})
    outcomes = []
    try:
        wait_for(
            lambda: outcomes.append(attempt.poll()) or outcomes[-1] or is_live(tmp_path / job.name)
        )
        outcomes += [attempt.poll() for _ in range(5)]
    finally:
        attempt.kill()
    assert set(outcomes) == {None}
    monkeypatch.setattr(time, "time", lambda: -3600.0 * next(hours))
    attempt = Attempt(job, tmp_path, 0.2, {})
    try:
        wait_for(lambda: outcomes.append(attempt.poll()) or outcomes[-1], seconds=20)
    finally:
        attempt.kill()
    assert "hung: no progress for 0.2 s" in outcomes[-1].error


def test_heartbeats_go_on_when_the_clock_goes_back(tmp_path, monkeypatch):
    """Without them the sweep would take the run for one that hangs."""
    seconds = itertools.count()
    clocks = SimpleNamespace(
        monotonic=lambda: float(next(seconds)), time=lambda: -3600.0 * next(seconds)
    )
    monkeypatch.setattr(heartbeat, "time", clocks)
    watch = heartbeat.write_heartbeats(tmp_path)
    for step in (1, 2, 3):
        watch(Progress(step, 10, [None], 1.0, compiling=False))
        assert heartbeat.read_heartbeat(tmp_path).step == step


def test_a_heartbeat_on_a_full_disk_is_told_as_one(tmp_path):
    watch = heartbeat.write_heartbeats(tmp_path / "gone")
    with pytest.raises(StorageError, match="cannot write to"):
        watch(Progress(1, 10, [None], 1.0, compiling=False))


def wait_for(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


class TestFolder:
    def test_two_sweeps_in_one(self, tmp_path):
        folder = open_sweep(tmp_path, grid_from(GRID, "test"), 1)
        with pytest.raises(UserError, match="in use by a running `munchausen sweep`"):
            open_sweep(tmp_path, grid_from(GRID, "test"), 1)
        folder.close()
        # The lock that is left is nobody's.
        open_sweep(tmp_path, grid_from(GRID, "test"), 1).close()

    def test_another_grid(self, tmp_path):
        open_sweep(tmp_path, grid_from(GRID, "test"), 1).close()
        before = (tmp_path / "sweep.json").read_bytes()
        with pytest.raises(UserError, match="agents: the sweep has dqn, you asked for m-dqn"):
            open_sweep(tmp_path, grid_from(GRID | {"agents": "m-dqn"}, "test"), 1)
        assert (tmp_path / "sweep.json").read_bytes() == before

    def test_seeds_stay_together_as_they_were(self, tmp_path):
        grid = grid_from(GRID | {"seeds": 4}, "test")
        open_sweep(tmp_path, grid, 2).close()
        open_sweep(tmp_path, grid, 1).close()
        assert json.loads((tmp_path / "sweep.json").read_text())["together"] == 2

    def test_a_folder_of_something_else(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("years of work")
        with pytest.raises(UserError, match="not empty and no sweep"):
            open_sweep(tmp_path, grid_from(GRID, "test"), 1)
        assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"grid": {"agents": ["../../x"]}}', "\xff"])
    def test_a_damaged_sweep(self, tmp_path, text):
        (tmp_path / "sweep.json").write_text(text, encoding="latin-1")
        with pytest.raises(UserError, match=r"sweep\.json"):
            read_states(tmp_path)

    def test_a_torn_line_of_attempts(self, tmp_path):
        grid = grid_from(GRID | {"seeds": 2}, "test")
        folder = open_sweep(tmp_path, grid, 1)
        first, second = current_jobs(tmp_path, grid, 1)
        folder.note(first, Outcome("failed", "a"))
        with open(tmp_path / ATTEMPTS, "ab") as file:
            file.write(b'{"job": "minatar-br')
        folder.note(second, Outcome("failed", "b"))
        folder.close()
        assert {k: v.error for k, v in read_attempts(tmp_path).items()} == {
            first.name: "a",
            second.name: "b",
        }


def test_what_others_wrote_into_a_run_is_no_number(tmp_path, behave):
    """A heartbeat or a result that is not one is none: the table is still shown."""
    behave[0] = "finish"
    states = sweep(tmp_path, 1)
    [(job, state)] = states.items()
    place = tmp_path / job.name
    for text in ("", "[]", '{"status": "finished", "steps": "x"}', '{"step": 1e400}', "\xff"):
        for name in ("result.json", "heartbeat.json"):
            (place / name).write_text(text, encoding="latin-1")
        assert read_states(tmp_path)[job].status == "waiting"
        [row] = run_statuses(tmp_path, job, state)
        assert row.score is None


def test_time_left():
    def row(status, step, rate):
        from munchausen._src.sweep.status import RunStatus

        return RunStatus("dqn", "dqn", "x", 0, {}, status, step, 1000, None, rate, "", Path())

    rows = [row("running", 500, 10.0), row("running", 900, 10.0), row("waiting", 0, None)]
    # 50 s, 10 s and 100 s of work for two at once: the longest is not cut in half.
    assert seconds_left(rows) == 100.0
    assert seconds_left([*rows, row("waiting", 0, None)]) == 130.0
    assert seconds_left([row("waiting", 0, None)]) is None
    assert seconds_left([row("done", 1000, 10.0)]) is None
