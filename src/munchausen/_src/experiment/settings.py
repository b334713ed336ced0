"""What to train: agents and seeds on one environment, resolved to lanes of one program."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from munchausen._src.agents import AgentConfig, override, resolve
from munchausen._src.core.backup import Regulariser
from munchausen._src.errors import UserError
from munchausen._src.experiment.records import UNSAID
from munchausen._src.loops.lane import LaneSpec
from munchausen._src.suites import Listing, find

REGULARISER = ("alpha", "tau", "clip_min")


@dataclass(frozen=True)
class Settings:
    env: str
    lanes: tuple[LaneSpec, ...]
    config: AgentConfig  # of the first lane; the others differ only in the regulariser
    steps: int
    iteration_steps: int
    checkpoint_seconds: float = 30.0  # at least so long between checkpoints
    changes: tuple[tuple[str, Any], ...] = ()  # the fields the user set
    evaluation_steps: int = 0  # of an evaluation phase after each iteration; 0 is none

    @property
    def listing(self) -> Listing:
        return find(self.env)

    def to_json(self) -> dict[str, Any]:
        """Without infinities, which JSON has not."""
        return {
            "env": self.env,
            "steps": self.steps,
            "iteration_steps": self.iteration_steps,
            "checkpoint_seconds": self.checkpoint_seconds,
            "evaluation_steps": self.evaluation_steps,
            "changes": {k: _number(v) for k, v in self.changes},
            "lanes": [
                {
                    "agent": lane.agent,
                    "seed": lane.seed,
                    **{k: _number(v) for k, v in lane.regulariser._asdict().items()},
                }
                for lane in self.lanes
            ],
            "config": {k: _number(v) for k, v in dataclasses.asdict(self.config).items()},
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> "Settings":
        values: dict[str, Any] = {
            k: float(v) if k in _FLOATS else v for k, v in (UNSAID | data["config"]).items()
        }
        lanes = tuple(
            LaneSpec(
                lane["agent"],
                lane["seed"],
                Regulariser(*(float(lane[k]) for k in REGULARISER)),
            )
            for lane in data["lanes"]
        )
        return Settings(
            data["env"],
            lanes,
            AgentConfig(**values),
            data["steps"],
            data["iteration_steps"],
            data["checkpoint_seconds"],
            tuple(data["changes"].items()),
            data.get("evaluation_steps", 0),
        )


_FLOATS = {f.name for f in dataclasses.fields(AgentConfig) if f.type in (float, "float")}


def make_settings(
    agents: list[str],
    env: str,
    *,
    protocol: str | None = None,
    steps: int | None = None,
    seeds: list[int],
    changes: dict[str, Any] | None = None,
    iteration_steps: int | None = None,
    checkpoint_seconds: float | None = None,
    evaluation_steps: int = 0,
) -> Settings:
    """Resolves presets, the suite and the user's changes. Several agents must differ in
    (alpha, tau, clip_min) alone: only then can they share a program."""
    listing = find(env, protocol)
    if not all(agents):
        raise UserError("an agent's name is missing; name one, or several with commas between")
    for seed in seeds:
        check_seed(seed)
    configs = [override(resolve(agent, listing.prefix), changes or {}) for agent in agents]
    for agent, config in zip(agents[1:], configs[1:], strict=True):
        for field in dataclasses.fields(AgentConfig):
            mine, first = getattr(config, field.name), getattr(configs[0], field.name)
            if mine != first and field.name not in REGULARISER:
                raise UserError(
                    f"{agents[0]} and {agent} cannot share a program: they differ in {field.name} "
                    f"({first} and {mine}); train them one by one"
                )
    lanes = tuple(
        LaneSpec(agent, seed, Regulariser(config.alpha, config.tau, config.clip_min))
        for agent, config in zip(agents, configs, strict=True)
        for seed in seeds
    )
    if len(set(lanes)) != len(lanes):
        raise UserError("an agent or a seed is named twice; name each once")
    group = configs[0].group_steps
    iteration = iteration_steps or listing.iteration_steps
    return Settings(
        listing.name,
        lanes,
        configs[0],
        round_up(steps or listing.steps, group),
        round_up(iteration, group),
        listing.checkpoint_seconds if checkpoint_seconds is None else checkpoint_seconds,
        tuple((changes or {}).items()),
        evaluation_steps,
    )


def check_seed(seed: Any) -> None:
    """Beyond 2³² seeds would repeat: JAX and emulators take that many bits."""
    if not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise UserError(f"a seed is a whole number from 0 to 2³¹ - 1, not {seed!r}")


def round_up(steps: int, group: int) -> int:
    """To whole groups, the least stretch that acts and learns."""
    return math.ceil(steps / group) * group


def chunk_steps(settings: Settings) -> int:
    """How many steps to take between looks at the result: a part of both the iteration and
    the warm-up where they have a common one, so that one program serves for all."""
    group = settings.config.group_steps
    host = settings.listing.loop == "host"  # nothing is compiled for a length there
    common = math.gcd(settings.iteration_steps, settings.config.warmup_steps)
    if common % group == 0 and common >= 250 and not host:
        return common
    groups = settings.iteration_steps // group
    most = (1_000 if host else 2_000) // group
    return max((d for d in range(1, most + 1) if groups % d == 0), default=1) * group


def first_difference(saved: Settings, asked: Settings) -> str | None:
    """Names what differs between a run's settings and those asked for (`steps` may)."""
    for name, mine, theirs in differences(comparable(saved), comparable(asked)):
        return f"{name}: the run has {mine}, you asked for {theirs}"
    return None


def differences(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(name, mine, b.get(name)) for name, mine in a.items() if mine != b.get(name)]


def comparable(settings: Settings) -> dict[str, Any]:
    """What must agree, the most telling first."""
    data = settings.to_json()
    lanes = data["lanes"]
    return {
        "env": data["env"],
        "agent": ", ".join(dict.fromkeys(lane["agent"] for lane in lanes)),
        "seeds": sorted({lane["seed"] for lane in lanes}),
        **{name: ", ".join(str(lane[name]) for lane in lanes) for name in REGULARISER},
        **{k: v for k, v in data["config"].items() if k not in REGULARISER},
        "iteration_steps": data["iteration_steps"],
        "evaluation_steps": data["evaluation_steps"],
    }


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and math.isinf(value) else value
