"""Tasks with the calendar."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import Added, Changed, Family, Plan, Removed
from agent_envs.appworld.reading import MINUTES, Quantity

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft


MEETINGS = (
    *("Workshop", "Interview", "Training", "Rehearsal", "Inspection", "Lecture", "Seminar"),
    *("Briefing", "Tutorial", "Tasting", "Viewing", "Hearing", "Screening", "Consultation"),
    *("Standup", "Retreat", "Audition", "Webinar", "Fitting", "Supervision", "Coaching"),
)
DATES = (
    *("Haircut", "Physiotherapy", "Tax adviser", "Eye test", "Piano lesson", "Blood test"),
    *("Vet", "Parents' evening", "Car inspection", "House viewing", "Notary", "Driving lesson"),
    *("Vaccination", "Language exam", "Plumber", "Chimney sweep", "Theatre", "Farewell lunch"),
    *("Bike repair", "Blood donation", "Locksmith"),
)
MOVED = (
    *("Budget talk", "Design round", "Book circle", "Quarter review", "Site visit", "Press hour"),
    *("Sales forum", "Poetry evening", "Data review", "Kitchen planning", "Safety walk"),
    *("Chess evening", "Hiring round", "Board lunch", "Garden committee", "Debate club"),
    *("Launch rehearsal", "Vendor call", "Science circle", "Risk review", "Archive visit"),
)
PARTIES = (
    *("Summer party", "Quiz night", "Pancake breakfast", "Film night", "Karaoke evening"),
    *("Garden brunch", "Soup kitchen", "Puzzle day", "Costume ball", "Wine tasting"),
    *("Dumpling dinner", "Lantern walk", "Clothes swap", "Table tennis cup", "Jam session"),
    *("Barn dance", "Cheese fondue", "Star gazing", "Flower workshop", "Boat picnic", "Book swap"),
)


def time_in_meetings(draft: Draft) -> Plan:
    """Give the total minutes of the events on some days with a word in their title."""
    word = draft.scenario(MEETINGS)
    topics = ("planning", "sales", "onboarding", "safety", "writing")
    total = 0
    ahead = range(1, 8)
    first_day, last_day = draft.at(ahead[0])[:10], draft.at(ahead[-1])[:10]
    for days, topic in zip(draft.rng.sample(range(1, 12), 5), topics, strict=True):
        minutes = draft.rng.choice((30, 45, 60, 90, 120))
        draft.event(f"{word}: {topic}", days, draft.rng.randrange(9, 16), minutes, "Room 1")
        total += minutes if days in ahead else 0
    return Plan(
        (
            (
                'How many minutes will I spend in events called "{word}: ..." from {first_day} to '
                "{last_day}, both days included? Tell me the total."
            ),
            (
                "Add up the length, in minutes, of everything in my calendar between {first_day} "
                'and {last_day} (both included) whose title begins with "{word}".'
            ),
        ),
        {"word": word, "first_day": first_day, "last_day": last_day},
        (
            """
# List the events of these days.
events = every(
    apis.calendar.list_events, access_token=calendar_token, first_day=$first_day, last_day=$last_day
)
print([(event["title"], event["start"], event["end"]) for event in events])
""",
            """
# Add up their lengths.
from datetime import datetime
total = 0
for event in events:
    if event["title"].startswith($word):
        length = datetime.fromisoformat(event["end"]) - datetime.fromisoformat(event["start"])
        total += length.seconds // 60
apis.supervisor.complete_task(answer=total)
""",
        ),
        answer=Quantity(total, MINUTES),
    )


def cancel_a_day(draft: Draft) -> Plan:
    """Delete all events of a day but one."""
    kept = draft.scenario(DATES)
    days = draft.rng.randrange(1, 7)
    day = draft.at(days)[:10]
    titles = [kept, *draft.rng.sample([title for title in DATES if title != kept], 4)]
    for title, hour in zip(titles[:4], draft.rng.sample(range(8, 18), 4), strict=True):
        draft.event(title, days, hour, 45)
    draft.event(titles[4], days + 1, 10, 30)
    others = [
        event
        for event in draft.rows["events"]
        if event["start"][:10] == day and event["title"] != kept
    ]
    return Plan(
        (
            (
                "Something came up on {day}. Delete every event that starts on that day from my "
                'calendar, except for "{kept}".'
            ),
            (
                'Please clear my calendar for {day}: of that day\'s events only "{kept}" stays, '
                "delete all others."
            ),
        ),
        {"day": day, "kept": kept},
        (
            """
# List the events of that day.
events = every(
    apis.calendar.list_events, access_token=calendar_token, first_day=$day, last_day=$day
)
print([event["title"] for event in events])
""",
            """
# Delete them.
for event in events:
    if event["title"] != $kept:
        apis.calendar.delete_event(access_token=calendar_token, event_id=event["id"])
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Removed("events", {"title": event["title"], "start": event["start"]})
            for event in others
        ),
    )


def postpone_and_tell(draft: Draft) -> Plan:
    """Move an event by a day and tell its guests by mail."""
    guests = draft.people(3, "coworker", "friend")
    title = draft.scenario(MOVED)
    days, hour = draft.rng.randrange(1, 6), draft.rng.randrange(9, 16)
    draft.event(title, days, hour, 60, "Room 3", *(guest["email"] for guest in guests))
    event = draft.rows["events"][-1]
    new_day = (date.fromisoformat(event["start"][:10]) + timedelta(days=1)).isoformat()
    fields = {"start": new_day + event["start"][10:], "end": new_day + event["end"][10:]}
    return Plan(
        (
            (
                'Move the event "{title}" in my calendar to the next day, at the same time, and '
                'send all its guests one mail together, with the subject "{title} moved" and just '
                "the new day, written as in {example}, as its text."
            ),
            (
                'I cannot make it to "{title}". Put it off by exactly one day in my calendar and '
                'let the guests know, in a single mail to all of them with "{title} moved" as its '
                "subject and nothing but the new day, written as in {example}, as its text."
            ),
        ),
        {"title": title, "example": "2024-01-31"},
        (
            """
# Find the event.
events = every(apis.calendar.search_events, access_token=calendar_token, query=$title)
(event,) = [event for event in events if event["title"] == $title]
print(event)
""",
            """
# Move it by a day.
from datetime import datetime, timedelta
start = datetime.fromisoformat(event["start"]) + timedelta(days=1)
end = datetime.fromisoformat(event["end"]) + timedelta(days=1)
apis.calendar.update_event(
    access_token=calendar_token, event_id=event["id"],
    start=start.strftime("%Y-%m-%dT%H:%M"), end=end.strftime("%Y-%m-%dT%H:%M"),
)
""",
            """
# Tell the guests.
apis.mail.send_mail(
    access_token=mail_token, recipients=event["guests"], subject=$title + " moved",
    body=start.strftime("%Y-%m-%d"),
)
apis.supervisor.complete_task()
""",
        ),
        (
            Changed("events", {"title": title}, fields),
            Added(
                "mails",
                {
                    "recipients": frozenset(guest["email"] for guest in guests),
                    "subject": f"{title} moved",
                    "body": new_day,
                },
            ),
        ),
    )


def invite_from_a_note(draft: Draft) -> Plan:
    """Make an event with the guests that a note names, and send them an invitation."""
    guests = draft.people(3, "friend", "neighbour")
    occasion = draft.scenario(PARTIES)
    days, hour = draft.rng.randrange(5, 20), draft.rng.randrange(10, 19)
    day = draft.at(days)[:10]
    names = "\n".join(f"* {guest['name']}" for guest in guests)
    draft.note(f"{occasion} guests", names, "ideas")
    draft.note("Other guests", "* Nobody yet", "ideas")
    start, end = draft.at(days, hour), draft.at(days, hour + 3)
    return Plan(
        (
            (
                'I am planning the "{occasion}" on {day} from {hour}:00 to {end}:00. The guests '
                "are in my notes. Put it into my calendar with all of them as guests, and send "
                'each of them a mail of their own with the subject "{occasion}" and just "{day}" '
                "as its text."
            ),
            (
                'Set up the "{occasion}": a calendar event on {day}, {hour}:00 to {end}:00, with '
                "the people from my note about its guests invited to it, and a separate mail to "
                'each of them with the subject "{occasion}" and the day, {day}, as its whole text.'
            ),
        ),
        {"occasion": occasion, "day": day, "hour": hour, "end": hour + 3},
        (
            """
# Read who is to come.
(note,) = apis.notes.search_notes(access_token=notes_token, query=$occasion + " guests")
text = apis.notes.show_note(access_token=notes_token, note_id=note["id"])["text"]
names = [line[2:] for line in text.split("\\n")]
print(names)
""",
            """
# Look up their addresses.
people = every(apis.contacts.search_contacts, access_token=contacts_token)
addresses = [person["email"] for person in people if person["name"] in names]
print(addresses)
""",
            """
# Make the event and write to everybody.
apis.calendar.create_event(
    access_token=calendar_token, title=$occasion, guests=addresses,
    start=f"{$day}T{$hour:02d}:00", end=f"{$day}T{$end:02d}:00",
)
for address in addresses:
    apis.mail.send_mail(
        access_token=mail_token, recipients=[address], subject=$occasion,
        body=$day,
    )
apis.supervisor.complete_task()
""",
        ),
        (
            Added(
                "events",
                {
                    "title": occasion,
                    "start": start,
                    "end": end,
                    "guests": frozenset(guest["email"] for guest in guests),
                },
            ),
            *(
                Added("mails", {"recipients": [guest["email"]], "subject": occasion, "body": day})
                for guest in guests
            ),
        ),
    )


FAMILIES = (
    Family(time_in_meetings, 1, ("calendar",)),
    Family(cancel_a_day, 1, ("calendar",)),
    Family(postpone_and_tell, 2, ("calendar", "mail")),
    Family(invite_from_a_note, 3, ("notes", "contacts", "calendar", "mail")),
)
