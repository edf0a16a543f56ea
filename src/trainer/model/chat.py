"""The token pieces of a conversation, cut out of the tokenizer's own chat template.

A conversation grows by appending: the opening prompt, a sampled reply, the environment's next
message up to the next generation prompt, and so on. Sampled tokens are never rendered or tokenised
again, so a template that drops the thinking of earlier replies cannot change what the model
conditioned on.

Only the template writes control tokens. An observation, a goal or a past action never does,
whatever text it has. Left out: tool roles, and templates that mark roles by ordinary words (the
`[INST]` of the first Mistral models), which the model cannot tell from those words in a message.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from agent_envs.prompt import IMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from transformers import PreTrainedTokenizerBase

_REPLY, _MESSAGE = "reply-of-the-agent", "message-of-the-world"
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
_LATER = (2, 3, 9, 10, 32, 99, 100)  # numbers of replies after which the next message is compared


class Chat:
    """Token pieces by the chat template of `tokenizer`.

    `opening(text)` returns the tokens up to the first reply, `message(text)` those between two
    replies, `reply(text)` those of a reply given as text. All three are cached. Their `text` never
    becomes a control token: a special token of the tokenizer, or another added token that the
    template writes around messages.

    Args:
        tokenizer: Of the policy.
        mark: Text that the model reads in the place of an `<image>`; "" for a text-only model.

    Attributes:
        end: Token that ends a reply.
        ends: All tokens that end a reply: `end` and the tokenizer's end of sequence.

    Raises:
        ValueError: The tokenizer has no chat template, or its template does not end a reply with
            a special token, or writes something else before each reply, such as its number.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, mark: str = "") -> None:
        self.tokenizer, self._mark = tokenizer, mark
        if not tokenizer.chat_template:
            self._refuse("is missing")
        self._control = self._find_control_tokens()
        self._template_tokens = lru_cache(maxsize=64)(self._find_template_tokens)
        later = self._render_tail(_MESSAGE)
        for replies in _LATER:
            turns = [("user", _MESSAGE), ("assistant", _REPLY)] * replies
            tail = self._render([*turns, ("user", _MESSAGE)], prompt=True).rpartition(_REPLY)[2]
            if tail != later:
                self._refuse(
                    f"writes {tail!r:.80} after {replies} replies and {later!r:.80} after the first"
                )
        ids = self._encode(later)
        if not ids or ids[0] not in {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}:
            self._refuse(f"ends a reply with {tokenizer.decode(ids[:1])!r}, no special token")
        self.end: int = ids[0]
        self.ends = frozenset({self.end} | {i for i in [tokenizer.eos_token_id] if i is not None})
        self.opening = lru_cache(maxsize=4096)(self._opening)
        self.message = lru_cache(maxsize=4096)(self._message)
        self.reply = lru_cache(maxsize=65536)(self._reply)  # constrained decoding repeats them

    def _opening(self, text: str) -> tuple[int, ...]:
        """Tokens from the start of the conversation to the first reply; `text` is its message."""
        return tuple(self._around(self._render_head, text))

    def _message(self, text: str) -> tuple[int, ...]:
        """Tokens between two replies: the end of the turn, the message, the next prompt.

        The first token is `end`. `after` drops it if the reply sampled it and keeps it if the reply
        was cut.
        """
        return tuple(self._around(self._render_tail, text))

    def after(self, reply_ids: Sequence[int], text: str) -> list[int]:
        """Environment tokens that follow a sampled reply: message `text` and the next prompt."""
        tail = self.message(text)
        closed = bool(reply_ids) and reply_ids[-1] in self.ends
        return list(tail[1:] if closed else tail)

    def _reply(self, text: str) -> tuple[int, ...]:
        """Tokens of a reply given as text, with its end token."""
        return (*self.plain(text), self.end)

    def plain(self, text: str) -> list[int]:
        """Tokens of a text, none of them a control token.

        Raises:
            ValueError: The text contains a control token that is a single character.
        """
        for options in ({}, {"split_special_tokens": True}):
            ids = self._encode(text, **options)
            if not self._select_control(ids, text):
                return ids
        if len(text) == 1:
            self._refuse(f"cannot be used with the control token {text!r}")
        places = [text.find(token) + 1 for token in self._control.values() if len(token) > 1]
        cut = min((place for place in places if place), default=len(text) // 2)
        return self.plain(text[:cut]) + self.plain(text[cut:])

    def text(self, reply_ids: Sequence[int]) -> str:
        """Text of a sampled reply, without its end token."""
        kept = reply_ids[:-1] if reply_ids and reply_ids[-1] in self.ends else reply_ids
        return self._decode(list(kept))

    def _around(self, write: Callable[[str], str], text: str) -> list[int]:
        """Tokens of a message as rendered by `write`, with the marks of its images.

        A message without control tokens is tokenised together with the template around it.
        """
        images = text.count(IMAGE) if self._mark else 0
        ids = self._encode(write(text.replace(IMAGE, self._mark) if images else text))
        if self._select_control(ids, text) == self._template_tokens(write, images):
            return ids
        stop = next(chr(c) for c in _PRIVATE if chr(c) not in text)
        marked = text.replace(IMAGE, stop + self._mark + stop) if images else text
        pieces = write(stop + marked + stop).split(stop)
        if len(pieces) != 2 * images + 3:
            self._refuse(f"changes messages, and {text!r} contains control tokens")
        return [
            token
            for place, piece in enumerate(pieces)
            for token in (self.plain(piece) if place % 2 else self._encode(piece))
        ]

    def _select_control(self, ids: Iterable[int], text: str) -> list[int]:
        """The control tokens among the ids of a text; the token for unknown text is not one."""
        unknown = self.tokenizer.unk_token_id
        if unknown is not None and str(self.tokenizer.unk_token) in text:
            unknown = None
        return [i for i in ids if i in self._control and i != unknown]

    def _find_template_tokens(self, write: Callable[[str], str], images: int) -> list[int]:
        """The control tokens that the template writes around a message with this many images."""
        text = " ".join([_MESSAGE, *[self._mark] * images])
        return self._select_control(self._encode(write(text)), text)

    def _find_control_tokens(self) -> dict[int, str]:
        """Every token that a text must not produce, with its own text."""
        turns = [("user", _MESSAGE), ("assistant", _REPLY), ("user", _MESSAGE)]
        written = f"{self._render(turns)}{self._mark}{self.tokenizer.chat_template}"
        return {
            i: token.content
            for i, token in self.tokenizer.added_tokens_decoder.items()
            if token.special
            or _ANGLED.fullmatch(token.content)
            or (_BRACKETED.fullmatch(token.content) and token.content in written)
            if not _TAG.fullmatch(token.content)
        }

    def _render_head(self, text: str) -> str:
        return self._render([("user", text)], prompt=True)

    def _render_tail(self, text: str) -> str:
        turns = [("user", _MESSAGE), ("assistant", _REPLY), ("user", text)]
        _, reply, tail = self._render(turns, prompt=True).partition(_REPLY)
        if not reply:
            self._refuse("drops earlier replies")
        return tail

    def _refuse(self, why: str) -> NoReturn:
        name = repr(self.tokenizer.name_or_path or type(self.tokenizer).__name__)
        raise ValueError(
            f"the chat template of {name} {why}; use an instruct model of another family, or set "
            "tokenizer.chat_template and save it with the model"
        )

    def _render(self, turns: Iterable[tuple[str, str]], *, prompt: bool = False) -> str:
        messages = [{"role": role, "content": content} for role, content in turns]
        text = self.tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=prompt,
            date_string=_DAY.strftime("%d %b %Y"),
            chat_template=_CLOCK + self.tokenizer.get_chat_template(),
        )
        return str(text)

    def _encode(self, text: str, **options: bool) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False, **options))

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, clean_up_tokenization_spaces=False))
