"""Learning: targets from the frozen network, one gradient step towards them. Pure."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from munchausen._src.agents.config import AgentConfig
from munchausen._src.core.backup import Regulariser, backup
from munchausen._src.core.heads import Head, Loss
from munchausen._src.core.heads.base import of_action
from munchausen._src.core.operators import policy, scaled_log_policy
from munchausen._src.core.replay import Transitions
from munchausen._src.networks import TORSOS, Network, make_network


class LearnerState(NamedTuple):
    online: Network
    target: Network
    optimizer: Any


class Batch(NamedTuple):
    """Transitions, their states as networks view them."""

    view_tm1: Float[Array, "B ..."]
    a_tm1: Int[Array, " B"]
    r_t: Float[Array, " B"]
    discount_t: Float[Array, " B"]
    view_t: Float[Array, "B ..."] | None  # None once the targets are made


class UpdateMetrics(NamedTuple):
    """Of one gradient step, each averaged over its batch."""

    loss: Float[Array, "*U"]
    q: Float[Array, "*U"]  # of the actions taken
    action_gap: Float[Array, "*U"]  # best minus second best
    entropy: Float[Array, "*U"]  # of softmax(q/τ), in nats


class Learner(NamedTuple):
    """The static half of learning: which head, which optimiser, which shapes."""

    config: AgentConfig
    head: Head
    optimizer: optax.GradientTransformation
    observation_shape: tuple[int, ...]
    actions: int
    scale: float
    munchausen: bool  # False where α is 0 for certain: no target values at s are computed

    def init(self, key: PRNGKeyArray) -> LearnerState:
        """The target network is initialised separately from the online one (Dopamine)."""
        online_key, target_key = jax.random.split(key)
        online = self._network(online_key)
        return LearnerState(online, self._network(target_key), self.optimizer.init(online))  # type: ignore[arg-type]

    def _network(self, key: PRNGKeyArray) -> Network:
        return make_network(
            TORSOS[self.config.network],
            self.observation_shape,
            self.head.outputs(self.actions),
            scale=self.scale,
            cosines=self.head.cosines,
            initialiser=self.config.initialiser,
            key=key,
        )

    def view(self, network: Network, transitions: Transitions) -> Batch:
        return Batch(
            jax.vmap(network.view)(transitions.observation_tm1),
            transitions.a_tm1,
            transitions.r_t,
            transitions.discount_t,
            jax.vmap(network.view)(transitions.observation_t),
        )

    def targets(
        self, target: Network, regulariser: Regulariser, batch: Batch, key: PRNGKeyArray
    ) -> Float[Array, "B ..."]:
        """Both policies, at s and at s', come from the target network."""
        tm1_key, t_key = jax.random.split(key)
        q_tm1 = self.head.policy_q(target, batch.view_tm1, tm1_key) if self.munchausen else None
        assert batch.view_t is not None
        estimate = self.head.estimate(target, batch.view_t, t_key)

        def one(q_tm1, a_tm1, r_t, discount_t, q_t, returns_t):
            return self.head.push(
                backup(regulariser, q_tm1, a_tm1, r_t, discount_t, q_t), returns_t
            )

        return jax.vmap(one)(
            q_tm1, batch.a_tm1, batch.r_t, batch.discount_t, estimate.q, estimate.returns
        )

    def step(
        self,
        state: LearnerState,
        batch: Batch,
        targets: Float[Array, "B ..."],
        weights: Float[Array, " B"] | None,
        key: PRNGKeyArray,
    ) -> tuple[LearnerState, Loss]:
        """One gradient step. `weights` are importance weights, None for uniform replay."""

        def objective(online: Network):
            out = self.head.loss(online, batch.view_tm1, batch.a_tm1, targets, key)
            weighted = out.loss if weights is None else out.loss * weights
            return jnp.mean(weighted), out

        gradients, out = jax.grad(objective, has_aux=True)(state.online)
        updates, optimizer = self.optimizer.update(gradients, state.optimizer, state.online)  # type: ignore[arg-type]
        online = optax.apply_updates(state.online, updates)  # type: ignore[arg-type]
        return state._replace(online=online, optimizer=optimizer), out


def make_learner(
    config: AgentConfig,
    observation_shape: tuple[int, ...],
    actions: int,
    scale: float,
    *,
    munchausen: bool | None = None,
) -> Learner:
    if munchausen is None:
        munchausen = config.alpha != 0
    return Learner(
        config,
        config.make_head(),
        make_optimizer(config),
        observation_shape,
        actions,
        scale,
        munchausen,
    )


def make_optimizer(config: AgentConfig) -> optax.GradientTransformation:
    if config.optimizer == "adam":
        return optax.adam(config.learning_rate, eps=config.optimizer_eps)
    # TensorFlow 1, which made the published DQN curves, starts the second moment at 1.
    return optax.rmsprop(
        config.learning_rate,
        decay=0.95,
        eps=config.optimizer_eps,
        centered=True,
        initial_scale=1.0,
    )


def update_metrics(out: Loss, actions: Int[Array, " B"], regulariser: Regulariser) -> UpdateMetrics:
    """Kept apart from the gradient step, so that a loop can make them for many updates at
    once: a dozen tiny kernels a step would cost a GPU as much as the step itself."""
    loss, q = out
    tau = jnp.asarray(regulariser.tau)
    pi = policy(q, tau)
    # At τ = 0 the policy is greedy and its entropy 0; the division then is by 1.
    entropy = -jnp.sum(pi * scaled_log_policy(q, tau), axis=-1) / jnp.where(tau > 0, tau, 1.0)
    taken = jax.vmap(of_action)(q, actions)
    gap = jnp.mean(action_gap(q))
    return UpdateMetrics(jnp.mean(loss), jnp.mean(taken), gap, jnp.mean(entropy))


def action_gap(q: Float[Array, "*B A"]) -> Float[Array, "*B"]:
    """Best minus second best value; 0 where there is no second."""
    best = jnp.max(q, axis=-1)
    if q.shape[-1] == 1:
        return jnp.zeros_like(best)
    others = jnp.where(jax.nn.one_hot(jnp.argmax(q, axis=-1), q.shape[-1]) > 0, -jnp.inf, q)
    return best - jnp.max(others, axis=-1)
