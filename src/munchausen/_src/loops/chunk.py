"""What a loop reports after a stretch of steps. Plain NumPy, lanes first."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from munchausen._src.core.replay import Ring
from munchausen._src.networks import Network


class Episodes(NamedTuple):
    """The episodes that ended, in the order of their last steps."""

    returns: np.ndarray  # undiscounted and unclipped
    lengths: np.ndarray


class Chunk(NamedTuple):
    episodes: list[Episodes]  # one for each lane
    loss: np.ndarray  # [lanes, updates], empty during the warm-up
    q: np.ndarray
    action_gap: np.ndarray
    entropy: np.ndarray


@runtime_checkable
class Loop(Protocol):
    """Both loops look like this to an experiment."""

    def init(self) -> Any:
        """The state of all lanes before the first step."""
        ...

    def advance(self, state: Any, t: int, steps: int) -> tuple[Any, Callable[[], Chunk]]:
        """Takes `steps` agent steps (a multiple of the group) from step `t`. The report is
        asked for by a call, which waits for the device; `state` is used up."""
        ...

    def snapshot(self, state: Any) -> Any:
        """What a checkpoint keeps: the same tree, lanes first, on any kind of device."""
        ...

    def replay(self, state: Any) -> Ring:
        """The replay of all lanes, lanes first."""
        ...

    def network(self, state: Any, lane: int) -> Network:
        """The online network of one lane."""
        ...

    def restore(self, snapshot: Any) -> Any:
        """Makes a snapshot read from a checkpoint ready to go on from."""
        ...

    def close(self) -> None: ...


def empty_metrics(lanes: int) -> dict[str, np.ndarray]:
    return {
        name: np.zeros((lanes, 0), np.float32) for name in ("loss", "q", "action_gap", "entropy")
    }
