from munchausen._src.agents.config import AgentConfig, override
from munchausen._src.agents.presets import (
    AGENTS,
    DEFAULT_AGENT,
    DESCRIPTIONS,
    register_agent,
    resolve,
)

__all__ = [
    "AGENTS", "DEFAULT_AGENT", "DESCRIPTIONS", "AgentConfig", "override", "register_agent",
    "resolve",
]  # fmt: skip
