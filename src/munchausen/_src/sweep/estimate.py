"""How long a sweep takes and how much disk, before it is started."""

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from munchausen._src.experiment.bench import Bench
from munchausen._src.experiment.settings import Settings
from munchausen._src.experiment.training import make_loop
from munchausen._src.suites import frame_bytes_on_disk
from munchausen._src.sweep.plan import PROCESS_SECONDS

# A checkpoint's network, target and Adam's moments: 4 × 16 MB with the paper's torso.
_STATE_BYTES = {"nature": 70_000_000}
_SMALL_STATE_BYTES = 4_000_000
_MEASURED_CAPACITY = 20_000  # speed hardly depends on the replay's size, memory does


class Estimate(NamedTuple):
    seconds: float
    disk_bytes: float
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
        key = f"{each.lanes[0].agent} on {each.listing.prefix}"
        if key not in rates:
            rates[key] = rate(replace(each, lanes=each.lanes[:together]))
        runs = len(each.lanes)
        seconds = runs * each.steps / rates[key] + math.ceil(runs / together) * PROCESS_SECONDS
        busy += seconds
        longest = max(longest, seconds / math.ceil(runs / together))
        disk += runs * run_disk_bytes(each)
    return Estimate(max(busy / slots, longest), disk, rates)


def run_disk_bytes(settings: Settings) -> float:
    """Of a finished run."""
    replay = settings.config.capacity * frame_bytes_on_disk(settings.listing)
    state = _STATE_BYTES.get(str(settings.config.network), _SMALL_STATE_BYTES)
    rows = settings.steps / settings.iteration_steps
    return replay + 2 * state + rows * 500


def measured(seconds: float, say: Callable[[str], None]) -> Callable[[Settings], float]:
    """The speed of one job on this machine, from a few seconds of it."""

    def rate(settings: Settings) -> float:
        say(f"measuring {settings.lanes[0].agent} on {settings.env} …")
        if not settings.listing.suite.asynchronous:
            with closing(make_loop(settings)) as loop:
                return Bench(loop).rate_of("training", seconds)
        # The slower of the two is the limit of a training that overlaps them.
        warmup = 8 * settings.config.envs
        capacity = max(_MEASURED_CAPACITY, warmup)
        small = settings.with_configs(
            lambda config: replace(config, capacity=capacity, warmup_steps=warmup)
        )
        with closing(make_loop(small)) as loop:
            bench = Bench(loop)
            return min(bench.rate_of("learner", seconds), bench.rate_of("environments", seconds))

    return rate
