"""From an agent's data to the core's parts: its learner, its actor, its replay."""

import optax
from jaxtyping import PRNGKeyArray

from munchausen._src.agents.config import AgentConfig
from munchausen._src.agents.over_time import learning_rate_of
from munchausen._src.core.actor import Actor
from munchausen._src.core.learner import Learner
from munchausen._src.core.replay import FrameReplay
from munchausen._src.networks import Network, make_network


def make_learner(
    config: AgentConfig,
    observation_shape: tuple[int, ...],
    actions: int,
    scale: float,
    *,
    munchausen: bool | None = None,
) -> Learner:
    """`munchausen`: whether α may be other than 0; by default as `config` has it."""
    head = config.make_head()

    def make(key: PRNGKeyArray) -> Network:
        return make_network(
            config.network,
            observation_shape,
            head.outputs(actions),
            scale=scale,
            cosines=head.cosines,
            initialiser=config.initialiser,
            key=key,
        )

    munchausen = config.munchausen if munchausen is None else munchausen
    return Learner(head, make_optimizer(config), make, munchausen)


def make_actor(config: AgentConfig) -> Actor:
    return Actor(config.make_head(), config.exploration)


def make_replay(config: AgentConfig, *, truncates: bool) -> FrameReplay:
    return FrameReplay(
        config.capacity,
        config.discount,
        config.n_step,
        config.stack,
        prioritised=config.replay == "prioritised",
        truncates=truncates,
    )


def make_optimizer(config: AgentConfig) -> optax.GradientTransformation:
    if config.optimizer == "adam":
        return optax.adam(learning_rate_of(config), eps=config.optimizer_eps)
    # TensorFlow 1, which made the published DQN curves, starts the second moment at 1.
    return optax.rmsprop(
        learning_rate_of(config),
        decay=0.95,
        eps=config.optimizer_eps,
        centered=True,
        initial_scale=1.0,
    )
