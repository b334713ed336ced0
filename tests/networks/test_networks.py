"""Layers against JAX's own, shapes of the paper's networks, initialisers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen._src.networks import TORSOS, make_network
from munchausen._src.networks.convolution import Convolution
from munchausen._src.networks.layers import INITIALISERS, Dense


@pytest.mark.parametrize("padding", ("SAME", "VALID"))
@pytest.mark.parametrize(
    ("kernel", "stride"), ((1, 1), (2, 1), (3, 1), (4, 1), (4, 2), (6, 3), (8, 4))
)
def test_matrix_product_is_the_convolution(padding, kernel, stride, key):
    layer = Convolution(
        3, 5, kernel, stride=stride, padding=padding, initialiser="glorot_uniform", key=key
    )

    @jax.jit
    def both(x):
        expected = jax.lax.conv_general_dilated(
            x,
            layer.filters,
            window_strides=(stride, stride),
            padding=padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return layer(x), expected + layer.bias

    for height in range(kernel, kernel + 2 * stride + 1):
        ours, expected = both(jax.random.normal(key, (2, height, 17, 3)))
        np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize("padding", ("SAME", "VALID"))
@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "stride", "size"),
    # The paper's three, and one whose shifted images, not products, lie beside each other.
    ((4, 32, 8, 4, 84), (32, 64, 4, 2, 21), (64, 64, 3, 1, 11), (32, 64, 3, 1, 11)),
)
def test_the_form_for_accelerators_has_the_same_gradients(
    padding, inputs, outputs, kernel, stride, size, key, monkeypatch
):
    """As a GPU computes them: by their own rule, for one network and for two side by side."""
    layers = [
        Convolution(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=padding,
            initialiser="glorot_uniform",
            key=jax.random.fold_in(key, i),
        )
        for i in range(2)
    ]
    x = jax.random.normal(key, (3, size, size, inputs))

    def gradients(layer, x):
        return jax.grad(lambda layer, x: jnp.sum(jnp.sin(layer(x))), argnums=(0, 1))(layer, x)

    expected = [jax.jit(gradients)(layer, x) for layer in layers]
    both = jax.tree.map(lambda *arrays: jnp.stack(arrays), *layers)
    with monkeypatch.context() as accelerator:
        accelerator.setattr(jax, "default_backend", lambda: "gpu")
        assert layers[0].blocks(x[0]).shape[-1] == inputs * stride**2
        alone = jax.jit(lambda *a: gradients(*a))(layers[0], x)
        beside = jax.jit(lambda both, x: jax.vmap(gradients, in_axes=(0, None))(both, x))(both, x)

    def assert_same(actual, expected):
        for ours, theirs in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())

    assert_same(alone, expected[0])
    for i in range(2):
        assert_same(jax.tree.map(lambda array, i=i: array[i], beside), expected[i])


def test_an_accelerator_convolves_where_no_gradient_is_asked_for(key, monkeypatch):
    """XLA's own convolution for one network, however its images are batched; products for
    several, where it would be a grouped one, and wherever there is a gradient."""
    layers = [
        Convolution(
            32, 64, 4, stride=2, padding="SAME", initialiser="glorot_uniform", key=jax.random.key(i)
        )
        for i in range(3)
    ]
    layer, several = layers[0], jax.tree.map(lambda *x: jnp.stack(x), *layers)
    x = jax.random.normal(key, (2, 3, 21, 21, 32))
    expected = jnp.stack([jax.vmap(layer)(x) for layer in layers])
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    def of_batches(layer, x):
        return jax.vmap(layer)(x)

    def of_networks(several, x):
        return jax.vmap(of_batches, in_axes=(0, None))(several, x)

    def of_networks_within(several, x):
        return jax.vmap(lambda x: jax.vmap(lambda layer: layer(x))(several))(x)

    def gradient(layer, x):
        return jax.grad(lambda layer: jnp.sum(of_batches(layer, x)))(layer)

    np.testing.assert_allclose(of_batches(layer, x), expected[0], atol=1e-4)
    np.testing.assert_allclose(of_networks(several, x), expected, atol=1e-4)
    np.testing.assert_allclose(of_networks_within(several, x).swapaxes(0, 1), expected, atol=1e-4)

    def convolutions(function, *arguments):
        return str(jax.make_jaxpr(function)(*arguments)).count("conv_general_dilated")

    assert convolutions(jax.jit(of_batches), layer, x)
    assert not convolutions(jax.jit(of_networks), several, x)
    assert not convolutions(jax.jit(of_networks_within), several, x)
    assert not convolutions(jax.jit(gradient), layer, x)


def test_filters_are_the_initial_draw(key):
    """Both forms in which weights are kept: for shifted images, and for shifted products."""
    for outputs in (5, 50):
        layer = Convolution(
            3, outputs, 4, stride=2, padding="SAME", initialiser="glorot_uniform", key=key
        )
        drawn = INITIALISERS["glorot_uniform"](key, (4, 4, 3, outputs))
        np.testing.assert_array_equal(layer.filters, drawn)
    assert layer.weight.shape == (4 * 4 * 3, 50)


def build(torso, shape, outputs=4, cosines=None, initialiser="glorot_uniform"):
    return make_network(
        TORSOS[torso],
        shape,
        outputs,
        scale=1.0,
        cosines=cosines,
        initialiser=initialiser,
        key=jax.random.key(0),
    )


def test_nature_network_has_the_papers_shapes():
    network = build("nature", (84, 84, 4), outputs=18)
    assert [layer.filters.shape for layer in network.encoder] == [
        (8, 8, 4, 32),
        (4, 4, 32, 64),
        (3, 3, 64, 64),
    ]
    assert network.hidden[0].weight.shape == (512, 7744)  # 11·11·64, with SAME padding
    assert network.output.weight.shape == (18, 512)
    count = sum(x.size for x in jax.tree.leaves(network))
    assert count == 8224 + 32832 + 36928 + 3965440 + 9234


@pytest.mark.parametrize(
    ("torso", "features"), [("minatar", 8 * 8 * 16), ("minatar-linear", 10 * 10 * 16)]
)
def test_minatar_networks(torso, features):
    network = build(torso, (10, 10, 4))
    views = jax.vmap(network.view)(jnp.zeros((2, 10, 10, 4), bool))
    assert network.features(views).shape == (2, features)
    assert network(views).shape == (2, 4)


def test_implicit_embedding_is_before_the_hidden_layer():
    network = build("minatar", (10, 10, 4), cosines=64)
    assert network.embedding.weight.shape == (1024, 64)
    views = jax.vmap(network.view)(jax.random.bernoulli(jax.random.key(1), 0.5, (2, 10, 10, 4)))
    fractions = jnp.linspace(0, 1, 10).reshape(2, 5)
    z = network.at_fractions(views, fractions)
    assert z.shape == (2, 5, 4)
    # By hand, for one state and one of its fractions.
    cosines = jnp.cos(jnp.pi * jnp.arange(1, 65) * fractions[1, 2])
    x = network.features(views)[1] * jax.nn.relu(network.embedding(cosines))
    np.testing.assert_allclose(
        z[1, 2], network.output(jax.nn.relu(network.hidden[0](x))), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("cosines", (None, 8))
@pytest.mark.parametrize("outputs", (4, 40))
def test_accelerators_compute_the_same(outputs, cosines, monkeypatch):
    """Values and gradients, in the forms that a GPU likes: few outputs and many, quantiles."""
    network = build("minatar", (10, 10, 4), outputs, cosines)
    views = jax.random.uniform(jax.random.key(1), (3, 10, 10, 4))
    fractions = jax.random.uniform(jax.random.key(2), (3, 5))

    def values(network):
        if cosines:
            return network.at_fractions(views, fractions)
        return network(views)

    def both(network):
        return values(network), jax.grad(lambda x: jnp.sum(jnp.sin(values(x))))(network)

    expected = jax.jit(both)(network)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    actual = jax.jit(lambda x: both(x))(network)
    for ours, theirs in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_observations_are_scaled():
    x = jax.random.uniform(jax.random.key(1), (6,))
    scaled = make_network(
        TORSOS["mlp-small"],
        (6,),
        2,
        scale=1 / 255,
        cosines=None,
        initialiser="glorot_uniform",
        key=jax.random.key(0),
    )
    plain = build("mlp-small", (6,), outputs=2)
    np.testing.assert_allclose(
        scaled(scaled.view(255 * x)[None]), plain(plain.view(x)[None]), rtol=1e-5
    )


@pytest.mark.parametrize(("rows", "turned"), ((5, True), (256, True), (257, False)))
def test_many_weights_and_few_rows_on_a_cpu(rows, turned, key):
    """Another order of the same product, alone and for networks side by side."""
    keys = jax.random.split(key, 2)

    def make(key):
        return Dense(1_000, 1_000, initialiser="glorot_uniform", key=key)

    def plain(layer, x):
        return x @ layer.weight.T + layer.bias

    def gradients(function, layer, x):
        return jax.grad(lambda *parts: jnp.sum(jnp.sin(function(*parts))), (0, 1))(layer, x)

    layer, x = make(keys[0]), jax.random.normal(keys[1], (rows, 1_000))
    assert ("optimization_barrier" in str(jax.make_jaxpr(layer)(x))) == turned
    np.testing.assert_allclose(layer(x), plain(layer, x), atol=1e-4)
    layers, xs = jax.vmap(make)(keys), jnp.stack([x, -x])
    together = jax.vmap(lambda layer, x: gradients(type(layer).__call__, layer, x))(layers, xs)
    for i in range(2):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], layers)
        expected = gradients(plain, one, xs[i])
        found = jax.tree.map(lambda leaf, i=i: leaf[i], together)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), found, expected)


def test_initialisers_have_the_papers_bounds(key):
    glorot = INITIALISERS["glorot_uniform"](key, (300, 100))
    assert 0.98 * np.sqrt(6 / 400) < jnp.max(jnp.abs(glorot)) <= np.sqrt(6 / 400)
    # Variance scaling 1/√3, fan-in, uniform: bound √(3 · (1/√3) / fan-in).
    fan_in = INITIALISERS["fan_in_uniform"](key, (300, 100))
    bound = np.sqrt(3 / np.sqrt(3) / 300)
    assert 0.98 * bound < jnp.max(jnp.abs(fan_in)) <= bound
    network = build("minatar", (10, 10, 4))
    for layer in (*network.encoder, *network.hidden, network.output):
        assert not layer.bias.any()


def test_a_table_has_one_weight_a_state_action():
    network = build("table", (5,), outputs=3)
    assert [x.shape for x in jax.tree.leaves(network)] == [(3, 5)]
    for state in range(5):
        np.testing.assert_array_equal(network(jnp.eye(5))[state], network.output.weight[:, state])
