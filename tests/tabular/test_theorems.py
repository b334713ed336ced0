"""Every theorem holds, and each check fails when its formula is broken on purpose."""

import jax
import numpy as np
import pytest

from munchausen._src.core.operators import soft_value
from munchausen._src.errors import UserError
from munchausen._src.tabular.schemes import State, log_softmax
from munchausen._src.tabular.theorems import (
    action_gap,
    averaging,
    identities,
    moving_average,
    printed,
)
from munchausen.tabular import (
    THEOREMS,
    AdvantageLearning,
    DynamicPolicyProgramming,
    MirrorDescentVI,
    MunchausenVI,
    SoftValueIteration,
    ValueIteration,
    chain_walk,
    find_theorem,
    garnets,
    grid_world,
    optimal_q,
    run,
    stack_mdps,
)

# Which formulas the paper prints wrong, and which of those it prints right are looser than ours.
PRINTED_WRONG = {
    "theorem-1": 2,
    "theorem-2": 1,
    "limit": 1,
    "sup-bound": 1,
    "corollary-2": 3,
    "al": 1,
    "legendre": 1,
    "error-definition": 1,
}


@pytest.fixture(scope="module")
def mdps():
    return garnets(jax.random.key(5), 20)


@pytest.mark.parametrize("name", THEOREMS)
def test_holds(mdps, name):
    seen = []
    result = run(THEOREMS[name], mdps, watch=seen.append)
    assert result.passed, result
    assert 0 <= result.residual <= result.tolerance
    assert result.mdps == seen[-1] == 20
    wrong = [p for p in result.printed if not p.holds]
    assert len(wrong) == PRINTED_WRONG.get(name, 0)
    assert all(p.residual > 0.01 for p in wrong)
    if name == "theorem-2":
        factors = result.details["factors"]
        assert [row["alpha"] for row in factors] == [0.3, 0.5, 0.9]
        np.testing.assert_allclose(
            [row["measured"] for row in factors], [1 / 0.7, 2, 10], rtol=1e-9
        )
        np.testing.assert_allclose([row["printed"] for row in factors], [1.3 / 0.7, 3, 19])
    if name == "gap-divergence":
        found = result.details["largest_gap_per_iteration"]
        np.testing.assert_allclose(found, result.details["largest_optimal_gap"], rtol=0.05)
    if name in ("sup-bound", "corollary-1", "corollary-2"):
        assert result.details["least_slack"] >= 0
    if name == "corollary-1":
        assert 0.9 < result.details["tightness"] <= 1
        assert result.details["broken_without_its_assumption_by"] > 0.1
    if name == "corollary-2":
        assert 0.9 < result.details["tightness_of_errors"] <= 1
        assert 0.8 < result.details["tightness_of_start"] <= 1


@pytest.mark.parametrize("mdp", [chain_walk(5), grid_world(2, 3)], ids=["chain", "grid"])
def test_on_a_users_own_mdp(mdp):
    """One action gap of the grid is 0 in every state: ties are no trouble."""
    result = run(find_theorem("theorem-2"), stack_mdps([mdp, mdp]))
    assert result.passed, result


def test_unknown_names_get_the_nearest():
    with pytest.raises(UserError, match=r"unknown theorem 'theorem2'; did you mean 'theorem-2'"):
        find_theorem("theorem2")


def wrong_sign(self, mdp, state, error):
    return true_step(self._replace(alpha=-self.alpha), mdp, state, error)


def missing_tau(self, mdp, state, error):
    log_pi = log_softmax(state.q, self.tau)
    q = mdp.rewards + self.alpha * log_pi + mdp.discount * mdp.expect(self.value(state)) + error
    return State(q, log_pi)


def half_alpha(self, mdp, state, error):
    return true_step(self._replace(alpha=0.5 * self.alpha), mdp, state, error)


def discount_lost(self, mdp, state, error):
    """AL's loss as printed in appendix B, without its γ."""
    v = self.value(state)
    q = mdp.rewards + mdp.expect(v) + self.alpha * (state.q - v[:, None]) + error
    return State(q, state.log_policy)


def turned_sign(self, mdp, state, error):
    v = self.value(state)
    q = state.q + mdp.rewards + mdp.discount * mdp.expect(v) + v[:, None] + error
    return State(q, state.log_policy)


def without_temperature(q, _):
    return soft_value(q, 1.0)


true_step = MunchausenVI.step

# name of the check, what is broken, its attribute, and what it is broken with
MUTANTS = {
    "wrong sign of the log-policy": ("theorem-1", MunchausenVI, "step", wrong_sign),
    "entropy with a minus": (
        "theorem-1",
        MirrorDescentVI,
        "value",
        printed.PrintedMirrorDescentVI.value,
    ),
    "printed factor": ("theorem-2", action_gap, "gap_factor", printed.gap_factor),
    "half the log-policy": ("gap-divergence", MunchausenVI, "step", half_alpha),
    "log-policy without τ": ("limit", MunchausenVI, "step", missing_tau),
    "printed limit": ("limit", action_gap, "limit_in_values", printed.limit),
    "no error term": (
        "sup-bound",
        averaging,
        "sup_bound",
        lambda mdp, tau, terms: averaging.printed_start(mdp, tau, terms.iteration),
    ),
    "no error term in components": (
        "corollary-1",
        averaging,
        "componentwise_bound",
        lambda mdp, tau, terms: averaging.printed_start(mdp, tau, terms.iteration)[:, None, None],
    ),
    "printed corollary": ("corollary-2", moving_average, "bound", moving_average.printed_bound),
    "log-sum-exp without τ": (
        "cvi",
        identities,
        "soft_value",
        without_temperature,
    ),
    "discount lost": ("al", AdvantageLearning, "step", discount_lost),
    "constant too small": ("al", identities, "al_constant", lambda *_: 0.1),
    "sign of the value": ("dpp", DynamicPolicyProgramming, "step", turned_sign),
    "hard maximum": (
        "soft-q",
        SoftValueIteration,
        "value",
        ValueIteration.value,
    ),
    "four temperatures": (
        "entropy-bias",
        identities,
        "optimal_q",
        lambda mdp, tau=0.0: optimal_q(mdp, 4 * tau),
    ),
    "value without τ": ("legendre", identities, "soft_value", without_temperature),
    "printed definition": (
        "error-definition",
        identities,
        "error_of_update",
        printed.error_of_update,
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_formula_fails_its_check(mdps, monkeypatch, mutant):
    name, where, attribute, broken = MUTANTS[mutant]
    monkeypatch.setattr(where, attribute, broken)
    result = run(THEOREMS[name], mdps)
    assert not result.passed
    assert not result.residual <= 1e-3  # some diverge, to NaN


def test_every_check_has_a_mutant():
    assert {name for name, *_ in MUTANTS.values()} == set(THEOREMS)
