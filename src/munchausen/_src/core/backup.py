"""The Munchausen backup: the paper in one small function.

With τ ln π = q − v_τ(q), one backup covers the whole family:

    r̃ = r + α · clip(τ ln π(a|s), l0, 0)
    y = r̃ + γ · ⟨π(·|s'), q(s', ·) − τ ln π(·|s')⟩

| agents                          | α   | τ                | l0 |
|---------------------------------|-----|------------------|----|
| DQN, C51, QR-DQN, IQN, Rainbow  | 0   | 0                | –  |
| Soft-DQN                        | 0   | 0.03             | –  |
| AL                              | 0.9 | 0                | −∞ |
| M-DQN, M-IQN, M-anything        | 0.9 | 0.03             | −1 |

A head pushes its own estimate of the return (a value, quantiles, atoms) through the
`Backup`; nothing here knows which head it is.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from munchausen._src.core.operators import Scalar, policy, scaled_log_policy


class Regulariser(NamedTuple):
    """What makes an agent Munchausen. Each may be traced: agents that differ only here
    can share one compiled program."""

    alpha: Scalar  # weight of the scaled log-policy in the reward, in [0, 1]
    tau: Scalar  # temperature of the entropy, >= 0
    clip_min: Scalar  # l0 <= 0, the lower clip of τ ln π (not of ln π)


class Backup(NamedTuple):
    """The affine map of returns at s' to returns at (s, a), and the policy that mixes them."""

    reward_t: Float[Array, ""]  # r̃: the reward with the Munchausen term
    discount_t: Float[Array, ""]  # γⁿ, 0 after termination
    policy_t: Float[Array, " A"]  # π(·|s')
    bonus_t: Float[Array, " A"]  # −τ ln π(·|s'), the entropy's share of the return

    def returns(self, returns_t: Float[Array, "*N A"]) -> Float[Array, "*N A"]:
        """Each return that follows an action at s', seen from (s, a)."""
        return self.reward_t + self.discount_t * (returns_t + self.bonus_t)

    def expectation(self, returns_t: Float[Array, "*N A"]) -> Float[Array, "*N"]:
        """The policy's mean over actions of `returns`."""
        mixed = jnp.sum(self.policy_t * (returns_t + self.bonus_t), axis=-1)
        return self.reward_t + self.discount_t * mixed


def munchausen_term(
    regulariser: Regulariser, q_tm1: Float[Array, " A"], a_tm1: Int[Array, ""]
) -> Float[Array, ""]:
    """α · clip(τ ln π(a|s), l0, 0), eq. (1) and Sec. 3 of the paper."""
    alpha, tau, clip_min = regulariser
    return alpha * jnp.clip(scaled_log_policy(q_tm1, tau)[a_tm1], clip_min, 0.0)


def backup(
    regulariser: Regulariser,
    q_tm1: Float[Array, " A"] | None,
    a_tm1: Int[Array, ""],
    r_t: Float[Array, ""],
    discount_t: Float[Array, ""],
    q_t: Float[Array, " A"],
) -> Backup:
    """The backup at one transition, or at one n-step fold of transitions.

    `q_tm1` and `q_t` are the **target** network's values: both policies come from it.
    With n steps `r_t` is Σ γᵏ r_k and `discount_t` is γⁿ; the Munchausen term enters once,
    undiscounted, at the first state. `q_tm1` is None where α is 0 for certain: DQN then
    needs no target values at s.
    """
    if q_tm1 is not None:
        r_t = r_t + munchausen_term(regulariser, q_tm1, a_tm1)
    tau = regulariser.tau
    return Backup(r_t, discount_t, policy(q_t, tau), -scaled_log_policy(q_t, tau))


def q_target(
    regulariser: Regulariser,
    q_tm1: Float[Array, " A"],
    a_tm1: Int[Array, ""],
    r_t: Float[Array, ""],
    discount_t: Float[Array, ""],
    q_t: Float[Array, " A"],
) -> Float[Array, ""]:
    """What Q-learning moves q(s, a) towards: r̃ + γ ⟨π, q' − τ ln π⟩.

    Args:
        regulariser: α, τ and l0. (0, 0, any) is DQN, (0.9, 0.03, −1) is M-DQN.
        q_tm1: the target network's values at s.
        a_tm1: the action taken there.
        r_t: its reward.
        discount_t: γ, or 0 where the episode terminated.
        q_t: the target network's values at s'.

    Returns:
        One number; `jax.vmap` makes a batch of it. No gradient goes through a target network.
    """
    return backup(regulariser, q_tm1, a_tm1, r_t, discount_t, q_t).expectation(q_t)
