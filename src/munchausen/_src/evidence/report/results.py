"""Everything a report says, as plain data: tables, health of the runs, how to make them again."""

import json
import shlex
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from munchausen._src.errors import UserError
from munchausen._src.evidence.metrics.aggregates import best_counts, game_means
from munchausen._src.evidence.metrics.alignment import LAST_ITERATIONS, Aligned, align
from munchausen._src.evidence.metrics.bootstrap import RESAMPLES, Estimate, mean_intervals
from munchausen._src.evidence.metrics.comparison import (
    Comparison,
    compare,
    default_baselines,
    references,
)
from munchausen._src.evidence.metrics.reference import RANDOM
from munchausen._src.evidence.metrics.runs import ACTION_GAP, SCORE, Run, Table


@dataclass(frozen=True)
class Health:
    """How one run went."""

    agent: str
    game: str
    seed: str
    status: str  # finished, diverged, running, stopped or published
    problem: str
    steps: int
    score: float | None  # the last known
    steps_per_second: float | None
    source: str
    gaps: int  # iterations without a score


@dataclass(frozen=True)
class Configuration:
    """Settings that some runs share, and the commands that make those again."""

    agent: str
    games: list[str]
    runs: int
    values: dict[str, Any]
    commands: list[str]


@dataclass(frozen=True)
class Results:
    table: Table
    aligned: Aligned
    comparisons: list[Comparison]  # by baseline; none if no game can be scaled
    final: dict[str, list[Estimate | None]]  # scores by agent, of each game
    action_gaps: dict[str, list[Estimate | None]]  # final ones, of agents that recorded them
    references: dict[str, list[float | None]]  # random and human, of each game
    maximum: dict[str, list[float | None]]
    best: dict[str, int]  # on how many games an agent's or reference's maximum is the highest
    health: list[Health]
    configurations: list[Configuration]
    machines: list[str]
    notes: list[str]
    last: int


def gather(
    table: Table,
    *,
    baselines: list[str] | None = None,
    at: int | None = None,
    last: int = LAST_ITERATIONS,
    resamples: int = RESAMPLES,
    watch: Callable[[int, int], None] = lambda *_: None,
) -> Results:
    """The analysis. `baselines`: human or agents; by default what the games allow."""
    aligned = align(table, at)
    notes = list(aligned.notes)
    few = [game for game in aligned.games if len(aligned.grid(game)) < last]
    if few:
        games = ", ".join(few[:6]) + " …" * (len(few) > 6)
        notes.append(
            f"fewer than {last} iterations on {games}: the final score is the mean of all there are"
        )
    known = references(aligned)
    chosen = baselines or default_baselines(aligned)
    comparisons = []
    for number, baseline in enumerate(chosen):
        watch(number, len(chosen) + 1)
        if baselines is None and RANDOM not in known:
            if aligned.games:  # else it was said why there are none
                notes.append("no game has a random score, so nothing is normalised")
            break
        try:
            comparisons.append(compare(aligned, baseline, last, resamples))
        except UserError as error:
            if baselines is not None:
                raise
            notes.append(f"nothing is normalised: {error}")  # the curves are there all the same
            continue
        notes += [note for note in comparisons[-1].notes if note not in notes]
    watch(len(chosen), len(chosen) + 1)
    maximum = {agent: aligned.maximum(agent) for agent in aligned.agents}
    columns = known | maximum
    best = best_counts(np.stack(list(columns.values()))) if aligned.games else np.zeros(0, int)

    def final(column: str) -> dict[str, list[Estimate | None]]:
        return {a: _final(aligned.final(a, last, column), resamples) for a in aligned.agents}

    return Results(
        table=table,
        aligned=aligned,
        comparisons=comparisons,
        final=final(SCORE),
        action_gaps={agent: gaps for agent, gaps in final(ACTION_GAP).items() if any(gaps)},
        references={name: _numbers(scores) for name, scores in known.items()},
        maximum={agent: _numbers(scores) for agent, scores in maximum.items()},
        best=dict(zip(columns, best.tolist(), strict=False)),
        health=sorted(map(_health, table.runs), key=lambda h: (not h.problem, h.agent)),
        configurations=_configurations(table),
        machines=_machines(table),
        notes=notes,
        last=last,
    )


def _final(values: Float[np.ndarray, "runs games"], resamples: int) -> list[Estimate | None]:
    limits = mean_intervals(values, resamples=resamples)
    return [
        None if mean is None else Estimate(mean, low, high)
        for mean, low, high in zip(*map(_numbers, (game_means(values), *limits)), strict=True)
    ]


def _health(run: Run) -> Health:
    scores = run.columns.get(SCORE, np.zeros(0))
    known = scores[np.isfinite(scores)]
    speeds = run.columns.get("steps_per_second", np.zeros(0))
    speeds = speeds[np.isfinite(speeds)]
    status = run.folder.status if run.folder else "published"
    problem = run.folder.error if run.folder else ""
    if status == "stopped":
        problem = "it ended without a result: stopped, killed or crashed; it can be resumed"
    elif status == "diverged":
        problem = problem or "diverged"
    elif not len(known):
        problem = "no episode ended"
    return Health(
        run.agent,
        run.game,
        run.seed,
        status,
        problem,
        run.length,
        float(known[-1]) if len(known) else None,
        float(np.median(speeds)) if len(speeds) else None,
        str(run.source),
        int(len(scores) - len(known)),
    )


def _configurations(table: Table) -> list[Configuration]:
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in table.runs:
        if run.folder is None:
            continue
        groups[run.agent, json.dumps(run.settings, sort_keys=True, default=str)].append(run)
    return [
        Configuration(
            agent,
            sorted({run.game for run in runs}),
            len(runs),
            json.loads(values),
            sorted({c for run in runs if (c := reproduce(run))}),
        )
        for (agent, values), runs in sorted(groups.items())
    ]


def reproduce(run: Run) -> str:
    """The command that makes the folder of a run again; empty if its settings are not known."""
    config = run.config
    try:
        lanes = config["lanes"]
        seeds = sorted({int(lane["seed"]) for lane in lanes})
        agents = ",".join(dict.fromkeys(str(lane["agent"]) for lane in lanes))
        words = ["munchausen", "train", agents, "--env", str(config["env"])]
        words += ["--steps", str(config["steps"]), "--seed", str(seeds[0])]
        if len(seeds) > 1:
            words += ["--seeds", str(len(seeds))]
        words += ["--iteration-steps", str(config["iteration_steps"])]
        if config.get("evaluation_steps"):
            words += ["--evaluation-steps", str(config["evaluation_steps"])]
        for name, value in dict(config.get("changes") or {}).items():
            words += ["--" + name.replace("_", "-"), str(value)]
    except (KeyError, ValueError, TypeError, IndexError, AttributeError):
        return ""
    return shlex.join(words)


def _machines(table: Table) -> list[str]:
    """Each kind of machine once: `2 × cpu, JAX 0.10.2, Python 3.11.7`."""
    seen: dict[str, None] = {}
    for folder in {id(r.folder): r.folder for r in table.runs if r.folder}.values():
        for machine in folder.machines:
            versions = machine.get("versions")
            versions = versions if isinstance(versions, dict) else {}
            tools = [f"{x} {versions[x]}" for x in ("munchausen", "jax") if x in versions]
            parts = [machine.get("device"), f"{machine.get('cpus')} cores", *tools]
            seen[", ".join([*map(str, parts), f"Python {machine.get('python')}"])] = None
    return list(seen)


def _numbers(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(x) else float(x) for x in values]
