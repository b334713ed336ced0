"""The deep learner is M-VI: with a table as its network it makes the same q_k.

The real learner, head and transitions; a batch of all (s, a, s'), weighted by P(s'|s, a); the
target copied after each iteration.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from munchausen._src.agents import override, resolve
from munchausen._src.agents.building import make_learner
from munchausen._src.core.backup import Regulariser
from munchausen._src.core.replay import Transitions
from munchausen.tabular import AdvantageLearning, MunchausenVI, State, garnets, iterate
from specs import vectors

STATES, ACTIONS, ITERATIONS = 5, 3, 60
ROWS = STATES * ACTIONS * STATES


@pytest.fixture(scope="module")
def mdp():
    batch = garnets(jax.random.key(3), 1, states=STATES, actions=ACTIONS, discounts=(0.9, 0.9))
    return jax.tree.map(lambda x: np.asarray(x[0]), batch)


def everything(mdp):
    """All transitions of the MDP as one batch, and their probabilities as weights."""
    s, a, s_next = (
        x.reshape(-1)
        for x in np.meshgrid(*map(np.arange, (STATES, ACTIONS, STATES)), indexing="ij")
    )
    one_hot = np.eye(STATES, dtype=np.float32)
    batch = Transitions(
        jnp.asarray(one_hot[s]),
        jnp.asarray(a, jnp.int32),
        jnp.asarray(mdp.rewards[s, a], jnp.float32),
        jnp.full(ROWS, 0.9, jnp.float32),
        jnp.asarray(one_hot[s_next]),
    )
    return batch, jnp.asarray(mdp.transitions[s, a, s_next], jnp.float32)


def learn(mdp, agent, changes, *, optimizer=None, steps=1):
    """q_0..q_K as the learner's target network holds them, [K + 1, S, A]."""
    config = override(resolve(agent, "gym"), {"network": "table", **changes})
    learner = make_learner(config, vectors(STATES, ACTIONS))
    if optimizer is not None:
        learner = replace(learner, optimizer=optimizer)
    state = learner.init(jax.random.key(0))
    state = state._replace(target=state.online)
    assert state.online.output.weight.shape == (ACTIONS, STATES)
    assert len(jax.tree.leaves(state.online)) == 1
    transitions, weights = everything(mdp)
    regulariser = Regulariser(config.alpha, config.tau, config.clip_min)
    key = jax.random.key(1)

    def iteration(state, _):
        def step(state, _):
            options = {"regulariser": regulariser, "weights": weights}
            return learner.update(state, transitions, key, **options)[0], None

        state, _ = jax.lax.scan(step, state, length=steps)
        state = learner.copy_target(state)
        return state, state.target.output.weight.T

    _, tables = jax.jit(lambda s: jax.lax.scan(iteration, s, length=ITERATIONS))(state)
    return np.concatenate([state.online.output.weight.T[None], tables]), config


def theory(mdp, scheme, q_0):
    with jax.enable_x64(True):
        exact = jax.tree.map(jnp.asarray, mdp)
        state = State(jnp.asarray(q_0, jnp.float64), jnp.zeros((STATES, ACTIONS)))
    return np.asarray(iterate(scheme, exact, state, ITERATIONS).q)


# The loss is a mean over the batch of P(s'|s, a)(y − q)², so its gradient is 2(q − E y)/ROWS:
# one step of this size solves the regression.
EXACT = optax.sgd(ROWS / 2)


# At the paper's temperature, and at one that blurs the policies of this MDP.
@pytest.mark.parametrize("tau", [0.03, 0.5])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
def test_munchausen_dqn_is_munchausen_value_iteration(mdp, alpha, tau):
    changes = {"alpha": alpha, "tau": tau, "clip_min": -np.inf}
    found, config = learn(mdp, "m-dqn", changes, optimizer=EXACT)
    wanted = theory(mdp, MunchausenVI(alpha, config.tau), found[0])
    assert np.abs(wanted[-1] - wanted[0]).max() > 1  # it went somewhere
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=0)


def test_advantage_learning_is_the_limit(mdp):
    found, config = learn(mdp, "al", {}, optimizer=EXACT)
    assert (config.alpha, config.tau) == (0.9, 0.0)
    wanted = theory(mdp, AdvantageLearning(config.alpha), found[0])
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=0)


def test_the_clip_is_the_same(mdp):
    found, config = learn(mdp, "m-dqn", {}, optimizer=EXACT)
    assert config.clip_min == -1
    scheme = MunchausenVI(config.alpha, config.tau, config.clip_min)
    np.testing.assert_allclose(found, theory(mdp, scheme, found[0]), atol=1e-4, rtol=0)
    free = theory(mdp, MunchausenVI(config.alpha, config.tau), found[0])
    assert np.abs(found - free).max() > 1  # the clip did something


def test_with_the_agents_own_optimiser(mdp):
    """Adam in place of the exact step, with steps enough."""
    changes = {"clip_min": -np.inf, "tau": 0.5, "learning_rate": 5e-3}
    found, config = learn(mdp, "m-dqn", changes, steps=2000)
    wanted = theory(mdp, MunchausenVI(config.alpha, config.tau), found[0])
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=0)


def test_a_wrong_temperature_would_show(mdp):
    found, config = learn(mdp, "m-dqn", {"tau": 0.5, "clip_min": -np.inf}, optimizer=EXACT)
    wrong = theory(mdp, MunchausenVI(config.alpha, 0.6), found[0])
    assert np.abs(found - wrong).max() > 1e-2
