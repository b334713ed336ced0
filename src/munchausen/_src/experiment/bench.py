"""How fast environments, learner and whole training are here, each alone and together.

The slower of environments and learner is the limit of a training that overlaps them; the ratio
of the whole to it says how much the loop wastes.
"""

import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from munchausen._src.core.replay import FrameStore
from munchausen._src.experiment.settings import Settings
from munchausen._src.experiment.training import make_loop
from munchausen._src.kernels import dispatch
from munchausen._src.kernels.compiling import compiled
from munchausen._src.loops.device import DeviceLoop
from munchausen._src.loops.host import HostLoop
from munchausen._src.loops.lane import Lane, Steps
from munchausen._src.loops.lanes import over_lanes

Part = Literal["environments", "learner", "training"]
PARTS: tuple[Part, ...] = ("environments", "learner", "training")

_ROUNDS = 4
_SHORT_SECONDS = 0.1
_TURNS_AHEAD = 3
_NOISY_ROWS = 16


class Rates(NamedTuple):
    """Agent steps per second, of all lanes together."""

    environments: float
    learner: float
    training: float
    microseconds_per_update: float  # of the learner alone, one update of all lanes

    @property
    def limit(self) -> float:
        return min(self.environments, self.learner)


class Work(NamedTuple):
    turn: Callable[[], int]  # returns the agent steps that it took, or learned from
    finish: Callable[[], None]  # after several turns: waits for the device


def measure(settings: Settings, seconds: float, say: Callable[[str], None]) -> Rates:
    """Measures each of the three for about `seconds`, after compiling. They take turns, because the
    speed of a machine may change by a third within minutes, which would distort their ratio."""
    with closing(make_loop(settings)) as loop:
        bench = Bench(loop)
        for part in PARTS:
            say(f"compiling: {part} …")
            bench.warm_up(part)
        if isinstance(loop, HostLoop):
            say("until the first episodes have ended at different times …")
            bench.settle(seconds, "environments", "training")
        say("measuring environments, learner and training in turns …")
        for _ in range(_ROUNDS):
            for part in PARTS:
                bench.run(part, seconds / _ROUNDS)
    per_update = settings.config.update_period_steps * len(settings.lanes)
    learner = bench.rate("learner")
    return Rates(
        bench.rate("environments"), learner, bench.rate("training"), 1e6 * per_update / learner
    )


class Bench:
    """A loop whose parts can be run one at a time. They share its lanes and emulators: a replay of
    Atari's is 7 GB, and starting an emulator takes a tenth of a second. The replay is full from the
    start, of random frames (zeros would all be alike)."""

    def __init__(self, loop: Any):
        self.loop = loop
        self._on_host = isinstance(loop, HostLoop)
        self.state = _with_full_replay(loop)
        group, period = loop.config.group_steps, loop.config.target_period_steps
        # After the warm-up, and just before a copy to the target: its program is to be compiled
        # before the clock runs.
        copy = -(-(loop.config.warmup_steps + group) // period) * period
        self.t = (copy - 1) // group * group
        self._longest = max(1, 1_000 // group) * group
        # On a CPU a thousand steps of Atari may take longer than the whole measurement. The device
        # loop compiles a program for each length, so it keeps to one.
        self._chunk = group if self._on_host else self._longest
        self._report: Callable[[], Any] | None = None  # of the chunk before
        self._work: dict[Part, Work] = {}
        self._steps = dict.fromkeys(PARTS, 0)
        self._seconds = dict.fromkeys(PARTS, 0.0)

    def rate(self, part: Part) -> float:
        """Agent steps per second in all that was run."""
        return self._steps[part] / self._seconds[part]

    def rate_of(self, part: Part, seconds: float) -> float:
        """Compiles, runs and rates a single part."""
        self.warm_up(part)
        if self._on_host and part != "learner":
            self.settle(seconds, part)
        self.run(part, seconds)
        return self.rate(part)

    def warm_up(self, part: Part) -> None:
        """Compiles; the first few turns still allocate."""
        turn, finish = self._part(part)
        for _ in range(3):
            turn()
        finish()

    def settle(self, seconds: float, *parts: Part) -> None:
        """Runs turns that are not counted. On the host all first episodes begin together, so no
        emulator resets at first, and a reset takes as long as ten steps: without this the
        emulators would look faster than they are. Training also compiles the handling of the
        first truncated episode here, and finds how many steps to take at once."""
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            for part in parts:
                self._part(part).turn()
        for part in parts:
            self._part(part).finish()

    def run(self, part: Part, seconds: float) -> None:
        turn, finish = self._part(part)
        if part == "environments":
            turn()  # what it receives was stepped before the clock ran
        begun, done = time.monotonic(), 0
        while not done or time.monotonic() - begun < seconds:
            done += turn()
        finish()
        self._steps[part] += done
        self._seconds[part] += time.monotonic() - begun

    def _part(self, part: Part) -> Work:
        if part not in self._work:
            make = {
                "environments": self._environments,
                "learner": self._host_learner if self._on_host else self._device_learner,
                "training": lambda: Work(self._training, self._wait),
            }
            self._work[part] = make[part]()
        return self._work[part]

    def _wait(self) -> None:
        jax.block_until_ready(self.state)

    def _environments(self) -> Work:
        """Random actions; batches take turns as in training, but nobody waits for a device."""
        if isinstance(self.loop, DeviceLoop):
            return Work(_jax_environments(self.loop), lambda: None)
        random, loop = np.random.default_rng(0), self.loop
        shape = (len(loop.lanes), loop.config.envs)

        def turn() -> int:
            loop.play(random.integers(0, loop.spec.actions, shape, dtype=np.int32))
            return shape[0] * shape[1]

        return Work(turn, lambda: None)

    def _host_learner(self) -> Work:
        """As many updates at once as in training, the lane taken apart once for many turns."""
        loop, parts = self.loop, None
        updates = dispatch.updates_at_once(max(1, loop.batch // loop.config.update_period_steps))

        def learn(t: Any) -> Any:
            nonlocal parts
            parts = loop.programs.take_apart(self.state.lane) if parts is None else parts
            parts, metrics = loop.programs.learn(parts, updates, t)
            return metrics

        def finish() -> None:
            nonlocal parts
            if parts is not None:
                self.state = self.state._replace(lane=loop.programs.put_together(parts))
                parts = None
            self._wait()

        return Work(self._learning(learn, updates), finish)

    def _device_learner(self) -> Work:
        """The updates of a group. Shards of lanes are, on a CPU, one after the other."""
        loop, updates = self.loop, self.loop.config.updates_per_group
        learn_lane = partial(loop.steps.learn, updates=updates)
        function = over_lanes(learn_lane, loop.width, shared=1)
        program = compiled(function, loop.config.precision, uses_up_first=True)

        def learn(t: Any) -> Any:
            shards, metrics = [], None
            for shard in self.state:
                lane, metrics = program(shard.lane, t)
                shards.append(shard._replace(lane=lane))
            self.state = tuple(shards)
            return metrics

        return Work(self._learning(learn, updates), self._wait)

    def _learning(self, learn: Callable[[Any], Any], updates: int) -> Callable[[], int]:
        turns, ahead = 0, deque[Any]()

        def turn() -> int:
            nonlocal turns
            ahead.append(learn(np.int32(turns)))
            # A few turns are always queued, so that the device never idles.
            if len(ahead) > _TURNS_AHEAD:
                jax.block_until_ready(ahead.popleft())
            turns += 1
            return updates * self.loop.config.update_period_steps * len(self.loop.lanes)

        return turn

    def _training(self) -> int:
        """The loop as in training, after its warm-up."""
        begun, steps = time.monotonic(), self._chunk
        self.state, report = self.loop.advance(self.state, self.t, steps)
        self.t += steps
        if self._report:
            self._report()  # looks at the chunk before, as a training does
        self._report = report
        if time.monotonic() - begun < _SHORT_SECONDS:
            self._chunk = min(2 * steps, self._longest)
        return steps * len(self.loop.lanes)


def _jax_environments(loop: DeviceLoop) -> Callable[[], int]:
    env, count = loop.env, len(loop.lanes) * loop.config.envs
    state, _ = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), count))
    length = 100

    def tick(state: Any, key: Any) -> tuple[Any, Any]:
        action_key, step_key, init_key = jax.random.split(key, 3)
        actions = jax.random.randint(action_key, (count,), 0, env.spec.actions)
        state, step = jax.vmap(env.step)(state, actions, jax.random.split(step_key, count))
        fresh, _ = jax.vmap(env.init)(jax.random.split(init_key, count))
        done = step.terminated | step.truncated

        def choose(new: Any, old: Any) -> Any:
            return jnp.where(done.reshape(done.shape + (1,) * (new.ndim - 1)), new, old)

        return jax.tree.map(choose, fresh, state), jnp.sum(step.frame)

    @jax.jit
    def many(state: Any, key: Any) -> tuple[Any, Any]:
        return jax.lax.scan(tick, state, jax.random.split(key, length))

    held = [state]

    def turn() -> int:
        held[0], _ = jax.block_until_ready(many(held[0], jax.random.key(1)))
        return length * count

    return turn


def _with_full_replay(loop: Any) -> Any:
    steps: Steps = loop.steps
    state, on_host = loop.init(), isinstance(loop, HostLoop)
    fill = filler(steps.spec.actions, len(loop.lanes) if on_host else loop.width)
    if on_host:
        return state._replace(lane=fill(state.lane))
    return tuple(shard._replace(lane=fill(shard.lane)) for shard in state)


def filler(actions: int, width: int) -> Any:
    """The program does not read the old frames but reuses their memory, hence `keep_unused`."""
    fill = over_lanes(partial(_fill, actions=actions), width)
    return jax.jit(fill, donate_argnums=0, keep_unused=True)


def _fill(lane: Lane, *, actions: int) -> Lane:
    (ring, priorities), key = lane.replay, jax.random.key(0)
    # A few random rows, repeated: drawing random numbers takes many times their size in memory.
    rows = min(_NOISY_ROWS, ring.rows)
    shape = (rows, *ring.frames.shape[1:])
    if ring.frames.dtype == bool:
        noise = jax.random.bernoulli(key, 0.2, shape)
    elif ring.frames.dtype == jnp.uint8:
        noise = jax.random.bits(key, shape, jnp.uint8)
    else:
        noise = jax.random.normal(key, shape)
    ring = ring._replace(
        frames=noise[jnp.arange(ring.rows) % rows],
        actions=jax.random.randint(key, ring.actions.shape, 0, actions),
        head=jnp.full_like(ring.head, ring.rows - 1),
    )
    if priorities is not None:
        priorities = priorities._replace(values=jnp.ones_like(priorities.values))
    return lane._replace(replay=FrameStore(ring, priorities))
