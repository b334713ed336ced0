"""How far a training is, how fast it goes, and how often it writes."""

from typing import NamedTuple


class Progress(NamedTuple):
    """What a watcher of the training is told after each chunk."""

    step: int
    steps: int
    scores: list[float | None]  # one for each lane, over its last 100 episodes
    steps_per_second: float  # of all lanes together
    compiling: bool
    learning: bool = True  # False during the warm-up, which is much faster
    frames_per_step: int = 1

    @property
    def speed(self) -> str:
        return speed_in_words(self.steps_per_second, self.frames_per_step)


def speed_in_words(steps_per_second: float, frames_per_step: int) -> str:
    """In frames where a step has several: so Atari's speeds are told everywhere."""
    unit = "frames" if frames_per_step > 1 else "steps"
    return f"{steps_per_second * frames_per_step:,.0f} {unit}/s"


def pause_after(took: float, least: float) -> float:
    """Seconds to wait after a checkpoint that took `took` seconds, so that checkpoints take at most
    a twentieth of the time, even with gigabytes of replay. `least` 0 means no pause."""
    return max(least, 20 * took) if least else 0.0


class Speed:
    """Steps per second over the last few seconds. The first two chunks are not counted: they
    compile."""

    def __init__(self, warmup_steps: int = 0) -> None:
        self._marks: list[tuple[float, int]] = []
        self._calls = 0
        self._warmup_steps = warmup_steps

    def at(self, step: int, now: float) -> float:
        self._calls += 1
        if self._calls <= 2:
            self._marks = []
        if step > self._warmup_steps and self._marks and self._marks[0][1] <= self._warmup_steps:
            self._marks, self._calls = [], 1  # learning begins, and is compiled
        self._marks.append((now, step))
        while len(self._marks) > 2 and now - self._marks[0][0] > 10:
            self._marks.pop(0)
        (first, start), (last, end) = self._marks[0], self._marks[-1]
        return (end - start) / (last - first) if last > first else 0.0


def in_words(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
