"""Run folders as `munchausen train` leaves them, with scores a test chooses."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from munchausen._src.experiment.records import CONFIG, MACHINE, RECORDS, RESULT

ITERATION_STEPS = 1_000


def write_run(
    folder: Path,
    scores: Any,
    *,
    agent: str = "m-dqn",
    env: str = "minatar/breakout",
    first_seed: int = 0,
    status: str | None = "finished",
    error: str = "",
    changes: dict[str, Any] | None = None,
    **config: Any,
) -> Path:
    """`scores` [seeds, iterations]; NaN is an iteration in which no episode ended."""
    scores = np.atleast_2d(np.asarray(scores, dtype=float))
    folder.mkdir(parents=True)
    lanes = [
        {"agent": agent, "seed": first_seed + i, "alpha": 0.9, "tau": 0.03, "clip_min": -1.0}
        for i in range(len(scores))
    ]
    settings = {
        "env": env,
        "steps": scores.shape[1] * ITERATION_STEPS,
        "iteration_steps": ITERATION_STEPS,
        "checkpoint_seconds": 30.0,
        "changes": changes or {},
        "lanes": lanes,
        "config": {"n_step": 1, "learning_rate": 2.5e-4} | (changes or {}) | config,
    }
    (folder / CONFIG).write_text(json.dumps(settings))
    machine = {"python": "3.11", "cpus": 2, "device": "cpu", "versions": {"jax": "0.10.2"}}
    (folder / MACHINE).write_text(json.dumps(machine) + "\n")
    if status is not None:
        (folder / RESULT).write_text(json.dumps({"status": status, "error": error}))
    rows = [
        {
            "env": env,
            "agent": agent,
            "seed": first_seed + seed,
            "iteration": t + 1,
            "step": (t + 1) * ITERATION_STEPS,
            "score": None if np.isnan(scores[seed, t]) else float(scores[seed, t]),
            "loss": 0.5,
            "action_gap": 0.1 * (t + 1),
            "steps_per_second": 5_000.0,
        }
        for t in range(scores.shape[1])
        for seed in range(len(scores))
    ]
    (folder / RECORDS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def row_of(comparison: Any, agent: str) -> Any:
    """An agent's row of a summary."""
    return next(row for row in comparison.rows if row.agent == agent)


def write_study(
    root: Path, *, games=("minatar/breakout", "minatar/asterix"), seeds: int = 3
) -> Path:
    """A small study whose order is known: m-dqn above adam-dqn above dqn on every game."""
    rising = np.linspace(0.1, 1.0, 10)
    generator = np.random.default_rng(3)
    for game in games:
        for agent, level in (("dqn", 10.0), ("adam-dqn", 20.0), ("m-dqn", 30.0)):
            scores = level * rising + generator.normal(0, 0.5, (seeds, 10))
            write_run(root / f"{game.replace('/', '-')}_{agent}", scores, agent=agent, env=game)
    return root
