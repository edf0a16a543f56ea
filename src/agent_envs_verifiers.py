"""The plug-in of verifiers, which finds plug-ins by top-level module: `agent-envs-verifiers`."""

from trainer.integrations.verifiers import AgentEnvsEnv, AgentEnvsTaskset, ChatHarness

__all__ = ["AgentEnvsEnv", "AgentEnvsTaskset", "ChatHarness"]
