"""The host loop: for environments outside JAX. The same acting and learning; environments
step on the host while the device learns."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from munchausen._src.agents.config import AgentConfig
from munchausen._src.core.learner import Metrics
from munchausen._src.core.replay import Outcome, Ring
from munchausen._src.kernels import dispatch
from munchausen._src.loops.chunk import Chunk, Episodes, empty_metrics
from munchausen._src.loops.lane import Lane, LaneSpec, first_regulariser, make_steps
from munchausen._src.loops.lanes import lane_of, over_lanes, side_by_side
from munchausen._src.loops.programs import HostPrograms, Leaves
from munchausen._src.networks import Network
from munchausen._src.suites.spec import EnvironmentSpec, HostEnvironments, HostSteps


class HostState(NamedTuple):
    lane: Lane  # all of them, side by side
    episode_return: np.ndarray  # [lanes, envs]
    episode_length: np.ndarray


class HostLoop:
    """Environments step in one batch, or in several that take turns:

        receive what the batch did; store it; act for it; start learning

    Programs are started but not waited for: the device learns while the environments step on the
    host. A second thread waits for the actions and passes them to their batch, while this one
    starts the learning, which takes a millisecond. With several batches, one is stored and acted
    for while the others step, so that emulators and device always have work. Actions come from
    the parameters there are when they are asked for; learning that is still running is missing,
    so the policy lags by at most one round of all environments.

    With one environment nothing overlaps and the order is Algorithm 1's: store, learn, act.
    """

    def __init__(
        self,
        config: AgentConfig,
        make_envs: Callable[[int], HostEnvironments],
        lanes: list[LaneSpec],
        *,
        batches: int = 1,
    ):
        """Several batches help where environments step on their own threads. If the environments
        cannot be split into that many, each with whole updates, there is a single batch."""
        self.config = config
        self.lanes = lanes
        batches = batches if _splits(config, batches) else 1
        self.batch = config.envs // batches  # environments of one lane that step at once
        self.envs = [make_envs(len(lanes) * self.batch) for _ in range(batches)]
        self.spec: EnvironmentSpec = self.envs[0].spec
        munchausen = any(spec.config.munchausen for spec in lanes)
        self.steps = make_steps(config, self.spec, munchausen=munchausen)
        self.programs = HostPrograms(self.steps, len(lanes), self.batch)
        # The actions on their way: asked for, their outcome not yet received.
        self._sent: list[Any] = [None] * len(self.envs)
        self._sending: list[Future[None] | None] = [None] * len(self.envs)
        self._stepping = [False] * len(self.envs)  # told to, and not received since
        self._sender = ThreadPoolExecutor(1, "actions")

    def init(self) -> HostState:
        lane = jax.jit(over_lanes(self.steps.init, len(self.lanes)))(
            side_by_side([jax.random.key(spec.seed) for spec in self.lanes]),
            side_by_side([first_regulariser(spec) for spec in self.lanes]),
            self._reset(start=0),
        )
        shape = (len(self.lanes), self.config.envs)
        return HostState(lane, np.zeros(shape, np.float32), np.zeros(shape, np.int32))

    def snapshot(self, state: HostState) -> HostState:
        return state

    def replay(self, state: HostState) -> Ring:
        return state.lane.replay.ring

    def network(self, state: HostState, lane: int) -> Network:
        return lane_of(state.lane.learner.online, lane, len(self.lanes))

    def restore(self, snapshot: HostState) -> HostState:
        """Emulators cannot be restored: their running episodes are cut here. The last stored
        row becomes each cut episode's final frame, and new episodes begin."""
        frames = self._reset(start=int(jnp.max(self.replay(snapshot).head)))
        begin_again = over_lanes(self.steps.begin_again, len(self.lanes))
        lane = jax.jit(begin_again, donate_argnums=0)(snapshot.lane, frames)
        zeros = np.zeros(snapshot.episode_return.shape, np.float32)
        return HostState(lane, zeros, zeros.astype(np.int32))

    def close(self) -> None:
        self._sender.shutdown()
        for envs in self.envs:
            envs.close()

    def advance(
        self, state: HostState, t: int, steps: int
    ) -> tuple[HostState, Callable[[], Chunk]]:
        leaves = self.programs.take_apart(state.lane)
        episode_return, episode_length = state.episode_return.copy(), state.episode_length.copy()
        ended: list[tuple[np.ndarray, ...]] = []
        learned: list[jax.Array] = []
        if self._sent[0] is None:
            for index in range(len(self.envs)):
                self._send(index, self._act(leaves, t + index * self.batch, index))
        for _ in range(steps // self.config.envs):
            for index in range(len(self.envs)):
                step = self._receive(index)
                t += self.batch
                outcome = self._outcome(step)
                # When this batch acts again, the others' steps on their way come before.
                act_at = t + (len(self.envs) - 1) * self.batch
                if self.config.envs == 1:
                    leaves, _ = self._store(leaves, index, outcome)
                    leaves = self._learn(leaves, t, learned)
                    self._send(index, self._act(leaves, act_at, index))
                else:
                    leaves, actions = self._store(leaves, index, outcome, act_at)
                    self._send(index, actions)
                    leaves = self._learn(leaves, t, learned)
                self._count(index, step, episode_return, episode_length, ended)
        lane = self.programs.put_together(leaves)
        report = partial(_collect, ended, learned, len(self.lanes))
        return HostState(lane, episode_return, episode_length), report

    def play(self, actions: np.ndarray) -> None:
        """Steps all environments with these actions [lanes, envs], batch by batch as in `advance`,
        but stores and learns nothing. `advance` may continue from there. For measuring."""
        for index in range(len(self.envs)):
            if self._sent[index] is not None:
                self._receive(index)
            some = actions[:, index * self.batch : (index + 1) * self.batch]
            self._send(index, self._by_lane(some.reshape(-1)))

    def _learn(self, leaves: Leaves, t: int, learned: list[jax.Array]) -> Leaves:
        """What is due now that `t` steps are stored: gradient steps, a copy to the target."""

        def passed(period: int) -> int:
            return t // period - (t - self.batch) // period

        if t <= self.config.warmup_steps:
            return leaves
        updates = passed(self.config.update_period_steps)
        at_once = dispatch.updates_at_once(updates)
        for i in range(updates // max(1, at_once)):
            leaves, metrics = self.programs.learn(leaves, at_once, np.int32(t - self.batch + i))
            metrics.copy_to_host_async()
            learned.append(metrics)
        if passed(self.config.target_period_steps):
            leaves = self.programs.copy_target(leaves)
        return leaves

    def _act(self, leaves: Leaves, t: int, index: int) -> Any:
        return self.programs.act(leaves, index, np.int32(t))

    def _store(
        self, leaves: Leaves, index: int, outcome: Outcome, act_at: int | None = None
    ) -> tuple[Leaves, Any]:
        at = None if act_at is None else np.int32(act_at)
        return self.programs.store(leaves, index, self._sent[index], outcome, at)

    def _send(self, index: int, actions: Any) -> None:
        self._sent[index] = actions
        if self.config.envs == 1 or isinstance(actions, np.ndarray):
            self._sending[index] = None  # nothing to do meanwhile, or nothing to wait for
            self._hand_over(index, actions)
        else:
            self._sending[index] = self._sender.submit(self._hand_over, index, actions)
        self._stepping[index] = True

    def _hand_over(self, index: int, actions: Any) -> None:
        # Waits for the device, but only up to this action: learning is behind it.
        self.envs[index].send(np.asarray(actions).reshape(-1))

    def _receive(self, index: int) -> HostSteps:
        if not self._stepping[index]:  # environments would wait for ever
            raise RuntimeError("this loop was stopped in the middle of a step and cannot continue")
        if sending := self._sending[index]:
            sending.result()  # raises what kept them from being handed over, each time it is asked
        step = self.envs[index].receive()
        self._stepping[index] = False
        return step

    def _count(
        self,
        index: int,
        step: HostSteps,
        episode_return: np.ndarray,
        episode_length: np.ndarray,
        ended: list[tuple[np.ndarray, ...]],
    ) -> None:
        some = slice(index * self.batch, (index + 1) * self.batch)
        returns, lengths = episode_return[:, some], episode_length[:, some]
        returns += step.reward.reshape(returns.shape)
        lengths += 1
        over = step.over.reshape(returns.shape)
        if over.any():
            ended.append((over, returns.copy(), lengths.copy()))
            returns[over] = 0
            lengths[over] = 0

    def _reset(self, start: int) -> jax.Array:
        """First frames of new episodes. Their seeds are made from the lane's seed, so that a lane
        plays the same beside others as alone, and from the row it starts at, so that a resumed
        run does not repeat its first episodes."""
        frames = []
        for index, envs in enumerate(self.envs):
            if self._stepping[index]:
                self._receive(index)  # of the episode that is given up
            self._sent[index] = None
            seeds = [
                int(np.random.SeedSequence([spec.seed, start, env]).generate_state(1)[0] >> 1)
                for spec in self.lanes
                for env in range(index * self.batch, (index + 1) * self.batch)
            ]
            frames.append(self._by_lane(envs.reset(seeds)))
        return jnp.asarray(np.concatenate(frames, axis=min(1, len(self.lanes) - 1)))

    def _outcome(self, step: HostSteps) -> Outcome:
        """Left as the host's arrays: a program takes them up faster than `jnp.asarray`."""

        def part(x: np.ndarray | None) -> Any:
            return None if x is None else self._by_lane(x)

        return Outcome(
            part(step.reward),
            part(step.terminated),
            part(step.truncated),
            part(step.frame),  # the one upload of this frame
            part(step.final_frame),
        )

    def _by_lane(self, x: np.ndarray) -> np.ndarray:
        """As programs take it: with an axis of lanes where there are several."""
        return x if len(self.lanes) == 1 else x.reshape(len(self.lanes), self.batch, *x.shape[1:])


def _splits(config: AgentConfig, batches: int) -> bool:
    """Whether the environments make so many batches, each of whole updates."""
    batch, left = divmod(config.envs, batches)
    return not left and batch > 0 and batch % config.update_period_steps == 0


def _collect(ended: list[Any], learned: list[jax.Array], lanes: int) -> Chunk:
    metrics = empty_metrics(lanes)
    if learned:
        joined = np.concatenate([np.asarray(m) for m in learned], axis=-1)
        joined = joined.reshape(lanes, len(Metrics._fields), -1)
        metrics = dict(zip(Metrics._fields, joined.swapaxes(0, 1), strict=True))
    none = (np.zeros(0, np.float32), np.zeros(0, np.int32))
    episodes = [
        Episodes(
            np.concatenate([none[0]] + [returns[k][over[k]] for over, returns, _ in ended]),
            np.concatenate([none[1]] + [lengths[k][over[k]] for over, _, lengths in ended]),
        )
        for k in range(lanes)
    ]
    return Chunk(episodes, **metrics)
