"""Tasks that one mail, file or event sets off in several apps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import Added, Family, IdOf, Plan, mailed, texts
from agent_envs.appworld.reading import TwoDecimals
from agent_envs.appworld.words import RESTAURANTS

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft

_TEXTS = texts("errands")


def prepare_a_trip(draft: Draft) -> Plan:
    """Turn a mail about a trip into an event, a file and a shopping list."""
    (friend,) = draft.people(1, "friend")
    where = draft.scenario(_TEXTS["prepare_a_trip"].subjects)
    things = draft.rng.sample(("rope", "matches", "tea", "raisins", "sun cream", "batteries"), 3)
    days, hour = draft.rng.randrange(4, 15), draft.rng.randrange(7, 10)
    start, end = draft.at(days, hour), draft.at(days, 20)
    trip = IdOf("lists", {"title": "Trip"})
    body = (
        f"Everything is set for {where}! We leave on {start[:10]} at {start[11:]} and are back "
        f"by 20:00. Please buy: {', '.join(things)}. See you!"
    )
    draft.mail(friend["email"], "Our trip", body, days=1)
    return Plan(
        _TEXTS["prepare_a_trip"],
        {"name": friend["name"], "where": where},
        (
            Added("events", {"title": "Trip", "start": start, "end": end}),
            Added("files", {"path": "/trips/plan.txt", "text": body}),
            Added("lists", {"title": "Trip"}),
            *(Added("items", {"list_id": trip, "name": thing, "quantity": 1}) for thing in things),
        ),
    )


_TASKS = (
    *("order the new chairs", "write the summary", "book the big room", "call the printer"),
    "update the price list",
)


def share_action_items(draft: Draft) -> Plan:
    """Mail each person the task that the minutes of a meeting give them."""
    people = draft.people(3, "coworker")
    tasks = draft.rng.sample(_TASKS, 3)
    lines = [f"{p['name']}: {task}" for p, task in zip(people, tasks, strict=True)]
    team = draft.scenario(_TEXTS["share_action_items"].subjects)
    path = f"/work/{team}.txt"
    draft.file(path, f"Minutes of the {team} meeting\n" + "\n".join(lines), days=1)
    return Plan(
        _TEXTS["share_action_items"],
        {"team": team, "path": path},
        tuple(mailed([p["email"]], "To do", task) for p, task in zip(people, tasks, strict=True)),
    )


def split_the_dinner(draft: Draft) -> Plan:
    """Ask the guests of a dinner for their shares of the bill, and note it."""
    place = draft.scenario(RESTAURANTS)
    guests = draft.people(3, "friend", "coworker")
    share = draft.amount(12, 35)
    days = draft.rng.randrange(1, 5)
    draft.event(f"Dinner at {place}", -days, 19, 150, place, *(g["email"] for g in guests))
    till = f"till@{place.split()[-1].lower()}.example"
    draft.paid(draft.me, till, share * 4, f"dinner {place}", days=days - 1)
    return Plan(
        _TEXTS["split_the_dinner"],
        {"place": place},
        (
            *(
                Added("requests", {"payer": g["email"], "amount": share, "note": "dinner"})
                for g in guests
            ),
            Added("notes", {"title": "Dinner split", "text": TwoDecimals(share)}),
        ),
    )


FAMILIES = (
    Family(prepare_a_trip, 3, ("contacts", "mail", "calendar", "files", "shopping")),
    Family(share_action_items, 3, ("files", "contacts", "mail")),
    Family(split_the_dinner, 3, ("calendar", "payments", "notes")),
)
