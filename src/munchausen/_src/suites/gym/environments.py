"""Gymnasium environments with discrete actions, as a batch on the host."""

import os
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import FlattenObservation

from munchausen._src.errors import TrainingDiverged, UserError, install_line
from munchausen._src.suites.gym import check_known
from munchausen._src.suites.spec import EnvironmentSpec, HostSteps


class GymEnvironments:
    """`count` copies of one Gymnasium environment. Observations that are no arrays (a number of
    a state, several parts) are flattened as Gymnasium does it: numbers become one-hot."""

    spec: EnvironmentSpec

    def __init__(self, name: str, count: int):
        check_known(name)
        self._envs = _make_vector(name, count)
        if _flattens(self._envs.single_observation_space):
            self._envs.close()
            self._envs = _make_vector(name, count, [FlattenObservation])
        space, actions = self._envs.single_observation_space, self._envs.single_action_space
        if not isinstance(actions, gymnasium.spaces.Discrete):
            raise UserError(
                f"gym/{name} has actions {actions}; munchausen's agents choose one of a number "
                "of them (Discrete): try gym/CartPole-v1 or gym/LunarLander-v3"
            )
        if not isinstance(space, gymnasium.spaces.Box):
            raise UserError(
                f"gym/{name} has observations of type {type(space).__name__}, which cannot be "
                "made an array of one size"
            )
        self._first_action = int(actions.start)
        pixels = space.dtype == np.uint8 and len(space.shape) >= 2
        self.spec = EnvironmentSpec(
            name=f"gym/{name}",
            frame_shape=space.shape,
            frame_dtype="uint8" if pixels else "float32",
            actions=int(actions.n),
            truncates=True,
            scale=1 / 255 if pixels else 1.0,
        )

    def reset(self, seeds: list[int]) -> np.ndarray:
        frames, _ = self._envs.reset(seed=seeds)
        return np.asarray(frames, self.spec.frame_dtype)

    def send(self, actions: np.ndarray) -> None:
        self._actions = actions + self._first_action

    def receive(self) -> HostSteps:
        frames, rewards, terminated, truncated, info = self._envs.step(self._actions)
        # The vector environment reuses its buffer; rows are copied before they change.
        frames = np.array(frames, self.spec.frame_dtype)
        final = None
        if truncated.any():
            final = frames.copy()
            for i in np.flatnonzero(info["_final_obs"]):
                final[i] = info["final_obs"][i]
        rewards = np.asarray(rewards, np.float32)
        pixels = self.spec.frame_dtype == "uint8"
        if not (np.isfinite(rewards).all() and (pixels or np.isfinite(frames).all())):
            raise TrainingDiverged(
                f"{self.spec.name} gave an observation or reward that is NaN or infinite"
            )
        return HostSteps(frames, rewards, terminated, truncated, terminated | truncated, final)

    def close(self) -> None:
        self._envs.close()


def _make_vector(name: str, count: int, wrappers: list[Any] | None = None) -> Any:
    try:
        return gymnasium.make_vec(
            name,
            num_envs=count,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
            wrappers=wrappers,
        )
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        extra = "box2d" if "ox2d" in str(error).lower() else None
        line = install_line(extra) if extra else str(error)
        raise UserError(f"gym/{name} needs an extra: {line}") from error


def _flattens(space: gymnasium.Space) -> bool:
    """Whether it is no array (or one without an axis), but can be made one."""
    if isinstance(space, gymnasium.spaces.Box):
        return space.shape == ()
    try:
        return isinstance(gymnasium.spaces.flatten_space(space), gymnasium.spaces.Box)
    except NotImplementedError:
        return False


class GymScreen:
    """One environment that can be looked at while an agent plays it."""

    def __init__(self, name: str, seed: int):
        check_known(name)
        self._seed = seed
        try:
            # Pygame draws into memory then, and does not look for a screen.
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
            self._env: Any = gymnasium.make(name, render_mode="rgb_array")
            if _flattens(self._env.observation_space):
                self._env = FlattenObservation(self._env)
            self._env.reset()
            self._env.render()
        except Exception as error:  # of anybody's environment
            raise UserError(f"gym/{name} cannot be drawn here: {error}") from error
        self._first_action = int(self._env.action_space.start)

    def reset(self) -> np.ndarray:
        return np.asarray(self._env.reset(seed=self._seed)[0], np.float32)[None]

    def screen(self) -> np.ndarray:
        return self._env.render()

    def step(self, actions: np.ndarray) -> HostSteps:
        frame, reward, terminated, truncated, _ = self._env.step(
            int(actions[0]) + self._first_action
        )
        frames, rewards = np.asarray(frame, np.float32)[None], np.array([reward], np.float32)
        ended, cut = np.array([terminated]), np.array([truncated])
        return HostSteps(frames, rewards, ended, cut, ended | cut, None)

    def close(self) -> None:
        self._env.close()
