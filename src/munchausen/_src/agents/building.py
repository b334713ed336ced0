"""From an agent's data to the core's parts: its learner, its actor, its replay."""

from functools import partial

import optax
from jaxtyping import PRNGKeyArray

from munchausen._src.agents.config import AgentConfig
from munchausen._src.agents.over_time import learning_rate_of
from munchausen._src.core.actor import Actor
from munchausen._src.core.learner import Learner
from munchausen._src.core.replay import FrameReplay
from munchausen._src.networks import Network, make_network
from munchausen._src.suites import EnvironmentSpec


def make_learner(
    config: AgentConfig, spec: EnvironmentSpec, *, munchausen: bool | None = None
) -> Learner:
    """`munchausen`: whether α may be other than 0; by default as `config` has it."""
    munchausen = config.munchausen if munchausen is None else munchausen
    network = partial(new_network, config, spec)
    return Learner(config.make_head(), make_optimizer(config), network, munchausen)


def new_network(config: AgentConfig, spec: EnvironmentSpec, key: PRNGKeyArray) -> Network:
    head = config.make_head()
    return make_network(
        config.network,
        spec.observation_shape(config.stack),
        head.outputs(spec.actions),
        scale=spec.scale,
        cosines=head.cosines,
        initialiser=config.initialiser,
        key=key,
    )


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
