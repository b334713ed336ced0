"""The README's pieces of Python run."""

import jax.numpy as jnp
import numpy as np

from munchausen import core
from snippets import snippet


def test_the_loop_around_the_core():
    """Two states in turn, of which action 1 is rewarded: the agent finds out."""
    states = jnp.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    names = {"s": states[0]}

    def step(actions):
        s_next = states[(names["t"] + 1) % 2]
        return (actions == 1).astype(jnp.float32), jnp.array([0.9]), s_next

    code = snippet("README.md", "core example")
    given = "rewards, discounts, s_next = ..."
    assert given in code
    code = code.replace(given, "rewards, discounts, s_next = step(actions)")
    code = code.replace("range(10_000)", "range(200)")
    names["step"] = step
    exec(code, names)
    actions = core.Actor(names["head"]).act(names["state"].online, states, names["act_key"])
    np.testing.assert_array_equal(actions, [1, 1])


def test_the_agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = snippet("README.md", "agent example")
    code = code.replace("learn(50_000, progress=True)", "learn(600)")
    names = {}
    exec(code, names)
    assert names["agent"].predict([0.0, 0.1, 0.02, -0.3]) in (0, 1)
