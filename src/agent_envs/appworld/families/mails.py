"""Tasks that begin with mails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import Added, Changed, Family, Plan, Removed
from agent_envs.appworld.words import NEWSLETTERS, STREETS

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft


_SPAM_WORDS = (
    *("watches", "pills", "loans", "parcels", "jackpots", "crystals", "mattresses", "diplomas"),
    *("casinos", "coupons", "miracles", "perfumes", "sunglasses", "tokens", "vouchers", "diets"),
    *("gadgets", "cruises", "handbags", "horoscopes", "vitamins"),
)
SPAM_TOPICS = tuple(zip(_SPAM_WORDS, (*_SPAM_WORDS[7:], *_SPAM_WORDS[:7]), strict=True))
INVITATIONS = (
    *("Housewarming", "Board game night", "Garden party", "Vernissage", "Christening", "Brunch"),
    *("Graduation party", "Harvest dinner", "Bonfire", "Poetry slam", "Pizza evening", "Regatta"),
    *("Wine tasting", "Summer ball", "House concert", "Silver wedding", "Tea party", "Fish fry"),
    *("Flat inauguration", "Farewell party", "Midsummer feast"),
)


def archive_newsletters(draft: Draft) -> Plan:
    """Move all mails of one sender from the inbox to the archive."""
    name, subject, body = draft.scenario(NEWSLETTERS)
    sender = f"news@{name}.example"
    draft.rows["mails"] = [mail for mail in draft.rows["mails"] if mail["sender"] != sender]
    issues = range(1, draft.rng.randrange(3, 6))
    for number, days in zip(issues, draft.rng.sample(range(1, 60), len(issues)), strict=True):
        draft.mail(sender, f"{subject} ({number})", body, days=days)
    draft.mail(sender, f"{subject} (special)", body, days=70, folder="archive")
    mails = draft.rows["mails"][-1 - len(issues) : -1]
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
    topic, other = draft.scenario(SPAM_TOPICS)
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
            draft.mail(sender, kind.format(word), text, days=ago, folder="spam")
    limit = draft.at(-7)[:10]
    old = [
        mail
        for mail in draft.rows["mails"]
        if mail["folder"] == "spam" and topic in mail["subject"] and mail["sent_at"][:10] < limit
    ]
    return Plan(
        (
            (
                'Delete all mails in my spam folder that have "{topic}" in their subject and were '
                "sent before {limit}. Newer ones and other spam I want to check first."
            ),
            (
                'Please rid my spam folder of the mails with "{topic}" in their subject, but keep '
                "those that came on {limit} or later, and all others."
            ),
        ),
        {"topic": topic, "limit": limit},
        (
            """
# List the spam.
mails = every(apis.mail.list_mails, access_token=mail_token, folder="spam")
print([(mail["subject"], mail["sent_at"]) for mail in mails])
""",
            """
# Delete what is older.
for mail in mails:
    if $topic in mail["subject"] and mail["sent_at"][:10] < $limit:
        apis.mail.delete_mail(access_token=mail_token, mail_id=mail["id"])
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Removed("mails", {"sender": mail["sender"], "subject": mail["subject"]}) for mail in old
        ),
    )


def update_a_phone_number(draft: Draft) -> Plan:
    """Copy the new phone number from a mail into the contacts."""
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
    what = draft.scenario(INVITATIONS)
    place = f"{draft.rng.randrange(1, 90)} {draft.rng.choice(STREETS)}"
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
                '{name} has invited me to the "{what}" by mail. Put it into my calendar under that '
                "name, with its place and times and without guests, and reply to the mail with "
                'exactly these words: "I am coming."'
            ),
            (
                'There is an invitation to the "{what}" from {name} in my inbox. I want to go: add '
                'it to my calendar as "{what}" with place, start and end, and answer the mail with '
                'just the sentence "I am coming."'
            ),
        ),
        {"name": friend["name"], "what": what},
        (
            """
# Find the invitation; the sender's address has the name in it.
first, last = $name.lower().split()
query = "Invitation: " + $what + " " + first
mails = every(apis.mail.search_mails, access_token=mail_token, query=query)
mail = apis.mail.show_mail(access_token=mail_token, mail_id=mails[0]["id"])
print(mail["sender"], mail["body"])
""",
            """
# Read what, where and when, and put it into the calendar.
import re
what, place, day, start, end = re.search(
    "What: (.*?)[.] Where: (.*?)[.] When: (.*?) from (.*?) to (.*?)[.]", mail["body"]
).groups()
print(what, place, day, start, end)
apis.calendar.create_event(
    access_token=calendar_token, title=what, place=place,
    start=day + "T" + start, end=day + "T" + end,
)
""",
            """
# Accept.
apis.mail.reply_to_mail(access_token=mail_token, mail_id=mail["id"], body="I am coming.")
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
                    "body": "I am coming.",
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
