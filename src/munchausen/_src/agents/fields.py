"""How a field is declared (its default with the source of the number, its help, its range), read
from what a user gives, and checked."""

import dataclasses
import math
from typing import Any, Literal, get_args, get_origin

from munchausen._src.core.schedules import Schedule, as_schedule, is_schedule_text
from munchausen._src.core.schedules import parse as parse_schedule
from munchausen._src.errors import UserError, unknown
from munchausen._src.networks import TorsoFactory, torso_factory


def declare(
    default: Any,
    help: str,
    low: float | int | None = None,
    high: float | int | None = None,
    *,
    source: str | None = None,
) -> Any:
    """A field with the line `--help` shows for it, the range it is checked against, and where its
    default comes from (None: it is a choice, not a number of somebody's)."""
    return dataclasses.field(
        default=default, metadata={"help": help, "low": low, "high": high, "source": source}
    )


def check_range(field: dataclasses.Field, value: Any) -> None:
    """Refuses what is outside the field's range, a schedule where it is so at some step."""
    help = field.metadata["help"]
    if isinstance(value, Schedule):
        for step, number in value.extremes:
            if wrong := _wrong(field, number):
                raise UserError(f"{wrong}, which {value} is {step_in_words(step)} ({help})")
    elif isinstance(value, int | float) and (wrong := _wrong(field, value)):
        raise UserError(f"{wrong} ({help})")


def step_in_words(step: int | None) -> str:
    return "at its end" if step is None else f"at step {step}"


def range_in_words(field: dataclasses.Field) -> str:
    low, high = field.metadata["low"], field.metadata["high"]
    if low is not None and high is not None:
        return f"in [{low:g}, {high:g}]"
    if low is not None:
        return f"at least {low:g}"
    return f"at most {high:g}" if high is not None else ""


def _wrong(field: dataclasses.Field, number: float | int) -> str | None:
    low, high = field.metadata["low"], field.metadata["high"]
    outside = (low is not None and number < low) or (high is not None and number > high)
    if outside or math.isnan(number):
        return f"{field.name} must be {range_in_words(field) or 'a number'}, not {number:g}"
    # Only the clip may be infinite: -inf is no clip.
    if math.isinf(number) and field.name != "clip_min":
        return f"{field.name} must be finite, not {number:g}"
    return None


def parse_value(name: str, hint: Any, value: Any) -> Any:
    """`value` as the type of its field; text as a command line gives it is understood."""
    if Schedule in get_args(hint):
        return _number_or_schedule(name, value)
    if TorsoFactory in get_args(hint):
        return value if isinstance(value, str) else torso_factory(value)
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise unknown(f"{name}", str(value), choices)
        return value
    wanted = {int: "a whole number", float: "a number", bool: "true or false"}.get(hint, "text")
    wrong = UserError(f"{name} must be {wanted}, not {value!r}")
    if hint is bool:
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.lower())
        if not isinstance(value, bool):
            raise wrong
        return value
    if isinstance(value, bool):
        raise wrong
    if hint in (int, float):
        try:
            number = float(value)  # 1e6 is whole too
        except (TypeError, ValueError, OverflowError):
            raise wrong from None
        if hint is float:
            return number
        if not number.is_integer():
            raise wrong
        return int(number)
    if not isinstance(value, str):
        raise wrong
    return value


def json_value(value: Any) -> Any:
    infinite = isinstance(value, float) and math.isinf(value)
    return str(value) if infinite or isinstance(value, Schedule | TorsoFactory) else value


def _number_or_schedule(name: str, value: Any) -> float | Schedule:
    if callable(value):
        return as_schedule(value)
    try:
        if isinstance(value, str) and is_schedule_text(value):
            return parse_schedule(value)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    try:
        return parse_value(name, float, value)
    except UserError:
        raise UserError(
            f"{name} must be a number or a schedule such as linear:1:0.1:50000, not {value!r}"
        ) from None


def parse_whole(name: str, value: Any, least: int) -> int:
    number = parse_value(name, int, value)
    if number < least:
        raise UserError(f"{name} must be at least {least}, not {number}")
    return number


def parse_text(name: str, value: Any) -> str:
    return parse_value(name, str, value)


def parse_seconds(name: str, value: Any) -> float:
    number = parse_value(name, float, value)
    if not 0 <= number < math.inf:
        raise UserError(f"{name} must be at least 0 and finite, not {value}")
    return number


def parse_probability(name: str, value: Any) -> float:
    number = parse_value(name, float, value)
    if not 0 <= number <= 1:
        raise UserError(f"{name} must be in [0, 1], not {number:g}")
    return number
