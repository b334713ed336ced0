"""The Python interface: learn, predict, save, load."""

import json
import os
import pickle
import signal
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from same_runs import TIMING

from munchausen import Agent
from munchausen._src.errors import UserError
from munchausen._src.experiment import folder, policy
from munchausen._src.experiment.accounting import LaneAccount
from munchausen._src.experiment.checkpoint import list_checkpoints
from munchausen._src.experiment.records import read_records
from munchausen._src.experiment.stopping import Interrupted

CARTPOLE = {
    "env": "gym/CartPole-v1",
    "network": "mlp-small",
    "warmup_steps": 200,
    "capacity": 2000,
    "batch_size": 16,
}
BREAKOUT = {
    "env": "minatar/breakout",
    "network": "minatar-linear",
    "envs": 8,
    "warmup_steps": 400,
    "capacity": 2000,
}
STATES = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
SCREENS = np.random.default_rng(0).random((5, 10, 10, 4)) < 0.2


@pytest.fixture(scope="module")
def cartpole():
    return Agent("m-dqn", **CARTPOLE).learn(400)


def close(agent: Agent) -> None:
    """An agent's environments and threads live for as long as it does."""
    agent._training.close()


@pytest.fixture(scope="module")
def breakout(tmp_path_factory):
    """With a run folder."""
    out = tmp_path_factory.mktemp("api") / "run"
    agent = Agent("m-dqn", **BREAKOUT).learn(800, out=out)
    yield agent, out
    close(agent)


@pytest.fixture(params=["cartpole", "breakout"])
def learned(request):
    """An agent that has learned, and a batch of observations for it."""
    if request.param == "cartpole":
        return request.getfixturevalue("cartpole"), STATES
    return request.getfixturevalue("breakout")[0], SCREENS


class TestPredict:
    def test_one_observation(self, learned):
        agent, batch = learned
        action = agent.predict(batch[0])
        assert type(action) is int
        assert action == np.argmax(agent.q_values(batch[0]))

    def test_a_batch(self, learned):
        agent, batch = learned
        actions, values = agent.predict(batch), agent.q_values(batch)
        assert actions.shape == (5,)
        assert values.shape == (5, 2 if batch is STATES else 3)
        assert np.isfinite(values).all()
        np.testing.assert_array_equal(actions, values.argmax(axis=1))
        np.testing.assert_array_equal(actions, [agent.predict(x) for x in batch])
        np.testing.assert_allclose(values[1], agent.q_values(batch[1]), rtol=1e-5)

    def test_lists_will_do(self, cartpole):
        assert cartpole.predict(STATES[0].tolist()) == cartpole.predict(STATES[0])
        assert len(cartpole.predict(STATES.tolist())) == 5

    def test_epsilon_one_is_random(self, cartpole):
        observations = np.tile(STATES[0], (200, 1))
        assert len(set(cartpole.predict(observations).tolist())) == 1
        actions = cartpole.predict(observations, epsilon=1.0)
        assert 50 < actions.sum() < 150
        assert (actions != cartpole.predict(observations, epsilon=1.0)).any()  # drawn anew

    def test_a_stochastic_agent_draws(self):
        """From softmax(q/τ): at a high temperature, about evenly."""
        agent = Agent("m-dqn-stochastic", tau=100.0, **CARTPOLE).learn(8)
        actions = agent.predict(np.tile(STATES[0], (200, 1)))
        assert 50 < actions.sum() < 150

    @pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 2, 4), (10, 10, 4)])
    def test_another_shape_is_refused(self, cartpole, shape):
        for ask in (cartpole.predict, cartpole.q_values):
            with pytest.raises(UserError, match=r"gym/CartPole-v1 has shape \(4,\), not "):
                ask(np.zeros(shape))

    def test_in_gymnasium(self, cartpole):
        env = gymnasium.make("CartPole-v1")
        observation, _ = env.reset(seed=0)
        for _ in range(5):
            observation, *_ = env.step(cartpole.predict(observation))
        env.close()

    def test_before_learning(self):
        agent = Agent("m-dqn", **CARTPOLE)
        for ask in (agent.predict, agent.q_values):
            with pytest.raises(UserError, match=r"has not learned yet; call learn\(steps\)"):
                ask(STATES[0])
        assert agent.score is None
        assert agent.records == []


class TestLearn:
    def test_moves_the_values(self, cartpole):
        fresh = Agent("m-dqn", **CARTPOLE).learn(4)  # within the warm-up
        assert not np.array_equal(fresh.q_values(STATES), cartpole.q_values(STATES))

    def test_same_seed_same_agent(self, breakout):
        same = Agent("m-dqn", **BREAKOUT).learn(800)
        np.testing.assert_array_equal(same.q_values(SCREENS), breakout[0].q_values(SCREENS))

    def test_another_seed_another_agent(self, cartpole):
        other = Agent("m-dqn", seed=1, **CARTPOLE).learn(400)
        assert not np.array_equal(other.q_values(STATES), cartpole.q_values(STATES))

    def test_twice_goes_on(self, breakout):
        """Two halves are the whole: nothing begins again."""
        agent = Agent("m-dqn", **BREAKOUT).learn(400)
        half = agent.q_values(SCREENS)
        assert agent.learn(400) is agent
        assert not np.array_equal(agent.q_values(SCREENS), half)
        np.testing.assert_array_equal(agent.q_values(SCREENS), breakout[0].q_values(SCREENS))
        # Both ended inside the first iteration: its row is of all of it.
        assert [row["step"] for row in agent.records] == [800]
        [row] = breakout[0].records
        columns = set(row) - set(TIMING)
        assert {k: agent.records[0][k] for k in columns} == {k: row[k] for k in columns}

    @pytest.mark.parametrize("kept", [False, True])
    def test_stopped_and_asked_again(self, tmp_path, monkeypatch, kept):
        """Ctrl-C, in a notebook say: what was learned stays, and the next call is not stopped."""
        agent = Agent("m-dqn", **BREAKOUT)
        add = LaneAccount.add

        def add_and_signal(*args):
            monkeypatch.setattr(LaneAccount, "add", add)
            signal.raise_signal(signal.SIGINT)
            return add(*args)

        monkeypatch.setattr(LaneAccount, "add", add_and_signal)
        with pytest.raises(Interrupted if kept else KeyboardInterrupt):
            agent.learn(100_000, out=tmp_path / "run" if kept else None)
        stopped = agent._training.step
        assert 0 < stopped < 100_000
        agent.predict(SCREENS)
        agent.learn(1600)
        assert agent._training.step == stopped + 1600
        close(agent)

    def test_score_and_records(self, cartpole):
        [row] = cartpole.records
        assert (row["env"], row["agent"], row["step"]) == ("gym/CartPole-v1", "m-dqn", 400)
        assert row["score_100"] == cartpole.score
        assert cartpole.score >= 8  # no CartPole episode is shorter

    def test_steps_are_whole_groups(self):
        agent = Agent("m-dqn", **CARTPOLE).learn(5)
        assert agent.records[-1]["step"] == 8

    def test_keeps_a_run_folder(self, breakout):
        agent, out = breakout
        assert (out / "config.json").exists()
        assert read_records(out) == agent.records
        assert [place.name for place in list_checkpoints(out)] == ["step-000000000800"]

    def test_folder_of_another_run(self, breakout):
        with pytest.raises(UserError, match=r"in use|already holds a run"):
            Agent("m-dqn", **BREAKOUT).learn(8, out=breakout[1])

    def test_folder_is_chosen_once(self, cartpole, tmp_path):
        with pytest.raises(UserError, match="first call"):
            cartpole.learn(4, out=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_twice_with_a_folder(self, tmp_path):
        agent = Agent("m-dqn", **CARTPOLE).learn(8, out=tmp_path / "run").learn(8)
        close(agent)
        assert json.loads((tmp_path / "run" / "config.json").read_text())["steps"] == 16

    def test_a_folder_is_free_after_learning(self, breakout):
        """To resume it from the command line while the notebook that began it is open."""
        _, out = breakout
        folder.reopen(out, folder.load_settings(out)).close()

    @pytest.mark.parametrize("steps", [0, -8])
    def test_no_steps(self, steps):
        with pytest.raises(UserError, match="steps"):
            Agent("m-dqn", **CARTPOLE).learn(steps)

    def test_twice_with_a_folder_inside_an_iteration(self, tmp_path):
        """The rows of its file are those of the agent."""
        agent = Agent("m-dqn", **CARTPOLE).learn(208, out=tmp_path / "run")
        agent.learn(208)
        close(agent)
        assert read_records(tmp_path / "run") == agent.records
        assert [row["step"] for row in agent.records] == [416]

    def test_evaluate(self, cartpole):
        result = cartpole.evaluate(episodes=3)
        assert result.returns.shape == result.lengths.shape == (3,)
        np.testing.assert_array_equal(result.returns, result.lengths)  # CartPole pays 1 a step

    @pytest.mark.parametrize("episodes", [0, -1])
    def test_no_episodes(self, cartpole, episodes):
        with pytest.raises(UserError, match="episodes must be at least 1"):
            cartpole.evaluate(episodes=episodes)

    @pytest.mark.parametrize("epsilon", [-0.1, 1.5, float("nan")])
    def test_an_epsilon_that_is_no_probability(self, cartpole, epsilon):
        with pytest.raises(UserError, match=r"epsilon must be in \[0, 1\]"):
            cartpole.evaluate(1, epsilon=epsilon)
        with pytest.raises(UserError, match=r"epsilon must be in \[0, 1\]"):
            cartpole.predict(np.zeros(4), epsilon=epsilon)

    def test_says_what_it_is(self, cartpole):
        assert repr(cartpole).startswith("<Agent m-dqn on gym/CartPole-v1, seed 0, step ")


class TestFields:
    def test_are_changed(self):
        agent = Agent("m-dqn", alpha=0.5, n_step=3, clip_min=float("-inf"), **CARTPOLE)
        assert (agent.config.alpha, agent.config.n_step) == (0.5, 3)
        assert agent.config.clip_min == float("-inf")
        assert agent.config.tau == 0.03  # the preset's

    def test_any_name_of_an_environment(self):
        names = ("Pong", "ALE/Pong-v5", "PongNoFrameskip-v4", "atari/pong")
        assert len({Agent("m-dqn", env=name, capacity=20_000).config for name in names}) == 1

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"alhpa": 0.5}, "unknown field 'alhpa'; did you mean 'alpha'"),
            ({"n_step": 1.5}, "n_step must be a whole number, not 1.5"),
            ({"n_step": True}, "n_step must be a whole number, not True"),
            ({"alpha": "high"}, "alpha must be a number or a schedule .*, not 'high'"),
            ({"alpha": None}, "alpha must be a number or a schedule .*, not None"),
            ({"alpha": 1.5}, r"alpha must be in \[0, 1\], not 1.5"),
            ({"tau": float("nan")}, "tau must be at least 0, not nan"),
            ({"clip_rewards": 1}, "clip_rewards must be true or false, not 1"),
            ({"network": 3}, "a network is a name, MODULE:NAME"),
            ({"head": "expectd"}, "unknown head 'expectd'; did you mean 'expected'"),
            ({"batch_size": 5000}, "batch_size 5000 is larger than capacity 2000"),
            ({"agent": "mdqn"}, "unknown agent 'mdqn'; did you mean 'm-dqn'"),
            ({"env": "gym/CartPol-v1"}, "did you mean 'gym/CartPole-v1'"),
            ({"env": "gym/Pendulum-v1"}, "has actions Box"),
        ],
        ids=str,
    )
    def test_are_checked(self, changes, said):
        with pytest.raises(UserError, match=said):
            Agent(**{"agent": "m-dqn", **CARTPOLE, **changes})


class TestSaveAndLoad:
    def test_round_trip(self, learned, tmp_path):
        agent, batch = learned
        agent.save(tmp_path / "agent.safetensors")
        loaded = Agent.load(tmp_path / "agent.safetensors")
        np.testing.assert_array_equal(loaded.q_values(batch), agent.q_values(batch))
        np.testing.assert_array_equal(loaded.predict(batch), agent.predict(batch))
        assert loaded.config == agent.config
        loaded.save(tmp_path / "again.safetensors")
        again = Agent.load(tmp_path / "again.safetensors")
        np.testing.assert_array_equal(again.q_values(batch), agent.q_values(batch))

    def test_from_a_run(self, breakout):
        agent, out = breakout
        loaded = Agent.load(out)
        np.testing.assert_array_equal(loaded.q_values(SCREENS), agent.q_values(SCREENS))
        with pytest.raises(UserError, match="has no lane 1; there are: 0 m-dqn seed 0"):
            Agent.load(out, lane=1)

    def test_a_loaded_agent_says_it_cannot_learn(self, breakout):
        with pytest.raises(UserError, match="--resume"):
            Agent.load(breakout[1]).learn(8)

    def test_nothing_there(self, tmp_path):
        with pytest.raises(UserError, match="there is no file"):
            Agent.load(tmp_path / "agent.safetensors")
        with pytest.raises(UserError, match="is no run"):
            Agent.load(tmp_path)


class TestDamage:
    @pytest.fixture(scope="class")
    @staticmethod
    def saved(cartpole, tmp_path_factory):
        path = tmp_path_factory.mktemp("saved") / "agent.safetensors"
        cartpole.save(path)
        return path

    @staticmethod
    def altered(saved: Path, data: bytes) -> Path:
        path = saved.with_name("altered.safetensors")
        path.write_bytes(data)
        return path

    @pytest.mark.parametrize("about", ["{}", "[", "[]", '{"settings": {}, "lane": 0, "step": 1}'])
    def test_crafted_settings_with_a_right_hash(self, saved, about):
        arrays = load_file(saved)
        header = {"munchausen": about, "sha256": policy._hash(arrays, about)}
        path = saved.with_name("crafted.safetensors")
        save_file(arrays, path, metadata=header)
        with pytest.raises(UserError, match="no saved agent"):
            Agent.load(path)

    def test_of_another_version(self, saved):
        arrays = load_file(saved)
        with safe_open(saved, "numpy") as file:
            about = json.dumps({**json.loads(file.metadata()["munchausen"]), "format": 1})
        header = {"munchausen": about, "sha256": policy._hash(arrays, about)}
        path = saved.with_name("older.safetensors")
        save_file(arrays, path, metadata=header)
        with pytest.raises(UserError, match="has format 1; this version reads"):
            Agent.load(path)

    @given(data=st.data())
    @settings(deadline=None, max_examples=100)
    def test_one_altered_byte_of_the_weights(self, saved, data):
        original = bytearray(saved.read_bytes())
        weights = 8 + int.from_bytes(original[:8], "little")
        position = data.draw(st.integers(weights, len(original) - 1))
        original[position] ^= data.draw(st.integers(1, 255))
        with pytest.raises(UserError, match="altered or damaged"):
            Agent.load(self.altered(saved, original))

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b'\\"alpha\\": 0.9', b'\\"alpha\\": 0.1'),
            (b"gym/CartPole-v1", b"gym/CartPole-v0"),
            (b"mlp-small", b"mlp-sma11"),
            (b'"F32"', b'"I32"'),
            (b'"sha256"', b'"sha255"'),
            (b'"munchausen"', b'"munchauzen"'),
            (b'\\"lane\\": 0', b'\\"lane\\": 7'),
            (b'\\"step\\": 400', b'\\"step\\": 900'),
        ],
        ids=str,
    )
    def test_altered_header(self, saved, old, new):
        original = saved.read_bytes()
        assert old in original
        with pytest.raises(UserError, match=r"altered|no saved agent"):
            Agent.load(self.altered(saved, original.replace(old, new)))

    @pytest.mark.parametrize("size", [0, 7, 100, -1])
    def test_cut_short(self, saved, size):
        with pytest.raises(UserError, match="is no saved agent"):
            Agent.load(self.altered(saved, saved.read_bytes()[:size]))

    def test_other_tensors(self, breakout):
        """A checkpoint's file is safetensors too, but no saved agent."""
        path = list_checkpoints(breakout[1])[-1] / "state.safetensors"
        with pytest.raises(UserError, match=r"is no saved agent; make one with Agent\.save"):
            Agent.load(path)

    def test_a_pickle_is_refused_and_not_run(self, tmp_path):
        class Bomb:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "bang"),)

        path = tmp_path / "agent.pkl"
        path.write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(UserError, match="is no saved agent"):
            Agent.load(path)
        assert not (tmp_path / "bang").exists()
        pickle.loads(path.read_bytes())  # it would have gone off
        assert (tmp_path / "bang").exists()
