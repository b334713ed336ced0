"""`munchausen watch` and `bench`, evaluation phases, and what is said before a run."""

import contextlib
import io
import json
import re
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen import Agent
from munchausen._src import cli
from munchausen._src import suites as envs
from munchausen._src.errors import UserError
from munchausen._src.evidence.figures import play_video
from munchausen._src.experiment import bench, playing, resources
from munchausen._src.experiment.evaluation import phase
from munchausen._src.experiment.policy import load_run
from munchausen._src.experiment.records import read_records
from munchausen._src.experiment.settings import make_settings
from munchausen._src.loops.lane import as_arrays, make_steps
from munchausen._src.suites import action_names, find

TINY_ATARI = ["--envs", "8", "--capacity", "1000", "--warmup-steps", "200"]
TINY_ATARI += ["--update-period-steps", "40", "--target-period-steps", "200"]


def munchausen(capsys, *arguments):
    capsys.readouterr()
    code = cli.main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def minatar_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("minatar") / "run"
    words = ["train", "m-dqn", "--steps", "2000", "--iteration-steps", "1000", "--out", str(out)]
    assert cli.main([*words, "--evaluation-steps", "300"]) == 0
    return out


@pytest.fixture(scope="module")
def atari_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("atari") / "run"
    words = ["train", "m-dqn", "--env", "Breakout", "--steps", "240", "--iteration-steps", "120"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = cli.main([*words, "--update-period-steps", "40", "--out", str(out), *TINY_ATARI])
    assert code == 0
    assert "starting 8 emulators" in said.getvalue()
    assert re.search(r"^speed: [\d,]+ frames/s$", said.getvalue(), re.MULTILINE)
    for row in read_records(out):  # each rounded to a tenth
        assert abs(row["frames_per_second"] - 4 * row["steps_per_second"]) < 0.3
    return out


class TestWatch:
    @pytest.mark.parametrize("name", ("minatar_run", "atari_run"))
    def test_writes_a_video_and_a_gif(self, capsys, tmp_path, request, name):
        import av
        from PIL import Image

        run, out = request.getfixturevalue(name), tmp_path / "clip.mp4"
        words = ["watch", str(run), "--steps", "12", "--out", str(out), "--json"]
        code, text, _ = munchausen(capsys, *words)
        assert code == 0
        report = json.loads(text)
        assert report["files"] == [str(out), str(tmp_path / "clip.gif")]
        assert report["ended"] == (report["steps"] < 12)
        with av.open(str(out)) as video:
            frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
        assert len(frames) == report["steps"]
        assert frames[0].shape == (play_video.HEIGHT, play_video.WIDTH, 3)
        # The game on the left, bars in the colour of the chosen action on the right.
        assert len(np.unique(frames[-1][:, : play_video.GAME_WIDTH].reshape(-1, 3), axis=0)) > 2
        with Image.open(tmp_path / "clip.gif") as gif:
            assert gif.n_frames == report["steps"]

    def test_shows_what_the_agent_thinks(self, minatar_run):
        policy = load_run(minatar_run)
        moments = list(playing.play(policy, epsilon=0.0, seed=1, max_steps=200))
        assert 0 < len(moments) < 200
        assert [moment.over for moment in moments] == [False] * (len(moments) - 1) + [True]
        for moment in moments:
            assert moment.action == np.argmax(moment.q)
            np.testing.assert_allclose(moment.policy.sum(), 1, rtol=1e-5)
            assert play_video.action_gap(moment.q) == pytest.approx(
                np.diff(np.sort(moment.q))[-1], abs=1e-6
            )
        scores = np.cumsum([moment.reward for moment in moments])
        np.testing.assert_allclose([m.score for m in moments[1:]], scores[:-1])
        again = list(playing.play(policy, epsilon=0.0, seed=1, max_steps=200))
        assert [m.action for m in again] == [m.action for m in moments]

    def test_says_when_the_episode_goes_on(self, capsys, minatar_run, tmp_path):
        words = ["watch", str(minatar_run), "--no-gif", "--out", str(tmp_path / "clip.mp4")]
        assert "the episode goes on" in munchausen(capsys, *words, "--steps", "2")[1]
        assert "the episode goes on" not in munchausen(capsys, *words)[1]

    def test_names_of_actions(self):
        assert action_names(find("Breakout")) == ["NOOP", "FIRE", "RIGHT", "LEFT"]
        assert action_names(find("minatar/breakout")) == ["0", "1", "2"]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--out", "clip.avi"], "must end in .mp4"),
            (["--out", "nowhere/clip.mp4"], "there is no folder nowhere"),
            (["--epsilon", "2"], "epsilon must be in [0, 1]"),
            (["--steps", "0"], "steps must be at least 1"),
        ],
    )
    def test_mistakes(self, capsys, minatar_run, words, said):
        code, _, err = munchausen(capsys, "watch", str(minatar_run), *words)
        assert code == 2
        assert said in err

    def test_a_place_that_cannot_be_written_is_said_before_the_game(
        self, capsys, minatar_run, tmp_path
    ):
        (tmp_path / "clip.mp4").mkdir()
        code, out, err = munchausen(
            capsys, "watch", str(minatar_run), "--out", str(tmp_path / "clip.mp4")
        )
        assert (code, out) == (2, "")
        assert "cannot write" in err

    def test_without_the_extra_says_how_to_install_it(self, capsys, minatar_run, monkeypatch):
        monkeypatch.setitem(sys.modules, "av", None)
        code, _, err = munchausen(capsys, "watch", str(minatar_run), "--steps", "2")
        assert code == 2
        assert "[video]'" in err


def test_evaluation_phase_is_recorded(minatar_run):
    for row in read_records(minatar_run):
        assert row["evaluation_episodes"] >= 1
        assert np.isfinite(row["evaluation_score"])


@pytest.mark.parametrize("name", ("minatar_run", "atari_run"))
def test_a_phase_plays_whole_episodes_for_its_steps(request, name):
    policy = load_run(request.getfixturevalue(name))
    arguments = {"steps": 160, "epsilon": 1.0, "seed": 3}
    result = phase(policy.settings, policy.network, policy.regulariser, **arguments)
    assert result.lengths.sum() >= 160
    assert len(result.returns) == len(result.lengths) >= 8
    again = phase(policy.settings, policy.network, policy.regulariser, **arguments)
    np.testing.assert_array_equal(result.returns, again.returns)


class TestBench:
    @pytest.mark.parametrize(
        "words",
        (
            ["m-dqn", "--env", "gym/CartPole-v1", "--network", "mlp-small"],
            # These compile for minutes.
            pytest.param(["m-dqn", "--capacity", "2000"], marks=pytest.mark.slow),
            pytest.param(["m-rainbow", "--seeds", "2"], marks=pytest.mark.slow),
            pytest.param(["m-dqn", "--env", "atari/Pong", *TINY_ATARI], marks=pytest.mark.slow),
        ),
    )
    def test_measures_the_parts_and_the_whole(self, capsys, words):
        code, out, _ = munchausen(capsys, "bench", *words, "--seconds", "1", "--json")
        assert code == 0
        result = json.loads(out)
        for part in ("environments", "learner", "training", "ratio_to_limit"):
            assert result[part] > 0
        assert result["unit"] == ("frames/s" if "atari/Pong" in words else "steps/s")


def test_a_replay_is_filled_without_another_of_its_size():
    small = {"envs": 8, "capacity": 8_000, "warmup_steps": 1_000}
    settings = make_settings(["m-dqn"], "atari/Pong", seeds=[0], changes=small)
    frames = jnp.zeros((settings.config.envs, 84, 84), jnp.uint8)
    steps = make_steps(settings.config, envs.spec_of(settings.listing), munchausen=True)
    regulariser = as_arrays(settings.lanes[0].config.regulariser)
    lane = jax.eval_shape(steps.init, jax.random.key(0), regulariser, frames)
    memory = bench.filler(actions=6, width=1).lower(lane).compile().memory_analysis()
    assert memory.temp_size_in_bytes < lane.replay.ring.frames.size
    assert memory.alias_size_in_bytes >= lane.replay.ring.frames.size


class TestBeforeARun:
    def test_a_replay_that_does_not_fit(self, monkeypatch):
        monkeypatch.setattr(resources, "device_memory", lambda: 4_000_000_000)
        settings = make_settings(["m-dqn"], "Breakout", seeds=[0])
        with pytest.raises(UserError, match=r"needs 7.1 GB .* has 4.0 GB; lower --capacity \(to"):
            resources.check(settings)
        fits = make_settings(["m-dqn"], "Breakout", seeds=[0], changes={"capacity": 500_000})
        monkeypatch.setattr(resources, "cpu_seconds", lambda *_: 0.0)
        assert resources.check(fits) is None

    def test_atari_without_a_gpu_says_how_long(self, monkeypatch):
        monkeypatch.setattr(resources, "device_memory", lambda: 10**12)
        timed = []
        monkeypatch.setattr(resources, "_update_seconds", lambda x: timed.append(x) or 0.05)
        long = make_settings(["m-dqn"], "Breakout", seeds=[0])
        said = []
        warning = resources.check(long, said.append)
        assert "50,000,000 steps will take about 8 days" in warning  # 12.5M updates
        assert said == ["no GPU: timing an update on this CPU …"]
        both = make_settings(["m-dqn"], "Breakout", seeds=[0, 1])
        assert "about 15 days" in resources.check(both)
        assert timed == [long, both]
        short = make_settings(["m-dqn"], "Breakout", seeds=[0], steps=60_000)
        assert resources.check(short) is None  # 10,000 updates, nine minutes
        few = make_settings(["m-dqn"], "Breakout", seeds=[0], steps=23_800)
        assert resources.check(few, said.append) is None
        assert len(said) == 1
        assert timed == [long, both, short]  # 950 updates are not timed

    @pytest.mark.parametrize("agent", ("m-dqn", "m-iqn", "rainbow"))
    def test_an_update_is_timed(self, monkeypatch, agent):
        """By the clock, without the compiling."""
        clock = iter((0.0, 100.0, *range(100, 110)))
        monkeypatch.setattr(resources, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        settings = make_settings([agent], "Breakout", seeds=[0], changes={"batch_size": 2})
        assert resources._update_seconds(settings) == 1

    def test_in_python_too(self, monkeypatch):
        class Started(Exception):
            pass

        def training(*_):
            raise Started

        monkeypatch.setattr(resources, "device_memory", lambda: 10**12)
        monkeypatch.setattr(resources, "_update_seconds", lambda _: 0.05)
        monkeypatch.setattr("munchausen._src.api.Training", training)
        agent = Agent("m-dqn", env="Breakout")
        with pytest.warns(UserWarning, match="no GPU found: .* days"), pytest.raises(Started):
            agent.learn(50_000_000)

    def test_lanes_are_counted_twice_only_where_they_are_apart(self, monkeypatch):
        monkeypatch.setattr(resources, "device_memory", lambda: 20_000_000_000)
        resources.check_memory(make_settings(["m-dqn"], "Breakout", seeds=[0, 1]))
        with pytest.raises(UserError, match=r"for 3 lanes needs .* or train fewer seeds at once"):
            resources.check_memory(make_settings(["m-dqn"], "Breakout", seeds=[0, 1, 2]))

    def test_a_container_may_have_less_than_the_machine(self, tmp_path):
        limit = tmp_path / "memory.max"
        assert resources.container_memory(limit) is None
        limit.write_text("max\n")
        assert resources.container_memory(limit) is None
        limit.write_text("4294967296\n")
        assert resources.container_memory(limit) == 2**32

    def test_the_device_says_how_much_it_has(self):
        assert jax.default_backend() != "cpu" or resources.device_memory() > 10**8
