"""The protocol once more, on the raw emulator: slow, plain, independent of our suites."""

import ale_py
import cv2
import numpy as np
from ale_py import roms

CAP_FRAMES = 108_000


class RawAtari:
    """One game as PROTOCOL and Dopamine's AtariPreprocessing describe it."""

    def __init__(self, rom: str, seed: int, *, sticky: float, cap_frames: int = CAP_FRAMES):
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", sticky)
        self.ale.setInt("frame_skip", 1)
        self.ale.loadROM(roms.get_rom_path(rom))
        self.actions = self.ale.getMinimalActionSet()
        self.cap_frames = cap_frames

    def reset(self) -> np.ndarray:
        self.ale.reset_game()
        self.frames = 0
        return self._resize(self.ale.getScreenGrayscale())

    def step(self, action: int) -> tuple[np.ndarray, int, bool, bool]:
        """Frame, unclipped reward, game over, cut by the limit."""
        reward, screens = 0, []
        for _ in range(4):
            reward += self.ale.act(self.actions[action])
            self.frames += 1
            screens.append(self.ale.getScreenGrayscale())
            if self.ale.game_over():
                break
        frame = np.maximum(*screens[-2:]) if len(screens) > 1 else screens[-1]
        cut = self.frames >= self.cap_frames and not self.ale.game_over()
        return self._resize(frame), reward, self.ale.game_over(), cut

    @property
    def lives(self) -> int:
        return self.ale.lives()

    @staticmethod
    def _resize(screen: np.ndarray) -> np.ndarray:
        return cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA)
