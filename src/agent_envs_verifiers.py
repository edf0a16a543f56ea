"""The plug-in of verifiers, `vf-eval agent-envs-verifiers`: it finds plug-ins by top-level module."""

from trainer.integrations.verifiers import AgentEnvsEnv, AgentEnvsTaskset, ChatHarness

__all__ = ["AgentEnvsEnv", "AgentEnvsTaskset", "ChatHarness"]
