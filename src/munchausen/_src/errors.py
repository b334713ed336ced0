"""Mistakes of a user: one or two lines with a suggestion, exit code 2, never a traceback."""

import contextlib
import difflib
import importlib.util
import json
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


class UserError(Exception):
    """Bad input. The command line prints it and exits with 2."""


class StorageError(Exception):
    """Something could not be written: a full disk, a lost mount. Exits with 1."""


@contextlib.contextmanager
def writing(place: Path | str) -> Iterator[None]:
    """Turns an `OSError` while writing into a `StorageError`. Wrap only code that writes to a run's
    folder: an `OSError` raised by a user's environment is not a full disk."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot write to {place}: {error.strerror or error}; what was written before is "
            "intact: free some space and go on with --resume"
        ) from error


@contextlib.contextmanager
def refused(doing: str, then: str = "") -> Iterator[None]:
    """Around a first write to where a user said. Where it cannot be done they are told, with what
    to do `then`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot {doing}: {error.strerror}{then}") from error


class TrainingDiverged(Exception):
    """A loss, a Q-value or what an environment gave is NaN or infinite. Exits with 1."""


def install_line(extra: str) -> str:
    """What installs an extra: from where this package came, by the tool that is there."""
    tool = "pip" if importlib.util.find_spec("pip") else "uv pip"
    return f"{tool} install '{_source()}[{extra}]'"


def _source() -> str:
    """The folder it was installed from, or its name."""
    try:
        data = json.loads(distribution("munchausen").read_text("direct_url.json") or "{}")
        return url2pathname(urlsplit(data["url"]).path) if "dir_info" in data else "munchausen"
    except (PackageNotFoundError, ValueError, KeyError):
        return "munchausen"


def unknown(what: str, name: str, known: Iterable[str], there_are: str = "") -> UserError:
    """Such as "unknown agent 'mdqn'; did you mean 'm-dqn'?". If no name is similar, lists all known
    names, or says `there_are` instead."""
    known = list(known)
    if near := nearest(name, known):
        names = " or ".join(repr(k) for k in near)
        return UserError(f"unknown {what} {name!r}; did you mean {names}?")
    return UserError(f"unknown {what} {name!r}; there are: {there_are or ', '.join(known)}")


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three that may have been meant, the nearest first."""
    likeness = {k: _likeness(name, k) for k in known}
    best = max(likeness.values(), default=0.0)
    near = sorted((k for k, x in likeness.items() if x >= max(0.65, best - 0.08)), key=likeness.get)  # type: ignore[arg-type]
    return near[:-4:-1]


def _likeness(a: str, b: str) -> float:
    """From 0 to 1. Case, hyphens and what stands before a slash are the common slips."""
    pairs = ((a, b), (a.split("/")[-1], b.split("/")[-1]))
    return max(difflib.SequenceMatcher(None, bare(x), bare(y)).ratio() for x, y in pairs)


def bare(text: str) -> str:
    """Letters and digits alone: how names are compared that people spell in their own way."""
    return "".join(c for c in text.lower() if c.isalnum())
