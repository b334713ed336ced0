"""How fast environments, learner and whole training are here, each alone and together.

The slower of environments and learner is the limit of a training that overlaps them; the ratio
of the whole to it says how much the loop wastes.
"""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from munchausen.experiment.settings import Settings
from munchausen.experiment.training import make_loop
from munchausen.loops.compiling import compiled
from munchausen.loops.device import DeviceLoop
from munchausen.loops.host import HostLoop
from munchausen.loops.lane import Lane, Steps, over_lanes

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


def measure(settings: Settings, seconds: float, say: Callable[[str], None]) -> Rates:
    """About `seconds` for each of the three, after compiling."""
    period = settings.config.update_period_steps
    say("environments alone …")
    # One loop for all three: starting an emulator takes a tenth of a second.
    with closing(make_loop(settings)) as loop:
        environments = environment_rate(loop, seconds)
        say("learner alone …")
        updates = learner_rate(loop, seconds)
        say("whole training …")
        training = training_rate(loop, seconds)
    lanes = len(settings.lanes)
    return Rates(environments, updates * period * lanes, training, 1e6 / updates)


def environment_rate(loop: Any, seconds: float) -> float:
    """Random actions; batches take turns as in training, but nobody waits for a device."""
    if isinstance(loop, DeviceLoop):
        return _jax_environment_rate(loop, seconds)
    assert isinstance(loop, HostLoop)
    random = np.random.default_rng(0)
    count = len(loop.lanes) * loop.batch
    for index, batch in enumerate(loop.envs):
        batch.reset(list(range(index * count, (index + 1) * count)))
        batch.send(random.integers(0, loop.spec.actions, count))

    def turn() -> int:
        for batch in loop.envs:
            batch.receive()
            batch.send(random.integers(0, loop.spec.actions, count))
        return len(loop.envs) * count

    rate = _rate(turn, seconds, settle=seconds)
    for batch in loop.envs:
        batch.receive()
    return rate


def _jax_environment_rate(loop: DeviceLoop, seconds: float) -> float:
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

    return _rate(turn, seconds)


def learner_rate(loop: Any, seconds: float) -> float:
    """Updates per second on a full replay of random frames (never of zeros, which would all
    be alike), as many at once as in training."""
    steps: Steps = loop.steps
    fill = jax.jit(partial(_fill, actions=steps.spec.actions), donate_argnums=0)
    if isinstance(loop, HostLoop):
        updates = max(1, loop.batch // loop.config.update_period_steps)
        if jax.default_backend() == "cpu":
            updates = 1
        programs = loop.programs
        lanes: list[Any] = [programs.take_apart(fill(loop.init().lane))]

        def learn(parts: Any, t: Any) -> Any:
            return programs.learn(parts, updates, t)

    else:
        updates = loop.config.updates_per_group
        function = over_lanes(partial(steps.learn, updates=updates), loop.width)
        learn = compiled(function, loop.config.precision, uses_up_first=True)
        lanes = [fill(shard.lane) for shard in loop.init()]  # on a CPU one after the other
    turns = 0

    def turn() -> int:
        nonlocal turns
        for i, lane in enumerate(lanes):
            lanes[i], metrics = learn(lane, np.int32(turns))
            if turns % 8 == 0:
                jax.block_until_ready(metrics)
        turns += 1
        return updates

    return _rate(turn, seconds, lambda: jax.block_until_ready(lanes))


def _fill(lane: Lane, *, actions: int) -> Lane:
    ring, key = lane.ring, jax.random.key(0)
    # A few rows, again and again: drawing a number takes many times its place.
    rows = min(_NOISY_ROWS, ring.frames.shape[1])
    shape = (ring.frames.shape[0], rows, *ring.frames.shape[2:])
    if ring.frames.dtype == bool:
        noise = jax.random.bernoulli(key, 0.2, shape)
    elif ring.frames.dtype == jnp.uint8:
        noise = jax.random.bits(key, shape, jnp.uint8)
    else:
        noise = jax.random.normal(key, shape)
    ring = ring._replace(
        frames=noise[:, jnp.arange(ring.frames.shape[1]) % rows],
        actions=jax.random.randint(key, ring.actions.shape, 0, actions),
        head=jnp.full_like(ring.head, ring.frames.shape[1] - 1),
    )
    priorities = lane.priorities
    if priorities is not None:
        priorities = priorities._replace(values=jnp.ones_like(priorities.values))
    return lane._replace(ring=ring, priorities=priorities)


def training_rate(loop: Any, seconds: float) -> float:
    """The loop as in training, after its warm-up."""
    config, lanes = loop.config, len(loop.lanes)
    state: Any = loop.init()
    group = config.group_steps
    warm = -(-config.warmup_steps // group) * group
    state, report = loop.advance(state, 0, warm)
    report()
    chunk = max(1, 1_000 // group) * group
    held: list[Any] = [state, warm, report]
    del state

    def turn() -> int:
        held[0], report = loop.advance(held[0], held[1], chunk)
        held[1] += chunk
        held[2]()  # looks at the chunk before, as a training does
        held[2] = report
        return chunk * lanes

    settle = seconds if isinstance(loop, HostLoop) else 0.0
    return _rate(turn, seconds, lambda: held[2](), settle)


def _rate(
    turn: Callable[[], int],
    seconds: float,
    finish: Callable[[], Any] = lambda: None,
    settle: float = 0.0,
) -> float:
    """What turns count, per second. The first few compile; `finish` waits for the device.

    `settle` seconds are not counted. On the host all first episodes begin at once, and an
    emulator takes as long as for ten steps to begin the next one, while its batch waits: before
    the first of them end, emulators are faster than ever after.
    """
    for _ in range(3):
        turn()
    finish()
    begun = time.monotonic()
    while time.monotonic() - begun < settle:
        turn()
    finish()
    begun, done = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        done += turn()
    finish()
    return done / (time.monotonic() - begun)
