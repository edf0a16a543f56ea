"""A tokenizer's chat template: conversations as text, and messages as tokens.

Only the template writes control tokens. An observation, a goal or a past action never does,
whatever text it has. The clock that templates can read stands still.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from jinja2 import TemplateError

from agent_envs.prompt import IMAGE
from agent_envs.replies import mark_thoughts, split_thoughts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# A reply, a message and a thought that stand for any other.
REPLY, MESSAGE, THOUGHT = "reply-of-the-agent", "message-of-the-world", "thought-of-the-agent"
_TURN = [("user", MESSAGE), ("assistant", REPLY)]
_OPEN, _CLOSE, _EMPTY = "<think>", "</think>", "<think></think>"
# Fields of a message from which templates read a thought, and options with which they write it.
_FIELDS = ("reasoning_content", "reasoning", "thinking", "thought")
_SWITCHES = {"enable_thinking": True, "thinking": True}
# What the code of a template can raise.
_FAULTS = (TemplateError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
_LATER = (2, 3, 9, 10, 32, 99, 100)  # numbers of replies after which the next message is compared
# Tags of replies: a text may contain them as tokens.
_TAG = re.compile(r"</?(think|action|search|answer|code|information|reasoning|tool|result)>")
# Control tokens by their look, even if the tokenizer does not mark them as special.
_BRACKETED = re.compile(r"[<\[].+[>\]]")
_ANGLED = re.compile(r"<[|｜].+[|｜]>")
_DAY = datetime(2024, 7, 26, tzinfo=UTC)  # a template that prints today would change the run
_MARKS = [*"aAbBcdfGHIjmMpSuUVwWxXyYZz", "-d", "-m", "-j", "-H", "-I", "-M", "-S"]
_CLOCK = (  # replaces the clock that templates of transformers can read: on this day, at midnight
    "{%- macro strftime_now(format) -%}{{ format"
    + "".join(f"|replace('%{mark}', '{_DAY.strftime('%' + mark)}')" for mark in _MARKS)
    + " }}{%- endmacro -%}"
)


class ReplyForm(NamedTuple):
    """How replies begin and end by a template.

    Attributes:
        end: Token that ends a reply.
        ends: All tokens that end a reply: `end`, the tokenizer's end of sequence, and the model's.
        prefill: What each prompt writes of the reply, in our tags whatever the template's are:
            "<think>" if it opens a thought, "<think></think>" if it closes an empty one, or "".
        channels: What the reply writes before its thought and between it and what is said, in the
            template's own marks; None for thoughts between `<think>` and `</think>`.
    """

    end: int
    ends: frozenset[int]
    prefill: str
    channels: tuple[str, str] | None

    def continue_prefill(self, text: str) -> str:
        """What is left to write of a reply after its prompt, which may have begun the thought."""
        if self.prefill == _OPEN:
            return text.removeprefix(_OPEN) if text.startswith(_OPEN) else f"{_CLOSE}{text}"
        return text.removeprefix(self.prefill)

    def restore_thought(self, text: str) -> str:
        """The whole text of a reply: its prefill, and its first thought in our tags."""
        if self.channels:
            before, after = (mark.strip() for mark in self.channels)
            lead, begun, rest = text.partition(before or _OPEN)
            text = f"{_OPEN}{rest}" if begun and not lead.strip() else text
            text = text.replace(after or _CLOSE, "" if self.prefill == _EMPTY else _CLOSE, 1)
        return f"{self.prefill}{text}"


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
        turns = [*_TURN, *_TURN[:1]]
        try:
            self._lists = MESSAGE not in self.render(turns)
        except ValueError:
            self._lists = True
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

    def refuse(self, why: str, remedy: str = _OTHER) -> NoReturn:
        """Raise ValueError: the template cannot be used."""
        name = repr(self.tokenizer.name_or_path or type(self.tokenizer).__name__)
        raise ValueError(f"the chat template of {name} {why}; {remedy}")

    def render(self, turns: Iterable[tuple[str, str]], *, prompt: bool = False) -> str:
        """The text of a conversation of (role, content), with the `prompt` for a reply."""
        return self._apply([{"role": role, "content": content} for role, content in turns], prompt)

    def render_thought(self, thought: str, said: str = REPLY) -> str:
        """The text of a conversation that ends with a reply: a thought, and what is said."""
        reply = {"role": "assistant", "content": said, **dict.fromkeys(_FIELDS, thought)}
        return self._apply([{"role": "user", "content": MESSAGE}, reply], False, **_SWITCHES)

    def _apply(self, messages: list[dict[str, Any]], prompt: bool, **switches: bool) -> str:
        for message in messages if self._lists else ():
            message["content"] = [{"type": "text", "text": message["content"]}]
        try:
            text = self.tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=prompt,
                chat_template=_CLOCK + self.tokenizer.get_chat_template(),
                **{"date_string": _DAY.strftime("%d %b %Y"), **self._options, **switches},
            )
        except _FAULTS as error:
            self.refuse(f"cannot write a conversation ({error})")
        return str(text)

    def derive_form(self, stops: Sequence[int]) -> ReplyForm:
        """How replies begin and end; the model's generation config has further `stops`.

        Raises:
            ValueError: A reply does not end with a special token, or has marks of thoughts that
                cannot be read, or prompts change with the number of replies.
        """
        later = self.render_tail(MESSAGE)
        for replies in _LATER:
            text = self.render([*_TURN * replies, *_TURN[:1]], prompt=True)
            if (tail := text.rpartition(REPLY)[2]) != later:
                self.refuse(
                    f"writes {tail!r:.80} after {replies} replies and {later!r:.80} after the first"
                )
        if not later.endswith(head := self.render_head(MESSAGE).rpartition(MESSAGE)[2]):
            self.refuse(f"begins the first reply with {head!r:.80}, and the second in another way")
        lead, _, last = self.render(_TURN).rpartition(REPLY)
        closing, ending = self._find_end(later), self._find_end(last)
        if not closing:
            word = self.tokenizer.decode(self.encode(later)[:1])
            self.refuse(f"ends a reply with {word!r}, no special token")
        prefill, channels = self._derive_start(head, lead.rpartition(MESSAGE)[2])
        between = self.encode(channels[1]) if channels else []
        end = [*ending, *closing][0]
        if end in between:
            word = self.tokenizer.decode([end])
            self.refuse(f"ends a thought with {word!r}, the token that ends a reply")
        ends = {end, *closing, self.tokenizer.eos_token_id} - {None, *between} | {*stops}
        form = ReplyForm(end, frozenset(ends), prefill, channels)
        ids = self.encode_reply(form, f"{_OPEN}a{_CLOSE}b")
        split = split_thoughts(form.restore_thought(str(self.tokenizer.decode(list(ids[:-1])))))
        if channels and ("".join(split.thoughts).strip(), split.said.strip()) != ("a", "b"):
            self.refuse(f"marks thoughts in a way that cannot be read back ({channels})")
        return form

    def encode_reply(self, form: ReplyForm, text: str) -> tuple[int, ...]:
        """Tokens of a reply given as text, with its end token."""
        if not form.channels or form.prefill == _EMPTY:
            lead = self.encode(form.channels[1]) if form.channels else []
            return (*lead, *self.encode_plain(form.continue_prefill(text)), form.end)
        before, after = map(self.encode, form.channels)
        thoughts, said, _ = split_thoughts(text)
        parts = *before, *self.encode_plain("".join(thoughts)), *after
        return (*parts, *self.encode_plain(said.strip()), form.end)

    def _find_end(self, text: str) -> list[int]:
        """The first token of a text after a reply, if it is a special one."""
        return [i for i in self.encode(text)[:1] if i in self.tokenizer.added_tokens_decoder]

    def _derive_start(self, prompt: str, lead: str) -> tuple[str, tuple[str, str] | None]:
        """Prefill and channels of a reply, see `ReplyForm`: how far a prompt has got in a thought.

        The prompt is compared with replies that have one: in a field of its own, and as text. If
        neither begins like the prompt, the marks that families are known to write decide, and after
        an empty thought comes what the `lead` of a reply without one has and the prompt has not.
        """
        ended = self.render([("user", MESSAGE)]).rpartition(MESSAGE)[2]
        begun, own = prompt.rstrip(), (prompt.removeprefix(ended) or prompt).rstrip()
        for before, after in self._render_thoughts():
            mark, left = after.strip(), before.removeprefix(prompt).removeprefix(begun)
            # Of the mark after a thought, characters that end the prompt; one may do so by chance.
            if done := max(n for n in range(len(mark) + 1) if n != 1 and own.endswith(mark[:n])):
                start, channels = _EMPTY, ("", mark[done:])
            elif before.strip() and begun.endswith(before.rstrip()):
                start, channels = _OPEN, ("", after)
            elif left != before:
                start, channels = "", (left, after)
            else:
                continue
            return start, channels if _TAG.sub("", "".join(channels)).strip() else None
        known = mark_thoughts(prompt)
        is_open = known.rfind("<think") > known.rfind(_CLOSE)
        start = _OPEN if is_open else _EMPTY if known.rstrip().endswith(_CLOSE) else ""
        told, ids = self.encode(lead), self.encode(prompt)
        rest = self.tokenizer.decode([i for at, i in enumerate(told, 1) if told[:at] != ids[:at]])
        return start, ("", str(rest)) if start == _EMPTY and str(rest).strip() else None

    def _render_thoughts(self) -> Iterator[tuple[str, str]]:
        """What the template writes before and after the thought of a reply."""
        for thought, said in ((THOUGHT, REPLY), ("", f"{_OPEN}{THOUGHT}{_CLOSE}{REPLY}")):
            try:
                text = self.render_thought(thought, said).partition(MESSAGE)[2]
            except ValueError:
                continue  # not every template can write a thought
            before, _, rest = text.partition(THOUGHT)
            after, whole, _ = rest.partition(REPLY)
            if whole:
                yield before, after

    def render_head(self, text: str) -> str:
        """The text from the start of a conversation to the first reply."""
        return self.render([("user", text)], prompt=True)

    def render_tail(self, text: str) -> str:
        """The text between two replies."""
        _, reply, tail = self.render([*_TURN, ("user", text)], prompt=True).partition(REPLY)
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

    def encode_message(self, write: Callable[[str], str], text: str) -> tuple[int, ...]:
        """Tokens of a message as rendered by `write`, with the marks of its images.

        A message without control tokens is tokenised together with the template around it.
        """
        images = text.count(IMAGE) if self._mark else 0
        ids = self.encode(_write(write, text.replace(IMAGE, self._mark) if images else text))
        if self._select_control(ids, text) == self._written_control(write, images):
            return tuple(ids)
        stop = next(chr(c) for c in range(0xE000, 0xF900) if chr(c) not in text)  # private use
        marked = text.replace(IMAGE, stop + self._mark + stop) if images else text
        pieces = _write(write, stop + marked + stop).split(stop)
        if len(pieces) != 2 * images + 3:
            self.refuse(f"changes messages, and {text!r} contains control tokens")
        return tuple(
            token
            for place, piece in enumerate(pieces)
            for token in (self.encode_plain(piece) if place % 2 else self.encode(piece))
        )

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
    except ValueError:
        return write(MESSAGE).replace(MESSAGE, text)
