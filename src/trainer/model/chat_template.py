"""A tokenizer's chat template: conversations as text, and messages as tokens.

Only the template writes control tokens. An observation, a goal or a past action never does,
whatever text it has. The clock that templates can read stands still.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from agent_envs.prompt import IMAGE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

REPLY, MESSAGE = "reply-of-the-agent", "message-of-the-world"
"""A reply and a message that stand for any other."""
_TAG = re.compile(r"</?(think|action|search|answer|code|information|reasoning|tool|result)>")
"""Tags of replies: a text may contain them as tokens."""
_BRACKETED = re.compile(r"[<\[].+[>\]]")
_ANGLED = re.compile(r"<[|｜].+[|｜]>")
"""Control tokens by their look, even if the tokenizer does not mark them as special."""
_PRIVATE = range(0xE000, 0xF900)  # private-use characters, without a meaning
_DAY = datetime(2024, 7, 26, tzinfo=UTC)  # a template that prints today would change the run
_MARKS = [*"aAbBcdfGHIjmMpSuUVwWxXyYZz", "-d", "-m", "-j", "-H", "-I", "-M", "-S"]
_CLOCK = (
    "{%- macro strftime_now(format) -%}{{ format"
    + "".join(f"|replace('%{mark}', '{_DAY.strftime('%' + mark)}')" for mark in _MARKS)
    + " }}{%- endmacro -%}"
)
"""Replaces the clock that templates of transformers can read: on this day, it is midnight."""


class ChatTemplate:
    """The chat template of a tokenizer.

    Args:
        tokenizer: Of the policy.
        mark: Text that the model reads in the place of an `<image>`; "" for a text-only model.

    Attributes:
        control: Every token that a text must not produce, with its own text: a special token of
            the tokenizer, or another added token that the template writes around messages.

    Raises:
        ValueError: The tokenizer has no chat template.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, mark: str) -> None:
        self.tokenizer, self._mark = tokenizer, mark
        if not tokenizer.chat_template:
            self.refuse("is missing")
        turns = [("user", MESSAGE), ("assistant", REPLY), ("user", MESSAGE)]
        written = f"{self.render(turns)}{mark}{tokenizer.chat_template}"
        self.control = {
            i: token.content
            for i, token in tokenizer.added_tokens_decoder.items()
            if token.special
            or _ANGLED.fullmatch(token.content)
            or (_BRACKETED.fullmatch(token.content) and token.content in written)
            if not _TAG.fullmatch(token.content)
        }
        self._written_control = lru_cache(maxsize=64)(self._find_written_control)

    def refuse(self, why: str) -> NoReturn:
        """Raise ValueError: the template cannot be used."""
        name = repr(self.tokenizer.name_or_path or type(self.tokenizer).__name__)
        raise ValueError(
            f"the chat template of {name} {why}; use an instruct model of another family, or set "
            "tokenizer.chat_template and save it with the model"
        )

    def render(self, turns: Iterable[tuple[str, str]], *, prompt: bool = False) -> str:
        """The text of a conversation of (role, content), with the `prompt` for a reply."""
        messages = [{"role": role, "content": content} for role, content in turns]
        text = self.tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=prompt,
            date_string=_DAY.strftime("%d %b %Y"),
            chat_template=_CLOCK + self.tokenizer.get_chat_template(),
        )
        return str(text)

    def encode(self, text: str, **options: bool) -> list[int]:
        """Tokens of a text that the template wrote."""
        return list(self.tokenizer.encode(text, add_special_tokens=False, **options))

    def encode_plain(self, text: str) -> list[int]:
        """Tokens of a text, none of them a control token.

        Raises:
            ValueError: The text contains a control token that is a single character.
        """
        for options in ({}, {"split_special_tokens": True}):
            ids = self.encode(text, **options)
            if not self._select_control(ids, text):
                return ids
        if len(text) == 1:
            self.refuse(f"cannot be used with the control token {text!r}")
        places = [text.find(token) + 1 for token in self.control.values() if len(token) > 1]
        cut = min((place for place in places if place), default=len(text) // 2)
        return self.encode_plain(text[:cut]) + self.encode_plain(text[cut:])

    def encode_message(self, write: Callable[[str], str], text: str) -> list[int]:
        """Tokens of a message as rendered by `write`, with the marks of its images.

        A message without control tokens is tokenised together with the template around it.
        """
        images = text.count(IMAGE) if self._mark else 0
        ids = self.encode(write(text.replace(IMAGE, self._mark) if images else text))
        if self._select_control(ids, text) == self._written_control(write, images):
            return ids
        stop = next(chr(c) for c in _PRIVATE if chr(c) not in text)
        marked = text.replace(IMAGE, stop + self._mark + stop) if images else text
        pieces = write(stop + marked + stop).split(stop)
        if len(pieces) != 2 * images + 3:
            self.refuse(f"changes messages, and {text!r} contains control tokens")
        return [
            token
            for place, piece in enumerate(pieces)
            for token in (self.encode_plain(piece) if place % 2 else self.encode(piece))
        ]

    def _select_control(self, ids: Sequence[int], text: str) -> list[int]:
        """The control tokens among the ids of a text; the token for unknown text is not one."""
        unknown = self.tokenizer.unk_token_id
        if unknown is not None and str(self.tokenizer.unk_token) in text:
            unknown = None
        return [i for i in ids if i in self.control and i != unknown]

    def _find_written_control(self, write: Callable[[str], str], images: int) -> list[int]:
        """The control tokens that the template writes around a message with this many images."""
        text = " ".join([MESSAGE, *[self._mark] * images])
        return self._select_control(self.encode(write(text)), text)
