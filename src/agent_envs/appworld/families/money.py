"""Tasks with payments and requests for money."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import (
    TEXTS,
    Added,
    Changed,
    Family,
    Plan,
    want_mail,
    want_payment,
)
from agent_envs.appworld.people import WORDS
from agent_envs.appworld.reading import MONEY, Quantity, TwoDecimals

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
    first_day = draft.time_at(1 - days)[:10]
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


FAMILIES = (
    Family(total_for_a_purpose, 1, ("payments",)),
    Family(decline_strangers, 1, ("payments",)),
    Family(pay_the_family, 2, ("payments", "contacts")),
    Family(remind_debtors, 2, ("payments", "mail")),
    Family(spending_report, 2, ("payments", "files")),
)
