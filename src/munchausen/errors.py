"""Mistakes of a user: one or two lines with a suggestion, exit code 2, never a traceback."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad input. The command line prints it and exits with 2."""


class TrainingDiverged(Exception):
    """A loss or a Q-value became NaN or infinite. The command line exits with 1."""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """'unknown agent 'mdqn'; did you mean 'm-dqn'?', or the whole list if nothing is near."""
    known = list(known)
    by_lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    # Forgotten hyphens and prefixes are the common slips: 'mdqn', 'breakout'.
    bare = "".join(c for c in name.lower() if c.isalnum())
    near += [k for k in by_lower if bare and bare in "".join(c for c in k if c.isalnum())]
    names = list(dict.fromkeys(by_lower[k] for k in near))[:3]
    if names:
        return UserError(
            f"unknown {what} {name!r}; did you mean {' or '.join(repr(n) for n in names)}?"
        )
    return UserError(f"unknown {what} {name!r}; there are: {', '.join(known)}")
