"""Acts: what a character does in a turn, their JSON and their displayed text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.endpoint import RepeatedKeyError, refuse_repetition
from agent_envs.replies import split_thoughts, unwrap_fence

if TYPE_CHECKING:
    from agent_envs.sotopia.scene import Deal, Game

KINDS = ("speak", "non-verbal communication", "action", "leave", "none")
WITH_ARGUMENT = KINDS[:3]
LEFT, NOTHING = "left the conversation", "did nothing"
HOW = (
    "An act is plain text, which is said, or JSON like "
    '{"action_type": "speak", "argument": "Good morning."}, with action_type one of '
    f"{', '.join(KINDS)}."
)
_MARKUP = re.compile(r"```|</?[\w|:]+>|\[TOOL_CALLS\]|\"action_type\"")
_MARKED = re.compile(r"\[(action|non-verbal communication)\]\s*(.*)", re.DOTALL)


class Act(NamedTuple):
    """One act; `leave` and `none` need no argument.

    offer, accept: the binding fields beside the words; None for neither.
    worded: the argument states the offer or the acceptance, so that it is not displayed again.
    """

    kind: str
    argument: str = ""
    offer: Deal | None = None
    accept: bool | None = None
    worded: bool = False

    @property
    def has_fields(self) -> bool:
        """Whether fields say what the act offers or accepts, so that its words are not read."""
        return self.offer is not None or self.accept is not None

    def render(self, name: str, terms: str = "") -> str:
        """The displayed text of the act; quotation marks in it cannot end the quoted line.

        terms: the act's offer in words.
        """
        if self.kind == "speak":
            said = self.argument.replace('"', "'")
            return f'{name} said: "{said}"{self._render_fields(terms)}'
        if self.kind in WITH_ARGUMENT:
            return f"{name} [{self.kind}] {self.argument}"
        return f"{name} {LEFT if self.kind == 'leave' else NOTHING}"

    def _render_fields(self, terms: str) -> str:
        if self.worded or not self.has_fields:
            return ""
        if self.offer is not None:
            return f" [offers: {terms}]"
        return " [accepts the offer]" if self.accept else " [does not accept]"

    def to_json(self, game: Game | None = None, side: int = 0) -> str:
        """The act as JSON for `parse_act`; an offer needs the game and the side that makes it."""
        fields: dict[str, Any] = {"action_type": self.kind, "argument": self.argument}
        if self.offer is not None:
            assert game is not None  # noqa: S101  only games have offers
            fields["offer"] = game.wordings[side].write_offer(self.offer)
        if self.accept is not None:
            fields["accept"] = self.accept
        return json.dumps(fields, ensure_ascii=False)


def speak(text: str) -> Act:
    """A spoken line."""
    return Act("speak", text)


def parse_act(text: str, game: Game | None = None, side: int = 0) -> Act:
    """The act of a text: JSON if it begins with a brace, else a spoken line.

    Thoughts and a code fence around the whole are left out. The displayed forms of acts
    (`[action] ...`, `left the conversation`) are accepted as these acts. Offers are in the terms of
    `game`, made by `side`.

    Raises:
        ValueError: not an act; the message has the form of one.
    """
    _, said, endless = split_thoughts(text)
    if endless:
        raise ValueError(f"A thought has no end, so nothing is said. {HOW}")
    text = unwrap_fence(said)
    if text.startswith("{"):
        return _parse_json(text, game, side)
    marked = _MARKED.fullmatch(text)
    if marked:
        return parse_fields({"action_type": marked[1], "argument": marked[2]})
    if markup := _MARKUP.search(text):
        raise ValueError(f"Nobody says {markup[0]!r} aloud. Give the act alone. {HOW}")
    silent = {LEFT: "leave", NOTHING: "none"}.get(text.lower().rstrip("."))
    return Act(silent) if silent else parse_fields({"action_type": "speak", "argument": text})


def parse_fields(fields: object, game: Game | None = None, side: int = 0) -> Act:
    """The act of JSON fields, on one line: a second line could look like the other's act.

    Raises:
        ValueError: an unknown kind, a missing argument, or an impossible offer.
    """
    if not isinstance(fields, dict) or "action_type" not in fields:
        raise ValueError(f"The field action_type is missing. {HOW}")
    kind = fields["action_type"]
    if kind not in KINDS:
        raise ValueError(f"{kind!r:.60} is no kind of act. {HOW}")
    argument = _join_lines(fields.get("argument", ""))
    if kind in WITH_ARGUMENT and not argument:
        raise ValueError(f"To {kind} needs an argument, which is empty. {HOW}")
    return _add_fields(Act(str(kind), argument), fields, game, side)


def _join_lines(given: object) -> str:
    """An argument on one line."""
    if isinstance(given, str):
        return " ".join(given.split())
    raise ValueError(f"The argument must be text, got {given!r:.60}. {HOW}")


def _add_fields(act: Act, fields: dict[str, Any], game: Game | None, side: int) -> Act:
    """The act with its offer and acceptance, if it has these fields."""
    offer, accept = fields.get("offer"), fields.get("accept")
    if offer is None and accept is None:
        return act
    if game is None:
        raise ValueError("Nothing can be offered or accepted here by a field; only say it.")
    if act.kind != "speak":
        raise ValueError(f"Only who speaks offers or accepts, and this is {act.kind!r}.")
    if accept is not None and not isinstance(accept, bool):
        raise ValueError(f"accept is true or false, got {accept!r:.60}.")
    deal = None if offer is None else game.wordings[side].read_offer(offer)
    return act._replace(offer=deal, accept=accept)


def _parse_json(text: str, game: Game | None, side: int) -> Act:
    try:
        fields = json.loads(text, object_pairs_hook=refuse_repetition)
    except RepeatedKeyError as error:
        raise ValueError(f"In this JSON {error}: {text[:60]!r}. {HOW}") from None
    except (ValueError, RecursionError):
        raise ValueError(f"This is no JSON: {text[:60]!r}. {HOW}") from None
    return parse_fields(fields, game, side)
