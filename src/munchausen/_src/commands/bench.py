"""`munchausen bench`: throughput here, against the limits of its parts."""

import argparse
import json

import jax

from munchausen._src.agents import DEFAULT_AGENT
from munchausen._src.commands import field_flags
from munchausen._src.commands.console import speaker, table, whole
from munchausen._src.experiment import resources
from munchausen._src.experiment.bench import measure
from munchausen._src.experiment.settings import make_settings
from munchausen._src.suites import DEFAULT_ENVIRONMENT

DESCRIPTION = """\
Measure, in one go, environments alone, the learner alone and whole training, and the ratio of
the whole to the slower part. Nothing is written.

  munchausen bench                                  M-DQN on MinAtar Breakout
  munchausen bench m-dqn --env atari/Breakout       the paper's network and replay
  munchausen bench m-iqn --env atari/Pong --envs 80
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "agent", nargs="?", default=DEFAULT_AGENT, metavar="AGENT", help="one of `agents`"
    )
    parser.add_argument("--env", default=DEFAULT_ENVIRONMENT, help="one of `munchausen envs`")
    parser.add_argument("--protocol", help="modern (default) or original, for Atari")
    parser.add_argument("--seeds", default="1", help="lanes side by side (default 1)")
    parser.add_argument("--seconds", default="10", help="for each measurement (default 10)")
    field_flags.add(parser)


def run(options: argparse.Namespace) -> int:
    settings = make_settings(
        [options.agent],
        options.env,
        protocol=options.protocol,
        seeds=list(range(whole("seeds", options.seeds, 1) or 1)),
        changes=field_flags.read(options),
    )
    say = speaker(options.json)
    seconds = whole("seconds", options.seconds, 1) or 10
    resources.check_memory(settings)
    rates = measure(settings, float(seconds), say)
    frames = settings.listing.suite.frames_per_step
    unit = "frames" if frames > 1 else "steps"
    result = {
        "env": settings.env,
        "agent": options.agent,
        "lanes": len(settings.lanes),
        "envs": settings.config.envs,
        "device": jax.devices()[0].device_kind,
        "unit": f"{unit}/s",
        "environments": round(rates.environments * frames),
        "learner": round(rates.learner * frames),
        "training": round(rates.training * frames),
        "ratio_to_limit": round(rates.training / rates.limit, 3),
        "microseconds_per_update": round(rates.microseconds_per_update, 1),
    }
    if options.json:
        print(json.dumps(result))
        return 0
    table(
        [
            {"part": name, f"{unit}/s": f"{result[name]:,}"}
            for name in ("environments", "learner", "training")
        ],
        ("part", f"{unit}/s"),
    )
    print(f"one update: {rates.microseconds_per_update:,.1f} µs")
    print(f"training is {rates.training / rates.limit:.0%} of the slower part")
    where = f"{settings.config.envs} environments, on {result['device']}"
    print(f"{options.agent} on {settings.env}, {where}")
    return 0
