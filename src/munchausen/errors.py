"""Mistakes of a user: one or two lines with a suggestion, exit code 2, never a traceback."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad input. The command line prints it and exits with 2."""


class StorageError(Exception):
    """Something could not be written: a full disk, a lost mount."""


class TrainingDiverged(Exception):
    """A loss or a Q-value became NaN or infinite. The command line exits with 1."""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """'unknown agent 'mdqn'; did you mean 'm-dqn'?', or the whole list if nothing is near."""
    known = list(known)
    likeness = {k: _likeness(name, k) for k in known}
    best = max(likeness.values(), default=0.0)
    near = sorted((k for k in known if likeness[k] >= max(0.7, best - 0.08)), key=likeness.get)  # type: ignore[arg-type]
    if near:
        names = " or ".join(repr(k) for k in near[:-4:-1])
        return UserError(f"unknown {what} {name!r}; did you mean {names}?")
    return UserError(f"unknown {what} {name!r}; there are: {', '.join(known)}")


def _likeness(a: str, b: str) -> float:
    """From 0 to 1. Case, hyphens and what stands before a slash are the common slips."""
    pairs = ((a, b), (a.split("/")[-1], b.split("/")[-1]))
    return max(difflib.SequenceMatcher(None, _bare(x), _bare(y)).ratio() for x, y in pairs)


def _bare(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())
