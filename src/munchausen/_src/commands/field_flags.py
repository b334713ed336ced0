"""Every field of an agent as a flag, for the commands that train."""

import argparse
from typing import Any, Literal, get_args, get_origin

from munchausen._src.agents.config import FIELDS, HINTS, parse_value
from munchausen._src.errors import UserError


def add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fields of the agent, by default the preset's")
    for name, field in FIELDS.items():
        help = field.metadata["help"].replace("%", "%%")
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, dest=name, metavar=metavar(name), help=help)


def metavar(name: str) -> str:
    """Its choices, where it has a few."""
    return "|".join(get_args(HINTS[name])) if get_origin(HINTS[name]) is Literal else "X"


def read(options: argparse.Namespace) -> dict[str, Any]:
    """Those that were given."""
    given = {name: getattr(options, name) for name in FIELDS}
    if "/" in (given["envs"] or ""):
        raise UserError(
            "--envs is how many environments step at once; the name of one goes to --env "
            f"{given['envs']}"
        )
    return {k: parse_value(k, HINTS[k], v) for k, v in given.items() if v is not None}
