"""Before a long run: does its replay fit, and how long will it take on a CPU?"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from munchausen._src import suites as envs
from munchausen._src.agents.building import make_learner
from munchausen._src.agents.over_time import regulariser_at
from munchausen._src.core.learner import LearnerState
from munchausen._src.core.replay import Transitions
from munchausen._src.errors import UserError, install_line
from munchausen._src.experiment.pace import in_words
from munchausen._src.experiment.settings import Settings
from munchausen._src.kernels import dispatch
from munchausen._src.kernels.compiling import compiled
from munchausen._src.kernels.machine import device_memory

_SHARE = 0.9  # of the memory; the rest is for networks, batches and the compiler
_LONG_SECONDS = 600
_FEW_UPDATES = 1_000  # under half a second each with M-IQN on two cores
_TIMED = 5


def check(settings: Settings, say: Callable[[str], Any] = lambda _: None) -> str | None:
    """Refuses a replay that does not fit. Returns a warning where a GPU would be wanted."""
    check_memory(settings)
    if settings.listing.suite.wants_gpu and not dispatch.on_accelerator():
        seconds = cpu_seconds(settings, say)
        if seconds > _LONG_SECONDS:
            return (
                f"no GPU found: {settings.steps:,} steps will take about {in_words(seconds)} on "
                f"this CPU ({install_line('cuda')} where there is an NVIDIA GPU)"
            )
    return None


def check_memory(settings: Settings) -> None:
    spec = envs.spec_of(settings.listing)
    frame_bytes = int(np.prod(spec.frame_shape)) * np.dtype(spec.frame_dtype).itemsize
    needed = len(settings.lanes) * settings.config.capacity * (frame_bytes + 9)
    apart = settings.listing.suite.loop == "device" and not dispatch.lanes_share_a_program()
    if apart and len(settings.lanes) > 1:
        needed *= 2  # a checkpoint joins a copy of the lanes
    there = device_memory()
    if there is not None and needed > _SHARE * there:
        fits = int(_SHARE * there / needed * settings.config.capacity) // 1_000 * 1_000
        lanes = f" for {len(settings.lanes)} lanes" if len(settings.lanes) > 1 else ""
        raise UserError(
            f"the replay{lanes} needs {needed / 1e9:.1f} GB and the device has "
            f"{there / 1e9:.1f} GB; lower --capacity (to {fits:_} or less)"
            + (" or train fewer seeds at once" if lanes else "")
        )


def cpu_seconds(settings: Settings, say: Callable[[str], Any]) -> float:
    """Estimated from the time of an update on this CPU; emulators and acting add a fifteenth. If
    there are too few updates to take long, none is timed and the estimate is 0."""
    config = settings.config
    updates = max(0, settings.steps - config.warmup_steps) // config.update_period_steps
    if updates < _FEW_UPDATES:
        return 0.0
    say("no GPU: timing an update on this CPU …")
    return len(settings.lanes) * updates * _update_seconds(settings) * 16 / 15


def _update_seconds(settings: Settings) -> float:
    config, spec = settings.begun().config, envs.spec_of(settings.listing)
    shape = spec.observation_shape(config.stack)
    learner = make_learner(config, spec)
    regulariser = regulariser_at(config, 0)

    def update(state: LearnerState, batch: Transitions, key: Any) -> LearnerState:
        return learner.update(state, batch, key, regulariser=regulariser)[0]

    key, size = jax.random.key(0), config.batch_size
    seen = jnp.zeros((size, *shape), spec.frame_dtype)
    numbers, whole = jnp.zeros(size), jnp.zeros(size, jnp.int32)
    batch = Transitions(seen, whole, numbers, numbers, seen)
    state = jax.jit(learner.init)(key)
    program = compiled(update, config.precision, uses_up_first=True)
    seconds = []
    for _ in range(1 + _TIMED):  # the first one compiles
        begun = time.monotonic()
        state = jax.block_until_ready(program(state, batch, key))
        seconds.append(time.monotonic() - begun)
    return sum(seconds[1:]) / _TIMED
