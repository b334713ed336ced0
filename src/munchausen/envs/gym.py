"""Gymnasium environments with discrete actions, as a batch on the host."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from munchausen.envs.spec import EnvironmentSpec, HostSteps
from munchausen.errors import UserError, unknown

# Those with presets of their own; any other id with discrete actions works too.
CLASSIC = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3")


class GymEnvironments:
    """`count` copies of one Gymnasium environment."""

    spec: EnvironmentSpec

    def __init__(self, name: str, count: int):
        if name not in gymnasium.registry:
            raise unknown("environment", f"gym/{name}", [f"gym/{id}" for id in gymnasium.registry])
        try:
            self._envs: Any = gymnasium.make_vec(
                name,
                num_envs=count,
                vectorization_mode="sync",
                vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
            )
        except gymnasium.error.DependencyNotInstalled as error:
            extra = "box2d" if "ox2d" in str(error).lower() else None
            line = f"pip install 'munchausen[{extra}]'" if extra else str(error)
            raise UserError(f"gym/{name} needs an extra: {line}") from error
        space, actions = self._envs.single_observation_space, self._envs.single_action_space
        if not isinstance(actions, gymnasium.spaces.Discrete):
            raise UserError(
                f"gym/{name} has continuous actions ({actions}); munchausen's agents choose "
                "among discrete ones: try gym/CartPole-v1 or gym/LunarLander-v3"
            )
        if not isinstance(space, gymnasium.spaces.Box):
            raise UserError(
                f"gym/{name} has observations of type {type(space).__name__}; only arrays (Box) "
                "are supported: wrap it with gymnasium.wrappers.FlattenObservation"
            )
        self._first_action = int(actions.start)
        spec = gymnasium.spec(name)
        self.reward_threshold = spec.reward_threshold
        pixels = space.dtype == np.uint8 and len(space.shape) >= 2
        self.spec = EnvironmentSpec(
            name=f"gym/{name}",
            suite="atari" if pixels and space.shape[:2] == (84, 84) else "classic",
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
        return HostSteps(frames, rewards, terminated, truncated, terminated | truncated, final)

    def close(self) -> None:
        self._envs.close()


class GymScreen:
    """One environment that can be looked at."""

    def __init__(self, name: str):
        try:
            self._env: Any = gymnasium.make(name, render_mode="rgb_array")
            self._env.reset()
            self._env.render()
        except (gymnasium.error.Error, ValueError) as error:
            raise UserError(f"gym/{name} cannot be drawn here: {error}") from error
        self._first_action = int(self._env.action_space.start)

    def reset(self, seed: int) -> np.ndarray:
        return np.asarray(self._env.reset(seed=seed)[0], np.float32)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        frame, reward, terminated, truncated, _ = self._env.step(action + self._first_action)
        return np.asarray(frame, np.float32), float(reward), terminated, truncated

    def screen(self) -> np.ndarray:
        return self._env.render()

    def close(self) -> None:
        self._env.close()
