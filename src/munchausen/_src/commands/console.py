"""What commands share: reading numbers, printing tables, speaking to people or machines."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from munchausen._src.agents.fields import parse_whole
from munchausen._src.suites import import_by_name, module_of


def whole(name: str, value: str | None, low: int) -> int | None:
    """A whole number of the command line, at least `low`."""
    if value is None:
        return None
    return parse_whole(name, value, low)


def table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    cells = [list(columns)]
    cells += [["" if r[c] is None else printable(str(r[c])) for c in columns] for r in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())


def printable(text: str) -> str:
    """Without what a terminal would obey: names and messages may come from anywhere."""
    return "".join(c if c.isprintable() else "�" for c in text)


def program() -> str:
    """How this program was called, so that the next line can be copied as it stands."""
    return "uv run munchausen" if "UV_RUN_RECURSION_DEPTH" in os.environ else "munchausen"


def import_named(modules: Iterable[str], envs: Iterable[str]) -> None:
    """Modules that the user names, by themselves or in `gym/module:ID`. They are found from here,
    as a script's would be."""
    named = [*modules, *filter(None, map(module_of, envs))]
    if named:
        sys.path.insert(0, os.getcwd())
    for module in named:
        import_by_name(module)


def speaker(as_json: bool) -> Callable[[str], None]:
    """With --json standard output is for the machine, so words go to the other stream."""
    return lambda text: print(text, file=sys.stderr if as_json else sys.stdout, flush=True)
