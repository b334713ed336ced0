"""The command line. `munchausen train` with no further word trains M-DQN on MinAtar Breakout."""

import argparse
import os
import sys
import warnings
from pathlib import Path
from typing import Any, NoReturn

from munchausen import commands
from munchausen.agent.config import FIELDS, HINTS, parse_value
from munchausen.agent.presets import DEFAULT_AGENT
from munchausen.envs import DEFAULT_ENVIRONMENT
from munchausen.errors import TrainingDiverged, UserError, unknown
from munchausen.experiment.training import Interrupted

TRAIN_HELP = """\
Train an agent. A run is a folder with its configuration, records and checkpoints.

  munchausen train                                    M-DQN on MinAtar Breakout
  munchausen train m-iqn --env minatar/asterix --steps 1_000_000
  munchausen train m-dqn --env gym/CartPole-v1 --seeds 4
  munchausen train adam-dqn,soft-dqn,al,m-dqn --seeds 3    side by side in one program
  munchausen train --alpha 0.5 --n-step 3             any field can be changed
  munchausen train --resume --out runs/NAME           go on where it was cut
"""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def make_parser() -> Parser:
    parser = Parser(
        prog="munchausen",
        description="Munchausen reinforcement learning: every agent of the paper, exact and fast.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_version())
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, help: str, **kwargs: Any) -> argparse.ArgumentParser:
        sub = subparsers.add_parser(
            name,
            help=help,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **kwargs,
        )
        sub.add_argument("--json", action="store_true", help="print JSON for machines")
        return sub

    train = command("train", "train an agent", description=TRAIN_HELP)
    train.add_argument(
        "agent",
        nargs="?",
        metavar="AGENT",
        help=f"one of `munchausen agents` (default {DEFAULT_AGENT}), or several with commas",
    )
    train.add_argument("--env", help=f"one of `munchausen envs` (default {DEFAULT_ENVIRONMENT})")
    train.add_argument("--steps", help="agent steps (default: the environment's)")
    train.add_argument("--seed", help="the run's seed (default 0)")
    train.add_argument("--seeds", help="train so many seeds side by side, from --seed on")
    train.add_argument("--out", type=Path, help="the run's folder (default: under runs/)")
    train.add_argument("--resume", action="store_true", help="go on with the run in --out")
    train.add_argument("--iteration-steps", help="steps between rows of the records")
    train.add_argument("--checkpoint-seconds", help="least time between checkpoints (default 30)")
    fields = train.add_argument_group("fields of the agent, by default the preset's")
    for name, field in FIELDS.items():
        fields.add_argument(
            _flag(name), dest=name, metavar="X", help=field.metadata["help"].replace("%", "%%")
        )

    evaluate = command(
        "evaluate",
        "play whole episodes with a trained agent",
        description="Play whole episodes with the agent of a run or of a saved file.",
    )
    evaluate.add_argument("run", type=Path, metavar="RUN", help="a run's folder or a saved agent")
    evaluate.add_argument("--episodes", default="100", help="episodes to play (default 100)")
    evaluate.add_argument("--epsilon", help="probability of a random action (default 0.001)")
    evaluate.add_argument("--seed", default="0", help="seed of the episodes (default 0)")
    evaluate.add_argument("--lane", default="0", help="which lane of a run of several (default 0)")

    agents = command(
        "agents",
        "list the agents, or show one",
        description="The agents with the numbers that tell them apart; with a name, every field.",
    )
    agents.add_argument("agent", nargs="?", metavar="AGENT", help="show every field of this one")
    agents.add_argument(
        "--env", help="with the numbers for this environment (default: the paper's)"
    )
    command("envs", "list the environments", description="The environments there are presets for.")
    return parser


def main(arguments: list[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    try:
        options = _parse(arguments)
        _use_compilation_cache()
        if options.command == "train":
            changes = {name: getattr(options, name) for name in FIELDS}
            changes = {k: parse_value(k, HINTS[k], v) for k, v in changes.items() if v is not None}
            commands.train(
                options.agent,
                options.env,
                steps=_number("steps", options.steps, 1),
                seed=_number("seed", options.seed, 0),
                seeds=_number("seeds", options.seeds, 1),
                out=options.out,
                resume=options.resume,
                iteration_steps=_number("iteration_steps", options.iteration_steps, 1),
                checkpoint_seconds=_seconds(options.checkpoint_seconds),
                changes=changes,
                as_json=options.json,
            )
        elif options.command == "evaluate":
            epsilon = options.epsilon
            commands.evaluate(
                options.run,
                episodes=_number("episodes", options.episodes, 1) or 100,
                epsilon=None if epsilon is None else parse_value("epsilon", float, epsilon),
                seed=_number("seed", options.seed, 0) or 0,
                lane=_number("lane", options.lane, 0) or 0,
                as_json=options.json,
            )
        elif options.command == "agents":
            commands.agents(options.agent, options.env, as_json=options.json)
        else:
            commands.envs(as_json=options.json)
    except UserError as error:
        print(f"munchausen: {error}", file=sys.stderr)
        return 2
    except TrainingDiverged as error:
        print(f"munchausen: {error}", file=sys.stderr)
        return 1
    except Interrupted as stop:
        print(f"munchausen: {stop}", file=sys.stderr)
        return 128 + stop.number
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `munchausen agents | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = make_parser()
    # argparse takes '-inf' and '-1e-3' for flags.
    joined: list[str] = []
    for argument in arguments:
        if argument.startswith("-") and _is_number(argument) and joined:
            joined[-1] += "=" + argument
        else:
            joined.append(argument)
    if not joined:
        raise UserError("give a command: train, evaluate, agents or envs; see munchausen --help")
    options, rest = parser.parse_known_args(joined)
    if rest:
        flag = rest[0].split("=")[0]
        if flag.startswith("-"):
            flags = [o for o in _flags(parser, options.command) if o.startswith("--")]
            raise unknown("option", flag, flags)
        raise UserError(f"unexpected {rest[0]!r}; see munchausen {options.command} --help")
    return options


def _flags(parser: argparse.ArgumentParser, command: str) -> list[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return list(action.choices[command]._option_string_actions)
    return []


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _number(name: str, value: str | None, low: int) -> int | None:
    if value is None:
        return None
    number = parse_value(name, int, value)
    if number < low:
        raise UserError(f"{name} must be at least {low}, not {number}")
    return number


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _seconds(value: str | None) -> float | None:
    if value is None:
        return None
    seconds = parse_value("checkpoint_seconds", float, value)
    if not 0 <= seconds < float("inf"):
        raise UserError(f"checkpoint_seconds must be at least 0 and finite, not {value}")
    return seconds


def _use_compilation_cache() -> None:
    """Programs compiled once are kept for the next run of the same kind."""
    import jax

    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = os.environ.get("MUNCHAUSEN_CACHE_DIR", str(home / "munchausen" / "jax"))
    if folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _version() -> str:
    from munchausen import __version__

    return __version__


def entry() -> NoReturn:
    sys.exit(main())
