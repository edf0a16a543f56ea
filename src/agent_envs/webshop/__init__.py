"""WebShop-v0: shopping as text, with its catalogue, search, goals, score and a scripted buyer."""

from agent_envs.webshop.buyer import explorer, oracle

__all__ = ["explorer", "oracle"]
