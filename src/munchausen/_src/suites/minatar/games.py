"""MinAtar in JAX (pgx-minatar): sticky actions 0.1 and minimal action sets, as the original."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from munchausen._src.suites.spec import EnvironmentSpec, JaxStep


class MinAtar:
    """One MinAtar game. Games end only by themselves: nothing is ever truncated."""

    spec: EnvironmentSpec

    def __init__(self, game: str):
        import pgx
        import pgx_minatar  # noqa: F401  (pgx names it only when it is missing)

        self._env = pgx.make(f"minatar-{game}")  # type: ignore[arg-type]
        self.spec = EnvironmentSpec(
            name=f"minatar/{game}",
            frame_shape=tuple(self._env.observation_shape),
            frame_dtype="bool",
            actions=self._env.num_actions,
            truncates=False,
        )

    def init(self, key: PRNGKeyArray) -> tuple[Any, Array]:
        state = self._env.init(key)
        return state, state.observation

    def step(self, state: Any, action: Int[Array, ""], key: PRNGKeyArray) -> tuple[Any, JaxStep]:
        state = self._env.step(state, action, key)
        return state, JaxStep(
            state.observation, state.rewards[0], state.terminated, jnp.zeros((), bool)
        )
