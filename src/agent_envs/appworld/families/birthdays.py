"""Tasks with the birthdays of friends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import Added, Family, Plan
from agent_envs.appworld.reading import Lines

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft


LABELS = (
    *("Birthday of", "Cake for", "Card for", "Flowers for", "Call", "Congratulate", "Visit"),
    *("Present for", "Toast to", "Lunch with", "Coffee with", "Write to", "Song for"),
    *("Dinner with", "Wishes for", "Bake for", "Balloons for", "Brunch with", "Candles for"),
    *("Surprise for", "Poem for"),
)
PRESENTS = (
    *("Presents", "Birthday money", "Gifts sent", "Sent today", "Given away", "Birthdays done"),
    *("Congratulated", "Money gifts", "Today's birthdays", "Friends who got money", "Wishes sent"),
    *("Gift list", "Paid presents", "Celebrated", "Born today", "Party people", "Cake day"),
    *("Received a present", "Birthday people", "Birthday log"),
)


def birthdays_into_the_calendar(draft: Draft) -> Plan:
    """Put the coming birthdays of friends into the calendar."""
    label = draft.scenario(LABELS)
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
        (
            (
                "I keep missing birthdays. For every friend in my contacts whose birthday is "
                "between {first_day} and {last_day}, both included, put an event into my calendar "
                'from 9:00 to 10:00 on that day. Its title is "{label}" and then their full name.'
            ),
            (
                "Which of my friends have their birthday from {first_day} to {last_day}? Add an "
                "event for each of them to my calendar, 9:00 to 10:00 on the day, called "
                '"{label}" followed by their full name.'
            ),
        ),
        {"label": label, "first_day": first_day, "last_day": last_day},
        (
            """
# Collect the friends with their birthdays.
friends = every(apis.contacts.search_contacts, access_token=contacts_token, relationship="friend")
friends = [
    apis.contacts.show_contact(access_token=contacts_token, contact_id=friend["id"])
    for friend in friends
]
print([(friend["name"], friend["birthday"]) for friend in friends])
""",
            """
# Find the days and put the birthdays into the calendar.
from datetime import date, timedelta
day = date.fromisoformat($first_day)
while day <= date.fromisoformat($last_day):
    for friend in friends:
        if friend["birthday"][5:] == day.isoformat()[5:]:
            apis.calendar.create_event(
                access_token=calendar_token, title=$label + " " + friend["name"],
                start=f"{day}T09:00", end=f"{day}T10:00",
            )
    day += timedelta(days=1)
apis.supervisor.complete_task()
""",
        ),
        tuple(changes),
    )


def birthday_money(draft: Draft) -> Plan:
    """Send money to the friends whose birthday it is, and note it."""
    title = draft.scenario(PRESENTS)
    amount = draft.rng.choice((10, 15, 20))
    one, other = draft.people(2, "friend")
    for person in draft.contacts:
        if person["birthday"][5:] == draft.at(0)[5:10]:
            person["birthday"] = person["birthday"][:5] + draft.at(40)[5:10]
    for person in (one, other, *draft.people(1, "coworker")):
        person["birthday"] = f"{draft.rng.randrange(1960, 2003)}{draft.at(0)[4:10]}"
    return Plan(
        (
            (
                "Some friends of mine have their birthday today. Send each of them {amount} with "
                'the note "Happy birthday!", and write a note titled "{title}" that lists their '
                "full names and nothing else, a line each in alphabetical order."
            ),
            (
                "Please see which of my friends were born on this day and send them {amount} each, "
                'with "Happy birthday!" as the note. Then save just their full names as a note '
                'called "{title}", sorted from A to Z, one name a line.'
            ),
        ),
        {"amount": amount, "title": title},
        (
            """
# Find the friends who were born on this day.
friends = every(apis.contacts.search_contacts, access_token=contacts_token, relationship="friend")
friends = [
    apis.contacts.show_contact(access_token=contacts_token, contact_id=friend["id"])
    for friend in friends
]
born = [friend for friend in friends if friend["birthday"][5:] == now[5:10]]
print([friend["name"] for friend in born])
""",
            """
# Send the presents.
for friend in born:
    apis.payments.send_money(
        access_token=payments_token, receiver=friend["email"], amount=$amount,
        note="Happy birthday!",
    )
""",
            """
# Write down who got one.
names = "\\n".join(sorted(friend["name"] for friend in born))
apis.notes.create_note(access_token=notes_token, title=$title, text=names)
apis.supervisor.complete_task()
""",
        ),
        (
            *(
                Added(
                    "transactions",
                    {"receiver": p["email"], "amount": amount, "note": "Happy birthday!"},
                )
                for p in (one, other)
            ),
            Added(
                "notes",
                {"title": title, "text": Lines(tuple(sorted((one["name"], other["name"]))))},
            ),
        ),
    )


FAMILIES = (
    Family(birthdays_into_the_calendar, 2, ("contacts", "calendar")),
    Family(birthday_money, 3, ("contacts", "payments", "notes")),
)
