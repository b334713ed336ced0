"""Approximate dynamic programming schemes, each a `step(mdp, state, error) -> state`.

They are written as their sources write them, not in terms of one another, so that the identities
between them can be checked. All stand on the operators of the deep agents.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float

from munchausen._src.core.operators import Scalar, policy, scaled_log_policy, soft_value
from munchausen._src.errors import UserError
from munchausen._src.tabular.mdp import MDP
from munchausen._src.tabular.solvers import entropy, inner


class State(NamedTuple):
    """q_k, and ln π_k of the policy that made it (−∞ where a greedy policy never goes)."""

    q: Float[Array, "S A"]
    log_policy: Float[Array, "S A"]


@runtime_checkable
class Scheme(Protocol):
    def value(self, state: State) -> Float[Array, " S"]:
        """What the step bootstraps from the next state."""
        ...

    def step(self, mdp: MDP, state: State, error: Float[Array, "S A"]) -> State: ...


def uniform_policy(mdp: MDP) -> Float[Array, "S A"]:
    """ln π_0 of the uniform policy."""
    return jnp.full(mdp.rewards.shape, -jnp.log(mdp.actions * 1.0))


def log_softmax(q: Float[Array, "S A"], tau: Scalar) -> Float[Array, "S A"]:
    """ln π for π = softmax(q/τ), and of the greedy policy at τ = 0."""
    positive = jnp.where(jnp.asarray(tau) > 0, tau, 1.0)
    soft = scaled_log_policy(q, tau) / positive
    return jnp.where(jnp.asarray(tau) > 0, soft, jnp.log(policy(q, 0.0)))


class ValueIteration(NamedTuple):
    """q_{k+1} = r + γP max_a q_k + ε_{k+1}"""

    def value(self, state: State) -> Float[Array, " S"]:
        return jnp.max(state.q, axis=-1)

    def step(self, mdp: MDP, state: State, error: Float[Array, "S A"]) -> State:
        q = mdp.rewards + mdp.discount * mdp.expect(self.value(state)) + error
        return State(q, log_softmax(state.q, 0.0))


class SoftValueIteration(NamedTuple):
    """q_{k+1} = r + γP v_τ(q_k) + ε_{k+1}: soft Q-learning (Fox et al. 2016), Sec. 3."""

    tau: Scalar

    def value(self, state: State) -> Float[Array, " S"]:
        return soft_value(state.q, self.tau)

    def step(self, mdp: MDP, state: State, error: Float[Array, "S A"]) -> State:
        q = mdp.rewards + mdp.discount * mdp.expect(self.value(state)) + error
        return State(q, log_softmax(state.q, self.tau))


class MunchausenVI(NamedTuple):
    """M-VI(α, τ) of the paper (Sec. 3), and with `clip_min` as the deep agents clip it.

    π_{k+1} = argmax_π ⟨π, q_k⟩ + τH(π)
    q_{k+1} = r + α [τ ln π_{k+1}]_{l0}^0 + γP⟨π_{k+1}, q_k − τ ln π_{k+1}⟩ + ε_{k+1}
    """

    alpha: Scalar
    tau: Scalar
    clip_min: Scalar = -jnp.inf

    def value(self, state: State) -> Float[Array, " S"]:
        pi = policy(state.q, self.tau)
        return inner(pi, state.q - scaled_log_policy(state.q, self.tau))

    def step(self, mdp: MDP, state: State, error: Float[Array, "S A"]) -> State:
        bonus = jnp.clip(scaled_log_policy(state.q, self.tau), self.clip_min, 0.0)
        ideal = mdp.rewards + self.alpha * bonus + mdp.discount * mdp.expect(self.value(state))
        return State(ideal + error, log_softmax(state.q, self.tau))


class MirrorDescentVI(NamedTuple):
    """MD-VI(λ, τ) of Vieillard et al. 2020, "Leverage the average", as Theorem 1 restates it.

    π_{k+1} = argmax_π ⟨π, q'_k⟩ − λ KL(π‖π_k) + τH(π)  ∝  (π_k^λ exp q'_k)^{1/(λ+τ)}
    q'_{k+1} = r + γP(⟨π_{k+1}, q'_k⟩ − λ KL(π_{k+1}‖π_k) + τH(π_{k+1})) + ε_{k+1}
    """

    kl_weight: Scalar
    entropy_weight: Scalar

    def greedy(self, state: State) -> Float[Array, "S A"]:
        """ln π_{k+1}"""
        logits = state.q + self.kl_weight * state.log_policy
        return log_softmax(logits, self.kl_weight + self.entropy_weight)

    def objective(self, state: State, log_pi: Float[Array, "S A"]) -> Float[Array, " S"]:
        """What π_{k+1} maximises at each state."""
        pi = jnp.exp(log_pi)
        kl = inner(pi, log_pi - state.log_policy)
        return inner(pi, state.q) - self.kl_weight * kl + self.entropy_weight * entropy(pi)

    def value(self, state: State) -> Float[Array, " S"]:
        return self.objective(state, self.greedy(state))

    def step(self, mdp: MDP, state: State, error: Float[Array, "S A"]) -> State:
        q = mdp.rewards + mdp.discount * mdp.expect(self.value(state)) + error
        return State(q, self.greedy(state))


class ConservativeVI(NamedTuple):
    """CVI of Kozuno et al. 2019, with the mean over actions where M-VI has their sum.

    m_τ(q) = τ ln (1/|A|) Σ_a exp(q(a)/τ)
    q_{k+1} = r + γP m_τ(q_k) + α (q_k − m_τ(q_k)) + ε_{k+1}
    """

    alpha: Scalar
    tau: Scalar

    def value(self, state: State) -> Float[Array, " S"]:
        return soft_value(state.q, self.tau) - self.tau * jnp.log(state.q.shape[-1] * 1.0)

    def step(self, mdp: MDP, state: State, error: Float[Array, "S A"]) -> State:
        m = self.value(state)
        advantage = state.q - m[:, None]
        q = mdp.rewards + mdp.discount * mdp.expect(m) + self.alpha * advantage + error
        return State(q, log_softmax(state.q, self.tau))


class DynamicPolicyProgramming(NamedTuple):
    """DPP with the log-sum-exp L_τ (Azar et al. 2012, appendix A).

    Ψ_{k+1} = Ψ_k + r + γP L_τΨ_k − L_τΨ_k + ε_{k+1}
    """

    tau: Scalar

    def value(self, state: State) -> Float[Array, " S"]:
        return soft_value(state.q, self.tau)

    def step(self, mdp: MDP, state: State, error: Float[Array, "S A"]) -> State:
        v = self.value(state)
        q = state.q + mdp.rewards + mdp.discount * mdp.expect(v) - v[:, None] + error
        return State(q, log_softmax(state.q, self.tau))


class AdvantageLearning(NamedTuple):
    """AL (Baird 1999; Bellemare et al. 2016) of the paper (Sec. 3).

    q_{k+1} = r + γP max_a q_k + α (q_k − max_a q_k) + ε_{k+1}
    """

    alpha: Scalar

    def value(self, state: State) -> Float[Array, " S"]:
        return jnp.max(state.q, axis=-1)

    def step(self, mdp: MDP, state: State, error: Float[Array, "S A"]) -> State:
        v = self.value(state)
        gap = state.q - v[:, None]
        q = mdp.rewards + mdp.discount * mdp.expect(v) + self.alpha * gap + error
        return State(q, log_softmax(state.q, 0.0))


# Ranges of the parameters, and how a message says them.
_RANGES = {
    "alpha": (0.0, 1.0, "in [0, 1]"),
    "tau": (0.0, jnp.inf, "at least 0"),
    "kl_weight": (0.0, jnp.inf, "at least 0"),
    "entropy_weight": (0.0, jnp.inf, "at least 0"),
    "clip_min": (-jnp.inf, 0.0, "at most 0"),
}


def check_scheme(scheme: Scheme, iterations: int) -> None:
    """Refuses parameters outside their ranges, where they are plain numbers."""
    if iterations < 1:
        raise UserError(f"iterations must be at least 1, not {iterations}")
    for name, (low, high, wanted) in _RANGES.items():
        value = getattr(scheme, name, None)
        if isinstance(value, float | int) and not low <= value <= high:  # NaN is in no range
            raise UserError(f"{name} must be {wanted}, not {value:g}")
    if isinstance(scheme, MirrorDescentVI):
        weights = (scheme.kl_weight, scheme.entropy_weight)
        if all(isinstance(w, float | int) and w == 0 for w in weights):
            raise UserError("kl_weight and entropy_weight cannot both be 0; that is ValueIteration")
