"""Every head pushes its estimate through the same backup: identities between them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from munchausen._src.core.backup import Regulariser, backup
from munchausen._src.core.heads import Categorical, Expected, ImplicitQuantile, Quantile
from munchausen._src.core.heads.categorical import project
from munchausen._src.core.heads.quantile import quantile_loss
from munchausen._src.core.network import batched
from munchausen._src.networks import TORSOS, make_network
from specs import vectors

CATEGORICAL = Categorical(atoms=201, v_min=-20.0, v_max=20.0)
HEADS = {
    "expected": Expected("huber"),
    "categorical": CATEGORICAL,
    "quantile": Quantile(16),
    "implicit": ImplicitQuantile(8, 16, 32),
}
FORMS = {
    "plain": Regulariser(0.0, 0.0, -1.0),
    "soft": Regulariser(0.0, 0.03, -1.0),
    "al": Regulariser(0.9, 0.0, -np.inf),
    "munchausen": Regulariser(0.9, 0.03, -1.0),
}
Q_TM1 = jnp.array([0.4, 0.1, 0.35])
A_TM1, R_T, DISCOUNT_T = jnp.int32(1), jnp.float32(0.3), jnp.float32(0.97)


def mean_of(head, target):
    return target @ head.support if isinstance(head, Categorical) else jnp.mean(target)


def as_returns(head, spread, q):
    """The head's own form of returns with means `q`; `spread` 0 is a point mass."""
    offsets = jnp.linspace(-spread, spread, 16)
    if isinstance(head, Expected):
        return q
    if isinstance(head, Categorical):
        atoms = q[:, None] + offsets
        mass = jnp.full(16, 1 / 16)
        return jax.vmap(lambda x: project(x, mass, head.support))(atoms)
    return q[None, :] + offsets[:, None]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("spread", (0.0, 2.0))
def test_mean_target_is_the_expected_heads(head, form, spread):
    """A point mass (spread 0), and any distribution's mean, go where the expected value goes."""
    head, regulariser = HEADS[head], FORMS[form]
    q_t = jnp.array([1.0, 0.9, -0.5])
    b = backup(regulariser, Q_TM1, A_TM1, R_T, DISCOUNT_T, q_t)
    mean = mean_of(head, head.push(b, as_returns(head, spread, q_t)))
    expected = oracle.expected_target(Q_TM1, 1, 0.3, 0.97, q_t, *regulariser)
    np.testing.assert_allclose(mean, expected, atol=1e-5)


@pytest.mark.parametrize("head", ("quantile", "implicit"))
def test_point_mass_stays_one(head):
    head = HEADS[head]
    q_t = jnp.array([1.0, 0.9, -0.5])
    b = backup(FORMS["munchausen"], Q_TM1, A_TM1, R_T, DISCOUNT_T, q_t)
    target = head.push(b, as_returns(head, 0.0, q_t))
    np.testing.assert_allclose(target, target[0], rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_categorical_push_equals_the_oracle(form):
    head, regulariser = Categorical(11, -5.0, 5.0), FORMS[form]
    random = np.random.default_rng(3)
    for _ in range(20):
        p_t = random.dirichlet(np.ones(11), size=3).astype(np.float32)
        q_t = jnp.asarray(p_t @ np.linspace(-5, 5, 11, dtype=np.float32))
        r, discount = np.float32(random.normal() * 3), np.float32(random.choice([0.0, 0.99]))
        b = backup(regulariser, Q_TM1, A_TM1, jnp.asarray(r), jnp.asarray(discount), q_t)
        ours = head.push(b, jnp.asarray(p_t))
        theirs = oracle.categorical_target(
            Q_TM1, 1, r, discount, p_t, q_t, np.linspace(-5, 5, 11), *regulariser
        )
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
        np.testing.assert_allclose(jnp.sum(ours), 1.0, rtol=1e-5)


def test_projection_by_hand():
    support = jnp.array([0.0, 1.0, 2.0])
    atoms, mass = jnp.array([-1.0, 0.25, 2.0, 9.0]), jnp.array([0.1, 0.4, 0.2, 0.3])
    # −1 and 9 go to the ends; 0.25 gives ¾ of 0.4 to 0 and ¼ to 1.
    np.testing.assert_allclose(project(atoms, mass, support), [0.4, 0.1, 0.5], rtol=1e-6)


def test_quantile_loss_by_hand():
    # One estimate 0 at fraction ¼; targets ½ (inside, weight ¼) and −3 (outside, weight ¾).
    loss = quantile_loss(jnp.zeros(1), jnp.array([0.25]), jnp.array([0.5, -3.0]), 1.0)
    np.testing.assert_allclose(loss, (0.25 * 0.125 + 0.75 * 2.5) / 2, rtol=1e-6)


def implicit_network(key):
    return make_network(
        TORSOS["mlp-small"], (4,), 3, scale=1.0, cosines=16, initialiser="fan_in_uniform", key=key
    )


def test_implicit_draws_are_independent(key, with_draws):
    """M-IQN draws three separate sets: K for π(s), K for π(s'), N' for the target quantiles."""
    from munchausen._src.agents import override, resolve
    from munchausen._src.agents.building import make_learner
    from munchausen._src.core.replay import Transitions

    config = override(
        resolve("m-iqn", "gym"),
        {
            "network": "mlp-small",
            "fractions": 5,
            "target_fractions": 32,
            "policy_fractions": 32,
        },
    )
    learner = make_learner(config, vectors(4, 3))
    batch = 256
    states = jnp.zeros((batch, 4))
    ones = jnp.ones(batch)
    transitions = Transitions(states, jnp.zeros(batch, jnp.int32), ones, ones, states)
    regulariser = Regulariser(config.alpha, config.tau, config.clip_min)
    update = partial(learner.update, regulariser=regulariser)
    _, draws = with_draws(update)(learner.init(key), transitions, key)
    *draws, of_loss = [np.asarray(draw) for draw in draws]
    assert [draw.shape for draw in draws] == [(batch, 32)] * 3
    for i in range(3):
        assert draws[i].min() >= 0.0
        assert draws[i].max() <= 1.0
        for j in range(i):
            assert np.isin(draws[i], draws[j]).mean() < 0.01  # float32 has few values
            correlation = np.corrcoef(draws[i].ravel(), draws[j].ravel())[0, 1]
            assert abs(correlation) < 0.05
    assert of_loss.shape == (batch, 5)  # the loss draws its own, too
    assert np.isin(of_loss, draws).mean() < 0.01


def test_acting_values_of_the_implicit_head_vary_with_the_key(key):
    head, network = HEADS["implicit"], batched(implicit_network(key))
    observations = jnp.ones((2, 4))
    first = head.policy_q(network, observations, jax.random.key(0))
    second = head.policy_q(network, observations, jax.random.key(1))
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(first, second, atol=0.5)
