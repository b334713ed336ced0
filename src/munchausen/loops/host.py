"""The host loop: for environments outside JAX. The same acting and learning; environments
step on the host while the device learns."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from munchausen.agent.config import AgentConfig
from munchausen.agent.learner import UpdateMetrics
from munchausen.envs.spec import EnvironmentSpec, HostEnvironments, HostSteps
from munchausen.loops.chunk import Chunk, Episodes, empty_metrics
from munchausen.loops.compiling import compiled
from munchausen.loops.lane import (
    Lane,
    LaneSpec,
    add_axis,
    drop_axis,
    make_steps,
    over_lanes,
    stack_regularisers,
)
from munchausen.networks import Network
from munchausen.replay import Outcome, Ring


class HostState(NamedTuple):
    lane: Lane  # all lanes, along the first axis; but the learner of a single one has none
    episode_return: np.ndarray  # [lanes, envs]
    episode_length: np.ndarray


class HostLoop:
    """Environments step in one batch, or in several that take turns:

        receive what the batch did; store it; act for it; start learning; send the actions

    Learning is dispatched, not awaited: it runs on the device while the environments step on
    the host. Of several batches one is stored and acted for while the others step, so that both
    the emulators and the device always have work. An action comes from the newest parameters
    there are when it is asked for, short of the learning that overlaps it: the policy lags by
    at most one round of all environments.

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
        """More than one batch pays where environments step on threads of their own. If so many
        cannot be made with whole updates in each, there is one."""
        self.config = config
        self.lanes = lanes
        batches = batches if _splits(config, batches) else 1
        self.batch = config.envs // batches  # environments of one lane that step at once
        self.envs = [make_envs(len(lanes) * self.batch) for _ in range(batches)]
        self.spec: EnvironmentSpec = self.envs[0].spec
        munchausen = any(spec.regulariser.alpha != 0 for spec in lanes)
        self.steps = make_steps(config, self.spec, munchausen=munchausen)
        # The actions on their way: sent, their outcome not yet received.
        self._sent: list[Any] = [None] * len(self.envs)
        self._programs: dict[tuple[Any, ...], Any] = {}
        # Starting the many kernels of learning takes as long as they run: not on the thread
        # that keeps the environments busy.
        self._launcher = ThreadPoolExecutor(1, "learner")

    def init(self) -> HostState:
        keys = jnp.stack([jax.random.key(spec.seed) for spec in self.lanes])
        lane = jax.jit(jax.vmap(self.steps.init))(
            keys, stack_regularisers(self.lanes), self._reset(start=0)
        )
        shape = (len(self.lanes), self.config.envs)
        state = HostState(lane, np.zeros(shape, np.float32), np.zeros(shape, np.int32))
        return self._with_learner(state, drop_axis)

    def snapshot(self, state: HostState) -> HostState:
        return self._with_learner(state, add_axis)

    def replay(self, state: HostState) -> Ring:
        return state.lane.ring

    def network(self, state: HostState, lane: int) -> Network:
        online = state.lane.learner.online
        return online if len(self.lanes) == 1 else jax.tree.map(lambda x: x[lane], online)

    def _with_learner(self, state: HostState, axis: Callable[[Any], Any]) -> HostState:
        """A single learner is kept without an axis of lanes: XLA cannot update `[1, n]` in place
        by what it computes as `[n]`, and on a CPU half of an update's time went into that."""
        if len(self.lanes) > 1:
            return state
        return state._replace(lane=state.lane._replace(learner=axis(state.lane.learner)))

    def restore(self, snapshot: HostState) -> HostState:
        """Emulators cannot be restored: their running episodes are cut here. The last stored
        row becomes each cut episode's final frame, and new episodes begin."""
        frames = self._reset(start=int(jnp.max(snapshot.lane.ring.head)))
        lane = jax.jit(jax.vmap(self.steps.begin_again), donate_argnums=0)(snapshot.lane, frames)
        zeros = np.zeros(snapshot.episode_return.shape, np.float32)
        state = HostState(lane, zeros, zeros.astype(np.int32))
        return self._with_learner(state, drop_axis)

    def learning(self, updates: int) -> Callable[[Lane, Any], Any]:
        """The program of so many gradient steps: a lane (used up) and the step it is at."""
        return self._program("learn", updates)

    def close(self) -> None:
        self._launcher.shutdown()
        for envs in self.envs:
            envs.close()

    def advance(
        self, state: HostState, t: int, steps: int
    ) -> tuple[HostState, Callable[[], Chunk]]:
        lane = state.lane
        episode_return, episode_length = state.episode_return.copy(), state.episode_length.copy()
        ended: list[tuple[np.ndarray, ...]] = []
        learned: list[jax.Array] = []
        if self._sent[0] is None:
            for index in range(len(self.envs)):
                lane, actions = self._act(lane, t + index * self.batch, index)
                self._send(index, actions)
        learning: Future[Lane] | None = None
        for _ in range(steps // self.config.envs):
            for index, envs in enumerate(self.envs):
                step = envs.receive()
                t += self.batch
                lane = learning.result() if learning else lane
                # When this batch acts again, the others' steps on their way come before.
                act_at = t + (len(self.envs) - 1) * self.batch
                if self.config.envs == 1:
                    lane = self._store(lane, index, step)
                    lane = self._learn(lane, t, learned)
                    lane, actions = self._act(lane, act_at, index)
                else:
                    lane, actions = self._store_and_act(lane, index, step, act_at)
                    learning = self._launcher.submit(self._learn, lane, t, learned)
                self._send(index, actions)
                self._count(index, step, episode_return, episode_length, ended)
        lane = learning.result() if learning else lane
        report = partial(_collect, ended, learned, len(self.lanes))
        return HostState(lane, episode_return, episode_length), report

    def _learn(self, lane: Lane, t: int, learned: list[jax.Array]) -> Lane:
        """What is due now that `t` steps are stored: gradient steps, a copy to the target."""

        def passed(period: int) -> int:
            return t // period - (t - self.batch) // period

        if t <= self.config.warmup_steps:
            return lane
        # One at a time on a CPU, where a convolution within a loop is slow; elsewhere together.
        updates = passed(self.config.update_period_steps)
        at_once = min(updates, 1) if jax.default_backend() == "cpu" else updates
        for i in range(updates // max(1, at_once)):
            lane, metrics = self.learning(at_once)(lane, np.int32(t - self.batch + i))
            metrics.copy_to_host_async()
            learned.append(metrics)
        if passed(self.config.target_period_steps):
            lane = self._program("copy")(lane, np.bool_(True))
        return lane

    def _act(self, lane: Lane, t: int, index: int) -> tuple[Lane, Any]:
        return lane, self._program("act", index)(lane, np.int32(t))

    def _store(self, lane: Lane, index: int, step: HostSteps) -> Lane:
        program = self._program("store", index, step.final_frame is not None)
        return program(lane, self._sent[index], self._outcome(step), None)

    def _store_and_act(self, lane: Lane, index: int, step: HostSteps, t: int) -> tuple[Lane, Any]:
        program = self._program("store and act", index, step.final_frame is not None)
        return program(lane, self._sent[index], self._outcome(step), np.int32(t))

    def _send(self, index: int, actions: Any) -> None:
        self._sent[index] = actions
        # Waits for the device, but only up to this action: learning is behind it.
        self.envs[index].send(np.asarray(actions).reshape(-1))

    def _program(self, what: str, *static: Any) -> Any:
        key = (what, *static)
        if key not in self._programs:
            self._programs[key] = self._make_program(what, *static)
        return self._programs[key]

    def _make_program(self, what: str, *static: Any) -> Any:
        """`static` is what the program is compiled for: for "learn" the updates, for the
        others the batch, and whether one of its episodes was cut."""
        width, count, steps = len(self.lanes), self.batch, self.steps

        def store(lane: Lane, actions: Any, outcome: Outcome, t: Any) -> Any:
            index, truncates = static
            if not truncates:  # nothing was cut: there is no other last frame
                outcome = outcome._replace(final_frame=outcome.frame)
            some = {"first": index * count}
            lane = steps.store(lane, actions, outcome, **some, truncates=truncates)
            if what == "store":
                return lane
            return lane, steps.act(lane, t, **some, count=count)

        if what == "act":
            act = partial(steps.act, first=static[0] * count, count=count)
            return compiled(_over_lanes(act, width), self.config.precision)

        def learn(lane: Lane, t: Any) -> Any:
            lane, metrics = steps.learn(lane, t, updates=static[0])
            return lane, jnp.stack(metrics)  # one array: one copy to the host, later

        function: Any = store
        if what == "learn":
            function = learn
        elif what == "copy":
            function = steps.copy_target
        return compiled(_over_lanes(function, width), self.config.precision, uses_up_first=True)

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
        returns += self._by_lane(step.reward)
        lengths += 1
        over = self._by_lane(step.over)
        if over.any():
            ended.append((over, returns.copy(), lengths.copy()))
            returns[over] = 0
            lengths[over] = 0

    def _reset(self, start: int) -> jax.Array:
        """First frames of new episodes. Seeds are of a lane's own seed, so that side by side
        it plays what it would play alone; and of the row it starts at, so that a resumed run
        does not play its first episodes again."""
        frames = []
        for index, envs in enumerate(self.envs):
            if self._sent[index] is not None:
                envs.receive()  # of the episode that is given up
                self._sent[index] = None
            seeds = [
                int(np.random.SeedSequence([spec.seed, start, env]).generate_state(1)[0] >> 1)
                for spec in self.lanes
                for env in range(index * self.batch, (index + 1) * self.batch)
            ]
            frames.append(self._by_lane(envs.reset(seeds)))
        return jnp.asarray(np.concatenate(frames, axis=1))

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
        return x.reshape(len(self.lanes), self.batch, *x.shape[1:])


def _over_lanes(function: Callable[..., Any], width: int) -> Callable[..., Any]:
    """As `over_lanes`, for a function of a lane and more, where a single lane's learner has no
    axis of lanes."""
    if width > 1:
        return over_lanes(function, width)

    def without_axis(lane: Lane) -> Lane:
        return drop_axis(lane._replace(learner=None))._replace(learner=lane.learner)

    def with_axis(result: Any) -> Any:
        if isinstance(result, Lane):
            return add_axis(result._replace(learner=None))._replace(learner=result.learner)
        return add_axis(result)

    def mapped(lane: Lane, *arguments: Any) -> Any:
        *own, shared = arguments
        result = function(without_axis(lane), *drop_axis(own), shared)
        # A lane, or a lane and more, or actions.
        several = isinstance(result, tuple) and not isinstance(result, Lane)
        return tuple(with_axis(part) for part in result) if several else with_axis(result)

    return mapped


def _splits(config: AgentConfig, batches: int) -> bool:
    """Whether the environments make so many batches, each of whole updates."""
    batch, left = divmod(config.envs, batches)
    return not left and batch > 0 and batch % config.update_period_steps == 0


def _collect(ended: list[Any], learned: list[jax.Array], lanes: int) -> Chunk:
    metrics = empty_metrics(lanes)
    if learned:
        joined = np.concatenate([np.asarray(m) for m in learned], axis=2)  # [lanes, metrics, U]
        metrics = UpdateMetrics(*joined.swapaxes(0, 1))._asdict()
    none = (np.zeros(0, np.float32), np.zeros(0, np.int32))
    episodes = [
        Episodes(
            np.concatenate([none[0]] + [returns[k][over[k]] for over, returns, _ in ended]),
            np.concatenate([none[1]] + [lengths[k][over[k]] for over, _, lengths in ended]),
        )
        for k in range(lanes)
    ]
    return Chunk(episodes, **metrics)
