"""What to train: agents and seeds on one environment, resolved to lanes of one program."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from munchausen._src.agents import AgentConfig, override, resolve
from munchausen._src.agents.config import LaneSpec
from munchausen._src.agents.fields import json_value
from munchausen._src.core.schedules import Schedule
from munchausen._src.errors import UserError
from munchausen._src.networks import torso_factory
from munchausen._src.suites import Listing, find

REGULARISER = ("alpha", "tau", "clip_min")


@dataclass(frozen=True)
class Settings:
    env: str
    lanes: tuple[LaneSpec, ...]  # their configurations differ in numbers of the regulariser alone
    steps: int
    iteration_steps: int
    checkpoint_seconds: float = 30.0  # at least so long between checkpoints
    changes: tuple[tuple[str, Any], ...] = ()  # the fields the user set, as they were set
    evaluation_steps: int = 0  # of an evaluation phase after each iteration; 0 is none

    @property
    def listing(self) -> Listing:
        return find(self.env)

    @property
    def config(self) -> AgentConfig:
        """What all lanes have in common, with the first one's regulariser."""
        return self.lanes[0].config

    def with_configs(self, change: Callable[[AgentConfig], AgentConfig]) -> "Settings":
        lanes = tuple(lane._replace(config=change(lane.config)) for lane in self.lanes)
        return dataclasses.replace(self, lanes=lanes)

    def begun(self) -> "Settings":
        """As a run of `steps` begins: schedules without a length of their own get the run's, and
        keep it however long the run then is. Those that have begun stay as they are."""
        return self.with_configs(lambda config: config.resolved(self.steps))

    def to_json(self) -> dict[str, Any]:
        return {
            "env": self.env,
            "steps": self.steps,
            "iteration_steps": self.iteration_steps,
            "checkpoint_seconds": self.checkpoint_seconds,
            "evaluation_steps": self.evaluation_steps,
            "changes": {name: json_value(getattr(self.config, name)) for name, _ in self.changes},
            "lanes": [
                {
                    "agent": lane.agent,
                    "seed": lane.seed,
                    **{name: json_value(getattr(lane.config, name)) for name in REGULARISER},
                }
                for lane in self.lanes
            ],
            "config": {k: v for k, v in self.config.to_json().items() if k not in REGULARISER},
        }

    @staticmethod
    def from_json(data: dict[str, Any], network: Any = None) -> "Settings":
        """`network`: in place of the one it names, where a name is not enough."""
        own = {} if network is None else {"network": torso_factory(network)}
        lanes = tuple(
            LaneSpec(
                lane["agent"],
                lane["seed"],
                AgentConfig.from_json(data["config"] | {k: lane[k] for k in REGULARISER} | own),
            )
            for lane in data["lanes"]
        )
        return Settings(
            data["env"],
            lanes,
            data["steps"],
            data["iteration_steps"],
            data["checkpoint_seconds"],
            tuple((name, getattr(lanes[0].config, name)) for name in data["changes"]),
            data.get("evaluation_steps", 0),
        )


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
    evaluation_steps: int | None = None,
) -> Settings:
    """Resolves presets, the suite and the user's changes. Several agents must differ in
    (alpha, tau, clip_min) alone, and in these by numbers, not by schedules: only then can they
    share a program. Before it trains, `begun` gives schedules the run's length."""
    listing, changes = find(env, protocol), dict(changes or {})
    if not isinstance(changes.get("network", ""), str):
        changes["network"] = torso_factory(changes["network"])  # one for all agents
    if not all(agents):
        raise UserError("an agent's name is missing; name one, or several with commas between")
    for seed in seeds:
        check_seed(seed)
    configs = [override(resolve(agent, listing.prefix), changes) for agent in agents]
    for agent, config in zip(agents[1:], configs[1:], strict=True):
        for field in dataclasses.fields(AgentConfig):
            mine, first = getattr(config, field.name), getattr(configs[0], field.name)
            scheduled = isinstance(mine, Schedule) or isinstance(first, Schedule)
            if mine != first and (scheduled or field.name not in REGULARISER):
                raise UserError(
                    f"{agents[0]} and {agent} cannot share a program: they differ in {field.name} "
                    f"({first} and {mine}); train them one by one"
                )
    lanes = tuple(
        LaneSpec(agent, seed, config)
        for agent, config in zip(agents, configs, strict=True)
        for seed in seeds
    )
    if len(set(lanes)) != len(lanes):
        raise UserError("an agent or a seed is named twice; name each once")
    group = configs[0].group_steps
    iteration = iteration_steps or listing.suite.iteration_steps
    return Settings(
        listing.name,
        lanes,
        round_up(steps or listing.steps, group),
        round_up(iteration, group),
        listing.suite.checkpoint_seconds if checkpoint_seconds is None else checkpoint_seconds,
        tuple((name, getattr(configs[0], name)) for name in changes),
        evaluation_steps or 0,
    )


def as_begun(asked: Any, saved: Any) -> Any:
    """What a run's field is to be when it goes on. A schedule over the whole run that is asked
    for again is the one the run began with, even if the run is longer by now."""
    length = getattr(saved, "steps", None)
    same = isinstance(asked, Schedule) and length and asked.resolved(length) == saved
    return saved if same else asked


def check_seed(seed: Any) -> None:
    """Beyond 2³² seeds would repeat: JAX and emulators take that many bits."""
    if not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise UserError(f"a seed is a whole number from 0 to 2³¹ - 1, not {seed!r}")


def round_up(steps: int, group: int) -> int:
    """Rounded up to whole groups; a group is the shortest stretch of steps that acts and learns."""
    return math.ceil(steps / group) * group


def chunk_steps(settings: Settings) -> int:
    """How many steps to take between looks at the result: a part of both the iteration and
    the warm-up where they have a common one, so that one program serves for all."""
    group = settings.config.group_steps
    host = settings.listing.suite.loop == "host"  # nothing is compiled for a length there
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
