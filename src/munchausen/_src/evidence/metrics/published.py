"""Published curves: Dopamine's JSON, and a plain CSV."""

import csv
import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from munchausen._src.errors import UserError
from munchausen._src.evidence.metrics.reference import canonical_game, frames_per_step
from munchausen._src.evidence.metrics.runs import SCORE, Run
from munchausen._src.suites import ATARI, look_up


def read_dopamine(path: Path) -> list[Run]:
    """A list of {"Iteration": 0, "Value": 285.6, "Agent": "DQN"}; the file's name is the game.

    Runs are not numbered there: each agent's iterations begin again with the next run.
    """
    try:
        rows = json.loads(path.read_text())
        points = [(str(r["Agent"]), int(r["Iteration"]), float(r["Value"])) for r in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f'{path} is not in Dopamine\'s format, a list of {{"Iteration", "Value", "Agent"}}: '
            f"{error}"
        ) from error
    curves: dict[str, list[list[tuple[int, float]]]] = defaultdict(list)
    for agent, iteration, value in points:
        runs = curves[agent]
        if not runs or iteration <= runs[-1][-1][0]:
            runs.append([])
        runs[-1].append((iteration, value))
    return [
        _run(_game_of(path), agent, str(number), curve, path)
        for agent, runs in curves.items()
        for number, curve in enumerate(runs)
    ]


def read_csv(path: Path) -> list[Run]:
    """Columns game, agent, run (or seed), score and one of step, frames, iteration; may be
    gzipped. An iteration is the Atari protocol's on an Atari game and counts as it is elsewhere.
    A game without a suite is an Atari game."""
    opener = gzip.open if path.suffix == ".gz" else open
    curves: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    try:
        with opener(path, "rt", newline="") as file:
            reader = csv.reader(file)
            header = [name.strip().lower() for name in next(reader, [])]
            game, agent, score = (_column(path, header, name) for name in ("game", "agent", SCORE))
            run = _column(path, header, "run", "seed")
            time = _column(path, header, "step", "frames", "iteration")
            for number, row in enumerate(reader, start=2):
                if not row:
                    continue
                try:
                    point = (float(row[time]), float(row[score] or "nan"))
                    curves[row[game], row[agent], row[run]].append(point)
                except (ValueError, IndexError) as error:
                    raise UserError(f"{path}, line {number}: {error}") from None
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    kind = header[time]
    return [_run(canonical_game(g), a, r, curve, path, kind) for (g, a, r), curve in curves.items()]


def _column(path: Path, header: list[str], *names: str) -> int:
    for name in names:
        if name in header:
            return header.index(name)
    raise UserError(
        f"{path} has no column {' or '.join(names)}; it has {', '.join(header) or 'no header'}"
    )


def _run(
    game: str, agent: str, run: str, curve: list[Any], path: Path, kind: str = "iteration"
) -> Run:
    curve = sorted(curve)
    time = np.array([t for t, _ in curve], dtype=float)
    if kind == "frames":
        time = time / frames_per_step(game)
    elif kind == "iteration" and _is_atari(game):
        time = (time + 1) * ATARI.iteration_steps  # counted from 0; a score stands at its end
    scores = np.array([value for _, value in curve], dtype=float)
    return Run(game, agent, run, time.astype(np.int64), {SCORE: scores}, path)


def _is_atari(game: str) -> bool:
    listing = look_up(game)
    return listing is not None and listing.suite is ATARI and listing.game in ATARI.games


def _game_of(path: Path) -> str:
    """`dopamine_asterix.json` and `asterix.json` are both of Asterix."""
    words = path.name.split(".")[0].split("_")
    for start in range(len(words)):
        game = canonical_game("_".join(words[start:]))
        if _is_atari(game):
            return game
    raise UserError(f"{path}: the file's name is no Atari game; call it as in asterix.json")
