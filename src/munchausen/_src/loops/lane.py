"""What both loops share: one lane (an agent with its replay) and the pure steps it takes.

A lane is one independent run: a seed and a regulariser. Loops map these functions over
lanes with `vmap`; the clock `t` (agent steps taken) is the same for all and is not mapped,
so schedules cost nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PRNGKeyArray

from munchausen._src.agents.config import AgentConfig, LaneSpec
from munchausen._src.agents.over_time import epsilon_at, regulariser_at
from munchausen._src.core.actor import act
from munchausen._src.core.backup import Regulariser
from munchausen._src.core.heads import Loss
from munchausen._src.core.learner import (
    Batch,
    Learner,
    LearnerState,
    UpdateMetrics,
    make_learner,
    update_metrics,
)
from munchausen._src.core.replay import (
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
from munchausen._src.suites import EnvironmentSpec


class Lane(NamedTuple):
    """Every draw of a run is a function of these keys and the step, so that a resumed run
    draws what it would have drawn."""

    act_key: PRNGKeyArray
    learn_key: PRNGKeyArray
    regulariser: Regulariser
    learner: LearnerState
    ring: Ring
    priorities: Priorities | None


class Steps(NamedTuple):
    """The pure steps of a lane, for one configuration on one environment."""

    config: AgentConfig
    learner: Learner
    spec: EnvironmentSpec
    targets_at_once: bool

    def init(self, key: PRNGKeyArray, regulariser: Regulariser, first_frames: Array) -> Lane:
        act_key, learn_key, network_key = jax.random.split(key, 3)
        ring = make_ring(first_frames, self.config.capacity)
        prioritised = self.config.replay == "prioritised"
        return Lane(
            act_key,
            learn_key,
            regulariser,
            self.learner.init(network_key),
            ring,
            make_priorities(ring.rows * ring.envs) if prioritised else None,
        )

    def act(
        self,
        lane: Lane,
        t: Int[Array, ""],
        keys: Key[Array, "2"] | None = None,
        *,
        first: int = 0,
        count: int | None = None,
    ) -> Int[Array, " e"]:
        """An action for `count` environments (all) from `first` on; each has its own step's
        ε, counted from `t`."""
        config = self.config
        count = config.envs if count is None else count
        draw_key, explore_key = tick_keys(lane, t, 2) if keys is None else keys
        return act(
            self.learner.head,
            lane.learner.online,
            current_observations(lane.ring, config.stack, first, count),
            epsilon=epsilon_at(config, t + jnp.arange(count)),
            tau=regulariser_at(config, t, lane.regulariser).tau,
            exploration=config.exploration,
            draw_key=draw_key,
            explore_key=explore_key,
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
        """A step of the environments from `first` on. `truncates` as for `replay.append`."""
        if self.config.clip_rewards:
            outcome = outcome._replace(reward=jnp.clip(outcome.reward, -1.0, 1.0))
        truncates = self.spec.truncates if truncates is None else truncates
        ring, cut = append(lane.ring, actions, outcome, truncates=truncates, first=first)
        return self._with_ring(lane, ring, cut, first)

    def begin_again(self, lane: Lane, first_frames: Array) -> Lane:
        """Cuts every running episode at its current frame and begins new ones."""
        ring = cut_episodes(lane.ring, first_frames)
        return self._with_ring(lane, ring, jnp.zeros(ring.envs, bool), 0)

    def _with_ring(self, lane: Lane, ring: Ring, cut: Array, first: int) -> Lane:
        priorities = lane.priorities
        if priorities is not None:
            priorities = advance(
                priorities,
                ring,
                cut,
                n_step=self.config.n_step,
                stack=self.config.stack,
                first=first,
            )
        return lane._replace(ring=ring, priorities=priorities)

    def learn(
        self, lane: Lane, t: Int[Array, ""], *, updates: int | None = None
    ) -> tuple[Lane, UpdateMetrics]:
        """So many gradient steps (a group's). Metrics have the updates as leading axis."""
        key = jax.random.fold_in(lane.learn_key, t)
        lane = lane._replace(regulariser=regulariser_at(self.config, t, lane.regulariser))
        updates = self.config.updates_per_group if updates is None else updates
        if lane.priorities is None:
            return self._learn_uniform(lane, key, updates)
        return self._learn_prioritised(lane, key, updates)

    def copy_target(self, lane: Lane, copy: Array) -> Lane:
        online, target = lane.learner.online, lane.learner.target
        target = jax.tree.map(lambda new, old: jnp.where(copy, new, old), online, target)
        return lane._replace(learner=lane.learner._replace(target=target))

    def _learn_uniform(
        self, lane: Lane, key: PRNGKeyArray, updates: int
    ) -> tuple[Lane, UpdateMetrics]:
        """All batches of the group are drawn at once: the replay does not change within it, so
        this is what drawing them one by one would give. So are the targets on an accelerator,
        in one pass of the frozen network; a CPU computes each when it is needed, as all of
        them together would not stay in its cache (1.5 times slower)."""
        config = self.config
        sample_key, update_key = jax.random.split(key)
        row, env = sample_uniform(
            lane.ring,
            sample_key,
            updates * config.batch_size,
            n_step=config.n_step,
            stack=config.stack,
            truncates=self.spec.truncates,
        )
        transitions = jax.tree.map(
            lambda x: x.reshape(updates, config.batch_size, *x.shape[1:]),
            self._gather(lane.ring, row, env),
        )
        keys = jax.random.split(update_key, (updates, 2))
        view = partial(self.learner.view, lane.learner.target)

        def targets_of(batch: Batch, key: PRNGKeyArray) -> Array:
            return self.learner.targets(lane.learner.target, lane.regulariser, batch, key)

        def body(state, inputs):
            batch, targets, (target_key, step_key) = inputs
            if targets is None:
                batch = view(batch)
                targets = targets_of(batch, target_key)
            return self.learner.step(state, batch, targets, None, step_key)

        batches, targets = transitions, None
        if self.targets_at_once:
            # Behind the barrier, or XLA looks up a frame again for each patch of it.
            transitions = jax.lax.optimization_barrier(transitions)
            batches = jax.vmap(view)(transitions)
            targets = jax.vmap(targets_of)(batches, keys[:, 0])
            batches = batches._replace(view_t=None)
        # Unrolled, an accelerator launches fewer of the tiny kernels that run the loop itself.
        unroll = max(n for n in (1, 2, 4, 5) if updates % n == 0) if self.targets_at_once else 1
        if updates == 1:
            # On a CPU a convolution within a loop is ten times slower than outside of one.
            state, out = body(lane.learner, jax.tree.map(lambda x: x[0], (batches, targets, keys)))
            out = jax.tree.map(lambda x: x[None], out)
        else:
            state, out = jax.lax.scan(body, lane.learner, (batches, targets, keys), unroll=unroll)
        return lane._replace(learner=state), self._metrics(lane, out, transitions.a_tm1)

    def _learn_prioritised(
        self, lane: Lane, key: PRNGKeyArray, updates: int
    ) -> tuple[Lane, UpdateMetrics]:
        """Each draw depends on the losses before it: one update after another."""

        def body(carry, key):
            state, priorities = carry
            sample_key, target_key, step_key = jax.random.split(key, 3)
            row, env, weights = sample_prioritised(
                priorities, lane.ring, sample_key, self.config.batch_size
            )
            batch = self.learner.view(state.target, self._gather(lane.ring, row, env))
            targets = self.learner.targets(state.target, lane.regulariser, batch, target_key)
            state, out = self.learner.step(state, batch, targets, weights, step_key)
            priorities = update_priorities(priorities, lane.ring, row, env, out.loss)
            return (state, priorities), (out, batch.a_tm1)

        keys = jax.random.split(key, updates)
        carry = (lane.learner, lane.priorities)
        if updates == 1:
            (state, priorities), outputs = body(carry, keys[0])
            out, actions = jax.tree.map(lambda x: x[None], outputs)
        else:
            (state, priorities), (out, actions) = jax.lax.scan(body, carry, keys)
        lane = lane._replace(learner=state, priorities=priorities)
        return lane, self._metrics(lane, out, actions)

    def _metrics(self, lane: Lane, out: Loss, actions: Array) -> UpdateMetrics:
        of_one = partial(update_metrics, regulariser=lane.regulariser)
        return jax.vmap(of_one)(out, actions)

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
    return Steps(config, learner, spec, targets_at_once=jax.default_backend() != "cpu")


def over_lanes(function: Callable[..., Any], width: int) -> Callable[..., Any]:
    """`function` of one lane with a leading axis of `width` on all its arguments and results
    but the last argument, which lanes share. A single lane is not batched inside: a product
    with a batch axis of 1 is a batched product still, at half the speed on a CPU."""

    def mapped(*arguments: Any) -> Any:
        *own, shared = arguments
        if width > 1:
            return jax.vmap(function, in_axes=(0,) * len(own) + (None,))(*own, shared)
        return add_axis(function(*drop_axis(own), shared))

    return mapped


def drop_axis(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[0], tree)


def add_axis(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[None], tree)


def stack_regularisers(specs: list[LaneSpec]) -> Regulariser:
    """Of step 0: a schedule takes the place of its number as the clock goes on."""
    return jax.tree.map(
        lambda *x: jnp.asarray(x, jnp.float32), *[regulariser_at(s.config, 0) for s in specs]
    )


def tick_keys(lane: Lane, t: Int[Array, ""], count: int) -> Key[Array, " N"]:
    """All the keys of one tick from one split: hashes are a good part of a tick's work. The
    first two are for `act`."""
    return jax.random.split(jax.random.fold_in(lane.act_key, t), count)
