"""M-VI's relatives: CVI, DPP, soft Q-learning, AL, and the small facts the proofs lean on."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from munchausen._src.core.operators import Scalar, policy, scaled_log_policy, soft_value
from munchausen._src.tabular.iteration import iterate, start
from munchausen._src.tabular.mdp import MDP
from munchausen._src.tabular.noise import Gaussian, Given, Sampling
from munchausen._src.tabular.schemes import (
    AdvantageLearning,
    ConservativeVI,
    DynamicPolicyProgramming,
    MunchausenVI,
    SoftValueIteration,
    State,
)
from munchausen._src.tabular.solvers import entropy, inner, optimal_q
from munchausen._src.tabular.theorems import printed
from munchausen._src.tabular.theorems.report import (
    Theorem,
    draw_alpha,
    draw_tau,
    largest,
    violation,
)

ITERATIONS = 100
TEMPERATURES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)


def measure_cvi(mdp: MDP, key: PRNGKeyArray):
    """M-VI as a log-sum-exp; and CVI proper, whose q differs by c_{k+1} = γ(c_k − L) + αL with
    L = τ ln|A|, so that its policies are the same."""
    alpha_key, tau_key, error_key = jax.random.split(key, 3)
    alpha, tau = draw_alpha(alpha_key), draw_tau(tau_key)
    ours = iterate(MunchausenVI(alpha, tau), mdp, start(mdp), ITERATIONS, Gaussian(0.3), error_key)

    def log_sum_exp_form(q):  # r + γP v_τ(q) + α(q − v_τ(q)), as in Sec. 3
        v = soft_value(q, tau)
        return mdp.rewards + mdp.discount * mdp.expect(v) + alpha * (q - v[:, None])

    form = jax.vmap(log_sum_exp_form)(ours.q[:-1]) + ours.errors
    cvi = iterate(ConservativeVI(alpha, tau), mdp, start(mdp), ITERATIONS, Given(ours.errors))
    shift = tau * jnp.log(mdp.actions * 1.0)

    def next_constant(c, _):
        c = mdp.discount * (c - shift) + alpha * shift
        return c, c

    _, constants = jax.lax.scan(next_constant, jnp.asarray(0.0), length=ITERATIONS)
    difference = cvi.q[1:] - ours.q[1:] - constants[:, None, None]
    scale = jnp.maximum(largest(ours.q), 1.0)
    return {"residual": jnp.maximum(largest(form - ours.q[1:]), largest(difference)) / scale}


def al_constant(alpha: Scalar, discount: Scalar) -> Scalar:
    """C of ‖q_k^{M-VI(α, τ)} − q_k^{AL(α)}‖ ≤ C τ ln|A| for every k.

    M-VI is soft VI on h_k = (1−α) Σ_j α^{k−j} q'_j with errors that do not depend on τ but for
    the start; v_τ is within τ ln|A| of the maximum; and q_k = (h_k − α v(h_{k−1}))/(1−α).
    """
    return (1 + alpha) * (alpha + discount) / (1 - discount) + alpha


def measure_al(mdp: MDP, key: PRNGKeyArray):
    alpha_key, q_key, error_key = jax.random.split(key, 3)
    alpha = draw_alpha(alpha_key, below_one=True)
    state = start(mdp, jax.random.normal(q_key, mdp.rewards.shape))
    al = iterate(AdvantageLearning(alpha), mdp, state, ITERATIONS, Gaussian(0.3), error_key)
    source = Given(al.errors)
    constant = al_constant(alpha, mdp.discount) * jnp.log(mdp.actions * 1.0)

    def at(tau):
        q = iterate(MunchausenVI(alpha, tau), mdp, state, ITERATIONS, source).q
        return largest(q - al.q), constant * tau

    distances, bounds = jax.vmap(at)(jnp.array(TEMPERATURES))
    at_zero = iterate(MunchausenVI(alpha, 0.0), mdp, state, ITERATIONS, source).q
    other = iterate(printed.PrintedAdvantageLearning(alpha), mdp, state, ITERATIONS, source).q
    return {
        "residual": jnp.maximum(violation(distances, bounds), largest(at_zero - al.q)),
        "distance_at_1e-8": distances[-1],
        "printed_error": largest(other - at_zero),
    }


def measure_dpp(mdp: MDP, key: PRNGKeyArray):
    tau_key, error_key = jax.random.split(key)
    tau = draw_tau(tau_key)
    ours = iterate(MunchausenVI(1.0, tau), mdp, start(mdp), ITERATIONS, Sampling(3), error_key)
    dpp = iterate(DynamicPolicyProgramming(tau), mdp, start(mdp), ITERATIONS, Given(ours.errors))
    return {"residual": largest(ours.q - dpp.q) / jnp.maximum(largest(ours.q), 1.0)}


def measure_soft(mdp: MDP, key: PRNGKeyArray):
    tau_key, error_key = jax.random.split(key)
    tau = draw_tau(tau_key)
    ours = iterate(MunchausenVI(0.0, tau), mdp, start(mdp), ITERATIONS, Sampling(3), error_key)
    soft = iterate(SoftValueIteration(tau), mdp, start(mdp), ITERATIONS, Given(ours.errors))
    return {"residual": largest(ours.q - soft.q)}


def measure_bias(mdp: MDP, key: PRNGKeyArray):
    """0 ≤ q_*^τ − q_* ≤ γτ ln|A|/(1−γ): a factor γ below the printed bound, since the entropy of
    the first action is not in q."""
    tau = draw_tau(key)
    difference = optimal_q(mdp, tau) - optimal_q(mdp)
    bound = tau * jnp.log(mdp.actions * 1.0) / (1 - mdp.discount)
    sharp = violation(difference, mdp.discount * bound)
    return {
        "residual": jnp.maximum(sharp, violation(-difference, jnp.asarray(0.0))),
        "largest_share_of_bound": largest(difference) / bound,
        "printed_bound": violation(jnp.abs(difference), bound),
    }


def measure_legendre(mdp: MDP, key: PRNGKeyArray):
    """v_τ(q) is attained by softmax(q/τ), and no random policy exceeds it."""
    tau_key, q_key, policy_key = jax.random.split(key, 3)
    tau = draw_tau(tau_key)
    q = jax.random.normal(q_key, mdp.rewards.shape)
    others = jax.nn.softmax(3 * jax.random.normal(policy_key, (100, *q.shape)), axis=-1)

    def objective(pi):
        return inner(pi, q) + tau * entropy(pi)

    v, pi = soft_value(q, tau), policy(q, tau)
    attained = largest(v - objective(pi))
    exceeded = violation(jax.vmap(objective)(others), v)
    logarithm = largest(scaled_log_policy(q, tau) - tau * jnp.log(pi))
    return {
        "residual": jnp.maximum(jnp.maximum(attained, exceeded), logarithm),
        "printed_value": largest(printed.log_sum_exp(q) - objective(pi)),
    }


def error_of_update(
    mdp: MDP, tau: Scalar, alpha: Scalar, q: Float[Array, "S A"], after: State
) -> Float[Array, "S A"]:
    """ε_{k+1} = q_{k+1} − (r + ατ ln π_{k+1} + γP⟨π_{k+1}, q_k − τ ln π_{k+1}⟩)"""
    log_pi = tau * after.log_policy
    bootstrap = mdp.discount * mdp.expect(inner(jnp.exp(after.log_policy), q - log_pi))
    return after.q - (mdp.rewards + alpha * log_pi + bootstrap)


def measure_error(mdp: MDP, key: PRNGKeyArray):
    """The errors read back from the iterates are those that were put in."""
    alpha_key, tau_key, error_key = jax.random.split(key, 3)
    alpha, tau = draw_alpha(alpha_key), draw_tau(tau_key)
    ours = iterate(MunchausenVI(alpha, tau), mdp, start(mdp), ITERATIONS, Gaussian(0.3), error_key)

    def residual(recover):
        states = State(ours.q[1:], ours.log_policy[1:])
        found = jax.vmap(lambda q, after: recover(mdp, tau, alpha, q, after))(ours.q[:-1], states)
        return largest(found - ours.errors) / jnp.maximum(largest(ours.q), 1.0)

    return {
        "residual": residual(error_of_update),
        "printed_definition": residual(printed.error_of_update),
    }


THEOREMS = (
    Theorem(
        "cvi",
        "Sec. 3, and its footnote on CVI",
        "M-VI is r + γP v_τ(q) + α(q − v_τ(q)); CVI differs from it by a constant only",
        1e-10,
        measure_cvi,
    ),
    Theorem(
        "al",
        "Sec. 3 and appendix A.4",
        "M-VI(α, 0) is AL(α), and M-VI(α, τ) stays within C τ ln|A| of it, with errors",
        1e-9,
        measure_al,
        printed={"printed_error": "α(q_k − ⟨π_{k+1}, q_k⟩ + ε_{k+1})"},
    ),
    Theorem(
        "dpp", "Sec. 3", "M-VI(1, τ) is DPP with the log-sum-exp, with errors", 1e-10, measure_dpp
    ),
    Theorem("soft-q", "Sec. 3", "M-VI(0, τ) is soft Q-learning, with errors", 1e-10, measure_soft),
    Theorem(
        "entropy-bias",
        "Sec. 3, footnote",
        "0 ≤ q_*^τ − q_* ≤ γτ ln|A|/(1−γ)",
        1e-10,
        measure_bias,
        printed={"printed_bound": "‖q_*^τ − q_*‖ ≤ τ ln|A|/(1−γ)"},
    ),
    Theorem(
        "legendre",
        "Sec. 3 and appendix A",
        "max_π ⟨π, q⟩ + τH(π) = τ ln⟨1, exp(q/τ)⟩, attained by softmax(q/τ)",
        1e-10,
        measure_legendre,
        printed={"printed_value": "ln⟨1, exp q⟩"},
    ),
    Theorem(
        "error-definition",
        "Sec. 3",
        "ε_{k+1} = q_{k+1} − (r + ατ ln π_{k+1} + γP⟨π_{k+1}, q_k − τ ln π_{k+1}⟩)",
        1e-10,
        measure_error,
        printed={
            "printed_definition": "q_{k+1} − (r + α ln π_{k+1} − γP⟨π_{k+1}, q_k − τ ln π_{k+1}⟩)"
        },
    ),
)
