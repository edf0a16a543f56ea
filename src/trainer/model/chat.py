"""The token pieces of a conversation, cut out of the tokenizer's own chat template.

A conversation grows by appending: the opening prompt, a sampled reply, the environment's next
message up to the next generation prompt, and so on. Sampled tokens are never rendered or tokenised
again, so a template that drops the thinking of earlier replies cannot change what the model
conditioned on.

Left out: tool roles, and templates that mark roles by ordinary words (the `[INST]` of the first
Mistral models), which the model cannot tell from those words in a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from trainer.model.chat_template import ChatTemplate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Chat:
    """Token pieces by the chat template of `tokenizer`.

    `opening(text)` returns the tokens up to the first reply, `message(text)` those between two
    replies: `end`, the message and the next prompt. `reply(text)` returns those of a reply given as
    text, `plain(text)` those of a text alone. The first three are cached. Their `text` never
    becomes a control token, see `ChatTemplate.control`.

    Args:
        tokenizer: Of the policy.
        mark: Text that the model reads in the place of an `<image>`; "" for a text-only model.
        stops: Further tokens that end a reply, e.g. of the model's generation config.
        options: Of the template, e.g. {"enable_thinking": False}.

    Attributes:
        form: How replies begin and end.
        end, ends: Tokens that end a reply, see `ReplyForm`.
        settings: The arguments beside the tokenizer.

    Raises:
        ValueError: The tokenizer has no chat template, or its template does not end a reply with
            a special token, or writes something else before each reply, such as its number.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        mark: str = "",
        *,
        stops: Sequence[int] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.tokenizer, self.template = tokenizer, ChatTemplate(tokenizer, mark, options or {})
        self.settings = {"mark": mark, "stops": stops, "options": options}
        self.plain, self.form = self.template.encode_plain, self.template.derive_form(stops)
        self.end, self.ends = self.form.end, self.form.ends
        head, tail = self.template.render_head, self.template.render_tail
        self.opening = lru_cache(maxsize=4096)(partial(self.template.encode_message, head))
        self.message = lru_cache(maxsize=4096)(partial(self.template.encode_message, tail))
        encode = partial(self.template.encode_reply, self.form)
        self.reply = lru_cache(maxsize=65536)(encode)  # constrained decoding repeats them

    def after(self, reply_ids: Sequence[int], text: str) -> list[int]:
        """Environment tokens that follow a sampled reply: message `text` and the next prompt.

        They begin with `end` if the reply was cut and did not sample one.
        """
        tail = self.message(text)
        closed = bool(reply_ids) and reply_ids[-1] in self.ends
        return list(tail[1:] if closed else tail)

    def text(self, reply_ids: Sequence[int]) -> str:
        """Text of a sampled reply with what its prompt wrote of it, without its end token.

        Its thought is between `<think>` and `</think>`, whatever marks the template has.
        """
        kept = reply_ids[:-1] if reply_ids and reply_ids[-1] in self.ends else reply_ids
        text = self.tokenizer.decode(list(kept), clean_up_tokenization_spaces=False)
        return self.form.restore_thought(str(text))
