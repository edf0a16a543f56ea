"""Tasks that begin with mails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import (
    TEXTS,
    Added,
    Changed,
    Family,
    Plan,
    Removed,
    want_mail,
)
from agent_envs.appworld.people import WORDS

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft

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
    limit = draft.time_at(-7)[:10]
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
    day = draft.time_at(days)[:10]
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


FAMILIES = (
    Family(archive_newsletters, 1, ("mail",)),
    Family(delete_old_spam, 1, ("mail",)),
    Family(update_a_phone_number, 2, ("contacts", "mail")),
    Family(event_from_an_invitation, 2, ("mail", "calendar")),
)
