from munchausen._src.core.replay.prioritised import (
    Priorities,
    advance,
    make_priorities,
    sample_prioritised,
    update_priorities,
)
from munchausen._src.core.replay.ring import (
    Outcome,
    Ring,
    Transitions,
    append,
    current_observations,
    cut_episodes,
    gather,
    make_ring,
    sample_uniform,
)

__all__ = [
    "Outcome",
    "Priorities",
    "Ring",
    "Transitions",
    "advance",
    "append",
    "current_observations",
    "cut_episodes",
    "gather",
    "make_priorities",
    "make_ring",
    "sample_prioritised",
    "sample_uniform",
    "update_priorities",
]
