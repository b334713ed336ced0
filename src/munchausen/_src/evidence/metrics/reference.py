"""Scores to hold a result against: random play, and what others have published. Each is in the
record of its suite, with its source; where there is none, there is none."""

from typing import NamedTuple

from munchausen._src.suites import ATARI, HUMAN, RANDOM, SOLVED, look_up


class Published(NamedTuple):
    score: float
    what: str


def published(env: str, agent: str) -> Published | None:
    listing, scores = look_up(env), _scores(env)
    if listing is not None and agent in scores:
        return Published(scores[agent], listing.suite.published)
    return Published(scores[SOLVED], "counts as solved") if SOLVED in scores else None


def random_score(game: str) -> float | None:
    return _scores(game).get(RANDOM)


def human_score(game: str) -> float | None:
    return _scores(game).get(HUMAN)


def _scores(game: str) -> dict[str, float]:
    listing = look_up(game)
    return listing.references if listing else {}


def frames_per_step(game: str) -> int:
    """What a step counts on the time axis of a game."""
    listing = look_up(game)
    return listing.suite.frames_per_step if listing else 1


def protocol_of(game: str) -> str | None:
    listing = look_up(game)
    return listing.protocol if listing else None


def canonical_game(name: str) -> str:
    """`ALE/Breakout-v5`, `BreakoutNoFrameskip-v4`, `Breakout` and `breakout` are
    `atari/Breakout`. A name of another suite (`minatar/breakout`) stays as it is."""
    prefix, _, rest = name.rpartition("/")
    if prefix.lower() not in ("", ATARI.name, *map(str.lower, ATARI.other_names)):
        return name
    game = ATARI.game_called(rest)
    return f"{ATARI.name}/{game}" if game else name
