"""How long a sweep takes and how much disk, before it is started."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from munchausen.experiment.bench import environment_rate, learner_rate, training_rate
from munchausen.experiment.settings import Settings
from munchausen.experiment.sweep.plan import PROCESS_SECONDS, replay_bytes

_PARAMETER_BYTES = 24 * 2**20  # the largest network, its target and Adam's moments: 4 × 6 MB
_MEASURED_CAPACITY = 20_000  # speed hardly depends on the replay's size, memory does


class Estimate(NamedTuple):
    seconds: float
    disk_bytes: float  # at most: replays are compressed
    rates: dict[str, float]  # steps/s of one job, by agent and kind of environment


def estimate(
    settings: list[Settings],
    together: int,
    slots: int,
    rate: Callable[[Settings], float],
) -> Estimate:
    """`settings`: one for each configuration, its seeds as lanes. `rate`: steps per second of
    one job, all its lanes together."""
    rates: dict[str, float] = {}
    busy, longest, disk = 0.0, 0.0, 0.0
    for each in settings:
        key = f"{each.lanes[0].agent} on {each.listing.suite}"
        if key not in rates:
            rates[key] = rate(replace(each, lanes=each.lanes[:together]))
        runs = len(each.lanes)
        seconds = runs * each.steps / rates[key] + math.ceil(runs / together) * PROCESS_SECONDS
        busy += seconds
        longest = max(longest, seconds / math.ceil(runs / together))
        disk += runs * run_disk_bytes(each)
    return Estimate(max(busy / slots, longest), disk, rates)


def run_disk_bytes(settings: Settings) -> float:
    """Of a finished run, at most. MinAtar's replay is kept as bits in both checkpoints, Atari's
    once, in compressed blocks."""
    replay = replay_bytes(settings)
    if settings.listing.suite == "minatar":
        replay = 2 * settings.config.capacity * (10 * 10 * 10 / 8 + 12)
    elif settings.listing.suite == "classic":
        replay *= 2
    rows = settings.steps / settings.iteration_steps
    return replay + 2 * _PARAMETER_BYTES + rows * 500


def measured(seconds: float, say: Callable[[str], None]) -> Callable[[Settings], float]:
    """The speed of one job on this machine, from a few seconds of it."""

    def rate(settings: Settings) -> float:
        say(f"measuring {settings.lanes[0].agent} on {settings.env} …")
        if settings.listing.loop == "device" or settings.listing.suite == "classic":
            return training_rate(settings, seconds)
        # The slower of the two is the limit of a training that overlaps them.
        warmup = 8 * settings.config.envs
        small = replace(
            settings,
            config=replace(
                settings.config, capacity=max(_MEASURED_CAPACITY, warmup), warmup_steps=warmup
            ),
        )
        updates = learner_rate(small, seconds)
        lanes = len(settings.lanes)
        learner = updates * settings.config.update_period_steps * lanes
        return min(environment_rate(small, seconds), learner)

    return rate
