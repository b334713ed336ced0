"""Two small MDPs built by hand, on which the bounds are nearly attained and misprints show."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from munchausen._src.tabular.mdp import MDP, make_mdp


def decision(discount: float) -> MDP:
    """State 0 stays with reward 1 (action 0) or 0 (action 1); state 1 leads there for nothing.

    One persistent wrong choice costs 1/(1−γ) at state 0, seen from state 1 times γ.
    """
    p = np.zeros((2, 2, 2))
    p[:, :, 0] = 1.0
    return make_mdp(p, [[1.0, 0.0], [0.0, 0.0]], discount)


def mirage(discount: float, steps: int) -> tuple[MDP, Float[Array, "S A"]]:
    """An MDP and a q_0 within its bounds after which `steps` iterations of VI still err for ever.

    From state 0, action 1 walks down a corridor without rewards and action 0 waits, at a cost.
    Of the corridor's cells q_0 overrates the one reached after `steps` − 1 moves (to +v_max) and
    underrates the next, where it ends (to −v_max). So seen `steps` ahead it is always best to
    wait once more before leaving, and the greedy policy waits for ever, losing almost
    2 γ^steps v_max each time. One state apart pays 1, so that r_max = 1.
    """
    end, apart = steps, steps + 1
    v_max = 1 / (1 - discount)
    p = np.zeros((steps + 2, 2, steps + 2))
    for cell in range(1, end + 1):
        p[cell, :, min(cell + 1, end)] = 1.0
    p[0, 0, 0] = p[0, 1, 1] = p[apart, :, apart] = 1.0
    r = np.zeros((steps + 2, 2))
    r[0, 0] = -0.999 * 2 * discount**steps * v_max
    r[apart] = 1.0
    q_0 = np.zeros((steps + 2, 2))
    q_0[0] = q_0[end] = -v_max
    q_0[end - 1] = q_0[apart] = v_max
    return make_mdp(p, r, discount), jnp.asarray(q_0)
