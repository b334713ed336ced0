"""Evaluation: whole episodes with a trained network, none counted because it was short.

Each environment plays a number of episodes fixed beforehand. Taking the first N that end
among many running side by side would favour short ones.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from munchausen import envs
from munchausen.agent.actor import act
from munchausen.backup import Regulariser
from munchausen.envs import HostEnvironments, JaxEnvironment, Listing
from munchausen.envs.spec import HostSteps
from munchausen.experiment.settings import Settings
from munchausen.loops.lane import Steps, make_steps
from munchausen.networks import Network
from munchausen.replay import Outcome, append, current_observations, make_ring

CAP_STEPS = 27_000  # Dopamine's limit on an episode; a policy may be stuck without dying
_HOST_ENVS = 16


class Evaluation(NamedTuple):
    returns: np.ndarray
    lengths: np.ndarray
    cut: int  # episodes ended by the cap


def evaluate(
    settings: Settings,
    network: Network,
    regulariser: Regulariser,
    *,
    episodes: int,
    epsilon: float,
    seed: int,
) -> Evaluation:
    listing = settings.listing
    if listing.loop == "device":
        env = envs.make_jax(listing)
        steps = make_steps(settings.config, env.spec, munchausen=False)
        return _on_device(steps, env, network, regulariser, episodes, epsilon, seed)
    return _on_host(settings, listing, network, regulariser, episodes, epsilon, seed)


def _on_device(
    steps: Steps,
    env: JaxEnvironment,
    network: Network,
    regulariser: Regulariser,
    episodes: int,
    epsilon: float,
    seed: int,
) -> Evaluation:
    """One environment an episode, all at once."""
    init_key, run_key = jax.random.split(jax.random.key(seed))

    def go(network: Network):
        state, frames = jax.vmap(env.init)(jax.random.split(init_key, episodes))
        ring = make_ring(frames, episodes * (steps.config.stack + 1))
        zeros = jnp.zeros(episodes)

        def running(carry):
            alive, t = carry[2], carry[5]
            return jnp.any(alive) & (t < CAP_STEPS)

        def tick(carry):
            state, ring, alive, total, length, t = carry
            act_key, env_key = jax.random.split(jax.random.fold_in(run_key, t))
            actions = _act(steps, network, regulariser, ring, epsilon, act_key)
            keys = jax.random.split(env_key, episodes)
            state, step = jax.vmap(env.step)(state, actions, keys)
            outcome = Outcome(step.reward, step.terminated, step.truncated, step.frame, step.frame)
            ring, _ = append(ring, actions, outcome, truncates=False)
            total = total + jnp.where(alive, step.reward, 0.0)
            length = length + alive
            return state, ring, alive & ~step.terminated & ~step.truncated, total, length, t + 1

        start = (state, ring, zeros == 0, zeros, jnp.zeros(episodes, jnp.int32), 0)
        _, _, alive, total, length, _ = jax.lax.while_loop(running, tick, start)
        return total, length, jnp.sum(alive)

    total, length, cut = jax.jit(go)(network)
    return Evaluation(np.asarray(total), np.asarray(length), int(cut))


def _on_host(
    settings: Settings,
    listing: Listing,
    network: Network,
    regulariser: Regulariser,
    episodes: int,
    epsilon: float,
    seed: int,
) -> Evaluation:
    count = min(episodes, _HOST_ENVS)
    batch: HostEnvironments = envs.make_host(listing, count)
    steps = make_steps(settings.config, batch.spec, munchausen=False)
    key = jax.random.key(seed)
    choose = jax.jit(
        lambda ring, t: _act(steps, network, regulariser, ring, epsilon, jax.random.fold_in(key, t))
    )
    store = jax.jit(lambda ring, a, o: append(ring, a, o, truncates=True)[0], donate_argnums=0)
    try:
        frames = jnp.asarray(batch.reset([seed + i for i in range(count)]))
        ring = make_ring(frames, count * (steps.config.stack + 2))
        quota = np.full(count, episodes // count) + (np.arange(count) < episodes % count)
        total, length = np.zeros(count), np.zeros(count, int)
        returns: list[float] = []
        lengths: list[int] = []
        t = 0
        while quota.any():
            actions = choose(ring, t)
            batch.send(np.asarray(actions))
            step = batch.receive()
            ring = store(ring, actions, _outcome(step))
            total += step.reward
            length += 1
            t += 1
            ended = step.over & (quota > 0)
            returns += total[ended].tolist()
            lengths += length[ended].tolist()
            quota[ended] -= 1
            total[step.over] = 0
            length[step.over] = 0
    finally:
        batch.close()
    return Evaluation(np.asarray(returns), np.asarray(lengths), 0)


def _outcome(step: HostSteps) -> Outcome:
    final = step.frame if step.final_frame is None else step.final_frame
    arrays = (step.reward, step.terminated, step.truncated, step.frame, final)
    return Outcome(*(jnp.asarray(x) for x in arrays))


def _act(steps: Steps, network: Network, regulariser: Regulariser, ring, epsilon: float, key):
    return act(
        steps.learner.head,
        network,
        current_observations(ring, steps.config.stack),
        epsilon=epsilon,
        tau=regulariser.tau,
        exploration=steps.config.exploration,
        draw_key=jax.random.fold_in(key, 0),
        explore_key=jax.random.fold_in(key, 1),
    )
