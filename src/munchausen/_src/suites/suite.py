"""A suite of environments is one record: all that the rest of the project asks about it."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from typing import Any, Literal

from munchausen._src.errors import UserError, unknown

RANDOM, HUMAN, SOLVED = "random", "human", "solved"  # of `references`, beside names of agents
LOOPS = ("device", "host")

# Obando-Ceron & Castro 2021 (Revisiting Rainbow): what their small environments have in common.
REVISITING_RAINBOW = {
    "initialiser": "glorot_uniform",
    "loss": "mse",
    "stack": 1,
    "clip_rewards": False,
    "v_min": -100.0,
    "v_max": 100.0,
    "fractions": 32,
    "target_fractions": 32,
    "policy_fractions": 32,
}


@dataclass(frozen=True)
class Preset:
    """What a suite changes in the fields of an agent: of every agent, or of those alone whose
    fields have the values in `where` (of a tuple, any)."""

    values: Mapping[str, Any]
    where: Mapping[str, Any] = field(default_factory=dict)

    def fits(self, fields: Mapping[str, Any]) -> bool:
        if strange := [name for name in self.where if name not in fields]:
            raise unknown("field", strange[0], fields)
        return all(
            fields[name] in (wanted if isinstance(wanted, tuple) else (wanted,))
            for name, wanted in self.where.items()
        )


@dataclass(frozen=True)
class Protocol:
    """A way of playing a suite's games whose scores must not be mixed with those of another."""

    prefix: str  # of the games' names, in the place of the suite's
    presets: tuple[Preset, ...] = ()  # after the suite's


@dataclass(frozen=True, eq=False)
class Suite:
    """Environments that are made, trained and compared in one way. Only the first three must be
    given; `presets` ought to be, as without them agents have the paper's numbers for Atari.

    Games are named `suite/game`. Functions of a game get `protocol=` too where there are any.
    """

    name: str
    # (game) -> `JaxEnvironment`, or where `loop` is "host": (game, count) -> `HostEnvironments`.
    make: Callable[..., Any]
    games: tuple[str, ...]
    loop: Literal["device", "host"] = "device"
    presets: tuple[Preset, ...] = ()  # in their order: a later one wins
    protocols: Mapping[str, Protocol] = field(default_factory=dict)  # the usual one first

    # A run.
    steps: int = 500_000  # its length unless told otherwise
    steps_of: Mapping[str, int] = field(default_factory=dict)  # of single games
    iteration_steps: int = 10_000  # between rows of the records
    checkpoint_seconds: float = 30.0  # least time between checkpoints
    frames_per_step: int = 1  # of the game, where an action is repeated
    asynchronous: bool = False  # whether environments step on threads of their own

    # Names.
    title: str = ""  # as in "Atari games"
    other_names: tuple[str, ...] = ()  # what else may stand before the slash
    called: Callable[[str], str | None] | None = None  # the game of any spelling; None is exact
    check_game: Callable[[str], None] | None = None  # refuses games; None knows `games` alone
    about: str = ""  # a line below the list of environments
    action_names: Callable[..., Sequence[str]] | None = None  # of a game; None numbers them

    # Scores by game: of `RANDOM` play, a `HUMAN`, agents by name; or what counts as `SOLVED`.
    references: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    published: str = "published"  # what agents' scores in `references` are

    # `Watched` of a game and a seed; None shows what `render(state)` of a `JaxEnvironment` gives,
    # or its frames.
    watch: Callable[..., Any] | None = None
    # What must be installed: the package to look for, and the extra of this project that has it.
    package: str | None = None
    extra: str | None = None

    # For plans, where it is known without making an environment; None asks the specification.
    frame_bytes: int | None = None
    frame_bytes_on_disk: float | None = None  # of one in a replay, over all checkpoints
    core_steps_per_second: float = 60.0  # of training on one core; by default that of Atari
    wants_gpu: bool = False  # on a CPU, the time of a run is told before it begins

    def __post_init__(self) -> None:
        if self.loop not in LOOPS:
            raise unknown("loop", str(self.loop), LOOPS)
        if not callable(self.make):
            raise UserError(f"suite {self.name!r}: make must be a function of a game's name")
        if isinstance(self.games, str) or not (self.games or self.check_game):
            raise UserError(f"suite {self.name!r} names no games; give a tuple of names")
        if len(set(self.games)) != len(self.games):
            raise UserError(f"suite {self.name!r} names a game twice; name each once")

    @property
    def prefixes(self) -> Mapping[str, str | None]:
        """What its games' canonical names begin with, and the protocol of each."""
        names = {protocol.prefix: name for name, protocol in self.protocols.items()}
        return names or {self.name: None}

    def game_called(self, name: str) -> str | None:
        if name in self.games:
            return name
        return self.called(name) if self.called else None


@dataclass(frozen=True)
class Listing:
    """A game of a suite under a protocol: what a name of an environment leads to."""

    suite: Suite
    game: str
    protocol: str | None = None

    @property
    def name(self) -> str:
        return f"{self.prefix}/{self.game}"

    @property
    def prefix(self) -> str:
        return self.suite.protocols[self.protocol].prefix if self.protocol else self.suite.name

    @property
    def presets(self) -> tuple[Preset, ...]:
        more = self.suite.protocols[self.protocol].presets if self.protocol else ()
        return self.suite.presets + more

    @property
    def references(self) -> dict[str, float]:
        """Agents' published scores are of the usual protocol; random play's and a human's serve
        all, as the literature has it."""
        scores = self.suite.references.get(self.game, {})
        usual = self.protocol == next(iter(self.suite.protocols), None)
        return {k: v for k, v in scores.items() if usual or k in (RANDOM, HUMAN)}

    @property
    def steps(self) -> int:
        return self.suite.steps_of.get(self.game, self.suite.steps)


def later(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported when it is called: what a suite's environments need
    is slow to import, and may not be installed."""
    return lambda *arguments, **options: getattr(import_module(module), name)(*arguments, **options)


def read_scores(module: str) -> dict[str, dict[str, float]]:
    """`references` out of the scores.csv beside a suite's record: a row is a game, a column whose
    score; `best` is how the paper marks its table."""
    text = files(module).joinpath("scores.csv").read_text()
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        row.pop("game"): {name: float(x) for name, x in row.items() if x and name != "best"}
        for row in rows
    }
