"""A session of the small world: its state, log-ins, and calls of its apps."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

from agent_envs.appworld.apis import Refusal, checked
from agent_envs.appworld.ledger import Effect, Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent_envs.appworld.apis import Api
    from agent_envs.appworld.people import Household
    from agent_envs.appworld.state import State

UNKNOWN_APP = "No app named {!r} found."
UNKNOWN_API = "No API named {!r} found in the {} app."
REFUSED = "Response status code is {}:\n{}"
_NOT_LOGGED_IN = "The access_token is wrong or of another app; call login of this app."
_ENDED = "The task is completed; nothing more can be done."
CALLS = 500  # most calls of one turn
_TEXTS = ("files", "notes")  # tables whose rows have a text
_TOO_MANY = {  # one shared object for all such replies
    "error": REFUSED.format(
        429,
        json.dumps({"message": f"Too many calls: one turn may make {CALLS}; go on in the next."}),
    )
}


class AppClass(Protocol):
    """The interface of the class of an app."""

    @property
    def apis(self) -> Mapping[str, Api]:
        """Its APIs by name."""

    def __call__(self, session: Session, /) -> object:
        """An app of a session, with a method for each API."""


class Session:
    """One task's world; copies share no mutable data.

    Args:
        household: the person, and the state at the start.
        instruction: the request.
        apps: the classes of the apps that can be called, by name.
        wanted: the effects that the task requests, for the ledger.

    Attributes:
        before, state: The state at the start and now.
        ledger: The irreversible effects.
        ended: The answer and the status that completed the task; None until then.
    """

    def __init__(
        self,
        household: Household,
        instruction: str,
        apps: Mapping[str, AppClass],
        wanted: Iterable[Effect] = (),
    ) -> None:
        self.apps = apps
        self.before = household.state
        self.state: State = household.state.copy()
        self.now = household.now
        self.person = household.person
        self.email = household.person["email"]
        self.addresses = household.addresses
        self.passwords = household.passwords
        self.instruction = instruction
        self.logged_in: set[str] = set()
        self.ledger = Ledger(wanted)
        self.ended: tuple[Any, str] | None = None
        self._calls = 0

    def begin(self) -> None:
        """Begin a turn, with a new budget of calls."""
        self._calls = 0

    def call(self, app: str, api: str, given: dict[str, Any]) -> dict[str, Any]:
        """A call's reply: its value, or the text of its error."""
        self._calls += 1
        if self._calls > CALLS:
            return _TOO_MANY
        kind = self.apps.get(app)
        if kind is None:
            return {"error": UNKNOWN_APP.format(app)}
        found = kind.apis.get(api)
        if found is None:
            return {"error": UNKNOWN_API.format(api, app)}
        try:
            self._check(app, checked(found, given))
            return {"value": getattr(kind(self), api)(**given)}
        except Refusal as refusal:
            told = json.dumps({"message": str(refusal)})
            return {"error": REFUSED.format(refusal.status, told)}

    def token(self, app: str) -> str:
        """The access token of an app."""
        secret = f"{app} {self.email} {self.passwords.get(app)}"
        return blake2b(secret.encode(), digest_size=12).hexdigest()

    def _check(self, app: str, given: dict[str, Any]) -> None:
        """Refuse calls after the end and without log-in."""
        if self.ended is not None:
            raise Refusal(409, _ENDED)
        known = self.token(app) if app in self.logged_in else None
        if given.get("access_token", known) != known:
            raise Refusal(401, _NOT_LOGGED_IN)

    @property
    def lost(self) -> list[Effect]:
        """The losses of texts that existed at the start and are now replaced by others."""
        return [
            Effect("overwritten text", {"table": table, **old})
            for table in _TEXTS
            for row_id, old in self.before.tables[table].items()
            if (row := self.state.get(table, row_id)) is not None and row is not old
            if old["text"].strip() and old["text"] not in row["text"]
        ]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal iff the state, the log-ins, the wanted effects so far, harm and end are equal."""
        done = self.ledger.missing, bool(self.ledger.unasked)
        return (self.state.key, tuple(sorted(self.logged_in)), done, self.ended)
