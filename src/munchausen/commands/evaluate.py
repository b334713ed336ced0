"""`munchausen evaluate`: whole episodes with a trained agent."""

import argparse
import json
import os
from pathlib import Path

import numpy as np

from munchausen.agent.config import parse_value
from munchausen.commands.console import speaker, whole
from munchausen.errors import UserError
from munchausen.experiment.evaluation import evaluate as play
from munchausen.experiment.policy import load_policy, load_run
from munchausen.experiment.records import write_action_gaps
from munchausen.metrics.reference import random_score

HELP = "play whole episodes with a trained agent"
DESCRIPTION = "Play whole episodes with the agent of a run or of a saved file."


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's folder or a saved agent")
    parser.add_argument("--episodes", default="100", help="episodes to play (default 100)")
    parser.add_argument("--epsilon", help="probability of a random action (default 0.001)")
    parser.add_argument("--seed", default="0", help="seed of the episodes (default 0)")
    parser.add_argument(
        "--action-gaps",
        action="store_true",
        help="also keep the action gap at each step, for `munchausen report`",
    )
    parser.add_argument("--lane", default="0", help="which lane of a run of several (default 0)")


def run(options: argparse.Namespace) -> int:
    epsilon = options.epsilon
    evaluate(
        options.run,
        episodes=whole("episodes", options.episodes, 1) or 100,
        epsilon=None if epsilon is None else parse_value("epsilon", float, epsilon),
        seed=whole("seed", options.seed, 0) or 0,
        lane=whole("lane", options.lane, 0) or 0,
        gaps=options.action_gaps,
        as_json=options.json,
    )
    return 0


def evaluate(
    run: Path,
    *,
    episodes: int,
    epsilon: float | None,
    seed: int,
    lane: int,
    gaps: bool,
    as_json: bool,
) -> None:
    if gaps and run.is_file():
        raise UserError("--action-gaps are kept in a run's folder; give one, not a file")
    if gaps and run.is_dir() and not os.access(run, os.W_OK):
        raise UserError(f"cannot write to {run}: --action-gaps are kept there")
    if epsilon is not None and not 0 <= epsilon <= 1:
        raise UserError(f"epsilon must be in [0, 1], not {epsilon:g}")
    policy = load_policy(run) if run.is_file() else load_run(run, lane)
    settings = policy.settings
    epsilon = settings.config.evaluation_epsilon if epsilon is None else epsilon
    spec = settings.lanes[policy.lane]
    say = speaker(as_json)
    count = len(settings.lanes)
    which = f", lane {policy.lane} of 0 to {count - 1} (--lane N for another)" if count > 1 else ""
    player = f"{spec.agent} seed {spec.seed}{which}"
    say(f"playing {episodes} episodes of {settings.env} with {player}, ε = {epsilon:g} …")
    result = play(
        settings,
        policy.network,
        policy.regulariser,
        episodes=episodes,
        epsilon=epsilon,
        seed=seed,
        gaps=gaps,
    )
    returns = result.returns
    error = float(np.std(returns, ddof=1) / np.sqrt(len(returns))) if len(returns) > 1 else None
    report = {
        "run": str(run),
        "agent": spec.agent,
        "seed": spec.seed,
        "lane": policy.lane,
        "env": settings.env,
        "step": policy.step,
        "episodes": len(returns),
        "epsilon": epsilon,
        "mean": float(np.mean(returns)),
        "standard_error": error,
        "median": float(np.median(returns)),
        "min": float(np.min(returns)),
        "max": float(np.max(returns)),
        "mean_length": float(np.mean(result.lengths)),
        "cut": result.cut,
    }
    if result.gaps is not None:
        path = _write_gaps(run, spec.agent, spec.seed, result.gaps)
        report["action_gap"] = float(np.mean(np.concatenate(result.gaps)))
        say(f"mean action gap {report['action_gap']:.4g}; along each trajectory: {path}")
    if as_json:
        print(json.dumps(report))
        return
    spread = f" ± {error:.2f} (standard error)" if error is not None else ""
    say(f"mean return {report['mean']:.2f}{spread}")
    say(f"median {report['median']:g}, from {report['min']:g} to {report['max']:g}")
    say(f"mean length {report['mean_length']:.0f} steps")
    if result.cut:
        say(f"{result.cut} episodes were ended by a limit on their steps")
    if (random := random_score(settings.env)) is not None:
        say(f"random play {random:.2f}")


def _write_gaps(run: Path, agent: str, seed: int, gaps: list[np.ndarray]) -> Path:
    try:
        return write_action_gaps(run, agent, seed, (x.tolist() for x in gaps))
    except OSError as error:
        raise UserError(f"cannot write to {run}: {error.strerror}") from error
