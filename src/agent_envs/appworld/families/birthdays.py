"""Tasks with the birthdays of friends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import Added, Family, Plan, paid, texts
from agent_envs.appworld.reading import Lines

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft

_TEXTS = texts("birthdays")


def birthdays_into_the_calendar(draft: Draft) -> Plan:
    """Put the coming birthdays of friends into the calendar."""
    label = draft.scenario(_TEXTS["birthdays_into_the_calendar"].subjects)
    soon, later = range(1, 13), range(40, 300)
    for friend, when in zip(draft.people(5, "friend"), (soon,) * 3 + (later,) * 2, strict=True):
        days = draft.rng.choice(when)
        friend["birthday"] = f"{draft.rng.randrange(1960, 2003)}{draft.at(days)[4:10]}"
    days_ahead = [draft.at(days)[5:10] for days in range(1, 15)]
    first_day, last_day = draft.at(1)[:10], draft.at(14)[:10]
    changes = []
    for friend in draft.contacts:
        if friend["relationship"] == "friend" and friend["birthday"][5:] in days_ahead:
            day = draft.at(1 + days_ahead.index(friend["birthday"][5:]))[:10]
            fields = {
                "title": f"{label} {friend['name']}",
                "start": f"{day}T09:00",
                "end": f"{day}T10:00",
            }
            changes.append(Added("events", fields))
    return Plan(
        _TEXTS["birthdays_into_the_calendar"],
        {"label": label, "first_day": first_day, "last_day": last_day},
        tuple(changes),
    )


def birthday_money(draft: Draft) -> Plan:
    """Send money to the friends whose birthday it is, and note it."""
    title = draft.scenario(_TEXTS["birthday_money"].subjects)
    amount = draft.rng.choice((10, 15, 20))
    one, other = draft.people(2, "friend")
    for person in draft.contacts:
        if person["birthday"][5:] == draft.at(0)[5:10]:
            person["birthday"] = person["birthday"][:5] + draft.at(40)[5:10]
    for person in (one, other, *draft.people(1, "coworker")):
        person["birthday"] = f"{draft.rng.randrange(1960, 2003)}{draft.at(0)[4:10]}"
    names = Lines(tuple(sorted((one["name"], other["name"]))))
    return Plan(
        _TEXTS["birthday_money"],
        {"amount": amount, "title": title},
        (
            *(paid(person["email"], amount, "Happy birthday!") for person in (one, other)),
            Added("notes", {"title": title, "text": names}),
        ),
    )


FAMILIES = (
    Family(birthdays_into_the_calendar, 2, ("contacts", "calendar")),
    Family(birthday_money, 3, ("contacts", "payments", "notes")),
)
