"""The paper's formulas as printed, where they do not hold. Nothing else uses them."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from munchausen._src.core.operators import Scalar, soft_value
from munchausen._src.tabular.mdp import MDP
from munchausen._src.tabular.schemes import AdvantageLearning, MirrorDescentVI, State, log_softmax
from munchausen._src.tabular.solvers import inner


class PrintedMirrorDescentVI(MirrorDescentVI):
    """The last display of appendix A.2: −(1−α)τH in the evaluation step, where it must be +."""

    def value(self, state: State) -> Float[Array, " S"]:
        turned = self._replace(entropy_weight=-self.entropy_weight)
        return turned.objective(state, self.greedy(state))


class PrintedAdvantageLearning(AdvantageLearning):
    """The limit τ → 0 in appendix A.4: ε stands inside α(·)."""

    def step(self, mdp: MDP, state: State, error: Float[Array, "S A"]) -> State:
        v = self.value(state)
        gap = state.q - v[:, None] + error
        q = mdp.rewards + mdp.discount * mdp.expect(v) + self.alpha * gap
        return State(q, log_softmax(state.q, 0.0))


def gap_factor(alpha: Scalar) -> Scalar:
    """Theorem 2: (1+α)/(1−α). But 1 + α/(1−α) = 1/(1−α)."""
    return (1 + alpha) / (1 - alpha)


def limit(q_star: Float[Array, "S A"], alpha: Scalar, tau: Scalar) -> Float[Array, "S A"]:
    """Appendix A.5: (1+α)/(1−α) q_* − ατ/(1−α) ln⟨1, exp(q_*/((1−α)τ))⟩. Both factors are off."""
    low = (1 - alpha) * tau
    log_sum = soft_value(q_star, low) / low
    return gap_factor(alpha) * q_star - alpha * tau / (1 - alpha) * log_sum[:, None]


def error_of_update(
    mdp: MDP, tau: Scalar, alpha: Scalar, q: Float[Array, "S A"], after: State
) -> Float[Array, "S A"]:
    """Sec. 3: q_{k+1} − (r + α ln π_{k+1} − γP⟨…⟩), without its τ and with γP's sign turned."""
    pi, log_pi = jnp.exp(after.log_policy), after.log_policy
    bootstrap = mdp.discount * mdp.expect(inner(pi, q - tau * log_pi))
    return after.q - (mdp.rewards + alpha * log_pi - bootstrap)


def log_sum_exp(q: Float[Array, "S A"]) -> Float[Array, " S"]:
    """Sec. 3: max_π ⟨π, q⟩ + τH(π) = ln⟨1, exp q⟩, without both τ."""
    return soft_value(q, 1.0)
