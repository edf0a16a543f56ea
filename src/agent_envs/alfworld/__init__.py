"""AlfWorld-v0: household tasks as text, their native engine, generator and two oracles."""

from agent_envs.alfworld.distance import oracle
from agent_envs.alfworld.explorer import explorer

__all__ = ["explorer", "oracle"]
