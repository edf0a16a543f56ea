"""Audits for any environment: the contract, anchors, rewards and checkers.

from agent_envs_lab.audits import audit
print(audit(gym.make("my_package:MyWorld-v0")))
"""

from agent_envs.panels import Share
from agent_envs_lab.audits.anchors import AnchorAudit, audit_anchors
from agent_envs_lab.audits.contract import check_contract
from agent_envs_lab.audits.every import Audit, audit
from agent_envs_lab.audits.rewards import (
    Case,
    CheckerAudit,
    RewardAudit,
    audit_checker,
    audit_rewards,
    follow_script,
)

__all__ = [
    "AnchorAudit",
    "Audit",
    "Case",
    "CheckerAudit",
    "RewardAudit",
    "Share",
    "audit",
    "audit_anchors",
    "audit_checker",
    "audit_rewards",
    "check_contract",
    "follow_script",
]
