"""The environment of a recipe, of this package or of a user's own, with its wrappers.

From the inside out: the environment, `ParseReply`, reward wrappers, `Prompt`. Left out: vector
environments; rollouts use an active set.
"""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from importlib import import_module
from inspect import Parameter, isclass, signature
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator
from pydantic.dataclasses import dataclass

import agent_envs
from agent_envs.imports import named
from agent_envs.panels import nearest
from credit.wrappers import InvalidPenalty
from trainer.options import STRICT, Count, NotAboveZero, Positive
from trainer.recipes import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.partner import PolicyPartner

OWN_REWARD = "own_reward"
"""Key of `info`: the environment's own reward of the turn, without what reward wrappers add."""


@dataclass(frozen=True, config=STRICT)
class Env:
    """The environment and its tasks.

    Attributes:
        id: Registered id ("AlfWorld-v0", "package:Id-v0"), or "package.module:Class" of an
            `agent_envs.AgentEnv`.
        split: Split that training tasks are drawn from, if the environment has splits.
        data: Folder of the public data, "embedded", or "auto".
        games: Train on this many of the split's tasks, a fixed draw; 0 for all.
        max_turns: Turn limit.
        invalid_penalty: Added to the reward of an invalid turn, 0 for none.
        options: Further keyword arguments of the environment, e.g. `task_types` of AlfWorld.
        wrappers: Reward wrappers by "package.module:Name", the innermost first, each with its
            options, e.g. {"credit.wrappers:ProgressReward" = {scale = 0.5}}.
    """

    id: str = "AlfWorld-v0"
    split: str = "train"
    data: str = "auto"
    games: Count = 0
    max_turns: Positive = 50
    invalid_penalty: NotAboveZero = 0.0
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    wrappers: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, config=STRICT)
class PromptOptions:
    """What a reply is conditioned on.

    Attributes:
        context: "history": the whole conversation; "turn": a new prompt rendered for every turn.
        template: With context "turn", the template of the prompt: "package.module:NAME" of an
            `agent_envs.Template`; "" for the environment's own.
        history: With context "turn", past turns that the prompt shows.
    """

    context: Literal["history", "turn"] = "history"
    template: str = ""
    history: Count = 2


def make_env(
    env: Env, prompt: PromptOptions, *, split: str, partner: PolicyPartner | None = None
) -> gym.Env[str, str]:
    """Make the environment of a recipe with its wrappers.

    `partner` plays the other side in environments that have one.

    Raises:
        RecipeError: An id, option, wrapper or template does not exist or does not fit.
    """
    creator = _creator(env.id)
    option = "env.split" if split == env.split else "eval.split"
    if not _takes(creator, "split") and split not in _SPLITS:
        raise RecipeError(f"{env.id} has no splits, got {option}={split!r}; leave {option} out")
    given = _options(env, creator, partner)
    common = {"split": split, "max_turns": env.max_turns}
    given |= {name: value for name, value in common.items() if _takes(creator, name)}
    registered = env.id.rpartition(":")[2] in gym.registry
    maker = partial(gym.make, env.id, disable_env_checker=True) if registered else creator
    try:
        made: gym.Env[str, str] = _called(f"env.options of {env.id}", maker, given)
    except ValueError as error:
        if f"split {split!r}" not in str(error):
            raise
        raise RecipeError(f"{option}: {error}") from error
    inner = getattr(made, "unwrapped", made)
    if not isinstance(inner, agent_envs.AgentEnv):
        raise RecipeError(
            f"env.id={env.id!r} makes a {type(inner).__name__}; training needs an "
            "agent_envs.AgentEnv, which reports validity, progress, anchor and goal"
        )
    if not form_of(made):
        made = agent_envs.ParseReply(made)
    made = _OwnReward(made)
    if env.invalid_penalty:
        made = InvalidPenalty(made, env.invalid_penalty)
    for path, options in env.wrappers.items():
        wrapper = _found(path, "env.wrappers", type)
        made = _called(f"the options of env.wrappers {path}", wrapper, options, made)
    if prompt.context == "turn":
        template = _found(prompt.template, "prompt.template", agent_envs.Template)
        made = agent_envs.Prompt(made, template, history=prompt.history)
    return made


class _OwnReward(gym.Wrapper[Any, str, Any, str]):
    """Reports what the environment itself paid, inside all reward wrappers, as a float."""

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, OWN_REWARD: float(reward)}


def form_of(env: gym.Env[str, str]) -> str:
    """Format of a whole reply if the environment parses replies itself, else ""."""
    return str(getattr(env.unwrapped, "reply_form", ""))


def _creator(name: str) -> Callable[..., Any]:
    """The function or class that makes the environment of an id or an import string."""
    module, _, last = name.rpartition(":")
    try:
        if module:
            import_module(module)
        if last in gym.registry:
            creator: Any = gym.registry[last].entry_point
            return load_env_creator(creator) if isinstance(creator, str) else creator
        if module and re.search(r"-v\d+$", last):
            raise RecipeError(
                f"env.id is {name!r}, but {module} registers no environment {last!r}"
                f"{nearest(last, gym.registry)}; an environment that is not registered is given as "
                "package.module:Class"
            )
        if module:
            return named(name, type, option="env.id")  # type: ignore[no-any-return]
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise RecipeError(
            f"env.id is {name!r}, but there is no module {error.name!r}; install it, or put its "
            "folder on PYTHONPATH"
        ) from None
    except ValueError as error:
        raise RecipeError(str(error)) from error
    raise RecipeError(
        f"no environment {name!r} is registered{nearest(name, gym.registry)}; your own is given as "
        "package:Id-v0 or package.module:Class"
    )


def _found(path: str, option: str, kind: type) -> Any:
    """The object of an import string, None for ""."""
    try:
        return named(path, kind, option=option) if path else None
    except ValueError as error:
        raise RecipeError(str(error)) from error


def _called(what: str, made: Callable[..., Any], options: dict[str, Any], *given: Any) -> Any:
    try:
        return made(*given, **options)
    except TypeError as error:
        raise RecipeError(f"{what} do not fit: {error}") from error


_SPLITS = ("train", "valid_unseen", "test")
"""What sections and models set without being asked; an environment without splits ignores it."""
_OF_ENV = ("data", "max_turns", "split")


def _options(
    env: Env, creator: Callable[..., Any], partner: PolicyPartner | None
) -> dict[str, Any]:
    """Keyword arguments of the environment; an option that it does not have is refused."""
    options = env.options if partner is None else {**env.options, "partner": partner}
    if options.get("partner") == "external":
        raise RecipeError(
            "env.options.partner='external' lets one policy play both sides and see both sides' "
            "secrets; set partner.model to the policy of the other side instead"
        )
    for name in options:
        if name in _OF_ENV:
            raise RecipeError(
                f"env.options.{name} is an option of the recipe itself: set env.{name}"
                + (" or eval.split" if name == "split" else "")
            )
        if not _takes(creator, name):
            raise RecipeError(
                f"{env.id} has no option {name!r} (env.options.{name})"
                f"{nearest(name, _parameters(creator))}"
            )
    if _takes(creator, "data"):
        return {**options, "data": env.data}
    if env.data not in {"auto", "embedded"}:
        raise RecipeError(f"{env.id} reads no data, got env.data={env.data!r}; leave it at 'auto'")
    return dict(options)


def _takes(creator: Callable[..., Any], option: str) -> bool:
    """Whether a creator has an option, or accepts any option."""
    known = _parameters(creator)
    return option in known or any(p.kind is Parameter.VAR_KEYWORD for p in known.values())


def _parameters(creator: Any) -> dict[str, Parameter]:
    """Parameters of a function or class, with those of the bases that it passes `**kwargs` to."""
    known: dict[str, Parameter] = {}
    for one in creator.__mro__ if isclass(creator) else (creator,):
        own = signature(one).parameters.values()
        rest = [p for p in own if p.kind is Parameter.VAR_KEYWORD]
        known.update({p.name: p for p in own if p not in rest})
        if not rest:
            return known
    return known if isclass(creator) else known | {p.name: p for p in rest}
