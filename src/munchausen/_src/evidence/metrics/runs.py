"""One table for all curves, ours or published: a row is a run, its columns are arrays over time.

A run's curve is the unit of every statistic here, so runs are kept as NumPy arrays rather than as
rows of a data frame: nothing is grouped or joined that a dictionary does not group.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from munchausen._src.errors import unknown

SCORE, ACTION_GAP = "score", "action_gap"  # columns

# The order of tables and legends: plain agents before their Munchausen forms, as in the paper.
_ORDER = (
    *("dqn", "adam-dqn", "soft-dqn", "soft-dqn-low", "al", "m-dqn", "m-dqn-stochastic"),
    *("c51", "m-c51", "rainbow", "m-rainbow", "qr-dqn", "m-qr-dqn"),
    *("iqn-1step", "m-iqn-1step", "iqn", "m-iqn"),
)


@dataclass(frozen=True)
class Folder:
    """What a run's folder says besides its curves. Lanes of one program share it."""

    status: str  # finished, diverged, running or stopped
    error: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    machines: list[dict[str, Any]] = field(default_factory=list)
    videos: tuple[Path, ...] = ()


@dataclass(frozen=True, eq=False)
class Run:
    """One agent on one game with one seed."""

    game: str  # canonical: atari/Breakout, minatar/breakout, gym/CartPole-v1
    agent: str
    seed: str
    steps: Int[np.ndarray, "T"]  # agent steps
    columns: dict[str, Float[np.ndarray, "T"]]  # NaN where there is no value
    source: Path  # the folder or file it was read from
    folder: Folder | None = None  # of our own runs
    # Action gaps along whole episodes of the trained agent, where `evaluate` kept them.
    trajectories: tuple[Float[np.ndarray, "_"], ...] = ()

    @property
    def length(self) -> int:
        return int(self.steps[-1]) if len(self.steps) else 0

    @property
    def config(self) -> dict[str, Any]:
        """What its folder was made with; empty if that is not known."""
        return self.folder.config if self.folder else {}

    @property
    def settings(self) -> dict[str, Any]:
        """What it learned with: the program's configuration, and its own lane's regulariser."""
        values = dict(self.config.get("config") or {})
        for lane in self.config.get("lanes") or []:
            ours = self.agent.split(" (")[0] == lane.get("agent")
            if ours and str(lane.get("seed")) == self.seed:
                values |= {k: v for k, v in lane.items() if k not in ("agent", "seed")}
        return values


@dataclass(frozen=True)
class Table:
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()  # what a reader of any result must be told

    @property
    def agents(self) -> list[str]:
        return sorted({run.agent for run in self.runs}, key=_agent_order)

    @property
    def games(self) -> list[str]:
        return sorted({run.game for run in self.runs})

    def agent(self, name: str) -> str:
        """The agent called so, exactly or but for case."""
        if found := find_agent(self.agents, name):
            return found
        raise unknown("agent", name, self.agents)

    def game(self, name: str) -> str:
        """The game called so, in any case and with or without its suite."""
        names = short_names(self.games)
        for game in self.games:
            if name.lower() in (game.lower(), names[game].lower()):
                return game
        raise unknown("game", name, names.values())


def find_agent(agents: Iterable[str], name: str) -> str | None:
    agents = list(agents)
    same = [a for a in agents if a == name] or [a for a in agents if a.lower() == name.lower()]
    return same[0] if same else None


def short_names(games: Iterable[str]) -> dict[str, str]:
    """`Breakout` for `atari/Breakout`, unless two suites share the name."""
    games = list(games)
    bare = [game.split("/", 1)[-1] for game in games]
    return {g: b if bare.count(b) == 1 else g for g, b in zip(games, bare, strict=True)}


def _agent_order(agent: str) -> tuple[int, str]:
    name = agent.lower().split(" (")[0]
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), agent)
