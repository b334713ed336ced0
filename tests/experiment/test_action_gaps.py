"""Action gaps along trajectories, as `munchausen evaluate --action-gaps` keeps them."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen import Agent
from munchausen._src import cli
from munchausen._src.core.learner import action_gap
from munchausen._src.experiment.evaluation import evaluate
from munchausen._src.experiment.records import read_action_gaps, write_action_gaps
from munchausen._src.experiment.training import Training

SMALL = {"envs": 4, "capacity": 4000, "warmup_steps": 400}


def untrained(env, **changes):
    agent = Agent("dqn", env=env, **SMALL, **changes)
    agent._training = Training(agent._settings)
    agent._training.start()
    return agent


def play(agent, **options):
    policy = agent._policy()
    return evaluate(
        agent._settings, policy.network, policy.regulariser, epsilon=0.3, seed=5, **options
    )


@pytest.mark.parametrize(
    ("env", "network"), [("gym/CartPole-v1", "mlp-small"), ("minatar/breakout", "minatar-linear")]
)
def test_one_gap_a_step_and_the_play_is_the_same(env, network):
    agent = untrained(env, network=network)
    result, plain = play(agent, episodes=3, gaps=True), play(agent, episodes=3)
    assert plain.gaps is None
    np.testing.assert_array_equal(result.returns, plain.returns)
    assert [len(track) for track in result.gaps] == result.lengths.tolist()
    assert all((track > 0).all() for track in result.gaps)


def test_the_gap_is_best_minus_second_best():
    agent = untrained("gym/CartPole-v1", network="mlp-small")
    result = play(agent, episodes=1, gaps=True)
    env = gymnasium.make("CartPole-v1")
    second, best = np.sort(agent.q_values(env.reset(seed=5)[0]))
    env.close()
    assert result.gaps[0][0] == pytest.approx(best - second, rel=1e-5)


def test_the_command_keeps_them_for_each_lane(tmp_path):
    agent = Agent("dqn", env="gym/CartPole-v1", network="mlp-small", **SMALL)
    agent.learn(400, out=tmp_path / "r")
    write_action_gaps(tmp_path / "r", "dqn", 0, [[1.0]])  # of an earlier evaluation
    write_action_gaps(tmp_path / "r", "dqn", 7, [[2.0]])
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = cli.main(
            ["evaluate", str(tmp_path / "r"), "--episodes", "2", "--action-gaps", "--json"]
        )
    assert code == 0
    rows = read_action_gaps(tmp_path / "r")
    assert [row["seed"] for row in rows] == [7, 0, 0]
    mean = np.mean(np.concatenate([row["gaps"] for row in rows[1:]]))
    assert json.loads(out.getvalue())["action_gap"] == pytest.approx(mean, rel=1e-4)


def test_a_saved_agent_has_no_folder_to_keep_them_in(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"x")
    err = io.StringIO()
    with redirect_stderr(err):
        assert cli.main(["evaluate", str(tmp_path / "a.safetensors"), "--action-gaps"]) == 2
    assert "run's folder" in err.getvalue()


def test_the_only_action_has_no_gap():
    gap = action_gap(jnp.array([[2.0], [3.0]]))
    np.testing.assert_array_equal(gap, [0, 0])
    np.testing.assert_array_equal(action_gap(jnp.array([[2.0, 5.0, 1.0], [4.0, 4.0, 1.0]])), [3, 0])
