"""`munchausen sweep` with real trainings, as a user meets it."""

import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import gymnasium
import pytest
from rich.console import Console

from munchausen._src import cli
from munchausen._src.commands.sweep_table import render, summary, table_row
from munchausen._src.experiment.checkpoint import list_checkpoints
from munchausen._src.experiment.records import is_live, read_records
from munchausen._src.experiment.stopping import Interrupted
from munchausen._src.sweep.schedule import Schedule
from munchausen._src.sweep.status import RunStatus

CARTPOLE = [
    *("--env-count", "4", "--capacity", "4000", "--warmup-steps", "400", "--batch-size", "16"),
    *("--iteration-steps", "400", "--checkpoint-seconds", "0", "--network", "mlp-small"),
]


def munchausen(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(list(arguments))
    return code, out.getvalue(), err.getvalue()


def rows_of(root: Path) -> Counter:
    """How often each row is there, over all runs of a sweep."""
    return Counter(
        (row["agent"], row["env"], row["seed"], row["step"])
        for path in root.rglob("records.jsonl")
        for row in read_records(path.parent)
    )


# What a process imports before anything else, in the tests of environments that misbehave.
FAULTS = """
import time
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Faulty(CartPoleEnv):
    steps = 0
    def step(self, action):
        self.steps += 1
        return self.fault(super().step(action)) if self.steps == 150 else super().step(action)

class Hangs(Faulty):
    def fault(self, result):
        time.sleep(10_000)

class Crashes(Faulty):
    def fault(self, result):
        raise RuntimeError("the emulator broke down \\x1b[2J [bold]<b>")

class Diverges(Faulty):
    def fault(self, result):
        return (result[0], float("inf"), *result[2:])

for fault in (Hangs, Crashes, Diverges):
    gymnasium.register(f"{fault.__name__}-v0", entry_point=fault)
"""


def test_a_faulty_environment_fails_alone(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(FAULTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    faults = ("Hangs-v0", "Crashes-v0", "Diverges-v0")
    for name in faults:
        monkeypatch.setitem(gymnasium.registry, name, gymnasium.registry["CartPole-v1"])
    root = tmp_path / "sweep"
    envs = ",".join(f"gym/{name}" for name in (*faults, "CartPole-v1"))
    code, out, err = munchausen(
        *("sweep", "--agents", "m-dqn", "--envs", envs, "--steps", "800", *CARTPOLE),
        *("--out", str(root), "--retries", "0", "--stall-seconds", "20", "--json"),
    )
    assert code == 1, err
    report = json.loads(out)
    assert (report["done"], report["failed"], report["running"], report["waiting"]) == (1, 3, 0, 0)
    errors = {run["env"]: run["error"] for run in report["runs"]}
    assert errors["gym/CartPole-v1"] == ""
    assert "hung: no progress for 20 s" in errors["gym/Hangs-v0"]
    assert "RuntimeError: the emulator broke down" in errors["gym/Crashes-v0"]
    assert "gave an observation or reward that is NaN" in errors["gym/Diverges-v0"]
    # What an environment prints is text to a terminal.
    assert "\x1b" not in err
    status, table, _ = munchausen("sweep", "status", str(root))
    assert status == 0
    assert "\x1b" not in table
    assert "3 failed" in table
    assert "the emulator broke down" in table
    # And the report says why, run by run.
    results = {p.parent.name: json.loads(p.read_text()) for p in root.glob("*/result.json")}
    assert sorted(r["status"] for r in results.values()) == [
        *("diverged", "failed", "failed", "finished")
    ]


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "munchausen", "sweep", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition, process: subprocess.Popen | None = None) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        if process is not None:
            assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def killed_and_started_again(root: Path, *arguments: str, done: int) -> dict:
    """The sweep is killed once so many runs are done and another is under way; what is done
    stays untouched. Returns what the second one reports."""
    process = start(*arguments, "--out", str(root))

    def half_way() -> bool:
        results = list(root.glob("*/result.json"))
        begun = [p for p in root.glob("*/checkpoints") if not (p.parent / "result.json").exists()]
        return len(results) >= done and any(list_checkpoints(p.parent) for p in begun)

    wait_for(half_way, process)
    process.kill()
    process.communicate()
    finished = {p: p.read_bytes() for p in root.glob("*/result.json")}
    # Nobody trains on without a watcher.
    wait_for(lambda: not any(is_live(p.parent) for p in root.glob("*/config.json")))
    assert {p: p.read_bytes() for p in root.glob("*/result.json")} == finished
    code, out, err = munchausen("sweep", *arguments, "--out", str(root), "--json")
    assert code == 0, err
    assert finished
    for path, result in finished.items():
        assert path.read_bytes() == result  # its speed would differ, were it trained again
        machine = path.with_name("machine.jsonl").read_text().splitlines()
        assert len(machine) == 1
    return json.loads(out)


def test_the_sweep_itself_is_killed(tmp_path):
    arguments = ("--agents", "dqn,m-dqn", "--envs", "gym/CartPole-v1", "--steps", "2000")
    report = killed_and_started_again(
        tmp_path, *arguments, *CARTPOLE, "--parallel", "1", "--together", "1", done=1
    )
    assert report["done"] == len(report["runs"]) == 2
    rows = rows_of(tmp_path)
    assert set(rows.values()) == {1}
    assert len(rows) == 2 * 5
    # Once more: there is nothing to do, and nothing is done.
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if "_seed" in str(p)}
    code, _, _ = munchausen("sweep", "--out", str(tmp_path))
    assert code == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if "_seed" in str(p)} == before


@pytest.mark.slow
@pytest.mark.parametrize("together", ["1", "2"])
def test_eight_runs_killed_half_way(tmp_path, together):
    """The example of the documentation."""
    report = killed_and_started_again(
        tmp_path,
        *("--agents", "dqn,m-dqn", "--envs", "minatar/breakout,minatar/asterix", "--seeds", "2"),
        *("--steps", "20000", "--checkpoint-seconds", "0", "--together", together),
        done=8 // int(together) // 2,
    )
    assert report["done"] == len(report["runs"]) == 8
    rows = rows_of(tmp_path)
    assert set(rows.values()) == {1}
    assert Counter(key[:3] for key in rows) == Counter(
        {
            (agent, env, seed): 2
            for agent in ("dqn", "m-dqn")
            for env in ("minatar/breakout", "minatar/asterix")
            for seed in (0, 1)
        }
    )


def test_a_stopped_sweep_has_its_own_code_and_says_how_to_go_on(tmp_path, monkeypatch):
    def stopped(*_):
        raise Interrupted(signal.SIGTERM, "with what was running in checkpoints")

    monkeypatch.setattr(Schedule, "run", stopped)
    names = ("--agents", "m-dqn", "--envs", "gym/CartPole-v1")
    code, out, err = munchausen("sweep", *names, "--out", str(tmp_path))
    assert code == 143
    assert "stopped by SIGTERM" in err
    assert f"munchausen sweep --out {tmp_path}" in out


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ([], "name --agents and --envs, or a TOML file"),
            (["--agents", "dqn"], "name --envs, or a TOML file"),
            (["--agents", "mdqn", "--envs", "minatar/breakout"], "'m-dqn'"),
            (["--agents", "dqn", "--envs", "minatar/breakot"], "'minatar/breakout'"),
            (["--agents", "dqn", "--envs", "minatar/breakout", "--alpha", "2"], "alpha must be in"),
            (["--agents", "dqn", "--envs", "minatar/breakout", "--seeds", "0"], "seeds must be"),
            (["--agents", "dqn", "--envs", "minatar/breakout", "--backend", "rya"], "'ray'"),
            (["--agents", "dqn", "--envs", "minatar/breakout", "--address", "x"], "--backend ray"),
            (["--agents", "dqn", "--envs", "minatar/breakout", "--stall-seconds", "0"], "above 0"),
            (["--agents", "dqn", "--envs", "minatar/breakout", "--gpu-fraction", "2"], "at most 1"),
            (["--agents", "dqn", "--envs", "minatar/breakout", "--sedes", "2"], "--seeds"),
            (["none.toml"], "cannot read none.toml"),
            (["status"], "name the sweep's folder"),
            (["status", "nothing-here"], "is no sweep"),
            (["a.toml", "b.toml"], "unexpected 'b.toml'"),
        ],
        ids=lambda x: " ".join(x) if isinstance(x, list) else "",
    )
    def test_and_nothing_written(self, tmp_path, monkeypatch, arguments, said):
        monkeypatch.chdir(tmp_path)
        code, out, err = munchausen("sweep", *arguments)
        assert code == 2, err
        assert said in err
        assert out == ""
        assert list(tmp_path.iterdir()) == []

    def test_ray_is_not_installed(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(sys.modules, "ray", None)
        names = ("--agents", "dqn", "--envs", "minatar/breakout", "--backend", "ray")
        code, _, err = munchausen("sweep", *names)
        assert code == 2
        assert "[ray]'" in err
        assert list(tmp_path.iterdir()) == []

    def test_an_extra_is_not_installed(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(sys.modules, "ale_py", None)
        monkeypatch.setitem(sys.modules, "ale_py.vector_env", None)
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
        code, _, err = munchausen("sweep", "--paper")
        assert code == 2
        assert "[atari]'" in err
        assert list(tmp_path.iterdir()) == []


class TestDryRun:
    def test_time_and_disk_of_the_paper(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        names = ("--paper", "--dry-run", "--parallel", "8", "--together", "3", "--rate", "10000")
        code, out, err = munchausen("sweep", *names, "--json")
        assert code == 0, err
        plan = json.loads(out)
        assert (plan["runs"], plan["processes"], plan["at_once"]) == (1800, 600, 8)
        # 1,800 × 50M steps at 10,000 a second for 3 seeds together, 8 at once.
        assert plan["seconds"] == pytest.approx(1800 * 50e6 / 10_000 / 8, rel=0.01)
        assert plan["disk_bytes"] == pytest.approx(1800 * 0.99e9, rel=0.02)
        assert list(tmp_path.iterdir()) == []

    def test_measured(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        names = ("--agents", "m-dqn", "--envs", "gym/CartPole-v1", "--steps", "1000", *CARTPOLE)
        code, out, err = munchausen("sweep", *names, "--dry-run")
        assert code == 0, err
        assert "m-dqn on gym" in out
        assert "disk: about" in out
        assert "NPROC" not in os.environ
        assert list(tmp_path.iterdir()) == []


class TestTable:
    HOSTILE = "[link=file:///etc]x[/link] [blink]\x1b[2J\x07 <script>"

    def row(self, **changes) -> RunStatus:
        row = RunStatus(
            *("dqn", "dqn", "gym/x", 0, {}, "failed", 10, 100, 1.5, 5.0, "why", Path("x"))
        )
        return row._replace(**changes)

    def test_names_are_text(self):
        """Neither markup of the table's library nor what a terminal would obey."""
        console = Console(file=io.StringIO(), force_terminal=True, width=200, color_system=None)
        console.print(render([self.row(label=self.HOSTILE, env=self.HOSTILE)]))
        shown = console.file.getvalue()
        assert "[link=file:///etc]x[/link] [blink]�[2J� <script>" in shown
        assert "\x1b[2J" not in shown
        assert "\x07" not in shown
        assert "\x1b]8" not in shown  # a link

    def test_what_is_shown(self):
        rows = [
            self.row(status="running", step=50),
            self.row(status="done", step=100, seed=1),
            self.row(status="waiting", step=0, seed=2, score=None, steps_per_second=None),
        ]
        assert summary(rows) == "3 runs: 1 running, 1 done, 0 failed, 1 waiting  ETA 0:30"
        assert table_row(rows[0])["ETA"] == "0:10"
        assert table_row(rows[2])["score"] == "–"
