"""Agents against a baseline, over all games: the numbers of the paper's tables, with intervals."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from munchausen._src.errors import UserError, unknown
from munchausen._src.evidence.metrics import aggregates as agg
from munchausen._src.evidence.metrics.alignment import LAST_ITERATIONS, Aligned
from munchausen._src.evidence.metrics.bootstrap import (
    RESAMPLES,
    Estimate,
    band,
    curve_band,
    estimate,
)
from munchausen._src.evidence.metrics.reference import (
    HUMAN,
    RANDOM,
    human_score,
    random_score,
)
from munchausen._src.evidence.metrics.runs import find_agent

STATISTICS = {
    "iqm": agg.interquartile_mean,
    "median": agg.median,
    "mean": agg.mean,
}
ESTIMATES = STATISTICS | {"optimality_gap": agg.optimality_gap}
# The agent to beat: the paper's is Rainbow beside human scores; elsewhere what one starts from.
_BESIDE_HUMAN, _ALONE = ("rainbow", "dqn", "adam-dqn"), ("dqn", "adam-dqn", "rainbow")


@dataclass(frozen=True)
class Scale:
    """What 0 and 1 mean on each game: random play, and the baseline's final score. With a an
    agent's score, b the baseline's and r that of random play: Munchausen RL, Sec. 4, appendix B."""

    baseline: str
    games: list[str]
    random: Float[np.ndarray, "games"]
    score: Float[np.ndarray, "games"]
    notes: tuple[str, ...] = ()

    def __call__(self, scores: Float[np.ndarray, "*batch games"]) -> np.ndarray:
        """0 is random play, 1 the baseline: (a − r)/|b − r|."""
        return (scores - self.random) / np.abs(self.score - self.random)

    def improvement(self, scores: Float[np.ndarray, "*batch games"]) -> np.ndarray:
        """0 is the baseline: (a − b)/|b − r|."""
        return (scores - self.score) / np.abs(self.score - self.random)

    def improved(self, scores: Float[np.ndarray, "runs games"]) -> int:
        """On how many games the mean of normalised scores is above the baseline's. That one is
        −1, not 1, where the baseline is worse than random (Rainbow on Skiing)."""
        excess = agg.game_means(scores) - np.sign(self.score - self.random)
        return int((excess > 1e-9).sum())  # the baseline itself is not above itself by rounding


@dataclass(frozen=True)
class Summary:
    """A row of the summary table."""

    agent: str
    runs: int  # the least number of runs on a game
    iqm: Estimate
    median: Estimate
    mean: Estimate
    optimality_gap: Estimate
    improved: int  # games above the baseline
    better: Estimate | None  # probability of improvement over the baseline, if it is an agent
    area: Estimate  # interquartile mean of the runs' areas under the curve
    # When its interquartile mean is the baseline's final; or infinite. None for the baseline.
    steps_to_baseline: float | None


@dataclass(frozen=True)
class Comparison:
    scale: Scale
    rows: list[Summary]
    notes: tuple[str, ...]
    scores: dict[str, Float[np.ndarray, "runs games"]] = field(repr=False)  # final, normalised

    @property
    def games(self) -> list[str]:
        return self.scale.games


def references(aligned: Aligned) -> dict[str, Float[np.ndarray, "games"]]:
    """The scores of random play and of humans, where there are such; NaN on other games."""
    scores = {RANDOM: random_score, HUMAN: human_score}
    columns = {k: np.array([f(g) for g in aligned.games], float) for k, f in scores.items()}
    return {name: column for name, column in columns.items() if np.isfinite(column).any()}


def default_baselines(aligned: Aligned) -> list[str]:
    """Human where all games have such scores, and the agent to beat."""
    names = [HUMAN] if all(human_score(game) is not None for game in aligned.games) else []
    wanted = _BESIDE_HUMAN if names else _ALONE
    agents = [find_agent(aligned.agents, name) for name in wanted]
    agents = [agent for agent in agents if agent] or aligned.agents
    return names + agents[:1]


def make_scale(
    aligned: Aligned,
    baseline: str,
    last: int = LAST_ITERATIONS,
    agents: list[str] | None = None,
) -> Scale:
    """Over the games that have a random score and the baseline's, and that the agents (by default
    the common ones) share."""
    agent = None if baseline == HUMAN else find_agent(aligned.agents, baseline)
    if baseline != HUMAN and agent is None:
        human = any(human_score(game) is not None for game in aligned.games)
        raise unknown("baseline", baseline, [HUMAN] * human + aligned.agents)
    final = None if agent is None else agg.game_means(aligned.final(agent, last))
    games, random, score, notes = [], [], [], []
    agents = common_agents(aligned) if agents is None else agents
    for at, game in enumerate(aligned.games):
        low = random_score(game)
        high = human_score(game) if final is None else float(final[at])
        if low is None or high is None:
            notes.append(f"{game} has no {'random' if low is None else 'human'} score: not scaled")
        elif not np.isfinite(high) or high == low:
            notes.append(f"{game}: {baseline} is no better than random there, or absent")
        elif all(aligned.has(game, name) for name in agents):
            games.append(game)
            random.append(low)
            score.append(high)
    missing = [g for g in aligned.games if not all(aligned.has(g, a) for a in agents)]
    if missing:
        notes.append(
            f"aggregates are over {len(games)} of {len(aligned.games)} games: "
            f"not all agents were run on {', '.join(missing[:6])}{' …' * (len(missing) > 6)}"
        )
    if not games:
        others = ", ".join(a for a in aligned.agents if a != agent)
        raise UserError(
            f"no game can be scaled by {baseline}: {notes[0]}"
            + " …" * (len(notes) > 1)
            + (f"; try another --baseline: {others}" if others else "")
        )
    return Scale(agent or HUMAN, games, np.array(random), np.array(score), tuple(notes))


def common_agents(aligned: Aligned) -> list[str]:
    """Agents with runs on at least half of the games; the others would leave too few."""
    count = {a: sum(aligned.has(g, a) for g in aligned.games) for a in aligned.agents}
    return [agent for agent in aligned.agents if count[agent] >= len(aligned.games) / 2]


def compare(
    aligned: Aligned, baseline: str, last: int = LAST_ITERATIONS, resamples: int = RESAMPLES
) -> Comparison:
    scale = make_scale(aligned, baseline, last)
    at = [aligned.games.index(game) for game in scale.games]
    agents = common_agents(aligned)
    scores = {agent: scale(aligned.final(agent, last)[:, at]) for agent in agents}
    grid = aligned.shared_grid(scale.games)
    length = max(aligned.length[game] for game in scale.games)
    rows, notes = [], list(scale.notes)
    notes += [
        f"{agent} was run on few of the games: it is in no aggregate"
        for agent in aligned.agents
        if agent not in agents
    ]
    others = scores.get(scale.baseline)
    target = 1.0 if others is None else float(agg.interquartile_mean(others))
    for agent, mine in scores.items():
        cube = scale(aligned.cube(agent, scale.games))
        area = np.asarray(agg.area_under_curve(grid, np.moveaxis(cube, 0, -1)))
        _, level = aggregate_curve(cube, "iqm")
        reached = agg.steps_to_reach(grid[-len(level) :] * length, level, target)
        better = None
        if others is not None and agent != scale.baseline:
            better = estimate(agg.probability_of_improvement, mine, others, resamples=resamples)
        rows.append(
            Summary(
                agent=agent,
                runs=int(np.isfinite(mine).sum(axis=0).min()),
                **{k: estimate(f, mine, resamples=resamples) for k, f in ESTIMATES.items()},
                improved=scale.improved(mine),
                better=better,
                area=estimate(agg.interquartile_mean, area, resamples=resamples),
                steps_to_baseline=None if agent == scale.baseline else float(reached),
            )
        )
    single = [row.agent for row in rows if row.runs < 2]
    if single:
        notes.append(f"{', '.join(single)}: one run on a game, so there is no interval")
    return Comparison(scale, rows, tuple(notes), scores)


def aggregate_curve(
    cube: Float[np.ndarray, "T runs games"], statistic: str
) -> tuple[int, Float[np.ndarray, "levels"]]:
    """A statistic over games at each step, from the first at which every run has a score;
    and which step that is."""
    there = np.isfinite(cube[-1])
    start = int(np.argmax(np.isfinite(cube[:, there]).all(axis=1)))
    function = STATISTICS[statistic]
    return start, np.array([float(function(x)) for x in cube[start:]])


def aggregate_band(
    cube: Float[np.ndarray, "T runs games"], statistic: str
) -> Float[np.ndarray, "2 levels"] | None:
    """The interval around `aggregate_curve`."""
    start, _ = aggregate_curve(cube, statistic)
    return curve_band(STATISTICS[statistic], cube[start:])


def profile(
    scores: Float[np.ndarray, "runs games"], levels: Float[np.ndarray, "levels"]
) -> tuple[np.ndarray, np.ndarray | None]:
    """A performance profile and its limits."""
    return (
        agg.performance_profile(scores, levels),
        band(lambda x: agg.performance_profile(x, levels), scores),
    )
