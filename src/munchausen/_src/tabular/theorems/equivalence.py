"""Theorem 1: Munchausen value iteration is mirror descent value iteration in disguise."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from munchausen._src.tabular.iteration import History, iterate
from munchausen._src.tabular.mdp import MDP
from munchausen._src.tabular.noise import Gaussian, Given
from munchausen._src.tabular.schemes import MirrorDescentVI, MunchausenVI, State, log_softmax
from munchausen._src.tabular.theorems.printed import PrintedMirrorDescentVI
from munchausen._src.tabular.theorems.report import Theorem, draw_alpha, draw_tau, largest

ITERATIONS = 200


def measure(mdp: MDP, key: PRNGKeyArray):
    """Both schemes from a random q_0 and a random π_0, with the same errors.

    π_0 is not uniform: from a uniform one the printed initial condition differs from the right
    one by a constant, which no policy sees.
    """
    alpha_key, tau_key, q_key, policy_key, error_key = jax.random.split(key, 5)
    alpha, tau = draw_alpha(alpha_key), draw_tau(tau_key)
    q_0 = jax.random.normal(q_key, mdp.rewards.shape)
    log_pi_0 = log_softmax(jax.random.normal(policy_key, mdp.rewards.shape), 1.0)
    ours = iterate(
        MunchausenVI(alpha, tau), mdp, State(q_0, log_pi_0), ITERATIONS, Gaussian(0.3), error_key
    )
    source = Given(ours.errors)

    def mirror(scheme: MirrorDescentVI, start_q) -> History:
        return iterate(scheme, mdp, State(start_q, log_pi_0), ITERATIONS, source)

    weights = alpha * tau, (1 - alpha) * tau
    right_start = q_0 - alpha * tau * log_pi_0
    theirs = mirror(MirrorDescentVI(*weights), right_start)
    other_start = mirror(MirrorDescentVI(*weights), q_0 - tau * log_pi_0)
    other_sign = mirror(PrintedMirrorDescentVI(*weights), right_start)
    q_prime = ours.q - alpha * tau * ours.log_policy
    return {
        "residual": largest(ours.policy - theirs.policy),
        "relative_residual_of_values": largest(q_prime - theirs.q)
        / jnp.maximum(largest(theirs.q), 1.0),
        "printed_start": largest(ours.policy - other_start.policy),
        "printed_sign": largest(ours.policy - other_sign.policy),
    }


THEOREMS = (
    Theorem(
        name="theorem-1",
        source="Theorem 1",
        statement="M-VI(α, τ) and MD-VI(ατ, (1−α)τ) have the same policies, "
        f"{ITERATIONS} iterations with errors, from q'_0 = q_0 − ατ ln π_0",
        tolerance=1e-10,
        measure=measure,
        printed={
            "printed_start": "q'_0 = q_0 − τ ln π_0",
            "printed_sign": "… − (1−α)τH(π_{k+1}) in the evaluation step",
        },
    ),
)
