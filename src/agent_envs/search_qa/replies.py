"""Parsing of replies, and escaping of texts that the agent sees."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from agent_envs.replies import (
    OPENINGS,
    mark_thoughts,
    split_block,
    split_thoughts,
    unwrap_answer,
)

TAGS = ("think", "search", "information", "answer", "reasoning", "tool", "result")
# Characters that may begin a control token of a chat template or tokenizer, or a protocol's tag:
# every `<` before a letter, a digit or a mark, so that no list of names is needed (`<s>`, `</s>`,
# `<|im_end|>`, `<｜User｜>`, `<start_of_turn>`, `<tool_call>`, `<<SYS>>`, `>>A<<`); `[` with one
# word or with a bar (`[INST]`, `[/INST]`, `[gMASK]`, `[multimodal]`, `[|user|]`), but not of
# chemistry (`[Ar]`) or notes (`[1]`); MiniMax's `]~b]` and `[e~[`; `|||NAME|||`.
_MARK = re.compile(
    rf"<(?=[^\s=]|\s*(?:/\s*)?(?i:{'|'.join(TAGS)})\b)"
    r"|\[(?=[/|@]|(?:[a-z]\w{1,40}|\w{0,20}[A-Z_]{2}\w{0,40})\]|\w~)|\](?=~)"
    r"|\|(?=\|\|\w{1,40}\|\|\|)"
)
_ESCAPED = {"<": "&lt;", "[": "&#91;", "]": "&#93;", "|": "&#124;"}


class Request(NamedTuple):
    """The request in a reply: `kind` is a tag and `content` its text; "" for none.

    is_neat: the reply is exactly a thought and the block.
    """

    kind: str = ""
    content: str = ""
    is_neat: bool = False


def read_request(reply: str, kinds: tuple[str, ...], results: str) -> Request:
    """The one block of `kinds` outside of thoughts; empty if there are several or no content.

    `results` is the tag that only the environment writes; a reply with it has no request. So an
    answer in a thought, one of several answers, or results written by the agent never count.
    """
    thoughts, said, _ = split_thoughts(reply)
    said = unwrap_answer(said, kinds)
    opened = [(kind, said.count(f"<{kind}>"), said.count(f"</{kind}>")) for kind in kinds]
    tagged = [kind for kind, opens, closes in opened if opens or closes]
    if len(tagged) != 1 or f"<{results}" in said or f"</{results}" in said:
        return Request()
    (kind,) = tagged
    before, content, after = split_block(said, kind)
    if (kind, 1, 1) not in opened or not (content and content.strip()):
        return Request()
    alone = bool(thoughts) and not (before + after).strip()
    starts = mark_thoughts(reply).lstrip().startswith(OPENINGS)
    return Request(kind, content.strip(), alone and starts)


@lru_cache(maxsize=4096)  # the same passages are found repeatedly
def shorten_text(text: str, limit: int) -> str:
    """At most `limit` characters of a text, cut at a space, with tags and chat marks escaped."""
    if len(text) > limit:
        blank = text.rfind(" ", limit // 2, limit)
        text = f"{text[: blank if blank >= 0 else limit]} ..."
    return escape_marks(text)


def escape_marks(text: str) -> str:
    """A text from outside with tags, chat marks and control tokens escaped, see `_MARK`."""
    return _MARK.sub(lambda mark: _ESCAPED[mark[0]], text)
