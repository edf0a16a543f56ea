"""Tasks with the calendar."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import Added, Changed, Family, Plan, Removed, mailed, texts
from agent_envs.appworld.reading import MINUTES, Quantity

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft

_TEXTS = texts("days")


def time_in_meetings(draft: Draft) -> Plan:
    """Give the total minutes of the events on some days with a word in their title."""
    word = draft.scenario(_TEXTS["time_in_meetings"].subjects)
    topics = ("planning", "sales", "onboarding", "safety", "writing")
    total = 0
    ahead = range(1, 8)
    first_day, last_day = draft.at(ahead[0])[:10], draft.at(ahead[-1])[:10]
    for days, topic in zip(draft.rng.sample(range(1, 12), 5), topics, strict=True):
        minutes = draft.rng.choice((30, 45, 60, 90, 120))
        draft.event(f"{word}: {topic}", days, draft.rng.randrange(9, 16), minutes, "Room 1")
        total += minutes if days in ahead else 0
    return Plan(
        _TEXTS["time_in_meetings"],
        {"word": word, "first_day": first_day, "last_day": last_day},
        answer=Quantity(total, MINUTES),
    )


def cancel_a_day(draft: Draft) -> Plan:
    """Delete all events of a day but one."""
    titles = _TEXTS["cancel_a_day"].subjects
    kept = draft.scenario(titles)
    days = draft.rng.randrange(1, 7)
    day = draft.at(days)[:10]
    *others, later = draft.rng.sample([title for title in titles if title != kept], 4)
    for title, hour in zip([kept, *others], draft.rng.sample(range(8, 18), 4), strict=True):
        draft.event(title, days, hour, 45)
    draft.event(later, days + 1, 10, 30)
    return Plan(
        _TEXTS["cancel_a_day"],
        {"day": day, "kept": kept},
        tuple(
            Removed("events", {"title": event["title"], "start": event["start"]})
            for event in draft.rows["events"]
            if event["start"][:10] == day and event["title"] != kept
        ),
    )


def postpone_and_tell(draft: Draft) -> Plan:
    """Move an event by a day and tell its guests by mail."""
    guests = draft.people(3, "coworker", "friend")
    title = draft.scenario(_TEXTS["postpone_and_tell"].subjects)
    days, hour = draft.rng.randrange(1, 6), draft.rng.randrange(9, 16)
    draft.event(title, days, hour, 60, "Room 3", *(guest["email"] for guest in guests))
    event = draft.rows["events"][-1]
    new_day = (date.fromisoformat(event["start"][:10]) + timedelta(days=1)).isoformat()
    fields = {"start": new_day + event["start"][10:], "end": new_day + event["end"][10:]}
    return Plan(
        _TEXTS["postpone_and_tell"],
        {"title": title, "example": "2024-01-31"},
        (
            Changed("events", {"title": title}, fields),
            mailed(frozenset(guest["email"] for guest in guests), f"{title} moved", new_day),
        ),
    )


def invite_from_a_note(draft: Draft) -> Plan:
    """Make an event with the guests that a note names, and send them an invitation."""
    guests = draft.people(3, "friend", "neighbour")
    occasion = draft.scenario(_TEXTS["invite_from_a_note"].subjects)
    days, hour = draft.rng.randrange(5, 20), draft.rng.randrange(10, 19)
    day = draft.at(days)[:10]
    names = "\n".join(f"* {guest['name']}" for guest in guests)
    draft.note(f"{occasion} guests", names, "ideas")
    draft.note("Other guests", "* Nobody yet", "ideas")
    event = {
        "title": occasion,
        "start": draft.at(days, hour),
        "end": draft.at(days, hour + 3),
        "guests": frozenset(guest["email"] for guest in guests),
    }
    return Plan(
        _TEXTS["invite_from_a_note"],
        {"occasion": occasion, "day": day, "hour": hour, "end": hour + 3},
        (
            Added("events", event),
            *(mailed([guest["email"]], occasion, day) for guest in guests),
        ),
    )


FAMILIES = (
    Family(time_in_meetings, 1, ("calendar",)),
    Family(cancel_a_day, 1, ("calendar",)),
    Family(postpone_and_tell, 2, ("calendar", "mail")),
    Family(invite_from_a_note, 3, ("notes", "contacts", "calendar", "mail")),
)
