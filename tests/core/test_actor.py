"""Acting: frequencies of ε-greedy and of the softmax variant, the schedule of ε."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen._src.agents import override, resolve
from munchausen._src.core.actor import act, epsilon_at
from munchausen._src.core.heads import Expected
from munchausen._src.core.operators import policy
from munchausen._src.networks import TORSOS, make_network

DRAWS = 20_000


def frequencies(epsilon, exploration, tau=0.5):
    network = make_network(
        TORSOS["mlp-small"],
        (3,),
        4,
        scale=1.0,
        cosines=None,
        initialiser="glorot_uniform",
        key=jax.random.key(0),
    )
    observations = jnp.ones((DRAWS, 3))
    actions = act(
        Expected("mse"),
        network,
        observations,
        epsilon=epsilon,
        tau=tau,
        exploration=exploration,
        draw_key=jax.random.key(1),
        explore_key=jax.random.key(2),
    )
    return np.bincount(actions, minlength=4) / DRAWS, network(observations[0])


@pytest.mark.parametrize("epsilon", (0.0, 0.3, 1.0))
def test_epsilon_greedy(epsilon):
    seen, q = frequencies(epsilon, "greedy")
    expected = np.full(4, epsilon / 4)
    expected[int(jnp.argmax(q))] += 1 - epsilon
    np.testing.assert_allclose(seen, expected, atol=0.015)


@pytest.mark.parametrize("epsilon", (0.0, 0.4))
def test_stochastic_draws_from_the_softmax(epsilon):
    """softmax(q/τ): the released code passed probabilities where logits were due."""
    seen, q = frequencies(epsilon, "stochastic")
    expected = (1 - epsilon) * np.asarray(policy(q, 0.5)) + epsilon / 4
    assert expected.max() - expected.min() > 0.05
    np.testing.assert_allclose(seen, expected, atol=0.015)


def test_schedule_of_epsilon():
    config = override(resolve("m-dqn", "atari"), {})
    steps = jnp.array([0, 20_000, 20_000 + 125_000, 20_000 + 250_000, 10_000_000])
    np.testing.assert_allclose(epsilon_at(config, steps), [1, 1, 0.505, 0.01, 0.01], rtol=1e-6)
