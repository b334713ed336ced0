"""`munchausen envs`: what there is to train on."""

import argparse
import json
from dataclasses import asdict

from munchausen._src.commands.console import table
from munchausen._src.evidence.metrics.reference import random_score
from munchausen._src.suites import LISTINGS

DESCRIPTION = "The environments there are presets for."


def configure(parser: argparse.ArgumentParser) -> None:
    del parser  # nothing but --json


def run(options: argparse.Namespace) -> int:
    envs(as_json=options.json)
    return 0


def envs(*, as_json: bool) -> None:
    rows = [asdict(listing) for listing in LISTINGS.values()]
    for row in rows:
        row["random"] = random_score(row["name"])
    if as_json:
        print(json.dumps(rows))
        return
    table(rows, ("name", "suite", "loop", "steps", "iteration_steps", "random"))
    print("any other of Gymnasium with discrete actions: gym/ID; of your own: gym/MODULE:ID")
    print("Atari games under the protocol of the first publications: --protocol original")
