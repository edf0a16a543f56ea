"""Tasks with payments, mails, events and birthdays."""

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
from agent_envs.appworld.reading import MINUTES, MONEY, Lines, Quantity, TwoDecimals

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft


def total_for_a_purpose(draft: Draft) -> Plan:
    """Give the total that was sent for a purpose in the last weeks."""
    purpose = draft.choose_subject(TEXTS["total_for_a_purpose"].subjects)
    days = draft.rng.choice((14, 30))
    total = 0.0
    paid_on = draft.rng.sample(range(1, 55), 6)
    while min(paid_on) >= days:  # a total of nothing would be known without a look
        paid_on = draft.rng.sample(range(1, 55), 6)
    for back in paid_on:
        (other,) = draft.choose_people(1)
        amount = draft.draw_amount(10, 60)
        draft.add_payment(draft.me, other["email"], amount, purpose, days=back)
        total += amount if back < days else 0
    (other,) = draft.choose_people(1)
    draft.add_payment(other["email"], draft.me, draft.draw_amount(10, 60), purpose, days=3)
    first_day = draft.format_time(1 - days)[:10]
    return Plan(
        {"purpose": purpose, "first_day": first_day}, answer=Quantity(round(total, 2), MONEY)
    )


def decline_strangers(draft: Draft) -> Plan:
    """Decline the requests for money that mention a purpose."""
    event = draft.choose_subject(TEXTS["decline_strangers"].subjects)
    strangers = [f"{event}{number}@quickcash.example" for number in (1, 2, 3)]
    amounts = [draft.draw_amount(20, 90) for _ in strangers]
    for stranger, amount in zip(strangers, amounts, strict=True):
        draft.add_request(stranger, draft.me, amount, f"{event} fee")
    for friend in draft.choose_people(2, "friend"):
        draft.add_request(friend["email"], draft.me, draft.draw_amount(5, 30), "cinema tickets")
    return Plan(
        {"event": event},
        tuple(
            Changed("requests", {"requester": stranger}, {"status": "declined"})
            for stranger in strangers
        ),
    )


def pay_the_family(draft: Draft) -> Plan:
    """Pay the family's open requests for an occasion, decline those of coworkers."""
    occasion = draft.choose_subject(TEXTS["pay_the_family"].subjects)
    family = draft.choose_people(2, "family")
    coworkers = draft.choose_people(2, "coworker")
    asked: dict[str, tuple[float, str]] = {}
    for number, person in enumerate((*family, *coworkers)):
        kind = ("tickets", "present", "lunch", "parking")[number]
        amount, note = draft.draw_amount(8, 60), f"{occasion} {kind}"
        asked[person["email"]] = amount, note
        draft.add_request(person["email"], draft.me, amount, note)
        draft.add_request(person["email"], draft.me, draft.draw_amount(8, 60), kind)

    def answer_request(email: str, status: str) -> Changed:
        return Changed(
            "requests", {"requester": email, "note": asked[email][1]}, {"status": status}
        )

    def accept_request(email: str) -> tuple[Changed, Added]:
        return answer_request(email, "paid"), want_payment(email, *asked[email])

    # Others ask for the same things and amounts: neither of them says who is to be paid.
    others = draft.choose_people(1, "friend") + draft.choose_people(1, "neighbour")
    for person, like in zip(others, (family, coworkers), strict=True):
        draft.add_request(person["email"], draft.me, *asked[draft.rng.choice(like)["email"]])
    return Plan(
        {"occasion": occasion},
        tuple(change for person in family for change in accept_request(person["email"]))
        + tuple(answer_request(person["email"], "declined") for person in coworkers),
    )


def remind_debtors(draft: Draft) -> Plan:
    """Mail everybody who has not paid what they were asked for."""
    debtors = draft.choose_people(3, "friend", "coworker")
    purpose = draft.choose_subject(TEXTS["remind_debtors"].subjects)
    owed = [draft.draw_amount(8, 40) for _ in debtors[:2]]
    for person, amount in zip(debtors[:2], owed, strict=True):
        draft.add_request(draft.me, person["email"], amount, purpose)
    draft.add_request(draft.me, debtors[2]["email"], draft.draw_amount(8, 40), purpose, "paid")
    return Plan(
        {"purpose": purpose},
        tuple(
            want_mail([person["email"]], f"Reminder: {purpose}", TwoDecimals(amount))
            for person, amount in zip(debtors[:2], owed, strict=True)
        ),
    )


def spending_report(draft: Draft) -> Plan:
    """Write a file with the total paid to a shop."""
    shop = draft.choose_subject(WORDS["shops"])
    address = f"till@{shop.split()[0].lower()}.example"
    amounts = [draft.draw_amount(5, 80) for _ in range(4)]
    for amount, days in zip(amounts, draft.rng.sample(range(1, 58), 4), strict=True):
        draft.add_payment(draft.me, address, amount, f"{shop} order", days=days)
    total = round(sum(amounts), 2)
    path = "/money/" + shop.split()[0].lower() + ".txt"
    return Plan(
        {"shop": shop, "path": path}, (Added("files", {"path": path, "text": TwoDecimals(total)}),)
    )


_GOODS = TEXTS["delete_old_spam"].subjects
_SPAM = tuple(zip(_GOODS, (*_GOODS[7:], *_GOODS[:7]), strict=True))
"""What the spam to be deleted is about, and what other spam is about."""


def archive_newsletters(draft: Draft) -> Plan:
    """Move all mails of one sender from the inbox to the archive."""
    name, subject, body = draft.choose_subject(WORDS["newsletters"])
    sender = f"news@{name}.example"
    draft.rows["mails"] = [mail for mail in draft.rows["mails"] if mail["sender"] != sender]
    issues = range(1, draft.rng.randrange(3, 6))
    for number, days in zip(issues, draft.rng.sample(range(1, 60), len(issues)), strict=True):
        draft.add_mail(sender, f"{subject} ({number})", body, days=days)
    draft.add_mail(sender, f"{subject} (special)", body, days=70, folder="archive")
    mails = draft.rows["mails"][-1 - len(issues) : -1]
    return Plan(
        {"sender": sender},
        tuple(
            Changed("mails", {"sender": sender, "subject": mail["subject"]}, {"folder": "archive"})
            for mail in mails
        ),
    )


def delete_old_spam(draft: Draft) -> Plan:
    """Delete the spam that is older than a week."""
    topic, other = draft.choose_subject(_SPAM)
    kinds = (
        "Cheap {}",
        "Your {} inside",
        "The secret of {}",
        "Last warning: {}",
        "Free {}, act now",
    )
    days = [draft.rng.randrange(8, 50) for _ in (1, 2, 3)] + [draft.rng.randrange(1, 6)] * 2
    for kind, ago in zip(draft.rng.sample(kinds, 5), days, strict=True):
        for word in (topic, other):
            sender = f"noreply{draft.rng.randrange(100, 999)}@bulk.example"
            text = "Click here before it is too late."
            draft.add_mail(sender, kind.format(word), text, days=ago, folder="spam")
    limit = draft.format_time(-7)[:10]
    old = [
        mail
        for mail in draft.rows["mails"]
        if mail["folder"] == "spam" and topic in mail["subject"] and mail["sent_at"][:10] < limit
    ]
    return Plan(
        {"topic": topic, "limit": limit},
        tuple(
            Removed("mails", {"sender": mail["sender"], "subject": mail["subject"]}) for mail in old
        ),
    )


def update_a_phone_number(draft: Draft) -> Plan:
    """Copy the new phone number from a mail into the contacts."""
    person, other = draft.choose_people(2, "friend", "coworker")
    phone = f"555-{draft.rng.randrange(10_000):04d}-{draft.rng.randrange(100):02d}"
    draft.add_mail(
        person["email"],
        "New number",
        f"I have changed my provider, so this is my new phone number: {phone}. "
        "The old one stops working on Friday.",
        days=1,
    )
    draft.add_mail(
        other["email"],
        "Your number",
        "Is 555-0000-00 still your phone number? Just asking.",
        days=1,
    )
    return Plan(
        {"name": person["name"]},
        (Changed("contacts", {"email": person["email"]}, {"phone": phone}),),
    )


def event_from_an_invitation(draft: Draft) -> Plan:
    """Put the event that a mail invites to into the calendar, and accept by mail."""
    (friend,) = draft.choose_people(1, "friend", "family")
    what = draft.choose_subject(TEXTS["event_from_an_invitation"].subjects)
    place = f"{draft.rng.randrange(1, 90)} {draft.rng.choice(WORDS['streets'])}"
    days, hour = draft.rng.randrange(3, 12), draft.rng.randrange(16, 20)
    day = draft.format_time(days)[:10]
    draft.add_mail(
        friend["email"],
        f"Invitation: {what}",
        f"You are invited! What: {what}. Where: {place}. When: {day} from {hour}:00 to "
        f"{hour + 3}:00. Bring somebody along if you like.",
        days=1,
    )
    return Plan(
        {"name": friend["name"], "what": what},
        (
            Added(
                "events",
                {
                    "title": what,
                    "place": place,
                    "start": f"{day}T{hour}:00",
                    "end": f"{day}T{hour + 3}:00",
                },
            ),
            want_mail([friend["email"]], f"Re: Invitation: {what}", "I am coming."),
        ),
    )


def time_in_meetings(draft: Draft) -> Plan:
    """Give the total minutes of the events on some days with a word in their title."""
    word = draft.choose_subject(TEXTS["time_in_meetings"].subjects)
    topics = ("planning", "sales", "onboarding", "safety", "writing")
    total = 0
    ahead = range(1, 8)
    first_day, last_day = draft.format_time(ahead[0])[:10], draft.format_time(ahead[-1])[:10]
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
    day = draft.format_time(days)[:10]
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
    day = draft.format_time(days)[:10]
    names = "\n".join(f"* {guest['name']}" for guest in guests)
    draft.add_note(f"{occasion} guests", names, "ideas")
    draft.add_note("Other guests", "* Nobody yet", "ideas")
    event = {
        "title": occasion,
        "start": draft.format_time(days, hour),
        "end": draft.format_time(days, hour + 3),
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
        friend["birthday"] = f"{draft.rng.randrange(1960, 2003)}{draft.format_time(days)[4:10]}"
    days_ahead = [draft.format_time(days)[5:10] for days in range(1, 15)]
    first_day, last_day = draft.format_time(1)[:10], draft.format_time(14)[:10]
    changes = []
    for friend in draft.contacts:
        if friend["relationship"] == "friend" and friend["birthday"][5:] in days_ahead:
            day = draft.format_time(1 + days_ahead.index(friend["birthday"][5:]))[:10]
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
        if person["birthday"][5:] == draft.format_time(0)[5:10]:
            person["birthday"] = person["birthday"][:5] + draft.format_time(40)[5:10]
    for person in (one, other, *draft.choose_people(1, "coworker")):
        person["birthday"] = f"{draft.rng.randrange(1960, 2003)}{draft.format_time(0)[4:10]}"
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
    start, end = draft.format_time(days, hour), draft.format_time(days, 20)
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
    Family(total_for_a_purpose, 1, ("payments",)),
    Family(decline_strangers, 1, ("payments",)),
    Family(pay_the_family, 2, ("payments", "contacts")),
    Family(remind_debtors, 2, ("payments", "mail")),
    Family(spending_report, 2, ("payments", "files")),
    Family(archive_newsletters, 1, ("mail",)),
    Family(delete_old_spam, 1, ("mail",)),
    Family(update_a_phone_number, 2, ("contacts", "mail")),
    Family(event_from_an_invitation, 2, ("mail", "calendar")),
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
