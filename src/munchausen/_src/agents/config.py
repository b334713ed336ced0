"""An agent is this data and nothing else. Flat, so that each field is a flag, a keyword and
a key in a run's `config.json` under the same name."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from munchausen._src.agents.fields import (
    check_range,
    declare,
    json_value,
    parse_value,
    step_in_words,
)
from munchausen._src.core.backup import Regulariser
from munchausen._src.core.heads import Categorical, Expected, Head, ImplicitQuantile, Quantile
from munchausen._src.core.schedules import Schedule
from munchausen._src.errors import UserError, unknown
from munchausen._src.networks import TORSOS, TorsoFactory, torso_factory
from munchausen._src.networks.layers import InitialiserName

HeadName = Literal["expected", "categorical", "quantile", "implicit"]
Precision = Literal["tf32", "float32"]

# Fields by where their numbers come from.
_paper = partial(declare, source="Munchausen RL, table of appendix B")
_dopamine = partial(declare, source="Dopamine's configurations, which the paper starts from")


@dataclass(frozen=True)
class AgentConfig:
    """By default the paper's regime on Atari, with Adam-DQN. Periods, lengths and the steps of
    schedules are in agent steps (on Atari 1 agent step = 4 frames).

    The default of a new field must be what runs did before it had a name: so are older runs read.
    """

    # The regulariser: what makes it Munchausen.
    alpha: float | Schedule = declare(0.0, "weight of the scaled log-policy in the reward", 0, 1)
    tau: float | Schedule = declare(0.0, "temperature of the entropy; 0 is the hard maximum", 0)
    clip_min: float = _paper(-1.0, "l0, lower clip of τ ln π; -inf is no clip", None, 0)

    # The return estimate and its loss.
    head: HeadName = declare("expected", "how the return is estimated")
    loss: Literal["huber", "mse"] = _dopamine("huber", "loss of the expected head")
    atoms: int = _dopamine(51, "atoms of the categorical head", 2)
    v_min: float = _dopamine(-10.0, "lowest atom")
    v_max: float = _dopamine(10.0, "highest atom")
    quantiles: int = _dopamine(200, "quantiles of the quantile head", 1)
    fractions: int = _dopamine(64, "N, fractions of the implicit head's online network", 1)
    target_fractions: int = _dopamine(64, "N', fractions of its target network", 1)
    policy_fractions: int = _dopamine(32, "K, fractions behind each of its policies", 1)
    cosines: int = _dopamine(64, "size of its cosine embedding", 1)
    kappa: float = _dopamine(1.0, "Huber threshold of the quantile losses", 1e-6)
    discount: float = _paper(0.99, "γ", 0, 1)
    n_step: int = _dopamine(1, "steps folded into one transition", 1)

    # The network and its optimiser.
    network: str | TorsoFactory = _paper(
        "nature", f"torso: {', '.join(TORSOS)}, or MODULE:NAME of your own"
    )
    initialiser: InitialiserName = _dopamine("glorot_uniform", "initialiser of all weights")
    optimizer: Literal["adam", "rmsprop"] = _paper("adam", "rmsprop is centred, decay 0.95")
    learning_rate: float | Schedule = _paper(5e-5, "step size", 1e-12)
    optimizer_eps: float = _dopamine(3.125e-4, "ε of the optimiser", 0)
    batch_size: int = _paper(32, "transitions in a gradient step", 1)
    precision: Precision = declare(
        "tf32",
        "factors of matrix products on a GPU, of 11 bits or 24; sums have 24. A CPU has float32",
        source="JAX's choice on a GPU that can",
    )

    # The replay.
    replay: Literal["uniform", "prioritised"] = declare("uniform", "how transitions are drawn")
    capacity: int = _paper(1_000_000, "transitions kept", 2)
    warmup_steps: int = _dopamine(20_000, "steps before the first gradient step", 1)
    stack: int = _dopamine(4, "frames in an observation", 1)
    clip_rewards: bool = _dopamine(True, "learn from rewards clipped to [-1, 1]")

    # The rhythm of acting and learning.
    envs: int = declare(1, "environments stepped at once; 1 is Algorithm 1 step by step", 1)
    update_period_steps: int = _paper(4, "steps for each gradient step", 1)
    target_period_steps: int = _paper(8_000, "steps between copies to the target network", 1)

    # Exploration.
    exploration: Literal["greedy", "stochastic"] = declare(
        "greedy", "what is done when not at random: the greedy action, or a draw from softmax(q/τ)"
    )
    epsilon: float | Schedule = _paper(
        0.01,
        "final probability of a random action; a schedule is the probability itself, at each step",
        0,
        1,
    )
    epsilon_decay_steps: int = _paper(
        250_000, "linear decay from 1, after the warm-up; not used where epsilon is a schedule", 1
    )
    evaluation_epsilon: float = _dopamine(
        0.001, "probability of a random action when evaluating", 0, 1
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_range(field, getattr(self, field.name))
        _check_together(self)

    @property
    def regulariser(self) -> Regulariser:
        """α and τ may be schedules here; `regulariser_at` gives the numbers of a step."""
        return Regulariser(self.alpha, self.tau, self.clip_min)  # type: ignore[arg-type]

    @property
    def munchausen(self) -> bool:
        """False where α is 0 for certain."""
        return self.alpha != 0

    def resolved(self, steps: int) -> "AgentConfig":
        """For a run of so many steps: schedules without a length of their own get this one."""
        own = {name: getattr(self, name) for name in SCHEDULABLE}
        changes = {k: v.resolved(steps) for k, v in own.items() if isinstance(v, Schedule)}
        return dataclasses.replace(self, **changes) if changes else self

    def to_json(self) -> dict[str, Any]:
        """Schedules and infinities as text: JSON has neither."""
        return {name: json_value(getattr(self, name)) for name in FIELDS}

    @staticmethod
    def from_json(data: dict[str, Any]) -> "AgentConfig":
        """What an older version did not write takes its default."""
        if newer := [name for name in data if name not in FIELDS]:
            raise UserError(
                f"this version has no field {', '.join(newer)}: a newer one made it, use that"
            )
        return AgentConfig(**{k: parse_field(k, v) for k, v in data.items()})

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


class LaneSpec(NamedTuple):
    """One run of those that share a program: they may differ in this and in no other field than
    α, τ and l0."""

    agent: str
    seed: int
    config: AgentConfig


FIELDS: dict[str, dataclasses.Field] = {f.name: f for f in dataclasses.fields(AgentConfig)}
HINTS: dict[str, Any] = get_type_hints(AgentConfig)
DEFAULTS: dict[str, Any] = {name: field.default for name, field in FIELDS.items()}
SCHEDULABLE = tuple(name for name, hint in HINTS.items() if Schedule in get_args(hint))


def override(config: AgentConfig, changes: dict[str, Any]) -> AgentConfig:
    """`config` with some fields changed, each checked for name, type and range."""
    return dataclasses.replace(config, **{k: parse_field(k, v) for k, v in changes.items()})


def parse_field(name: str, value: Any) -> Any:
    """What is given for a field, as its type."""
    if name not in FIELDS:
        raise unknown("field", name, FIELDS)
    return parse_value(name, HINTS[name], value)


def _check_together(config: AgentConfig) -> None:
    """Checks that involve several fields at once."""
    c = config
    torso_factory(c.network)  # refuses a name that makes none
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
    if c.exploration == "stochastic":
        wanted = "exploration 'stochastic' draws from softmax(q/τ) and needs --tau above 0"
        if c.tau == 0:
            raise UserError(wanted)
        if isinstance(c.tau, Schedule):
            for step, value in c.tau.extremes:
                if value == 0:
                    raise UserError(f"{wanted}; {c.tau} is 0 {step_in_words(step)}")
