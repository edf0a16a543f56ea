"""Tasks around events, birthdays, trips, meetings and dinners."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import (
    TEXTS,
    Added,
    Changed,
    Family,
    IdOf,
    Plan,
    Removed,
    want_mail,
    want_payment,
)
from agent_envs.appworld.people import WORDS
from agent_envs.appworld.reading import MINUTES, Lines, Quantity, TwoDecimals

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft


def time_in_meetings(draft: Draft) -> Plan:
    """Give the total minutes of the events on some days with a word in their title."""
    word = draft.choose_subject(TEXTS["time_in_meetings"].subjects)
    topics = ("planning", "sales", "onboarding", "safety", "writing")
    total = 0
    ahead = range(1, 8)
    first_day, last_day = draft.time_at(ahead[0])[:10], draft.time_at(ahead[-1])[:10]
    for days, topic in zip(draft.rng.sample(range(1, 12), 5), topics, strict=True):
        minutes = draft.rng.choice((30, 45, 60, 90, 120))
        draft.add_event(f"{word}: {topic}", days, draft.rng.randrange(9, 16), minutes, "Room 1")
        total += minutes if days in ahead else 0
    return Plan(
        {"word": word, "first_day": first_day, "last_day": last_day},
        answer=Quantity(total, MINUTES),
    )


def cancel_a_day(draft: Draft) -> Plan:
    """Delete all events of a day but one."""
    titles = TEXTS["cancel_a_day"].subjects
    kept = draft.choose_subject(titles)
    days = draft.rng.randrange(1, 7)
    day = draft.time_at(days)[:10]
    *others, later = draft.rng.sample([title for title in titles if title != kept], 4)
    for title, hour in zip([kept, *others], draft.rng.sample(range(8, 18), 4), strict=True):
        draft.add_event(title, days, hour, 45)
    draft.add_event(later, days + 1, 10, 30)
    return Plan(
        {"day": day, "kept": kept},
        tuple(
            Removed("events", {"title": event["title"], "start": event["start"]})
            for event in draft.rows["events"]
            if event["start"][:10] == day and event["title"] != kept
        ),
    )


def postpone_and_tell(draft: Draft) -> Plan:
    """Move an event by a day and tell its guests by mail."""
    guests = draft.choose_people(3, "coworker", "friend")
    title = draft.choose_subject(TEXTS["postpone_and_tell"].subjects)
    days, hour = draft.rng.randrange(1, 6), draft.rng.randrange(9, 16)
    draft.add_event(title, days, hour, 60, "Room 3", *(guest["email"] for guest in guests))
    event = draft.rows["events"][-1]
    new_day = (date.fromisoformat(event["start"][:10]) + timedelta(days=1)).isoformat()
    fields = {"start": new_day + event["start"][10:], "end": new_day + event["end"][10:]}
    return Plan(
        {"title": title, "example": "2024-01-31"},
        (
            Changed("events", {"title": title}, fields),
            want_mail(frozenset(guest["email"] for guest in guests), f"{title} moved", new_day),
        ),
    )


def invite_from_a_note(draft: Draft) -> Plan:
    """Make an event with the guests that a note names, and send them an invitation."""
    guests = draft.choose_people(3, "friend", "neighbour")
    occasion = draft.choose_subject(TEXTS["invite_from_a_note"].subjects)
    days, hour = draft.rng.randrange(5, 20), draft.rng.randrange(10, 19)
    day = draft.time_at(days)[:10]
    names = "\n".join(f"* {guest['name']}" for guest in guests)
    draft.add_note(f"{occasion} guests", names, "ideas")
    draft.add_note("Other guests", "* Nobody yet", "ideas")
    event = {
        "title": occasion,
        "start": draft.time_at(days, hour),
        "end": draft.time_at(days, hour + 3),
        "guests": frozenset(guest["email"] for guest in guests),
    }
    return Plan(
        {"occasion": occasion, "day": day, "hour": hour, "end": hour + 3},
        (Added("events", event), *(want_mail([guest["email"]], occasion, day) for guest in guests)),
    )


def birthdays_into_the_calendar(draft: Draft) -> Plan:
    """Put the coming birthdays of friends into the calendar."""
    label = draft.choose_subject(TEXTS["birthdays_into_the_calendar"].subjects)
    soon, later = range(1, 13), range(40, 300)
    for friend, when in zip(
        draft.choose_people(5, "friend"), (soon,) * 3 + (later,) * 2, strict=True
    ):
        days = draft.rng.choice(when)
        friend["birthday"] = f"{draft.rng.randrange(1960, 2003)}{draft.time_at(days)[4:10]}"
    days_ahead = [draft.time_at(days)[5:10] for days in range(1, 15)]
    first_day, last_day = draft.time_at(1)[:10], draft.time_at(14)[:10]
    changes = []
    for friend in draft.contacts:
        if friend["relationship"] == "friend" and friend["birthday"][5:] in days_ahead:
            day = draft.time_at(1 + days_ahead.index(friend["birthday"][5:]))[:10]
            fields = {
                "title": f"{label} {friend['name']}",
                "start": f"{day}T09:00",
                "end": f"{day}T10:00",
            }
            changes.append(Added("events", fields))
    return Plan({"label": label, "first_day": first_day, "last_day": last_day}, tuple(changes))


def birthday_money(draft: Draft) -> Plan:
    """Send money to the friends whose birthday it is, and note it."""
    title = draft.choose_subject(TEXTS["birthday_money"].subjects)
    amount = draft.rng.choice((10, 15, 20))
    one, other = draft.choose_people(2, "friend")
    for person in draft.contacts:
        if person["birthday"][5:] == draft.time_at(0)[5:10]:
            person["birthday"] = person["birthday"][:5] + draft.time_at(40)[5:10]
    for person in (one, other, *draft.choose_people(1, "coworker")):
        person["birthday"] = f"{draft.rng.randrange(1960, 2003)}{draft.time_at(0)[4:10]}"
    names = Lines(tuple(sorted((one["name"], other["name"]))))
    return Plan(
        {"amount": amount, "title": title},
        (
            *(want_payment(person["email"], amount, "Happy birthday!") for person in (one, other)),
            Added("notes", {"title": title, "text": names}),
        ),
    )


def prepare_a_trip(draft: Draft) -> Plan:
    """Turn a mail about a trip into an event, a file and a shopping list."""
    (friend,) = draft.choose_people(1, "friend")
    where = draft.choose_subject(TEXTS["prepare_a_trip"].subjects)
    things = draft.rng.sample(("rope", "matches", "tea", "raisins", "sun cream", "batteries"), 3)
    days, hour = draft.rng.randrange(4, 15), draft.rng.randrange(7, 10)
    start, end = draft.time_at(days, hour), draft.time_at(days, 20)
    trip = IdOf("lists", {"title": "Trip"})
    body = (
        f"Everything is set for {where}! We leave on {start[:10]} at {start[11:]} and are back "
        f"by 20:00. Please buy: {', '.join(things)}. See you!"
    )
    draft.add_mail(friend["email"], "Our trip", body, days=1)
    return Plan(
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
    people = draft.choose_people(3, "coworker")
    tasks = draft.rng.sample(_TASKS, 3)
    lines = [f"{p['name']}: {task}" for p, task in zip(people, tasks, strict=True)]
    team = draft.choose_subject(TEXTS["share_action_items"].subjects)
    path = f"/work/{team}.txt"
    draft.add_file(path, f"Minutes of the {team} meeting\n" + "\n".join(lines), days=1)
    return Plan(
        {"team": team, "path": path},
        tuple(
            want_mail([p["email"]], "To do", task) for p, task in zip(people, tasks, strict=True)
        ),
    )


def split_the_dinner(draft: Draft) -> Plan:
    """Ask the guests of a dinner for their shares of the bill, and note it."""
    place = draft.choose_subject(WORDS["restaurants"])
    guests = draft.choose_people(3, "friend", "coworker")
    share = draft.draw_amount(12, 35)
    days = draft.rng.randrange(1, 5)
    draft.add_event(f"Dinner at {place}", -days, 19, 150, place, *(g["email"] for g in guests))
    till = f"till@{place.split()[-1].lower()}.example"
    draft.add_payment(draft.me, till, share * 4, f"dinner {place}", days=days - 1)
    return Plan(
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
    Family(time_in_meetings, 1, ("calendar",)),
    Family(cancel_a_day, 1, ("calendar",)),
    Family(postpone_and_tell, 2, ("calendar", "mail")),
    Family(invite_from_a_note, 3, ("notes", "contacts", "calendar", "mail")),
    Family(birthdays_into_the_calendar, 2, ("contacts", "calendar")),
    Family(birthday_money, 3, ("contacts", "payments", "notes")),
    Family(prepare_a_trip, 3, ("contacts", "mail", "calendar", "files", "shopping")),
    Family(share_action_items, 3, ("files", "contacts", "mail")),
    Family(split_the_dinner, 3, ("calendar", "payments", "notes")),
)
