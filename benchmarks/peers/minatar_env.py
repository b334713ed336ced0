"""MinAtar Breakout as a Gymnasium environment, shared by the peers.

The original `MinAtar` package: per step it costs a Python loop far less than a jit-compiled
single environment (see README.md).
"""

import gymnasium
import numpy as np
from minatar import Environment


class MinAtarBreakout(gymnasium.Env):
    """Breakout with its 3 minimal actions, sticky actions 0.1, and uint8 observations.

    `layout` is "HWC" for (10, 10, 4) or "CHW" for (4, 10, 10). `returns` keeps the
    undiscounted return of every finished episode, so that no peer needs a monitor wrapper.
    """

    def __init__(self, layout: str = "HWC", sticky_action_prob: float = 0.1):
        shapes = {"HWC": (10, 10, 4), "CHW": (4, 10, 10)}
        self._game = Environment("breakout", sticky_action_prob=sticky_action_prob)
        self._actions = self._game.minimal_action_set()
        self._channels_first = layout == "CHW"
        self.observation_space = gymnasium.spaces.Box(0, 1, shapes[layout], np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(self._actions))
        self.returns: list[float] = []
        self._return = 0.0

    def reset(self, *, seed=None, options=None):
        del options
        if seed is not None:
            self._game.seed(seed)
        self._game.reset()
        self._return = 0.0
        return self._observation(), {}

    def step(self, action):
        reward, terminated = self._game.act(self._actions[action])
        self._return += reward
        if terminated:
            self.returns.append(self._return)
        return self._observation(), float(reward), terminated, False, {}

    def _observation(self):
        state = self._game.state().view(np.uint8)
        return state.transpose(2, 0, 1) if self._channels_first else state


def mean_return_last_100(env: MinAtarBreakout) -> float | None:
    return float(np.mean(env.returns[-100:])) if env.returns else None
