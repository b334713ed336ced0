"""What both loops share: one lane (an agent with its replay) and the pure steps it takes.

A lane is one independent run: a seed and a regulariser. Loops map these functions over lanes; the
clock `t` (agent steps taken) is the same for all and is not mapped, so schedules cost nothing.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from munchausen._src.agents.building import make_actor, make_learner, make_replay
from munchausen._src.agents.config import AgentConfig, LaneSpec
from munchausen._src.agents.over_time import epsilon_at, regulariser_at
from munchausen._src.core.actor import Actor
from munchausen._src.core.backup import Regulariser
from munchausen._src.core.learner import Learner, LearnerState, Metrics, Update
from munchausen._src.core.replay import FrameReplay, FrameStore, Outcome
from munchausen._src.core.schedules import Schedule
from munchausen._src.kernels import dispatch
from munchausen._src.suites import EnvironmentSpec


class Lane(NamedTuple):
    """Every draw of a run is a function of these keys and the step, so that a resumed run
    draws what it would have drawn."""

    act_key: PRNGKeyArray
    learn_key: PRNGKeyArray
    regulariser: Regulariser
    learner: LearnerState
    replay: FrameStore


class Steps(NamedTuple):
    """The pure steps of a lane, for one configuration on one environment."""

    config: AgentConfig
    spec: EnvironmentSpec
    learner: Learner
    actor: Actor
    replay: FrameReplay

    def init(self, key: PRNGKeyArray, regulariser: Regulariser, first_frames: Array) -> Lane:
        act_key, learn_key, network_key = jax.random.split(key, 3)
        learner = self.learner.init(network_key)
        return Lane(act_key, learn_key, regulariser, learner, self.replay.init(first_frames))

    def act(
        self, lane: Lane, t: Int[Array, ""], *, first: int = 0, count: int | None = None
    ) -> Int[Array, " e"]:
        """An action for `count` environments (all) from `first` on; each has its own step's
        ε, counted from `t`."""
        count = self.config.envs if count is None else count
        return self.actor.act(
            lane.learner.online,
            self.replay.observations(lane.replay, first, count),
            tick_key(lane, t),
            epsilon=epsilon_at(self.config, t + jnp.arange(count)),
            tau=regulariser_at(self.config, t, lane.regulariser).tau,
        )

    def store(
        self,
        lane: Lane,
        actions: Int[Array, " e"],
        outcome: Outcome,
        *,
        first: int = 0,
        truncates: bool | None = None,
    ) -> Lane:
        """A step of the environments from `first` on. `truncates` as for `FrameReplay.add`."""
        if self.config.clip_rewards:
            outcome = outcome._replace(reward=jnp.clip(outcome.reward, -1.0, 1.0))
        replay = self.replay.add(lane.replay, actions, outcome, first=first, truncates=truncates)
        return lane._replace(replay=replay)

    def begin_again(self, lane: Lane, first_frames: Array) -> Lane:
        """Cuts every running episode at its current frame and begins new ones."""
        return lane._replace(replay=self.replay.begin_again(lane.replay, first_frames))

    def learn(
        self, lane: Lane, t: Int[Array, ""], *, updates: int | None = None
    ) -> tuple[Lane, Metrics]:
        """So many gradient steps (a group's). Metrics have the updates as leading axis."""
        key = jax.random.fold_in(lane.learn_key, t)
        updates = self.config.updates_per_group if updates is None else updates
        regulariser = self._regulariser(lane, t, updates)
        if self.replay.prioritised:
            return self._learn_one_by_one(lane, key, updates, regulariser)
        # The replay does not change within the group, so all batches are drawn at once: this is
        # what drawing them one by one would give.
        sample_key, update_key = jax.random.split(key)
        size = self.config.batch_size
        drawn = self.replay.sample(lane.replay, sample_key, updates * size).transitions
        learner, out = self.learner.updates(
            lane.learner,
            jax.tree.map(lambda x: x.reshape(updates, size, *x.shape[1:]), drawn),
            update_key,
            regulariser=regulariser,
            targets_at_once=dispatch.targets_at_once(),
            unroll=dispatch.updates_unrolled(updates),
        )
        return lane._replace(learner=learner), out.metrics

    def copy_target(self, lane: Lane, copy: Array) -> Lane:
        return lane._replace(learner=self.learner.copy_target(lane.learner, copy))

    def _regulariser(self, lane: Lane, t: Int[Array, ""], updates: int) -> Regulariser:
        """One for all updates; where a schedule moves it, one for each."""
        if not any(isinstance(x, Schedule) for x in self.config.regulariser):
            return lane.regulariser
        steps = t + jnp.arange(updates) * self.config.update_period_steps
        each = regulariser_at(self.config, steps, lane.regulariser)
        return jax.tree.map(lambda x: jnp.broadcast_to(x, updates), each)

    def _learn_one_by_one(
        self, lane: Lane, key: PRNGKeyArray, updates: int, regulariser: Regulariser
    ) -> tuple[Lane, Metrics]:
        """Each draw depends on the losses before it."""

        def body(carry: Any, inputs: Any) -> tuple[Any, Update]:
            key, own = inputs
            learner, priorities = carry  # and not the frames: a loop would copy gigabytes
            replay = lane.replay._replace(priorities=priorities)
            sample_key, update_key = jax.random.split(key)
            sample = self.replay.sample(replay, sample_key, self.config.batch_size)
            learner, out = self.learner.update(
                learner,
                sample.transitions,
                update_key,
                regulariser=regulariser if own is None else own,
                weights=sample.weights,
            )
            replay = self.replay.update_priorities(replay, sample.places, out.priorities)
            return (learner, replay.priorities), out._replace(tau=0)

        each = regulariser if jnp.ndim(regulariser.tau) else None
        inputs, carry = (
            (jax.random.split(key, updates), each),
            (lane.learner, lane.replay.priorities),
        )
        if updates == 1:
            carry, out = body(carry, jax.tree.map(lambda x: x[0], inputs))
            out = jax.tree.map(lambda x: jnp.asarray(x)[None], out)
        else:
            carry, out = jax.lax.scan(body, carry, inputs)
        replay = lane.replay._replace(priorities=carry[1])
        out = out._replace(tau=regulariser.tau)
        return lane._replace(learner=carry[0], replay=replay), out.metrics


def make_steps(config: AgentConfig, spec: EnvironmentSpec, *, munchausen: bool) -> Steps:
    learner = make_learner(config, spec, munchausen=munchausen)
    replay = make_replay(config, truncates=spec.truncates)
    return Steps(config, spec, learner, make_actor(config), replay)


def tick_key(lane: Lane, t: Int[Array, ""]) -> PRNGKeyArray:
    """Of all that is drawn in one round of environment steps."""
    return jax.random.fold_in(lane.act_key, t)


def first_regulariser(spec: LaneSpec) -> Regulariser:
    """Of step 0: a schedule takes the place of its number as the clock goes on."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), regulariser_at(spec.config, 0))
