"""The token pieces of a conversation, cut out of the tokenizer's own chat template.

A conversation grows by appending: the opening prompt, a sampled reply, the environment's next
message up to the next generation prompt, and so on. Sampled tokens are never rendered or tokenised
again, so a template that drops the thinking of earlier replies cannot change what the model
conditioned on.

Left out: tool roles, and templates that mark roles by ordinary words (the `[INST]` of the first
Mistral models), which the model cannot tell from those words in a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from trainer.model.chat_template import MESSAGE, REPLY, ChatTemplate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_LATER = (2, 3, 9, 10, 32, 99, 100)  # numbers of replies after which the next message is compared


class Chat:
    """Token pieces by the chat template of `tokenizer`.

    `opening(text)` returns the tokens up to the first reply, `message(text)` those between two
    replies, `reply(text)` those of a reply given as text, `plain(text)` those of a text alone. The
    first three are cached. Their `text` never becomes a control token, see `ChatTemplate.control`.

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
        self.tokenizer, self.template = tokenizer, ChatTemplate(tokenizer, mark)
        self.plain = self.template.encode_plain
        later = self._render_tail(MESSAGE)
        for replies in _LATER:
            turns = [("user", MESSAGE), ("assistant", REPLY)] * replies
            text = self.template.render([*turns, ("user", MESSAGE)], prompt=True)
            if (tail := text.rpartition(REPLY)[2]) != later:
                self.template.refuse(
                    f"writes {tail!r:.80} after {replies} replies and {later!r:.80} after the first"
                )
        ids = self.template.encode(later)
        if not ids or ids[0] not in {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}:
            ending = tokenizer.decode(ids[:1])
            self.template.refuse(f"ends a reply with {ending!r}, no special token")
        self.end: int = ids[0]
        self.ends = frozenset({self.end} | {i for i in [tokenizer.eos_token_id] if i is not None})
        self.opening = lru_cache(maxsize=4096)(self._opening)
        self.message = lru_cache(maxsize=4096)(self._message)
        self.reply = lru_cache(maxsize=65536)(self._reply)  # constrained decoding repeats them

    def _opening(self, text: str) -> tuple[int, ...]:
        """Tokens from the start of the conversation to the first reply; `text` is its message."""
        return tuple(self.template.encode_message(self._render_head, text))

    def _message(self, text: str) -> tuple[int, ...]:
        """Tokens between two replies: the end of the turn, the message, the next prompt.

        The first token is `end`. `after` drops it if the reply sampled it and keeps it if the reply
        was cut.
        """
        return tuple(self.template.encode_message(self._render_tail, text))

    def _reply(self, text: str) -> tuple[int, ...]:
        """Tokens of a reply given as text, with its end token."""
        return (*self.plain(text), self.end)

    def after(self, reply_ids: Sequence[int], text: str) -> list[int]:
        """Environment tokens that follow a sampled reply: message `text` and the next prompt."""
        tail = self.message(text)
        closed = bool(reply_ids) and reply_ids[-1] in self.ends
        return list(tail[1:] if closed else tail)

    def text(self, reply_ids: Sequence[int]) -> str:
        """Text of a sampled reply, without its end token."""
        kept = reply_ids[:-1] if reply_ids and reply_ids[-1] in self.ends else reply_ids
        return str(self.tokenizer.decode(list(kept), clean_up_tokenization_spaces=False))

    def _render_head(self, text: str) -> str:
        return self.template.render([("user", text)], prompt=True)

    def _render_tail(self, text: str) -> str:
        turns = [("user", MESSAGE), ("assistant", REPLY), ("user", text)]
        _, reply, tail = self.template.render(turns, prompt=True).partition(REPLY)
        if not reply:
            self.template.refuse("drops earlier replies")
        return tail
