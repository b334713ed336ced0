"""`munchausen agents`: what there is to train."""

import argparse
import json

from munchausen._src.agents import AGENTS, DESCRIPTIONS, resolve
from munchausen._src.commands.console import table
from munchausen._src.suites import find

DESCRIPTION = "The agents with the numbers that tell them apart; with a name, every field."

_COLUMNS = (
    "head",
    "alpha",
    "tau",
    "clip_min",
    "n_step",
    "replay",
    "optimizer",
    "learning_rate",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="show every field of this one")
    parser.add_argument(
        "--env", help="with the numbers for this environment (default: the paper's)"
    )


def run(options: argparse.Namespace) -> int:
    agent, env = options.agent, options.env
    suite = find(env).prefix if env else "atari"
    if agent is not None:
        values = resolve(agent, suite).to_json()
        if options.json:
            print(json.dumps({"name": agent, **values}))
            return 0
        print(f"{agent}: {DESCRIPTIONS[agent]} ({env or 'Atari, as in the paper'})")
        for name, value in values.items():
            print(f"  {name:<22} {value}")
        return 0
    rows = [
        {
            "name": name,
            "description": DESCRIPTIONS[name],
            **{k: v for k, v in resolve(name, suite).to_json().items() if k in _COLUMNS},
        }
        for name in AGENTS
    ]
    if options.json:
        print(json.dumps(rows))
    else:
        table(rows, ("name", *_COLUMNS, "description"))
    return 0
