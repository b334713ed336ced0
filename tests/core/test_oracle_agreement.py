"""Targets and one whole gradient step against a float64 NumPy transcription of the formulas."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from munchausen._src.agents import override, resolve
from munchausen._src.agents.building import make_learner
from munchausen._src.core.backup import Regulariser
from munchausen._src.core.replay import Transitions
from specs import vectors

BATCH, FEATURES, ACTIONS = 16, 6, 4
AGENTS = ("dqn", "adam-dqn", "soft-dqn", "al", "m-dqn", "c51", "m-c51", "iqn", "m-iqn")


def as_oracle(network):
    def dense(layer):
        return np.asarray(layer.weight.T, np.float64), np.asarray(layer.bias, np.float64)

    params = {
        "encoder": [dense(layer) for layer in network.torso.layers],
        "hidden": [dense(layer) for layer in network.hidden],
        "output": dense(network.output),
    }
    if network.embedding is not None:
        params["embedding"] = dense(network.embedding)
    return params


def setup(agent):
    changes = {
        "network": "mlp-small",
        "fractions": 8,
        "target_fractions": 9,
        "policy_fractions": 7,
        "cosines": 12,
        "atoms": 21,
        "v_min": -8.0,
        "v_max": 8.0,
        "loss": "huber",
    }
    config = override(resolve(agent, "gym"), changes)
    learner = make_learner(config, vectors(FEATURES, ACTIONS))
    random = np.random.default_rng(11)
    batch = Transitions(
        jnp.asarray(random.normal(size=(BATCH, FEATURES)), jnp.float32),
        jnp.asarray(random.integers(0, ACTIONS, BATCH), jnp.int32),
        jnp.asarray(random.normal(size=BATCH) * 2, jnp.float32),
        jnp.asarray(random.choice([0.0, 0.99, 0.970299], BATCH), jnp.float32),
        jnp.asarray(random.normal(size=(BATCH, FEATURES)), jnp.float32),
    )
    return config, learner, batch


def oracle_targets(config, learner, target, batch, draws):
    """`draws`: the fractions the learner drew, in its order: π(s), π(s'), N'."""
    regulariser = (config.alpha, config.tau, config.clip_min)
    params, targets = as_oracle(target), []
    draws = [np.asarray(draw, np.float64) for draw in draws]
    at_s = draws.pop(0) if config.head == "implicit" and learner.munchausen else None
    for i in range(BATCH):
        s, s_next = (
            np.asarray(x[i], np.float64) for x in (batch.observation_tm1, batch.observation_t)
        )
        a, r, discount = int(batch.a_tm1[i]), float(batch.r_t[i]), float(batch.discount_t[i])
        if config.head == "expected":
            q_tm1, q_t = oracle.expected_q(params, s), oracle.expected_q(params, s_next)
            targets.append(oracle.expected_target(q_tm1, a, r, discount, q_t, *regulariser))
        elif config.head == "categorical":
            atoms = np.linspace(config.v_min, config.v_max, config.atoms)
            p_tm1, p_t = (
                np.exp(x) / np.exp(x).sum(-1, keepdims=True)
                for x in (
                    oracle.categorical_logits(params, y, ACTIONS, config.atoms) for y in (s, s_next)
                )
            )
            targets.append(
                oracle.categorical_target(
                    p_tm1 @ atoms, a, r, discount, p_t, p_t @ atoms, atoms, *regulariser
                )
            )
        else:
            q_tm1 = np.zeros(ACTIONS)
            if at_s is not None:
                q_tm1 = oracle.implicit_quantiles(params, s, at_s[i]).mean(0)
            q_t = oracle.implicit_quantiles(params, s_next, draws[0][i]).mean(0)
            z_t = oracle.implicit_quantiles(params, s_next, draws[1][i])
            targets.append(oracle.quantile_target(q_tm1, a, r, discount, z_t, q_t, *regulariser))
    return np.array(targets)


@pytest.mark.parametrize("agent", AGENTS)
def test_targets_and_gradient_step(agent, key, with_draws):
    config, learner, batch = setup(agent)
    state = jax.jit(learner.init)(key)
    regulariser = Regulariser(config.alpha, config.tau, config.clip_min)
    update = with_draws(partial(learner.update, regulariser=regulariser))

    # Two steps, so that the optimiser's moments count.
    xs, actions = np.asarray(batch.observation_tm1, np.float64), np.asarray(batch.a_tm1)
    params, moments = as_oracle(state.online), None
    for i in range(2):
        (state, out), draws = update(state, batch, jax.random.key(2 + i))
        *of_targets, of_loss = draws or [None]
        expected = oracle_targets(config, learner, state.target, batch, of_targets)
        if config.head == "expected":
            loss, gradients = oracle.expected_gradients(params, xs, actions, expected, config.loss)
        elif config.head == "categorical":
            loss, gradients = oracle.categorical_gradients(params, xs, actions, expected, ACTIONS)
        else:
            fractions = np.asarray(of_loss, np.float64)
            loss, gradients = oracle.implicit_gradients(
                params, xs, fractions, actions, expected, config.kappa
            )
        np.testing.assert_allclose(out.metrics.loss, loss, rtol=1e-5)
        if config.optimizer == "adam":
            params, moments = oracle.adam_step(
                params, gradients, moments, config.learning_rate, config.optimizer_eps
            )
        else:
            params, moments = oracle.rmsprop_centered_step(
                params, gradients, moments, config.learning_rate, 0.95, config.optimizer_eps
            )
        for ours, theirs in zip(
            jax.tree.leaves(as_oracle(state.online)), jax.tree.leaves(params), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_step_moves_parameters_by_more_than_the_tolerance(key):
    """The comparison above would be empty if nothing moved."""
    config, learner, batch = setup("m-dqn")
    state = jax.jit(learner.init)(key)
    regulariser = Regulariser(config.alpha, config.tau, config.clip_min)
    after, _ = jax.jit(partial(learner.update, regulariser=regulariser))(state, batch, key)
    moved = jnp.max(jnp.abs(after.online.output.weight - state.online.output.weight))
    assert moved > 1e-4
