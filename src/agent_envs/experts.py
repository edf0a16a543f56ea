"""Experts: scripted agents for demonstrations, tests and upper bounds, found by name.

An Explorer uses only what an agent is shown. An Oracle also reads the solution or hidden state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from agent_envs.imports import load_object
from agent_envs.panels import nearest
from agent_envs.replies import unwrap_agent_env

if TYPE_CHECKING:
    import gymnasium as gym

    from agent_envs.contract import AgentEnv

    Env = gym.Env[Any, Any]

EXPERTS = {
    "explorer": "knows only what it was shown",
    "oracle": "reads the solution or hidden state",
}
"""The names of experts, and what each of them knows."""
Kind = TypeVar("Kind", bound="AgentEnv")


class Expert(Protocol):
    """Follows one episode; constructed after its reset, or at any later turn."""

    def act(self) -> str:
        """The next action of the episode; it is not executed."""

    def think(self) -> str:
        """The reason for it in a few words, or "" where none is worth imitating."""
        return ""


class Step(NamedTuple):
    """An action and its reason in a few words."""

    action: str
    thought: str


class Planner(ABC):
    """Experts that find the next action together with its reason."""

    @abstractmethod
    def plan(self) -> Step:
        """The next step of the episode; nothing is done."""

    def act(self) -> str:
        """The next action; it is not executed."""
        return self.plan().action

    def think(self) -> str:
        """The reason for the next action."""
        return self.plan().thought


def expert(env: Env, name: str = "explorer") -> Expert:
    """The expert of that name for the running episode.

    If the environment reads whole replies, make one by
    `env.unwrapped.reply_form.format(thought=expert.think(), action=expert.act())`.

    Raises:
        ValueError, TypeError: as `expert_class`; no running episode, or the expert cannot play it.
    """
    return expert_class(env, name)(env)


def expert_class(env: Env, name: str) -> Callable[[Env], Expert]:
    """The class of the expert of that name.

    Args:
        env: the environment, wrapped or not.
        name: "explorer", "oracle", or the import string `package.module:Name` of a class.

    Raises:
        TypeError: not an agent environment.
        ValueError: an unknown name, an environment without that expert, or an import string that
            names no class.
    """
    if ":" in name:
        made: type[Expert] = load_object(name, type, option="the expert")
        return made
    if name not in EXPERTS:
        raise ValueError(
            f"unknown expert {name!r}{nearest(name, EXPERTS)}; known are {', '.join(EXPERTS)} and "
            "package.module:Name"
        )
    env_class = type(unwrap_agent_env(env, "expert"))
    there = experts_of(env_class)
    if name in there:
        return there[name]
    if not there:
        raise ValueError(
            f"{env_class.__name__} has no experts: set its class attribute experts to their module,"
            " or name a class as package.module:Name"
        )
    others = " and ".join(f"{other!r}, which {EXPERTS[other]}" for other in there)
    raise ValueError(
        f"{env_class.__name__} has no {name}; use {others}, or name a class as package.module:Name"
    )


def experts_of(env_class: type) -> dict[str, Callable[[Env], Expert]]:
    """The experts of an environment class by name, from the module in its attribute `experts`.

    Raises:
        ImportError: the module does not exist.
        ValueError: it has none.
    """
    path: str = getattr(env_class, "experts", "")
    module = vars(import_module(path)) if path else {}
    found = {name: module[name.title()] for name in EXPERTS if name.title() in module}
    if path and not found:
        raise ValueError(
            f"{env_class.__name__}.experts names {path}, which has no class Explorer or Oracle; "
            "write one there, or leave the attribute out"
        )
    return found


def playing(env: Env, *kinds: type[Kind]) -> Kind:
    """The environment inside `env`, which must be of one of these classes and have been reset.

    Raises:
        TypeError: another environment.
        ValueError: it has not been reset.
    """
    inner = env.unwrapped
    if not isinstance(inner, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"this expert plays {names}, got {type(inner).__name__}")
    if not inner.transcript:
        raise ValueError(f"an expert follows an episode: call reset() of {type(inner).__name__}")
    return inner
