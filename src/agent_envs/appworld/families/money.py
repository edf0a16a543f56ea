"""Tasks with payments and requests for money."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import Added, Changed, Family, Plan, mailed, paid, texts
from agent_envs.appworld.reading import MONEY, Quantity, TwoDecimals
from agent_envs.appworld.words import SHOPS

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft

_TEXTS = texts("money")


def total_for_a_purpose(draft: Draft) -> Plan:
    """Give the total that was sent for a purpose in the last weeks."""
    purpose = draft.scenario(_TEXTS["total_for_a_purpose"].subjects)
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
        _TEXTS["total_for_a_purpose"],
        {"purpose": purpose, "first_day": first_day},
        answer=Quantity(round(total, 2), MONEY),
    )


def decline_strangers(draft: Draft) -> Plan:
    """Decline the requests for money that mention a purpose."""
    event = draft.scenario(_TEXTS["decline_strangers"].subjects)
    strangers = [f"{event}{number}@quickcash.example" for number in (1, 2, 3)]
    amounts = [draft.amount(20, 90) for _ in strangers]
    for stranger, amount in zip(strangers, amounts, strict=True):
        draft.request(stranger, draft.me, amount, f"{event} fee")
    for friend in draft.people(2, "friend"):
        draft.request(friend["email"], draft.me, draft.amount(5, 30), "cinema tickets")
    return Plan(
        _TEXTS["decline_strangers"],
        {"event": event},
        tuple(
            Changed("requests", {"requester": stranger}, {"status": "declined"})
            for stranger in strangers
        ),
    )


def pay_the_family(draft: Draft) -> Plan:
    """Pay the family's open requests for an occasion, decline those of coworkers."""
    occasion = draft.scenario(_TEXTS["pay_the_family"].subjects)
    family = draft.people(2, "family")
    coworkers = draft.people(2, "coworker")
    asked: dict[str, tuple[float, str]] = {}
    for number, person in enumerate((*family, *coworkers)):
        kind = ("tickets", "present", "lunch", "parking")[number]
        amount, note = draft.amount(8, 60), f"{occasion} {kind}"
        asked[person["email"]] = amount, note
        draft.request(person["email"], draft.me, amount, note)
        draft.request(person["email"], draft.me, draft.amount(8, 60), kind)

    def answered(email: str, status: str) -> Changed:
        return Changed(
            "requests", {"requester": email, "note": asked[email][1]}, {"status": status}
        )

    def accepted(email: str) -> tuple[Changed, Added]:
        return answered(email, "paid"), paid(email, *asked[email])

    # Others ask for the same things and amounts: neither of them says who is to be paid.
    others = draft.people(1, "friend") + draft.people(1, "neighbour")
    for person, like in zip(others, (family, coworkers), strict=True):
        draft.request(person["email"], draft.me, *asked[draft.rng.choice(like)["email"]])
    return Plan(
        _TEXTS["pay_the_family"],
        {"occasion": occasion},
        tuple(change for person in family for change in accepted(person["email"]))
        + tuple(answered(person["email"], "declined") for person in coworkers),
    )


def remind_debtors(draft: Draft) -> Plan:
    """Mail everybody who has not paid what they were asked for."""
    debtors = draft.people(3, "friend", "coworker")
    purpose = draft.scenario(_TEXTS["remind_debtors"].subjects)
    owed = [draft.amount(8, 40) for _ in debtors[:2]]
    for person, amount in zip(debtors[:2], owed, strict=True):
        draft.request(draft.me, person["email"], amount, purpose)
    draft.request(draft.me, debtors[2]["email"], draft.amount(8, 40), purpose, "paid")
    return Plan(
        _TEXTS["remind_debtors"],
        {"purpose": purpose},
        tuple(
            mailed([person["email"]], f"Reminder: {purpose}", TwoDecimals(amount))
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
        _TEXTS["spending_report"],
        {"shop": shop, "path": path},
        (Added("files", {"path": path, "text": TwoDecimals(total)}),),
    )


FAMILIES = (
    Family(total_for_a_purpose, 1, ("payments",)),
    Family(decline_strangers, 1, ("payments",)),
    Family(pay_the_family, 2, ("payments", "contacts")),
    Family(remind_debtors, 2, ("payments", "mail")),
    Family(spending_report, 2, ("payments", "files")),
)
