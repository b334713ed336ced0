"""What each command does and prints. Bad input raises `UserError` before anything is written."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from munchausen.agent import AGENTS, DEFAULT_AGENT, DESCRIPTIONS, resolve
from munchausen.envs import DEFAULT_ENVIRONMENT, LISTINGS, find
from munchausen.errors import TrainingDiverged, UserError
from munchausen.experiment import folder as run_folder
from munchausen.experiment.checkpoint import list_checkpoints
from munchausen.experiment.evaluation import evaluate as play
from munchausen.experiment.policy import load_policy, load_run, network_template
from munchausen.experiment.records import read_records
from munchausen.experiment.settings import Settings, make_settings
from munchausen.experiment.training import Interrupted, Training
from munchausen.figures.learning_curve import curves, save_learning_curve, seed_mean, sparkline
from munchausen.metrics.reference import RANDOM, published
from munchausen.progress import show_progress

CURVE = "curve.png"


def train(
    agent: str | None,
    env: str | None,
    *,
    steps: int | None,
    seed: int | None,
    seeds: int | None,
    out: Path | None,
    resume: bool,
    iteration_steps: int | None,
    checkpoint_seconds: float | None,
    changes: dict[str, Any],
    as_json: bool,
) -> None:
    asked = {
        "agent": agent,
        "env": env,
        "steps": steps,
        "seed": seed,
        "seeds": seeds,
        "iteration_steps": iteration_steps,
        "checkpoint_seconds": checkpoint_seconds,
    }
    if resume:
        if out is None:
            raise UserError("--resume needs the run's folder: --out RUN")
        settings = _resumed(run_folder.load_settings(out), asked, changes)
    else:
        settings = _fresh(asked, changes)
        out = out or run_folder.default_path(settings)
        run_folder.check_free(out)
    # A missing extra, continuous actions, a network that does not fit: before anything is written.
    network_template(settings)
    opened = run_folder.reopen(out, settings) if resume else run_folder.create(out, settings)
    say = _speaker(as_json)
    names = "+".join(dict.fromkeys(lane.agent for lane in settings.lanes))
    count = len(settings.lanes)
    training = Training(settings, opened)
    try:
        training.start()
        if training.step > settings.steps:
            raise UserError(f"{out} is at step {training.step:,} already; ask for more --steps")
        if resume:
            opened.note_start(settings)
        lanes = f", {count} lanes" if count > 1 else ""
        say(f"{names} on {settings.env}, {settings.steps:,} steps{lanes}")
        say(f"run: {out}" + (f", resumed at step {training.step:,}" if training.step else ""))
        with show_progress(names) as watch:
            training.run(watch)
        _finish(training, out, say, as_json)
    except TrainingDiverged as error:
        opened.write_result({"status": "diverged", "error": str(error)})
        kept = list_checkpoints(out)
        where = f"the last good checkpoint is {kept[-1]}" if kept else "there was no checkpoint yet"
        raise TrainingDiverged(f"{error}; {where}") from None
    except Interrupted:
        say(f"to go on: {_program()} train --resume --out {out}")
        raise
    finally:
        training.close()


def _fresh(asked: dict[str, Any], changes: dict[str, Any]) -> Settings:
    first = asked["seed"] or 0
    extra = {}
    if asked["checkpoint_seconds"] is not None:
        extra["checkpoint_seconds"] = asked["checkpoint_seconds"]
    return make_settings(
        str(asked["agent"] or DEFAULT_AGENT).split(","),
        asked["env"] or DEFAULT_ENVIRONMENT,
        steps=asked["steps"],
        seeds=list(range(first, first + (asked["seeds"] or 1))),
        changes=changes,
        iteration_steps=asked["iteration_steps"],
        **extra,
    )


def _resumed(saved: Settings, asked: dict[str, Any], changes: dict[str, Any]) -> Settings:
    """The run's settings with what was asked for on top; `folder.reopen` refuses differences."""
    own = {
        "agent": ",".join(dict.fromkeys(lane.agent for lane in saved.lanes)),
        "env": saved.env,
        "steps": saved.steps,
        "seed": saved.lanes[0].seed,
        "seeds": len({lane.seed for lane in saved.lanes}),
        "iteration_steps": saved.iteration_steps,
        "checkpoint_seconds": saved.checkpoint_seconds,
    }
    asked = own | {k: v for k, v in asked.items() if v is not None}
    return _fresh(asked, dict(saved.changes) | changes)


def _finish(training: Training, out: Path, say: Any, as_json: bool) -> None:
    """The score beside random play and the published one, a picture, and what to try next."""
    settings = training.settings
    rows = read_records(out)
    scores = [account.score for account in training.accounts]
    known = [s for s in scores if s is not None]
    score = float(np.mean(known)) if known else None
    speed = len(settings.lanes) * settings.steps / training.seconds if training.seconds else None
    agents = list(dict.fromkeys(lane.agent for lane in settings.lanes))
    result = {
        "run": str(out),
        "agent": ",".join(agents),
        "env": settings.env,
        "steps": settings.steps,
        "score": score,
        "episodes": sum(account.episodes for account in training.accounts),
        "steps_per_second": round(speed, 1) if speed else None,
        "lanes": [
            {"agent": lane.agent, "seed": lane.seed, "score": s}
            for lane, s in zip(settings.lanes, scores, strict=True)
        ],
    }
    if training.folder is not None:
        training.folder.write_result({"status": "finished", **result})
    references = {}
    if settings.env in RANDOM:
        references["random play"] = RANDOM[settings.env]
    if (reference := published(settings.env, agents[0])) is not None:
        references[reference.what] = reference.score
    save_learning_curve(
        rows, out / CURVE, title=f"{' and '.join(agents)} on {settings.env}", references=references
    )
    say("")
    for name, (_, values) in curves(rows, "score_100").items():
        mean = seed_mean(values)
        mine = [s for s, lane in zip(scores, settings.lanes, strict=True) if lane.agent == name]
        mine = [s for s in mine if s is not None]
        text = f"{np.mean(mine):.2f}" if mine else "no episode ended"
        say(f"  {name:<18} {text:>8}   {sparkline(mean)}")
    for label, value in references.items():
        say(f"  {label:<18} {value:>8.2f}")
    say("")
    say("score: mean return of the last 100 training episodes")
    say(f"curve: {out / CURVE}")
    say(f"speed: {speed:,.0f} steps/s" if speed else "speed: nothing was left to do")
    say(f"next:  {_program()} evaluate {out}")
    other = "adam-dqn" if agents[0] != "adam-dqn" else "m-dqn"
    say(f"       {_program()} train {other} --env {settings.env}     to compare")
    if as_json:
        print(json.dumps(result))


def evaluate(
    run: Path, *, episodes: int, epsilon: float | None, seed: int, lane: int, as_json: bool
) -> None:
    if epsilon is not None and not 0 <= epsilon <= 1:
        raise UserError(f"epsilon must be in [0, 1], not {epsilon:g}")
    policy = load_policy(run) if run.is_file() else load_run(run, lane)
    settings = policy.settings
    epsilon = settings.config.evaluation_epsilon if epsilon is None else epsilon
    spec = settings.lanes[policy.lane]
    say = _speaker(as_json)
    say(f"playing {episodes} episodes of {settings.env} with {spec.agent} (ε = {epsilon:g}) …")
    result = play(
        settings, policy.network, policy.regulariser, episodes=episodes, epsilon=epsilon, seed=seed
    )
    returns = result.returns
    error = float(np.std(returns, ddof=1) / np.sqrt(len(returns))) if len(returns) > 1 else None
    report = {
        "run": str(run),
        "agent": spec.agent,
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
    if as_json:
        print(json.dumps(report))
        return
    spread = f" ± {error:.2f} (standard error)" if error is not None else ""
    say(f"mean return {report['mean']:.2f}{spread}")
    say(f"median {report['median']:g}, from {report['min']:g} to {report['max']:g}")
    say(f"mean length {report['mean_length']:.0f} steps")
    if result.cut:
        say(f"{result.cut} episodes were cut at the limit of steps")
    if settings.env in RANDOM:
        say(f"random play {RANDOM[settings.env]:.2f}")


_COLUMNS = (
    "head",
    "alpha",
    "tau",
    "clip_min",
    "n_step",
    "replay",
    "optimizer",
    "learning_rate",
)


def agents(agent: str | None, env: str | None, *, as_json: bool) -> None:
    suite = find(env).suite if env else "atari"
    if agent is not None:
        values = _plain(asdict(resolve(agent, suite)))
        if as_json:
            print(json.dumps({"name": agent, **values}))
            return
        print(f"{agent}: {DESCRIPTIONS[agent]} ({env or 'Atari, as in the paper'})")
        for name, value in values.items():
            print(f"  {name:<22} {value}")
        return
    rows = [
        {
            "name": name,
            "description": DESCRIPTIONS[name],
            **_plain({k: getattr(resolve(name, suite), k) for k in _COLUMNS}),
        }
        for name in AGENTS
    ]
    if as_json:
        print(json.dumps(rows))
        return
    _table(rows, ("name", *_COLUMNS, "description"))


def envs(*, as_json: bool) -> None:
    rows = [asdict(listing) for listing in LISTINGS.values()]
    for row in rows:
        row["random"] = RANDOM.get(row["name"])
    if as_json:
        print(json.dumps(rows))
        return
    _table(rows, ("name", "suite", "loop", "steps", "iteration_steps", "random"))
    print("any other Gymnasium id with discrete actions works as gym/ID")


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {k: str(v) if v in (float("inf"), float("-inf")) else v for k, v in values.items()}


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    cells = [list(columns)] + [["" if r[c] is None else str(r[c]) for c in columns] for r in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())


def _program() -> str:
    """How this program was called, so that the next line can be copied as it stands."""
    return "uv run munchausen" if "UV_RUN_RECURSION_DEPTH" in os.environ else "munchausen"


def _speaker(as_json: bool) -> Any:
    """With --json standard output is for the machine, so words go to the other stream."""
    return lambda text: print(text, file=sys.stderr if as_json else sys.stdout, flush=True)
