"""Episodes seen from outside, recorded turn by turn, and the rules for every turn.

An actor sees what an agent sees; each episode has a new actor. A rule gets the facts of one turn
and returns what is wrong, or "". An environment that deviates on purpose says so in its docstring,
in the words of `EXCEPTIONS`, under the heading given there.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias, cast

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Text

from agent_envs.contract import INFO_KEYS, INVALID_REASONS, OWN, ContractError
from agent_envs.replies import Form, ParseReply

if TYPE_CHECKING:
    from agent_envs.panels import Panel

Env: TypeAlias = "gym.Env[Any, Any]"
# Maps an observation and its info to the next action.
Actor: TypeAlias = Callable[[Any, dict[str, Any]], Any]
# Makes the actor of an episode, after its reset.
Actions: TypeAlias = Callable[[Env, np.random.Generator], Actor]

# Texts that are not an action in most environments.
ODD = (
    "", " ", "xyzzy", "0", "look look look", "\x00\x1b[2J", "ÿ漢字🎉", "<action>", "{}", "q" * 300,
)  # fmt: skip
# Words that are an action only if they are listed.
NONSENSE = ("xyzzy", "q" * 300, "y", "vqjzkxw")
WORDS = 0.9  # share of actions that are the given words
SHOWN = 100  # most characters of an action in messages
REPEATED = 4  # repetitions from which on messages count them
ROUNDING = 1e-9  # of the sum of a reward's terms
LONGEST = 200  # most turns in an environment without a turn limit


class Record(NamedTuple):
    """One turn as seen from outside; the action of the reset is None."""

    action: Any
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


class Start(NamedTuple):
    """The beginning of an episode: the seed, and the task's number if there is a panel."""

    seed: int
    task: int | None = None

    @property
    def options(self) -> dict[str, int] | None:
        """The options of `reset`."""
        return None if self.task is None else {"task": self.task}

    def __repr__(self) -> str:
        options = "" if self.task is None else f", options={self.options}"
        return f"reset(seed={self.seed}{options})"


class Violation(ContractError):
    """What is wrong, and the steps that show it; `rule` is the rule of `RULES` that found it."""

    def __init__(self, wrong: str, steps: Sequence[Any], rule: Any = None) -> None:
        self.wrong, self.steps, self.rule = wrong, tuple(steps), rule
        super().__init__(f"{wrong}\n{show_steps(self.steps)}" if self.steps else wrong)


def panel_of(env: Env) -> Panel:
    """The panel of an environment; None where there is none, as in someone else's."""
    return cast("Panel", getattr(env.unwrapped, "panel", None))


def limit_of(env: Env) -> int:
    """The turn limit of the environment or of its spec, else `LONGEST`."""
    own = getattr(env.unwrapped, "max_turns", None)
    of_spec = env.spec.max_episode_steps if env.spec is not None else None
    return int(own or of_spec or LONGEST)


class CutShort(BaseException):
    """The time of a check is over."""


def spec_of(env: Env) -> Any:
    """The spec that makes an environment again; None without, or if a wrapper's options are lost.

    A wrapper keeps its options if it is a `gymnasium.utils.RecordConstructorArgs`.
    """
    spec = env.spec
    return None if spec and any(one.kwargs is None for one in spec.additional_wrappers) else spec


class Budget:
    """The seconds of a check; in its `with` block every `Play` takes from them.

    Attributes:
        turns: Resets and turns played so far.
    """

    def __init__(self, seconds: float) -> None:
        self._until, self.turns = time.monotonic() + seconds, 0

    def spend(self) -> None:
        """Count a turn that begins.

        Raises:
            CutShort: The time is over.
        """
        if time.monotonic() > self._until:
            raise CutShort
        self.turns += 1

    def __enter__(self) -> Self:
        self._token = _BUDGET.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _BUDGET.reset(self._token)


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


class Play:
    """A running episode; errors of the environment get a note with the actions.

    The error's attribute `steps` also has the actions.

    Attributes:
        start: The beginning. actions: The actions since.
        record: The latest turn.
    """

    def __init__(
        self, env: Env, start: Start, before_step: Callable[[Record, Any], None] | None = None
    ) -> None:
        self._env, self.start, self._before_step = env, start, before_step
        self.actions: list[Any] = []
        self.record = self._note_steps(self._reset)

    def step(self, action: Any) -> Record:
        """Take an action, return the record of its turn."""
        if self._before_step is not None:
            self._before_step(self.record, action)
        self.actions.append(action)
        self.record = self._note_steps(lambda: Record(action, *cast("Any", self._env.step(action))))
        return self.record

    def _reset(self) -> Record:
        observation, info = self._env.reset(seed=self.start.seed, options=self.start.options)
        return Record(None, observation, 0.0, False, False, info)

    def _note_steps(self, do: Callable[[], Record]) -> Record:
        if (budget := _BUDGET.get()) is not None:
            budget.spend()
        try:
            try:
                return do()
            except SystemExit as error:
                raise RuntimeError(f"the environment ends the process: {error!r}") from error
        except Exception as error:
            steps = (self.start, *self.actions)
            error.add_note(show_steps(steps))
            vars(error)["steps"] = steps
            raise


def play_steps(
    env: Env, steps: Sequence[Any], before_step: Callable[[Record, Any], None] | None = None
) -> Iterator[tuple[Play, Record]]:
    """Plays steps and yields every turn: a `Start` resets, actions follow up to the end."""
    play: Play | None = None
    for step in steps:
        if isinstance(step, Start):
            play = Play(env, step, before_step)
            yield play, play.record
        elif play is not None and not play.record.ended:
            yield play, play.step(step)


def play_episode(env: Env, start: Start, make_actor: Callable[[], Actor]) -> Iterator[Record]:
    """Plays an episode with a new actor, to its end or the turn limit."""
    play = Play(env, start)
    yield play.record
    actor = make_actor()
    for _ in range(limit_of(env)):
        yield play.step(actor(play.record.observation, play.record.info))
        if play.record.ended:
            return


def quote(action: Any, most: int = SHOWN) -> str:
    """The repr of an action; a long one is truncated and followed by its length."""
    text = repr(action)
    if len(text) <= most or isinstance(action, Start):
        return text
    end = text[-1] if isinstance(action, (str, bytes)) else ""
    size = f" ({len(action):,} characters)" if isinstance(action, (str, bytes)) else ""
    return f"{text[: most - 2]}…{end}{size}"


def show_steps(steps: Sequence[Any]) -> str:
    """The line of a message that says how to reproduce something."""
    start, *rest = steps
    return f"  shown by {start}, then {list_steps(rest)}" if rest else f"  shown by {start}"


def list_steps(steps: Sequence[Any]) -> str:
    """Steps in order; long actions are truncated, repeated steps are counted."""
    shown = []
    for text, same in groupby(map(quote, steps)):
        times = len(list(same))
        shown += [text] * times if times < REPEATED else [f"{text} ({times} times)"]
    return ", ".join(shown) or "nothing"


def name_turn(record: Record, turn: int) -> str:
    """The turn's name in messages."""
    return "reset" if turn == 0 else f"step {turn} ({quote(record.action, 60)})"


def write_input(env: Env, action: str) -> str:
    """The input of `env.step` for an action: a whole reply if `env` reads replies."""
    parser = find_parser(env)
    form = parser.form if parser else Form(getattr(env.unwrapped, "reply_form", "") or "{action}")
    return form.write(action, "." if parser else "")


def find_parser(env: Env) -> ParseReply | None:
    """The wrapper `ParseReply` of an environment, or None."""
    while isinstance(env, gym.Wrapper) and not isinstance(env, ParseReply):
        env = env.env
    return env if isinstance(env, ParseReply) else None


def list_inputs(env: Env, info: dict[str, Any]) -> list[Any]:
    """The admissible actions in `info` as inputs of `env.step`; [] if there is no list."""
    return [write_input(env, action) for action in info.get("admissible_actions") or ()]


def draw_odd_inputs(env: Env) -> list[Any]:
    """Mostly invalid actions: odd texts, or samples of a space that is not text."""
    if isinstance(env.action_space, Text):
        return [write_input(env, text) for text in ODD]
    return [env.action_space.sample() for _ in ODD]


def wander(env: Env, rng: np.random.Generator) -> Actor:
    """An actor for any environment: listed actions, repetitions, odd texts, and samples."""
    env.action_space.seed(int(rng.integers(2**31)))
    done, odd = list[Any](), draw_odd_inputs(env)

    def act(_: Any, info: dict[str, Any]) -> Any:
        kind, choices = rng.choice(4, p=(0.75, 0.1, 0.1, 0.05)), info.get("admissible_actions")
        if kind == 0 and choices:
            action = write_input(env, choices[int(rng.integers(len(choices)))])
        elif kind == 1 and done:
            action = done[-1]
        else:
            action = odd[int(rng.integers(len(odd)))] if kind > 1 else env.action_space.sample()
        done.append(action)
        return action

    return act


def say_words(words: Sequence[str]) -> Actions:
    """Makes actors that use these words, for text environments without lists of actions."""

    def make_actor(env: Env, rng: np.random.Generator) -> Actor:
        wandering, inputs = wander(env, rng), [write_input(env, word) for word in words]

        def act(observation: Any, info: dict[str, Any]) -> Any:
            if rng.random() < WORDS:
                return inputs[int(rng.integers(len(inputs)))]
            return wandering(observation, info)

        return act

    return make_actor


def find_difference(one: Record, other: Record) -> str:
    """The first field in which two records differ, with both values; "" if they are equal."""
    for name, a, b in zip(Record._fields, one, other, strict=True):
        pairs = [("", a, b)]
        if name == "info":
            pairs = [(f": {key!r}", a.get(key), b.get(key)) for key in {**a, **b}]
        for part, before, after in pairs:
            if not _is_same(before, after):
                return f"{name} differs{part}: {quote(before, 80)} and {quote(after, 80)}"
    return ""


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    same = one == other
    return same if isinstance(same, bool) else bool(np.all(same))


TYPES = dict(zip(INFO_KEYS, (str, bool, str, float, str, bool, list, str, int, dict), strict=True))
PLAIN = (str, bool, int, float, type(None), list, dict, tuple)
SURROGATE = re.compile("[\ud800-\udfff]")
HEADINGS = (
    "Description", "Observation", "Action", "Validity", "Progress", "Anchor", "Reward", "Ends",
    "Tasks and splits", "Data", "Source",
)  # fmt: skip
EXCEPTIONS = {
    "Progress": "without success",
    "Validity": "takes effect",
    "Description": "goal changes",
    "Ends": "limit of its own",
}
"""Heading -> words in a docstring that relax a rule: progress can be 1 without success, an action
takes effect although it is invalid, the goal changes in an episode, and an episode is truncated at
another limit than `max_turns`."""


@dataclass
class Seen:
    """The facts of an episode up to one turn.

    Attributes:
        start: The beginning. actions: The actions since.
        opening, before, record: The first turn, the previous turn and this one.
    """

    env: Env
    start: Start
    opening: Record
    record: Record
    before: Record | None = None
    actions: list[Any] = field(default_factory=list)

    @property
    def steps(self) -> tuple[Any, ...]:
        """The episode so far."""
        return self.start, *self.actions

    @property
    def info(self) -> dict[str, Any]:
        """The info of this turn."""
        return self.record.info

    @property
    def turn(self) -> int:
        """The number of this turn, 0 at the reset."""
        return len(self.actions)


def read_headings(env_class: type) -> dict[str, str]:
    """The text under each heading of a class docstring."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (vars(env_class).get("__doc__") or "").splitlines():
        name, _, rest = line.partition(":")
        new = name.strip("#* ") in HEADINGS
        heading = name.strip("#* ") if new else heading
        found.setdefault(heading, []).extend((rest if new else line).split())
    return {heading: " ".join(words) for heading, words in found.items()}


def has_exception(env: Env, heading: str) -> bool:
    """Whether the docstring, or that of a base class, states the exception of a heading.

    `ParseReply(on_malformed="attempt")` counts as an exception of Validity.
    """
    texts = (read_headings(one).get(heading, "") for one in type(env.unwrapped).__mro__)
    stated = any(EXCEPTIONS[heading] in text for text in texts)
    return stated or (heading == "Validity" and is_attempting(env))


def is_attempting(env: Env) -> bool:
    """Whether the likeliest actions of malformed replies are executed."""
    parser = find_parser(env)
    return parser is not None and parser.on_malformed == "attempt"


def judge_keys(seen: Seen) -> str:
    """Every key is present, with its exact type."""
    for key, kind in TYPES.items():
        if key not in seen.info:
            return f"info lacks {key!r}"
        value = seen.info[key]
        if type(value) is not kind:
            got = f"{value!r:.60} ({type(value).__name__})"
            return f"info[{key!r}] must be a {kind.__name__}, got {got}"
    changed = set(seen.before.info) ^ set(seen.info) if seen.before is not None else set()
    return f"info has {sorted(changed)} only at some turns" if changed else ""


def judge_plainness(seen: Seen) -> str:
    """`info` has only builtin types, and only text that can be encoded."""
    for key, value in seen.info.items():
        if wrong := _judge_value(value, f"info[{key!r}]"):
            return wrong
    return ""


def judge_signals(seen: Seen) -> str:
    """All signals have allowed values."""
    valid, reason = seen.info["valid"], seen.info["invalid_reason"]
    if not 0 <= seen.info["progress"] <= 1:
        return f"info['progress'] must lie in [0, 1], got {seen.info['progress']}"
    if reason not in INVALID_REASONS:
        return f"info['invalid_reason'] must be one of {INVALID_REASONS}, got {reason!r}"
    if valid != (reason == ""):
        return f"info['valid'] is {valid} with info['invalid_reason'] = {reason!r}"
    if seen.turn == 0 and (not valid or seen.info["success"]):
        return "a reset must be valid and no success"
    empty = [key for key in ("goal", "anchor") if not seen.info[key]]
    return f"info[{empty[0]!r}] is empty" if empty else ""


def judge_observation(seen: Seen) -> str:
    """The observation is in its space and can be encoded."""
    observation, space = seen.record.observation, seen.env.observation_space
    if type(observation) is str and (wrong := _judge_value(observation, "the observation")):
        return wrong
    return "" if observation in space else f"observation not in its space {space}"


def judge_reward(seen: Seen) -> str:
    """The reward is a number, the sum of its terms; an invalid turn has none, except at the end."""
    reward, terms = seen.record.reward, seen.info["reward_terms"]
    if type(reward) is not float:
        got = f"{reward!r} ({type(reward).__name__})"
        return f"the reward must be a float, got {got}{_name_foreign(seen.env)}"
    if not math.isfinite(reward):
        return f"the reward is {'NaN' if math.isnan(reward) else reward}"
    if any(type(term) is not float for term in terms.values()):
        return f"info['reward_terms'] must hold floats, got {terms!r:.200}"
    if not math.isclose(sum(terms.values()), reward, rel_tol=ROUNDING, abs_tol=ROUNDING):
        return (
            f"the reward is {reward}, and info['reward_terms'] sums to {sum(terms.values())}, "
            f"{terms!r:.200}{_name_foreign(seen.env)}; what changes the reward must add its term"
        )
    own = terms.get(OWN, reward)
    if own > 0 and not (seen.info["valid"] or seen.record.ended or is_attempting(seen.env)):
        return (
            f"a reward of {own} for an invalid turn ({seen.info['invalid_reason']!r}); "
            "invalid turns are never rewarded"
        )
    return ""


def judge_end(seen: Seen) -> str:
    """An episode ends by itself or at the turn limit, not both; a success ends it."""
    limit = limit_of(seen.env)
    _, _, _, terminated, truncated, info = seen.record
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if type(flag) is not bool:
            return f"{name} must be a bool, got {flag!r} ({type(flag).__name__})"
    if info["success"] and not terminated:
        return "success must be terminated"
    if terminated and truncated:
        return "both terminated and truncated"
    if truncated and seen.turn != limit and not has_exception(seen.env, "Ends"):
        return (
            f"truncated before the turn limit of {limit}; if that is intended, write "
            f'"{EXCEPTIONS["Ends"]}" under Ends'
        )
    if seen.turn >= limit and not seen.record.ended:
        return f"no end after max_turns = {limit} steps: truncated must be True"
    return ""


def judge_task(seen: Seen) -> str:
    """Turns are counted, the task is in the panel, and task and goal do not change."""
    info, first, panel = seen.info, seen.opening.info, panel_of(seen.env)
    if info["turn"] != seen.turn:
        return f"info['turn'] must be {seen.turn}, got {info['turn']}"
    if panel is not None and info["task_id"] not in panel.task_ids:
        return f"{info['task_id']!r} is not a task of the panel"
    if info["task_id"] != first["task_id"]:
        return f"the task was {first['task_id']!r}, now {info['task_id']!r}"
    if info["goal"] != first["goal"] and not has_exception(seen.env, "Description"):
        return (
            f"the goal was {first['goal']!r:.80}, now {info['goal']!r:.80}; "
            f'if that is intended, write "{EXCEPTIONS["Description"]}" under Description'
        )
    return ""


def judge_success(seen: Seen) -> str:
    """Success implies progress 1, and vice versa unless Progress says otherwise."""
    progress, success = seen.info["progress"], seen.info["success"]
    if success and progress != 1:
        return f"success with info['progress'] = {progress}; success implies 1.0"
    if progress == 1 and not success and not has_exception(seen.env, "Progress"):
        return (
            "info['progress'] is 1 without success; if that is intended, write "
            f'"{EXCEPTIONS["Progress"]}" under Progress'
        )
    return ""


def judge_list(seen: Seen) -> str:
    """Listed actions are texts of the space, each listed once."""
    actions, space = seen.info["admissible_actions"], seen.env.action_space
    if odd := [action for action in actions if type(action) is not str]:
        return f"admissible action {odd[0]!r} is not a str"
    if len(set(actions)) < len(actions):
        twice = next(action for action in actions if actions.count(action) > 1)
        return f"admissible action {twice!r} is listed {actions.count(twice)} times"
    for action in list_inputs(seen.env, seen.info) if isinstance(space, Text) else ():
        if action not in space:
            return f"admissible action {action!r:.80} is not in {space}"
    return ""


def judge_choice(seen: Seen) -> str:
    """A listed action is valid; if some are listed, nonsense is not."""
    choices = list_inputs(seen.env, seen.before.info) if seen.before is not None else []
    is_listed = seen.record.action in choices
    if is_listed and not seen.info["valid"]:
        reason = seen.info["invalid_reason"]
        return f"the action is in info['admissible_actions'] and is refused, {reason!r}"
    if choices and seen.info["valid"] and not is_listed and _is_nonsense(seen):
        return "nonsense is valid although info['admissible_actions'] has a list of actions"
    return ""


def judge_anchor(seen: Seen) -> str:
    """The anchor is made from the facts of the state, not from the observation."""
    observation, before = seen.record.observation, seen.before
    if not isinstance(observation, str) or before is None or before.observation == observation:
        return ""
    if (seen.info["anchor"], before.info["anchor"]) == (observation, before.observation):
        return "info['anchor'] is the observation; make it from the state's facts"
    return ""


def judge_invalid_turn(seen: Seen) -> str:
    """An invalid turn does not change anchor, progress and list, unless Validity says so."""
    if seen.before is None or seen.info["valid"] or seen.record.ended:
        return ""
    for key in ("anchor", "progress", "admissible_actions"):
        before, after = seen.before.info[key], seen.info[key]
        if after != before and not has_exception(seen.env, "Validity"):
            return (
                f"an invalid turn ({seen.info['invalid_reason']!r}) changes {key} "
                f"from {before!r:.80} to {after!r:.80}; if that is intended, write "
                f'"{EXCEPTIONS["Validity"]}" under Validity'
            )
    return ""


# The rules in the order of their application; later rules rely on earlier ones.
RULES: tuple[Callable[[Seen], str], ...] = (
    judge_keys,
    judge_plainness,
    judge_signals,
    judge_observation,
    judge_reward,
    judge_end,
    judge_task,
    judge_success,
    judge_list,
    judge_choice,
    judge_anchor,
    judge_invalid_turn,
)


class Watch:
    """Applies `rules` to the turns of an episode as they come."""

    rules: ClassVar[tuple[Callable[[Any], str], ...]] = RULES

    def __init__(self, env: Env, start: Start) -> None:
        self._env, self._start = env, start
        self.seen: Seen | None = None

    def __call__(self, record: Record) -> None:
        """Apply the rules to the next turn.

        Raises:
            Violation: the turn violates a rule; with the actions up to it.
        """
        if self.seen is None:
            self.seen = self._begin(record)
        else:
            self.seen.before, self.seen.record = self.seen.record, record
            self.seen.actions.append(record.action)
        for rule in self.rules:
            if wrong := rule(self.seen):
                where = name_turn(record, self.seen.turn)
                raise Violation(f"{where}: {wrong}", self.seen.steps, rule)

    def play(self, make_actor: Callable[[], Actor]) -> Iterator[Record]:
        """Plays an episode with a new actor, and applies the rules to each turn."""
        for record in play_episode(self._env, self._start, make_actor):
            self(record)
            yield record

    def replay(self, actions: Sequence[Any]) -> list[Record]:
        """The turns of these actions, up to the end; the rules are applied to each."""
        records = []
        for _, record in play_steps(self._env, (self._start, *actions)):
            self(record)
            records.append(record)
        return records

    def _begin(self, record: Record) -> Seen:
        return Seen(self._env, self._start, record, record)


def _name_foreign(env: Env) -> str:
    """The wrappers of others, which may change the reward."""
    names = []
    while isinstance(env, gym.Wrapper):
        if not hasattr(env, "wrapper_layer"):
            names.append(type(env).__name__)
        env = env.env
    return f", wrapped by {', '.join(names)}" if names else ""


def _is_nonsense(seen: Seen) -> bool:
    words = NONSENSE if isinstance(seen.env.action_space, Text) else ()
    return seen.record.action in [write_input(seen.env, word) for word in words]


def _judge_value(value: Any, name: str) -> str:
    """What is not plain in a value, "" if all is."""
    if type(value) not in PLAIN:
        return f"{name} must be of builtin types, got {type(value).__name__} {value!r:.60}"
    if type(value) is str and not value.isascii() and SURROGATE.search(value):
        return f"{name} has an unpaired surrogate and cannot be encoded as UTF-8"
    if isinstance(value, dict):
        inside = [(key, f"a key of {name}") for key in value]
        inside += [(one, f"{name}[{key!r}]") for key, one in value.items()]
    elif isinstance(value, (list, tuple)):
        odd = [n for n, one in enumerate(value) if type(one) is not str or not one.isascii()]
        inside = [(value[place], f"{name}[{place}]") for place in odd]
    else:
        return ""
    return next(filter(None, (_judge_value(*one) for one in inside)), "")
