"""α = 1, where errors are averaged: the bound of the main text and Corollary 1."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from munchausen._src.core.operators import Scalar, policy
from munchausen._src.tabular.iteration import History, iterate, start
from munchausen._src.tabular.mdp import MDP
from munchausen._src.tabular.noise import Clipped, Gaussian, Given, OneOf, Sampling
from munchausen._src.tabular.schemes import MunchausenVI, uniform_policy
from munchausen._src.tabular.solvers import optimal_q, policy_q, resolvent
from munchausen._src.tabular.theorems.instances import decision
from munchausen._src.tabular.theorems.report import Theorem, draw_tau, largest, violation

ITERATIONS = 40


class Terms(NamedTuple):
    """What the bounds are made of, for k = 1..K."""

    loss: Float[Array, "K S A"]  # q_* − q_{π_k}
    errors: Float[Array, "K S A"]  # |A_k¹ E_k/k|
    start: Float[Array, "K S A"]  # what the start leaves, without any assumption on q'_k
    mean_error: Float[Array, " K"]  # ‖(1/k) Σ_j ε_j‖
    change: Float[Array, " K"]  # ‖q'_k − q'_0‖
    iteration: Float[Array, " K"]


def bound_terms(mdp: MDP, tau: Scalar, history: History) -> Terms:
    """With E_k = −Σ_{j≤k} ε_j and A_k¹ = (I − γP_{π_*})⁻¹ − (I − γP_{π_k})⁻¹,

        k (q_* − q_{π_k}) ≤ A_k¹ (E_k + q'_k − q'_0) + γτ ln|A|/(1−γ),

    since S = Σ_{j<k} q'_j obeys k r = S + q'_k − q'_0 − γP(v_τ(S) − τ ln|A|) + E_k, and
    ⟨π_*, S⟩ ≤ v_τ(S) = ⟨π_k, S⟩ + τH(π_k).
    """
    q_star = optimal_q(mdp)
    pi_star = policy(q_star, 0.0)
    q_prime = history.q - tau * history.log_policy
    k = jnp.arange(1.0, len(history.errors) + 1)
    error_sums = -jnp.cumsum(history.errors, axis=0)
    extra = mdp.discount * tau * jnp.log(mdp.actions * 1.0) / (1 - mdp.discount)

    def at(k, pi, error_sum, q_prime_k):
        def difference(f):
            return resolvent(mdp, pi_star, f) - resolvent(mdp, pi, f)

        changed = q_prime_k - q_prime[0]
        return (
            q_star - policy_q(mdp, pi),
            jnp.abs(difference(error_sum / k)),
            (jnp.abs(difference(changed)) + extra) / k,
            largest(error_sum / k),
            largest(changed),
        )

    return Terms(*jax.vmap(at)(k, history.policy[1:], error_sums, q_prime[1:]), k)


def worst_loss(terms: Terms) -> Float[Array, "*R K"]:
    """‖q_* − q_{π_k}‖_∞"""
    return jnp.max(jnp.abs(terms.loss), axis=(-2, -1))


def printed_start(mdp: MDP, tau: Scalar, k: Float[Array, " K"]) -> Float[Array, " K"]:
    """4/(1−γ)² · (r_max + τ ln|A|)/k"""
    log_actions = jnp.log(mdp.actions * 1.0)
    return 4 / (1 - mdp.discount) ** 2 * (mdp.largest_reward + tau * log_actions) / k


def componentwise_bound(mdp: MDP, tau: Scalar, terms: Terms) -> Float[Array, "*R K S A"]:
    """Corollary 1 as printed: it needs ‖q'_k‖ ≤ r_max/(1−γ) at k and at 0."""
    return terms.errors + printed_start(mdp, tau, terms.iteration)[:, None, None]


def free_componentwise_bound(terms: Terms) -> Float[Array, "*R K S A"]:
    """The same without the assumption."""
    return terms.errors + terms.start


def sup_bound(mdp: MDP, tau: Scalar, terms: Terms) -> Float[Array, "*R K"]:
    """The main text's: 2/(1−γ) ‖(1/k) Σ ε_j‖ + 4/(1−γ)² (r_max + τ ln|A|)/k"""
    first = 2 / (1 - mdp.discount) * terms.mean_error
    return first + printed_start(mdp, tau, terms.iteration)


def free_sup_bound(mdp: MDP, tau: Scalar, terms: Terms) -> Float[Array, "*R K"]:
    """Without the assumption: 4 r_max/(1−γ)² gives way to 2‖q'_k − q'_0‖/(1−γ)."""
    log_actions = jnp.log(mdp.actions * 1.0)
    start = 2 * terms.change + mdp.discount * tau * log_actions
    return (2 * terms.mean_error + start / terms.iteration) / (1 - mdp.discount)


def _components(mdp: MDP, tau: Scalar, terms: Terms):
    """The loss, its bound without the assumption, and its bound with it: as in Corollary 1."""
    return terms.loss, free_componentwise_bound(terms), componentwise_bound(mdp, tau, terms)


def _sup(mdp: MDP, tau: Scalar, terms: Terms):
    """The same, as in the main text."""
    return worst_loss(terms), free_sup_bound(mdp, tau, terms), sup_bound(mdp, tau, terms)


def _measure(bounds: Callable[..., Any]) -> Callable[..., dict[str, Array]]:
    """Of `_components` or `_sup`: one run kept within ±r_max/(1−γ), from anywhere within, and one
    that is not."""

    def measure(mdp: MDP, key: PRNGKeyArray):
        tau_key, q_key, source_key, error_key = jax.random.split(key, 4)
        tau = draw_tau(tau_key)
        limit = mdp.largest_reward / (1 - mdp.discount)
        q_prime_0 = jax.random.uniform(q_key, mdp.rewards.shape, minval=-limit, maxval=limit)
        state = start(mdp, q_prime_0 + tau * uniform_policy(mdp))
        noise = OneOf(jax.random.bernoulli(source_key), Gaussian(0.3), Sampling(1))

        def run(kept):
            source = OneOf(kept, Clipped(noise, limit), Gaussian(3.0))
            history = iterate(MunchausenVI(1.0, tau), mdp, state, ITERATIONS, source, error_key)
            return bounds(mdp, tau, bound_terms(mdp, tau, history))

        loss, free, assuming = jax.vmap(run)(jnp.array([True, False]))
        broken = (
            violation(loss, free),
            violation(loss[0], assuming[0]),
            violation(-loss, jnp.asarray(0.0)),
        )
        return {
            "residual": jnp.max(jnp.stack(broken)),
            "least_slack": jnp.min(assuming[0] - loss[0]),
        }

    return measure


_DISCOUNT, _TAU, _LONG = 0.5, 0.01, 400


def _construct(bounds: Callable[..., Any], without: str) -> Callable[[], dict[str, Array]]:
    """On `decision`, two sequences of errors on the value of the wrong action.

    The first overrates it by 1.05 times the gap at every iteration: the policy is wrong for ever,
    and the error term is all there is. The second is one huge error and right after it its
    opposite: their sum is 0 just when the policy is wrong, because π_k has seen only the first.
    There ‖q'_k‖ ≤ r_max/(1−γ) does not hold; what it breaks is called `without`.
    """

    def construct():
        mdp = decision(_DISCOUNT)
        none = jnp.zeros((_LONG, 2, 2))
        persistent = none.at[:, 0, 1].set(1.05)
        cancelling = none.at[-2:, 0, 1].set(jnp.array([2.0, -2.0]) * _LONG)

        def one(errors):
            history = iterate(MunchausenVI(1.0, _TAU), mdp, start(mdp), _LONG, Given(errors))
            return bounds(mdp, _TAU, bound_terms(mdp, _TAU, history))

        loss, free, assuming = jax.vmap(one)(jnp.stack([persistent, cancelling]))
        return {
            "residual": jnp.maximum(violation(loss, free), violation(loss[0], assuming[0])),
            "tightness": jnp.max(loss[0, -1] / free[0, -1]),
            without: violation(loss[1], assuming[1]),
        }

    return construct


THEOREMS = (
    Theorem(
        name="sup-bound",
        source="Sec. 3",
        statement="α = 1: ‖q_* − q_{π_k}‖ ≤ 2/(1−γ) ‖(1/k)Σε‖ + 4/(1−γ)² (r_max + τ ln|A|)/k "
        "if ‖q'_k‖ ≤ r_max/(1−γ); else with 2‖q'_k − q'_0‖/(1−γ) for 4 r_max/(1−γ)²",
        tolerance=1e-9,
        measure=_measure(_sup),
        construct=_construct(_sup, "without_assumption"),
        printed={"without_assumption": "the same, for any errors (the text states no assumption)"},
    ),
    Theorem(
        name="corollary-1",
        source="Corollary 1",
        statement="α = 1: 0 ≤ q_* − q_{π_k} ≤ |A_k¹ E_k/k| + 4/(1−γ)² (r_max + τ ln|A|)/k "
        "if ‖q'_k‖ ≤ r_max/(1−γ); else with (|A_k¹(q'_k − q'_0)| + γτ ln|A|/(1−γ))/k",
        tolerance=1e-9,
        measure=_measure(_components),
        construct=_construct(_components, "broken_without_its_assumption_by"),
    ),
)
