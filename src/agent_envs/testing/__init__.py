"""The contract kit: checks any environment in two lines of a test.

from agent_envs.testing import check_agent_env
check_agent_env(gym.make("my_package:MyWorld-v0"))
"""

from agent_envs.contract import ContractError
from agent_envs.testing.contract import check_agent_env, digest, play
from agent_envs.testing.episodes import Actor, Record, say_words, wander

__all__ = [
    "Actor",
    "ContractError",
    "Record",
    "check_agent_env",
    "digest",
    "play",
    "say_words",
    "wander",
]
