"""Atari 2600 through ale-py's vector environment, under the paper's protocols.

Both: ALE's grayscale, the maximum of the last two of four skipped frames, area interpolation to
84 × 84, the minimal action set, no no-op starts, no fire on reset, episodes cut at 27,000 agent
steps. Rewards are handed on unclipped: returns count them so, and the learner clips.
"""

import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from munchausen._src.kernels.machine import cores
from munchausen._src.suites.atari import ATARI, FRAME_SHAPE, FRAME_SKIP
from munchausen._src.suites.spec import EnvironmentSpec, HostSteps

CAP_FRAMES = 108_000  # 27,000 agent steps

_NICE = 10  # added to the process's niceness for the emulators' threads


def rom_name(game: str) -> str:
    """MsPacman is ms_pacman to ale-py."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", game).lower()


def make_vector(game: str, count: int, *, protocol: str, **changes: Any) -> Any:
    """ale-py's vector environment under a protocol. Its own defaults are those of neither."""
    from ale_py.vector_env import AtariVectorEnv

    options: dict[str, Any] = {
        "autoreset_mode": "SameStep",
        "stack_num": 1,  # the replay stacks
        "frameskip": FRAME_SKIP,
        "maxpool": True,
        # Cut in `AtariEnvironments`: where ale-py 0.12.1 cuts by itself, its `final_obs` is the
        # observation of the step before.
        "max_num_frames_per_episode": 2**30,
        "noop_max": 0,
        "use_fire_reset": False,
        "reward_clipping": False,
        "repeat_action_probability": 0.25 if protocol == "modern" else 0.0,
        # `episodic_life` would restart the whole game at a lost life, and `life_loss_info` says
        # nothing of the one before the last: lives are counted in `AtariEnvironments`.
        "episodic_life": False,
        "life_loss_info": False,
        "full_action_space": False,
    }
    return AtariVectorEnv(rom_name(game), count, **(options | changes))


def _give_way(by: int) -> None:
    """Lowers the priority of this thread and of those it starts. Emulators take all the cores they
    get, and the few threads that feed the device would have to wait for one."""
    if sys.platform == "linux":  # elsewhere a priority is that of the whole process
        thread = threading.get_native_id()
        nice = os.getpriority(os.PRIO_PROCESS, thread) + by
        os.setpriority(os.PRIO_PROCESS, thread, min(nice, 19))


class AtariEnvironments:
    """`count` copies of one game on ale-py's threads: `send` returns at once."""

    spec: EnvironmentSpec

    def __init__(
        self,
        game: str,
        count: int,
        *,
        protocol: str = "modern",
        threads: int | None = None,
        nice: int = _NICE,
    ):
        # Two such batches take turns: while one waits for its actions the other has all cores.
        # Measured on 16 cores, see benchmarks/.
        threads = min(threads or cores(), count)
        with ThreadPoolExecutor(1) as pool:  # of one thread: those it starts are like it
            pool.submit(_give_way, nice).result()
            self._envs = pool.submit(
                make_vector, game, count, protocol=protocol, num_threads=threads
            ).result()
        self._lives_count = protocol == "original"
        self.spec = EnvironmentSpec(
            name=f"{ATARI.protocols[protocol].prefix}/{game}",
            frame_shape=FRAME_SHAPE,
            frame_dtype="uint8",
            actions=int(self._envs.single_action_space.n),
            truncates=True,
            scale=1 / 255,
        )

    def reset(self, seeds: list[int]) -> np.ndarray:
        frames, info = self._envs.reset(seed=np.asarray(seeds))
        self._lives, self._steps = info["lives"], np.zeros(len(seeds), int)
        return frames[:, 0]

    def send(self, actions: np.ndarray) -> None:
        # ale-py waits for ever on an action that is not there.
        if (
            actions.shape != (self._envs.num_envs,)
            or not ((actions >= 0) & (actions < self.spec.actions)).all()
        ):
            raise ValueError(
                f"{self.spec.name} takes {self._envs.num_envs} actions from 0 to "
                f"{self.spec.actions - 1}, not {actions}"
            )
        self._envs.send(actions.astype(np.int32))

    def receive(self) -> HostSteps:
        frames, rewards, over, _, info = self._envs.recv()
        frames, final = frames[:, 0], None
        # A lost life ends an episode for learning only; the last one may be numbered 0.
        lost = self._lives_count & (info["lives"] < self._lives)
        self._steps += 1
        truncated = (self._steps * FRAME_SKIP >= CAP_FRAMES) & ~over
        if truncated.any():
            first, info = self._envs.reset(options={"reset_mask": truncated})
            final, frames = frames, frames.copy()
            frames[truncated] = first[truncated, 0]
        self._lives = info["lives"]
        self._steps[over | truncated] = 0
        return HostSteps(
            frames, rewards.astype(np.float32), over | lost, truncated, over | truncated, final
        )

    def close(self) -> None:
        self._envs.close()


class AtariScreen:
    """The game that an agent plays, and a twin of it in colour to be looked at: the same seed and
    the same actions give the same game."""

    def __init__(self, game: str, seed: int, *, protocol: str = "modern"):
        self._seed = seed
        self._played = AtariEnvironments(game, 1, protocol=protocol)
        self._twin = make_vector(
            game, 1, protocol=protocol, grayscale=False, img_height=210, img_width=160
        )

    def reset(self) -> np.ndarray:
        self._screen = self._twin.reset(seed=np.asarray([self._seed]))[0][0, 0]
        return self._played.reset([self._seed])

    def screen(self) -> np.ndarray:
        """[210, 160, 3]"""
        return self._screen

    def step(self, actions: np.ndarray) -> HostSteps:
        self._played.send(actions)
        self._screen = self._twin.step(actions.astype(np.int32))[0][0, 0]
        return self._played.receive()

    def close(self) -> None:
        self._played.close()
        self._twin.close()


def action_names(game: str, *, protocol: str = "modern") -> list[str]:
    """FIRE, UPRIGHT, … of the minimal action set."""
    from ale_py import Action

    env = make_vector(game, 1, protocol=protocol)
    try:
        return [Action(x).name for x in env.ale.get_action_set()]
    finally:
        env.close()
