"""The calendar app."""

from __future__ import annotations

from typing import Any

from agent_envs.appworld.apis import (
    LONGEST_LIST,
    Count,
    Day,
    Email,
    Emails,
    Moment,
    PageLimit,
    Refusal,
    Text,
    Token,
)
from agent_envs.appworld.apps.app import App, has_words, only, page

_TOLD = ("title", "start", "end", "place")


class Calendar(App):
    """Keep appointments, with their times, places and guests."""

    name = "calendar"

    def list_events(
        self,
        access_token: Token,
        first_day: Day,
        last_day: Day,
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
        """List the events that start on some days, in the order of their times.

        Gives: a list of id, title, start, end, place, guests

        Args:
            first_day: the first day to list
            last_day: the last day to list
        """
        events = [e for e in self._in_order() if first_day <= e["start"][:10] <= last_day]
        return page(events, page_index, page_limit)

    def search_events(
        self,
        access_token: Token,
        query: Text,
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
        """Find events by words of their title or place, in the order of their times.

        Gives: a list of id, title, start, end, place, guests

        Args:
            query: words that title or place must have, all of them
        """
        found = [e for e in self._in_order() if has_words(query, e["title"], e["place"])]
        return page(found, page_index, page_limit)

    def show_event(self, access_token: Token, event_id: int) -> dict[str, Any]:
        """Show an event.

        Gives: id, title, start, end, place, guests

        Args:
            event_id: id of the event
        """
        return dict(self._found("events", event_id, "event"))

    def create_event(
        self,
        access_token: Token,
        title: Text,
        start: Moment,
        end: Moment,
        place: str = "",
        guests: Emails | None = None,
    ) -> dict[str, int]:
        """Put an event into the calendar.

        Gives: event_id

        Args:
            title: what it is
            start: when it starts
            end: when it ends
            place: where it is
            guests: email addresses of those invited, who get an invitation
        """
        start, end = _ordered(start, end)
        invited = list(dict.fromkeys(guests or []))
        event_id = self._add(
            "events", title=title, start=start, end=end, place=place, guests=invited
        )
        for guest in invited:
            self._invite(event_id, guest)
        return {"event_id": event_id}

    def update_event(
        self,
        access_token: Token,
        event_id: int,
        title: Text | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        place: str | None = None,
    ) -> None:
        """Change title, times or place of an event; what is not given stays, guests are not told.

        Args:
            event_id: id of the event
            title: what it is
            start: when it starts
            end: when it ends
            place: where it is
        """
        event = self._found("events", event_id, "event")
        start, end = _ordered(start or event["start"], end or event["end"])
        new = {
            "title": event["title"] if title is None else title,
            "place": event["place"] if place is None else place,
        }
        self._state.change("events", event_id, start=start, end=end, **new)

    def delete_event(self, access_token: Token, event_id: int) -> None:
        """Delete an event for good; its guests are not told.

        Args:
            event_id: id of the event
        """
        self._found("events", event_id, "event")
        self._remove("events", event_id)

    def invite_guest(self, access_token: Token, event_id: int, email: Email) -> None:
        """Invite somebody to an event; they get an invitation.

        Args:
            event_id: id of the event
            email: email address of the guest
        """
        guests = self._found("events", event_id, "event")["guests"]
        if email in guests:
            raise Refusal(409, f"{email} is already invited.")
        if len(guests) >= LONGEST_LIST:
            raise Refusal(409, f"An event has at most {LONGEST_LIST} guests.")
        self._state.change("events", event_id, guests=[*guests, email])
        self._invite(event_id, email)

    def uninvite_guest(self, access_token: Token, event_id: int, email: Email) -> None:
        """Take a guest off an event; they are not told.

        Args:
            event_id: id of the event
            email: email address of the guest
        """
        guests = self._found("events", event_id, "event")["guests"]
        if email not in guests:
            raise Refusal(404, f"{email} is not invited.")
        before = self._session.before.get("events", event_id)
        if before is not None and email in before["guests"]:
            self._effect("uninvited guest", guest=email, **only(before, *_TOLD))
        self._state.change("events", event_id, guests=[g for g in guests if g != email])

    def _invite(self, event_id: int, guest: str) -> None:
        """Write an invitation into the ledger: what the guest reads."""
        event = self._found("events", event_id, "event")
        self._effect("invitation", guest=guest, **only(event, *_TOLD))

    def _in_order(self) -> list[dict[str, Any]]:
        events = [dict(event) for event in self._state.rows("events")]
        return sorted(events, key=lambda event: (event["start"], event["id"]))


def _ordered(start: str, end: str) -> tuple[str, str]:
    """Both to the minute."""
    start, end = start[:16], end[:16]
    if end <= start:
        raise Refusal(422, f"An event must end after it starts, got {start} to {end}.")
    return start, end
