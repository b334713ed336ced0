"""Whole gradient steps of IQN with the paper's network, beside what Dopamine's own code made of
the same weights, transitions and fractions (`make_dopamine_values.py`)."""

import json
from pathlib import Path

import equinox as eqx
import iqn_step
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen._src.agents import resolve
from munchausen._src.agents.building import make_learner
from munchausen._src.core.backup import Regulariser
from munchausen._src.core.heads import implicit
from munchausen._src.core.learner import LearnerState
from munchausen._src.core.replay import Transitions
from munchausen._src.networks.layers import INITIALISERS
from specs import atari

VALUES = json.loads((Path(__file__).parent / "dopamine_values.json").read_text())


def with_weights(learner, drawn, monkeypatch):
    """A network that begins with these. Every kernel has another shape."""
    kernels = {kernel.shape: kernel for kernel, _ in drawn.values()}
    with monkeypatch.context() as patch:
        patch.setitem(INITIALISERS, "fan_in_uniform", lambda _, shape: jnp.asarray(kernels[shape]))
        network = learner.network(jax.random.key(0))
    biases = [jnp.asarray(bias) for _, bias in drawn.values()]
    return eqx.tree_at(lambda n: [layer.bias for layer in layers(n).values()], network, biases)


def layers(network):
    named = {f"Conv_{i}": layer for i, layer in enumerate(network.torso.layers)}
    return named | {
        "Dense_0": network.embedding,
        "Dense_1": network.hidden[0],
        "Dense_2": network.output,
    }


def kernel(layer):
    """As Dopamine keeps it: [height, width, in, out] or [in, out]."""
    return layer.weight.transpose(2, 3, 1, 0) if layer.weight.ndim == 4 else layer.weight.T


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_gradient_steps_are_those_of_dopamine(monkeypatch, device):
    """With "gpu", what is traced for an accelerator, computed here."""
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    config = resolve("iqn", "atari")
    learner = make_learner(config, atari(iqn_step.ACTIONS))
    online, target = (with_weights(learner, iqn_step.weights(i), monkeypatch) for i in (0, 1))
    state = LearnerState(online, target, learner.optimizer.init(online))
    drawn = []
    monkeypatch.setattr(implicit, "draw_fractions", lambda *_: drawn.pop(0))

    @jax.jit
    def update(state, x):
        drawn[:] = x["policy"], x["target"], x["online"]
        batch = Transitions(
            x["states"],
            x["actions"].astype(jnp.int32),
            x["rewards"],
            jnp.where(x["terminals"], 0.0, iqn_step.DISCOUNT),
            x["next_states"],
        )
        regulariser = Regulariser(0.0, 0.0, -1.0)
        return learner.update(state, batch, jax.random.key(0), regulariser=regulariser)

    for i, expected in enumerate(VALUES["losses"]):
        state, out = update(state, iqn_step.batch(i))
        assert out.metrics.loss == pytest.approx(expected, rel=1e-5)
    assert not drawn
    for name, layer in layers(state.online).items():
        before = layers(online)[name]
        parts = {"kernel": kernel(layer) - kernel(before), "bias": layer.bias - before.bias}
        for part, change in parts.items():
            ours, theirs = iqn_step.summary(np.asarray(change)), VALUES["changes"][name][part]
            assert ours["norm"] == pytest.approx(theirs["norm"], rel=1e-3), (name, part)
            # Adam turns a gradient near zero into a step of any size: rounding shows there.
            step = theirs["norm"] / np.sqrt(change.size)
            np.testing.assert_allclose(ours["samples"], theirs["samples"], atol=0.05 * step)
