"""What a sweep is made of, and what it refuses."""

import json
import os
import string
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from munchausen._src.core.schedules import Cosine
from munchausen._src.errors import UserError
from munchausen._src.kernels.machine import Gpu
from munchausen._src.sweep import local
from munchausen._src.sweep.grid import (
    Grid,
    configurations,
    difference,
    grid_from,
    paper_grid,
    read_toml,
)
from munchausen._src.sweep.local import arrange
from munchausen._src.sweep.plan import (
    make_jobs,
    one_by_one,
    seed_groups,
    seeds_together_on_cpu,
    seeds_together_on_gpu,
)

SMALL = {"agents": ["dqn", "m-dqn"], "envs": ["minatar/breakout", "minatar/asterix"], "seeds": 2}


def test_every_combination_once():
    grid = grid_from(SMALL | {"overrides": {"alpha": [0, 0.5], "n_step": 3}}, "test")
    runs = [(job.agent, job.env, *job.seeds, job.changes) for job in make_jobs(grid, 1)]
    assert len(runs) == len(set(runs)) == grid.runs == 16
    assert {(*run, dict(changes)["alpha"]) for *run, changes in runs} == {
        (agent, env, seed, alpha)
        for agent in SMALL["agents"]
        for env in SMALL["envs"]
        for seed in (0, 1)
        for alpha in (0.0, 0.5)
    }
    assert all(dict(run[-1])["n_step"] == 3 for run in runs)


def test_few_seeds_of_all_before_many_of_few():
    jobs = make_jobs(grid_from(SMALL, "test"), 1)
    assert [job.seeds for job in jobs] == [(0,)] * 4 + [(1,)] * 4


def test_the_paper():
    """60 games × 3 seeds × 10 agents, 200M frames each."""
    grid = paper_grid()
    assert (len(grid.envs), len(grid.agents), len(grid.seeds), grid.runs) == (60, 10, 3, 1800)
    assert {s.steps for s in configurations(grid)} == {50_000_000}
    assert {s.config.capacity for s in configurations(grid)} == {1_000_000}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "names no agents"),
        ([], "is no sweep"),
        ({"agents": "dqn"}, "names no envs"),
        (SMALL | {"sedes": 3}, "'seeds'"),
        (SMALL | {"seeds": 0}, "from 1 to"),
        (SMALL | {"seeds": 10**9}, "from 1 to"),
        (SMALL | {"seeds": [1, 1]}, "different"),
        (SMALL | {"seeds": [-1]}, "different"),
        (SMALL | {"seeds": "two"}, "whole number"),
        (SMALL | {"agents": ["dqn", "dqn"]}, "twice"),
        (SMALL | {"agents": [3]}, "must be names"),
        (SMALL | {"steps": 0}, "at least 1"),
        (SMALL | {"checkpoint_seconds": -1}, "at least 0"),
        (SMALL | {"overrides": {"aplha": 1}}, "'alpha'"),
        (SMALL | {"overrides": {"alpha": []}}, "different values"),
        (SMALL | {"overrides": {"alpha": ["x"]}}, "must be a number"),
        (SMALL | {"overrides": {"tau": ["linaer:1:0"]}}, "did you mean 'linear'"),
        (SMALL | {"overrides": {"tau": "cosine:1:0,cosine:1:0"}}, "different values"),
        (SMALL | {"overrides": 3}, "table"),
        (SMALL | {"seeds": 1000, "overrides": {"n_step": list(range(1, 100))}}, "runs; at most"),
    ],
)
def test_refused(data, said):
    with pytest.raises(UserError, match=said):
        grid_from(data, "study.toml")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"agents": ["mdqn"]}, "'m-dqn'"),
        ({"envs": ["minatar/brekout"]}, "'minatar/breakout'"),
        ({"envs": ["atari/Breakout", "Breakout"]}, "twice"),
        ({"overrides": {"alpha": [2]}}, "alpha must be in"),
        ({"overrides": {"alpha": ["linear:0:2"]}}, "alpha must be in .* at its end"),
        ({"overrides": {"alpha": ["function:f"]}}, "give it again from Python"),
    ],
)
def test_refused_when_planned(change, said):
    with pytest.raises(UserError, match=said):
        make_jobs(grid_from(SMALL | change, "study.toml"), 1)


def test_to_json_and_back():
    grid = grid_from(SMALL | {"overrides": {"clip_min": [-1, "-inf"], "clip_rewards": True}}, "x")
    assert grid_from(json.loads(json.dumps(grid.to_json())), "x") == grid
    assert dict(grid.overrides)["clip_min"] == (-1.0, float("-inf"))


class TestSchedules:
    """Values with colons in them, and commas between."""

    DATA = SMALL | {"seeds": 1, "overrides": {"learning_rate": "cosine:5e-5:1e-6,1e-4"}}

    def test_are_values(self):
        grid = grid_from(self.DATA, "x")
        assert dict(grid.overrides) == {"learning_rate": (Cosine(5e-5, 1e-6), 1e-4)}
        as_list = SMALL | {"seeds": 1, "overrides": {"learning_rate": ["cosine:5e-5:1e-6", 1e-4]}}
        assert grid_from(as_list, "x") == grid
        assert grid_from(json.loads(json.dumps(grid.to_json())), "x") == grid

    def test_of_a_job(self):
        """Its name and its arguments do not say how long the run is: a sweep may go further, and
        then it is the same job in the same folder."""
        for steps in (400_000, 800_000):
            job = make_jobs(grid_from(self.DATA | {"steps": steps}, "x"), 1)[0]
            assert job.name == "minatar-breakout_dqn_learning_rate-cosine-5e-5-1e-6_seed0"
            assert job.label == "dqn (learning_rate cosine:5e-5:1e-6)"
            assert "--learning-rate=cosine:5e-5:1e-6" in job.arguments(Path("out"))

    def test_are_of_the_runs_length(self):
        first = configurations(grid_from(self.DATA | {"steps": 400_000}, "x"))[0]
        assert first.config.learning_rate == Cosine(5e-5, 1e-6, 400_000)


def test_the_difference_is_named():
    saved = grid_from(SMALL, "x")
    assert difference(saved, saved) is None
    assert difference(saved, grid_from(SMALL | {"steps": 99}, "x")) is None
    other = grid_from(SMALL | {"seeds": 3}, "x")
    assert difference(saved, other) == "seeds: the sweep has 0, 1, you asked for 0, 1, 2"


class TestToml:
    @pytest.fixture(autouse=True)
    @staticmethod
    def here(tmp_path, monkeypatch):
        folder = tmp_path / "a" / "b"
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)

    def write(self, out: str) -> Path:
        text = 'agents = ["dqn"]\nenvs = "minatar/breakout"\n[overrides]\nalpha = [0.1, 0.9]\n'
        path = Path("study.toml")
        path.write_text(f"out = {json.dumps(out)}\n{text}")
        return path

    def test_is_read(self):
        grid, out = read_toml(self.write("runs/mine"))
        assert out == Path("runs/mine")
        assert grid == Grid(("dqn",), ("minatar/breakout",), overrides=(("alpha", (0.1, 0.9)),))

    @pytest.mark.parametrize("out", ["../../x", "..", ".", "/etc/x", "runs/../../x", "~/../..", ""])
    def test_it_does_not_choose_where_to_write(self, out):
        if out in ("", "~/../.."):  # nothing, and a folder named ~ whose parent is this one's
            out = "./.." if out else "."
        with pytest.raises(UserError, match="not a folder under this one; give --out"):
            read_toml(self.write(out))

    def test_nor_through_a_link(self):
        os.symlink("..", "link")
        with pytest.raises(UserError, match="not a folder under this one"):
            read_toml(self.write("link/x"))

    def test_no_file(self):
        with pytest.raises(UserError, match="cannot read"):
            read_toml(Path("none.toml"))

    @pytest.mark.parametrize("text", [b"agents = [", b"\xff\xfe", b"a = 1\na = 2"])
    def test_no_toml(self, text):
        Path("bad.toml").write_bytes(text)
        with pytest.raises(UserError, match=r"cannot read bad\.toml"):
            read_toml(Path("bad.toml"))


class TestNames:
    """A job's name is a folder's, whatever an agent, an environment or a value is called."""

    HOSTILE = (
        "gym/../../x",
        "gym/..",
        "gym//etc/passwd",
        "gym/\x1b[2J",
        "gym/<script>alert(1)</script>",
        "gym/[red]x[/red]",
        "gym/a b\n",
        "gym/$(reboot)",
    )

    @pytest.mark.parametrize("env", HOSTILE)
    def test_registered_names(self, env, monkeypatch):
        import gymnasium

        spec = gymnasium.registry["CartPole-v1"]
        monkeypatch.setitem(gymnasium.registry, env.removeprefix("gym/"), spec)
        [job] = make_jobs(Grid(("dqn",), (env,)), 1)
        assert job.env == env
        assert set(job.name) <= set(string.ascii_letters + string.digits + "_.+-")
        assert Path("root", job.name).resolve().parent == Path("root").resolve()
        assert not job.name.startswith((".", "-"))
        assert f"--env={env}" in job.arguments(Path("out"))

    def test_the_same_name_for_two(self, monkeypatch):
        import gymnasium

        for name in ("a/b", "a-b", "A-B"):
            monkeypatch.setitem(gymnasium.registry, name, gymnasium.registry["CartPole-v1"])
        jobs = make_jobs(Grid(("dqn",), ("gym/a/b", "gym/a-b", "gym/A-B")), 1)
        assert len({job.name.lower() for job in jobs}) == 3

    @given(st.text(min_size=1, max_size=400))
    @settings(deadline=None, max_examples=60)
    def test_any_text(self, text):
        from munchausen._src.sweep.plan import _plain

        name = _plain(text) + "_seed0"
        assert "/" not in name
        assert "\0" not in name
        assert name not in (".", "..")
        assert len(name) < 255


class TestTogether:
    def test_consecutive_seeds(self):
        assert seed_groups([0, 1, 2, 5, 6, 9], 2) == [(0, 1), (2,), (5, 6), (9,)]
        assert seed_groups(range(4), 99) == [(0, 1, 2, 3)]

    def test_short_runs_share_a_process_and_long_ones_do_not(self):
        short = grid_from(SMALL | {"steps": 20_000}, "x")
        assert seeds_together_on_cpu(short, 2) == 2
        assert seeds_together_on_cpu(grid_from(SMALL, "x"), 2) == 1
        # Eight cores for eight runs: none waits, so none shares.
        assert seeds_together_on_cpu(short, 8) == 1

    def test_as_many_as_a_gpu_holds(self):
        paper = paper_grid()
        assert seeds_together_on_gpu(paper, 140 * 2**30) == 3
        assert seeds_together_on_gpu(paper, 24 * 2**30) == 2  # 7 GB of frames each
        assert seeds_together_on_gpu(paper, 2**30) == 1

    def test_one_by_one(self):
        grid = grid_from({"agents": "dqn", "envs": "minatar/breakout", "seeds": 3}, "x")
        [job] = make_jobs(grid, 3)
        assert one_by_one(job) == make_jobs(grid, 1)


class TestMachine:
    """What is started where, without touching it."""

    GRID = grid_from(SMALL | {"seeds": 4}, "x")
    GPUS = (Gpu("0", 80 * 2**30), Gpu("1", 80 * 2**30))

    def arrange(self, monkeypatch, found, *, memory=2**40, fraction=None):
        monkeypatch.setattr(local, "gpus", lambda: list(found))
        monkeypatch.setattr(local, "cores", lambda: 8)
        monkeypatch.setattr(local, "available_bytes", lambda: memory)
        return arrange(self.GRID, parallel=None, together=None, fraction=fraction)

    def test_a_process_a_core(self, monkeypatch):
        arrangement, slots = self.arrange(monkeypatch, ())
        assert (arrangement.slots, arrangement.together) == (8, 1)
        assert slots == [{"NPROC": "1", "OMP_NUM_THREADS": "1"}] * 8

    def test_as_far_as_memory_reaches(self, monkeypatch):
        arrangement, slots = self.arrange(monkeypatch, (), memory=4 * 2**30)
        assert arrangement.slots == len(slots) == 3  # 0.8 GB, a replay of 0.1 GB, and room
        assert slots[0]["NPROC"] == "2"

    def test_a_process_a_gpu_with_all_seeds(self, monkeypatch):
        arrangement, slots = self.arrange(monkeypatch, self.GPUS)
        assert (arrangement.slots, arrangement.together) == (2, 4)
        assert [slot["CUDA_VISIBLE_DEVICES"] for slot in slots] == ["0", "1"]

    def test_gpus_by_fraction(self, monkeypatch):
        arrangement, slots = self.arrange(monkeypatch, self.GPUS, fraction=0.25)
        assert arrangement.slots == 8
        assert Counter(slot["CUDA_VISIBLE_DEVICES"] for slot in slots) == {"0": 4, "1": 4}
        share = {float(slot["XLA_PYTHON_CLIENT_MEM_FRACTION"]) for slot in slots}
        assert share == {0.225}  # four of them leave a tenth

    def test_a_fraction_of_nothing(self, monkeypatch):
        with pytest.raises(UserError, match="there is none here"):
            self.arrange(monkeypatch, (), fraction=0.5)
