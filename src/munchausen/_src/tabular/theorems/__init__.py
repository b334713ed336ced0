"""Every statement of the paper's analysis as a function that returns its residual."""

from munchausen._src.errors import unknown
from munchausen._src.tabular.theorems.action_gap import DIVERGENCE, LIMIT, THEOREM_2
from munchausen._src.tabular.theorems.averaging import COROLLARY_1, SUP_BOUND
from munchausen._src.tabular.theorems.equivalence import THEOREM_1
from munchausen._src.tabular.theorems.identities import AL, BIAS, CVI, DPP, ERROR, LEGENDRE, SOFT
from munchausen._src.tabular.theorems.moving_average import COROLLARY_2
from munchausen._src.tabular.theorems.report import Printed, Result, Theorem, run

THEOREMS: dict[str, Theorem] = {
    theorem.name: theorem
    for theorem in (
        THEOREM_1,
        THEOREM_2,
        DIVERGENCE,
        LIMIT,
        SUP_BOUND,
        COROLLARY_1,
        COROLLARY_2,
        CVI,
        AL,
        DPP,
        SOFT,
        BIAS,
        LEGENDRE,
        ERROR,
    )
}


def find_theorem(name: str) -> Theorem:
    if name not in THEOREMS:
        raise unknown("theorem", name, THEOREMS)
    return THEOREMS[name]


__all__ = ["THEOREMS", "Printed", "Result", "Theorem", "find_theorem", "run"]
