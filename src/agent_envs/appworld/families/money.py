"""Tasks with payments and requests for money."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.appworld.families.plan import Added, Changed, Family, Plan
from agent_envs.appworld.reading import MONEY, Quantity, TwoDecimals
from agent_envs.appworld.words import SHOPS

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft


PURPOSES = (
    *("rent", "climbing", "piano lesson", "car sharing", "childcare", "dog walking", "petrol"),
    *("tutoring", "football fees", "garden work", "firewood", "yoga", "language course"),
    *("phone bill", "allotment", "horse riding", "swimming course", "band room", "cleaning"),
    *("storage room", "pottery class"),
)
SCHEMES = (
    *("raffle", "lottery", "sweepstake", "jackpot", "timeshare", "casino", "voucher", "giveaway"),
    *("subscription", "membership", "tombola", "fundraiser", "pyramid", "bitcoin", "horoscope"),
    *("coupon", "treasure", "talisman", "crystal", "portfolio", "startup", "franchise", "bond"),
    *("certificate", "webinar", "masterclass", "donation", "syndicate", "warranty", "bonus"),
    *("pension", "tontine"),
)
OCCASIONS = (
    *("wedding", "reunion", "carnival", "anniversary", "jubilee", "graduation", "festival"),
    *("garden fair", "ski trip", "concert night", "derby", "housewarming", "barbecue", "retreat"),
    *("book fair", "regatta", "opera night", "charity run", "christening", "harvest feast"),
    *("farewell",),
)
DEBTS = (
    *("theatre tickets", "boat trip", "football cards", "group gift", "cabin rent", "pizza order"),
    *("escape room", "museum passes", "taxi home", "canoe hire", "bus tickets", "opera seats"),
    *("bowling evening", "cinema night", "tennis court", "festival passes", "cooking class"),
    *("ferry tickets", "board game", "hotel deposit", "zoo visit"),
)


def total_for_a_purpose(draft: Draft) -> Plan:
    """Give the total that was sent for a purpose in the last weeks."""
    purpose = draft.scenario(PURPOSES)
    days = draft.rng.choice((14, 30))
    total = 0.0
    paid_on = draft.rng.sample(range(1, 55), 6)
    while min(paid_on) >= days:  # a total of nothing would be known without a look
        paid_on = draft.rng.sample(range(1, 55), 6)
    for back in paid_on:
        (other,) = draft.people(1)
        amount = draft.amount(10, 60)
        draft.paid(draft.me, other["email"], amount, purpose, days=back)
        total += amount if back < days else 0
    (other,) = draft.people(1)
    draft.paid(other["email"], draft.me, draft.amount(10, 60), purpose, days=3)
    first_day = draft.at(1 - days)[:10]
    return Plan(
        (
            (
                'How much money did I send to people for "{purpose}" since {first_day}, that day '
                "included? Only count payments that I made whose note is just that."
            ),
            (
                "I am doing my accounts. What is the total of my own payments with the note "
                '"{purpose}" from {first_day} until today?'
            ),
        ),
        {"purpose": purpose, "first_day": first_day},
        (
            """
# List what I sent for this since that day.
paid = every(
    apis.payments.list_transactions, access_token=payments_token,
    direction="sent", query=$purpose, first_day=$first_day,
)
print([(p["paid_at"], p["amount"], p["note"]) for p in paid])
""",
            """
# Add it up.
total = round(sum(p["amount"] for p in paid if p["note"] == $purpose), 2)
apis.supervisor.complete_task(answer=total)
""",
        ),
        answer=Quantity(round(total, 2), MONEY),
    )


def decline_strangers(draft: Draft) -> Plan:
    """Decline the requests for money that mention a purpose."""
    event = draft.scenario(SCHEMES)
    strangers = [f"{event}{number}@quickcash.example" for number in (1, 2, 3)]
    amounts = [draft.amount(20, 90) for _ in strangers]
    for stranger, amount in zip(strangers, amounts, strict=True):
        draft.request(stranger, draft.me, amount, f"{event} fee")
    for friend in draft.people(2, "friend"):
        draft.request(friend["email"], draft.me, draft.amount(5, 30), "cinema tickets")
    return Plan(
        (
            (
                "Somebody keeps asking me for money for some {event} I know nothing about. Decline "
                "all of these requests, but leave the ones for other things."
            ),
            (
                "Please decline every open payment request that has to do with a {event}. The "
                "other requests I will look at myself."
            ),
        ),
        {"event": event},
        (
            """
# See who asks for money.
requests = every(apis.payments.list_requests, access_token=payments_token)
print([(r["requester"], r["amount"], r["note"]) for r in requests])
""",
            """
# Decline the ones for this.
for request in requests:
    if $event in request["note"]:
        apis.payments.decline_request(access_token=payments_token, request_id=request["id"])
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Changed("requests", {"requester": stranger}, {"status": "declined"})
            for stranger in strangers
        ),
    )


def pay_the_family(draft: Draft) -> Plan:
    """Pay the family's open requests for an occasion, decline those of coworkers."""
    occasion = draft.scenario(OCCASIONS)
    family = draft.people(2, "family")
    coworkers = draft.people(2, "coworker")
    asked = {}
    for number, person in enumerate((*family, *coworkers)):
        kind = ("tickets", "present", "lunch", "parking")[number]
        amount, note = draft.amount(8, 60), f"{occasion} {kind}"
        asked[person["email"]] = amount, note
        draft.request(person["email"], draft.me, amount, note)
        draft.request(person["email"], draft.me, draft.amount(8, 60), kind)
    # Others ask for the same things and amounts: neither of them says who is to be paid.
    others = draft.people(1, "friend") + draft.people(1, "neighbour")
    for person, like in zip(others, (family, coworkers), strict=True):
        draft.request(person["email"], draft.me, *asked[draft.rng.choice(like)["email"]])
    return Plan(
        (
            (
                "Please go through the open payment requests I got for the {occasion}, which is in "
                "their notes: accept those from my family, decline those from coworkers, and leave "
                "all other requests alone."
            ),
            (
                "A few people asked me for money in the payments app. Of the requests with "
                '"{occasion}" in their note, accept what my family asks for and decline what '
                "coworkers ask for; the others can wait."
            ),
        ),
        {"occasion": occasion},
        (
            """
# See who asks for money, and how I know people.
requests = every(apis.payments.list_requests, access_token=payments_token)
requests = [request for request in requests if $occasion in request["note"]]
people = every(apis.contacts.search_contacts, access_token=contacts_token)
known = {person["email"]: person["relationship"] for person in people}
print([(r["requester"], known.get(r["requester"]), r["amount"]) for r in requests])
""",
            """
# Pay the family, decline coworkers.
for request in requests:
    relationship = known.get(request["requester"])
    if relationship == "family":
        apis.payments.accept_request(access_token=payments_token, request_id=request["id"])
    elif relationship == "coworker":
        apis.payments.decline_request(access_token=payments_token, request_id=request["id"])
apis.supervisor.complete_task()
""",
        ),
        tuple(
            change
            for person in family
            for change in (
                Changed("requests", _asked(person, asked), {"status": "paid"}),
                Added(
                    "transactions",
                    {
                        "receiver": person["email"],
                        "amount": asked[person["email"]][0],
                        "note": asked[person["email"]][1],
                    },
                ),
            )
        )
        + tuple(
            Changed("requests", _asked(person, asked), {"status": "declined"})
            for person in coworkers
        ),
    )


def _asked(person: dict[str, Any], asked: dict[str, tuple[float, str]]) -> dict[str, Any]:
    """The fields of a person's request."""
    return {"requester": person["email"], "note": asked[person["email"]][1]}


def remind_debtors(draft: Draft) -> Plan:
    """Mail everybody who has not paid what they were asked for."""
    debtors = draft.people(3, "friend", "coworker")
    purpose = draft.scenario(DEBTS)
    owed = [draft.amount(8, 40) for _ in debtors[:2]]
    for person, amount in zip(debtors[:2], owed, strict=True):
        draft.request(draft.me, person["email"], amount, purpose)
    draft.request(draft.me, debtors[2]["email"], draft.amount(8, 40), purpose, "paid")
    return Plan(
        (
            (
                "I asked some people to pay me for the {purpose}. Send a mail with the subject "
                '"Reminder: {purpose}" to each of those who have not paid yet, one mail a person, '
                "with just the amount that they owe as its text, a number with two decimals."
            ),
            (
                "Some of my payment requests for the {purpose} are still open. Write to each of "
                'these people separately, the subject being "Reminder: {purpose}" and the whole '
                "text the amount of the request, a number with two decimals."
            ),
        ),
        {"purpose": purpose},
        (
            """
# See which of my requests are open.
requests = every(apis.payments.list_requests, access_token=payments_token, direction="sent")
open_ones = [request for request in requests if request["note"] == $purpose]
print([(request["payer"], request["amount"]) for request in open_ones])
""",
            """
# Write to each.
for request in open_ones:
    apis.mail.send_mail(
        access_token=mail_token,
        recipients=[request["payer"]],
        subject="Reminder: " + $purpose,
        body=f"{request['amount']:.2f}",
    )
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Added(
                "mails",
                {
                    "recipients": [person["email"]],
                    "subject": f"Reminder: {purpose}",
                    "body": TwoDecimals(amount),
                },
            )
            for person, amount in zip(debtors[:2], owed, strict=True)
        ),
    )


def spending_report(draft: Draft) -> Plan:
    """Write a file with the total paid to a shop."""
    shop = draft.scenario(SHOPS)
    address = f"till@{shop.split()[0].lower()}.example"
    amounts = [draft.amount(5, 80) for _ in range(4)]
    for amount, days in zip(amounts, draft.rng.sample(range(1, 58), 4), strict=True):
        draft.paid(draft.me, address, amount, f"{shop} order", days=days)
    total = round(sum(amounts), 2)
    path = "/money/" + shop.split()[0].lower() + ".txt"
    return Plan(
        (
            (
                "I would like to know what I leave at {shop}. Write the total of all my payments "
                "there (their notes name the shop) into a new file {path}, just the number with "
                "two decimals."
            ),
            (
                "Add up all I ever paid to {shop}, whose name is in the notes of the payments, and "
                "save the sum as {path}. The file should have nothing but the number, with two "
                "decimals."
            ),
        ),
        {"shop": shop, "path": path},
        (
            """
# List the payments to the shop.
paid = every(
    apis.payments.list_transactions, access_token=payments_token, direction="sent", query=$shop
)
print([(p["receiver"], p["amount"]) for p in paid])
""",
            """
# Write the total into the file.
total = sum(p["amount"] for p in paid)
apis.files.create_file(access_token=files_token, path=$path, text=f"{total:.2f}")
apis.supervisor.complete_task()
""",
        ),
        (Added("files", {"path": path, "text": TwoDecimals(total)}),),
    )


FAMILIES = (
    Family(total_for_a_purpose, 1, ("payments",)),
    Family(decline_strangers, 1, ("payments",)),
    Family(pay_the_family, 2, ("payments", "contacts")),
    Family(remind_debtors, 2, ("payments", "mail")),
    Family(spending_report, 2, ("payments", "files")),
)
