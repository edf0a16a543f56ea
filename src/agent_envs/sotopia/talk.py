"""Acts and talks: what a character does in a turn, and what both did so far.

Only the fields `offer`, `accept` and `leave` of an act bind. What is said is never read here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.net.endpoint import RepeatedKeyError, refuse_repetition
from agent_envs.panels import nearest
from agent_envs.replies import split_thoughts, unwrap_answer, unwrap_fence
from agent_envs.sotopia.scene import Unknown
from agent_envs.spaces import ACTION_LENGTH

if TYPE_CHECKING:
    from agent_envs.sotopia.scene import Deal, Game, Scene

KINDS = ("speak", "non-verbal communication", "action", "leave", "none")
WITH_ARGUMENT = KINDS[:3]
# The fields of an act in a generated scene; all but `say` bind, and an act has one of them.
FIELDS = ("say", "ask", "offer", "accept", "leave")
LEFT, NOTHING = "left the conversation", "did nothing"
_HOW = (
    "An act is plain text, which is said, or JSON like "
    '{"action_type": "speak", "argument": "Good morning."}, with action_type one of '
    f"{', '.join(KINDS)}."
)
_MARKUP = re.compile(r"```|</?[\w|:]+>|\[TOOL_CALLS\]|\"(?:action_type|offer|accept)\"")
_MARKED = re.compile(r"\[(action|non-verbal communication)\]\s*(.*)", re.DOTALL)
_SILENT = ["none"] * 2


class Act(NamedTuple):
    """One act; `leave` and `none` need no argument.

    ask, offer, accept: the fields of a generated scene; "" or None for none of them.
    """

    kind: str
    argument: str = ""
    ask: str = ""
    offer: Deal | None = None
    accept: bool | None = None

    def render(self, name: str, terms: str = "") -> str:
        """The displayed text; quotation marks in what is said cannot end the quoted line.

        terms: the act's offer in words.
        """
        if self.kind != "speak":
            if self.kind in WITH_ARGUMENT:
                return f"{name} [{self.kind}] {self.argument}"
            return f"{name} {LEFT if self.kind == 'leave' else NOTHING}"
        done = f"asks about: {self.ask}" if self.ask else ""
        if self.offer is not None:
            done = f"offers: {terms}"
        elif self.accept is not None:
            done = "accepts the offer" if self.accept else "does not accept"
        said = self.argument.replace('"', "'")
        parts = (f'said: "{said}"' if said else "", f"[{done}]" if done else "")
        return f"{name} {' '.join(filter(None, parts))}"

    def to_json(self, game: Game | None = None) -> str:
        """The act as JSON for `parse_act`."""
        if game is None:
            return _dump({"action_type": self.kind, "argument": self.argument})
        offer = None if self.offer is None else game.write_offer(self.offer)
        fields = {
            "say": self.argument or None, "ask": self.ask or None, "offer": offer,
            "accept": self.accept, "leave": self.kind == "leave" or None,
        }  # fmt: skip
        return _dump({name: value for name, value in fields.items() if value is not None})


def speak(text: str) -> Act:
    """A spoken line."""
    return Act("speak", text)


def parse_act(text: str, game: Game | None = None) -> Act:
    """The act of a text: JSON if it begins with a brace, else a spoken line.

    Thoughts and a code fence around the whole are left out. In a generated scene what begins with a
    bracket and all other JSON is read as JSON, too. Scenes of text alone also accept the displayed
    forms of acts (`[action] ...`, `left the conversation`).

    Raises:
        Unknown: a question or an offer that names what the scene does not have.
        ValueError: not an act; the message has the form of one.
    """
    how = _HOW if game is None else _explain(game)
    _, said, endless = split_thoughts(text)
    if endless:
        raise ValueError(f"A thought has no end, so nothing is said. {how}")
    text = unwrap_fence(unwrap_answer(said))
    if text.startswith("{") or (game is not None and (text.startswith("[") or _is_json(text))):
        return parse_fields(_load(text, how), game)
    if game is None:
        if marked := _MARKED.fullmatch(text):
            return parse_fields({"action_type": marked[1], "argument": marked[2]})
        if silent := {LEFT: "leave", NOTHING: "none"}.get(text.lower().rstrip(".")):
            return Act(silent)
    if markup := _MARKUP.search(text):
        raise ValueError(f"Nobody says {markup[0]!r} aloud. Give the act alone. {how}")
    if not text.strip():
        raise ValueError(f"Nothing was said or done. {how}")
    return speak(_join_lines(text, how))


def parse_fields(fields: object, game: Game | None = None) -> Act:
    """The act of JSON fields.

    Raises:
        Unknown: a question or an offer that names what the scene does not have.
        ValueError: an unknown kind or field, a missing argument, or an impossible offer.
    """
    if game is not None:
        return _parse_typed(fields, game)
    if not isinstance(fields, dict) or "action_type" not in fields:
        raise ValueError(f"The field action_type is missing. {_HOW}")
    kind = fields["action_type"]
    if kind not in KINDS:
        raise ValueError(f"{kind!r:.60} is no kind of act. {_HOW}")
    argument = _join_lines(fields.get("argument", ""), _HOW)
    if kind in WITH_ARGUMENT and not argument:
        raise ValueError(f"To {kind} needs an argument, which is empty. {_HOW}")
    return Act(str(kind), argument)


def _parse_typed(fields: object, game: Game) -> Act:
    """The act of the fields of a generated scene; None is as good as no field."""
    how = _explain(game)
    if not isinstance(fields, dict) or not fields:
        raise ValueError(f"An act has fields, got {fields!r:.60}. {how}")
    for name in fields:
        if name not in FIELDS:
            raise ValueError(f"There is no field {name!r:.60}{nearest(name, FIELDS)}; {how}")
    given = {name: value for name, value in fields.items() if value is not None}
    said = _join_lines(given.pop("say", ""), how)
    if len(given) > 1:
        raise ValueError(f"An act has one of {', '.join(given)}, not all of them. {how}")
    if not given and not said:
        raise ValueError(f"Nothing was said or done. {how}")
    name, value = next(iter(given.items()), ("", None))
    if name == "offer":
        return Act("speak", said, offer=game.read_offer(value))
    if name == "ask" and value not in game.topics:
        raise Unknown(f"{value!r:.60} is no topic; ask about {', '.join(game.topics)}.")
    allowed = {"accept": (True, False), "leave": (True,)}.get(name)
    if allowed and not any(value is one for one in allowed):
        either = " or ".join(str(one).lower() for one in allowed)
        raise ValueError(f"{name} is {either}, got {value!r:.60}. {how}")
    if name == "leave":
        return Act("leave", said)
    ask, accept = (value if name == field else None for field in ("ask", "accept"))
    return Act("speak", said, ask or "", accept=accept)


def _explain(game: Game) -> str:
    return (
        "An act is plain text, which is said, or JSON with say and one of ask, offer, accept and "
        f'leave, such as {{"offer": {game.form}}}.'
    )


def _join_lines(given: object, how: str) -> str:
    """A text on one line: a second line could look like the other's act."""
    if isinstance(given, str):
        return " ".join(given.split())
    raise ValueError(f"What is said must be text, got {given!r:.60}. {how}")


def _dump(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _load(text: str, how: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=refuse_repetition)
    except RepeatedKeyError as error:
        raise ValueError(f"In this JSON {error}: {text[:60]!r}. {how}") from None
    except (ValueError, RecursionError):
        raise ValueError(f"This is no JSON: {text[:60]!r}. {how}") from None


class Said(NamedTuple):
    """An act and its side."""

    side: int
    act: Act


class Talk(NamedTuple):
    """The talk so far, immutable; `after` returns the next one.

    said: the acts. standing: the open offer of each side. agreed: the binding terms, which end it.
    """

    scene: Scene
    said: tuple[Said, ...] = ()
    standing: tuple[Deal | None, Deal | None] = (None, None)
    agreed: Deal | None = None

    @property
    def is_over(self) -> bool:
        """Whether there is a deal, a side left, or both did nothing in a row."""
        kinds = [act.kind for _, act in self.said[-2:]]
        return self.agreed is not None or "leave" in kinds or kinds == _SILENT

    def find_obstacle(self, side: int, act: Act) -> str:
        """Why a side cannot make an act now; "" if it can."""
        if len(act.argument) > ACTION_LENGTH:
            return f"An act has at most {ACTION_LENGTH:,} characters, not {len(act.argument):,}."
        if act.accept and self.standing[1 - side] is None:
            return "There is no open offer that you could accept."
        return ""

    def after(self, side: int, act: Act) -> Talk:
        """The talk after an act.

        Accepting and offering the other's terms bind both; declining closes the other's offer.
        """
        said, theirs = (*self.said, Said(side, act)), self.standing[1 - side]
        if theirs is not None and (act.accept or act.offer == theirs):
            return self._replace(said=said, agreed=theirs)
        own = self.standing[side] if act.offer is None else act.offer
        theirs = None if act.accept is False else theirs
        return self._replace(said=said, standing=(own, theirs) if side == 0 else (theirs, own))

    def render(self, said: Said, viewer: int) -> str:
        """The text of an act for a side, its own as `You said: ...`."""
        side, act = said
        name = "You" if side == viewer else self.scene.name_side(side)
        game = self.scene.game
        if game is None or act.offer is None:
            return act.render(name)
        return act.render(name, game.describe(act.offer))

    def render_script(self, viewer: int) -> list[str]:
        """The texts of all acts for a side."""
        return [self.render(said, viewer) for said in self.said]
