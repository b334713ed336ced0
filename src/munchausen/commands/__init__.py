"""One module a command: `HELP`, `DESCRIPTION`, `configure(parser)` and `run(options)`, which
returns the exit code. Bad input raises `UserError` before anything is written."""

from types import ModuleType

from munchausen.commands import (
    agents,
    bench,
    envs,
    evaluate,
    report,
    sweep,
    theory,
    train,
    watch,
)

COMMANDS: dict[str, ModuleType] = {
    "train": train,
    "evaluate": evaluate,
    "watch": watch,
    "sweep": sweep,
    "report": report,
    "agents": agents,
    "envs": envs,
    "bench": bench,
    "theory": theory,
}
