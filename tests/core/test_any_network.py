"""A learner takes any callable module, trains what is to be trained, and says what does not fit."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from munchausen import UserError, core

M_DQN = core.Regulariser(alpha=0.9, tau=0.03, clip_min=-1.0)
HEADS = {
    "expected": (core.Expected(), 3),
    "categorical": (core.Categorical(atoms=11), 33),
    "quantile": (core.Quantile(quantiles=5), 15),
}


def transitions(batch=8, key=0):
    keys = jax.random.split(jax.random.key(key), 4)
    return core.Transitions(
        jax.random.normal(keys[0], (batch, 4)),
        jax.random.randint(keys[1], (batch,), 0, 3),
        jax.random.normal(keys[2], (batch,)),
        jnp.full(batch, 0.9),
        jax.random.normal(keys[3], (batch, 4)),
    )


def learner_of(network, head=core.Expected(), optimizer=optax.sgd(0.1)):  # noqa: B008
    return core.Learner(head, optimizer, network)


def mlp(outputs):
    return lambda key: eqx.nn.MLP(4, outputs, 8, 1, key=key)


@pytest.mark.parametrize("head", HEADS)
def test_an_equinox_module_with_any_head(head):
    """`eqx.nn.MLP` holds functions besides its arrays: programs take it all the same."""
    head, outputs = HEADS[head]
    learner = learner_of(mlp(outputs), head)
    update = jax.jit(partial(learner.update, regulariser=M_DQN))
    state = learner.init(jax.random.key(0))
    after, out = update(state, transitions(), jax.random.key(1))
    assert out.loss.shape == out.priorities.shape == (8,)
    assert all(np.isfinite(x) for x in out.metrics)
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), state.online, after.online)
    assert any(jax.tree.leaves(moved))
    actions = core.Actor(head).act(after.online, jnp.ones((5, 4)), jax.random.key(2))
    assert actions.shape == (5,)


def test_a_module_and_a_pair_of_functions_learn_the_same():
    module = mlp(3)(jax.random.key(0))

    class Applied(eqx.Module):
        params: dict

        def __call__(self, x):
            x = jax.nn.relu(self.params["w1"] @ x + self.params["b1"])
            return self.params["w2"] @ x + self.params["b2"]

    first, second = module.layers
    params = {"w1": first.weight, "b1": first.bias, "w2": second.weight, "b2": second.bias}
    after = []
    for network in (module, Applied(params)):
        learner = learner_of(lambda _, network=network: network)
        state = learner.init(jax.random.key(0))
        options = {"regulariser": M_DQN}
        after.append(learner.update(state, transitions(), jax.random.key(1), **options)[1].loss)
    np.testing.assert_allclose(*after, rtol=1e-6)


def test_only_floats_that_are_not_frozen_are_trained():
    class Network(eqx.Module):
        weight: jax.Array
        mask: core.Frozen
        steps: jax.Array

        def __call__(self, x):
            return self.weight @ (x * self.mask.value)

    def make(key):
        weight = jax.random.normal(key, (3, 4))
        return Network(weight, core.Frozen(jnp.array([1.0, 1.0, 0.0, 1.0])), jnp.int32(7))

    learner = learner_of(make, optimizer=optax.adam(0.1))
    state = learner.init(jax.random.key(0))
    assert len(jax.tree.leaves(state.optimizer[0].mu)) == 1
    after, _ = learner.update(state, transitions(), jax.random.key(1), regulariser=M_DQN)
    assert (after.online.weight[:, :2] != state.online.weight[:, :2]).any()
    np.testing.assert_array_equal(after.online.weight[:, 2], state.online.weight[:, 2])
    np.testing.assert_array_equal(after.online.mask.value, [1, 1, 0, 1])
    assert after.online.steps == 7


class Noisy(eqx.Module):
    """Its noise is one draw a pass, and it has none without a key."""

    weight: jax.Array

    def __call__(self, x, *, key=None):
        q = self.weight @ x
        return q if key is None else q + jax.random.normal(key, q.shape)


def test_a_network_that_exists_stays_its_owners():
    module = mlp(3)(jax.random.key(0))
    learner = learner_of(lambda _: module)
    state = learner.init(jax.random.key(0))
    jax.jit(learner.copy_target, donate_argnums=0)(state)  # online and target share no memory
    assert module(jnp.ones(4)).shape == (3,)


def test_a_field_may_be_called_batch():
    class Network(eqx.Module):
        weight: jax.Array
        batch: int = eqx.field(static=True, default=3)
        view: int = eqx.field(static=True, default=3)

        def __call__(self, x):
            return self.weight @ x

    actor = core.Actor(core.Expected())
    q = actor.values(Network(jnp.ones((3, 4))), jnp.ones((2, 4)), jax.random.key(0))
    np.testing.assert_array_equal(q, 4.0)


def test_metrics_of_several_axes():
    update = core.Update(
        jnp.ones((2, 3, 4)), jnp.ones((2, 3, 4, 5)), jnp.zeros((2, 3, 4), int), 0.1
    )
    assert all(x.shape == (2, 3) for x in update.metrics)


def test_keys_reach_a_network_that_asks_for_them():
    network, states = Noisy(jnp.zeros((3, 4))), jnp.ones((2, 4))
    actor = core.Actor(core.Expected())
    first, second = (actor.values(network, states, jax.random.key(i)) for i in (0, 1))
    assert (first != second).all()
    np.testing.assert_array_equal(first[0], first[1])  # the same for the whole batch
    quiet = actor.values(network, states, jax.random.key(0), evaluating=True)
    np.testing.assert_array_equal(quiet, 0)
    # The target's noise is drawn anew with each update.
    learner = learner_of(lambda _: network)
    state = learner.init(jax.random.key(0))
    batch = transitions()
    losses = [
        learner.update(state, batch, jax.random.key(i), regulariser=M_DQN)[1].loss for i in (0, 1)
    ]
    assert (losses[0] != losses[1]).all()


def test_several_updates_at_once_are_those_one_by_one():
    """In both ways; with a regulariser of its own for each, too."""
    head = core.ImplicitQuantile(3, 4, 5)

    class Network(eqx.Module):
        weight: jax.Array

        def __call__(self, x, fractions):
            return jnp.cos(fractions)[:, None] * (self.weight @ x)

    learner = learner_of(lambda key: Network(jax.random.normal(key, (3, 4))), head)
    state = learner.init(jax.random.key(0))
    batches = jax.tree.map(lambda *x: jnp.stack(x), *(transitions(key=i) for i in range(4)))
    each = core.Regulariser(*(jnp.full(4, x) for x in M_DQN))
    results = [
        learner.updates(
            state, batches, jax.random.key(3), regulariser=regulariser, targets_at_once=at_once
        )
        for regulariser in (M_DQN, each)
        for at_once in (False, True)
    ]
    for after, out in results[1:]:
        np.testing.assert_allclose(after.online.weight, results[0][0].online.weight, rtol=1e-5)
        np.testing.assert_allclose(out.metrics, results[0][1].metrics, rtol=1e-5, atol=1e-6)
    single = jax.tree.map(lambda x: x[:1], batches)
    key, options = jax.random.key(5), {"regulariser": M_DQN}
    one, _ = learner.update(state, jax.tree.map(lambda x: x[0], batches), key, **options)
    several, _ = learner.updates(state, single, key, **options)
    np.testing.assert_array_equal(one.online.weight, several.online.weight)


def test_a_traced_temperature_has_a_gradient():
    """So that τ can be learned: nothing between it and the loss is a Python number."""
    learner = learner_of(mlp(3))
    state = learner.init(jax.random.key(0))

    def loss(tau):
        regulariser = core.Regulariser(0.9, tau, -1.0)
        out = learner.update(state, transitions(), jax.random.key(1), regulariser=regulariser)[1]
        return out.metrics.loss

    step = 1e-2
    difference = float(loss(0.5 + step) - loss(0.5 - step)) / (2 * step)
    assert abs(difference) > 1e-4
    assert float(jax.grad(loss)(0.5)) == pytest.approx(difference, rel=1e-2)


class TestWhatDoesNotFit:
    @pytest.mark.parametrize(
        ("head", "outputs", "words"),
        [
            (core.Categorical(atoms=51), 100, r"shape \[100\]; Categorical needs .* × 51 atoms"),
            (core.Quantile(quantiles=7), 10, r"shape \[10\]; Quantile needs \[7 quantiles × act"),
        ],
    )
    def test_outputs(self, head, outputs, words):
        learner = learner_of(mlp(outputs), head)
        with pytest.raises(UserError, match=words):
            learner.update(
                learner.init(jax.random.key(0)),
                transitions(),
                jax.random.key(1),
                regulariser=M_DQN,
            )

    def test_a_matrix_of_outputs(self):
        learner = learner_of(lambda _: lambda x: jnp.ones((3, 4)) * x)
        with pytest.raises(UserError, match="no arrays of floats to train"):
            learner.init(jax.random.key(0))

        class Matrix(eqx.Module):
            weight: jax.Array

            def __call__(self, x):
                return self.weight * x

        network = Matrix(jnp.ones((3, 4)))
        with pytest.raises(UserError, match=r"has shape \[3, 4\]; Expected needs \[actions\]"):
            core.Actor(core.Expected()).act(network, jnp.ones((2, 4)), jax.random.key(0))

    def test_implicit_quantiles_without_an_axis_of_fractions(self):
        class Flat(eqx.Module):
            weight: jax.Array

            def __call__(self, x, fractions):
                return self.weight @ x + fractions[0]

        head = core.ImplicitQuantile(3, 4, 5)
        with pytest.raises(UserError, match=r"5 fractions has shape \[3\]; .* \[5, actions\]"):
            core.Actor(head).act(Flat(jnp.ones((3, 4))), jnp.ones((2, 4)), jax.random.key(0))

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("r_t", jnp.zeros((8, 1)), r"r_t \[8, 1\]"),
            ("a_tm1", jnp.zeros((8, 1), int), r"a_tm1 \[8, 1\]"),
            ("weights", jnp.ones((8, 1)), r"weights \[8, 1\]"),
            ("weights", jnp.ones(()), r"weights \[\]"),
        ],
    )
    def test_numbers_with_another_axis(self, name, value, words):
        """They would be multiplied crosswise, and nobody would see it."""
        learner, batch, options = learner_of(mlp(3)), transitions(), {"regulariser": M_DQN}
        if name == "weights":
            options["weights"] = value
        else:
            batch = batch._replace(**{name: value})
        with pytest.raises(UserError, match=words):
            learner.update(learner.init(jax.random.key(0)), batch, jax.random.key(1), **options)

    def test_names(self):
        with pytest.raises(UserError, match="did you mean 'huber'"):
            core.Expected("hubber")
        with pytest.raises(UserError, match="unknown exploration 'boltzmann'"):
            core.Actor(core.Expected(), "boltzmann")
        with pytest.raises(UserError, match="network is a function of a key"):
            core.Learner(core.Expected(), optax.sgd(0.1), (1, 2))

    def test_leading_axes(self):
        learner = learner_of(mlp(3))
        batch = transitions()._replace(r_t=jnp.zeros(7))
        with pytest.raises(UserError, match=r"one leading axis.* r_t \[7\]"):
            learner.update(
                learner.init(jax.random.key(0)), batch, jax.random.key(1), regulariser=M_DQN
            )
