"""Torsos of a user's: every kind that is taken, and what is said of the rest."""

import sys
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen import UserError
from munchausen._src.core.network import only_arrays
from munchausen._src.networks import (
    TORSOS,
    Torso,
    make_network,
    torso_factory,
)

SHAPE = (5, 5, 3)


class Small(eqx.Module):
    convolution: eqx.nn.Conv2d

    def __init__(self, observation_shape, *, key):
        self.convolution = eqx.nn.Conv2d(observation_shape[-1], 2, 3, key=key)

    def __call__(self, observation):
        return jax.nn.relu(self.convolution(observation.transpose(2, 0, 1)))


class Noisy(eqx.Module):
    weight: jax.Array

    def __init__(self, observation_shape, *, key):
        self.weight = jax.random.normal(key, (4, *observation_shape))

    def __call__(self, observation, *, key=None):
        out = jnp.tensordot(self.weight, observation, observation.ndim)
        return out if key is None else out + jax.random.normal(key, out.shape)


class WithFunctions(eqx.Module):
    """Leaves that are no arrays, and a function that is another one each time."""

    layers: list
    activation: object
    rate: float

    def __init__(self, observation_shape, *, key):
        self.layers = [eqx.nn.MLP(observation_shape[0], 6, 8, 1, key=key)]
        self.activation = lambda x: self.rate * x
        self.rate = 0.5

    def __call__(self, observation):
        return self.activation(self.layers[0](observation))


class NotCallable:
    def __init__(self, observation_shape, *, key):
        pass


class Nested:
    Inner = Small


def init(key, observation):
    return {"w": jax.random.normal(key, (7, observation.size))}


def apply(parameters, observation):
    return parameters["w"] @ observation.ravel()


def noisy_apply(parameters, observation, key=None):
    out = apply(parameters, observation)
    return out if key is None else out + jax.random.normal(key, out.shape)


class InitApply:
    """As flax's modules are: a pair of methods."""

    init = staticmethod(init)
    apply = staticmethod(apply)


PAIR = (init, apply)
INSTANCE = eqx.nn.Sequential(
    [eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(75, 6, key=jax.random.key(3))]
)
HERE = __name__
NUMBER = 3

KINDS = {
    "class": (Small, f"{HERE}:Small", 2 * 3 * 3),
    "function": (lambda shape, *, key: Small(shape, key=key), None, 2 * 3 * 3),
    "instance": (INSTANCE, None, 6),
    "pair": (PAIR, None, 7),
    "methods": (InitApply(), None, 7),
    "path": (f"{HERE}:Small", f"{HERE}:Small", 2 * 3 * 3),
    "nested path": (f"{HERE}:Nested.Inner", f"{HERE}:Nested.Inner", 2 * 3 * 3),
    "path of a pair": (f"{HERE}:PAIR", f"{HERE}:PAIR", 7),
    "path of an instance": (f"{HERE}:INSTANCE", f"{HERE}:INSTANCE", 6),
    "name": ("minatar", "minatar", None),
    "data": (TORSOS["minatar"], "minatar", None),
}


@pytest.mark.parametrize("cosines", (None, 4))
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_network_that_learns(kind, cosines, key):
    given, _, features = KINDS[kind]

    @jax.jit
    def make(key):
        return make_network(given, SHAPE, 4, scale=0.5, cosines=cosines, key=key)

    network = make(key)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(network))
    x = jax.random.uniform(key, (3, *SHAPE))
    fractions = jax.random.uniform(key, (3, 2)) if cosines else None
    views = jax.vmap(network.view)(x)
    if features:
        assert network.features(views).shape == (3, features)

    def loss(network):
        return jnp.sum(network.batch(views, fractions) ** 2)

    value, gradient = jax.jit(jax.value_and_grad(loss))(network)
    assert value > 0
    moved = [bool(jnp.any(leaf != 0)) for leaf in jax.tree.leaves(gradient)]
    assert all(moved)
    one = network(x[1]) if fractions is None else network(x[1], fractions[1])
    np.testing.assert_allclose(one, network.batch(views, fractions)[1], rtol=1e-4, atol=1e-5)


def test_a_torso_is_given_scaled_floats(key):
    seen = []

    def torso(observation_shape, *, key):  # noqa: ARG001
        def call(observation):
            seen.append((observation.shape, str(observation.dtype)))
            return observation

        return call

    network = make_network(torso, SHAPE, 4, scale=1 / 255, key=key)
    assert set(seen) == {(SHAPE, "float32")}
    white = jnp.full(SHAPE, 255, jnp.uint8)
    np.testing.assert_allclose(network.features(network.view(white)[None]), 1.0, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_torso_has_a_name_for_the_configuration(kind):
    given, name, _ = KINDS[kind]
    found = torso_factory(given).name
    if name is not None:
        assert found == name
        torso_factory(found)
        assert torso_factory(found).name == name
    else:
        assert found.startswith("<")
        with pytest.raises(UserError, match="give it again as Agent"):
            torso_factory(found)


def test_a_factory_stays_itself(key):
    factory = torso_factory(Small)
    assert torso_factory(factory) is factory
    by_factory = make_network(factory, SHAPE, 4, key=key)
    assert eqx.tree_equal(by_factory, make_network(Small, SHAPE, 4, key=key))


def test_a_torso_of_ones_own_layers():
    torso = Torso(encoder=(6,), hidden=(5,), source="this test")
    network = make_network(torso, (3,), 2, key=jax.random.key(0))
    shapes = [x.shape for x in jax.tree.leaves(network) if x.ndim == 2]
    assert shapes == [(6, 3), (5, 6), (2, 5)]


def test_weights_of_an_instance_are_the_initial_ones(key):
    first, second = (make_network(INSTANCE, SHAPE, 4, key=k) for k in jax.random.split(key))
    for network in (first, second):
        torso = jax.tree.leaves(network.torso)
        np.testing.assert_array_equal(torso[0], INSTANCE.layers[1].weight)
    assert not np.array_equal(first.output.weight, second.output.weight)


def test_networks_of_one_factory_have_one_structure(key):
    """A lambda is another function each time; online and target networks are mapped together."""
    factory = torso_factory(WithFunctions)
    online, target = (make_network(factory, (5,), 4, key=k) for k in jax.random.split(key))
    mixed = jax.tree.map(lambda a, b: (a + b) / 2, online, target)
    assert mixed(jnp.ones(5)).shape == (4,)
    made = WithFunctions((5,), key=key)
    x = jax.random.normal(key, (5,))
    np.testing.assert_array_equal(only_arrays(made)(x), made(x))


def test_arrays_of_numpy_are_trained_too():
    class Plain(eqx.Module):
        weight: np.ndarray

        def __call__(self, x):
            return self.weight @ x

    module = only_arrays(Plain(np.ones((2, 3), np.float32)))
    assert isinstance(module.weight, jax.Array)
    np.testing.assert_array_equal(module(jnp.ones(3)), [3.0, 3.0])


@pytest.mark.parametrize("given", (Noisy, (init, noisy_apply)))
def test_a_key_is_handed_on_where_it_is_taken(given, key):
    network = make_network(given, SHAPE, 4, key=key)
    views = jax.random.uniform(key, (2, *SHAPE))
    views = views.at[1].set(views[0])
    calm = network.batch(views)
    np.testing.assert_array_equal(calm, network.batch(views))
    one, other = (network.batch(views, key=jax.random.key(i)) for i in range(2))
    assert not np.allclose(one, calm)
    assert not np.allclose(one, other)
    np.testing.assert_allclose(one[0], one[1], rtol=1e-5)  # one draw for a batch
    np.testing.assert_array_equal(one, network.batch(views, key=jax.random.key(0)))


def test_hidden_layers_are_given_keys_too(key):
    class NoisyLayer(eqx.Module):
        def __call__(self, x, *, key=None):
            return x if key is None else x + jax.random.normal(key, x.shape[-1:])

    network = make_network("minatar", (10, 10, 4), 4, key=key)
    network = eqx.tree_at(lambda x: x.hidden, network, (*network.hidden, NoisyLayer()))
    views = jnp.ones((2, 10, 10, 4))
    assert not np.allclose(network.batch(views, key=key), network.batch(views))


def test_layers_that_take_no_key_are_given_none(key):
    network = make_network(Small, SHAPE, 4, key=key)
    views = jnp.ones((2, *SHAPE))
    np.testing.assert_array_equal(network.batch(views, key=key), network.batch(views))


@pytest.mark.parametrize(
    ("given", "says"),
    (
        (7, r"a network is a name, MODULE:NAME, .*; an object of type int is none of these"),
        (None, r"an object of type NoneType is none of these"),
        ((init, 3), r"an object of type tuple is none of these"),
        (NotCallable, r"NotCallable makes an object of type NotCallable, which cannot be called"),
        (
            lambda shape: Small(shape, key=jax.random.key(0)),
            r"called with \(observation_shape, key=key\), which it does not take",
        ),
        (lambda shape, *, key: 3, r"makes an object of type int, which cannot be called"),  # noqa: ARG005
        ((init, lambda p, x: (x, x)), r"must give one array of floats; it gives tuple"),  # noqa: ARG005
        ((init, lambda p, x: x > 0), r"one array of floats; it gives bool\[5, 5, 3\]"),  # noqa: ARG005
        ((init, lambda p, x: x[:0]), r"one array of floats; it gives float32\[0, 5, 3\]"),  # noqa: ARG005
        (eqx.nn.Linear(4, 2, key=jax.random.key(0)), r"cannot take an observation of shape \(5,"),
        ("minattar", r"unknown network 'minattar'; did you mean 'minatar'"),
        ("qqq", r"there are: nature, .*, or MODULE:NAME of your own"),
        ("not_imported:Small", r"defined by 'not_imported': if you trust .* --import not_imported"),
        (f"{HERE}:Smal", r"unknown name in .*'Smal'; did you mean 'Small'"),
        (f"{HERE}:Nested.Iner", r"did you mean 'Inner'"),
        (f"{HERE}:NUMBER", r"is an object of type int; it must be a name, MODULE:NAME"),
        (f"{HERE}:HERE", r"is an object of type str"),
        ("<lambda>", r"was an object in Python, <lambda>: no name brings it back"),
    ),
)
def test_what_is_no_torso(given, says, key):
    with pytest.raises(UserError, match=says):
        make_network(given, SHAPE, 4, key=key)


def test_a_torso_for_images_needs_images(key):
    with pytest.raises(UserError, match=r"needs images, but an observation has shape \(4,\)"):
        make_network("minatar", (4,), 2, key=key)


def test_nothing_is_imported_because_a_name_says_so(tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="--import theirs"):
        torso_factory("theirs:Torso")
    module = ModuleType("theirs")
    module.Torso = Small
    monkeypatch.setitem(sys.modules, "theirs", module)
    torso_factory("theirs:Torso")
    assert torso_factory("theirs:Torso").name == "theirs:Torso"
