"""Learning: targets from the frozen network, one gradient step towards them. Pure."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from munchausen._src.core.backup import Regulariser, backup
from munchausen._src.core.heads import Head, Loss
from munchausen._src.core.heads.base import of_action
from munchausen._src.core.network import Network, batched, checked, trainable, view
from munchausen._src.core.operators import Scalar, policy, scaled_log_policy
from munchausen._src.core.replay import batch_size
from munchausen._src.errors import UserError

_TINY = 1e-10  # Dopamine's, in priorities


class LearnerState(NamedTuple):
    online: Network
    target: Network
    optimizer: Any


class Metrics(NamedTuple):
    """Of a gradient step, each averaged over its batch."""

    loss: Float[Array, "*U"]
    q: Float[Array, "*U"]  # of the actions taken
    action_gap: Float[Array, "*U"]  # best minus second best
    entropy: Float[Array, "*U"]  # of softmax(q/τ), in nats


class Update(NamedTuple):
    """What a gradient step, or several along a leading axis, came to."""

    loss: Float[Array, "*U B"]  # of each transition, before any weight
    q_tm1: Float[Array, "*U B A"]  # the online network's values at s
    a_tm1: Int[Array, "*U B"]
    tau: Scalar

    @property
    def priorities(self) -> Float[Array, "*U B"]:
        """√(loss + 1e-10), as Dopamine's Rainbow has it."""
        return jnp.sqrt(self.loss + _TINY)

    @property
    def metrics(self) -> Metrics:
        """Made when they are asked for: a loop does so once for many updates, as a dozen tiny
        kernels a step would cost a GPU as much as the step itself."""
        of_each = _metrics
        for axes in range(self.loss.ndim - 1):
            own = 0 if jnp.ndim(self.tau) > axes else None
            of_each = jax.vmap(of_each, in_axes=(0, 0, 0, own))
        return of_each(*self)


class _Batch(NamedTuple):
    """Transitions, their states as networks view them."""

    view_tm1: Shaped[Array, "B ..."]
    a_tm1: Int[Array, " B"]
    r_t: Float[Array, " B"]
    discount_t: Float[Array, " B"]
    view_t: Shaped[Array, "B ..."] | None  # None once the targets are made


@dataclass(frozen=True)
class Learner:
    """What stays the same from update to update.

    Args:
        head: how the network's outputs estimate the return.
        optimizer: any of optax.
        network: makes a network from a key; `core.network` says what one is.
        munchausen: False where α is 0 for certain. No target values at s are computed then.
    """

    head: Head
    optimizer: optax.GradientTransformation
    network: Any  # (key) -> Network
    munchausen: bool = True

    def __post_init__(self) -> None:
        if not callable(self.network):
            raise UserError(
                "network is a function of a key that makes one (lambda key: my_module), not an "
                f"object of type {type(self.network).__name__}"
            )

    def init(self, key: PRNGKeyArray) -> LearnerState:
        """The target network is initialised separately from the online one (Dopamine)."""
        made = (checked(self.network(each)) for each in jax.random.split(key))
        # Copied: a network that exists already stays its owner's, and is not both of the two.
        online, target = (jax.tree.map(jnp.copy, network) for network in made)
        # A lambda within a network is another one each time it is made: the two share one.
        target = jax.tree.unflatten(jax.tree.structure(online), jax.tree.leaves(target))
        return LearnerState(online, target, self.optimizer.init(_weights(online)))

    def update(
        self,
        state: LearnerState,
        transitions: Any,
        key: PRNGKeyArray,
        *,
        regulariser: Regulariser,
        weights: Float[Array, "..."] | None = None,
    ) -> tuple[LearnerState, Update]:
        """One gradient step towards targets of the target network.

        Args:
            transitions: a batch of `Transitions`, or the `transitions` of a replay's sample.
            key: for heads and layers that draw.
            regulariser: α, τ and l0; they may be traced.
            weights: importance weights of the transitions [B], None for all alike.

        Returns:
            The state after the step, and its losses, priorities and metrics.
        """
        batch_size(transitions, weights)
        keys = jax.random.split(key)
        batch = self._view(state.target, transitions)
        targets = self._targets(state.target, regulariser, batch, keys[0])
        state, out = self._step(state, batch, targets, weights, keys[1])
        return state, Update(out.loss, out.q_tm1, batch.a_tm1, regulariser.tau)

    def updates(
        self,
        state: LearnerState,
        transitions: Any,
        key: PRNGKeyArray,
        *,
        regulariser: Regulariser,
        targets_at_once: bool = False,
        unroll: int = 1,
    ) -> tuple[LearnerState, Update]:
        """Several updates with one target network. A single one is `update` with the same key.

        `transitions` [U, B, ...] holds their batches. α, τ and l0 are the same for all of them, or
        all three are [U].

        `targets_at_once`: all targets in one pass of the target network, which suits an
        accelerator. A CPU is quicker with each when it is needed, as all of them together would
        not stay in its cache (1.5 times slower). `unroll`: how many are written out in the
        program, as `jax.lax.scan` takes it.
        """
        count = len(transitions.a_tm1)
        keys = jax.random.split(key, (count, 2))
        each = regulariser if jnp.ndim(regulariser.tau) else None  # update has its own
        see = partial(self._view, state.target)

        def aim(regulariser: Regulariser, batch: _Batch, key: PRNGKeyArray) -> Array:
            return self._targets(state.target, regulariser, batch, key)

        batches, targets = transitions, None
        if targets_at_once:
            # Behind the barrier, or XLA looks up a frame again for each patch of it.
            batches = jax.vmap(see)(jax.lax.optimization_barrier(transitions))
            axes = (None if each is None else 0, 0, 0)
            targets = jax.vmap(aim, in_axes=axes)(regulariser, batches, keys[:, 0])
            batches = batches._replace(view_t=None)

        def body(state: LearnerState, inputs: Any) -> tuple[LearnerState, Loss]:
            batch, targets, (target_key, step_key), own = inputs
            if targets is None:
                batch = see(batch)
                targets = aim(regulariser if own is None else own, batch, target_key)
            return self._step(state, batch, targets, None, step_key)

        inputs = (batches, targets, keys, each)
        if count == 1:
            # On a CPU a convolution within a loop is ten times slower than outside of one.
            state, out = body(state, jax.tree.map(lambda x: x[0], inputs))
            out = jax.tree.map(lambda x: x[None], out)
        else:
            state, out = jax.lax.scan(body, state, inputs, unroll=unroll)
        return state, Update(out.loss, out.q_tm1, transitions.a_tm1, regulariser.tau)

    def copy_target(self, state: LearnerState, when: Any = True) -> LearnerState:
        """The online network's weights become the target's, where `when` (may be traced)."""
        target = jax.tree.map(
            lambda new, old: jnp.where(when, new, old), state.online, state.target
        )
        return state._replace(target=target)

    def _view(self, network: Network, transitions: Any) -> _Batch:
        return _Batch(
            view(network, transitions.observation_tm1),
            transitions.a_tm1,
            transitions.r_t,
            transitions.discount_t,
            view(network, transitions.observation_t),
        )

    def _targets(
        self, target: Network, regulariser: Regulariser, batch: _Batch, key: PRNGKeyArray
    ) -> Float[Array, "B ..."]:
        """Both policies, at s and at s', come from the target network."""
        tm1_key, t_key = jax.random.split(key)
        network = batched(target, jax.random.fold_in(key, 2))
        q_tm1 = self.head.policy_q(network, batch.view_tm1, tm1_key) if self.munchausen else None
        assert batch.view_t is not None
        estimate = self.head.estimate(network, batch.view_t, t_key)

        def one(q_tm1, a_tm1, r_t, discount_t, q_t, returns_t):
            return self.head.push(
                backup(regulariser, q_tm1, a_tm1, r_t, discount_t, q_t), returns_t
            )

        return jax.vmap(one)(
            q_tm1, batch.a_tm1, batch.r_t, batch.discount_t, estimate.q, estimate.returns
        )

    def _step(
        self,
        state: LearnerState,
        batch: _Batch,
        targets: Float[Array, "B ..."],
        weights: Float[Array, " B"] | None,
        key: PRNGKeyArray,
    ) -> tuple[LearnerState, Loss]:
        """One gradient step towards given targets."""
        learned, rest = eqx.partition(state.online, trainable(state.online))

        def objective(learned: Network):
            network = batched(eqx.combine(learned, rest), jax.random.fold_in(key, 2))
            out = self.head.loss(network, batch.view_tm1, batch.a_tm1, targets, key)
            weighted = out.loss if weights is None else out.loss * weights
            return jnp.mean(weighted), out

        gradients, out = jax.grad(objective, has_aux=True)(learned)
        updates, optimizer = self.optimizer.update(gradients, state.optimizer, learned)
        online = eqx.combine(optax.apply_updates(learned, updates), rest)
        return state._replace(online=online, optimizer=optimizer), out


def _weights(network: Network) -> Network:
    """What is trained of it; None in place of the rest."""
    return eqx.filter(network, trainable(network))


def _metrics(
    loss: Float[Array, " B"], q: Float[Array, "B A"], actions: Int[Array, " B"], tau: Scalar
) -> Metrics:
    tau = jnp.asarray(tau)
    # At τ = 0 the policy is greedy and its entropy 0; the division then is by 1.
    entropy = -jnp.sum(policy(q, tau) * scaled_log_policy(q, tau), axis=-1)
    entropy = entropy / jnp.where(tau > 0, tau, 1.0)
    taken = jax.vmap(of_action)(q, actions)
    return Metrics(jnp.mean(loss), jnp.mean(taken), jnp.mean(action_gap(q)), jnp.mean(entropy))


def action_gap(q: Float[Array, "*B A"]) -> Float[Array, "*B"]:
    """Best minus second best value; 0 where there is no second."""
    best = jnp.max(q, axis=-1)
    if q.shape[-1] == 1:
        return jnp.zeros_like(best)
    others = jnp.where(jax.nn.one_hot(jnp.argmax(q, axis=-1), q.shape[-1]) > 0, -jnp.inf, q)
    return best - jnp.max(others, axis=-1)
