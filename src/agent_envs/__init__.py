"""Gymnasium environments for language agents: validity, progress, anchor and goal at every turn.

Importing registers the ids; `gym.make("agent_envs:AlfWorld-v0")` does without the import.
"""

import warnings

import gymnasium

from agent_envs.assets import BadAsset, MissingAsset
from agent_envs.contract import INFO_KEYS, INVALID_REASONS, AgentEnv, ContractError, Malformed, Turn
from agent_envs.experts import Expert, expert
from agent_envs.panels import Panel
from agent_envs.prompt import Prompt
from agent_envs.replies import ParseReply
from agent_envs.signals import Signals
from agent_envs.spaces import FreeText
from agent_envs.template import Template
from agent_envs.toolset import Toolset, tools
from agent_envs.vector import make_vec

__version__ = "0.1.0"

__all__ = [
    "INFO_KEYS",
    "INVALID_REASONS",
    "AgentEnv",
    "BadAsset",
    "ContractError",
    "Expert",
    "FreeText",
    "Malformed",
    "MissingAsset",
    "Panel",
    "ParseReply",
    "Prompt",
    "Signals",
    "Template",
    "Toolset",
    "Turn",
    "expert",
    "make_vec",
    "tools",
]

# The base class checks the call order and the turn limit, so Gymnasium's wrappers are not needed.
for _name, _entry_point in {
    "AlfWorld-v0": "agent_envs.alfworld.env:AlfWorld",
    "AppWorld-v0": "agent_envs.appworld.public:PublicAppWorld",
    "AppWorld-v1": "agent_envs.appworld.env:AppWorld",
    "Bifurcation-v1": "agent_envs.bifurcation.env:Bifurcation",
    "EZPoints-v0": "agent_envs.ezpoints.env:EZPoints",
    "Points-v0": "agent_envs.ezpoints.env:Points",
    "SearchQA-v0": "agent_envs.search_qa.public:PublicSearchQA",
    "SearchQA-v1": "agent_envs.search_qa.env:SearchQA",
    "Sokoban-v0": "agent_envs.sokoban.env:Sokoban",
    "Sotopia-v0": "agent_envs.sotopia.env:Sotopia",
    "Sotopia-v1": "agent_envs.sotopia.env:SotopiaFacts",
    "TextWorld-v0": "agent_envs.textworld.env:TextWorld",
    "VisualSokoban-v0": "agent_envs.sokoban.env:VisualSokoban",
    "WebShop-v0": "agent_envs.webshop.env:PublicWebShop",
    "WebShop-v1": "agent_envs.webshop.env:WebShop",
    "WebShopSite-v1": "agent_envs.webshop.browser:WebShopSite",
    "WikiSearch-v0": "agent_envs.search_qa.public:PublicWikiSearch",
    "WikiSearch-v1": "agent_envs.search_qa.wiki:WikiSearch",
}.items():
    gymnasium.register(
        _name, entry_point=_entry_point, order_enforce=False, disable_env_checker=True
    )
# A -v0 beside a -v1 plays public data by the published rules, and is not out of date.
warnings.filterwarnings("ignore", r".*The environment \w+-v0 is out of date", DeprecationWarning)
