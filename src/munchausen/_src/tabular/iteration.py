"""Running a scheme: K steps with their errors, keeping all of it or only the end."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from munchausen._src.tabular.mdp import MDP
from munchausen._src.tabular.noise import ErrorSource, NoError
from munchausen._src.tabular.precision import float64
from munchausen._src.tabular.schemes import Scheme, State, check_scheme, uniform_policy


class History(NamedTuple):
    """q_k and ln π_k for k = 0..K, and ε_k for k = 1..K (at index k − 1)."""

    q: Float[Array, "K1 S A"]
    log_policy: Float[Array, "K1 S A"]
    errors: Float[Array, "K S A"]

    @property
    @float64()
    def policy(self) -> Float[Array, "K1 S A"]:
        return jnp.exp(self.log_policy)


def start(mdp: MDP, q: Float[Array, "S A"] | None = None) -> State:
    """q_0 (zero unless given) and the uniform policy."""
    return State(jnp.zeros_like(mdp.rewards) if q is None else q, uniform_policy(mdp))


@float64()
def iterate(
    scheme: Scheme,
    mdp: MDP,
    state: State,
    iterations: int,
    source: ErrorSource = NoError(),  # noqa: B008  (it has no state)
    key: PRNGKeyArray | None = None,
) -> History:
    """All of q_0..q_K. The same key gives every scheme the same noise."""
    check_scheme(scheme, iterations)

    def body(state: State, at):
        k, key = at
        error = source(key, mdp, scheme.value(state), k)
        state = scheme.step(mdp, state, error)
        return state, (state, error)

    keys = jax.random.split(jax.random.key(0) if key is None else key, iterations)
    _, (states, errors) = jax.lax.scan(body, state, (jnp.arange(iterations), keys))
    q, log_policy = (
        jnp.concatenate([first[None], rest]) for first, rest in zip(state, states, strict=True)
    )
    return History(q, log_policy, errors)


@float64()
def final_state(scheme: Scheme, mdp: MDP, state: State, iterations: int) -> State:
    """q_K and ln π_K alone, without errors."""
    check_scheme(scheme, iterations)
    none = jnp.zeros_like(mdp.rewards)
    return jax.lax.fori_loop(0, iterations, lambda _, s: scheme.step(mdp, s, none), state)
