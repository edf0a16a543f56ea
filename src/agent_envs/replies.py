"""Replies of a model: their form, thoughts, blocks between tags, code fences, and ParseReply.

A malformed reply is an invalid turn. What a thought has inside is never read: a model drafts there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from agent_envs.contract import AgentEnv, Malformed
from agent_envs.options import check_options
from agent_envs.panels import one_of
from agent_envs.spaces import OBSERVATION_LENGTH, FreeText

TAGS = ("think", "action")  # the tags of a reply; the last has the action
THOUGHTS = ("think", "reasoning")  # tags of a thought
OPENINGS = tuple(f"<{tag}>" for tag in THOUGHTS)
_THOUGHT = re.compile(rf"(</?(?:{'|'.join(THOUGHTS)})>)")
# Marks that families of models write: of a thought's start and end, of an answer.
_THOUGHT_TAGS = r"(?:\w+[:_])?think(?:ing)?|thoughts?|reason|reflection|scratchpad"
_HEADER = r"(?:[^<]|<\|constrain\|>)*<\|message\|>"
_OPENING = re.compile(
    rf"<(?i:{_THOUGHT_TAGS})\s*>|◁think▷|\[THINK\]|<\|START_THINKING\|>"
    r"|<\|begin_of_thought\|>|<\|inner_prefix\|>|<\|channel>thought\n?|<unused94>(?:thought\n?)?"
    rf"|(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary){_HEADER}"  # gpt-oss
    r"|(?:<\|start\|>assistant)? to=self<\|message\|>|\Aanalysis(?=[A-Z])"
)
_CLOSING = re.compile(
    rf"</(?i:{_THOUGHT_TAGS})\s*>|◁/think▷|\[/THINK\]|<\|END_THINKING\|>"
    r"|<\|end_of_thought\|>|<\|inner_suffix\|>|<channel\|>|<unused95>"
    r"|<\|(?:end|eom)\|>(?=\s*<\|start\|>)"
    r"|assistantfinal"  # gpt-oss without its special tokens, like "analysis" above
)
_ANSWER = re.compile(
    rf"(?:<\|start\|>assistant)?(?:<\|channel\|>final{_HEADER}| to=user<\|message\|>)"
    r"|(?:<\|(?:return|end|eom|im_end|eot_id|endoftext)\|>|</s>|<end_of_turn>)\s*\Z"
    r"|<\|(?:START|END)_RESPONSE\|>|<\|(?:begin|end)_of_solution\|>"
)
_WRAPPED = re.compile(r"\s*<(answer|response)>(.*)</\1>\s*", re.DOTALL)
_FENCE = re.compile(r"```\w*[ \t]*\r?\n(.*)```", re.DOTALL)


def write_block(tag: str, content: str) -> str:
    """`<tag>content</tag>`."""
    return f"<{tag}>{content}</{tag}>"


def join_thought(thought: str, reply: str) -> str:
    """A reply with the thought that its server has taken out, "" for none."""
    return write_block(THOUGHTS[0], thought) + reply if thought else reply


def split_block(reply: str, tag: str) -> tuple[str, str | None, str]:
    """The text before the first block of a tag, its content, and the text after it.

    The content is None if there is no such block.
    """
    before, _, rest = reply.partition(f"<{tag}>")
    content, closed, after = rest.partition(f"</{tag}>")
    return before, content if closed else None, after


def mark_thoughts(reply: str) -> str:
    """A reply whose thoughts all stand between `<think>` and `</think>`, or tags of `THOUGHTS`.

    Other families have marks or channels of their own. Everything before an end without a start is
    a thought: templates of thinking models end the prompt with `<think>`, and a thought may quote
    the tags.
    """
    reply = _ANSWER.sub("", _OPENING.sub("<think>", _CLOSING.sub("</think>", reply)))
    begun, stray = "", None
    for mark in _THOUGHT.finditer(reply):
        if not begun and mark[0] in OPENINGS:
            begun = f"</{mark[0][1:]}"
        elif mark[0] == begun:
            begun = ""
        elif not begun:
            stray = mark
    if stray is None:
        return reply
    thought = _THOUGHT.sub(" ", reply[: stray.start()])
    return f"<{stray[0][2:]}{thought}{reply[stray.start() :]}"


class Split(NamedTuple):
    """A reply's closed thoughts, what it says outside of them, and a thought that never ends."""

    thoughts: list[str]
    said: str
    endless: str


def split_thoughts(reply: str) -> Split:
    """Split a reply; texts around a thought get lines of their own, so that they form no tag."""
    thoughts: list[str] = []
    said: list[str] = []
    held, closing = said, ""
    for part in _THOUGHT.split(mark_thoughts(reply)):
        if closing and part == closing:
            thoughts.append("".join(held))
            held, closing = said, ""
            said.append("\n")
        elif not closing and part in OPENINGS:
            held, closing = [], f"</{part[1:]}"
        else:
            held.append(part)
    return Split(thoughts, "".join(said), "".join(held) if closing else "")


def unwrap_fence(text: str) -> str:
    """The content of a text that is one fenced block of code; any other text as it is, stripped."""
    text = text.strip()
    fence = _FENCE.fullmatch(text)
    return fence[1].strip() if fence and "```" not in fence[1] else text


def unwrap_answer(said: str, tags: tuple[str, ...] = ()) -> str:
    """What a reply says without the `<answer>` or `<response>` that some families write around it.

    If the reply has blocks of `tags`, only a wrapper around one of another tag is left out.
    """
    found = _WRAPPED.fullmatch(said)
    if not found or (tags and not any(f"<{t}>" in found[2] for t in tags if t != found[1])):
        return said
    return found[2]


def read_action(reply: str, tags: tuple[str, ...] = TAGS) -> str | None:
    """The last tag's text; None unless `reply` is exactly one block per tag, in order.

    Whitespace around the blocks and around the action is ignored; an empty action gives None. For
    a first tag of `THOUGHTS` there may be several thoughts; without one, thoughts are left out.
    """
    first = _OPENING.sub("<think>", f"<{tags[0]}>")[1:-1]
    if first in THOUGHTS and len(tags) > 1:
        thoughts, closed, rest = mark_thoughts(reply).rpartition(f"</{first}>")
        outside, tags = split_thoughts(thoughts + closed).said, tags[1:]
        if not closed:
            return None
    else:
        _, rest, outside = split_thoughts(reply)
    rest = unwrap_answer(rest, tags)
    if _THOUGHT.search(rest) or any(
        rest.count(mark) != 1 for tag in tags for mark in (f"<{tag}>", f"</{tag}>")
    ):
        return None
    content = None
    for tag in tags:
        before, content, rest = split_block(rest, tag)
        outside += before
    return (content or "").strip() or None if not (outside + rest).strip() else None


def guess_action(reply: str, tag: str) -> str | None:
    """The likeliest action of a malformed reply: the text after the last `<tag>`, or all of it.

    Thoughts are left out, also one without an end.
    """
    said = unwrap_answer(split_thoughts(reply).said)
    return said.rpartition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip() or None


@dataclass(frozen=True)
class Form:
    """The form of a reply: how it is written, requested, ended and read.

    Args:
        text: A reply with {thought} and {action} in their places.
        tags: Those of its blocks, the last around the action; () if the environment reads the whole
            reply itself.
    """

    text: str
    tags: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of_tags(cls, tags: tuple[str, ...]) -> Form:
        """A block per tag."""
        thoughts = [write_block(tag, "{thought}") for tag in tags[:-1]]
        return cls("".join([*thoughts, write_block(tags[-1], "{action}")]), tags)

    @property
    def instruction(self) -> str:
        """What asks for a reply of this form."""
        form = self.write("your action", "your thoughts")
        return f"Solve the task, one action per reply. Reply with {form}."

    @property
    def stop(self) -> str:
        """What follows the action; a reply ends there."""
        return self.text.rpartition("{action}")[2]

    def write(self, action: str, thought: str = "") -> str:
        """A reply."""
        return self.text.format(thought=thought, action=action)

    def read(self, reply: str) -> str | None:
        """The action of a reply; None if it is not of this form."""
        return read_action(reply, self.tags)


FORM = Form.of_tags(TAGS)


class ParseReply(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Steps with a model's whole reply, `<think>...</think><action>...</action>`.

    The last tag contains the action. Any other form is malformed (MGR, appendix A.5):
    `valid=False`, `"format"`. With `on_malformed="skip"` the state does not change, the turn
    counts, and the observation is a notice of the expected form. With `"attempt"` the likeliest
    action is executed, and the turn is still reported as malformed.
    Adds `info["action"]`, the executed action, "" if there was none.

    Raises:
        TypeError: not an agent environment, or `tags` is not a tuple.
        ValueError: no tags, an unknown `on_malformed`, an environment that reads whole replies
            itself, or a wrapper inside that belongs outside.
    """

    wrapper_layer: ClassVar[int] = 1

    def __init__(
        self,
        env: gym.Env[str, str],
        tags: tuple[str, ...] = TAGS,
        on_malformed: Literal["skip", "attempt"] = "skip",
    ) -> None:
        check_options(ParseReply, (), {"tags": tags})
        RecordConstructorArgs.__init__(self, tags=tags, on_malformed=on_malformed)
        gym.Wrapper.__init__(self, env)
        self.inner = unwrap_agent_env(env, "ParseReply")
        if self.inner.reply_form:
            raise ValueError(
                f"{self.inner} reads whole replies itself, as {self.inner.reply_form!r}; leave "
                "ParseReply out"
            )
        check_layer(self, env)
        one_of("on_malformed", on_malformed, ("skip", "attempt"))
        if not tags:
            raise ValueError(f"ParseReply needs the action's tag at least, got tags={tags!r}")
        self.form, self.on_malformed = Form.of_tags(tuple(tags)), on_malformed
        said = "The reply was not understood and nothing was done. Reply exactly in this form: "
        self.notice = said + self.form.write("...", "...")
        self.action_space = FreeText(OBSERVATION_LENGTH)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """The environment's reset; `info["action"]` is ""."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, info | {"action": ""}

    def step(self, reply: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Execute the action in the reply.

        Raises:
            TypeError: the reply is not a string.
        """
        if not isinstance(reply, str):
            raise TypeError(f"a reply is a string, got {reply!r:.60} ({type(reply).__name__})")
        parsed = self.form.read(reply)
        action = parsed
        if parsed is None and self.on_malformed == "attempt":
            action = guess_action(reply, self.form.tags[-1])
        step = self.env.step(Malformed(self.notice) if action is None else action)
        observation, reward, terminated, truncated, info = step
        if parsed is None:
            info |= {"valid": False, "invalid_reason": "format"}
        info["action"] = self.inner.transcript[-1][0]
        return observation, reward, terminated, truncated, info


def check_layer(wrapper: gym.Wrapper[Any, Any, Any, Any], env: gym.Env[Any, Any]) -> None:
    """Check that the wrappers of `env` belong inside a new one, by their `wrapper_layer`.

    From the inside out: 1 `ParseReply`, 2 reward wrappers of `credit.rewards`, 3 `Prompt`,
    4 `GroupReward` of `credit.rewards`, 5 Gymnasium's `Autoreset`. Other wrappers have none.

    Raises:
        ValueError: one belongs outside; the message has the order of the two.
    """
    outer, own = type(wrapper).__name__, getattr(wrapper, "wrapper_layer", 0)
    while isinstance(env, gym.Wrapper):
        inner, layer = type(env).__name__, getattr(env, "wrapper_layer", 0)
        if layer == own:
            raise ValueError(f"{env} has a {inner} already; leave the second {outer} out")
        if layer > own or isinstance(env, gym.wrappers.Autoreset):
            raise ValueError(f"{outer} belongs inside {inner}: {inner}({outer}(env))")
        env = env.env


def unwrap_agent_env(env: gym.Env[Any, Any], wrapper: str) -> AgentEnv:
    """The agent environment inside `env`.

    Raises:
        TypeError: there is none.
    """
    if isinstance(env.unwrapped, AgentEnv):
        return env.unwrapped
    raise TypeError(f"{wrapper} needs an agent_envs.AgentEnv inside, got {env.unwrapped!r}")
