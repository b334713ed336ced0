from munchausen.agent.config import AgentConfig, override
from munchausen.agent.presets import AGENTS, DEFAULT_AGENT, DESCRIPTIONS, resolve

__all__ = ["AGENTS", "DEFAULT_AGENT", "DESCRIPTIONS", "AgentConfig", "override", "resolve"]
