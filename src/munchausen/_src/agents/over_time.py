"""What a configuration says at a step of the run: numbers as they are, schedules evaluated."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from munchausen._src.agents.config import AgentConfig
from munchausen._src.core.backup import Regulariser
from munchausen._src.core.schedules import Function, Schedule, at


def epsilon_at(config: AgentConfig, step: Int[Array, "*B"]) -> Float[Array, "*B"]:
    """A schedule's own value; with a number 1 during the warm-up, then linear to `epsilon` over
    `epsilon_decay_steps`."""
    if isinstance(config.epsilon, Schedule):
        return jnp.asarray(config.epsilon(step), jnp.float32)
    left = config.warmup_steps + config.epsilon_decay_steps - step
    share = jnp.clip(left / config.epsilon_decay_steps, 0.0, 1.0)
    return config.epsilon + (1.0 - config.epsilon) * share


def learning_rate_of(config: AgentConfig) -> float | Callable[[Any], Any]:
    """For optax: a number, or a function of how many updates were made before. The first update
    ends the warm-up, and one follows each `update_period_steps`."""
    rate = config.learning_rate
    if not isinstance(rate, Schedule):
        return rate
    return lambda count: rate(config.warmup_steps + count * config.update_period_steps)


def regulariser_at(config: AgentConfig, step: Any, lane: Regulariser | None = None) -> Regulariser:
    """The numbers α, τ and l0 at a step. `lane`: a lane's own numbers, where lanes of one program
    differ in them; a schedule is the same for all lanes and takes their place."""
    values = [
        at(said, step) if own is None or callable(said) else own
        for said, own in zip(config.regulariser, lane or (None, None, None), strict=True)
    ]
    return Regulariser(*values)


def playing_regulariser(config: AgentConfig, step: int) -> Regulariser:
    """What acting needs of it: τ, and that only to draw from softmax(q/τ). Python functions that
    the file of an agent does not hold are no hindrance where they are not needed."""
    needless = ("alpha", "tau") if config.exploration == "greedy" else ("alpha",)
    own = {name: getattr(config, name) for name in needless}
    lost = {k: 0.0 for k, x in own.items() if isinstance(x, Function) and x.function is None}
    return regulariser_at(dataclasses.replace(config, **lost), step)
