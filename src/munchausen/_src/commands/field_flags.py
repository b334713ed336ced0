"""Every field of an agent as a flag, for the commands that train."""

import argparse
from typing import Any, Literal, get_args, get_origin

from munchausen._src.agents.config import FIELDS, HINTS, SCHEDULABLE, parse_field
from munchausen._src.agents.fields import range_in_words
from munchausen._src.errors import UserError

SCHEDULES = """\
a SCHEDULE changes with the agent step: linear:START:END:STEPS, cosine:… and exponential:… too,
without :STEPS over the run; piecewise:VALUE:STEP:VALUE…"""


def add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fields of the agent, by default the preset's", SCHEDULES)
    for name in FIELDS:
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, dest=name, metavar=metavar(name), help=help_of(name))


def metavar(name: str) -> str:
    """Its choices, where it has a few."""
    if name in SCHEDULABLE:
        return "X|SCHEDULE"
    return "|".join(get_args(HINTS[name])) if get_origin(HINTS[name]) is Literal else "X"


def help_of(name: str) -> str:
    field = FIELDS[name]
    limits = f" ({words})" if (words := range_in_words(field)) else ""
    return (field.metadata["help"] + limits).replace("%", "%%")


def read(options: argparse.Namespace) -> dict[str, Any]:
    """Those that were given."""
    given = {name: getattr(options, name) for name in FIELDS}
    if "/" in (given["envs"] or ""):
        raise UserError(
            "--envs is how many environments step at once; the name of one goes to --env "
            f"{given['envs']}"
        )
    return {k: parse_field(k, v) for k, v in given.items() if v is not None}
