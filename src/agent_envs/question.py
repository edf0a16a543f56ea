"""A question to a language model, and the forms in which its answer can be requested."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Answer = TypeVar("Answer")
Messages = list[dict[str, str]]
FORMS = ("json_schema", "json_object", "text")
"""Values of `response_format`, the strictest first; a form is given by its place."""
TEXT = len(FORMS) - 1


class Question(NamedTuple, Generic[Answer]):
    """The messages of a request, the schema of the answer, and the function that converts it.

    messages: the conversation so far.
    schema: JSON schema of the answer; None for text.
    read: converts the text of an answer.
    about: names the conversation in error messages.
    """

    messages: Messages
    schema: Mapping[str, Any] | None
    read: Callable[[str], Answer]
    about: str

    def instructed(self) -> Messages:
        """The messages, the last with the schema if there is one."""
        if self.schema is None:
            return self.messages
        *before, last = self.messages
        told = (
            f"{last['content']}\n\nAnswer with one JSON value of this schema and nothing else:"
            f"\n{json.dumps(self.schema)}"
        )
        return [*before, {**last, "content": told}]

    def response_format(self, form: int) -> dict[str, Any]:
        """The option of a request that asks for this form; {} for text."""
        if self.schema is None or form == TEXT:
            return {}
        if form:
            return {"response_format": {"type": FORMS[form]}}
        named = {"name": "answer", "strict": True, "schema": self.schema}
        return {"response_format": {"type": FORMS[form], "json_schema": named}}
