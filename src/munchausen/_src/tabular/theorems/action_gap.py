"""Theorem 2 and the limit it rests on: how far M-VI pulls the actions' values apart."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from munchausen._src.core.operators import Scalar, scaled_log_policy, soft_value
from munchausen._src.tabular.iteration import final_state, start
from munchausen._src.tabular.mdp import MDP
from munchausen._src.tabular.schemes import MunchausenVI
from munchausen._src.tabular.solvers import optimal_q
from munchausen._src.tabular.theorems import printed
from munchausen._src.tabular.theorems.report import (
    Measurements,
    Theorem,
    draw_alpha,
    draw_tau,
    largest,
    violation,
)

ALPHAS = (0.3, 0.5, 0.9)
# Errors of the start fall as max(α, γ)^k, up to a factor k: by 1e-15 at 0.95.
ITERATIONS = 800
ITERATIONS_AT_ONE = 400


def gaps(q: Float[Array, "S A"]) -> Float[Array, "S A"]:
    """δ(s) = max_a q(s, a) − q(s, ·)"""
    return jnp.max(q, axis=-1, keepdims=True) - q


def gap_factor(alpha: Scalar) -> Scalar:
    """1/(1−α) = 1 + α/(1−α)"""
    return 1 / (1 - alpha)


def limit(q_star: Float[Array, "S A"], alpha: Scalar, tau: Scalar) -> Float[Array, "S A"]:
    """lim q_k = q_*^{(1−α)τ} + ατ ln π_*^{(1−α)τ}, for α < 1."""
    scaled = scaled_log_policy(q_star, (1 - alpha) * tau)  # (1−α)τ ln π_*
    return q_star + alpha / (1 - alpha) * scaled


def limit_in_values(q_star: Float[Array, "S A"], alpha: Scalar, tau: Scalar):
    """The same without the policy: (q_* − α v_{(1−α)τ}(q_*)) / (1−α), the appendix's last line."""
    return (q_star - alpha * soft_value(q_star, (1 - alpha) * tau)[:, None]) / (1 - alpha)


def measure_factor(mdp: MDP, key: PRNGKeyArray):
    tau = draw_tau(key)

    def at(alpha):
        q_star = optimal_q(mdp, (1 - alpha) * tau)
        q = final_state(MunchausenVI(alpha, tau), mdp, start(mdp), ITERATIONS).q
        wanted, found = gaps(q_star), gaps(q)
        return {
            "residual": largest(found - gap_factor(alpha) * wanted),
            "printed_factor": largest(found - printed.gap_factor(alpha) * wanted),
            "found": jnp.sum(found),
            "wanted": jnp.sum(wanted),
        }

    out = jax.vmap(at)(jnp.array(ALPHAS))
    worst = {k: jnp.max(out[k]) for k in ("residual", "printed_factor")}
    return worst | {"found": out["found"], "wanted": out["wanted"]}


def summarise_factor(values: Measurements):
    """The measured factor at each α: the mean over MDPs, and the one farthest from it."""
    factors = values["found"] / values["wanted"]  # [M, α]
    rows = []
    for alpha, column in zip(ALPHAS, factors.T, strict=True):
        mean = float(np.mean(column))
        rows.append(
            {
                "alpha": alpha,
                "measured": mean,
                "spread": float(np.max(np.abs(column - mean))),
                "right": gap_factor(alpha),
                "printed": printed.gap_factor(alpha),
            }
        )
    return {"factors": rows}


def measure_divergence(mdp: MDP, key: PRNGKeyArray):
    """At α = 1: |δ_k − k δ_*| stays below a constant, so δ_k/k → δ_* and δ_k → ∞ unless δ_* = 0.

    With S_k = Σ_{j≤k} q'_j one has q_k = S_k up to a constant of each state, and
    S_k = q'_0 + k r + γP(v_τ(S_{k−1}) − τ ln|A|). Then u_k = S_k − k q_* obeys
    ‖u_k‖ ≤ (‖q'_0‖ + γ‖v_*‖ + γτ ln|A|)/(1−γ).
    """
    tau = draw_tau(key)
    state = start(mdp)
    q_star = optimal_q(mdp)
    q = final_state(MunchausenVI(1.0, tau), mdp, state, ITERATIONS_AT_ONE).q
    log_actions = jnp.log(mdp.actions * 1.0)
    first = largest(state.q - tau * state.log_policy)
    drift = first + mdp.discount * (largest(jnp.max(q_star, axis=-1)) + tau * log_actions)
    constant = 2 * drift / (1 - mdp.discount)
    distance = jnp.abs(gaps(q) - ITERATIONS_AT_ONE * gaps(q_star))
    return {
        "residual": violation(distance, constant),
        "largest_gap": largest(gaps(q)),
        "largest_gap_per_iteration": largest(gaps(q)) / ITERATIONS_AT_ONE,
        "largest_optimal_gap": largest(gaps(q_star)),
    }


def measure_limit(mdp: MDP, key: PRNGKeyArray):
    alpha_key, tau_key = jax.random.split(key)
    # At α = 0.99 the start would need 4,000 iterations to be forgotten.
    alpha, tau = jnp.minimum(draw_alpha(alpha_key, below_one=True), 0.95), draw_tau(tau_key)
    q_star = optimal_q(mdp, (1 - alpha) * tau)
    q = final_state(MunchausenVI(alpha, tau), mdp, start(mdp), ITERATIONS).q
    by_policy, by_values = limit(q_star, alpha, tau), limit_in_values(q_star, alpha, tau)
    return {
        "residual": jnp.maximum(largest(q - by_policy), largest(q - by_values)),
        "printed_limit": largest(q - printed.limit(q_star, alpha, tau)),
    }


THEOREMS = (
    Theorem(
        name="theorem-2",
        source="Theorem 2",
        statement="the action gap of M-VI(α, τ) tends to 1/(1−α) times that of q_*^{(1−α)τ}",
        tolerance=1e-9,
        measure=measure_factor,
        printed={"printed_factor": "(1+α)/(1−α) times"},
        summarise=summarise_factor,
    ),
    Theorem(
        name="gap-divergence",
        source="Theorem 2, α = 1",
        statement="at α = 1 the action gap grows as k times that of q_*, up to a constant",
        tolerance=1e-9,
        measure=measure_divergence,
    ),
    Theorem(
        name="limit",
        source="proof of Theorem 2",
        statement="q_k → q_*^{(1−α)τ} + ατ ln π_*^{(1−α)τ} = "
        "q_*/(1−α) − ατ ln⟨1, exp(q_*/((1−α)τ))⟩",
        tolerance=1e-9,
        measure=measure_limit,
        printed={"printed_limit": "(1+α)/(1−α) q_* − ατ/(1−α) ln⟨1, exp(q_*/((1−α)τ))⟩"},
    ),
)
