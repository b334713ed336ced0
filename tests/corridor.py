"""A corridor in JAX, small enough to compile at once: walk right to the end for a reward of 1.
It truncates after 12 steps, so both kinds of ending occur."""

import jax
import jax.numpy as jnp

from munchausen._src.suites.spec import EnvironmentSpec, JaxStep

LENGTH, LIMIT = 5, 12


class Corridor:
    spec = EnvironmentSpec("test/corridor", (LENGTH,), "float32", 2, truncates=True)

    def init(self, key):
        position = jax.random.randint(key, (), 0, 2)
        return (position, jnp.int32(0)), self._frame(position)

    def step(self, state, action, key):
        position, age = state
        slip = jax.random.uniform(key) < 0.1
        move = jnp.where((action == 1) ^ slip, 1, -1)
        position = jnp.clip(position + move, 0, LENGTH - 1)
        age = age + 1
        terminated = position == LENGTH - 1
        step = JaxStep(
            self._frame(position), terminated.astype(jnp.float32), terminated, age >= LIMIT
        )
        return (position, age), step

    def _frame(self, position):
        return jax.nn.one_hot(position, LENGTH)
