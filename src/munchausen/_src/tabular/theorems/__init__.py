"""Every statement of the paper's analysis as a function that returns its residual."""

from munchausen._src.errors import unknown
from munchausen._src.tabular.theorems import (
    action_gap,
    averaging,
    equivalence,
    identities,
    moving_average,
)
from munchausen._src.tabular.theorems.report import Theorem, run

_MODULES = (equivalence, action_gap, averaging, moving_average, identities)
THEOREMS: dict[str, Theorem] = {t.name: t for module in _MODULES for t in module.THEOREMS}


def find_theorem(name: str) -> Theorem:
    if name not in THEOREMS:
        raise unknown("theorem", name, THEOREMS)
    return THEOREMS[name]


__all__ = ["THEOREMS", "find_theorem", "run"]
