"""Numbers that change as a run goes on: functions of the agent step.

    linear:1:0.01:250000         from 1 to 0.01 over 250,000 steps, 0.01 from then on
    cosine:5e-5:1e-6             half a cosine wave; without steps it lasts the whole run
    exponential:0.1:0.001:50000  by the same factor at each step
    piecewise:5e-5:1e6:1e-5      5e-5 before step 1,000,000, 1e-5 from it on

The text is what a command line takes and what a run's `config.json` holds. In Python any
function of the step will do too; it must work on JAX arrays.
"""

import abc
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from munchausen._src.errors import UserError, unknown

Step = int | float | Int[Array, "*B"] | Float[Array, "*B"]
Value = float | Float[Array, "*B"]
# Steps (None: the last of the run) and values between which all others lie.
Extremes = tuple[tuple[int | None, float | int], ...]

_GRID = 256  # stretches of a run at whose ends a function's values are looked at


class Schedule(abc.ABC):
    """A value for each agent step. Its text is `str(schedule)`, read again by `parse`."""

    @abc.abstractmethod
    def __call__(self, step: Step) -> Value: ...

    @property
    @abc.abstractmethod
    def extremes(self) -> Extremes: ...

    def resolved(self, steps: int) -> "Schedule":
        """For a run of so many steps. What has a length of its own keeps it."""
        del steps
        return self


@dataclass(frozen=True)
class _Ramp(Schedule):
    """From `start` to `end` over `steps`, and `end` from then on; None is the run's length."""

    start: float | int
    end: float | int
    steps: int | None = None

    def __post_init__(self) -> None:
        _check(self, (self.start, self.end), (self.steps,))

    def __call__(self, step: Step) -> Value:
        if self.steps is None:
            raise UserError(f"{self} lasts as long as its run: give it steps, or call resolved()")
        return self._between(_numpy_for(step).clip(step / self.steps, 0.0, 1.0))

    @abc.abstractmethod
    def _between(self, share: Any) -> Any:
        """The value when `share` of the steps are taken."""

    @property
    def extremes(self) -> Extremes:
        return (0, self.start), (self.steps, self.end)

    def resolved(self, steps: int) -> "_Ramp":
        return replace(self, steps=steps) if self.steps is None else self

    def __str__(self) -> str:
        return _join(self, self.start, self.end, self.steps)


class Linear(_Ramp):
    """start · (1 − x) + end · x, with x the share of `steps` that are taken."""

    def _between(self, share: Any) -> Any:
        return self.start * (1 - share) + self.end * share


class Cosine(Linear):
    """Slow, then fast, then slow: linear in (1 − cos πx) / 2 (Loshchilov & Hutter 2017)."""

    def _between(self, share: Any) -> Any:
        return super()._between((1 - _numpy_for(share).cos(math.pi * share)) / 2)


class Exponential(_Ramp):
    """start^(1 − x) · end^x: the same factor at each step. Both must be above 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.start, self.end) <= 0:
            raise UserError(f"{self} must start and end above 0; linear or cosine can reach 0")

    def _between(self, share: Any) -> Any:
        return self.start ** (1 - share) * self.end**share


@dataclass(frozen=True)
class Piecewise(Schedule):
    """`values[i]` from step `boundaries[i − 1]`, that one included, to before `boundaries[i]`.
    As text they take turns: value, boundary, value, …"""

    values: tuple[float | int, ...]
    boundaries: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.boundaries) + 1:
            raise UserError(
                f"piecewise needs one value more than boundaries, not {len(self.values)} and "
                f"{len(self.boundaries)}"
            )
        _check(self, self.values, self.boundaries)
        if list(self.boundaries) != sorted(set(self.boundaries)):
            raise UserError(f"the boundaries of {self} must grow")

    def __call__(self, step: Step) -> Value:
        xp: Any = _numpy_for(step)
        value = xp.full(xp.shape(step), self.values[0], float)[()]
        for boundary, following in zip(self.boundaries, self.values[1:], strict=True):
            value = xp.where(step >= boundary, following, value)[()]
        return value

    @property
    def extremes(self) -> Extremes:
        return tuple(zip((0, *self.boundaries), self.values, strict=True))

    def __str__(self) -> str:
        pairs = zip(self.boundaries, self.values[1:], strict=True)
        return _join(self, self.values[0], *(x for pair in pairs for x in pair))


@dataclass(frozen=True)
class Function(Schedule):
    """A Python function of the step. Text holds its name alone: a run read from a file has no
    `function`, so it can be played with but not trained on."""

    name: str
    function: Callable[[Any], Any] | None = field(default=None, hash=False)
    # Of the run, once it is known: there its values are checked.
    steps: int | None = field(default=None, compare=False)

    def __call__(self, step: Step) -> Value:
        function = self.function
        if function is None:
            raise UserError(
                f"the Python function {self.name!r} is a schedule of this run, and a run's folder "
                "does not hold it: give it again from Python"
            )
        if isinstance(step, int | float):
            return float(function(step))
        return jnp.vectorize(lambda s: jnp.asarray(function(s), jnp.float32))(step)

    @property
    def extremes(self) -> Extremes:
        """Of a grid over the run, with its end; nothing before the run's length is known."""
        if self.steps is None:
            return ()
        steps = np.unique(np.linspace(0, self.steps, _GRID + 1).astype(int))
        try:
            # Traced, as in training: a Python `if` on the step is found here.
            values = np.asarray(jax.vmap(self)(jnp.asarray(steps, jnp.int32)))
        except (TypeError, ValueError) as error:
            said = (str(error).splitlines() or [""])[0]
            raise UserError(
                f"the function {self.name!r} is no schedule: it must make one number of an agent "
                f"step that is a JAX array ({said})"
            ) from error
        if values.ndim > 1:
            raise UserError(f"the function {self.name!r} is no schedule: it makes arrays of a step")
        return tuple(zip(steps.tolist(), values.tolist(), strict=True))

    def resolved(self, steps: int) -> "Function":
        return replace(self, steps=steps)

    def __str__(self) -> str:
        return f"function:{self.name}"


_RAMPS = {"linear": Linear, "cosine": Cosine, "exponential": Exponential}
_FORMS = {name: f"{name}:START:END or {name}:START:END:STEPS" for name in _RAMPS}
_FORMS["piecewise"] = "piecewise:VALUE:STEP:VALUE and so on"


def at(value: Any, step: Step) -> Any:
    """The value at a step: a number is itself, a schedule or another function is called."""
    return value(step) if callable(value) else value


def as_schedule(function: Callable[[Any], Any]) -> Schedule:
    """A schedule as it is, any other function with its name."""
    if isinstance(function, Schedule):
        return function
    return Function(getattr(function, "__qualname__", type(function).__name__), function)


def is_schedule_text(text: str) -> bool:
    return ":" in text or text in _FORMS


def parse(text: str) -> Schedule:
    """The schedule that a text names: the inverse of `str`."""
    name, _, rest = text.partition(":")
    if name == "function":
        return Function(rest)
    if name not in _FORMS:
        raise unknown("schedule", name, _FORMS, there_are="; ".join(_FORMS.values()))
    wrong = UserError(f"{text!r} is no schedule: write {_FORMS[name]}")
    try:
        numbers = [float(part) for part in rest.split(":")]
    except ValueError:
        raise wrong from None
    if name == "piecewise":
        if len(numbers) < 3 or len(numbers) % 2 == 0:
            raise wrong
        return Piecewise(tuple(numbers[::2]), tuple(_whole(x, text) for x in numbers[1::2]))
    if len(numbers) not in (2, 3):
        raise wrong
    return _RAMPS[name](numbers[0], numbers[1], *(_whole(x, text) for x in numbers[2:]))


def _numpy_for(step: Step) -> Any:
    """Python numbers stay Python's, with all their digits."""
    return np if isinstance(step, int | float) else jnp


def _join(schedule: Schedule, *numbers: float | int | None) -> str:
    known = (_spell(number) for number in numbers if number is not None)
    return ":".join([type(schedule).__name__.lower(), *known])


def _spell(number: float | int) -> str:
    """5e-5, 1 and 0.01: the shortest text that reads back as the same number."""
    if isinstance(number, int):
        return str(number)
    return re.sub(r"e\+?(-?)0*", r"e\1", repr(float(number)).removesuffix(".0"))


def _whole(number: float, text: str) -> int:
    if not number.is_integer():
        raise UserError(f"{text}: steps are whole numbers, not {number:g}")
    return int(number)


def _check(schedule: Schedule, values: tuple[Any, ...], steps: tuple[int | None, ...]) -> None:
    for number in values:
        if isinstance(number, bool) or not math.isfinite(number):
            raise UserError(f"{schedule}: {number!r} is no finite number")
    for step in steps:
        if step is not None and not 1 <= step < 2**31:
            raise UserError(f"{schedule}: steps are counted from 1 to 2³¹ - 1, not {step}")
