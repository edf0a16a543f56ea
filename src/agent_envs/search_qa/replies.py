"""What a reply asks for, and what of a text the agent may be shown."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

TAGS = ("think", "search", "information", "answer", "reasoning", "tool", "result")
_MARK = re.compile(
    rf"<(?=[^\s=]|\s*(?:/\s*)?(?i:{'|'.join(TAGS)})\b)"
    r"|\[(?=[/|@]|(?:[a-z]\w{1,40}|\w{0,20}[A-Z_]{2}\w{0,40})\]|\w~)|\](?=~)"
    r"|\|(?=\|\|\w{1,40}\|\|\|)"
)
"""What may begin a control token of some chat template or tokenizer, or a tag of the protocols.

Every `<` before a letter, a digit or a mark, so that it takes no list of names (`<s>`, `</s>`,
`<|im_end|>`, `<｜User｜>`, `<start_of_turn>`, `<tool_call>`, `<<SYS>>`, `>>A<<`); `[` of one word
or with a bar (`[INST]`, `[/INST]`, `[gMASK]`, `[multimodal]`, `[|user|]`), but not of chemistry
(`[Ar]`) or notes (`[1]`); MiniMax's `]~b]` and `[e~[`; `|||NAME|||`.
"""
_SHOWN = {"<": "&lt;", "[": "&#91;", "]": "&#93;", "|": "&#124;"}
_THOUGHT = re.compile(r"<(think|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL)


class Asked(NamedTuple):
    """What a reply asks for: `kind` is a tag and `content` what is in it; "" for nothing.

    neat: the reply is a thought and the block, nothing else.
    """

    kind: str = ""
    content: str = ""
    neat: bool = False


def asked_for(reply: str, kinds: tuple[str, ...], results: str) -> Asked:
    """The one block among `kinds` outside of thoughts; none where there are several or no content.

    `results` is the tag that only the environment writes; a reply with it asks for nothing. So
    neither an answer in a thought, nor one of several answers, nor what the agent wrote as if it
    had been found, ever counts.
    """
    reply = _opened(reply)
    said = _THOUGHT.sub(" ", reply)  # so that what stood around it makes no tag
    opened = [(kind, said.count(f"<{kind}>"), said.count(f"</{kind}>")) for kind in kinds]
    tagged = [kind for kind, opens, closes in opened if opens or closes]
    if len(tagged) != 1 or f"<{results}" in said or f"</{results}" in said:
        return Asked()
    (kind,) = tagged
    before, _, rest = said.partition(f"<{kind}>")
    content, closed, after = rest.partition(f"</{kind}>")
    if not closed or (kind, 1, 1) not in opened or not content.strip():
        return Asked()
    thought = _THOUGHT.match(reply.lstrip())
    alone = not (before.strip() or after.strip())
    neat = thought is not None and thought[0].endswith(">") and alone
    return Asked(kind, content.strip(), neat)


def _opened(reply: str) -> str:
    """The reply, with the beginning of its thought if the prompt had that."""
    for tag in ("think", "reasoning"):
        before, closed, _ = reply.partition(f"</{tag}>")
        if closed and f"<{tag}>" not in before:
            return f"<{tag}>{reply}"
    return reply


@lru_cache(maxsize=4096)  # the same passages come up again and again
def shown(text: str, limit: int) -> str:
    """At most `limit` characters of a text, cut at a blank, in which no tag or chat mark is one."""
    if len(text) > limit:
        blank = text.rfind(" ", limit // 2, limit)
        text = f"{text[: blank if blank >= 0 else limit]} ..."
    return harmless(text)


def harmless(text: str) -> str:
    """A text from outside in which no tag, chat mark or control token is one, see `_MARK`."""
    return _MARK.sub(lambda mark: _SHOWN[mark[0]], text)
