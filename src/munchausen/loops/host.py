"""The host loop: for environments outside JAX. The same acting and learning; environments
step on the host while the device learns."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from munchausen.agent.config import AgentConfig
from munchausen.agent.learner import UpdateMetrics
from munchausen.envs.spec import EnvironmentSpec, HostEnvironments, HostSteps
from munchausen.loops.chunk import Chunk, Episodes, empty_metrics
from munchausen.loops.lane import (
    Lane,
    LaneSpec,
    make_steps,
    over_lanes,
    stack_regularisers,
)
from munchausen.replay import Outcome


class HostState(NamedTuple):
    lane: Lane
    episode_return: np.ndarray  # [lanes, envs]
    episode_length: np.ndarray


class HostLoop:
    """Order of a round: act; start learning; step the environments meanwhile; store.

    Actions are chosen after the last group's learning is done, so the policy is never
    behind by more than the learning that overlaps the current step.
    """

    def __init__(
        self,
        config: AgentConfig,
        make_envs: Callable[[int], HostEnvironments],
        lanes: list[LaneSpec],
    ):
        self.config = config
        self.lanes = lanes
        self.envs = make_envs(len(lanes) * config.envs)
        self.spec: EnvironmentSpec = self.envs.spec
        munchausen = any(spec.regulariser.alpha != 0 for spec in lanes)
        self.steps = make_steps(config, self.spec, munchausen=munchausen)
        width = len(lanes)
        self._act = jax.jit(over_lanes(self.steps.act, width))
        self._store = jax.jit(jax.vmap(self.steps.store), donate_argnums=0)
        self._learn = jax.jit(over_lanes(self.steps.learn, width), donate_argnums=0)
        self._copy = jax.jit(over_lanes(self.steps.copy_target, width), donate_argnums=0)

    def init(self) -> HostState:
        keys = jnp.stack([jax.random.key(spec.seed) for spec in self.lanes])
        frames = self._by_lane(self.envs.reset(self._env_seeds(start=0)))
        lane = jax.jit(jax.vmap(self.steps.init))(
            keys, stack_regularisers(self.lanes), jnp.asarray(frames)
        )
        shape = (len(self.lanes), self.config.envs)
        return HostState(lane, np.zeros(shape, np.float32), np.zeros(shape, np.int32))

    def snapshot(self, state: HostState) -> HostState:
        return state

    def restore(self, snapshot: HostState) -> HostState:
        """Emulators cannot be restored: their running episodes are cut here. The last stored
        row becomes each cut episode's final frame, and new episodes begin."""
        rows = int(jnp.max(snapshot.lane.ring.head))
        frames = self._by_lane(self.envs.reset(self._env_seeds(start=rows)))
        lane = jax.jit(jax.vmap(self.steps.begin_again))(snapshot.lane, jnp.asarray(frames))
        zeros = np.zeros(snapshot.episode_return.shape, np.float32)
        return HostState(lane, zeros, zeros.astype(np.int32))

    def close(self) -> None:
        self.envs.close()

    def advance(
        self, state: HostState, t: int, steps: int
    ) -> tuple[HostState, Callable[[], Chunk]]:
        config, lane = self.config, state.lane
        episode_return, episode_length = state.episode_return.copy(), state.episode_length.copy()
        ended: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        learned = []
        for _ in range(steps // config.group_steps):
            for tick in range(config.ticks_per_group):
                actions = self._act(lane, jnp.int32(t))
                chosen = np.asarray(actions)  # waits for the learning before it
                t += config.envs
                last = tick == config.ticks_per_group - 1
                if last and t > config.warmup_steps:
                    # Dispatched, not awaited: it runs while the environments step.
                    lane, metrics = self._learn(lane, jnp.int32(t - config.group_steps))
                    learned.append(metrics)
                    period = config.target_period_steps
                    if t // period != (t - config.group_steps) // period:
                        lane = self._copy(lane, jnp.bool_(True))
                step = self.envs.step(chosen.reshape(-1))
                lane = self._store(lane, actions, self._outcome(step))
                done = self._by_lane(step.terminated | step.truncated)
                episode_return += self._by_lane(step.reward)
                episode_length += 1
                if done.any():
                    ended.append((done, episode_return.copy(), episode_length.copy()))
                    episode_return[done] = 0
                    episode_length[done] = 0
        report = partial(_collect, ended, learned, len(self.lanes))
        return HostState(lane, episode_return, episode_length), report

    def _env_seeds(self, start: int) -> list[int]:
        """Of a lane's own seed, so that side by side it plays what it would play alone; and of
        the row it starts at, so that a resumed run does not play its first episodes again."""
        return [
            int(np.random.SeedSequence([spec.seed, start, env]).generate_state(1)[0] >> 1)
            for spec in self.lanes
            for env in range(self.config.envs)
        ]

    def _outcome(self, step: HostSteps) -> Outcome:
        arrays: Any = jax.tree.map(self._by_lane, step)
        return Outcome(
            arrays.reward, arrays.terminated, arrays.truncated, arrays.frame, arrays.final_frame
        )

    def _by_lane(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(len(self.lanes), self.config.envs, *x.shape[1:])


def _collect(ended: list[Any], learned: list[UpdateMetrics], lanes: int) -> Chunk:
    metrics = empty_metrics(lanes)
    if learned:
        arrays = [jax.tree.map(np.asarray, m) for m in learned]
        metrics = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *arrays)._asdict()
    none = (np.zeros(0, np.float32), np.zeros(0, np.int32))
    episodes = [
        Episodes(
            np.concatenate([none[0]] + [returns[k][done[k]] for done, returns, _ in ended]),
            np.concatenate([none[1]] + [lengths[k][done[k]] for done, _, lengths in ended]),
        )
        for k in range(lanes)
    ]
    return Chunk(episodes, **metrics)
