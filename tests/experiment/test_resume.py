"""A run that was stopped, or asked for more, goes on as if it had never ended."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file
from same_runs import Crash, assert_identical, newest

from munchausen._src.errors import UserError
from munchausen._src.experiment import checkpoint, folder, keeping
from munchausen._src.experiment import training as training_module
from munchausen._src.experiment.accounting import LaneAccount
from munchausen._src.experiment.checkpoint import list_checkpoints
from munchausen._src.experiment.pace import pause_after
from munchausen._src.experiment.policy import load_run
from munchausen._src.experiment.records import RECORDS, read_records
from munchausen._src.experiment.settings import make_settings
from munchausen._src.experiment.stopping import Interrupted
from munchausen._src.experiment.training import Training
from munchausen._src.loops.device import DeviceLoop


def small_settings(steps: int, iteration_steps: int):
    changes = {
        "envs": 8,
        "capacity": 2000,
        "warmup_steps": 400,
        "network": "minatar-linear",
    }
    return make_settings(
        ["m-dqn"],
        "minatar/breakout",
        steps=steps,
        seeds=[0],
        changes=changes,
        iteration_steps=iteration_steps,
        checkpoint_seconds=0.0,
    )


def train(settings, run: Path, *, resume: bool = False, watch=lambda _: None) -> None:
    opened = folder.reopen(run, settings) if resume else folder.create(run, settings)
    training = Training(settings, opened)
    try:
        training.start()
        training.run(watch)
    finally:
        training.close()


@pytest.fixture(scope="module")
def two_iterations(tmp_path_factory):
    """Two iterations of three chunks: room for a stop inside an iteration."""
    run = tmp_path_factory.mktemp("signals") / "uninterrupted"
    settings = small_settings(2400, iteration_steps=1200)
    train(settings, run)
    return settings, run


def test_stopped_by_a_signal_inside_an_iteration(tmp_path, two_iterations, monkeypatch):
    settings, uninterrupted = two_iterations
    run = tmp_path / "run"
    add, calls = LaneAccount.add, []

    def add_and_signal(*args):
        calls.append(args)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGTERM)
        return add(*args)

    monkeypatch.setattr(LaneAccount, "add", add_and_signal)
    with pytest.raises(Interrupted, match="SIGTERM"):
        train(settings, run)
    step = int(newest(run).removeprefix("step-"))
    assert step % settings.iteration_steps != 0, "the stop was to be inside an iteration"
    train(settings, run, resume=True)
    assert_identical(run, uninterrupted)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(400, id="inside the first iteration"),
        pytest.param(1200, id="at the end of an iteration"),
        pytest.param(1600, id="inside the second iteration"),
    ],
)
def test_a_signal_while_progress_is_shown(tmp_path, two_iterations, step):
    settings, uninterrupted = two_iterations
    run = tmp_path / "run"

    def watch(progress):
        if progress.step == step and not progress.compiling:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match="SIGINT"):
        train(settings, run, watch=watch)
    assert newest(run) == f"step-{step:012d}"
    train(settings, run, resume=True)
    assert_identical(run, uninterrupted)


@pytest.mark.parametrize("steps", [1200, 1600])
def test_asked_for_more_steps(tmp_path, two_iterations, steps):
    """Also where the first end was inside an iteration: its rows are written again, whole."""
    _, uninterrupted = two_iterations
    run = tmp_path / "run"
    settings = small_settings(steps, iteration_steps=1200)
    train(settings, run)
    rows = read_records(run)
    assert rows[-1]["step"] == steps
    train(settings, run, resume=True)  # nothing to do, and nothing lost
    assert read_records(run) == rows
    train(small_settings(2400, iteration_steps=1200), run, resume=True)
    assert_identical(run, uninterrupted)


def test_speed_is_of_the_steps_this_process_took(tmp_path, monkeypatch):
    """By a clock that goes at 100 steps a second, stopped inside an iteration and resumed."""
    now = 0.0
    advance = DeviceLoop.advance

    def advance_and_tick(loop, state, t, steps):
        nonlocal now
        now += steps / 100
        return advance(loop, state, t, steps)

    def watch(progress):
        if progress.step == 1600 and not progress.compiling:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(DeviceLoop, "advance", advance_and_tick)
    monkeypatch.setattr(training_module, "time", SimpleNamespace(monotonic=lambda: now))
    settings = small_settings(2400, iteration_steps=1200)
    with pytest.raises(Interrupted):
        train(settings, tmp_path / "run", watch=watch)
    train(settings, tmp_path / "run", resume=True)
    assert [row["steps_per_second"] for row in read_records(tmp_path / "run")] == [100.0, 100.0]


def test_a_damaged_checkpoint_costs_one_interval(tmp_path, two_iterations):
    _, uninterrupted = two_iterations
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    os.truncate(list_checkpoints(run)[-1] / "state.safetensors", 1000)
    settings = folder.load_settings(run)
    with pytest.warns(UserWarning, match="cut or altered; trying the one before it"):
        train(settings, run, resume=True)
    assert_identical(run, uninterrupted)


def test_gymnasium_goes_on(tmp_path):
    """Emulators cannot be saved, so no bits are compared: it goes on where it was."""
    changes = {"network": "mlp-small", "warmup_steps": 200, "capacity": 2000, "batch_size": 16}

    def settings(steps: int):
        return make_settings(
            ["m-dqn"],
            "gym/CartPole-v1",
            steps=steps,
            seeds=[0],
            changes=changes,
            iteration_steps=400,
            checkpoint_seconds=0.0,
        )

    run = tmp_path / "run"
    train(settings(800), run)
    rows = read_records(run)
    before = load_file(list_checkpoints(run)[-1] / "state.safetensors")
    train(settings(1600), run, resume=True)
    after = read_records(run)
    assert after[: len(rows)] == rows
    assert [row["step"] for row in after] == [400, 800, 1200, 1600]
    assert after[-1]["updates_total"] == (1600 - 200) // 4
    assert after[-1]["episodes_total"] == sum(row["episodes"] for row in after)
    now = load_file(list_checkpoints(run)[-1] / "state.safetensors")
    online = [name for name in now if "online" in name]
    assert online
    assert all(np.isfinite(now[name]).all() for name in online)
    assert any(not np.array_equal(now[name], before[name]) for name in online)


def test_writing_checkpoints_takes_at_most_a_twentieth_of_the_time():
    assert pause_after(0.1, least=30.0) == 30.0
    assert pause_after(10.0, least=30.0) == 200.0
    assert pause_after(10.0, least=0.0) == 0.0


def test_a_run_asked_for_more_steps_that_could_not_begin(tmp_path, two_iterations, monkeypatch):
    """Its rows are cut by then; what is asked for must be in the folder before."""
    _, uninterrupted = two_iterations
    run = tmp_path / "run"
    train(small_settings(1600, iteration_steps=1200), run)
    more = small_settings(2400, iteration_steps=1200)
    with monkeypatch.context() as broken:
        broken.setattr(keeping, "RecordWriter", cut_and_crash(keeping.RecordWriter))
        with pytest.raises(Crash):
            train(more, run, resume=True)
    assert read_records(run)[-1]["step"] == 1200
    train(folder.load_settings(run), run, resume=True)
    assert_identical(run, uninterrupted)


def cut_and_crash(writer):
    def crash(*args):
        writer(*args).close()
        raise Crash("after the records were cut")

    return crash


def test_a_run_beyond_the_steps_asked_for_is_left_as_it_is(tmp_path, two_iterations):
    _, finished = two_iterations
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    with pytest.raises(UserError, match="is at step 2,400 already; ask for more --steps"):
        train(small_settings(1600, iteration_steps=1200), run, resume=True)
    assert_identical(run, finished)


def stop_at(step):
    def watch(progress):
        if progress.step == step and not progress.compiling:
            signal.raise_signal(signal.SIGINT)

    return watch


def test_steps_that_are_taken_again_are_not_come_back_to(tmp_path, two_iterations):
    """The newest checkpoint cannot be read for a while, say for a mount that is gone."""
    settings, uninterrupted = two_iterations
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(settings, run, watch=stop_at(1200))
    early = list_checkpoints(run)[-1]
    shutil.copytree(early, tmp_path / "early")
    train(settings, run, resume=True)
    before, last = list_checkpoints(run)
    shutil.rmtree(before)
    shutil.copytree(tmp_path / "early", early)
    (last / "state.safetensors").rename(last / "gone")

    with (
        pytest.warns(UserWarning, match="trying the one before it"),
        pytest.raises(Interrupted),
    ):
        train(settings, run, resume=True, watch=stop_at(1600))
    aside = last.with_name(f"unreadable-{last.name}")
    (aside / "gone").rename(aside / "state.safetensors")  # it can be read again
    assert [int(p.name.removeprefix("step-")) for p in list_checkpoints(run)] == [1200, 1600]
    train(settings, run, resume=True)
    assert_identical(run, uninterrupted)


def test_stopped_while_it_is_evaluated(tmp_path, monkeypatch):
    settings = replace(small_settings(2400, iteration_steps=1200), evaluation_steps=1)

    def signalled(*_, **__):
        signal.raise_signal(signal.SIGTERM)
        return SimpleNamespace(returns=np.ones(1))

    monkeypatch.setattr(training_module, "phase", signalled)
    with pytest.raises(Interrupted, match="at step 1,200"):
        train(settings, tmp_path / "run")
    assert newest(tmp_path / "run") == "step-000000001200"
    assert [row["step"] for row in read_records(tmp_path / "run")] == [1200]


def test_a_finished_run_without_its_checkpoints_is_not_begun_again(tmp_path, two_iterations):
    """As results are published: their records are all there is."""
    settings, finished = two_iterations
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    shutil.rmtree(run / checkpoint.CHECKPOINTS)
    with pytest.warns(UserWarning, match="has no checkpoint yet: it begins again at step 0"):
        train(settings, run, resume=True)  # killed before its first
    assert_identical(run, finished)
    shutil.rmtree(run / checkpoint.CHECKPOINTS)
    folder.write_json(run / "result.json", {"status": "finished"})
    before = (run / RECORDS).read_bytes()
    with pytest.raises(UserError, match="its checkpoints are gone: it cannot go on"):
        train(settings, run, resume=True)
    assert (run / RECORDS).read_bytes() == before
    assert folder.is_finished(run)
    with pytest.raises(UserError, match="there is no agent to load"):
        load_run(run)
