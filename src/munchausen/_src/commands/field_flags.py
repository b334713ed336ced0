"""Every field of an agent as a flag, for the commands that train."""

import argparse
from typing import Any, Literal, get_args, get_origin

from munchausen._src.agents.config import FIELDS, HINTS, SCHEDULABLE, parse_field
from munchausen._src.agents.fields import range_in_words
from munchausen._src.errors import UserError

SCHEDULES = """\
a SCHEDULE changes with the agent step: linear:START:END:STEPS, cosine:… and exponential:… too,
without :STEPS over the run; piecewise:VALUE:STEP:VALUE…"""


def add(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """With `several`, of a sweep: lists of values, and `--envs` is of names."""
    what = ": one value, or several to compare" if several else ", by default the preset's"
    group = parser.add_argument_group(f"fields of the agent{what}", SCHEDULES)
    for name, field in FIELDS.items():
        flag = "env_count" if several and name == "envs" else name
        limits = f" ({words})" if (words := range_in_words(field)) else ""
        group.add_argument(
            "--" + flag.replace("_", "-"),
            dest="field_" * several + name,
            metavar=_metavar(name) + "[,…]" * several,
            help=(field.metadata["help"] + limits).replace("%", "%%"),
        )


def _metavar(name: str) -> str:
    """Its choices, where it has a few."""
    if name in SCHEDULABLE:
        return "X|SCHEDULE"
    return "|".join(get_args(HINTS[name])) if get_origin(HINTS[name]) is Literal else "X"


def given(options: argparse.Namespace, prefix: str = "") -> dict[str, str]:
    """Those that were, as text. `prefix`: of their names in `options`."""
    values = {name: getattr(options, prefix + name) for name in FIELDS}
    return {name: value for name, value in values.items() if value is not None}


def read(options: argparse.Namespace) -> dict[str, Any]:
    texts = given(options)
    if "/" in texts.get("envs", ""):
        raise UserError(
            "--envs is how many environments step at once; the name of one goes to --env "
            f"{texts['envs']}"
        )
    return {name: parse_field(name, text) for name, text in texts.items()}
