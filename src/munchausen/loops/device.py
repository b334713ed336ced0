"""The device loop: for JAX environments, acting, storing, learning and target copies are one
compiled program; lanes are a batch axis in it."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from munchausen.agent.config import AgentConfig
from munchausen.agent.learner import UpdateMetrics
from munchausen.envs.spec import JaxEnvironment
from munchausen.loops.chunk import Chunk, Episodes, empty_metrics
from munchausen.loops.lane import Lane, LaneSpec, Steps, environment_key, make_steps
from munchausen.replay import Outcome


class DeviceLane(NamedTuple):
    lane: Lane
    env: Any
    episode_return: Float[Array, " E"]
    episode_length: Int[Array, " E"]


class DeviceLoop:
    def __init__(self, config: AgentConfig, env: JaxEnvironment, lanes: list[LaneSpec]):
        self.config = config
        self.env = env
        self.lanes = lanes
        munchausen = any(spec.regulariser.alpha != 0 for spec in lanes)
        self.steps: Steps = make_steps(config, env.spec, munchausen=munchausen)
        self._programs: dict[tuple[int, bool], Any] = {}

    def init(self) -> DeviceLane:
        keys = jnp.stack([jax.random.key(spec.seed) for spec in self.lanes])
        regularisers = jax.tree.map(
            lambda *x: jnp.asarray(x, jnp.float32), *[spec.regulariser for spec in self.lanes]
        )
        return jax.jit(jax.vmap(self._init_lane))(keys, regularisers)

    def _init_lane(self, key, regulariser) -> DeviceLane:
        lane_key, env_key = jax.random.split(key)
        envs = self.config.envs
        env, frames = jax.vmap(self.env.init)(jax.random.split(env_key, envs))
        lane = self.steps.init(lane_key, regulariser, frames)
        return DeviceLane(lane, env, jnp.zeros(envs), jnp.zeros(envs, jnp.int32))

    def restore(self, state: DeviceLane) -> DeviceLane:
        return state

    def close(self) -> None:
        pass

    def advance(
        self, state: DeviceLane, t: int, steps: int
    ) -> tuple[DeviceLane, Callable[[], Chunk]]:
        group = self.config.group_steps
        groups = steps // group
        # A group learns if it ends after the warm-up.
        waiting = min(groups, max(0, (self.config.warmup_steps - t) // group))
        ended, metrics = [], None
        for count, learn in ((waiting, False), (groups - waiting, True)):
            if count:
                program = self._program(count, learn)
                state, finished, metrics = program(state, jnp.int32(t))
                ended.append(finished)
                t += count * group
        return state, partial(_collect, ended, metrics, len(self.lanes))

    def _program(self, groups: int, learn: bool):
        """The compiled program for so many groups; few lengths ever occur in a run."""
        key = (groups, learn)
        if key not in self._programs:
            self._programs[key] = jax.jit(
                partial(self._groups, groups=groups, learn=learn), donate_argnums=0
            )
        return self._programs[key]

    def _groups(self, state: DeviceLane, t: Array, *, groups: int, learn: bool):
        def body(carry, _):
            state, t = carry
            state, ended = self._ticks(state, t)
            after = t + self.config.group_steps
            metrics = None
            if learn:
                lane, metrics = jax.vmap(self.steps.learn, in_axes=(0, None))(state.lane, t)
                period = self.config.target_period_steps
                copy = after // period != t // period
                lane = jax.vmap(self.steps.copy_target, in_axes=(0, None))(lane, copy)
                state = state._replace(lane=lane)
            return (state, after), (ended, metrics)

        (state, _), (ended, metrics) = jax.lax.scan(body, (state, t), None, length=groups)
        return state, ended, metrics

    def _ticks(self, state: DeviceLane, t: Array):
        def body(carry, _):
            state, t = carry
            state, ended = jax.vmap(self._tick, in_axes=(0, None))(state, t)
            return (state, t + self.config.envs), ended

        (state, _), ended = jax.lax.scan(
            body, (state, t), None, length=self.config.ticks_per_group
        )
        return state, ended

    def _tick(self, state: DeviceLane, t: Array):
        """One step of every environment of one lane. An environment whose episode ended is
        at the first frame of the next one afterwards."""
        lane, envs = state.lane, self.config.envs
        actions = self.steps.act(lane, t)
        step_key, reset_key = jax.random.split(environment_key(lane, t))
        env, step = jax.vmap(self.env.step)(state.env, actions, jax.random.split(step_key, envs))
        fresh, first = jax.vmap(self.env.init)(jax.random.split(reset_key, envs))
        done = step.terminated | step.truncated

        def choose(new, old):
            return jnp.where(done.reshape(done.shape + (1,) * (new.ndim - 1)), new, old)

        outcome = Outcome(
            step.reward, step.terminated, step.truncated, choose(first, step.frame), step.frame
        )
        episode_return = state.episode_return + step.reward
        episode_length = state.episode_length + 1
        state = DeviceLane(
            self.steps.store(lane, actions, outcome),
            jax.tree.map(choose, fresh, env),
            jnp.where(done, 0.0, episode_return),
            jnp.where(done, 0, episode_length),
        )
        return state, (done, episode_return, episode_length)


def _collect(ended: list[Any], metrics: UpdateMetrics | None, lanes: int) -> Chunk:
    """Waits for the program and brings its report to the host."""
    arrays = empty_metrics(lanes)
    if metrics is not None:
        arrays = {
            # [groups, lanes, updates] to [lanes, groups · updates]
            name: np.moveaxis(np.asarray(x), 0, 1).reshape(lanes, -1)
            for name, x in metrics._asdict().items()
        }
    return Chunk(episodes=_episodes(ended, lanes), **arrays)


def _episodes(ended: list[Any], lanes: int) -> list[Episodes]:
    """From per-step arrays [groups, ticks, lanes, envs] to each lane's finished episodes."""
    parts: list[list[Episodes]] = [[] for _ in range(lanes)]
    for arrays in ended:
        done, returns, lengths = (np.asarray(x) for x in arrays)
        for k in range(lanes):
            mask = done[:, :, k]
            parts[k].append(Episodes(returns[:, :, k][mask], lengths[:, :, k][mask]))
    return [
        Episodes(
            np.concatenate([p.returns for p in part]), np.concatenate([p.lengths for p in part])
        )
        for part in parts
    ]
