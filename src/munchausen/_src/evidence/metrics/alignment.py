"""Runs made comparable: of one length, on one grid of steps, with gaps filled."""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from munchausen._src.evidence.metrics.runs import SCORE, Run, Table

LAST_ITERATIONS = 5  # of the final score: Munchausen RL, appendix B
SAME_LENGTH = 0.99  # lengths are rounded to whole rounds of environments


@dataclass(frozen=True)
class Aligned:
    """Runs by game and agent. Those that stopped early are left out and said in the notes."""

    agents: list[str]
    games: list[str]
    length: dict[str, int]  # of each game, in steps
    groups: dict[tuple[str, str], list[Run]]  # by (game, agent), never empty
    notes: tuple[str, ...]

    def has(self, game: str, agent: str) -> bool:
        return (game, agent) in self.groups

    def runs(self, game: str, agent: str) -> list[Run]:
        return self.groups.get((game, agent), [])

    def records(self, column: str) -> bool:
        """Whether any run has a value there."""
        runs = (run for group in self.groups.values() for run in group)
        return any(np.isfinite(run.columns.get(column, np.zeros(0))).any() for run in runs)

    def grid(self, game: str) -> Float[np.ndarray, "T"]:
        """The steps of the run with the fewest rows: nothing is made up between rows."""
        runs = [run for (g, _), group in self.groups.items() if g == game for run in group]
        steps = min((run.steps for run in runs), key=len)
        return steps[steps <= self.length[game] / SAME_LENGTH].astype(float)

    def curves(
        self, game: str, agent: str, column: str = SCORE, grid: np.ndarray | None = None
    ) -> Float[np.ndarray, "runs T"]:
        """The values of each run on the game's grid; NaN before a run's first."""
        steps = self.grid(game) if grid is None else grid
        runs = self.runs(game, agent)
        return np.stack([_on_grid(run, column, steps) for run in runs])

    def final(
        self, agent: str, last: int = LAST_ITERATIONS, column: str = SCORE
    ) -> Float[np.ndarray, "runs games"]:
        """The mean of each run's last iterations, NaN where there is no run."""
        most = max((len(self.runs(game, agent)) for game in self.games), default=0)
        means = np.full((most, len(self.games)), np.nan)
        for at, game in enumerate(self.games):
            for number, run in enumerate(self.runs(game, agent)):
                if column not in run.columns:
                    continue
                within = run.steps <= self.length[game] / SAME_LENGTH
                tail = filled(run.columns[column][within])[-last:]
                tail = tail[np.isfinite(tail)]
                means[number, at] = tail.mean() if len(tail) else np.nan
        return means

    def maximum(self, agent: str) -> Float[np.ndarray, "games"]:
        """The best iteration of the mean over runs: the paper's table of maximum scores."""
        best = np.full(len(self.games), np.nan)
        for at, game in enumerate(self.games):
            if self.has(game, agent):
                means = np.mean(self.curves(game, agent), axis=0)
                best[at] = np.max(means[np.isfinite(means)], initial=-np.inf)
        return np.where(np.isinf(best), np.nan, best)

    def cube(self, agent: str, games: list[str]) -> Float[np.ndarray, "T runs games"]:
        """All games on one grid, from where every run has a score. See `shared_grid`."""
        share = self.shared_grid(games)
        most = max(len(self.runs(game, agent)) for game in games)
        values = np.full((len(share), most, len(games)), np.nan)
        for at, game in enumerate(games):
            curves = self.curves(game, agent, grid=share * self.length[game])
            values[:, : len(curves), at] = curves.T
        return values

    def shared_grid(self, games: list[str]) -> Float[np.ndarray, "T"]:
        """Fractions of training: of the game with the fewest rows."""
        game = min(games, key=lambda g: len(self.grid(g)))
        return self.grid(game) / self.length[game]


def align(table: Table, at: int | None = None) -> Aligned:
    """Each game's runs at the length that most of them have, or at step `at`."""
    by_game: dict[str, list[Run]] = defaultdict(list)
    notes: list[str] = []
    for run in table.runs:
        if np.isfinite(run.columns.get(SCORE, np.zeros(0))).any():
            by_game[run.game].append(run)
        else:
            notes.append(f"{_name(run)} is left out: no episode ended")
    length, groups = {}, defaultdict(list)
    for game, runs in sorted(by_game.items()):
        counts = Counter(run.length for run in runs)
        usual = at or max(counts, key=lambda steps: (counts[steps], steps))
        kept = [run for run in runs if run.length >= SAME_LENGTH * usual]
        for run in runs:
            if run.length < SAME_LENGTH * usual:
                why = f", {run.folder.status}" if run.folder else ""
                notes.append(
                    f"{_name(run)} is left out of comparisons: it has {run.length:,} of "
                    f"{usual:,} steps{why}"
                )
        longer = sorted({run.agent for run in kept if run.length * SAME_LENGTH > usual})
        if longer:
            notes.append(f"{', '.join(longer)} on {game}: cut at {usual:,} steps to compare")
        if not kept:
            notes.append(f"{game} is left out: no run has {usual:,} steps")
            continue
        length[game] = usual
        for run in kept:
            groups[game, run.agent].append(run)
            if run.folder and run.folder.status == "stopped":
                asked = run.folder.config.get("steps")
                of = f" of {asked:,}" if isinstance(asked, int) else ""
                notes.append(f"{_name(run)} was stopped at {run.length:,}{of} steps")
    left = {run.agent for group in groups.values() for run in group}
    agents = [agent for agent in table.agents if agent in left]
    return Aligned(agents, list(length), length, dict(groups), (*table.notes, *notes))


def filled(values: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T"]:
    """An iteration in which no episode ended keeps the score of the one before."""
    known = np.isfinite(values)
    last = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1))
    return np.where(last >= 0, values[last], np.nan)


def _on_grid(run: Run, column: str, steps: np.ndarray) -> np.ndarray:
    values = run.columns.get(column)
    if values is None:
        return np.full(len(steps), np.nan)
    values = filled(values)
    if len(run.steps) == len(steps) and np.array_equal(run.steps, steps):
        return values
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(steps), np.nan)
    on_grid = np.interp(steps, run.steps[known], values[known])
    return np.where(steps < run.steps[known][0], np.nan, on_grid)


def _name(run: Run) -> str:
    return f"{run.agent} on {run.game}, seed {run.seed} ({run.source})"
