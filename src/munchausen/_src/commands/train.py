"""`munchausen train`: agents on an environment into a run's folder."""

import argparse
import json
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from munchausen._src.agents import DEFAULT_AGENT
from munchausen._src.agents.fields import parse_seconds
from munchausen._src.commands import field_flags
from munchausen._src.commands.console import program, speaker, whole
from munchausen._src.errors import TrainingDiverged, UserError, writing
from munchausen._src.evidence.metrics.reference import published, random_score
from munchausen._src.experiment import folder as run_folder
from munchausen._src.experiment import resources
from munchausen._src.experiment.checkpoint import list_checkpoints
from munchausen._src.experiment.pace import Progress, speed_in_words
from munchausen._src.experiment.policy import network_template
from munchausen._src.experiment.records import read_records
from munchausen._src.experiment.settings import Settings, as_begun, make_settings
from munchausen._src.experiment.stopping import Interrupted
from munchausen._src.experiment.trackers import check_tracker
from munchausen._src.experiment.training import Training
from munchausen._src.progress import show_progress
from munchausen._src.suites import DEFAULT_ENVIRONMENT, module_of
from munchausen._src.sweep.heartbeat import write_heartbeats
from munchausen._src.sweep.tether import tether

DESCRIPTION = """\
Train an agent. A run is a folder with its configuration, records and checkpoints.

  munchausen train                                    M-DQN on MinAtar Breakout
  munchausen train m-iqn --env minatar/asterix --steps 1_000_000
  munchausen train m-dqn --env gym/CartPole-v1 --seeds 4
  munchausen train adam-dqn,soft-dqn,al,m-dqn --seeds 3    side by side in one program
  munchausen train --alpha 0.5 --n-step 3             any field can be changed
  munchausen train --learning-rate cosine:5e-5:1e-6   over the run
  munchausen train --resume --out runs/NAME           go on where it was cut
"""

CURVE = "curve.png"
_OF_THE_RUN = ("steps", "iteration_steps", "checkpoint_seconds", "evaluation_steps")
_LEAST = {"steps": 1, "seed": 0, "seeds": 1, "iteration_steps": 1, "evaluation_steps": 0}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "agent",
        nargs="?",
        metavar="AGENT",
        help=f"one of `munchausen agents` (default {DEFAULT_AGENT}), or several with commas",
    )
    parser.add_argument("--env", help=f"one of `munchausen envs` (default {DEFAULT_ENVIRONMENT})")
    parser.add_argument("--protocol", help="modern (default) or original, for Atari")
    parser.add_argument("--steps", help="agent steps (default: the environment's)")
    parser.add_argument("--seed", help="the run's seed (default 0)")
    parser.add_argument("--seeds", help="train so many seeds side by side, from --seed on")
    parser.add_argument("--out", type=Path, help="the run's folder (default: under runs/)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out")
    parser.add_argument("--iteration-steps", help="steps between rows of the records")
    parser.add_argument(
        "--evaluation-steps",
        help="after each iteration evaluate for so many steps (the paper's phase: 125_000)",
    )
    parser.add_argument(
        "--checkpoint-seconds",
        help="least time between checkpoints (default 30; 120 on Atari; longer where writing one "
        "takes more than a twentieth of it)",
    )
    parser.add_argument(
        "--track", metavar="TRACKER", help="records also go to tensorboard, wandb or trackio"
    )
    # Of sweeps: the process that watches this one.
    parser.add_argument("--tether", type=int, metavar="PID", help=argparse.SUPPRESS)
    field_flags.add(parser)


def run(options: argparse.Namespace) -> int:
    if options.tether is not None:
        tether(options.tether)
    if options.track is not None:
        check_tracker(options.track)
    asked: dict[str, Any] = {
        **{name: getattr(options, name) for name in ("agent", "env", "protocol")},
        **{name: whole(name, getattr(options, name), least) for name, least in _LEAST.items()},
    }
    if (seconds := options.checkpoint_seconds) is not None:
        asked["checkpoint_seconds"] = parse_seconds("checkpoint_seconds", seconds)
    changes = field_flags.read(options)
    out: Path | None = options.out
    if options.resume:
        if out is None:
            raise UserError("--resume needs the run's folder: --out RUN")
        settings = _resumed(run_folder.load_settings(out), asked, changes)
    else:
        settings = _fresh(changes, **asked)
        out = out or run_folder.default_path(settings)
        run_folder.check_free(out)
    # A missing extra, continuous actions, a network that does not fit: before anything is written.
    network_template(settings)
    if warning := resources.check(settings, speaker(options.json)):
        warnings.warn(warning, stacklevel=2)
    _train(settings, out, options)
    return 0


def _train(settings: Settings, out: Path, options: argparse.Namespace) -> None:
    resume = options.resume
    opened = run_folder.reopen(out, settings) if resume else run_folder.create(out, settings)
    say = speaker(options.json)
    names = "+".join(dict.fromkeys(lane.agent for lane in settings.lanes))
    count = len(settings.lanes)
    lanes = f", {count} lanes" if count > 1 else ""
    own = _import_again(settings, options.imports)
    say(f"{names} on {settings.env}, {settings.steps:,} steps{lanes}")
    say(f"run: {out}")
    if settings.listing.suite.asynchronous:
        emulators = count * settings.config.envs
        say(f"starting {emulators} emulators, about a tenth of a second each …")
    training: Training | None = None
    try:
        training = Training(settings, opened, options.track)
        training.start()
        if training.step:
            say(f"resumed at step {training.step:,}")
        with show_progress(names) as watch:
            watchers = [watch] if options.tether is None else [watch, write_heartbeats(out)]

            def tell(progress: Progress) -> None:
                for each in watchers:
                    each(progress)

            training.run(tell)
        _finish(training, out, say, own, options.json)
    except TrainingDiverged as error:
        opened.write_result({"status": "diverged", "error": str(error)})
        kept = list_checkpoints(out)
        where = f"the last good checkpoint is {kept[-1]}" if kept else "there was no checkpoint yet"
        raise TrainingDiverged(f"{error}; {where}") from None
    except (Interrupted, KeyboardInterrupt):
        say(f"to go on: {program()} train --resume --out {shlex.quote(str(out))}{own}")
        raise
    finally:
        if training is not None:
            training.close()
        else:
            opened.close()


def _fresh(
    changes: dict[str, Any],
    *,
    agent: str | None,
    env: str | None,
    seed: int | None,
    seeds: int | None,
    **asked: Any,
) -> Settings:
    if "," in (env or ""):
        raise UserError(
            "train takes one environment; for several: "
            f"{program()} sweep --agents {agent or DEFAULT_AGENT} --envs {env}"
        )
    first = seed or 0
    return make_settings(
        (DEFAULT_AGENT if agent is None else agent).split(","),
        env or DEFAULT_ENVIRONMENT,
        seeds=list(range(first, first + (seeds or 1))),
        changes=changes,
        **asked,
    ).begun()


def _resumed(saved: Settings, asked: dict[str, Any], changes: dict[str, Any]) -> Settings:
    """The run's settings with what was asked for on top; `folder.reopen` refuses differences."""
    own = {
        "agent": ",".join(dict.fromkeys(lane.agent for lane in saved.lanes)),
        "env": saved.env,
        "seed": saved.lanes[0].seed,
        "seeds": len({lane.seed for lane in saved.lanes}),
        **{name: getattr(saved, name) for name in _OF_THE_RUN},
    }
    asked = own | {k: v for k, v in asked.items() if v is not None}
    changes = {name: as_begun(x, getattr(saved.config, name)) for name, x in changes.items()}
    return _fresh(dict(saved.changes) | changes, **asked)


def _finish(training: Training, out: Path, say: Any, own: str, as_json: bool) -> None:
    """The score beside random play and a known one, a picture, and what to try next."""
    # Here and not above: matplotlib would be a second before every run and every resume.
    from munchausen._src.evidence.figures.learning_curve import (
        curves,
        save_learning_curve,
        seed_mean,
        sparkline,
    )

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
    references = {}
    if (score_of_random := random_score(settings.env)) is not None:
        references["random play"] = score_of_random
    if (reference := published(settings.env, agents[0])) is not None:
        references[reference.what] = reference.score
    # The legend names them all; more than two would not fit.
    title = f"{' and '.join(agents)} on {settings.env}" if len(agents) < 3 else settings.env
    if training.folder is not None:
        training.folder.write_result({"status": "finished", **result})
    with writing(out):
        save_learning_curve(rows, out / CURVE, title=title, references=references)
    say("")
    for name, (_, values) in curves(rows, "score_100").items():
        mean = seed_mean(values)
        mine = [s for s, lane in zip(scores, settings.lanes, strict=True) if lane.agent == name]
        mine = [s for s in mine if s is not None]
        text = f"{np.mean(mine):.2f}" if mine else "no episode ended"
        say(f"  {name:<26} {text:>8}   {sparkline(mean)}")
    for label, value in references.items():
        say(f"  {label:<26} {value:>8.2f}")
    say("")
    say("score: mean return of the last 100 training episodes")
    say(f"curve: {out / CURVE}")
    frames = settings.listing.suite.frames_per_step
    say(f"speed: {speed_in_words(speed, frames)}" if speed else "speed: no steps were left to take")
    say(f"next:  {program()} evaluate {shlex.quote(str(out))}{own}")
    for other in [name for name in ("adam-dqn", "m-dqn") if name not in agents][:1]:
        say(f"       {program()} train {other} --env {settings.env}{own}     to compare")
    if as_json:
        print(json.dumps(result))


def _import_again(settings: Settings, imports: list[str]) -> str:
    """What a later command must say of an environment or agent that a module registers."""
    modules = dict.fromkeys([*imports, module_of(settings.env)])
    return "".join(f" --import {module}" for module in modules if module)
