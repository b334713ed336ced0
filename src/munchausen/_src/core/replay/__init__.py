from munchausen._src.core.replay.frames import FrameReplay, FrameStore
from munchausen._src.core.replay.prioritised import Priorities
from munchausen._src.core.replay.ring import FrameTransitions, Outcome, Ring
from munchausen._src.core.replay.transitions import (
    Sample,
    TransitionReplay,
    Transitions,
    TransitionStore,
    batch_size,
)

# fmt: off
__all__ = [
    "FrameReplay", "FrameStore", "FrameTransitions", "Outcome", "Priorities", "Ring", "Sample",
    "TransitionReplay", "TransitionStore", "Transitions", "batch_size",
]
# fmt: on
