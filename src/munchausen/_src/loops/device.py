"""The device loop: for JAX environments, acting, storing, learning and target copies are one
compiled program.

On an accelerator lanes share the program. On a CPU it runs for each lane in turn: side by side
they would gain nothing there (the cores are busy with one), and so each lane is the same bits as
its single run.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from munchausen._src.agents.config import AgentConfig
from munchausen._src.core.learner import Metrics
from munchausen._src.core.replay import Outcome, Ring
from munchausen._src.kernels import dispatch
from munchausen._src.kernels.compiling import compiled
from munchausen._src.loops.chunk import Chunk, Episodes, empty_metrics
from munchausen._src.loops.lane import (
    Lane,
    LaneSpec,
    Steps,
    first_regulariser,
    make_steps,
    tick_key,
)
from munchausen._src.loops.lanes import lane_of, over_lanes, side_by_side
from munchausen._src.networks import Network
from munchausen._src.suites.spec import JaxEnvironment


class DeviceLane(NamedTuple):
    lane: Lane
    env: Any
    episode_return: Float[Array, " E"]
    episode_length: Int[Array, " E"]


State = tuple[DeviceLane, ...]  # groups of lanes that share a program


class DeviceLoop:
    def __init__(
        self,
        config: AgentConfig,
        env: JaxEnvironment,
        lanes: list[LaneSpec],
        *,
        batched: bool | None = None,
    ):
        """`batched`: whether lanes share a program; by default where the device is an
        accelerator."""
        self.config = config
        self.env = env
        self.lanes = lanes
        munchausen = any(spec.config.munchausen for spec in lanes)
        self.steps: Steps = make_steps(config, env.spec, munchausen=munchausen)
        batched = dispatch.lanes_share_a_program() if batched is None else batched
        self.width = len(lanes) if batched else 1
        self._programs: dict[tuple[int, bool], Any] = {}

    def init(self) -> State:
        init = jax.jit(over_lanes(self._init_lane, self.width))
        shards = []
        for i in range(0, len(self.lanes), self.width):
            specs = self.lanes[i : i + self.width]
            keys = side_by_side([jax.random.key(spec.seed) for spec in specs])
            shards.append(init(keys, side_by_side([first_regulariser(x) for x in specs])))
        return tuple(shards)

    def _init_lane(self, key, regulariser) -> DeviceLane:
        lane_key, env_key = jax.random.split(key)
        envs = self.config.envs
        env, frames = jax.vmap(self.env.init)(jax.random.split(env_key, envs))
        lane = self.steps.init(lane_key, regulariser, frames)
        return DeviceLane(lane, env, jnp.zeros(envs), jnp.zeros(envs, jnp.int32))

    def snapshot(self, state: State) -> DeviceLane:
        """All lanes side by side, however they are split here."""
        return side_by_side(state)

    def replay(self, state: State) -> Ring:
        return self.snapshot(state).lane.replay.ring

    def network(self, state: State, lane: int) -> Network:
        shard = state[lane // self.width]
        return lane_of(shard.lane.learner.online, lane % self.width, self.width)

    def restore(self, snapshot: DeviceLane) -> State:
        if self.width == len(self.lanes):
            return (snapshot,)
        return tuple(lane_of(snapshot, i, len(self.lanes)) for i in range(len(self.lanes)))

    def close(self) -> None:
        pass

    def advance(self, state: State, t: int, steps: int) -> tuple[State, Callable[[], Chunk]]:
        group = self.config.group_steps
        groups = steps // group
        # A group learns if it ends after the warm-up.
        waiting = min(groups, max(0, (self.config.warmup_steps - t) // group))
        shards, reports = [], []
        for shard in state:
            ended, metrics, now = [], None, t
            for count, learn in ((waiting, False), (groups - waiting, True)):
                if count:
                    program = self._program(count, learn)
                    shard, finished, metrics = program(shard, jnp.int32(now))
                    ended.append(finished)
                    now += count * group
            shards.append(shard)
            reports.append((ended, metrics))
        return tuple(shards), partial(_collect, reports, self.width)

    def _program(self, groups: int, learn: bool):
        """The compiled program for so many groups; few lengths ever occur in a run."""
        key = (groups, learn)
        if key not in self._programs:
            function = partial(self._groups, groups=groups, learn=learn)
            self._programs[key] = compiled(function, self.config.precision, uses_up_first=True)
        return self._programs[key]

    def _groups(self, state: DeviceLane, t: Array, *, groups: int, learn: bool):
        """The whole program."""
        tick, teach, copy_target = (
            over_lanes(step, self.width, shared=1)
            for step in (self._tick, self.steps.learn, self.steps.copy_target)
        )

        def ticks(carry, _):
            state, t = carry
            state, ended = tick(state, t)
            return (state, t + self.config.envs), ended

        def group(carry, _):
            state, t = carry
            (state, after), ended = jax.lax.scan(
                ticks, (state, t), None, length=self.config.ticks_per_group
            )
            metrics = None
            if learn:
                lane, metrics = teach(state.lane, t)
                period = self.config.target_period_steps
                lane = copy_target(lane, after // period != t // period)
                state = state._replace(lane=lane)
            return (state, after), (ended, metrics)

        (state, _), (ended, metrics) = jax.lax.scan(group, (state, t), None, length=groups)
        return state, ended, metrics

    def _tick(self, state: DeviceLane, t: Array):
        """One step of every environment of one lane. An environment whose episode ended is
        at the first frame of the next one afterwards."""
        lane, envs = state.lane, self.config.envs
        # The first two are those that the actor splits off. All of them come from one split:
        # hashes are a good part of a tick's work.
        keys = jax.random.split(tick_key(lane, t), 2 + 2 * envs)
        actions = self.steps.act(lane, t)
        env, step = jax.vmap(self.env.step)(state.env, actions, keys[2 : 2 + envs])
        fresh, first = jax.vmap(self.env.init)(keys[2 + envs :])
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


def _collect(reports: list[tuple[list[Any], Metrics | None]], width: int) -> Chunk:
    """Waits for the program and brings its report to the host."""
    episodes, arrays = [], []
    for ended, metrics in reports:
        episodes += _episodes(ended, width)
        if metrics is None:
            arrays.append(empty_metrics(width))
        else:
            arrays.append(
                {
                    # [groups, (lanes,) updates] to [lanes, groups · updates]
                    name: np.asarray(x).reshape(len(x), width, -1).swapaxes(0, 1).reshape(width, -1)
                    for name, x in metrics._asdict().items()
                }
            )
    return Chunk(episodes, **{k: np.concatenate([a[k] for a in arrays]) for k in arrays[0]})


def _episodes(ended: list[Any], lanes: int) -> list[Episodes]:
    """From per-step arrays [groups, ticks, (lanes,) envs] to each lane's finished episodes."""
    parts: list[list[Episodes]] = [[] for _ in range(lanes)]
    for arrays in ended:
        done, returns, lengths = (
            np.asarray(x).reshape(*x.shape[:2], lanes, x.shape[-1]) for x in arrays
        )
        for k in range(lanes):
            mask = done[:, :, k]
            parts[k].append(Episodes(returns[:, :, k][mask], lengths[:, :, k][mask]))
    return [
        Episodes(
            np.concatenate([p.returns for p in part]), np.concatenate([p.lengths for p in part])
        )
        for part in parts
    ]
