"""Munchausen reinforcement learning: every agent of the paper, exact, fast and tested."""

from typing import TYPE_CHECKING, Any

from munchausen._src.errors import TrainingDiverged, UserError

if TYPE_CHECKING:
    from munchausen._src.api import Agent

__all__ = ["Agent", "TrainingDiverged", "UserError"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`Agent` brings JAX along; importing a part of the package should not."""
    if name == "Agent":
        from munchausen._src.api import Agent

        return Agent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
