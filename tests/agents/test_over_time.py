"""What a configuration says at a step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from munchausen._src.agents import override, resolve
from munchausen._src.agents.over_time import (
    epsilon_at,
    learning_rate_of,
    playing_regulariser,
    regulariser_at,
)
from munchausen._src.core.backup import Regulariser
from munchausen._src.errors import UserError


def config(**changes):
    return override(resolve("m-dqn", "atari"), changes)


class TestEpsilon:
    STEPS = jnp.array([0, 20_000, 145_000, 270_000, 10_000_000])

    def test_a_number_is_the_end_of_a_decay(self):
        made = epsilon_at(config(), self.STEPS)
        np.testing.assert_allclose(made, [1, 1, 0.505, 0.01, 0.01], rtol=1e-6)

    def test_a_schedule_is_of_the_step_itself(self):
        changes = {"epsilon": "linear:1:0.5:290000", "epsilon_decay_steps": 1}
        made = jax.jit(lambda t: epsilon_at(config(**changes), t))(self.STEPS)
        share = np.array([0, 2 / 29, 0.5, 27 / 29, 1])
        np.testing.assert_allclose(made, 1 - share / 2, rtol=1e-6)

    def test_a_function_for_many_environments_at_once(self):
        made = epsilon_at(config(epsilon=lambda step: 1 / (1 + step)), jnp.arange(4))
        np.testing.assert_allclose(made, [1, 1 / 2, 1 / 3, 1 / 4], rtol=1e-6)


class TestLearningRate:
    def test_a_number(self):
        assert learning_rate_of(config()) == 5e-5

    @pytest.mark.parametrize("rate", ["piecewise:0.5:24:0.25:32:0.125", None])
    def test_a_schedule_by_optax_count(self, rate):
        """The first update is at the end of the warm-up, here step 20, then every 4 steps."""

        def same(step):
            return jnp.where(step < 24, 0.5, jnp.where(step < 32, 0.25, 0.125))

        rhythm = {"envs": 1, "warmup_steps": 20, "update_period_steps": 4}
        optimizer = optax.sgd(learning_rate_of(config(learning_rate=rate or same, **rhythm)))
        state = optimizer.init(jnp.float32(0))
        steps = []
        for _ in range(5):  # at 20, 24, 28, 32 and 36
            step, state = jax.jit(optimizer.update)(jnp.float32(1), state)
            steps.append(-float(step))
        assert steps == [0.5, 0.25, 0.25, 0.125, 0.125]


class TestRegulariser:
    def test_numbers(self):
        assert regulariser_at(config(), 5) == Regulariser(0.9, 0.03, -1.0)
        lane = Regulariser(0.5, 0.1, -2.0)
        assert regulariser_at(config(), 5, lane) == lane

    def test_a_schedule_takes_the_place_of_a_lanes_number(self):
        scheduled = config(tau="linear:0.1:0:10")
        lane = Regulariser(jnp.float32(0.5), jnp.float32(0.1), jnp.float32(-2.0))
        made = jax.jit(lambda t: regulariser_at(scheduled, t, lane))(5)
        np.testing.assert_allclose(made, [0.5, 0.05, -2.0], rtol=1e-6)
        assert regulariser_at(scheduled, 5) == Regulariser(0.9, 0.05, -1.0)

    def test_steps_of_many_updates(self):
        made = regulariser_at(config(alpha="linear:0:1:4"), jnp.arange(5))
        np.testing.assert_allclose(made.alpha, [0, 0.25, 0.5, 0.75, 1])

    def test_for_certain_not_munchausen(self):
        assert not config(alpha=0).munchausen
        assert config().munchausen
        assert config(alpha="linear:0:0.9").munchausen
        assert config(alpha=lambda step: 0.0 * step).munchausen


class TestPlaying:
    """With an agent out of a file, which holds the names of functions alone."""

    def test_a_greedy_agent_needs_none_of_them(self):
        lost = config(tau="function:f", alpha="function:g", learning_rate="function:h")
        assert playing_regulariser(lost, 7) == Regulariser(0.0, 0.0, -1.0)

    def test_what_is_known_is_of_the_step(self):
        assert playing_regulariser(config(tau="linear:0.1:0:10"), 5).tau == 0.05

    def test_a_draw_needs_its_temperature(self):
        lost = config(tau="function:f", exploration="stochastic")
        with pytest.raises(UserError, match=r"'f' .* give it again"):
            playing_regulariser(lost, 7)
