"""`munchausen envs`: what there is to train on."""

import argparse
import json

from munchausen._src.commands.console import table
from munchausen._src.suites import RANDOM, listings
from munchausen._src.suites.registry import SUITES

DESCRIPTION = "The environments there are presets for."

_FACTS = (
    *("loop", "steps", "iteration_steps", "checkpoint_seconds", "asynchronous"),
    "frames_per_step",
)


def configure(parser: argparse.ArgumentParser) -> None:
    del parser  # nothing but --json


def run(options: argparse.Namespace) -> int:
    envs(as_json=options.json)
    return 0


def envs(*, as_json: bool) -> None:
    rows = [
        {
            "name": listing.name,
            "suite": listing.suite.name,
            **{fact: getattr(listing, fact) for fact in _FACTS},
            "random": listing.references.get(RANDOM),
        }
        for listing in listings()
    ]
    if as_json:
        print(json.dumps(rows))
        return
    table(rows, ("name", "suite", "loop", "steps", "iteration_steps", "random"))
    for suite in SUITES.values():
        if suite.about:
            print(suite.about)
