"""The environment of a recipe, of this package or of a user's own, with its wrappers.

From the inside out: the environment, `ParseReply`, reward wrappers, `Prompt`. Left out: vector
environments; rollouts use an active set.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import gymnasium as gym
from pydantic import PlainValidator
from pydantic.dataclasses import dataclass

import agent_envs
from agent_envs.imports import find_creator, has_option, list_parameters, load_object, message_of
from agent_envs.panels import nearest
from agent_envs.replies import FORM, Form
from credit.rewards import InvalidPenalty
from trainer.errors import RecipeError
from trainer.options import (
    STRICT,
    AboveZero,
    Count,
    NonNegative,
    NotAboveZero,
    Section,
    make_options,
)
from trainer.play.mixture import Mixture

if TYPE_CHECKING:
    from trainer.play.partner import PolicyPartner


def _read_limit(given: Any) -> int | str:
    if isinstance(given, str) or (type(given) is int and given >= 0):
        return given
    raise ValueError(f"a number of turns, at least 0, or what the environment reads, got {given!r}")


Limit = Annotated[int | str, PlainValidator(_read_limit)]


@dataclass(frozen=True, config=STRICT)
class Env(Section):
    """The environment and its tasks.

    Attributes:
        id: Registered id ("AlfWorld-v0", "package:Id-v0"), "package.module:Class", or "mixture".
        split: Split that training tasks are drawn from, if the environment has splits.
        data: Folder of the public data, "embedded", or "auto".
        games: Train on this many of the split's tasks, a fixed draw; 0 for all.
        max_turns: Turn limit; 0 for the environment's own, "oracle+5" where it reads this.
        invalid_penalty: Added to the reward of an invalid turn, 0 for none.
        processes: Worker processes that hold the environments, for steps that compute for long; 0
            for this process. Training and evaluation have their own.
        step_seconds: Time limit of one reset or step in a worker process; 0 for none.
        options: Further keyword arguments of the environment, e.g. `task_types` of AlfWorld.
        signals: Hooks of `agent_envs.Signals` for an environment that is no `AgentEnv`, e.g.
            {success_reward = 1.0}.
        wrappers: Reward wrappers by "package.module:Name", the innermost first, each with its
            options, e.g. {"credit.rewards:ProgressReward" = {scale = 0.5}}.
        mixture: The worlds of the id "mixture" by name: each a table of these options and of those
            of `World`. What it does not say is as in this section, but for `options` and `signals`.

    Raises:
        ValueError: Worlds and another id than "mixture", the other way round, or with `processes`.
    """

    unread: ClassVar[dict[str, str]] = {"processes=0": "step_seconds"}

    id: str = "AlfWorld-v0"
    split: str = "train"
    data: str = "auto"
    games: Count = 0
    max_turns: Limit = 0
    invalid_penalty: NotAboveZero = 0.0
    processes: Count = 0
    step_seconds: NonNegative = 0.0
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    signals: dict[str, Any] = dataclasses.field(default_factory=dict)
    wrappers: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    mixture: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.mixture) != (self.id == "mixture") or (self.mixture and self.processes):
            raise ValueError(
                f"env.id={self.id!r} with {len(self.mixture)} worlds in env.mixture and "
                f"env.processes={self.processes}: several worlds are tables env.mixture.NAME of "
                'the id "mixture", without worker processes'
            )

    def list_worlds(self) -> dict[str, World]:
        """The worlds of the mixture by name.

        Raises:
            RecipeError: An option of a world is unknown or invalid.
        """
        shared = dataclasses.asdict(self)
        for own_alone in ("id", "options", "signals", "mixture"):
            del shared[own_alone]
        return {
            name: make_options(World, shared | own, f"env.mixture.{name}")
            for name, own in self.mixture.items()
        }


@dataclass(frozen=True, config=STRICT)
class World(Env):
    """A world of a mixture.

    Attributes:
        weight: Its share of the tasks, relative to those of the others.
        eval_split: Split of evaluation, "" for `eval.split`.
        template, past: As `prompt.template` and `prompt.history`; "" and -1 for these.
    """

    weight: AboveZero = 1.0
    eval_split: str = ""
    template: str = ""
    past: int = -1

    def choose_prompt(self, prompt: PromptOptions) -> PromptOptions:
        """The prompt options of the world.

        Raises:
            RecipeError: `template` or `past` with a context that renders none.
        """
        if prompt.context == "history" and (self.template or self.past >= 0):
            raise RecipeError(
                f"env.mixture: template={self.template!r} and past={self.past} of a world are not "
                "read with prompt.context=history; leave them out, or set prompt.context=turn"
            )
        past = prompt.history if self.past < 0 else self.past
        template = self.template or prompt.template
        return dataclasses.replace(prompt, template=template, history=past)


@dataclass(frozen=True, config=STRICT)
class PromptOptions(Section):
    """What a reply is conditioned on.

    Attributes:
        context: "history": the whole conversation; "turn": a new prompt rendered for every turn.
        template: With context "turn", the template of the prompt: "package.module:NAME" of an
            `agent_envs.Template`; "" for the environment's own.
        history: With context "turn", past turns that the prompt shows.
        goal: With context "history", the first message begins with the goal if the observation does
            not say it.
    """

    unread: ClassVar[dict[str, str]] = {
        "context=history": "template history",
        "context=turn": "goal",
    }

    context: Literal["history", "turn"] = "history"
    template: str = ""
    history: Count = 2
    goal: bool = True


@dataclass(frozen=True, config=STRICT)
class Eval:
    """Evaluation on a fixed panel.

    Attributes:
        split: Split the panel is drawn from.
        data: Folder of the data that the panel is drawn from; "" for that of training, `env.data`.
        tasks: Tasks of the panel at most; 0 for the whole split.
        every: Steps between evaluations, 0 for none; start and end are always evaluated.
        temperature: 0 is greedy.
        select: Which evaluation counts as the result of the run in tables of papers: the "last", or
            the "best", whose success is too high by the choice.
    """

    split: str = "valid_unseen"
    data: str = ""
    tasks: Count = 100
    every: Count = 0
    temperature: NonNegative = 0.0
    select: Literal["last", "best"] = "last"


def make_env(
    env: Env, prompt: PromptOptions, *, split: str, partner: PolicyPartner | None = None
) -> gym.Env[str, str]:
    """Make the environment of a recipe with its wrappers, or its mixture of them.

    `partner` plays the other side in environments that have one.

    Raises:
        ValueError: An id, option, wrapper or template does not exist or does not fit.
    """
    if env.mixture:
        worlds = env.list_worlds()
        made_worlds = {
            name: make_env(
                world,
                world.choose_prompt(prompt),
                split=world.split if split == env.split else world.eval_split or split,
                partner=partner,
            )
            for name, world in worlds.items()
        }
        return Mixture(made_worlds, {name: world.weight for name, world in worlds.items()})
    made = _lift(_make_bare(env, split, partner), env, split)
    if find_form(made).tags:
        made = agent_envs.ParseReply(made)
    if env.invalid_penalty:
        made = InvalidPenalty(made, env.invalid_penalty)
    for path, options in env.wrappers.items():
        wrapper = load_object(path, type, option="env.wrappers")
        made = _call(f"env.wrappers {path}", partial(wrapper, made), options)
    if prompt.context == "turn":
        template = None
        if prompt.template:
            template = load_object(prompt.template, agent_envs.Template, option="prompt.template")
        made = agent_envs.Prompt(made, template, history=prompt.history)
    return made


def _lift(made: gym.Env[Any, Any], env: Env, split: str) -> gym.Env[str, str]:
    """The environment, with signals by the hooks of the recipe if it has none of its own."""
    own = isinstance(made.unwrapped, agent_envs.AgentEnv)
    if own and env.signals:
        raise RecipeError(f"{env.id} reports its own signals; leave env.signals out")
    if own:
        return made
    if not env.signals:
        raise RecipeError(
            f"env.id={env.id!r} makes a {type(made.unwrapped).__name__}, which does not report "
            "validity, progress, anchor and goal; give the hooks of agent_envs.Signals as "
            "env.signals, at least env.signals.success_reward"
        )
    limit: dict[str, Any] = {"max_turns": env.max_turns} if env.max_turns else {}
    lift = partial(agent_envs.Signals, made, split=split, **limit)
    lifted: gym.Env[str, str] = _call("env.signals", lift, env.signals)
    return lifted


def _make_bare(env: Env, split: str, partner: PolicyPartner | None) -> gym.Env[str, str]:
    """The environment without wrappers, with the options of the recipe that it has."""
    creator = find_creator(env.id, option="env.id")
    options = env.options if partner is None else {**env.options, "partner": partner}
    if options.get("partner") == "external":
        raise RecipeError(
            "env.options.partner='external' lets one policy play both sides and see both sides' "
            "secrets; set partner.model to the policy of the other side instead"
        )
    common = {"data": env.data, "split": split, "max_turns": env.max_turns}
    unset = set() if env.max_turns else {"max_turns"}
    given = {k: v for k, v in common.items() if k not in unset and has_option(creator, k)}
    known = list_parameters(creator).keys() - common.keys()
    absent = [name for name in options if name in common or not has_option(creator, name)]
    registered = env.id.rpartition(":")[2] in gym.registry
    maker = partial(gym.make, env.id, disable_env_checker=True) if registered else creator
    while True:
        absent += [
            name
            for name, ignored in _IGNORED.items()
            if name not in given and common[name] not in ignored
        ]
        if absent:
            raise RecipeError(
                f"{env.id} has no option {absent[0]!r}{nearest(absent[0], known)}; env.options has "
                f"{', '.join(sorted(known))}, and {', '.join(common)}, where an environment has "
                "them, are set as env.NAME, and the split of evaluation as eval.split"
            )
        try:
            made: gym.Env[str, str] = _call(f"env.id={env.id!r}", maker, options | given)
        except RecipeError as error:
            unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            if not unknown or unknown[1] not in given:
                raise
            del given[unknown[1]]  # of a creator that takes any option and passes it on
        else:
            return made


# Values that an environment without the option ignores: sections and models set them unasked.
_IGNORED = {"split": ("train", "valid_unseen", "test"), "data": ("auto", "embedded")}


def find_form(env: gym.Env[str, str]) -> Form:
    """The form of the replies that an environment reads itself, or that of `ParseReply`."""
    own = getattr(env.unwrapped, "reply_form", "")
    return Form(own) if own else FORM


def _call(option: str, maker: Callable[..., Any], options: dict[str, Any]) -> Any:
    """What a class makes of its options; errors of the options name the one of the recipe."""
    try:
        return maker(**options)
    except (OSError, TypeError, ValueError) as error:
        raise RecipeError(f"{option}: {message_of(error)}") from error
