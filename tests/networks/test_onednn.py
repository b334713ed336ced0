"""oneDNN's convolutions and products are XLA's, are taken where they pay, and are never kept."""

import platform
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from munchausen.agent import resolve
from munchausen.loops.compiling import compiled
from munchausen.networks import TORSOS, make_network, onednn
from munchausen.networks.layers import Dense

with_onednn = pytest.mark.skipif(
    sys.platform != "linux"
    or platform.machine() != "x86_64"
    or onednn.jaxlib_version not in onednn.TRIED,
    reason="not where oneDNN was tried",
)


@pytest.fixture
def asked_anew():
    onednn.is_here.cache_clear()
    yield
    onednn.is_here.cache_clear()


def gradients(function, *arguments):
    """Values, and gradients by all arguments of a function of the values."""
    out, pull_back = jax.vjp(function, *arguments)
    return out, pull_back(jnp.cos(out))


def by_onednn(function, *arguments):
    def within(*arguments):
        with onednn.calls(True):
            return function(*arguments)

    return onednn.never_kept(jax.jit(within))(*arguments)


def assert_same(actual, expected):
    for ours, theirs in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


def numbers(seed, *shapes):
    random = np.random.default_rng(seed)
    return [jnp.asarray(random.normal(size=shape), jnp.float32) for shape in shapes]


def by_numpy(images, filters, bias, stride, pad):
    """The convolution's values and gradients, window by window, in float64."""
    images, filters, bias = (np.asarray(x, np.float64) for x in (images, filters, bias))
    padded = np.pad(images, ((0, 0), *pad, (0, 0)))
    rows, columns = ((n - len(filters)) // stride + 1 for n in padded.shape[1:3])

    def seen(row, column):
        return slice(None), *(
            slice(i, i + n * stride, stride) for i, n in ((row, rows), (column, columns))
        )

    parts = list(np.ndindex(filters.shape[:2]))
    out = np.maximum(sum(padded[seen(*at)] @ filters[at] for at in parts) + bias, 0)
    gradient = np.cos(out) * (out > 0)
    of_padded, of_filters = np.zeros_like(padded), np.zeros_like(filters)
    for at in parts:
        of_padded[seen(*at)] += gradient @ filters[at].T
        of_filters[at] = np.einsum("nhwi,nhwo->io", padded[seen(*at)], gradient)
    (top, _), (left, _) = pad
    of_images = of_padded[:, top : top + images.shape[1], left : left + images.shape[2]]
    return out, (of_images, of_filters, gradient.sum((0, 1, 2)))


def assert_the_convolution(images, filters, bias, stride, pad):
    filters /= np.sqrt(filters[..., 0].size)  # outputs near 1
    ours = partial(onednn.convolve_and_rectify, stride=stride, pad=pad)
    actual = by_onednn(partial(gradients, lambda *x: ours(*x)), images, filters, bias)
    assert_same(actual, by_numpy(images, filters, bias, stride, pad))


@with_onednn
@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "stride", "size", "pad"),
    ((4, 32, 8, 4, 84, (2, 2)), (32, 64, 4, 2, 21, (1, 2)), (64, 64, 3, 1, 11, (1, 1))),
)
def test_the_papers_convolutions(inputs, outputs, kernel, stride, size, pad):
    shapes = (3, size, size, inputs), (kernel, kernel, inputs, outputs), (outputs,)
    assert_the_convolution(*numbers(0, *shapes), stride, (pad, pad))


@st.composite
def along_an_axis(draw, kernel, stride):
    """The size of an image and its padding, of which the windows take all."""
    covered = (draw(st.integers(1, 5)) - 1) * stride + kernel
    before = draw(st.integers(0, min(kernel, covered) - 1))
    after = draw(st.integers(0, min(kernel - 1, covered - before - 1)))
    return covered - before - after, (before, after)


@st.composite
def convolutions(draw):
    stride = draw(st.integers(1, 4))
    kernel = stride * draw(st.integers(1, 3))
    (rows, tall), (columns, broad) = (draw(along_an_axis(kernel, stride)) for _ in range(2))
    images, inputs, outputs = (draw(st.integers(1, most)) for most in (3, 9, 20))
    shapes = (images, rows, columns, inputs), (kernel, kernel, inputs, outputs), (outputs,)
    return shapes, stride, (tall, broad)


@with_onednn
@settings(max_examples=25, deadline=None, derandomize=True)
@given(convolutions())
def test_any_convolution(convolution):
    """Images that are not square, windows that see padding alone, single pixels."""
    shapes, stride, pad = convolution
    assert_the_convolution(*numbers(1, *shapes), stride, pad)


@with_onednn
@pytest.mark.parametrize(("rows", "turned"), ((1, False), (5, True), (32, False), (32, True)))
def test_products(rows, turned):
    left, right = numbers(2, (rows, 70), (90, 70) if turned else (70, 90))
    actual = by_onednn(partial(onednn.multiply, turned=turned), left, right)
    assert_same(actual, jax.jit(jnp.matmul)(left, right.T if turned else right))


@with_onednn
def test_a_large_layer(key):
    layer = Dense(2_000, 600, initialiser="glorot_uniform", key=key)
    (x,) = numbers(3, (8, 2_000))

    def run(layer, x):
        return gradients(lambda layer, x: layer(x), layer, x)

    actual = by_onednn(run, layer, x)
    assert_same(actual, jax.jit(run)(layer, x))


def nature(shape=(84, 84, 4)):
    return make_network(
        TORSOS["nature"],
        shape,
        4,
        scale=1 / 255,
        cosines=None,
        initialiser="glorot_uniform",
        key=jax.random.key(0),
    )


def values(network, frames):
    return network(jax.vmap(network.view)(frames))


def test_of_the_suites_networks_ataris_is_large():
    assert [name for name, torso in TORSOS.items() if torso.is_large] == ["nature"]


@with_onednn
@pytest.mark.parametrize("size", (84, 83, 96))
def test_the_papers_network(size):
    """And images that none of its windows fit."""
    network = nature((size, size, 4))
    frames = jax.random.randint(jax.random.key(1), (2, size, size, 4), 0, 256, jnp.uint8)

    def run(network):
        return gradients(lambda network: values(network, frames), network)

    assert_same(by_onednn(run, network), jax.jit(run)(network))


def calls_of(program, *arguments):
    return program.lower(*arguments).as_text().count("custom_call @__onednn$")


@with_onednn
def test_a_program_holds_calls_where_it_was_made_to():
    """Four of a pass (three convolutions, the hidden layer), and none in what JAX traces of the
    same function before and after."""
    arguments = nature(), jnp.zeros((2, 84, 84, 4), jnp.uint8)
    inner = jax.jit(values)
    assert calls_of(inner, *arguments) == 0
    program = compiled(inner, resolve("m-dqn", "atari")).__wrapped__
    assert calls_of(program, *arguments) == 4
    assert calls_of(inner, *arguments) == 0
    assert calls_of(compiled(inner, resolve("m-dqn", "minatar")), *arguments) == 0


@with_onednn
def test_the_same_bits_each_time():
    network = nature()
    frames = jax.random.randint(jax.random.key(1), (32, 84, 84, 4), 0, 256, jnp.uint8)

    def run(network):
        return gradients(lambda network: values(network, frames), network)

    first = by_onednn(run, network)
    for _ in range(3):
        jax.tree.map(np.testing.assert_array_equal, by_onednn(run, network), first)


_IN_A_PROCESS_OF_ITS_OWN = """
import sys
import jax, jax.numpy as jnp
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
from munchausen.agent import resolve
from munchausen.loops.compiling import compiled
from munchausen.networks import onednn

def with_calls(x, w):
    assert onednn.is_wanted()
    return onednn.multiply(x, w)

def without(x, w):
    assert not onednn.is_wanted()
    return x @ w

arguments = jnp.ones((3, 40)), jnp.ones((40, 50))
assert float(compiled(with_calls, resolve("dqn", "atari"))(*arguments)[0, 0]) == 40
assert float(compiled(without, resolve("dqn", "minatar"))(*arguments)[0, 0]) == 40
"""


@with_onednn
def test_programs_with_calls_are_never_kept(tmp_path):
    """Others are. A warning of JAX's, that it could not keep one, would be an error here."""
    command = [sys.executable, "-W", "error", "-c", _IN_A_PROCESS_OF_ITS_OWN, str(tmp_path)]
    subprocess.run(command, check=True)
    kept = " ".join(path.name for path in tmp_path.iterdir())
    assert "jit_without" in kept
    assert "jit_with_calls" not in kept
    assert "jit__convolve" not in kept  # the one that is tried first


@pytest.mark.usefixtures("asked_anew")
def test_other_versions_of_jaxlib_do_without_and_say_so(monkeypatch):
    monkeypatch.setattr(onednn, "sys", type("", (), {"platform": "linux"}))
    monkeypatch.setattr(onednn, "platform", type("", (), {"machine": lambda: "x86_64"}))
    monkeypatch.setattr(onednn, "jaxlib_version", "9.9")
    with pytest.warns(UserWarning, match="jaxlib 9.9 was not tried"):
        assert not onednn.is_here()
    assert not onednn.is_here()  # asked and said once


@with_onednn
@pytest.mark.usefixtures("asked_anew")
def test_a_jaxlib_without_onednn_does_without_and_says_so(monkeypatch):
    """Its XLA knows no such call: an error when the program is compiled."""
    call = onednn._call
    monkeypatch.setattr(onednn, "_call", lambda name, *x: call(f"no_{name}", *x))
    with pytest.warns(UserWarning, match="none that come out right"):
        assert not onednn.is_here()


@with_onednn
@pytest.mark.usefixtures("asked_anew")
def test_calls_that_come_out_wrong_are_not_taken(monkeypatch):
    call = onednn._call
    monkeypatch.setattr(onednn, "_call", lambda *x: 1.001 * call(*x))
    with pytest.warns(UserWarning, match="none that come out right"):
        assert not onednn.is_here()


@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize("why", ("MUNCHAUSEN_ONEDNN", "platform", "machine"))
def test_where_there_is_none_nothing_is_said(monkeypatch, why):
    if why == "MUNCHAUSEN_ONEDNN":
        monkeypatch.setenv("MUNCHAUSEN_ONEDNN", "0")
    elif why == "platform":
        monkeypatch.setattr(onednn, "sys", type("", (), {"platform": "darwin"}))
    else:
        monkeypatch.setattr(onednn, "platform", type("", (), {"machine": lambda: "aarch64"}))
    assert not onednn.is_here()
