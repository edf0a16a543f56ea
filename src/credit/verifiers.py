"""Verifiers of one turn: the six of MT-GRPO §3.2, and the protocol of a user's own.

A verifier takes an `Exchange` and returns a share in [0, 1]; `wrappers.TurnVerifier` weighs and
pays it. `PAPER` has the paper's weights. Accepted answers are `info["answers"]`.
"""

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from credit.choices import nearest

TAGS = ("reasoning", "tool", "answer")
PAPER = {
    "tool_execution": 0.2,
    "result_has_answer": 0.5,
    "answer_contains": 0.5,
    "exact": 1.0,
    "xml_format": 0.2,
    "xml_usage": 0.2,
}


class Exchange(NamedTuple):
    """What a verifier reads of a turn: the agent's text, the environment's answer, and `info`."""

    reply: str
    observation: str
    info: Mapping[str, Any]


Verifier: TypeAlias = Callable[[Exchange], float]


def inside(tag: str, text: str) -> str | None:
    """What the first <tag>…</tag> holds, without the spaces around it; None if there is none."""
    found = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return found[1].strip() if found else None


def tool_execution(turn: Exchange) -> float:
    """1 if the turn called a tool in its tags and the answer does not begin with "Error:"."""
    called = inside("tool", turn.reply) is not None
    result = inside("result", turn.observation)
    answer = turn.observation.strip() if result is None else result
    return float(called and not answer.startswith("Error:"))


def result_has_answer(turn: Exchange) -> float:
    """1 if an accepted answer appears in the tool's result, in either case."""
    result = inside("result", turn.observation)
    return float(result is not None and _holds(result, turn.info))


def answer_contains(turn: Exchange) -> float:
    """1 if an accepted answer appears in the agent's answer, in either case."""
    answer = inside("answer", turn.reply)
    return float(answer is not None and _holds(answer, turn.info))


def exact(turn: Exchange) -> float:
    """1 if the agent's answer is an accepted one, but for case and the spaces around it."""
    answer = inside("answer", turn.reply)
    return float(answer is not None and answer.lower() in _accepted(turn.info))


def xml_format(turn: Exchange) -> float:
    """0.4 for a field, 0.2 for no space inside tags, 0.2 each for the right beginning and end.

    A message begins with <reasoning> and ends with </tool> or </answer>. Without a field, the
    spaces inside have nothing to be right about: 0.
    """
    text = turn.reply.strip()
    fields = [re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in TAGS]
    contents = [content for found in fields for content in found]
    tight = bool(contents) and all(content == content.strip() for content in contents)
    ends = text.endswith(("</tool>", "</answer>"))
    return 0.4 * bool(contents) + 0.2 * tight + 0.2 * text.startswith("<reasoning>") + 0.2 * ends


def xml_usage(turn: Exchange) -> float:
    """Share of the tags that occur which open once and close once; 0 if none occurs."""
    counts = [(turn.reply.count(f"<{tag}>"), turn.reply.count(f"</{tag}>")) for tag in TAGS]
    occurring = [count for count in counts if any(count)]
    return sum(count == (1, 1) for count in occurring) / max(len(occurring), 1)


VERIFIERS: dict[str, Verifier] = {
    "tool_execution": tool_execution,
    "result_has_answer": result_has_answer,
    "answer_contains": answer_contains,
    "exact": exact,
    "xml_format": xml_format,
    "xml_usage": xml_usage,
}


def named(name: str) -> Verifier:
    """A verifier by its name, or a user's own by "package.module:function".

    Raises:
        ValueError: an unknown name, or one whose module does not have such a function.
    """
    module, colon, function = name.partition(":")
    if colon:
        return _imported(module, function)
    if name not in VERIFIERS:
        raise ValueError(
            f"unknown verifier {name!r}{nearest(name, VERIFIERS)}, or package.module:function"
        )
    return VERIFIERS[name]


def _imported(module: str, function: str) -> Verifier:
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ValueError(
            f"verifier {module}:{function}: there is no module {error.name!r}; install it, or put "
            "its folder on PYTHONPATH"
        ) from None
    if not callable(found):
        raise ValueError(  # noqa: TRY004 - it is the name that is wrong
            f"verifier {module}:{function}: {module} has no function {function!r}"
        )
    verifier: Verifier = found
    return verifier


def _accepted(info: Mapping[str, Any]) -> list[str]:
    if "answers" not in info:
        raise ValueError(
            f"this verifier reads the accepted answers from info['answers'], got info with "
            f"{', '.join(sorted(info)) or 'nothing'}"
        )
    return [answer.lower().strip() for answer in info["answers"] if answer.strip()]


def _holds(text: str, info: Mapping[str, Any]) -> bool:
    return any(answer in text.lower() for answer in _accepted(info))
