"""Every way of computing a convolution is the convolution, and so are its gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from munchausen._src.kernels.convolution import blocks, convolution, of_blocks

DEVICES = ("cpu", "gpu")


def by_xla(images, weight, bias, *, stride, padding):
    """As JAX has it for weights [out, in, height, width]."""
    out = jax.lax.conv_general_dilated(
        images,
        weight,
        window_strides=(stride, stride),
        padding=padding,
        dimension_numbers=("NHWC", "OIHW", "NHWC"),
    )
    return out + bias


def drawn(key, images, inputs, outputs, kernel):
    """Images, weights and biases, all of the size of 1."""
    keys = jax.random.split(key, 3)
    weight = jax.random.normal(keys[1], (outputs, inputs, kernel, kernel))
    return (
        jax.random.normal(keys[0], (*images, inputs)),
        weight / np.sqrt(kernel * kernel * inputs),
        jax.random.normal(keys[2], (outputs,)),
    )


def gradients(function, arguments, **how):
    def loss(*arguments):
        return jnp.sum(jnp.sin(function(*arguments, **how)))

    return jax.grad(loss, argnums=(0, 1, 2))(*arguments)


def both(function, arguments, **how):
    """Values and gradients, by a program made now."""
    program = jax.jit(lambda *a: (function(*a, **how), gradients(function, a, **how)))
    return program(*arguments)


def assert_same(actual, expected):
    for ours, theirs in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        size = max(1.0, np.abs(theirs).max())
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * size)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(DEVICES),
    st.sampled_from(("SAME", "VALID")),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),  # stride, and the kernel in strides
    st.integers(0, 1),  # 1: a kernel that is no multiple of its stride
    st.integers(1, 30),
    st.integers(1, 30),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
def test_values_and_gradients_of_any_shape(device, padding, size, odd, inputs, outputs, more):
    stride, wide = size
    kernel = stride * wide + odd
    images = (2, kernel + more[0], kernel + more[1])
    arguments = drawn(jax.random.key(sum(more) + inputs), images, inputs, outputs, kernel)
    how = {"stride": stride, "padding": padding}
    expected = both(by_xla, arguments, **how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: device)
        assert_same(both(convolution, arguments, **how), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("padding", ("SAME", "VALID"))
@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "stride", "size"),
    # Atari's three, one whose shifted images, not products, lie beside each other, and MinAtar's.
    (
        (4, 32, 8, 4, 84),
        (32, 64, 4, 2, 21),
        (64, 64, 3, 1, 11),
        (32, 64, 3, 1, 11),
        (4, 16, 3, 1, 10),
    ),
)
def test_gradients_of_one_network_and_of_two_side_by_side(
    device, padding, inputs, outputs, kernel, stride, size, key, monkeypatch
):
    how = {"stride": stride, "padding": padding}
    shape = (inputs, outputs, kernel)
    x, *one = drawn(jax.random.fold_in(key, 0), (3, size, size), *shape)
    _, *two = drawn(jax.random.fold_in(key, 1), (3, size, size), *shape)
    expected = [jax.jit(lambda *a: gradients(by_xla, a, **how))(x, *each) for each in (one, two)]
    monkeypatch.setattr(jax, "default_backend", lambda: device)

    def ours(x, weight, bias):
        return gradients(convolution, (x, weight, bias), **how)

    assert_same(jax.jit(ours)(x, *one), expected[0])
    both = [jnp.stack(pair) for pair in zip(one, two, strict=True)]
    beside = jax.jit(jax.vmap(ours, in_axes=(None, 0, 0)))(x, *both)
    for i in range(2):
        assert_same(jax.tree.map(lambda array, i=i: array[i], beside), expected[i])


@pytest.mark.parametrize(
    ("device", "inputs", "made"),
    # A CPU has XLA's convolution where there are many inputs to an output.
    (
        ("gpu", 4, (3, 3, 16)),
        ("gpu", 64, (3, 3, 256)),
        ("cpu", 4, (3, 3, 16)),
        ("cpu", 64, (5, 5, 64)),
    ),
)
def test_half_of_it_needs_no_weight(device, inputs, made, key, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    how = {"stride": 2, "padding": "SAME"}
    images, weight, bias = drawn(key, (2, 5, 5), inputs, 8, 2)
    cut = jax.vmap(lambda image: blocks(image, 2, **how))(images)
    assert cut.shape == (2, *made)
    ours = of_blocks(cut, weight, bias, **how)
    np.testing.assert_allclose(ours, by_xla(images, weight, bias, **how), atol=1e-5)


def test_an_accelerator_convolves_where_no_gradient_is_asked_for(key, monkeypatch):
    """XLA's own convolution for one network, however its images are batched; products for
    several, where it would be a grouped one, and wherever there is a gradient."""
    how = {"stride": 2, "padding": "SAME"}
    networks = [drawn(jax.random.key(i), (1, 1, 1), 32, 64, 4)[1:] for i in range(3)]
    several = jax.tree.map(lambda *x: jnp.stack(x), *networks)
    x = jax.random.normal(key, (2, 3, 21, 21, 32))
    expected = jnp.stack([jax.vmap(lambda x, of=of: by_xla(x, *of, **how))(x) for of in networks])
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    def of_batches(network, x):
        return jax.vmap(lambda x: convolution(x, *network, **how))(x)

    def of_networks(several, x):
        return jax.vmap(of_batches, in_axes=(0, None))(several, x)

    def of_networks_within(several, x):
        return jax.vmap(lambda x: jax.vmap(lambda of: convolution(x, *of, **how))(several))(x)

    def gradient(network, x):
        return jax.grad(lambda network: jnp.sum(of_batches(network, x)))(network)

    np.testing.assert_allclose(of_batches(networks[0], x), expected[0], atol=1e-4)
    np.testing.assert_allclose(of_networks(several, x), expected, atol=1e-4)
    np.testing.assert_allclose(of_networks_within(several, x).swapaxes(0, 1), expected, atol=1e-4)

    def convolutions(function, *arguments):
        return str(jax.make_jaxpr(function)(*arguments)).count("conv_general_dilated")

    assert convolutions(jax.jit(of_batches), networks[0], x)
    assert not convolutions(jax.jit(of_networks), several, x)
    assert not convolutions(jax.jit(of_networks_within), several, x)
    assert not convolutions(jax.jit(gradient), networks[0], x)
