"""Audits for any environment: the contract, anchors, rewards and checkers.

from agent_envs.testing import check_agent_env
check_agent_env(gym.make("my_package:MyWorld-v0"))
"""

from agent_envs.contract import ContractError
from agent_envs.testing.anchors import AnchorAudit, audit_anchors
from agent_envs.testing.checkers import Case, CheckerAudit, audit_checker
from agent_envs.testing.contract import check_agent_env, digest, play
from agent_envs.testing.episodes import Actor, Record, saying, wander
from agent_envs.testing.every import Audit, audit
from agent_envs.testing.rewards import RewardAudit, Share, audit_rewards, scripted

__all__ = [
    "Actor",
    "AnchorAudit",
    "Audit",
    "Case",
    "CheckerAudit",
    "ContractError",
    "Record",
    "RewardAudit",
    "Share",
    "audit",
    "audit_anchors",
    "audit_checker",
    "audit_rewards",
    "check_agent_env",
    "digest",
    "play",
    "saying",
    "scripted",
    "wander",
]
