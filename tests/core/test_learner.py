"""The n-step target end to end, from the ring to the learner, and DQN's optimiser."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import oracle
from munchausen._src.agents import override, resolve
from munchausen._src.agents.building import make_learner, make_optimizer
from munchausen._src.core.backup import Regulariser
from munchausen._src.core.network import batched
from munchausen._src.core.replay import FrameReplay, Outcome
from munchausen._src.core.replay.ring import gather
from specs import vectors

REWARDS = (0.5, -1.0, 2.0, 0.25)


def test_munchausen_term_enters_an_n_step_target_once():
    """Σ γᵏ r_k + α clip(τ ln π(a_t|s_t)) + γ³ ⟨π, q − τ ln π⟩: undiscounted, at s_t alone."""
    config = override(resolve("m-dqn", "gym"), {"network": "mlp-small", "n_step": 3})
    learner = make_learner(config, vectors(3, 2))
    state = learner.init(jax.random.key(0))
    frames = jax.random.normal(jax.random.key(1), (5, 1, 3))
    replay = FrameReplay(8, config.discount, n_step=3, truncates=False)
    store = replay.init(frames[0])
    no = jnp.zeros(1, bool)
    for t, reward in enumerate(REWARDS):
        outcome = Outcome(jnp.array([reward]), no, no, frames[t + 1], frames[t + 1])
        store = replay.add(store, jnp.array([t % 2], jnp.int32), outcome)
    row, env = jnp.array([1], jnp.int32), jnp.array([0], jnp.int32)
    batch = gather(store.ring, row, env, n_step=3, stack=1, discount=config.discount)
    regulariser = Regulariser(config.alpha, config.tau, config.clip_min)
    _, out = learner.update(state, batch, jax.random.key(2), regulariser=regulariser)
    online, frozen = batched(state.online), batched(state.target)
    q_tm1 = online(frames[1])[0, 1]
    assert config.loss == "mse"
    # The loss is (y − q)²; which root it is, is known to a part in ten.
    targets = q_tm1 + np.sqrt(out.loss) * np.array([1, -1])

    q = [np.asarray(frozen(frame)[0], np.float64) for frame in frames]
    folded = -1.0 + 0.99 * 2.0 + 0.99**2 * 0.25
    term = oracle.munchausen_term(q[1], 1, config.alpha, config.tau, config.clip_min)
    bootstrap = 0.99**3 * oracle.soft_value(q[4], config.tau)
    assert abs(term) > 1e-3
    wanted = folded + term + bootstrap
    np.testing.assert_allclose(targets[0 if wanted > q_tm1 else 1], wanted, rtol=1e-5)


def test_agents_without_the_term_do_not_evaluate_the_first_state():
    """α = 0 for certain: the target does not depend on s at all."""
    config = override(resolve("soft-dqn", "gym"), {"network": "mlp-small"})
    assert not make_learner(config, vectors(3, 2)).munchausen
    assert make_learner(config, vectors(3, 2), munchausen=True).munchausen


def test_rmsprop_is_tensorflow_1s():
    """Centred, ε under the root, the second moment from 1 (`make_rmsprop_values.py`)."""
    values = json.loads((Path(__file__).parent / "rmsprop_values.json").read_text())
    optimizer = make_optimizer(resolve("dqn", "atari"))
    weights = jnp.zeros(len(values["gradients"][0]))
    state, update = optimizer.init(weights), jax.jit(optimizer.update)
    for step, gradient in enumerate(values["gradients"], 1):
        updates, state = update(jnp.asarray(gradient), state)
        weights = optax.apply_updates(weights, updates)
        if str(step) in values["weights"]:
            np.testing.assert_allclose(weights, values["weights"][str(step)], rtol=1e-5, atol=1e-9)
