"""The parts that agents are made of, for a loop of your own.

Pure functions and small frozen records that work in any JAX program: no files, no environments, no
command line. `docs/your-own-loop.md` builds an agent from them in 40 lines. What is named here is
public and stays; symbols of `munchausen._src` may change at any time.
"""

from munchausen._src.core.actor import Actor, Decision
from munchausen._src.core.backup import Backup, Regulariser, backup, munchausen_term, q_target
from munchausen._src.core.heads import (
    Categorical,
    Estimate,
    Expected,
    Head,
    ImplicitQuantile,
    Loss,
    Quantile,
)
from munchausen._src.core.heads.base import huber
from munchausen._src.core.heads.categorical import project
from munchausen._src.core.heads.quantile import quantile_loss
from munchausen._src.core.learner import Learner, LearnerState, Metrics, Update, action_gap
from munchausen._src.core.network import Frozen
from munchausen._src.core.operators import policy, scaled_log_policy, soft_value
from munchausen._src.core.replay import (
    FrameReplay,
    FrameStore,
    FrameTransitions,
    Outcome,
    Sample,
    TransitionReplay,
    Transitions,
    TransitionStore,
)
from munchausen._src.core.schedules import Cosine, Exponential, Linear, Piecewise, Schedule

# fmt: off
__all__ = [
    "Actor", "Backup", "Categorical", "Cosine", "Decision", "Estimate", "Expected",
    "Exponential", "FrameReplay", "FrameStore", "FrameTransitions", "Frozen", "Head",
    "ImplicitQuantile", "Learner", "LearnerState", "Linear", "Loss", "Metrics", "Outcome",
    "Piecewise", "Quantile", "Regulariser", "Sample", "Schedule", "TransitionReplay",
    "TransitionStore", "Transitions", "Update", "action_gap", "backup", "huber",
    "munchausen_term", "policy", "project", "q_target", "quantile_loss", "scaled_log_policy",
    "soft_value",
]
# fmt: on
