"""Every field of an agent as a flag, for the commands that train."""

import argparse
from typing import Any

from munchausen.agent.config import FIELDS, HINTS, parse_value


def add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fields of the agent, by default the preset's")
    for name, field in FIELDS.items():
        help = field.metadata["help"].replace("%", "%%")
        group.add_argument("--" + name.replace("_", "-"), dest=name, metavar="X", help=help)


def read(options: argparse.Namespace) -> dict[str, Any]:
    """Those that were given."""
    given = {name: getattr(options, name) for name in FIELDS}
    return {k: parse_value(k, HINTS[k], v) for k, v in given.items() if v is not None}
