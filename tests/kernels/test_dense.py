"""Every way of computing a product is the product, and so are its gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from munchausen._src.kernels.dense import add_in_two, dense, gate, over_states

DEVICES = ("cpu", "gpu")


def plain(x, weight, bias):
    return x @ weight.T + bias


def both(function, *arguments):
    """Values, and gradients by all arguments."""

    def loss(*arguments):
        return jnp.sum(jnp.sin(function(*arguments)))

    def values_and_gradients(*arguments):
        every = tuple(range(len(arguments)))
        return function(*arguments), jax.grad(loss, every)(*arguments)

    return jax.jit(values_and_gradients)(*arguments)


def assert_same(actual, expected, atol=1e-4):
    for ours, theirs in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=atol)


def drawn(seed, *shapes):
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    return [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(DEVICES),
    st.lists(st.integers(1, 5), max_size=2),
    st.integers(1, 30),
    st.integers(1, 30),
)
def test_values_and_gradients_of_any_shape(device, rows, inputs, outputs):
    arguments = drawn(inputs, (*rows, inputs), (outputs, inputs), (outputs,))
    expected = both(plain, *arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: device)
        assert_same(both(dense, *arguments), expected)
        without = dense(*arguments[:2])
    np.testing.assert_allclose(without + arguments[2], expected[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_a_batch_of_states(device, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    x, weight, bias = drawn(0, (7, 5), (3, 5), (3,))
    expected = both(plain, x, weight, bias)

    def layers(x, weight, bias):
        return over_states(lambda x: dense(x, weight, bias), x)

    assert_same(both(layers, x, weight, bias), expected)


@pytest.mark.parametrize(("rows", "turned"), ((5, True), (256, True), (257, False)))
def test_many_weights_and_few_rows_on_a_cpu(rows, turned):
    """Another order of the same product, alone and for networks side by side."""
    x, weight, bias = drawn(rows, (2, rows, 1_000), (2, 1_000, 1_000), (2, 1_000))
    weight = weight / 30
    assert ("optimization_barrier" in str(jax.make_jaxpr(dense)(x[0], weight[0]))) == turned
    together = jax.vmap(lambda *one: both(dense, *one))(x, weight, bias)
    for i in range(2):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], together)
        assert_same(one, both(plain, x[i], weight[i], bias[i]), atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_gates(device, monkeypatch):
    """By hand, for each state and fraction."""
    arguments = drawn(1, (3, 6), (3, 4, 5), (6, 5), (6,))

    def by_hand(features, embedded, weight, bias):
        rows = [
            features[state] * jax.nn.relu(weight @ embedded[state, i] + bias)
            for state in range(3)
            for i in range(4)
        ]
        return jnp.stack(rows)

    expected = both(by_hand, *arguments)
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    assert_same(both(gate, *arguments), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_a_biass_gradient_is_the_sum_over_all_but_its_axis(device, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    x, bias, pull = drawn(2, (3, 4, 5), (5,), (3, 4, 5))
    value, back = jax.vjp(add_in_two, x, bias)
    np.testing.assert_array_equal(value, x + bias)
    assert_same(back(pull), (pull, pull.sum((0, 1))))
