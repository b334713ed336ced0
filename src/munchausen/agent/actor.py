"""Acting: ε-greedy, or ε-softmax for the stochastic variant. Pure."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from munchausen.agent.config import AgentConfig
from munchausen.heads import Head
from munchausen.networks import Network
from munchausen.operators import Scalar


def epsilon_at(config: AgentConfig, step: Int[Array, "*B"]) -> Float[Array, "*B"]:
    """1 during the warm-up, then linear to `epsilon` over `epsilon_decay_steps`."""
    left = config.warmup_steps + config.epsilon_decay_steps - step
    share = jnp.clip(left / config.epsilon_decay_steps, 0.0, 1.0)
    return config.epsilon + (1.0 - config.epsilon) * share


def act(
    head: Head,
    network: Network,
    observations: Shaped[Array, "E ..."],
    *,
    epsilon: Float[Array, " E"] | float,
    tau: Scalar,
    exploration: Literal["greedy", "stochastic"],
    key: PRNGKeyArray,
) -> Int[Array, " E"]:
    """With probability ε a random action; otherwise the greedy one, or a draw from
    softmax(q/τ) (the logits are q/τ, not the probabilities)."""
    draw_key, explore_key, random_key, choice_key = jax.random.split(key, 4)
    q = head.policy_q(network, observations, draw_key)
    batch, actions = q.shape
    if exploration == "stochastic":
        chosen = jax.random.categorical(choice_key, q / jnp.asarray(tau), axis=-1)
    else:
        chosen = jnp.argmax(q, axis=-1)
    random = jax.random.randint(random_key, (batch,), 0, actions)
    explore = jax.random.uniform(explore_key, (batch,)) < epsilon
    return jnp.where(explore, random, chosen)
