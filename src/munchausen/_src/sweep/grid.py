"""What a sweep trains: agents × environments × values of fields × seeds.

A grid comes from flags, from a TOML file or from a sweep's folder. The latter two may be
somebody else's: they are checked field by field, and no text in them becomes a path.
"""

import dataclasses
import itertools
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from munchausen._src.agents.config import parse_field
from munchausen._src.agents.fields import parse_seconds, parse_text, parse_value, parse_whole
from munchausen._src.core.schedules import Schedule
from munchausen._src.errors import UserError, unknown
from munchausen._src.experiment.settings import Settings, make_settings
from munchausen._src.suites import ATARI

MOST_RUNS = 100_000  # the paper's grid has 1,800; more than this is a slip

# Munchausen RL, Sec. 4 and appendix: the agents of its tables and figures.
# fmt: off
PAPER_AGENTS = (
    "dqn", "adam-dqn", "soft-dqn", "soft-dqn-low", "al", "m-dqn", "c51", "rainbow", "iqn", "m-iqn",
)
# fmt: on
PAPER_SEEDS = 3


@dataclass(frozen=True)
class Grid:
    agents: tuple[str, ...]
    envs: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    protocol: str | None = None
    steps: int | None = None  # None: the environment's
    iteration_steps: int | None = None
    checkpoint_seconds: float | None = None
    overrides: tuple[tuple[str, tuple[Any, ...]], ...] = ()  # a field, and the values it takes

    @property
    def runs(self) -> int:
        count = len(self.agents) * len(self.envs) * len(self.seeds)
        for _, values in self.overrides:
            count *= len(values)
        return count

    def to_json(self) -> dict[str, Any]:
        data = dataclasses.asdict(self)
        # JSON has neither infinities nor schedules.
        data["overrides"] = {
            k: [str(v) if isinstance(v, float | Schedule) else v for v in vs]
            for k, vs in self.overrides
        }
        return data


def paper_grid() -> Grid:
    """60 games × 10 agents × 3 seeds, 200M frames each."""
    games = tuple(f"{ATARI.name}/{game}" for game in ATARI.games)
    return Grid(PAPER_AGENTS, games, tuple(range(PAPER_SEEDS)))


def grid_from(data: Any, source: str) -> Grid:
    """Out of TOML or JSON. `source` is what to name in a mistake."""
    if not isinstance(data, dict):
        raise UserError(f"{source} is no sweep: it must be a table of keys")
    for key in data:
        if key not in _KEYS:
            raise unknown(f"key of {source}", str(key), _KEYS)
    overrides = data.get("overrides", {})
    if not isinstance(overrides, dict):
        raise UserError(f"{source}: overrides must be a table of fields")
    grid = Grid(
        agents=_names(data, "agents", source),
        envs=_names(data, "envs", source),
        seeds=_seeds(data.get("seeds", 1)),
        protocol=_optional(data, "protocol", parse_text),
        steps=_optional(data, "steps", parse_whole, 1),
        iteration_steps=_optional(data, "iteration_steps", parse_whole, 1),
        checkpoint_seconds=_optional(data, "checkpoint_seconds", parse_seconds),
        overrides=tuple((str(k), _values(str(k), v)) for k, v in overrides.items()),
    )
    if grid.runs > MOST_RUNS:
        raise UserError(f"{source} asks for {grid.runs:,} runs; at most {MOST_RUNS:,} at once")
    return grid


_KEYS = [field.name for field in dataclasses.fields(Grid)]


def read_toml(path: Path) -> tuple[Grid, Path | None]:
    """A sweep's file and the folder it names as `out`, which must be under this one: a file
    from elsewhere does not choose where to write."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    out = _optional(data, "out", parse_text)
    data.pop("out", None)
    if out is not None and not _is_inside(out):
        raise UserError(
            f"{path}: out = {out!r} is not a folder under this one; give --out to write elsewhere"
        )
    return grid_from(data, str(path)), Path(out) if out else None


def _is_inside(out: str) -> bool:
    here = Path.cwd().resolve()
    try:
        place = (here / out).resolve()
    except (OSError, ValueError, RuntimeError):
        return False
    return place != here and place.is_relative_to(here)


def configurations(grid: Grid) -> list[Settings]:
    """Each agent on each environment with each combination of values; seeds are its lanes."""
    fields = [name for name, _ in grid.overrides]
    return [
        make_settings(
            [agent],
            env,
            protocol=grid.protocol,
            steps=grid.steps,
            seeds=list(grid.seeds),
            changes=dict(zip(fields, values, strict=True)),
            iteration_steps=grid.iteration_steps,
            checkpoint_seconds=grid.checkpoint_seconds,
        ).begun()
        for env in grid.envs
        for agent in grid.agents
        for values in itertools.product(*(values for _, values in grid.overrides))
    ]


def difference(saved: Grid, asked: Grid) -> str | None:
    """Names what differs between a sweep and the one asked for; it may be asked to go further."""
    for field in dataclasses.fields(Grid):
        mine, theirs = getattr(saved, field.name), getattr(asked, field.name)
        if field.name not in ("steps", "checkpoint_seconds") and mine != theirs:
            return f"{field.name}: the sweep has {_spell(mine)}, you asked for {_spell(theirs)}"
    return None


def _spell(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _names(data: dict[str, Any], key: str, source: str) -> tuple[str, ...]:
    names = data.get(key)
    if isinstance(names, str):
        names = names.split(",")
    if not isinstance(names, list | tuple) or not names:
        raise UserError(f"{source} names no {key}; give a list")
    names = [name.strip() if isinstance(name, str) else name for name in names]
    if not all(isinstance(name, str) and name for name in names):
        raise UserError(f"{source}: {key} must be names, not {names!r}")
    if len(set(names)) != len(names):
        raise UserError(f"{source}: {key} names one twice; name each once")
    return tuple(names)


def _seeds(value: Any) -> tuple[int, ...]:
    """A number of seeds from 0 on, or a list of them."""
    if isinstance(value, list | tuple):
        seeds = tuple(parse_value("seeds", int, seed) for seed in value)
        if not seeds or len(set(seeds)) != len(seeds) or not all(0 <= s < 2**31 for s in seeds):
            raise UserError(f"seeds must be different numbers from 0 to 2³¹ − 1, not {value!r}")
        return tuple(sorted(seeds))
    count = parse_value("seeds", int, value)
    if not 1 <= count <= MOST_RUNS:
        raise UserError(f"seeds must be from 1 to {MOST_RUNS:,}, not {count}")
    return tuple(range(count))


def _values(field: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, str):
        values = values.split(",")
    if not isinstance(values, list | tuple):
        values = [values]
    parsed = tuple(parse_field(field, value) for value in values)
    if not parsed or len(set(parsed)) != len(parsed):
        raise UserError(f"{field} needs different values, not {values!r}")
    return parsed


def _optional(data: dict[str, Any], key: str, parse: Callable[..., Any], *limits: Any) -> Any:
    return None if data.get(key) is None else parse(key, data[key], *limits)
