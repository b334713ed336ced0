"""An agent is this data and nothing else. Flat, so that each field is a flag, a keyword and
a key in a run's `config.json` under the same name."""

import dataclasses
import math
import types
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from munchausen._src.core.heads import Categorical, Expected, Head, ImplicitQuantile, Quantile
from munchausen._src.errors import UserError, unknown
from munchausen._src.networks import TORSOS
from munchausen._src.networks.layers import InitialiserName

HeadName = Literal["expected", "categorical", "quantile", "implicit"]
Precision = Literal["tf32", "float32"]


def _field(help: str, low: float | int | None = None, high: float | int | None = None) -> Any:
    """A field with the line `--help` shows for it and the range it is checked against."""
    return dataclasses.field(metadata={"help": help, "low": low, "high": high})


@dataclass(frozen=True)
class AgentConfig:
    """Periods and lengths are in agent steps (on Atari 1 agent step = 4 frames)."""

    # The regulariser: what makes it Munchausen.
    alpha: float = _field("weight of the scaled log-policy in the reward", 0, 1)
    tau: float = _field("temperature of the entropy; 0 is the hard maximum", 0)
    clip_min: float = _field("l0, lower clip of τ ln π; -inf is no clip", None, 0)

    # The return estimate and its loss.
    head: HeadName = _field("how the return is estimated")
    loss: Literal["huber", "mse"] = _field("loss of the expected head")
    atoms: int = _field("atoms of the categorical head", 2)
    v_min: float = _field("lowest atom")
    v_max: float = _field("highest atom")
    quantiles: int = _field("quantiles of the quantile head", 1)
    fractions: int = _field("N, fractions of the implicit head's online network", 1)
    target_fractions: int = _field("N', fractions of its target network", 1)
    policy_fractions: int = _field("K, fractions behind each of its policies", 1)
    cosines: int = _field("size of its cosine embedding", 1)
    kappa: float = _field("Huber threshold of the quantile losses", 1e-6)
    discount: float = _field("γ", 0, 1)
    n_step: int = _field("steps folded into one transition", 1)

    # The network and its optimiser.
    network: str = _field("torso: " + ", ".join(TORSOS))
    initialiser: InitialiserName = _field("initialiser of all weights")
    optimizer: Literal["adam", "rmsprop"] = _field("rmsprop is centred, decay 0.95")
    learning_rate: float = _field("step size", 1e-12)
    optimizer_eps: float = _field("ε of the optimiser", 0)
    batch_size: int = _field("transitions in a gradient step", 1)
    precision: Precision = _field(
        "factors of matrix products on a GPU, of 11 bits or 24; sums have 24. A CPU has float32"
    )

    # The replay.
    replay: Literal["uniform", "prioritised"] = _field("how transitions are drawn")
    capacity: int = _field("transitions kept", 2)
    warmup_steps: int = _field("steps before the first gradient step", 1)
    stack: int = _field("frames in an observation", 1)
    clip_rewards: bool = _field("learn from rewards clipped to [-1, 1]")

    # The rhythm of acting and learning.
    envs: int = _field("environments stepped at once; 1 is Algorithm 1 step by step", 1)
    update_period_steps: int = _field("steps for each gradient step", 1)
    target_period_steps: int = _field("steps between copies to the target network", 1)

    # Exploration.
    exploration: Literal["greedy", "stochastic"] = _field(
        "what is done when not at random: the greedy action, or a draw from softmax(q/τ)"
    )
    epsilon: float = _field("final probability of a random action", 0, 1)
    epsilon_decay_steps: int = _field("linear decay from 1, after the warm-up", 1)
    evaluation_epsilon: float = _field("the same when evaluating", 0, 1)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_range(field, getattr(self, field.name))
        _check_together(self)

    @property
    def ticks_per_group(self) -> int:
        """Rounds of environment steps before learning (4 for Algorithm 1, 1 with 4+ envs)."""
        return max(1, self.update_period_steps // self.envs)

    @property
    def updates_per_group(self) -> int:
        return max(1, self.envs // self.update_period_steps)

    @property
    def group_steps(self) -> int:
        """Agent steps in one group: the least stretch that acts and learns."""
        return self.ticks_per_group * self.envs

    def make_head(self) -> Head:
        if self.head == "expected":
            return Expected(self.loss)
        if self.head == "categorical":
            return Categorical(self.atoms, self.v_min, self.v_max)
        if self.head == "quantile":
            return Quantile(self.quantiles, self.kappa)
        return ImplicitQuantile(
            self.fractions, self.target_fractions, self.policy_fractions, self.cosines, self.kappa
        )


FIELDS: dict[str, dataclasses.Field] = {f.name: f for f in dataclasses.fields(AgentConfig)}
HINTS: dict[str, Any] = get_type_hints(AgentConfig)


def override(config: AgentConfig, changes: dict[str, Any]) -> AgentConfig:
    """`config` with some fields changed, each checked for name, type and range."""
    values = {}
    for name, value in changes.items():
        if name not in FIELDS:
            raise unknown("field", name, FIELDS)
        values[name] = parse_value(name, HINTS[name], value)
    return dataclasses.replace(config, **values)


def parse_value(name: str, hint: Any, value: Any) -> Any:
    """`value` as the type of its field; text as a command line gives it is understood."""
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        hint = next(h for h in get_args(hint) if h is not type(None))
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
    if hint is int:
        try:
            return int(value) if isinstance(value, str) else _whole(value)
        except (TypeError, ValueError, OverflowError):
            pass
        try:
            return _whole(float(value))  # 1e6
        except (TypeError, ValueError, OverflowError):
            raise wrong from None
    if hint is float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise wrong from None
    if not isinstance(value, str):
        raise wrong
    return value


def parse_whole(name: str, value: Any, least: int) -> int:
    number = parse_value(name, int, value)
    if number < least:
        raise UserError(f"{name} must be at least {least}, not {number}")
    return number


def parse_probability(name: str, value: Any) -> float:
    number = parse_value(name, float, value)
    if not 0 <= number <= 1:
        raise UserError(f"{name} must be in [0, 1], not {number:g}")
    return number


def _whole(number: Any) -> int:
    if int(number) != number:
        raise ValueError
    return int(number)


def check_range(field: dataclasses.Field, value: Any) -> None:
    low, high = field.metadata["low"], field.metadata["high"]
    if not isinstance(value, int | float):
        return
    below = low is not None and value < low
    above = high is not None and value > high
    # Only the clip may be infinite: -inf is no clip.
    infinite = math.isinf(value) and field.name != "clip_min"
    if infinite and not (below or above):
        raise UserError(f"{field.name} must be finite, not {value:g} ({field.metadata['help']})")
    if below or above or math.isnan(value):
        if low is not None and high is not None:
            wanted = f"in [{low:g}, {high:g}]"
        elif low is not None:
            wanted = f"at least {low:g}"
        else:
            wanted = f"at most {high:g}" if high is not None else "a number"
        raise UserError(f"{field.name} must be {wanted}, not {value:g} ({field.metadata['help']})")


def _check_together(config: AgentConfig) -> None:
    """What no single field can break."""
    c = config
    if c.network not in TORSOS:
        raise unknown("network", c.network, TORSOS)
    if c.batch_size > c.capacity:
        raise UserError(
            f"batch_size {c.batch_size} is larger than capacity {c.capacity}; "
            "raise --capacity or lower --batch-size"
        )
    if c.v_min >= c.v_max:
        raise UserError(f"v_min {c.v_min:g} must be below v_max {c.v_max:g}")
    if c.envs % c.update_period_steps and c.update_period_steps % c.envs:
        raise UserError(
            f"envs {c.envs} and update_period_steps {c.update_period_steps} do not divide one "
            f"another; try --envs {max(1, c.envs // c.update_period_steps) * c.update_period_steps}"
        )
    needed = c.envs * (c.n_step + c.stack + 1)
    if c.capacity < needed:
        raise UserError(
            f"capacity {c.capacity} cannot hold one transition of each of {c.envs} environments; "
            f"it needs at least {needed}"
        )
    if c.warmup_steps < c.envs * (c.n_step + c.stack):
        raise UserError(
            f"warmup_steps {c.warmup_steps} is too short for {c.envs} environments and "
            f"{c.n_step}-step transitions; it needs at least {c.envs * (c.n_step + c.stack)}"
        )
    if c.warmup_steps > c.capacity:
        raise UserError(
            f"warmup_steps {c.warmup_steps} is larger than capacity {c.capacity}; "
            "raise --capacity or lower --warmup-steps"
        )
    if c.exploration == "stochastic" and c.tau == 0:
        raise UserError("exploration 'stochastic' draws from softmax(q/τ) and needs --tau above 0")
