"""The paper's analysis, runnable: exact MDPs, schemes and theorems in double precision. See
`docs/theory.md`.

What is named here is public; symbols of `munchausen._src` may change at any time.
"""

from munchausen._src.tabular.families import chain_walk, garnets, grid_world
from munchausen._src.tabular.iteration import History, final_state, iterate, start
from munchausen._src.tabular.mdp import MDP, make_mdp, stack_mdps
from munchausen._src.tabular.noise import Clipped, Gaussian, Given, NoError, Sampling
from munchausen._src.tabular.precision import float64
from munchausen._src.tabular.schemes import (
    AdvantageLearning,
    ConservativeVI,
    DynamicPolicyProgramming,
    MirrorDescentVI,
    MunchausenVI,
    SoftValueIteration,
    State,
    ValueIteration,
)
from munchausen._src.tabular.solvers import optimal_q, policy_q
from munchausen._src.tabular.theorems import THEOREMS, find_theorem, run

__all__ = [
    "MDP", "THEOREMS", "AdvantageLearning", "Clipped", "ConservativeVI", "DynamicPolicyProgramming",
    "Gaussian", "Given", "History", "MirrorDescentVI", "MunchausenVI", "NoError", "Sampling",
    "SoftValueIteration", "State", "ValueIteration", "chain_walk", "final_state", "find_theorem",
    "float64", "garnets", "grid_world", "iterate", "make_mdp", "optimal_q", "policy_q", "run",
    "stack_mdps", "start",
]  # fmt: skip
