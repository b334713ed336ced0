"""How a field is declared: its default with the source of the number, its help, its range."""

import dataclasses
import math
from typing import Any

from munchausen._src.core.schedules import Schedule
from munchausen._src.errors import UserError


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
    if isinstance(value, Schedule):
        for step, number in value.extremes:
            if wrong := _wrong(field, number):
                raise UserError(f"{wrong}, which {value} is {step_in_words(step)} ({_help(field)})")
    elif isinstance(value, int | float) and (wrong := _wrong(field, value)):
        raise UserError(f"{wrong} ({_help(field)})")


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


def _help(field: dataclasses.Field) -> str:
    return field.metadata["help"]
