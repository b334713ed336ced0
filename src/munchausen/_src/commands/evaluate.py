"""`munchausen evaluate`: whole episodes with a trained agent."""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from munchausen._src.agents.fields import parse_probability
from munchausen._src.commands.console import speaker, whole
from munchausen._src.errors import UserError, refused
from munchausen._src.evidence.metrics.reference import random_score
from munchausen._src.experiment.evaluation import Evaluation, evaluate
from munchausen._src.experiment.folder import load_settings
from munchausen._src.experiment.policy import Policy, load_policy, load_run
from munchausen._src.experiment.records import write_action_gaps
from munchausen._src.experiment.settings import check_seed

ALL = "all"
DESCRIPTION = """\
Play whole episodes with the agent of a run or of a saved file.

  munchausen evaluate runs/NAME
  munchausen evaluate runs/NAME --lane all          every seed and agent of a run of several
"""


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
    parser.add_argument(
        "--lane", default="0", help="which lane of a run of several (default 0), or all"
    )


def run(options: argparse.Namespace) -> int:
    path: Path = options.run
    episodes = whole("episodes", options.episodes, 1) or 100
    seed = whole("seed", options.seed, 0) or 0
    check_seed(seed)
    if options.action_gaps and path.is_file():
        raise UserError("--action-gaps are kept in a run's folder; give one, not a file")
    if options.action_gaps and path.is_dir() and not os.access(path, os.W_OK):
        raise UserError(f"cannot write to {path}: --action-gaps are kept there")
    asked = None if options.epsilon is None else parse_probability("epsilon", options.epsilon)
    say = speaker(options.json)
    reports = []
    for policy in _policies(path, options.lane):
        settings, spec = policy.settings, policy.settings.lanes[policy.lane]
        epsilon = settings.config.evaluation_epsilon if asked is None else asked
        several = len(settings.lanes) > 1 and options.lane != ALL
        which = f", lane {policy.lane} (--lane {ALL} or another number)" if several else ""
        player = f"{spec.agent} seed {spec.seed}{which}"
        say(f"playing {episodes} episodes of {settings.env} with {player}, ε = {epsilon:g} …")
        result = evaluate(
            settings,
            policy.network,
            policy.regulariser,
            episodes=episodes,
            epsilon=epsilon,
            seed=seed,
            gaps=options.action_gaps,
        )
        reports.append(_summary(path, policy, epsilon, result))
        if result.gaps is not None:
            with refused(f"write to {path}"):
                each = (gaps.tolist() for gaps in result.gaps)
                file = write_action_gaps(path, spec.agent, spec.seed, each)
            say(f"mean action gap {reports[-1]['action_gap']:.4g}; along each trajectory: {file}")
        _say_summary(reports[-1], say)
    if options.json:
        print(json.dumps({"lanes": reports} if options.lane == ALL else reports[0]))
    elif len(reports) > 1:
        _say_means(reports, say)
    return 0


def _policies(path: Path, lane: str) -> Iterator[Policy]:
    if path.is_file():
        yield load_policy(path)
        return
    lanes = range(len(load_settings(path).lanes))
    for number in lanes if lane == ALL else [whole("lane", lane, 0) or 0]:
        yield load_run(path, number)


def _summary(run: Path, policy: Policy, epsilon: float, result: Evaluation) -> dict[str, Any]:
    returns, spec = result.returns, policy.settings.lanes[policy.lane]
    error = float(np.std(returns, ddof=1) / np.sqrt(len(returns))) if len(returns) > 1 else None
    gaps = {"action_gap": float(np.mean(np.concatenate(result.gaps)))} if result.gaps else {}
    return {
        "run": str(run),
        "agent": spec.agent,
        "seed": spec.seed,
        "lane": policy.lane,
        "env": policy.settings.env,
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
        **gaps,
    }


def _say_summary(report: dict[str, Any], say: Callable[[str], None]) -> None:
    error = report["standard_error"]
    spread = f" ± {error:.2f} (standard error)" if error is not None else ""
    say(f"mean return {report['mean']:.2f}{spread}")
    say(f"median {report['median']:g}, from {report['min']:g} to {report['max']:g}")
    say(f"mean length {report['mean_length']:.0f} steps")
    if report["cut"]:
        say(f"{report['cut']} episodes were ended by a limit on their steps")
    if (random := random_score(report["env"])) is not None:
        say(f"random play {random:.2f}")


def _say_means(reports: list[dict[str, Any]], say: Callable[[str], None]) -> None:
    """Of each agent, over its seeds."""
    say("")
    for agent in dict.fromkeys(report["agent"] for report in reports):
        means = [report["mean"] for report in reports if report["agent"] == agent]
        error = np.std(means, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else None
        spread = f" ± {error:.2f} (standard error over seeds)" if error is not None else ""
        seeds = f"{len(means)} seed{'s' * (len(means) != 1)}"
        say(f"{agent}, {seeds}: mean return {np.mean(means):.2f}{spread}")
