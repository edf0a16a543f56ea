"""Acts: what a character does in its turn, how one is written and how the others read it."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

KINDS = ("speak", "non-verbal communication", "action", "leave", "none")
WITH_ARGUMENT = KINDS[:3]
LEFT, NOTHING = "left the conversation", "did nothing"
HOW = (
    "An act is plain text, which is said, or JSON like "
    '{"action_type": "speak", "argument": "Good morning."}, with action_type one of '
    f"{', '.join(KINDS)}."
)
_MARKED = re.compile(r"\[(action|non-verbal communication)\]\s*(.*)", re.DOTALL)


class Act(NamedTuple):
    """One act; `leave` and `none` need no argument."""

    kind: str
    argument: str = ""

    def told(self, name: str) -> str:
        """The act as the others read it; its own quotation marks cannot end what is said."""
        if self.kind == "speak":
            said = self.argument.replace('"', "'")
            return f'{name} said: "{said}"'
        if self.kind in WITH_ARGUMENT:
            return f"{name} [{self.kind}] {self.argument}"
        return f"{name} {LEFT if self.kind == 'leave' else NOTHING}"

    def written(self) -> str:
        """The act as JSON, which `read` reads."""
        return json.dumps({"action_type": self.kind, "argument": self.argument})


def speak(text: str) -> Act:
    """Something said."""
    return Act("speak", text)


def read(text: str) -> Act:
    """The act that a text stands for: JSON where it begins with a brace, else something said.

    Plain text written as others' acts are shown (`[action] ...`, `left the conversation`) is that.

    Raises:
        ValueError: it is none; the message says how one is written.
    """
    text = text.strip()
    if text.startswith("{"):
        return _from_json(text)
    marked = _MARKED.fullmatch(text)
    if marked:
        return checked(*marked.groups())
    silent = {LEFT: "leave", NOTHING: "none"}.get(text.lower().rstrip("."))
    return Act(silent) if silent else checked("speak", text)


def checked(kind: object, argument: object) -> Act:
    """The act of these two fields, on one line: a second one could pass for another's act.

    Raises:
        ValueError: no such kind, or no argument where one is needed.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind!r:.60} is no kind of act. {HOW}")
    if not isinstance(argument, str):
        # the agent's mistake, told like the others
        raise ValueError(  # noqa: TRY004
            f"The argument must be text, got {argument!r:.60}. {HOW}"
        )
    argument = " ".join(argument.split())
    if kind in WITH_ARGUMENT and not argument:
        raise ValueError(f"To {kind} needs an argument, which is empty. {HOW}")
    return Act(str(kind), argument)


def _from_json(text: str) -> Act:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"This is no JSON: {text[:60]!r}. {HOW}") from None
    if not isinstance(fields, dict) or "action_type" not in fields:
        raise ValueError(f"The field action_type is missing. {HOW}")
    return checked(fields["action_type"], fields.get("argument", ""))
