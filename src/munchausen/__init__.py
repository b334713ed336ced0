"""Munchausen reinforcement learning: every agent of the paper, exact, fast and tested."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from munchausen._src.errors import TrainingDiverged, UserError

if TYPE_CHECKING:
    from munchausen._src.agents import register_agent
    from munchausen._src.api import Agent
    from munchausen._src.suites import register

__all__ = ["Agent", "TrainingDiverged", "UserError", "register", "register_agent"]
__version__ = "0.1.0"


_HOMES = {"Agent": "api", "register": "suites", "register_agent": "agents"}


def __getattr__(name: str) -> Any:
    """`Agent` brings JAX along; importing a part of the package should not."""
    if name in _HOMES:
        return getattr(import_module(f"munchausen._src.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
