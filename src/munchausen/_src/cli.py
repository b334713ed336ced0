"""The command line. `munchausen train` with no further word trains M-DQN on MinAtar Breakout."""

import argparse
import importlib
import os
import sys
import warnings
from typing import Any, NoReturn

from munchausen import __version__
from munchausen._src.commands import COMMANDS
from munchausen._src.errors import StorageError, TrainingDiverged, UserError, unknown
from munchausen._src.experiment.stopping import Interrupted
from munchausen._src.kernels.program_cache import use_program_cache


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def make_parser(chosen: str | None) -> Parser:
    """Of all commands; with the options of the one that was chosen, which is imported."""
    parser = Parser(
        prog="munchausen",
        description="Munchausen reinforcement learning: every agent of the paper, exact and fast.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    for name, purpose in COMMANDS.items():
        if name != chosen:
            subparsers.add_parser(name, help=purpose)
            continue
        command = _module(name)
        sub = subparsers.add_parser(
            name,
            help=purpose,
            description=command.DESCRIPTION,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_argument("--json", action="store_true", help="print JSON for machines")
        if name != "theory":
            sub.add_argument(
                "--import",
                dest="imports",
                action="append",
                default=[],
                metavar="MODULE",
                help="import this first: it registers environments or agents of your own",
            )
        command.configure(sub)
    return parser


def _module(name: str) -> Any:
    return importlib.import_module(f"munchausen._src.commands.{name}")


def main(arguments: list[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    try:
        options = _parse(arguments)
        use_program_cache()
        from munchausen._src.commands.console import import_named  # not for `--help`: it is slow

        import_named(getattr(options, "imports", []), [getattr(options, "env", None) or ""])
        return _module(options.command).run(options)
    except UserError as error:
        print(f"munchausen: {error}", file=sys.stderr)
        return 2
    except (TrainingDiverged, StorageError) as error:
        print(f"munchausen: {error}", file=sys.stderr)
        return 1
    except Interrupted as stop:
        print(f"munchausen: {stop}", file=sys.stderr)
        return 128 + stop.number
    except KeyboardInterrupt:
        print("munchausen: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `munchausen agents | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _parse(arguments: list[str]) -> argparse.Namespace:
    # argparse takes '-inf' and '-1e-3' for flags.
    joined: list[str] = []
    for argument in arguments:
        if argument.startswith("-") and _is_number(argument) and joined:
            joined[-1] += "=" + argument
        else:
            joined.append(argument)
    if not joined:
        names = ", ".join(COMMANDS)
        raise UserError(f"give a command: {names}; see munchausen --help")
    if not joined[0].startswith("-") and joined[0] not in COMMANDS:
        raise unknown("command", joined[0], COMMANDS)
    parser = make_parser(joined[0])
    options, rest = parser.parse_known_args(joined)
    if rest:
        flag = rest[0].split("=")[0]
        if flag.startswith("-"):
            raise unknown("option", flag, _flags(parser, options.command))
        raise UserError(f"unexpected {rest[0]!r}; see munchausen {options.command} --help")
    return options


def _flags(parser: argparse.ArgumentParser, command: str) -> list[str]:
    """The long ones that are shown."""
    [subparsers] = [x for x in parser._actions if isinstance(x, argparse._SubParsersAction)]
    options = subparsers.choices[command]._option_string_actions
    shown = (name for name, option in options.items() if option.help != argparse.SUPPRESS)
    return [name for name in shown if name.startswith("--")]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def entry() -> NoReturn:
    sys.exit(main())
