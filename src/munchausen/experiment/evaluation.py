"""Evaluation: whole episodes with a trained network, none counted because it was short.

Each environment plays a number of episodes fixed beforehand. Taking the first N that end
among many running side by side would favour short ones.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from munchausen import envs
from munchausen.agent.actor import act, values
from munchausen.backup import Regulariser
from munchausen.envs import HostEnvironments, JaxEnvironment, Listing
from munchausen.envs.spec import HostSteps
from munchausen.experiment.settings import Settings
from munchausen.loops.lane import Steps, make_steps
from munchausen.networks import Network
from munchausen.replay import Outcome, append, current_observations, make_ring

CAP_STEPS = 27_000  # Dopamine's limit on an episode; a policy may be stuck without dying
_HOST_ENVS = 16
_PHASE_ENVS = 8  # few, so that a share of the steps holds several long episodes
_PHASE_EPISODES = 100


class Evaluation(NamedTuple):
    returns: np.ndarray
    lengths: np.ndarray
    cut: int  # episodes ended by a limit on their steps, not by the game
    # Of each episode, at each step: best minus second best action value. None unless asked for.
    gaps: list[np.ndarray] | None = None


def evaluate(
    settings: Settings,
    network: Network,
    regulariser: Regulariser,
    *,
    episodes: int,
    epsilon: float,
    seed: int,
    gaps: bool = False,
) -> Evaluation:
    listing = settings.listing
    if listing.loop == "device":
        env = envs.make_jax(listing)
        steps = make_steps(settings.config, env.spec, munchausen=False)
        return _on_device(steps, env, network, regulariser, episodes, epsilon, seed, gaps)
    return _on_host(settings, listing, network, regulariser, episodes, epsilon, seed, gaps)


def phase(
    settings: Settings,
    network: Network,
    regulariser: Regulariser,
    *,
    steps: int,
    epsilon: float,
    seed: int,
) -> Evaluation:
    """An evaluation phase: whole episodes until so many steps were taken (Dopamine's rule, here
    for each of a few environments and its share of the steps)."""
    listing = settings.listing
    if listing.loop == "host":
        share = -(-steps // _PHASE_ENVS)
        return _on_host(
            settings, listing, network, regulariser, _PHASE_ENVS, epsilon, seed, False, share
        )
    parts: list[Evaluation] = []
    while sum(int(part.lengths.sum()) for part in parts) < steps:
        parts.append(
            evaluate(
                settings,
                network,
                regulariser,
                episodes=_PHASE_EPISODES,
                epsilon=epsilon,
                seed=seed + len(parts),
            )
        )
    returns, lengths = (np.concatenate(x) for x in list(zip(*parts, strict=True))[:2])
    return Evaluation(returns, lengths, sum(part.cut for part in parts))


def _on_device(
    steps: Steps,
    env: JaxEnvironment,
    network: Network,
    regulariser: Regulariser,
    episodes: int,
    epsilon: float,
    seed: int,
    gaps: bool,
) -> Evaluation:
    """One environment an episode, all at once."""
    init_key, run_key = jax.random.split(jax.random.key(seed))

    def go(network: Network):
        state, frames = jax.vmap(env.init)(jax.random.split(init_key, episodes))
        ring = make_ring(frames, episodes * (steps.config.stack + 1))
        zeros = jnp.zeros(episodes)
        track = jnp.zeros((CAP_STEPS if gaps else 0, episodes))

        def running(carry):
            alive, t = carry[2], carry[5]
            return jnp.any(alive) & (t < CAP_STEPS)

        def tick(carry):
            state, ring, alive, total, length, t, track = carry
            act_key, env_key = jax.random.split(jax.random.fold_in(run_key, t))
            if gaps:
                track = track.at[t].set(_action_gap(steps, network, ring, act_key))
            actions = _act(steps, network, regulariser, ring, epsilon, act_key)
            keys = jax.random.split(env_key, episodes)
            state, step = jax.vmap(env.step)(state, actions, keys)
            outcome = Outcome(step.reward, step.terminated, step.truncated, step.frame, step.frame)
            ring, _ = append(ring, actions, outcome, truncates=False)
            total = total + jnp.where(alive, step.reward, 0.0)
            length = length + alive
            alive = alive & ~step.terminated & ~step.truncated
            return state, ring, alive, total, length, t + 1, track

        start = (state, ring, zeros == 0, zeros, jnp.zeros(episodes, jnp.int32), 0, track)
        _, _, alive, total, length, _, track = jax.lax.while_loop(running, tick, start)
        return total, length, jnp.sum(alive), track

    total, length, cut, track = jax.jit(go)(network)
    tracks = [x[:n] for x, n in zip(np.asarray(track).T, np.asarray(length), strict=True)]
    return Evaluation(np.asarray(total), np.asarray(length), int(cut), tracks if gaps else None)


def _on_host(
    settings: Settings,
    listing: Listing,
    network: Network,
    regulariser: Regulariser,
    episodes: int,
    epsilon: float,
    seed: int,
    gaps: bool,
    share: int | None = None,
) -> Evaluation:
    """With a `share` of steps, each environment plays whole episodes until it has taken them;
    otherwise its share of the episodes. One that knows no end is left at the cap: it cannot be
    begun again alone, so what it still had to play is not played."""
    count = min(episodes, _HOST_ENVS)
    batch: HostEnvironments = envs.make_host(listing, count)
    steps = make_steps(settings.config, batch.spec, munchausen=False)
    key = jax.random.key(seed)
    choose = jax.jit(
        lambda ring, t: _act(steps, network, regulariser, ring, epsilon, jax.random.fold_in(key, t))
    )
    measure = jax.jit(lambda ring, t: _action_gap(steps, network, ring, jax.random.fold_in(key, t)))
    store = jax.jit(lambda ring, a, o: append(ring, a, o, truncates=True)[0], donate_argnums=0)
    try:
        frames = jnp.asarray(batch.reset([seed + i for i in range(count)]))
        ring = make_ring(frames, count * (steps.config.stack + 2))
        quota = np.full(count, episodes // count) + (np.arange(count) < episodes % count)
        if share is not None:
            quota = np.full(count, share)
        total, length = np.zeros(count), np.zeros(count, int)
        returns: list[float] = []
        lengths: list[int] = []
        tracks: list[np.ndarray] = []
        running: list[list[float]] = [[] for _ in range(count)]
        t, cut = 0, 0
        while (quota > 0).any():
            actions = choose(ring, t)
            if gaps:
                for track, gap in zip(running, np.asarray(measure(ring, t)), strict=True):
                    track.append(float(gap))
            batch.send(np.asarray(actions))
            step = batch.receive()
            ring = store(ring, actions, _outcome(step))
            total += step.reward
            length += 1
            t += 1
            endless = ~step.over & (length >= CAP_STEPS)
            ended = (step.over | endless) & (quota > 0)
            cut += int(np.sum(ended & (step.truncated | endless)))
            returns += total[ended].tolist()
            lengths += length[ended].tolist()
            tracks += [np.array(running[i]) for i in np.flatnonzero(ended)]
            quota[ended] -= 1 if share is None else length[ended]
            quota[endless] = 0
            total[step.over] = 0
            length[step.over] = 0
            for i in np.flatnonzero(step.over):
                running[i] = []
    finally:
        batch.close()
    return Evaluation(np.asarray(returns), np.asarray(lengths), cut, tracks if gaps else None)


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


def _action_gap(steps: Steps, network: Network, ring, key):
    """Best minus second best action value, of the very draw that `_act` chooses by."""
    observations = current_observations(ring, steps.config.stack)
    q = values(steps.learner.head, network, observations, jax.random.fold_in(key, 0))
    best, second = jnp.moveaxis(jax.lax.top_k(q, 2)[0], -1, 0)
    return best - second
