"""Our networks: the paper's shapes, initial weights, the same on every machine."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen import UserError
from munchausen._src.networks import (
    INITIALISERS,
    TORSOS,
    Convolution,
    Dense,
    make_network,
    with_head,
)

OBSERVATIONS = {
    "nature": (84, 84, 4),
    "minatar": (10, 10, 4),
    "minatar-linear": (10, 10, 4),
    "mlp": (6,),
    "mlp-small": (2, 3),
    "table": (5,),
}


def build(torso, shape, outputs=4, **options):
    return make_network(torso, shape, outputs, **options, key=jax.random.key(0))


def test_nature_network_has_the_papers_shapes():
    network = build("nature", (84, 84, 4), outputs=18)
    assert [layer.weight.shape for layer in network.torso.layers] == [
        (32, 4, 8, 8),
        (64, 32, 4, 4),
        (64, 64, 3, 3),
    ]
    assert network.hidden[0].weight.shape == (512, 7744)  # 11·11·64, with SAME padding
    assert network.output.weight.shape == (18, 512)
    count = sum(x.size for x in jax.tree.leaves(network))
    assert count == 8224 + 32832 + 36928 + 3965440 + 9234


@pytest.mark.parametrize("cosines", (None, 8))
@pytest.mark.parametrize("torso", TORSOS)
def test_weights_are_the_same_on_every_machine(torso, cosines, monkeypatch):
    here = build(torso, OBSERVATIONS[torso], cosines=cosines)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    there = build(torso, OBSERVATIONS[torso], cosines=cosines)
    assert jax.tree.structure(here) == jax.tree.structure(there)
    for ours, theirs in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_weights_are_the_initial_draw_with_outputs_first(key):
    draw = INITIALISERS["glorot_uniform"]
    layer = Convolution(3, 5, 4, stride=2, padding="SAME", key=key)
    drawn = draw(key, (4, 4, 3, 5))
    np.testing.assert_array_equal(layer.weight[1, 2, 3, 0], drawn[3, 0, 2, 1])
    np.testing.assert_array_equal(layer.weight, drawn.transpose(3, 2, 0, 1))
    np.testing.assert_array_equal(Dense(3, 5, key=key).weight, draw(key, (3, 5)).T)


@pytest.mark.parametrize("torso", TORSOS)
def test_each_layer_draws_from_a_key_of_its_own(torso, key):
    """The numbers that a key has always given: trainings of older versions are repeated."""
    data = TORSOS[torso]
    network = make_network(torso, OBSERVATIONS[torso], 3, cosines=8, key=key)
    layers = (*network.torso.layers, *network.hidden, network.output, network.embedding)
    assert len(layers) == len(data.encoder) + len(data.hidden) + 2
    for one, layer in zip(jax.random.split(key, len(layers)), layers, strict=True):
        shape = layer.weight.shape
        turned = (2, 3, 1, 0) if len(shape) == 4 else (1, 0)
        drawn = INITIALISERS["glorot_uniform"](one, tuple(shape[axis] for axis in turned))
        np.testing.assert_array_equal(layer.weight.transpose(turned), drawn)


@pytest.mark.parametrize("stride", (1, 2))
@pytest.mark.parametrize("padding", ("SAME", "VALID"))
def test_a_convolution_is_equinoxs(stride, padding, key):
    theirs = eqx.nn.Conv2d(3, 5, 4, stride=stride, padding=padding, key=key)
    ours = Convolution(3, 5, 4, stride=stride, padding=padding, key=key)
    assert ours.weight.shape == theirs.weight.shape
    ours = eqx.tree_at(lambda x: (x.weight, x.bias), ours, (theirs.weight, theirs.bias.reshape(-1)))
    x = jax.random.normal(key, (2, 9, 8, 3))
    expected = jax.vmap(theirs)(x.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(ours(x), expected, atol=1e-5)


def test_a_dense_layer_is_equinoxs(key):
    theirs, ours = eqx.nn.Linear(6, 5, key=key), Dense(6, 5, key=key)
    assert ours.weight.shape == theirs.weight.shape
    ours = eqx.tree_at(lambda x: (x.weight, x.bias), ours, (theirs.weight, theirs.bias))
    x = jax.random.normal(key, (3, 6))
    np.testing.assert_allclose(ours(x), jax.vmap(theirs)(x), atol=1e-6)


@pytest.mark.parametrize("torso", TORSOS)
def test_one_observation_is_a_batch_of_one(torso, key):
    """And the two halves of a pass are the whole."""
    shape = OBSERVATIONS[torso]
    x = jax.random.uniform(key, (3, *shape))
    fractions = jax.random.uniform(key, (3, 5))
    network = build(torso, shape, scale=0.5)
    many = network.batch(jax.vmap(network.view)(x))
    assert many.shape == (3, 4)
    np.testing.assert_allclose(jax.vmap(network)(x), many, rtol=1e-4, atol=1e-5)
    implicit = build(torso, shape, scale=0.5, cosines=8)
    many = implicit.batch(jax.vmap(implicit.view)(x), fractions)
    assert many.shape == (3, 5, 4)
    np.testing.assert_allclose(jax.vmap(implicit)(x, fractions), many, rtol=1e-4, atol=1e-5)
    # The torso alone is callable with an observation, as a user's is.
    features = implicit.features(jax.vmap(implicit.view)(x))
    np.testing.assert_allclose(implicit.torso(0.5 * x[1]), features[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("torso", "features"), [("minatar", 8 * 8 * 16), ("minatar-linear", 10 * 10 * 16)]
)
def test_minatar_networks(torso, features):
    network = build(torso, (10, 10, 4))
    views = jax.vmap(network.view)(jnp.zeros((2, 10, 10, 4), bool))
    assert network.features(views).shape == (2, features)


def test_implicit_embedding_is_before_the_hidden_layer():
    network = build("minatar", (10, 10, 4), cosines=64)
    assert network.embedding.weight.shape == (1024, 64)
    views = jax.vmap(network.view)(jax.random.bernoulli(jax.random.key(1), 0.5, (2, 10, 10, 4)))
    fractions = jnp.linspace(0, 1, 10).reshape(2, 5)
    z = network.batch(views, fractions)
    # By hand, for one state and one of its fractions.
    cosines = jnp.cos(jnp.pi * jnp.arange(1, 65) * fractions[1, 2])
    x = network.features(views)[1] * jax.nn.relu(network.embedding(cosines))
    np.testing.assert_allclose(
        z[1, 2], network.output(jax.nn.relu(network.hidden[0](x))), rtol=1e-4, atol=1e-5
    )


def test_fractions_need_an_embedding():
    with pytest.raises(UserError, match="no embedding of fractions: make it with `cosines`"):
        build("mlp-small", (6,))(jnp.ones(6), jnp.ones(2))


@pytest.mark.parametrize("cosines", (None, 8))
@pytest.mark.parametrize("outputs", (4, 40))
def test_accelerators_compute_the_same(outputs, cosines, monkeypatch):
    """Values and gradients: few outputs and many, quantiles."""
    network = build("minatar", (10, 10, 4), outputs, cosines=cosines)
    views = jax.random.uniform(jax.random.key(1), (3, 10, 10, 4))
    fractions = jax.random.uniform(jax.random.key(2), (3, 5)) if cosines else None

    def both(network):
        def loss(network):
            return jnp.sum(jnp.sin(network.batch(views, fractions)))

        return network.batch(views, fractions), jax.grad(loss)(network)

    expected = jax.jit(both)(network)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    actual = jax.jit(lambda x: both(x))(network)
    for ours, theirs in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_observations_are_scaled():
    x = jax.random.uniform(jax.random.key(1), (6,))
    scaled = build("mlp-small", (6,), outputs=2, scale=1 / 255)
    np.testing.assert_allclose(scaled(255 * x), build("mlp-small", (6,), outputs=2)(x), rtol=1e-5)


def test_a_head_behind_a_torso_may_have_hidden_layers(key):
    torso = eqx.nn.Linear(6, 10, key=key)
    network = with_head(torso, (6,), 3, hidden=(8, 7), cosines=4, key=key)
    shapes = [layer.weight.shape for layer in (*network.hidden, network.output)]
    assert shapes == [(8, 10), (7, 8), (3, 7)]
    assert network.embedding.weight.shape == (10, 4)


def test_initialisers_have_the_papers_bounds(key):
    glorot = INITIALISERS["glorot_uniform"](key, (300, 100))
    assert 0.98 * np.sqrt(6 / 400) < jnp.max(jnp.abs(glorot)) <= np.sqrt(6 / 400)
    # Variance scaling 1/√3, fan-in, uniform: bound √(3 · (1/√3) / fan-in).
    fan_in = INITIALISERS["fan_in_uniform"](key, (300, 100))
    bound = np.sqrt(3 / np.sqrt(3) / 300)
    assert 0.98 * bound < jnp.max(jnp.abs(fan_in)) <= bound
    network = build("minatar", (10, 10, 4))
    for layer in (*network.torso.layers, *network.hidden, network.output):
        assert not layer.bias.any()


def test_a_table_has_one_weight_a_state_action():
    network = build("table", (5,), outputs=3)
    assert [x.shape for x in jax.tree.leaves(network)] == [(3, 5)]
    for state in range(5):
        np.testing.assert_array_equal(network(jnp.eye(5)[state]), network.output.weight[:, state])
