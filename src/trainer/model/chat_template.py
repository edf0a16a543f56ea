"""A tokenizer's chat template: conversations as text, and messages as tokens.

Only the template writes control tokens. An observation, a goal or a past action never does,
whatever text it has. The clock that templates can read stands still.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from jinja2 import TemplateError

from agent_envs.prompt import IMAGE
from agent_envs.replies import split_thoughts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

REPLY, MESSAGE = "reply-of-the-agent", "message-of-the-world"
"""A reply and a message that stand for any other."""
_THOUGHT = re.compile(r"<think>\s*(</think>\s*)?")
"""What a prompt may write of a reply: an open or an empty thought."""
_LATER = (2, 3, 9, 10, 32, 99, 100)  # numbers of replies after which the next message is compared
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


class ReplyForm(NamedTuple):
    """How replies begin and end by a template.

    Attributes:
        end: Token that ends a reply.
        ends: All tokens that end a reply: `end`, the tokenizer's end of sequence, and the model's.
        prefill: What each prompt writes of the reply: "<think>", an empty thought, or "".
        channels: What the template writes around a thought and before what is said, if a reply has
            such parts; a token that ends a part ends no reply.
    """

    end: int
    ends: frozenset[int]
    prefill: str
    channels: tuple[str, str] | None

    def continue_prefill(self, text: str) -> str:
        """What is left to write of a reply after its prompt, which may have begun the thought."""
        if not self.prefill:
            return text
        if "</" in self.prefill:
            return text.removeprefix("<think></think>")
        return text.removeprefix("<think>") if text.startswith("<think>") else f"</think>{text}"


_OTHER = (
    "use an instruct model of another family, or set tokenizer.chat_template and save it with the "
    "model"
)


class ChatTemplate:
    """The chat template of a tokenizer.

    Args:
        tokenizer: Of the policy.
        mark: Text that the model reads in the place of an `<image>`; "" for a text-only model.
        options: Of the template, e.g. {"enable_thinking": False}.

    Attributes:
        control: Every token that a text must not produce, with its own text: a special token of
            the tokenizer, or another added token that the template writes around messages.

    Raises:
        ValueError: The tokenizer has no chat template, or it cannot write a conversation or does
            not read an option.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, mark: str, options: Mapping[str, Any]
    ) -> None:
        self.tokenizer, self._mark, self._options = tokenizer, mark, options
        self._lists = False  # whether the content of a message is a list of parts
        if not tokenizer.chat_template:
            self.refuse("is missing")
        if unread := [name for name in options if name not in str(tokenizer.chat_template)]:
            self.refuse(f"does not read {unread[0]!r}", "leave it out of policy.template")
        turns = [("user", MESSAGE), ("assistant", REPLY), ("user", MESSAGE)]
        try:
            self._lists = MESSAGE not in self.render(turns)
        except TemplateError:
            self._lists = True
        try:
            written = f"{self.render(turns)}{mark}{tokenizer.chat_template}"
        except TemplateError as error:
            self.refuse(f"cannot write a conversation ({error})")
        self.control = {
            i: token.content
            for i, token in tokenizer.added_tokens_decoder.items()
            if token.special
            or _ANGLED.fullmatch(token.content)
            or (_BRACKETED.fullmatch(token.content) and token.content in written)
            if not _TAG.fullmatch(token.content)
        }
        self._written_control = lru_cache(maxsize=64)(self._find_written_control)

    def refuse(self, why: str, remedy: str = _OTHER) -> NoReturn:
        """Raise ValueError: the template cannot be used."""
        name = repr(self.tokenizer.name_or_path or type(self.tokenizer).__name__)
        raise ValueError(f"the chat template of {name} {why}; {remedy}")

    def render(self, turns: Iterable[tuple[str, str]], *, prompt: bool = False) -> str:
        """The text of a conversation of (role, content), with the `prompt` for a reply."""
        return self._apply([{"role": role, "content": content} for role, content in turns], prompt)

    def render_thought(self, thought: str) -> str:
        """The text of a conversation that ends with `REPLY` after a thought."""
        thoughts = dict.fromkeys(("reasoning_content", "reasoning", "thinking"), thought)
        reply = {"role": "assistant", "content": REPLY, **thoughts}
        return self._apply([{"role": "user", "content": MESSAGE}, reply], prompt=False)

    def _apply(self, messages: list[dict[str, Any]], prompt: bool) -> str:
        for message in messages if self._lists else ():
            message["content"] = [{"type": "text", "text": message["content"]}]
        text = self.tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=prompt,
            chat_template=_CLOCK + self.tokenizer.get_chat_template(),
            **{"date_string": _DAY.strftime("%d %b %Y"), **self._options},
        )
        return str(text)

    def derive_form(self, stops: Sequence[int]) -> ReplyForm:
        """How replies begin and end; the model's generation config has further `stops`.

        Raises:
            ValueError: A reply does not end with a special token, or has marks of thoughts that
                cannot be read, or prompts change with the number of replies.
        """
        later = self.render_tail(MESSAGE)
        for replies in _LATER:
            turns = [("user", MESSAGE), ("assistant", REPLY)] * replies
            text = self.render([*turns, ("user", MESSAGE)], prompt=True)
            if (tail := text.rpartition(REPLY)[2]) != later:
                self.refuse(
                    f"writes {tail!r:.80} after {replies} replies and {later!r:.80} after the first"
                )
        last = self.render([("user", MESSAGE), ("assistant", REPLY)]).rpartition(REPLY)[2]
        closing, ending = self._find_end(later), self._find_end(last)
        if not closing:
            word = self.tokenizer.decode(self.encode(later)[:1])
            self.refuse(f"ends a reply with {word!r}, no special token")
        prefill, channels = self._derive_start()
        end = [*ending, *closing][0]
        eos = [] if self.tokenizer.eos_token_id is None else [self.tokenizer.eos_token_id]
        ends = frozenset([end, *([] if channels else closing), *eos, *stops])
        form = ReplyForm(end, ends, prefill, channels)
        ids = self.encode_reply(form, "<think>a</think>b")
        thoughts, said, _ = split_thoughts(str(self.tokenizer.decode(list(ids[:-1]))))
        if channels and (thoughts, said.strip()) != (["a"], "b"):
            self.refuse(f"marks thoughts in a way that is not known ({channels})")
        return form

    def encode_reply(self, form: ReplyForm, text: str) -> tuple[int, ...]:
        """Tokens of a reply given as text, with its end token."""
        if not form.channels:
            return (*self.encode_plain(form.continue_prefill(text)), form.end)
        before, after = map(self.encode, form.channels)
        if not before:
            return (*after, *self.encode_plain(text), form.end)
        thoughts, said, _ = split_thoughts(text)
        parts = *before, *self.encode_plain("".join(thoughts)), *after
        return (*parts, *self.encode_plain(said.strip()), form.end)

    def _find_end(self, text: str) -> list[int]:
        """The first token of a text after a reply, if it is a special one."""
        special = {*self.tokenizer.all_special_ids, *self.tokenizer.added_tokens_decoder}
        return [i for i in self.encode(text)[:1] if i in special]

    def _derive_start(self) -> tuple[str, tuple[str, str] | None]:
        """Prefill and channels of a reply, see `ReplyForm`."""
        prompt = self.render_head(MESSAGE).rpartition(MESSAGE)[2]
        begun = _THOUGHT.search(prompt)
        header = prompt[: begun.start()] if begun else prompt
        plain, thinking = (
            self.render_thought(thought).partition(MESSAGE)[2] for thought in ("", REPLY)
        )
        as_sampled = plain.startswith(header)  # else the past is written in a form of its own
        lead = plain.partition(REPLY)[0].removeprefix(header)
        parts = thinking.removeprefix(header).split(REPLY)
        channels = (parts[0], parts[1]) if len(parts) > 2 else ("", lead)  # noqa: PLR2004
        has_channels = as_sampled and bool(_THOUGHT.sub("", lead).strip())
        return (begun[0].rstrip() if begun else ""), (channels if has_channels else None)

    def render_head(self, text: str) -> str:
        """The text from the start of a conversation to the first reply."""
        return self.render([("user", text)], prompt=True)

    def render_tail(self, text: str) -> str:
        """The text between two replies."""
        turns = [("user", MESSAGE), ("assistant", REPLY), ("user", text)]
        _, reply, tail = self.render(turns, prompt=True).partition(REPLY)
        if not reply:
            self.refuse("drops earlier replies")
        return tail

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
        ids = self.encode(_write(write, text.replace(IMAGE, self._mark) if images else text))
        if self._select_control(ids, text) == self._written_control(write, images):
            return ids
        stop = next(chr(c) for c in _PRIVATE if chr(c) not in text)
        marked = text.replace(IMAGE, stop + self._mark + stop) if images else text
        pieces = _write(write, stop + marked + stop).split(stop)
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


def _write(write: Callable[[str], str], text: str) -> str:
    """A message as rendered by `write`; as plain text if the template takes it for a tool's."""
    try:
        return write(text)
    except TemplateError:
        return write(MESSAGE).replace(MESSAGE, text)
