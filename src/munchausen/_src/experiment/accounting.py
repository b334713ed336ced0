"""Turns chunks of steps into rows of the records: one per iteration and lane."""

from collections import deque
from typing import Any

import numpy as np

from munchausen._src.errors import TrainingDiverged
from munchausen._src.experiment.settings import Settings
from munchausen._src.loops.chunk import Chunk

RECENT = 100  # episodes in the running score, as the paper reports
# Columns of the records, and what they are called.
_METRICS = {"loss": "loss", "q": "Q-value", "action_gap": "action gap", "entropy": "entropy"}


class LaneAccount:
    """The running sums of one lane. Everything in it goes to JSON and back exactly."""

    def __init__(self) -> None:
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.episodes = 0
        self.updates = 0
        self.begin_iteration()

    def begin_iteration(self) -> None:
        self.iteration_episodes = 0
        self.iteration_return = 0.0
        self.iteration_length = 0
        self.iteration_updates = 0
        self.sums = dict.fromkeys(_METRICS, 0.0)

    def add(self, chunk: Chunk, lane: int) -> None:
        returns, lengths = chunk.episodes[lane]
        self.recent.extend(returns.tolist())
        self.episodes += len(returns)
        self.iteration_episodes += len(returns)
        self.iteration_return += float(np.sum(returns, dtype=np.float64))
        self.iteration_length += int(np.sum(lengths))
        self.updates += chunk.loss.shape[1]
        self.iteration_updates += chunk.loss.shape[1]
        for name in _METRICS:
            self.sums[name] += float(np.sum(getattr(chunk, name)[lane], dtype=np.float64))

    @property
    def score(self) -> float | None:
        """Mean return of the last 100 training episodes."""
        return float(np.mean(self.recent)) if self.recent else None

    def row(self) -> dict[str, Any]:
        episodes, updates = self.iteration_episodes, self.iteration_updates
        return {
            "score": self.iteration_return / episodes if episodes else None,
            "score_100": self.score,
            "episodes": episodes,
            "episodes_total": self.episodes,
            "episode_length": self.iteration_length / episodes if episodes else None,
            **{name: self.sums[name] / updates if updates else None for name in _METRICS},
            "updates_total": self.updates,
        }

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "recent": list(self.recent), "sums": dict(self.sums)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> "LaneAccount":
        account = LaneAccount()
        vars(account).update(data)
        account.recent = deque(data["recent"], maxlen=RECENT)
        return account


def check_finite(chunk: Chunk, settings: Settings, t: int) -> None:
    """Stops at the first update where a metric is NaN or infinite. `t` is the step after the
    chunk; its last update belongs to that step."""
    for lane, spec in enumerate(settings.lanes):
        metrics = {words: getattr(chunk, name)[lane] for name, words in _METRICS.items()}
        bad = ~np.isfinite(list(metrics.values()))
        if bad.any():
            first = int(np.argmax(bad.any(axis=0)))
            step = t - (chunk.loss.shape[1] - 1 - first) * settings.config.update_period_steps
            words = list(metrics)[int(np.argmax(bad[:, first]))]
            raise TrainingDiverged(
                f"{spec.agent} seed {spec.seed}: the {words} is {metrics[words][first]} at step "
                f"{step:,}; stopped (a lower --learning-rate may help)"
            )
