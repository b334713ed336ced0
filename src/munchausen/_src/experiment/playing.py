"""One episode with a trained network, step by step, with what the agent thought: for videos."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from munchausen._src import suites as envs
from munchausen._src.agents.building import make_actor
from munchausen._src.core.operators import policy as softmax_policy
from munchausen._src.core.replay import FrameReplay, FrameStore, Outcome
from munchausen._src.experiment.policy import Policy
from munchausen._src.kernels.compiling import compiled
from munchausen._src.networks import Network
from munchausen._src.suites import Listing


class Moment(NamedTuple):
    """A step: what is seen, and what the agent makes of it."""

    screen: np.ndarray  # [height, width, 3] uint8, or a frame as it is, such as MinAtar's
    q: np.ndarray  # value of each action
    policy: np.ndarray  # softmax(q/τ), greedy where τ = 0
    action: int
    reward: float  # of the action, unclipped
    score: float  # of the episode so far, without it
    over: bool  # whether the action ended the episode


class _Player(NamedTuple):
    """What an environment must do to be watched: all arrays have a leading axis of 1."""

    first_frame: np.ndarray
    screen: Any  # () -> what is seen now
    step: Any  # (action) -> reward, terminated, truncated, over, frame
    close: Any


def play(policy: Policy, *, epsilon: float, seed: int, max_steps: int) -> Iterator[Moment]:
    """The moments of one episode, to its end or to `max_steps`."""
    settings = policy.settings
    player = _player(settings.listing, seed)
    try:
        config, tau = settings.config, policy.regulariser.tau
        actor, frames = make_actor(config), FrameReplay(config.stack + 2, 1.0, stack=config.stack)
        key = jax.random.fold_in(jax.random.key(seed), 2)  # 0 and 1 are the environment's

        def think(network: Network, replay: FrameStore, t: Any) -> tuple[Any, Any, Any]:
            observations = frames.observations(replay)
            actions, q = actor.decide(
                network,
                observations,
                jax.random.fold_in(key, t),
                epsilon=epsilon,
                tau=tau,
                evaluating=True,
            )
            return q[0], softmax_policy(q, tau)[0], actions

        think = compiled(think, config.precision)
        store = jax.jit(partial(frames.add, truncates=False), donate_argnums=0)
        replay = frames.init(jnp.asarray(player.first_frame))
        score = 0.0
        for t in range(max_steps):
            q, pi, action = think(policy.network, replay, t)
            screen = player.screen()
            reward, terminated, truncated, over, frame = player.step(action)
            gain, over = float(reward[0]), bool(over)
            yield Moment(screen, np.asarray(q), np.asarray(pi), int(action[0]), gain, score, over)
            if over:
                return
            score += gain
            small: Any = [jnp.asarray(x) for x in (reward, terminated, truncated)]
            outcome = Outcome(small[0], small[1], small[2], frame, frame)
            replay = store(replay, action, outcome)
    finally:
        player.close()


def _player(listing: Listing, seed: int) -> _Player:
    return (_jax_player if listing.suite.loop == "device" else _host_player)(listing, seed)


def _jax_player(listing: Listing, seed: int) -> _Player:
    env: Any = envs.make_jax(listing)
    init_key, run_key = jax.random.split(jax.random.key(seed))
    state, frame = jax.jit(env.init)(init_key)
    held: list[Any] = [state, frame, 0]
    advance = jax.jit(env.step)

    def step(action: Any) -> tuple[Any, ...]:
        state, out = advance(held[0], action[0], jax.random.fold_in(run_key, held[2]))
        held[:] = [state, out.frame, held[2] + 1]
        over = bool(out.terminated | out.truncated)
        return out.reward[None], out.terminated[None], out.truncated[None], over, out.frame[None]

    render = getattr(env, "render", None)

    def screen() -> np.ndarray:
        return np.asarray(render(held[0]) if render else held[1])

    return _Player(np.asarray(frame)[None], screen, step, lambda: None)


def _host_player(listing: Listing, seed: int) -> _Player:
    game = envs.watch(listing, seed)

    def step(action: Any) -> tuple[Any, ...]:
        out = game.step(np.asarray(action))
        return out.reward, out.terminated, out.truncated, bool(out.over[0]), jnp.asarray(out.frame)

    return _Player(game.reset(), game.screen, step, game.close)
