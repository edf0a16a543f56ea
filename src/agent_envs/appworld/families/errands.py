"""Tasks that one mail, file or event sets off in several apps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import Added, Family, IdOf, Plan
from agent_envs.appworld.reading import TwoDecimals
from agent_envs.appworld.words import RESTAURANTS

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft


PLACES = (
    *("Lake Morrow", "the Carrow hills", "Eastholm bay", "Fernley forest", "Mount Ansel"),
    *("the Orlen gorge", "Cape Tarrant", "the salt marshes", "Brackwell castle", "Pine Island"),
    *("the Dunmere caves", "Kingsby moor", "the old mines", "Swan River", "the east dunes"),
    *("Hartside valley", "the glass lake", "Ferry Point", "the stone circle", "Larkhill woods"),
)
TEAMS = (
    *("planning", "sales", "budget", "design", "hiring", "safety", "launch", "archive", "press"),
    *("kitchen", "research", "travel", "training", "support", "garden", "housing", "quality"),
    *("library", "summer", "transport", "welcome"),
)


def prepare_a_trip(draft: Draft) -> Plan:
    """Turn a mail about a trip into an event, a file and a shopping list."""
    (friend,) = draft.people(1, "friend")
    where = draft.scenario(PLACES)
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
        (
            (
                'My friend {name} mailed me about our trip to {where}. Put an event "Trip" into my '
                "calendar from when we leave to when we are back, save the text of the mail as "
                '/trips/plan.txt, and make a shopping list "Trip" of what I am to buy, one of each.'
            ),
            (
                "Get me ready for the trip to {where} that my friend {name} wrote to me about: a "
                'calendar event "Trip" from the start to the end of it, a file /trips/plan.txt '
                'with the text of the mail, and a shopping list "Trip" with one of each thing that '
                "I should buy."
            ),
        ),
        {"name": friend["name"], "where": where},
        (
            """
# Find the friend's mail.
(friend,) = apis.contacts.search_contacts(access_token=contacts_token, query=$name)
query = friend["email"] + " " + $where
mails = every(apis.mail.search_mails, access_token=mail_token, query=query)
body = apis.mail.show_mail(access_token=mail_token, mail_id=mails[0]["id"])["body"]
print(body)
""",
            """
# Read the times and the things, and make the event.
import re
day, start, end = re.search("on (.{10}) at (.{5}) and are back by (.{5})", body).groups()
things = re.search("buy: (.*?)[.]", body).group(1).split(", ")
print(day, start, end, things)
apis.calendar.create_event(
    access_token=calendar_token, title="Trip", start=day + "T" + start, end=day + "T" + end
)
""",
            """
# Make the file and the list.
apis.files.create_file(access_token=files_token, path="/trips/plan.txt", text=body)
made = apis.shopping.create_list(access_token=shopping_token, title="Trip")["list_id"]
for thing in things:
    apis.shopping.add_item(access_token=shopping_token, list_id=made, name=thing)
apis.supervisor.complete_task()
""",
        ),
        (
            Added("events", {"title": "Trip", "start": start, "end": end}),
            Added("files", {"path": "/trips/plan.txt", "text": body}),
            Added("lists", {"title": "Trip"}),
            *(Added("items", {"list_id": trip, "name": thing, "quantity": 1}) for thing in things),
        ),
    )


def share_action_items(draft: Draft) -> Plan:
    """Mail each person the task that the minutes of a meeting give them."""
    people = draft.people(3, "coworker")
    tasks = draft.rng.sample(
        (
            "order the new chairs",
            "write the summary",
            "book the big room",
            "call the printer",
            "update the price list",
        ),
        3,
    )
    lines = [f"{p['name']}: {task}" for p, task in zip(people, tasks, strict=True)]
    team = draft.scenario(TEAMS)
    path = f"/work/{team}.txt"
    draft.file(path, f"Minutes of the {team} meeting\n" + "\n".join(lines), days=1)
    return Plan(
        (
            (
                "The minutes of our {team} meeting are in {path}. Send everybody named there a "
                'mail of their own with the subject "To do" and nothing but their task, in the '
                "words of the minutes, as its text."
            ),
            (
                "Please mail each of my coworkers in {path} the task that the minutes give to "
                'them. One mail a person, subject "To do", and as text only their own task, word '
                "for word."
            ),
        ),
        {"team": team, "path": path},
        (
            """
# Read the minutes.
text = apis.files.show_file(access_token=files_token, path=$path)["text"]
tasks = dict(line.split(": ") for line in text.split("\\n")[1:])
print(tasks)
""",
            """
# Look the addresses up.
people = every(apis.contacts.search_contacts, access_token=contacts_token)
addresses = {person["name"]: person["email"] for person in people}
print({name: addresses[name] for name in tasks})
""",
            """
# Write to each.
for name, task in tasks.items():
    apis.mail.send_mail(
        access_token=mail_token, recipients=[addresses[name]], subject="To do",
        body=task,
    )
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Added(
                "mails",
                {
                    "recipients": [p["email"]],
                    "subject": "To do",
                    "body": task,
                },
            )
            for p, task in zip(people, tasks, strict=True)
        ),
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
        (
            (
                "I paid for all of us at the dinner at {place}; it is in my calendar who came "
                "along. Split what I paid evenly between them and me, request everybody's share "
                'with the note "dinner", and write a note titled "Dinner split" with one share as '
                "its whole text, a number with two decimals."
            ),
            (
                "Please settle our dinner at {place}. The guests are in the calendar, the bill is "
                "among my payments. Each guest and I pay the same: request it from each of them "
                'with "dinner" as the note, and make a note "Dinner split" whose text is just the '
                "share, a number with two decimals."
            ),
        ),
        {"place": place},
        (
            """
# Find the dinner and its guests.
query = "Dinner at " + $place
events = every(apis.calendar.search_events, access_token=calendar_token, query=query)
guests = events[-1]["guests"]
print(guests)
""",
            """
# Find the bill.
paid = every(
    apis.payments.list_transactions, access_token=payments_token, direction="sent",
    query="dinner " + $place,
)
share = round(paid[0]["amount"] / (len(guests) + 1), 2)
print(paid[0], share)
""",
            """
# Request the shares and write the note.
for guest in guests:
    apis.payments.request_money(
        access_token=payments_token, payer=guest, amount=share, note="dinner"
    )
apis.notes.create_note(access_token=notes_token, title="Dinner split", text=f"{share:.2f}")
apis.supervisor.complete_task()
""",
        ),
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
