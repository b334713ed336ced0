"""Acting: frequencies of ε-greedy and of the softmax variant, the schedule of ε."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen._src.core.actor import Actor
from munchausen._src.core.heads import Expected
from munchausen._src.core.network import batched
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
    actor = Actor(Expected("mse"), exploration)
    actions = actor.act(network, observations, jax.random.key(1), epsilon=epsilon, tau=tau)
    return np.bincount(actions, minlength=4) / DRAWS, batched(network)(observations[:1])[0]


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
