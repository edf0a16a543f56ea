"""Verifiers: rule-based scores of one turn, the six of MT-GRPO §3.2 and your own.

A verifier is a function from an `Exchange` to a number in [0, 1]. `wrappers.TurnVerifier` weights
the numbers and adds them to the reward. `PAPER_WEIGHTS` are the paper's weights. The accepted
answers are read from `info["answers"]`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from credit.plugins import imported, refusal
from credit.validation import as_finite, nearest, unrounded

TAGS = ("reasoning", "tool", "answer")
PAPER_WEIGHTS = {
    "tool_execution": 0.2,
    "result_has_answer": 0.5,
    "answer_contains": 0.5,
    "exact": 1.0,
    "xml_format": 0.2,
    "xml_usage": 0.2,
}


class Exchange(NamedTuple):
    """One turn as a verifier reads it.

    Attributes:
        reply: The agent's whole text, with its thinking and tags.
        observation: Text that the environment returned.
        info: Info that the environment returned.
    """

    reply: str
    observation: str
    info: Mapping[str, Any]

    @property
    def action(self) -> str:
        """The action that a parser found in the reply, else the whole reply."""
        return str(self.info.get("action", self.reply))


Verifier: TypeAlias = Callable[[Exchange], float]


def tag_content(tag: str, text: str) -> str | None:
    """Content of the first <tag>…</tag>, stripped of spaces; None if there is no such tag."""
    found = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return found[1].strip() if found else None


def tool_execution(turn: Exchange) -> float:
    """1 if the reply has a <tool> tag and the tool's result does not start with "Error:"."""
    called = tag_content("tool", turn.reply) is not None
    result = tag_content("result", turn.observation)
    answer = turn.observation.strip() if result is None else result
    return float(called and not answer.startswith("Error:"))


def result_has_answer(turn: Exchange) -> float:
    """1 if an accepted answer occurs in the tool's result; case is ignored."""
    result = tag_content("result", turn.observation)
    return float(result is not None and _has_answer(result, turn.info))


def answer_contains(turn: Exchange) -> float:
    """1 if an accepted answer occurs in the agent's answer; case is ignored."""
    answer = tag_content("answer", turn.reply)
    return float(answer is not None and _has_answer(answer, turn.info))


def exact(turn: Exchange) -> float:
    """1 if the agent's answer equals an accepted answer; case and outer spaces are ignored."""
    answer = tag_content("answer", turn.reply)
    return float(answer is not None and answer.lower() in _accepted_answers(turn.info))


def xml_format(turn: Exchange) -> float:
    """Score of the reply's format, in [0, 1].

    0.4 if there is a complete tag, 0.2 if no content starts or ends with a space, 0.2 if the reply
    starts with <reasoning>, 0.2 if it ends with </tool> or </answer>. Without a complete tag the
    first two are 0.
    """
    text = turn.reply.strip()
    fields = [re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in TAGS]
    contents = [content for found in fields for content in found]
    tight = bool(contents) and all(content == content.strip() for content in contents)
    ends = text.endswith(("</tool>", "</answer>"))
    return 0.4 * bool(contents) + 0.2 * tight + 0.2 * text.startswith("<reasoning>") + 0.2 * ends


def xml_usage(turn: Exchange) -> float:
    """Of the tags that occur, the share that opens once and closes once; 0 if none occurs."""
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


def from_name(name: str) -> Verifier:
    """Find a verifier by its name, or a user's own by "package.module:function".

    Raises:
        ValueError: The name is unknown, or the module does not have such a function.
    """
    if ":" in name:
        verifier: Verifier = imported("verifier", name)
        if why := refusal(verifier, 1):
            raise ValueError(f"verifier {name} must take one argument, the turn: {why}")
        return verifier
    if name not in VERIFIERS:
        raise ValueError(
            f"unknown verifier {name!r}{nearest(name, VERIFIERS)}, or package.module:function"
        )
    return VERIFIERS[name]


def score(name: str, verifier: Verifier, turn: Exchange) -> float:
    """The number that a verifier gives a turn.

    Raises:
        ValueError: It failed, or did not return a number in [0, 1]; the message names it. A number
            outside by at most 1e-6 is set to the end of the range.
    """
    try:
        found = verifier(turn)
    except Exception as error:
        if name in VERIFIERS:
            raise
        raise ValueError(f"verifier {name} failed: {type(error).__name__}: {error}") from error
    try:
        share = float(unrounded(as_finite(f"verifier {name}", found), 0, 1))
    except TypeError as error:
        raise ValueError(f"verifier {name} must return a number, got {found!r:.60}") from error
    if not 0 <= share <= 1:
        raise ValueError(
            f"verifier {name} must return a number in [0, 1], got {share}; its size and sign "
            "belong in its weight"
        )
    return share


def _accepted_answers(info: Mapping[str, Any]) -> list[str]:
    if "answers" not in info:
        raise ValueError(
            f"this verifier reads the accepted answers from info['answers'], got info with keys "
            f"{', '.join(sorted(info)) or '(none)'}"
        )
    return [answer.lower().strip() for answer in info["answers"] if answer.strip()]


def _has_answer(text: str, info: Mapping[str, Any]) -> bool:
    return any(answer in text.lower() for answer in _accepted_answers(info))
