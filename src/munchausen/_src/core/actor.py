"""Acting: ε-greedy, or ε-softmax for the stochastic variant. Pure."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from munchausen._src.agents.config import AgentConfig
from munchausen._src.core.heads import Head
from munchausen._src.core.operators import Scalar
from munchausen._src.networks import Network


def epsilon_at(config: AgentConfig, step: Int[Array, "*B"]) -> Float[Array, "*B"]:
    """1 during the warm-up, then linear to `epsilon` over `epsilon_decay_steps`."""
    left = config.warmup_steps + config.epsilon_decay_steps - step
    share = jnp.clip(left / config.epsilon_decay_steps, 0.0, 1.0)
    return config.epsilon + (1.0 - config.epsilon) * share


def values(
    head: Head, network: Network, observations: Shaped[Array, "E ..."], key: PRNGKeyArray
) -> Float[Array, "E A"]:
    """What the policy is made of. `key`: for heads that draw."""
    return head.policy_q(network, jax.vmap(network.view)(observations), key)


def act(
    head: Head,
    network: Network,
    observations: Shaped[Array, "E ..."],
    *,
    epsilon: Float[Array, " E"] | Float[Array, ""] | float,
    tau: Scalar,
    exploration: Literal["greedy", "stochastic"],
    draw_key: PRNGKeyArray,
    explore_key: PRNGKeyArray,
) -> Int[Array, " E"]:
    """With probability ε a random action; otherwise the greedy one, or a draw from
    softmax(q/τ) (the logits are q/τ, not the probabilities).

    `draw_key` is for what the values or the softmax draw, `explore_key` for ε.
    """
    q = values(head, network, observations, draw_key)
    batch, actions = q.shape
    if exploration == "stochastic":
        choice_key = jax.random.fold_in(draw_key, 1)
        chosen = jax.random.categorical(choice_key, q / jnp.asarray(tau), axis=-1)
    else:
        chosen = jnp.argmax(q, axis=-1)
    explore, which = jax.random.uniform(explore_key, (2, batch))
    random = jnp.floor(which * actions).astype(chosen.dtype)
    return jnp.where(explore < epsilon, random, chosen)
