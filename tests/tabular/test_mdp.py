"""MDPs and their exact values: by hand, by identities, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen._src.errors import UserError
from munchausen._src.tabular.solvers import eliminate
from munchausen.tabular import (
    chain_walk,
    float64,
    garnets,
    grid_world,
    make_mdp,
    optimal_q,
    policy_q,
    stack_mdps,
)

STAY = np.ones((1, 2, 1))


def test_one_state_by_hand():
    mdp = make_mdp(STAY, [[1.0, 0.0]], 0.5)
    # Always the first: 1/(1 − γ) = 2. The second once, then the best: γ · 2.
    np.testing.assert_allclose(optimal_q(mdp), [[2.0, 1.0]], rtol=1e-14)
    # Half and half: v = ½ + ½ v, so v = 1.
    np.testing.assert_allclose(policy_q(mdp, jnp.array([[0.5, 0.5]])), [[1.5, 0.5]], rtol=1e-6)
    # At τ = 1 that policy also earns ln 2 each step from the next on: γ ln 2/(1 − γ) = ln 2.
    with float64():
        regularised = policy_q(mdp, jnp.array([[0.5, 0.5]]), 1.0)
    np.testing.assert_allclose(regularised, [[1.5 + np.log(2), 0.5 + np.log(2)]], rtol=1e-14)
    # The regularised optimum: v = ln(e^{1+v/2} + e^{v/2}), so v = 2 ln(1 + e).
    v = 2 * np.log(1 + np.e)
    np.testing.assert_allclose(optimal_q(mdp, 1.0), [[1 + v / 2, v / 2]], rtol=1e-14)


@pytest.mark.parametrize("tau", [0.0, 0.03, 1.0])
@pytest.mark.parametrize("mdp", [chain_walk(), grid_world()], ids=["chain", "grid"])
def test_the_optimum_is_a_fixed_point(mdp, tau):
    q = np.asarray(optimal_q(mdp, tau))
    best = q.max(axis=1)
    if tau:
        best = best + tau * np.log(np.exp((q - best[:, None]) / tau).sum(axis=1))
    again = np.asarray(mdp.rewards) + float(mdp.discount) * np.asarray(mdp.transitions) @ best
    np.testing.assert_allclose(q, again, atol=1e-13)


def test_chain_goes_right_and_grid_has_ties():
    assert (np.argmax(optimal_q(chain_walk()), axis=1) == 1).all()
    q = np.asarray(optimal_q(grid_world(3, 3, slip=0.0)))
    np.testing.assert_allclose(q[0, 1], q[0, 2])  # right and down are equally good
    # The corner is 4 moves away, and a round takes 5: γ⁴/(1 − γ⁵).
    np.testing.assert_allclose(q[0].max(), 0.9**4 / (1 - 0.9**5), rtol=1e-13)


def test_garnets(key):
    mdps = garnets(key, 50, states=6, actions=4, branching=2, discounts=(0.6, 0.7))
    p = np.asarray(mdps.transitions)
    assert p.dtype == np.float64
    assert p.shape == (50, 6, 4, 6)
    np.testing.assert_allclose(p.sum(axis=-1), 1.0, atol=1e-15)
    assert (p >= 0).all()
    assert ((p > 0).sum(axis=-1) == 2).all()
    assert len({tuple(x) for x in p.reshape(-1, 6)}) > 1000
    assert ((np.asarray(mdps.discount) > 0.6) & (np.asarray(mdps.discount) < 0.7)).all()
    assert np.abs(mdps.rewards).max() <= 1
    again = garnets(key, 50, states=6, actions=4, branching=2, discounts=(0.6, 0.7))
    np.testing.assert_array_equal(p, again.transitions)


def test_the_global_switch_is_not_turned():
    optimal_q(chain_walk())
    assert not jax.config.jax_enable_x64
    assert jnp.ones(2).dtype == jnp.float32


P = np.full((2, 3, 2), 0.5)
R = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("transitions", "rewards", "discount", "said"),
    [
        (P * 0.9, R, 0.9, r"transitions\[0, 0\] sums to 0.9, not to 1 \(6 of 6 rows"),
        (P + np.array([0.6, -0.6]), R, 0.9, r"transitions\[0, 0, 1\] = -0.1: a probability cannot"),
        (P[:, :, :1], R, 0.9, r"shape \[states, actions, states\], not \[2, 3, 1\]"),
        (P, R.T, 0.9, r"rewards must have shape \[states, actions\] = \[2, 3\].*not \[3, 2\]"),
        (P, R, 1.0, r"discount must be in \(0, 1\), not 1.0"),
        (P, R, 0.0, r"discount must be in \(0, 1\)"),
        (P, R, float("nan"), r"discount must be in \(0, 1\)"),
        (P, R, "0.9", r"discount must be in \(0, 1\), not '0.9'"),
        (P, R + np.nan, 0.9, "rewards must be finite"),
        ([[1.0], [1.0, 2.0]], R, 0.9, "transitions must be an array of numbers"),
    ],
)
def test_refused(transitions, rewards, discount, said):
    with pytest.raises(UserError, match=said):
        make_mdp(transitions, rewards, discount)


def test_more_refused(key):
    with pytest.raises(UserError, match="branching must be from 1 to 4"):
        garnets(key, 1, states=4, branching=5)
    with pytest.raises(UserError, match=r"discounts must be in \(0, 1\)"):
        garnets(key, 1, discounts=(0.5, 1.0))
    with pytest.raises(UserError, match="count must be at least 1"):
        garnets(key, 0)
    with pytest.raises(UserError, match=r"slip must be in \[0, 1\], not 2"):
        chain_walk(slip=2.0)
    with pytest.raises(UserError, match="one size, not 2 states × 2 actions, 5 states × 2"):
        stack_mdps([chain_walk(2), chain_walk(5)])
    with pytest.raises(UserError, match="tau must be at least 0, not -1"):
        optimal_q(chain_walk(), -1.0)


def test_elimination_solves(key):
    """Also at a discount near 1, where I − γP is nearly singular."""
    mdp = garnets(key, 1, states=8, discounts=(0.9999, 0.9999))
    with float64():
        matrix = jnp.eye(8) - 0.9999 * mdp.transitions[0, :, 0]
        columns = jax.random.normal(key, (8, 3))
        found = eliminate(matrix, columns)
    wanted = np.linalg.solve(np.asarray(matrix), np.asarray(columns))
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
