"""A suite's record, what finds it, and one of a user's own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

import munchausen
from command_line import assert_refused
from command_line import munchausen as command
from munchausen import Agent, UserError
from munchausen._src.experiment.settings import make_settings
from munchausen._src.suites import find, import_by_name, listings, look_up, make_jax, registry
from munchausen._src.sweep.estimate import run_disk_bytes
from munchausen._src.sweep.plan import replay_bytes
from munchausen.suites import GYM, MINATAR, EnvironmentSpec, Preset, Protocol, Suite, register

SMALL = ["--network", "mlp-small", "--capacity", "400", "--warmup-steps", "100"]
SMALL += ["--batch-size", "8", "--iteration-steps", "200", "--steps", "400"]


class Picture:
    """One step long; an image of 30 × 20 is seen."""

    spec = EnvironmentSpec("mine/picture", (30, 20, 3), "uint8", 2, truncates=False)

    def init(self, key):  # noqa: ARG002
        return jnp.int32(0), jnp.zeros((30, 20, 3), jnp.uint8)

    def step(self, state, action, key):
        raise NotImplementedError  # plans need it not


def picture(_game, **_protocol):
    return Picture()


@pytest.fixture
def suites():
    """Those that a test registers are gone after it."""
    known = dict(registry.SUITES)
    yield registry.SUITES
    for name in set(registry.SUITES) - set(known):
        del registry.SUITES[name]
    assert known == registry.SUITES


class TestNames:
    def test_every_listing_is_found_by_its_name(self):
        assert len({listing.name for listing in listings()}) == 5 + 4 + 60
        for listing in listings():
            assert find(listing.name) == look_up(listing.name) == listing

    def test_facts_of_a_name_alone(self):
        assert look_up("nobody/knows") is None
        listing = look_up("gym/some.module:Not-Imported-v0")
        assert (listing.suite, listing.game) == (GYM, "some.module:Not-Imported-v0")
        assert (listing.steps, look_up("gym/Acrobot-v1").steps) == (100_000, 100_000)
        assert look_up("gym/LunarLander-v3").steps == 200_000

    def test_a_name_with_several_slashes(self, monkeypatch):
        monkeypatch.setitem(gymnasium.registry, "a/b", gymnasium.registry["CartPole-v1"])
        assert find("gym/a/b").name == "gym/a/b"

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("minatar/brekout", "did you mean 'minatar/breakout'?"),
            ("atari/Brekout", "did you mean 'atari/Breakout'?"),
            ("atari-original/Brekout", "did you mean 'atari-original/Breakout'?"),
            ("minatar/pong", "'atari/Pong'"),
            ("mintar/breakout", "'minatar/breakout'"),
            ("CartPol-v1", "did you mean 'gym/CartPole-v1'?"),
            ("xyzzy", "gym/CartPole-v1.* and 59 more games of Atari.*--import"),
        ],
    )
    def test_slips(self, name, said):
        with pytest.raises(UserError, match=said):
            find(name)

    def test_facts_need_neither_jax_nor_gymnasium(self):
        code = (
            "import sys, munchausen.suites\n"
            "from munchausen._src.evidence.metrics import reference\n"
            "assert reference.human_score('atari/Breakout') == 30\n"
            "assert reference.random_score('gym/CartPole-v1') == 22.3\n"
            "sys.exit(bool({'jax', 'gymnasium', 'ale_py'} & set(sys.modules)))"
        )
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0


class TestRegistering:
    def test_twice(self, suites):
        suite = Suite("mine", picture, games=("picture",))
        assert munchausen.register(suite) is suite
        with pytest.raises(UserError, match="there is a suite 'mine' already"):
            register(suite)
        assert suites["mine"] is suite

    @pytest.mark.parametrize("name", ["atari", "ATARI", "ale", "atari-original", "gym", "MinAtar"])
    def test_a_name_that_is_taken(self, suites, name):
        with pytest.raises(UserError, match=f"there is a suite '{name}' already"):
            register(Suite(name, picture, games=("picture",)))
        with pytest.raises(UserError, match=f"there is a suite '{name}' already"):
            register(Suite("mine", picture, games=("picture",), other_names=(name,)))
        protocols = {"usual": Protocol("mine"), "other": Protocol(name)}
        with pytest.raises(UserError, match=f"there is a suite '{name}' already"):
            register(Suite("mine", picture, games=("picture",), protocols=protocols))
        assert "mine" not in suites

    @pytest.mark.parametrize("name", ["", "a/b", "a b", "a:b", "-a"])
    def test_a_name_that_could_not_be_written(self, name, suites):  # noqa: ARG002
        with pytest.raises(UserError, match="a suite's name is letters"):
            register(Suite(name, picture, games=("picture",)))

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"games": ()}, "names no games"),
            ({"games": ("a", "b", "a")}, "names a game twice"),
            ({"games": "picture"}, "names no games"),
            ({"loop": "devise"}, "did you mean 'device'"),
            ({"make": None}, "make must be a function"),
        ],
    )
    def test_a_record_that_cannot_be(self, changes, said):
        suite = Suite("mine", picture, games=("picture",))
        for field, value in changes.items():  # past the types, which tests check and users may not
            object.__setattr__(suite, field, value)
        with pytest.raises(UserError, match=said):
            suite.__post_init__()

    def test_presets_and_protocols(self, suites):  # noqa: ARG002
        presets = (*MINATAR.presets, Preset({"n_step": 5}, {"head": ("quantile", "implicit")}))
        hard = Protocol("mine-hard", (Preset({"epsilon": 0.2}),))
        protocols = {"easy": Protocol("mine"), "hard": hard}
        scores = {"picture": {"random": 1.0, "human": 9.0, "m-dqn": 5.0}}
        register(
            Suite(
                *("mine", picture, ("picture",)),
                presets=presets,
                protocols=protocols,
                references=scores,
            )
        )
        assert find("mine/picture", "hard") == find("mine-hard/picture")
        assert find("mine-hard/picture").references == {"random": 1.0, "human": 9.0}
        assert find("mine/picture").references == scores["picture"]
        easy = make_settings(["m-dqn", "al"], "mine/picture", seeds=[0])
        assert (easy.env, easy.config.network, easy.config.n_step) == ("mine/picture", "minatar", 1)
        config = make_settings(["iqn"], "picture", protocol="hard", seeds=[0]).config
        assert (config.n_step, config.epsilon, easy.config.epsilon) == (5, 0.2, 0.01)
        with pytest.raises(UserError, match="did you mean 'hard'"):
            find("mine/picture", "hrad")

    @pytest.mark.parametrize(
        ("preset", "said"),
        [
            (Preset({"n_stp": 3}), "did you mean 'n_step'"),
            (Preset({"n_step": 3}, {"hed": "implicit"}), "did you mean 'head'"),
            (Preset({"n_step": 0}), "n_step must be at least 1"),
        ],
    )
    def test_presets_that_cannot_be(self, suites, preset, said):  # noqa: ARG002
        register(Suite("mine", picture, games=("picture",), presets=(preset,)))
        with pytest.raises(UserError, match=said):
            make_settings(["m-dqn"], "mine/picture", seeds=[0])

    def test_what_is_made_must_be_an_environment(self, suites):  # noqa: ARG002
        register(Suite("mine", lambda _: object(), games=("picture",)))
        with pytest.raises(UserError, match=r"mine/picture .* is no JaxEnvironment: it needs"):
            make_jax(find("mine/picture"))

    def test_a_package_that_is_missing(self, suites):  # noqa: ARG002
        def make(_game):
            raise ImportError("No module named 'snow'")

        register(Suite("mine", make, games=("picture",)))
        with pytest.raises(UserError, match="mine/picture cannot be made: No module named 'snow'"):
            make_jax(find("mine/picture"))


class TestPlanning:
    def test_images_are_planned_at_their_size(self, suites):  # noqa: ARG002
        register(Suite("mine", picture, games=("picture",), presets=MINATAR.presets))
        settings = make_settings(["m-dqn"], "mine/picture", seeds=[0])
        assert replay_bytes(settings) == 100_000 * (30 * 20 * 3 + 12)
        assert run_disk_bytes(settings) > 2 * 100_000 * 30 * 20 * 3

    def test_and_those_of_gymnasium(self):
        class Camera(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(0, 255, (24, 16, 3), np.uint8)
            action_space = gymnasium.spaces.Discrete(2)

        gymnasium.register("Camera-v0", Camera)
        try:
            settings = make_settings(["m-dqn"], "gym/Camera-v0", seeds=[0])
            assert replay_bytes(settings) == 50_000 * (24 * 16 * 3 + 12)
        finally:
            del gymnasium.registry["Camera-v0"]
        settings = make_settings(["m-dqn"], "gym/CartPole-v1", seeds=[0])
        assert replay_bytes(settings) == 50_000 * (4 * 4 + 12)

    def test_atari_without_starting_it(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "ale_py.vector_env", None)
        settings = make_settings(["m-dqn"], "atari-original/Pong", seeds=[0])
        assert replay_bytes(settings) == 1_000_000 * (84 * 84 + 12)


@pytest.fixture
def corridor(tmp_path, monkeypatch, suites):  # noqa: ARG001
    """The example of CONTRIBUTING.md as a module, in a folder of its own."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [example] = [block for block in blocks if "class Corridor" in block]
    (tmp_path / "corridor_of_mine.py").write_text(example)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.path.insert(0, str(tmp_path))
    yield "corridor_of_mine"
    sys.modules.pop("corridor_of_mine", None)


class TestOwn:
    """Every command, with the environment that CONTRIBUTING.md shows."""

    def test_from_the_command_line(self, corridor):
        own = ["--import", corridor]
        names = [row["name"] for row in json.loads(command("envs", "--json", *own).out)]
        assert "walks/corridor" in names
        train = ["train", "--env", "walks/corridor", "--out", "run", *SMALL]
        result = command(*train, *own)
        assert result.code == 0, result.err
        assert f"evaluate run --import {corridor}" in result.out
        result = command("evaluate", "run", "--episodes", "3", "--json", *own)
        assert result.code == 0, result.err
        assert 0 <= json.loads(result.out)["mean"] <= 1
        result = command("watch", "run", "--steps", "5", *own)
        assert result.code == 0, result.err
        assert Path("run/watch.mp4").stat().st_size > 1_000
        assert command("report", "run", "--format", "md", *own).code == 0

    def test_not_imported_it_is_asked_for(self, corridor):
        del corridor
        said = command("train", "--env", "walks/corridor")
        assert_refused(said, "walks/corridor", "--import MODULE")

    def test_in_a_sweep(self, corridor):
        sweep = ["sweep", "--agents", "m-dqn", "--envs", "walks/corridor", "--out", "sweep"]
        plan = ["--dry-run", "--rate", "1000", "--json"]
        result = command(*sweep, *SMALL, *plan, "--import", corridor)
        assert result.code == 0, result.err
        assert json.loads(result.out)["steps_per_second"] == {"m-dqn on walks": 1000.0}
        result = command(*sweep, *SMALL, "--import", corridor)  # each run in a process of its own
        assert result.code == 0, result.err
        assert list(Path("sweep").glob("walks-corridor_m-dqn*/records.jsonl"))

    def test_from_python(self, corridor):
        import_by_name(corridor)
        changes = {"network": "mlp-small", "capacity": 400, "warmup_steps": 100, "batch_size": 8}
        agent = Agent("m-dqn", env="walks/corridor", **changes).learn(200)
        assert set(agent.evaluate(episodes=4).returns) <= {0.0, 1.0}
        assert agent.q_values(np.eye(5, dtype=np.float32)).shape == (5, 2)


def test_a_render_is_what_is_seen(suites):  # noqa: ARG001
    """Or else the frame itself."""
    from corridor import Corridor
    from munchausen._src.evidence.figures.play_video import GAME_WIDTH, HEIGHT, _game
    from munchausen._src.experiment.playing import _player

    class Drawn(Corridor):
        def render(self, state):
            return jnp.full((8, 12, 3), 10 * state[0], jnp.uint8)

    register(
        Suite("mine", lambda game: {"plain": Corridor, "drawn": Drawn}[game](), ("plain", "drawn"))
    )
    plain, drawn = (_player(find(f"mine/{game}"), 3) for game in ("plain", "drawn"))
    assert plain.screen().shape == (5,)
    place = int(np.argmax(plain.screen()))
    np.testing.assert_array_equal(drawn.screen(), np.full((8, 12, 3), 10 * place))
    for screen in (plain.screen(), drawn.screen(), np.zeros((4, 4, 7), bool), np.eye(3)):
        assert _game(screen).size == (GAME_WIDTH, HEIGHT)
    assert np.asarray(_game(plain.screen())).max() == 255
