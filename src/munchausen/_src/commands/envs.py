"""`munchausen envs`: what there is to train on."""

import argparse
import json

from munchausen._src.commands.console import table
from munchausen._src.suites import RANDOM, listings
from munchausen._src.suites.registry import SUITES

DESCRIPTION = "The environments there are presets for."

_FACTS = ("iteration_steps", "checkpoint_seconds", "asynchronous", "frames_per_step")


def configure(parser: argparse.ArgumentParser) -> None:
    del parser  # nothing but --json


def run(options: argparse.Namespace) -> int:
    rows = [
        {
            "name": listing.name,
            "suite": listing.suite.name,
            "loop": listing.suite.loop,
            "steps": listing.steps,
            **{fact: getattr(listing.suite, fact) for fact in _FACTS},
            "random": listing.references.get(RANDOM),
        }
        for listing in listings()
    ]
    if options.json:
        print(json.dumps(rows))
        return 0
    table(rows, ("name", "suite", "loop", "steps", "iteration_steps", "random"))
    for suite in SUITES.values():
        if suite.about:
            print(suite.about)
    return 0
