"""What both loops share: one lane (an agent with its replay) and the pure steps it takes.

A lane is one independent run: a seed and a regulariser. Loops map these functions over
lanes with `vmap`; the clock `t` (agent steps taken) is the same for all and is not mapped,
so schedules cost nothing.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from munchausen.agent.actor import act, epsilon_at
from munchausen.agent.config import AgentConfig
from munchausen.agent.learner import Learner, LearnerState, UpdateMetrics, make_learner
from munchausen.backup import Regulariser
from munchausen.envs import EnvironmentSpec
from munchausen.replay import (
    Outcome,
    Priorities,
    Ring,
    advance,
    append,
    current_observations,
    cut_episodes,
    gather,
    make_priorities,
    make_ring,
    sample_prioritised,
    sample_uniform,
    update_priorities,
)


class LaneSpec(NamedTuple):
    """What may differ between runs that share a program."""

    agent: str
    seed: int
    regulariser: Regulariser


class Lane(NamedTuple):
    key: PRNGKeyArray
    regulariser: Regulariser
    learner: LearnerState
    ring: Ring
    priorities: Priorities | None


class Steps(NamedTuple):
    """The pure steps of a lane, for one configuration on one environment."""

    config: AgentConfig
    learner: Learner
    spec: EnvironmentSpec

    def init(self, key: PRNGKeyArray, regulariser: Regulariser, first_frames: Array) -> Lane:
        run_key, network_key = jax.random.split(key)
        ring = make_ring(first_frames, self.config.capacity)
        prioritised = self.config.replay == "prioritised"
        return Lane(
            run_key,
            regulariser,
            self.learner.init(network_key),
            ring,
            make_priorities(ring.rows * ring.envs) if prioritised else None,
        )

    def act(self, lane: Lane, t: Int[Array, ""]) -> Int[Array, " E"]:
        """An action for each environment; each has its own step's ε."""
        config = self.config
        return act(
            self.learner.head,
            lane.learner.online,
            current_observations(lane.ring, config.stack),
            epsilon=epsilon_at(config, t + jnp.arange(config.envs)),
            tau=lane.regulariser.tau,
            exploration=config.exploration,
            key=_key(lane, t, 0),
        )

    def store(self, lane: Lane, actions: Int[Array, " E"], outcome: Outcome) -> Lane:
        if self.config.clip_rewards:
            outcome = outcome._replace(reward=jnp.clip(outcome.reward, -1.0, 1.0))
        ring, cut = append(lane.ring, actions, outcome, truncates=self.spec.truncates)
        return self._with_ring(lane, ring, cut)

    def begin_again(self, lane: Lane, first_frames: Array) -> Lane:
        """Cuts every running episode at its current frame and begins new ones."""
        ring = cut_episodes(lane.ring, first_frames)
        return self._with_ring(lane, ring, jnp.zeros(ring.envs, bool))

    def _with_ring(self, lane: Lane, ring: Ring, cut: Array) -> Lane:
        priorities = lane.priorities
        if priorities is not None:
            priorities = advance(
                priorities, ring, cut, n_step=self.config.n_step, stack=self.config.stack
            )
        return lane._replace(ring=ring, priorities=priorities)

    def learn(self, lane: Lane, t: Int[Array, ""]) -> tuple[Lane, UpdateMetrics]:
        """The gradient steps of one group. Metrics have the updates as leading axis."""
        key = _key(lane, t, 1)
        if lane.priorities is None:
            return self._learn_uniform(lane, key)
        return self._learn_prioritised(lane, key)

    def copy_target(self, lane: Lane, copy: Array) -> Lane:
        online, target = lane.learner.online, lane.learner.target
        target = jax.tree.map(lambda new, old: jnp.where(copy, new, old), online, target)
        return lane._replace(learner=lane.learner._replace(target=target))

    def _learn_uniform(self, lane: Lane, key: PRNGKeyArray) -> tuple[Lane, UpdateMetrics]:
        """All batches of the group are drawn at once, and their targets computed in one pass:
        the replay and the target network do not change within a group, so this is what
        drawing and computing them one by one would give."""
        config, updates = self.config, self.config.updates_per_group
        sample_key, target_key, step_key = jax.random.split(key, 3)
        row, env = sample_uniform(
            lane.ring,
            sample_key,
            updates * config.batch_size,
            n_step=config.n_step,
            stack=config.stack,
            truncates=self.spec.truncates,
        )
        batch = self._gather(lane.ring, row, env)
        targets = self.learner.targets(lane.learner.target, lane.regulariser, batch, target_key)

        def body(state, inputs):
            batch, targets, key = inputs
            state, _, metrics = self.learner.step(
                state, lane.regulariser, batch, targets, None, key
            )
            return state, metrics

        def by_update(x):
            return x.reshape(updates, config.batch_size, *x.shape[1:])

        inputs = jax.tree.map(by_update, (batch, targets))
        state, metrics = jax.lax.scan(
            body, lane.learner, (*inputs, jax.random.split(step_key, updates))
        )
        return lane._replace(learner=state), metrics

    def _learn_prioritised(self, lane: Lane, key: PRNGKeyArray) -> tuple[Lane, UpdateMetrics]:
        """Each draw depends on the losses before it: one update after another."""

        def body(carry, key):
            state, priorities = carry
            sample_key, target_key, step_key = jax.random.split(key, 3)
            row, env, weights = sample_prioritised(
                priorities, lane.ring, sample_key, self.config.batch_size
            )
            batch = self._gather(lane.ring, row, env)
            targets = self.learner.targets(state.target, lane.regulariser, batch, target_key)
            state, losses, metrics = self.learner.step(
                state, lane.regulariser, batch, targets, weights, step_key
            )
            priorities = update_priorities(priorities, lane.ring, row, env, losses)
            return (state, priorities), metrics

        keys = jax.random.split(key, self.config.updates_per_group)
        carry = (lane.learner, lane.priorities)
        (state, priorities), metrics = jax.lax.scan(body, carry, keys)
        return lane._replace(learner=state, priorities=priorities), metrics

    def _gather(self, ring: Ring, row: Array, env: Array):
        config = self.config
        return gather(
            ring, row, env, n_step=config.n_step, stack=config.stack, discount=config.discount
        )


def make_steps(config: AgentConfig, spec: EnvironmentSpec, *, munchausen: bool) -> Steps:
    learner = make_learner(
        config,
        spec.observation_shape(config.stack),
        spec.actions,
        spec.scale,
        munchausen=munchausen,
    )
    return Steps(config, learner, spec)


def _key(lane: Lane, t: Int[Array, ""], purpose: int) -> PRNGKeyArray:
    """Every draw of a run is a function of its seed, the step and the purpose, so that a
    resumed run draws what it would have drawn."""
    return jax.random.fold_in(jax.random.fold_in(lane.key, t), purpose)


def environment_key(lane: Lane, t: Int[Array, ""]) -> PRNGKeyArray:
    return _key(lane, t, 2)
