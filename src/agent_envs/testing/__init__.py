"""Audits that run on anyone's environment: the contract, anchors, rewards and checkers.

from agent_envs.testing import check_agent_env
check_agent_env(gym.make("my_package:MyWorld-v0"))
"""

from agent_envs.contract import ContractError
from agent_envs.testing.anchors import AnchorAudit, audit_anchors
from agent_envs.testing.contract import check_agent_env, digest, play
from agent_envs.testing.episodes import Actor, Record

__all__ = [
    "Actor",
    "AnchorAudit",
    "ContractError",
    "Record",
    "audit_anchors",
    "check_agent_env",
    "digest",
    "play",
]
