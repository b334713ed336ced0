"""Evaluation: whole episodes with a trained network, none counted because it was short.

Each environment plays a number of episodes fixed beforehand. Taking the first N that end
among many running side by side would favour short ones.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from munchausen._src import suites as envs
from munchausen._src.agents.building import make_actor
from munchausen._src.agents.config import AgentConfig
from munchausen._src.core.actor import Actor, Decision
from munchausen._src.core.backup import Regulariser
from munchausen._src.core.learner import action_gap
from munchausen._src.core.replay import FrameReplay, FrameStore, Outcome
from munchausen._src.experiment.settings import Settings, check_seed
from munchausen._src.kernels.compiling import compiled
from munchausen._src.networks import Network
from munchausen._src.suites import HostEnvironments, Listing
from munchausen._src.suites.spec import HostSteps

CAP_STEPS = 27_000  # Dopamine's limit on an episode; a policy may be stuck without dying
_HOST_ENVS = 16
_PHASE_ENVS = 8  # few, so that a share of the steps holds several long episodes
_PHASE_EPISODES = 100


class Player(NamedTuple):
    """What programs take as arguments: they are compiled for none of these values."""

    network: Network
    regulariser: Regulariser
    epsilon: float
    key: PRNGKeyArray


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
    check_seed(seed)
    player = Player(network, regulariser, epsilon, jax.random.key(seed))
    if settings.listing.suite.loop == "device":
        return _on_device(settings, player, episodes, gaps)
    return _on_host(settings, player, episodes, seed, gaps)


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
    if settings.listing.suite.loop == "host":
        player = Player(network, regulariser, epsilon, jax.random.key(seed))
        return _on_host(settings, player, _PHASE_ENVS, seed, False, -(-steps // _PHASE_ENVS))
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


def _on_device(settings: Settings, player: Player, episodes: int, gaps: bool) -> Evaluation:
    """One environment an episode, all at once."""
    play = _device_program(settings.listing, settings.config, episodes, gaps)
    total, length, cut, track = (np.asarray(x) for x in play(player))
    tracks = [x[:n] for x, n in zip(track.T, length, strict=True)]
    return Evaluation(total, length, int(cut), tracks if gaps else None)


@functools.lru_cache(maxsize=8)
def _device_program(
    listing: Listing, config: AgentConfig, episodes: int, gaps: bool
) -> Callable[[Player], Any]:
    """Compiled once for all players: training has a phase after every iteration."""
    env = envs.make_jax(listing)
    actor = make_actor(config)
    frames_kept = FrameReplay(episodes * (config.stack + 1), 1.0, stack=config.stack)

    def go(player: Player):
        init_key, run_key = jax.random.split(player.key)
        state, frames = jax.vmap(env.init)(jax.random.split(init_key, episodes))
        replay = frames_kept.init(frames)
        zeros = jnp.zeros(episodes)
        track = jnp.zeros((CAP_STEPS if gaps else 0, episodes))

        def running(carry):
            alive, t = carry[2], carry[5]
            return jnp.any(alive) & (t < CAP_STEPS)

        def tick(carry):
            state, replay, alive, total, length, t, track = carry
            act_key, env_key = jax.random.split(jax.random.fold_in(run_key, t))
            actions, q = _decide(actor, player, frames_kept.observations(replay), act_key)
            if gaps:
                track = track.at[t].set(action_gap(q))
            keys = jax.random.split(env_key, episodes)
            state, step = jax.vmap(env.step)(state, actions, keys)
            outcome = Outcome(step.reward, step.terminated, step.truncated, step.frame, step.frame)
            replay = frames_kept.add(replay, actions, outcome, truncates=False)
            total = total + jnp.where(alive, step.reward, 0.0)
            length = length + alive
            alive = alive & ~step.terminated & ~step.truncated
            return state, replay, alive, total, length, t + 1, track

        start = (state, replay, zeros == 0, zeros, jnp.zeros(episodes, jnp.int32), 0, track)
        _, _, alive, total, length, _, track = jax.lax.while_loop(running, tick, start)
        return total, length, jnp.sum(alive), track

    return compiled(go, config.precision)


class _HostPrograms(NamedTuple):
    first: Callable[..., FrameStore]  # of the first frames
    decide: Callable[..., Decision]  # of the player, the frames and the step
    store: Callable[..., FrameStore]


@functools.lru_cache(maxsize=8)
def _host_programs(config: AgentConfig, count: int) -> _HostPrograms:
    actor = make_actor(config)
    frames = FrameReplay(count * (config.stack + 2), 1.0, stack=config.stack)

    def decide(player: Player, replay: FrameStore, t: Int[Array, ""]) -> Decision:
        key = jax.random.fold_in(player.key, t)
        return _decide(actor, player, frames.observations(replay), key)

    store = jax.jit(frames.add, donate_argnums=0)
    return _HostPrograms(frames.init, compiled(decide, config.precision), store)


def _on_host(
    settings: Settings,
    player: Player,
    episodes: int,
    seed: int,
    gaps: bool,
    share: int | None = None,
) -> Evaluation:
    """With a `share` of steps, each environment plays whole episodes until it has taken them;
    otherwise it plays its share of the episodes. One whose episode reaches the cap on steps stops
    for good: it cannot be reset alone, so its remaining episodes are not played."""
    count = min(episodes, _HOST_ENVS)
    batch: HostEnvironments = envs.make_host(settings.listing, count)
    try:
        play = _host_programs(settings.config, count)
        replay = play.first(jnp.asarray(batch.reset([seed + i for i in range(count)])))
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
            actions, q = play.decide(player, replay, t)
            if gaps:
                for track, gap in zip(running, np.asarray(action_gap(q)), strict=True):
                    track.append(float(gap))
            batch.send(np.asarray(actions))
            step = batch.receive()
            replay = play.store(replay, actions, _outcome(step))
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


def _decide(actor: Actor, player: Player, observations: Array, key: PRNGKeyArray) -> Decision:
    return actor.decide(
        player.network,
        observations,
        key,
        epsilon=player.epsilon,
        tau=player.regulariser.tau,
        evaluating=True,
    )
