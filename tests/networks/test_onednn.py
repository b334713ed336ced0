"""oneDNN's convolutions and products are those of NumPy and of XLA."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from munchausen.agent import resolve
from munchausen.loops import onednn_here
from munchausen.loops.compiling import compiled
from munchausen.networks import TORSOS, make_network, onednn
from munchausen.networks.convolution import Convolution
from munchausen.networks.layers import Dense


@pytest.fixture(scope="module", autouse=True)
def here():
    if not onednn_here.is_here():  # tests/loops/test_onednn_here.py says where it must be
        pytest.skip("no oneDNN here")


def gradients(function, *arguments):
    """Values, and gradients by all arguments of a function of the values."""
    out, pull_back = jax.vjp(function, *arguments)
    return out, pull_back(jnp.cos(out))


def by_onednn(function, *arguments):
    def within(*arguments):
        with onednn.calls(True):
            return function(*arguments)

    return onednn_here.never_kept(jax.jit(within))(*arguments)


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
    out = sum(padded[seen(*at)] @ filters[at] for at in parts) + bias
    gradient = np.cos(out)
    of_padded, of_filters = np.zeros_like(padded), np.zeros_like(filters)
    for at in parts:
        of_padded[seen(*at)] += gradient @ filters[at].T
        of_filters[at] = np.einsum("nhwi,nhwo->io", padded[seen(*at)], gradient)
    (top, _), (left, _) = pad
    of_images = of_padded[:, top : top + images.shape[1], left : left + images.shape[2]]
    return out, (of_images, of_filters, gradient.sum((0, 1, 2)))


def assert_the_convolution(images, filters, bias, stride, pad):
    filters /= np.sqrt(filters[..., 0].size)  # outputs near 1
    ours = partial(onednn.convolve, stride=stride, pad=pad)
    actual = by_onednn(partial(gradients, lambda *x: ours(*x)), images, filters, bias)
    assert_same(actual, by_numpy(images, filters, bias, stride, pad))


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


@settings(max_examples=25, deadline=None, derandomize=True)
@given(convolutions())
def test_any_convolution(convolution):
    """Images that are not square, windows that see padding alone, single pixels."""
    shapes, stride, pad = convolution
    assert_the_convolution(*numbers(1, *shapes), stride, pad)


@pytest.mark.parametrize(("rows", "turned"), ((1, False), (1, True), (32, False), (32, True)))
def test_products(rows, turned):
    left, right = numbers(2, (rows, 70), (90, 70) if turned else (70, 90))
    actual = by_onednn(partial(onednn.multiply, turned=turned), left, right)
    assert_same(actual, jax.jit(jnp.matmul)(left, right.T if turned else right))


def test_a_large_layer(key):
    layer = Dense(2_000, 600, initialiser="glorot_uniform", key=key)
    (x,) = numbers(3, (8, 2_000))

    def run(layer, x):
        return gradients(lambda layer, x: layer(x), layer, x)

    actual = by_onednn(run, layer, x)
    assert_same(actual, jax.jit(run)(layer, x))


def convolution(*sizes, stride, padding="SAME", seed=0):
    key = jax.random.key(seed)
    return Convolution(
        *sizes, stride=stride, padding=padding, initialiser="glorot_uniform", key=key
    )


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


@pytest.mark.parametrize("size", (84, 83, 96))
def test_the_papers_network(size):
    """And images of other sizes, whose padding is another."""
    network = nature((size, size, 4))
    frames = jax.random.randint(jax.random.key(1), (2, size, size, 4), 0, 256, jnp.uint8)
    actual = by_onednn(values, network, frames)
    assert_same(actual, jax.jit(values)(network, frames))


def calls_of(program, *arguments):
    return program.lower(*arguments).as_text().count("custom_call @__onednn$")


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


def test_a_program_of_gradients_and_loops_is_kept_apart_too():
    network, frames = nature(), jnp.zeros((2, 84, 84, 4), jnp.uint8)

    def step(network, _):
        gradient = jax.grad(lambda network: jnp.sum(values(network, frames)))(network)
        return jax.tree.map(jnp.add, network, gradient), None

    def steps(network):
        return jax.lax.scan(step, network, length=2)[0]

    # Three convolutions, and their gradients by weights and images: two and two. The hidden layer
    # and its gradient by features.
    for agent, count in (("minatar", 0), ("atari", 9), ("minatar", 0)):
        program = compiled(lambda network: steps(network), resolve("dqn", agent))
        program = program if not count else program.__wrapped__
        assert calls_of(program, network) == count


@pytest.mark.parametrize("axes", ((0, 0), (0, None), (None, 0)))
def test_side_by_side(axes):
    """Layers, images, or both."""
    layers = [convolution(8, 16, 4, stride=2, seed=seed) for seed in range(2)]
    (images,) = numbers(5, (2, 3, 9, 9, 8))

    def run(layer, x):
        return gradients(lambda layer, x: layer(x), layer, x)

    both = jax.tree.map(lambda *x: jnp.stack(x), *layers) if axes[0] == 0 else layers[0]
    given = both, images if axes[1] == 0 else images[0]
    actual = by_onednn(jax.vmap(run, in_axes=axes), *given)
    pairs = [
        [x[i if axis == 0 else 0] for x, axis in zip((layers, images), axes, strict=True)]
        for i in (0, 1)
    ]
    single = [jax.jit(run)(*pair) for pair in pairs]
    assert_same(actual, jax.tree.map(lambda *x: jnp.stack(x), *single))


@pytest.mark.parametrize("harmed", ("frames", "filters", "bias"))
def test_what_is_no_number_stays_none(harmed):
    """A training that diverges must be seen to."""
    network = nature((21, 21, 4))
    layer, nan = network.encoder[1], jnp.nan
    views = jnp.ones((2, 21, 21, 4))
    if harmed == "frames":
        views = views.at[0, 10, 10, 0].set(nan)
    elif harmed == "filters":
        network = eqx.tree_at(lambda n: n.encoder[1].weight, network, layer.weight * nan)
    else:
        network = eqx.tree_at(lambda n: n.encoder[1].bias, network, layer.bias * nan)

    def run(network, views):
        return network(views)

    ours, expected = by_onednn(run, network, views), jax.jit(run)(network, views)
    assert np.isnan(expected).any()
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(expected))


def test_what_does_not_fit_is_refused():
    """Here: the call itself would end the process."""
    images, filters, bias = numbers(0, (2, 11, 11, 8), (3, 3, 8, 16), (16,))
    pad = (1, 1), (1, 1)
    refused = (
        (TypeError, lambda: onednn.convolve(images[..., :4], filters, bias, 1, pad)),
        (TypeError, lambda: onednn.convolve(images, filters, bias[:8], 1, pad)),
        (TypeError, lambda: onednn.convolve(images.astype(jnp.bfloat16), filters, bias, 1, pad)),
        (ValueError, lambda: onednn.convolve(images, filters, bias, 2, pad)),
        (ValueError, lambda: onednn.convolve(images[:, :1], filters, bias, 1, ((0, 1), (1, 1)))),
        (ValueError, lambda: onednn.convolve(images, filters, bias, 1, ((3, 1), (1, 1)))),
        (ValueError, lambda: onednn.convolve(images, filters[:, :2], bias, 1, pad)),
        (TypeError, lambda: onednn.multiply(bias[None], bias[None])),
        (TypeError, lambda: onednn.multiply(images[0, 0], images[0, 0, :4], turned=False)),
    )
    for error, call in refused:
        with pytest.raises(error):
            call()


@pytest.mark.parametrize(
    ("size", "kernel", "padding", "count"),
    ((12, 4, "SAME", 1), (12, 4, "VALID", 1), (13, 4, "VALID", 0), (12, 2, "SAME", 0)),
)
def test_which_convolutions_are_calls(size, kernel, padding, count):
    """Not those that drop pixels, nor those of few inputs."""
    layer = convolution(16, 8, kernel, stride=2, padding=padding)
    (x,) = numbers(4, (2, size, size, 16))

    def run(layer, x):
        with onednn.calls(True):
            return layer(x)

    assert calls_of(jax.jit(run), layer, x) == count
    assert_same(by_onednn(lambda *a: layer(*a), x), jax.jit(lambda x: layer(x))(x))


def test_the_same_bits_each_time():
    network = nature()
    frames = jax.random.randint(jax.random.key(1), (32, 84, 84, 4), 0, 256, jnp.uint8)

    def run(network):
        return gradients(lambda network: values(network, frames), network)

    first = by_onednn(run, network)
    for _ in range(3):
        jax.tree.map(np.testing.assert_array_equal, by_onednn(run, network), first)
