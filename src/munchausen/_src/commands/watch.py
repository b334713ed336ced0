"""`munchausen watch`: a video of a trained agent at play."""

import argparse
import json
from pathlib import Path

import numpy as np

from munchausen._src.agents.fields import parse_probability
from munchausen._src.commands.console import speaker, whole
from munchausen._src.errors import UserError, refused
from munchausen._src.evidence.figures.play_video import draw, write_gif, write_mp4
from munchausen._src.experiment.playing import Moment, play
from munchausen._src.experiment.policy import load_policy, load_run
from munchausen._src.experiment.settings import check_seed
from munchausen._src.suites import action_names

DESCRIPTION = """\
Play one episode and write an MP4 and a GIF with the game, the Q-value and probability of each
action, and the action gap over time. Needs no screen.

  munchausen watch runs/NAME                        watch.mp4 and watch.gif in the run's folder
  munchausen watch runs/NAME --steps 500 --out clip.mp4
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's folder or a saved agent")
    parser.add_argument("--out", type=Path, help="the video (default watch.mp4 in the run)")
    parser.add_argument(
        "--steps", default="2000", help="stop there if the episode goes on (default 2,000)"
    )
    parser.add_argument("--epsilon", help="probability of a random action (default 0.001)")
    parser.add_argument("--seed", default="0", help="seed of the episode (default 0)")
    parser.add_argument("--lane", default="0", help="which lane of a run of several (default 0)")
    parser.add_argument("--fps", default="15", help="steps shown a second (default 15)")
    parser.add_argument("--no-gif", action="store_true", help="the MP4 alone")


def run(options: argparse.Namespace) -> int:
    lane = whole("lane", options.lane, 0) or 0
    policy = load_policy(options.run) if options.run.is_file() else load_run(options.run, lane)
    config = policy.settings.config
    epsilon = config.evaluation_epsilon
    if options.epsilon is not None:
        epsilon = parse_probability("epsilon", options.epsilon)
    folder = options.run if options.run.is_dir() else options.run.parent
    out = options.out or folder / "watch.mp4"
    if out.suffix != ".mp4":
        raise UserError(f"--out must end in .mp4, not {out.name}")
    if not out.parent.is_dir():
        raise UserError(f"there is no folder {out.parent}")
    _check_writable(out)
    fps = whole("fps", options.fps, 1) or 15
    seed = whole("seed", options.seed, 0) or 0
    check_seed(seed)
    spec = policy.settings.lanes[policy.lane]
    say = speaker(options.json)
    title = f"{spec.agent} on {policy.settings.env}"
    say(f"playing {title}, trained for {policy.step:,} steps …")
    seen: list[Moment] = []

    def moments():
        for moment in play(
            policy,
            epsilon=epsilon,
            seed=seed,
            max_steps=whole("steps", options.steps, 1) or 2000,
        ):
            seen.append(moment._replace(screen=np.zeros(0)))
            yield moment

    kept: list[np.ndarray] | None = None if options.no_gif else []
    pictures = draw(moments(), title, action_names(policy.settings.listing), kept)
    count = write_mp4(pictures, out, fps)
    files = [str(out)]
    if kept:
        gif = out.with_suffix(".gif")
        write_gif(kept, gif, fps)
        files.append(str(gif))
    score, ended = sum(moment.reward for moment in seen), seen[-1].over
    if options.json:
        print(json.dumps({"files": files, "steps": count, "score": score, "ended": ended}))
        return 0
    so_far = "" if ended else " so far: the episode goes on (--steps shows more of it)"
    say(f"{count:,} steps, score {score:g}{so_far}")
    for file in files:
        say(f"video: {file}")
    return 0


def _check_writable(path: Path) -> None:
    """Said now, and not after the game."""
    there = path.exists()
    with refused(f"write {path}", "; name another --out"):
        open(path, "ab").close()
    if not there:
        path.unlink()
