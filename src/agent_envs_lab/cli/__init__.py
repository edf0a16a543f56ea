"""Commands of `agent-envs` that measure; entry points of the group `agent_envs.commands`."""
