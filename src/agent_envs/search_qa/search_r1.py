"""The protocol of Search-R1 (Jin et al., 2025), as in its code at a14dc3a4, including its faults.

The texts are byte-identical; the rewards read the whole conversation. `SearchQA` always uses the
texts, and the rest only with `strict_compat=True`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_envs.search_qa.metrics import normalise

if TYPE_CHECKING:
    from agent_envs.retrieval.passages import Passage

PROMPT = (
    "Answer the given question. You must conduct reasoning inside <think> and </think> first every "
    "time you get new information. After reasoning, if you find you lack some knowledge, you can "
    "call a search engine by <search> query </search> and it will return the top searched results "
    "between <information> and </information>. You can search as many times as your want. If you "
    "find no further external knowledge needed, you can directly provide the answer inside "
    "<answer> and </answer>, without detailed illustrations. For example, <answer> Beijing "
    "</answer>. Question: {question}\n"
)
INVALID = (
    "\nMy previous action is invalid. If I want to search, I should put the query between <search> "
    "and </search>. If I want to give the final answer, I should put the answer between <answer> "
    "and </answer>. Let me try again.\n"
)
ASSISTANT = "<|im_start|>assistant"
STRUCTURE, FINAL, RETRIEVAL = 0.2, 0.1, 0.1
"""Rewards of the format variant for structure, for any answer, and for a passage with it."""

_ACTION = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_INFORMATION = re.compile(r"<information>(.*?)</information>", re.DOTALL)
_SPLIT = re.compile(r"(</?(?:think|search|information|answer)>)")
_NEXT = {
    ("start", "<think>"): "in think",
    ("in think", "</think>"): "after think",
    ("after think", "<search>"): "in search",
    ("in search", "</search>"): "after search",
    ("after search", "<information>"): "in information",
    ("in information", "</information>"): "information",
    ("information", "<think>"): "in think",
    ("after think", "<answer>"): "in answer",
    ("in answer", "</answer>"): "end",
}


def render_prompt(question: str) -> str:
    """The first message of a conversation; a question ends with a question mark."""
    question = question.strip()
    return PROMPT.format(question=question if question.endswith("?") else f"{question}?")


def cut_reply(reply: str) -> str:
    """A reply up to its first `</search>`, or without one up to its first `</answer>`."""
    for mark in ("</search>", "</answer>"):
        before, found, _ = reply.partition(mark)
        if found:
            return before + found
    return reply


def read_action(reply: str) -> tuple[str, str]:
    """("search" or "answer", its content) of the first one in a reply, or ("", "")."""
    found = _ACTION.search(reply)
    return (found[1], found[2].strip()) if found else ("", "")


def render_passages(passages: Sequence[Passage]) -> str:
    """The block with the results of a search."""
    docs = (f"Doc {i}(Title: {p.heading}) {p.text}\n" for i, p in enumerate(passages, 1))
    return f"\n\n<information>{''.join(docs).strip()}</information>\n\n"


def find_answer(text: str, *, given: int = 1) -> str | None:
    """The last answer in a conversation, passages included; None without an answer of its own.

    `given` answers are no answer of its own: the prompt of Search-R1 has one as an example.
    """
    found = _ANSWER.findall(text)
    return found[-1].strip() if len(found) > given else None


def score_em(answer: str | None, golds: Sequence[str]) -> float:
    """1 if the answer is an accepted one."""
    return float(answer is not None and normalise(answer) in map(normalise, golds))


def score_sub_em(answer: str | None, golds: Sequence[str]) -> float:
    """1 if the answer contains an accepted one, also within a word."""
    return float(answer is not None and any(normalise(g) in normalise(answer) for g in golds))


def score_format(text: str, golds: Sequence[str]) -> float:
    """The reward with a bonus for the form (variant v0.3); `text` has Qwen's chat marks."""
    answer, formed = find_answer(text), is_well_formed(text)
    if score_em(answer, golds):
        return 1.0 if formed else 1.0 - STRUCTURE
    if formed:
        return STRUCTURE + RETRIEVAL * has_retrieved(text, golds)
    return FINAL if answer is not None else 0.0


def is_well_formed(text: str) -> bool:
    """Whether the assistant's text is think, (search, information, think)*, answer."""
    return _follow_form(text) == "end"


def _follow_form(text: str) -> str:
    """The position of a conversation in that order; "" if it violates it."""
    _, marked, said = text.partition(ASSISTANT)
    state = "start" if marked else ""
    for part in _SPLIT.split(said):
        if _SPLIT.fullmatch(part):
            state = _NEXT.get((state, part), "")
        elif part.strip() and not state.startswith("in "):
            return ""
    return state


def find_pending(text: str, tag: str = "answer") -> str:
    """An opened and unclosed tag with the text after it; "" for none.

    Together with later text it determines the answer that the rewards read.
    """
    opens, closes = f"<{tag}>", f"</{tag}>"
    at = text.find(opens)
    while at >= 0 and (end := text.find(closes, at)) >= 0:
        at = text.find(opens, end)
    return text[at:] if at >= 0 else ""


def describe_form(text: str, golds: Sequence[str]) -> tuple[str, ...]:
    """Everything in a conversation without an answer that `score_format` will depend on."""
    form = _follow_form(text)
    if not form:
        return form, find_pending(text)
    found = str(has_retrieved(text, golds))
    return form, find_pending(text), find_pending(text, "information"), found


def has_retrieved(text: str, golds: Sequence[str]) -> bool:
    """Whether a block of information, also one written by the agent, has an accepted answer."""
    blocks = [normalise(block) for block in _INFORMATION.findall(text)]
    return any(normalise(gold) in block for block in blocks for gold in golds)
