"""Tasks that begin with mails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import Added, Changed, Family, Has, Plan, Removed
from agent_envs.appworld.words import NEWSLETTERS

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft


def archive_newsletters(draft: Draft) -> Plan:
    """Move all mails of one sender from the inbox to the archive."""
    sender, subject, _ = draft.rng.choice(NEWSLETTERS)
    mails = [mail for mail in draft.rows["mails"] if mail["sender"] == sender]
    for number, mail in enumerate(mails, 1):
        mail["subject"] = f"{subject} ({number})"
    return Plan(
        (
            "My inbox is too full. Move everything from {sender} that is in it to the archive.",
            "Please archive all the mails in my inbox that came from {sender}.",
        ),
        {"sender": sender},
        (
            """
# Find the mails of this sender.
mails = every(apis.mail.search_mails, access_token=mail_token, query=$sender)
print([(mail["sender"], mail["subject"]) for mail in mails])
""",
            """
# Move them.
for mail in mails:
    if mail["sender"] == $sender:
        apis.mail.move_mail(access_token=mail_token, mail_id=mail["id"], folder="archive")
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Changed("mails", {"sender": sender, "subject": mail["subject"]}, {"folder": "archive"})
            for mail in mails
        ),
    )


def delete_old_spam(draft: Draft) -> Plan:
    """Delete the spam that is older than a week."""
    kinds = ("Cheap watches", "Your parcel", "A secret for you", "Last warning", "Act now")
    for number, subject in enumerate(kinds):
        days = draft.rng.randrange(8, 50) if number % 2 else draft.rng.randrange(1, 6)
        sender = f"noreply{draft.rng.randrange(100, 999)}@bulk.example"
        draft.mail(sender, subject, "Click here before it is too late.", days=days, folder="spam")
    limit = draft.at(-7)[:10]
    old = [
        mail
        for mail in draft.rows["mails"]
        if mail["folder"] == "spam" and mail["sent_at"][:10] < limit
    ]
    return Plan(
        (
            (
                "Delete all mails in my spam folder that were sent before {limit}. Newer ones I "
                "want to check first."
            ),
            "Please empty my spam folder, but keep what came on {limit} or later.",
        ),
        {"limit": limit},
        (
            """
# List the spam.
mails = every(apis.mail.list_mails, access_token=mail_token, folder="spam")
print([(mail["subject"], mail["sent_at"]) for mail in mails])
""",
            """
# Delete what is older.
for mail in mails:
    if mail["sent_at"][:10] < $limit:
        apis.mail.delete_mail(access_token=mail_token, mail_id=mail["id"])
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Removed("mails", {"sender": mail["sender"], "subject": mail["subject"]}) for mail in old
        ),
    )


def update_a_phone_number(draft: Draft) -> Plan:
    """Put the new phone number that a mail tells into the contacts."""
    person, other = draft.people(2, "friend", "coworker")
    phone = f"555-{draft.rng.randrange(10_000):04d}-{draft.rng.randrange(100):02d}"
    draft.mail(
        person["email"],
        "New number",
        f"I have changed my provider, so this is my new phone number: {phone}. "
        "The old one stops working on Friday.",
        days=1,
    )
    draft.mail(
        other["email"],
        "Your number",
        "Is 555-0000-00 still your phone number? Just asking.",
        days=1,
    )
    return Plan(
        (
            "{name} sent me a new phone number by mail. Please update it in my contacts.",
            (
                "I got a mail from {name} with a new phone number. My contacts still have the old "
                "one, can you change that?"
            ),
        ),
        {"name": person["name"]},
        (
            """
# Find the contact.
(person,) = apis.contacts.search_contacts(access_token=contacts_token, query=$name)
print(person)
""",
            """
# Find the mail and read the number in it.
import re
query = person["email"] + " new phone number"
(mail,) = every(apis.mail.search_mails, access_token=mail_token, query=query)
body = apis.mail.show_mail(access_token=mail_token, mail_id=mail["id"])["body"]
phone = re.search("[0-9]{3}-[0-9]{4}-[0-9]{2}", body).group(0)
print(body, phone)
""",
            """
# Change the contact.
apis.contacts.update_contact(
    access_token=contacts_token, contact_id=person["id"], phone=phone
)
apis.supervisor.complete_task()
""",
        ),
        (Changed("contacts", {"email": person["email"]}, {"phone": phone}),),
    )


def event_from_an_invitation(draft: Draft) -> Plan:
    """Put the event that a mail invites to into the calendar, and accept by mail."""
    (friend,) = draft.people(1, "friend", "family")
    what, place = draft.rng.choice(
        (
            ("Housewarming", "12 Mill Lane"),
            ("Board game night", "The Old Granary"),
            ("Garden party", "3 Orchard Way"),
            ("Vernissage", "Gallery on Canal Street"),
        )
    )
    days, hour = draft.rng.randrange(3, 12), draft.rng.randrange(16, 20)
    day = draft.at(days)[:10]
    draft.mail(
        friend["email"],
        f"Invitation: {what}",
        f"You are invited! What: {what}. Where: {place}. When: {day} from {hour}:00 to "
        f"{hour + 3}:00. Bring somebody along if you like.",
        days=1,
    )
    return Plan(
        (
            (
                "{name} has invited me by mail. Put the event into my calendar, named as in the "
                "mail, with its place and times, and reply that I am coming."
            ),
            (
                "There is an invitation from {name} in my inbox. I want to go: add it to my "
                "calendar with its name, place, start and end, and answer the mail to say I am "
                "coming."
            ),
        ),
        {"name": friend["name"]},
        (
            """
# Find the invitation; the sender's address has the name in it.
first, last = $name.lower().split()
mails = every(apis.mail.search_mails, access_token=mail_token, query="Invitation: " + first)
mail = apis.mail.show_mail(access_token=mail_token, mail_id=mails[0]["id"])
print(mail["sender"], mail["body"])
""",
            """
# Read what, where and when.
import re
what, place, day, start, end = re.search(
    "What: (.*?)[.] Where: (.*?)[.] When: (.*?) from (.*?) to (.*?)[.]", mail["body"]
).groups()
print(what, place, day, start, end)
""",
            """
# Put it into the calendar and accept.
apis.calendar.create_event(
    access_token=calendar_token, title=what, place=place,
    start=day + "T" + start, end=day + "T" + end,
)
apis.mail.reply_to_mail(access_token=mail_token, mail_id=mail["id"], body="I am coming, thank you!")
apis.supervisor.complete_task()
""",
        ),
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
            Added(
                "mails",
                {
                    "recipients": [friend["email"]],
                    "subject": f"Re: Invitation: {what}",
                    "body": Has(("coming",), none_of=("not coming",)),
                },
            ),
        ),
    )


FAMILIES = (
    Family(archive_newsletters, 1, ("mail",)),
    Family(delete_old_spam, 1, ("mail",)),
    Family(update_a_phone_number, 2, ("contacts", "mail")),
    Family(event_from_an_invitation, 2, ("mail", "calendar")),
)
