"""Scores to hold a result against: random play, and what others have published.

Random scores are means of 1,000 whole episodes, by `munchausen evaluate RUN --epsilon 1
--episodes 1000` (seed 0, 2026-11-15). Agents' scores carry their source; where there is none,
there is none. The 60 Atari games have random, human and agents' scores from the paper's last table,
MinAtar's those of this project's study.
"""

import csv
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

HUMAN = "human"


class Published(NamedTuple):
    score: float
    what: str


RANDOM: dict[str, float] = {
    "minatar/asterix": 0.50,
    "minatar/breakout": 0.39,
    "minatar/freeway": 0.39,
    "minatar/seaquest": 0.11,
    "minatar/space_invaders": 3.95,
    "gym/CartPole-v1": 22.3,
    "gym/Acrobot-v1": -498.9,
    "gym/MountainCar-v0": -200.0,
    "gym/LunarLander-v3": -182.1,
}

# Gymnasium's own `reward_threshold`: the mean return at which a task counts as solved.
SOLVED = {
    "gym/CartPole-v1": 475.0,
    "gym/Acrobot-v1": -100.0,
    "gym/MountainCar-v0": -110.0,
    "gym/LunarLander-v3": 200.0,
}


def published(env: str, agent: str) -> Published | None:
    if agent in minatar_scores().get(env, {}):
        return Published(minatar_scores()[env][agent], "mean of 10 seeds, 500k")
    if env in SOLVED:
        return Published(SOLVED[env], "counts as solved")
    if env in atari_scores() and agent in atari_scores()[env].scores:
        return Published(atari_scores()[env].scores[agent], "paper, best of 200M frames")
    return None


@cache
def minatar_scores() -> dict[str, dict[str, float]]:
    """This project's own, by game and agent."""
    return {
        f"minatar/{row.pop('game')}": {agent: float(x) for agent, x in row.items() if x}
        for row in _read("minatar_scores.csv")
    }


class AtariScores(NamedTuple):
    """A row of the paper's table of maximum scores."""

    scores: dict[str, float]  # by column: random, human, iqn, dqn, rainbow, m-dqn, m-iqn
    best: str  # the column in bold: where rounding makes a tie, the mark breaks it


@cache
def atari_scores() -> dict[str, AtariScores]:
    """The paper's table of maximum scores, by canonical name (`atari/Breakout`)."""
    return {
        f"atari/{row.pop('game')}": AtariScores(
            best=row.pop("best"), scores={name: float(x) for name, x in row.items()}
        )
        for row in _read("atari_scores.csv")
    }


def _read(name: str) -> list[dict[str, str]]:
    text = files("munchausen._src.evidence.metrics").joinpath(f"data/{name}").read_text()
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def _atari_by_bare_name() -> dict[str, str]:
    return {_bare(name.removeprefix("atari/")): name for name in atari_scores()}


def canonical_game(name: str) -> str:
    """`ALE/Breakout-v5`, `BreakoutNoFrameskip-v4`, `Breakout` and `breakout` are
    `atari/Breakout`. A name of another suite (`minatar/breakout`) stays as it is."""
    if "/" in name and not name.lower().startswith(("ale/", "atari/")):
        return name
    game = re.sub(r"(NoFrameskip|Deterministic)?-v\d+$", "", name.split("/")[-1])
    return _atari_by_bare_name().get(_bare(game), name)


def random_score(game: str) -> float | None:
    if game in atari_scores():
        return atari_scores()[game].scores["random"]
    return RANDOM.get(game)


def human_score(game: str) -> float | None:
    return atari_scores()[game].scores[HUMAN] if game in atari_scores() else None


def _bare(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
