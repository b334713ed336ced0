"""Schemes step by step against hand-written NumPy, their error sources, and their ranges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from munchausen._src.errors import UserError
from munchausen.tabular import (
    AdvantageLearning,
    Clipped,
    ConservativeVI,
    DynamicPolicyProgramming,
    Gaussian,
    Given,
    MirrorDescentVI,
    MunchausenVI,
    NoError,
    Sampling,
    SoftValueIteration,
    State,
    ValueIteration,
    chain_walk,
    float64,
    iterate,
    optimal_q,
    start,
)

ALPHA, TAU, CLIP = 0.7, 0.2, -0.1
MDP = chain_walk(4, discount=0.8)
P, R, GAMMA = np.asarray(MDP.transitions), np.asarray(MDP.rewards), 0.8
RANDOM = np.random.default_rng(0)
Q, ERROR = RANDOM.normal(size=(4, 2)), RANDOM.normal(size=(4, 2))
LOG_PI = np.log([[0.3, 0.7], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])

V = np.array([oracle.soft_value(q, TAU) for q in Q])
LOG = np.array([oracle.scaled_log_policy(q, TAU) for q in Q])
MAX = Q.max(axis=1)
L = TAU * np.log(2)


def mirror_step(kl, h):
    logits = (Q + kl * LOG_PI) / (kl + h)
    pi = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    divergence = (pi * np.log(pi / np.exp(LOG_PI))).sum(1)
    value = (pi * Q).sum(1) - kl * divergence - h * (pi * np.log(pi)).sum(1)
    return R + GAMMA * P @ value


STEPS = [
    (ValueIteration(), R + GAMMA * P @ MAX),
    (SoftValueIteration(TAU), R + GAMMA * P @ V),
    (MunchausenVI(ALPHA, TAU), R + ALPHA * LOG + GAMMA * P @ V),
    (MunchausenVI(ALPHA, TAU, CLIP), R + ALPHA * np.maximum(LOG, CLIP) + GAMMA * P @ V),
    (MunchausenVI(ALPHA, 0.0), R + ALPHA * (Q - MAX[:, None]) + GAMMA * P @ MAX),
    (MirrorDescentVI(0.14, 0.06), mirror_step(0.14, 0.06)),
    (ConservativeVI(ALPHA, TAU), R + ALPHA * (Q - V[:, None] + L) + GAMMA * P @ (V - L)),
    (DynamicPolicyProgramming(TAU), Q + R - V[:, None] + GAMMA * P @ V),
    (AdvantageLearning(ALPHA), R + ALPHA * (Q - MAX[:, None]) + GAMMA * P @ MAX),
]


@pytest.mark.parametrize(("scheme", "wanted"), STEPS, ids=lambda x: type(x).__name__)
def test_one_step_by_hand(scheme, wanted):
    with float64():
        state = State(jnp.asarray(Q), jnp.asarray(LOG_PI))
        after = scheme.step(MDP, state, jnp.asarray(ERROR))
    np.testing.assert_allclose(after.q, wanted + ERROR, atol=1e-14)
    np.testing.assert_allclose(np.exp(after.log_policy).sum(1), 1.0, atol=1e-14)


def test_schemes_find_the_optimum():
    for scheme in (ValueIteration(), MunchausenVI(0.0, 0.0)):
        q = iterate(scheme, MDP, start(MDP), 200).q[-1]
        np.testing.assert_allclose(q, optimal_q(MDP), atol=1e-13)
    q = iterate(MirrorDescentVI(0.14, 0.06), MDP, start(MDP), 300).q[-1]
    np.testing.assert_allclose(q, optimal_q(MDP, 0.06), atol=1e-13)


def draw(source, count=2000):
    with float64():
        value = jnp.array([1.0, -2.0, 0.5, 3.0])
        keys = jax.random.split(jax.random.key(0), count)
        errors = jax.jit(jax.vmap(lambda key: source(key, MDP, value, jnp.asarray(0))))(keys)
    return np.asarray(errors), np.asarray(value)


def test_sampling_errors_have_the_right_mean_and_variance():
    errors, value = draw(Sampling(5))
    variance = GAMMA**2 * (P @ value**2 - (P @ value) ** 2) / 5
    np.testing.assert_allclose(errors.mean(0), 0.0, atol=4 * np.sqrt(variance.max() / 2000))
    np.testing.assert_allclose(errors.var(0), variance, rtol=0.2, atol=1e-12)
    assert variance.max() > 0.01


def test_gaussian_given_and_none():
    errors, _ = draw(Gaussian(0.3))
    assert abs(errors.std() - 0.3) < 0.01
    assert not draw(NoError(), 1)[0].any()
    own = jnp.asarray(RANDOM.normal(size=(3, 4, 2)), jnp.float32)
    np.testing.assert_array_equal(
        iterate(ValueIteration(), MDP, start(MDP), 3, Given(own)).errors, own
    )


def test_clipped_errors_keep_the_update_within():
    errors, value = draw(Clipped(Gaussian(3.0), 1.5))
    update = R + GAMMA * P @ value + errors
    assert np.abs(update).max() <= 1.5 + 1e-12
    assert (np.abs(update) < 1.4).any()


def test_the_same_key_gives_all_schemes_the_same_noise(key):
    runs = [
        iterate(scheme, MDP, start(MDP), 5, Gaussian(1.0), key).errors
        for scheme in (ValueIteration(), MunchausenVI(ALPHA, TAU))
    ]
    np.testing.assert_array_equal(*runs)
    assert len(np.unique(runs[0])) == runs[0].size


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        (MunchausenVI(1.1, 0.1), r"alpha must be in \[0, 1\], not 1.1"),
        (MunchausenVI(-0.1, 0.1), r"alpha must be in \[0, 1\]"),
        (MunchausenVI(0.9, -0.1), "tau must be at least 0, not -0.1"),
        (MunchausenVI(0.9, float("nan")), "tau must be at least 0, not nan"),
        (MunchausenVI(0.9, 0.1, 1.0), "clip_min must be at most 0, not 1"),
        (MirrorDescentVI(-1.0, 0.1), "kl_weight must be at least 0, not -1"),
        (MirrorDescentVI(0.0, 0.0), "cannot both be 0"),
        (AdvantageLearning(2), r"alpha must be in \[0, 1\], not 2"),
    ],
)
def test_refused(scheme, said):
    with pytest.raises(UserError, match=said):
        iterate(scheme, MDP, start(MDP), 3)


def test_iterations_are_checked():
    with pytest.raises(UserError, match="iterations must be at least 1, not 0"):
        iterate(ValueIteration(), MDP, start(MDP), 0)
