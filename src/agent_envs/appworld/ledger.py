"""Irreversible effects (mails, invitations, payments, deletions), compared with those requested.

The ledger is append-only: undoing something in the apps does not remove its effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.appworld.reading import same

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KINDS = (
    "mail",
    "invitation",
    "payment",
    "request for money",
    "declined request",
    "cancelled request",
    "uninvited guest",
    "deletion",
    "overwritten text",
)
_SHOWN = 200  # characters of an effect's text


class Effect(NamedTuple):
    """One irreversible effect: its kind, of `KINDS`, and its fields.

    A wanted effect has the fields that matter, with values for `reading.same`.
    """

    kind: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value!r:.60}" for name, value in self.fields.items())
        return f"{self.kind}: {told}"[:_SHOWN]


class Ledger:
    """The effects of an episode in order.

    Args:
        wanted: the effects that the task requests, each once.

    Attributes:
        effects: all effects.
        unasked: effects that the task did not request, including repetitions of wanted ones.
    """

    def __init__(self, wanted: Iterable[Effect] = ()) -> None:
        self.effects: list[Effect] = []
        self.unasked: list[Effect] = []
        self._open = list(enumerate(wanted))

    def add(self, kind: str, **fields: Any) -> None:
        """Record an irreversible effect."""
        effect = Effect(kind, fields)
        self.effects.append(effect)
        for place, (_, wanted) in enumerate(self._open):
            if wanted.kind == kind and fits(fields, wanted.fields):
                del self._open[place]
                return
        self.unasked.append(effect)

    @property
    def missing(self) -> tuple[int, ...]:
        """The places of the wanted effects that have not happened yet."""
        return tuple(number for number, _ in self._open)


def fits(fields: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether fields have the wanted values; paths exactly, other texts by their words."""
    return all(
        name in fields and (fields[name] == value if name == "path" else same(fields[name], value))
        for name, value in wanted.items()
    )
