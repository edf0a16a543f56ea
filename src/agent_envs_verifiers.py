"""The plug-in of verifiers, which finds plug-ins by top-level module: `agent-envs-verifiers`."""

from agent_envs_adapters.verifiers import AgentEnvsEnv, AgentEnvsTaskset, ChatHarness

__all__ = ["AgentEnvsEnv", "AgentEnvsTaskset", "ChatHarness"]
