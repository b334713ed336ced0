"""`munchausen` called as from a shell, and what to expect of its refusals."""

import contextlib
import io
from pathlib import Path
from typing import NamedTuple

from munchausen._src import cli

# Small enough to train in a second once compiled. All of one shape, to be compiled once.
SMALL = [
    *("--env", "minatar/asterix", "--envs", "8", "--capacity", "4000", "--warmup-steps", "400"),
    *("--iteration-steps", "400", "--checkpoint-seconds", "0", "--network", "minatar-linear"),
]
# Quicker to compile: where any environment does.
CARTPOLE = [
    *("--env", "gym/CartPole-v1", "--envs", "4", "--capacity", "4000", "--warmup-steps", "400"),
    *("--iteration-steps", "400", "--checkpoint-seconds", "0", "--network", "mlp-small"),
    *("--batch-size", "16"),
]


class Result(NamedTuple):
    code: int
    out: str
    err: str


def munchausen(*arguments: str) -> Result:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(list(arguments))
    return Result(code, out.getvalue(), err.getvalue())


def assert_refused(result: Result, *said: str) -> None:
    """One or two lines on standard error that say what is wrong, and exit code 2."""
    assert result.code == 2, result
    assert result.out == ""
    lines = result.err.strip().splitlines()
    assert 1 <= len(lines) <= 2, result.err
    assert lines[0].startswith("munchausen: ")
    for part in said:
        assert part in result.err, result.err


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def assert_refused_late(result: Result, *said: str) -> None:
    """After the run was introduced: the last line says what is wrong."""
    assert result.code == 2, result
    assert result.out == ""
    for part in said:
        assert part in result.err.strip().splitlines()[-1]
