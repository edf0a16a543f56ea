"""The strict score against cases judged by hand: right work and near misses of each family.

A case says what a person would say who reads the goal and the product's page. They are not made by
a generator and not taken from the public data.
"""

from __future__ import annotations

from pathlib import Path

from agent_envs.webshop.catalogue import read_products
from agent_envs.webshop.claims import states
from agent_envs.webshop.goals import Goal
from agent_envs.webshop.reward import count_exact_options, is_same_kind, match_strictly
from agent_envs.webshop.shop import find_choices

CASES = Path(__file__).with_name("cases")
LEAST = 0.98  # precision and recall of a family


def cases(family):
    """Columns of the file's lines; the first, "+" or "-", is what a person says."""
    lines = (CASES / f"{family}.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert len(set(lines)) == len(lines)
    rows = [[column.strip() for column in line.split("|")] for line in lines]
    return [(row[0] == "+", row[1:]) for row in rows]


def audit(family, judged):
    """Precision and recall over (what a person says, what the checker says, the case)."""
    judged = list(judged)
    assert len(judged) >= 50
    right = sum(person and checker for person, checker, _ in judged)
    passed, wanted = (sum(case[i] for case in judged) for i in (1, 0))
    assert min(wanted, len(judged) - wanted) >= 20  # neither answer for all does well
    wrong = [case for person, checker, case in judged if person != checker]
    precision, recall = right / passed, right / wanted
    assert min(precision, recall) >= LEAST, (family, precision, recall, wrong)


def product(record, **fields):
    attributes = {"A1": {"attributes": fields.pop("attributes", [])}}
    return read_products([record(**fields)], attributes)[0]


def test_attributes_of_texts(record):
    judged = []
    for person, (attribute, text) in cases("attributes"):
        page = product(record, name="Thing", small_description=[text], full_description="")
        judged.append((person, states(page, attribute), f"{attribute} | {text}"))
    audit("attributes", judged)


def test_the_list_of_attributes_states_what_no_text_denies(record):
    for place in ("name", "full_description"):  # as every text
        page = product(record, **{place: "Nonslip mat. Not machine washable"})
        assert states(page, "non slip")
        assert not states(page, "machine wash")
    listed = ["machine wash cold", "artificial flavors", "hair dryer", "not tumble dry"]
    page = product(record, attributes=listed, full_description="No artificial flavors.")
    assert states(page, "machine wash")
    assert not states(page, "artificial flavors")  # mined from its own denial
    assert not states(page, "dry hair")
    assert not states(page, "tumble dry")
    assert not any(states(page, other) for other in ("wash cold machine", "", "?!"))


def test_a_page_that_refuses_an_attribute_as_often_as_it_states_it(record):
    refusing = ["Box spring required: no", "Box spring: none", "Box spring is not included"]
    for refusal in refusing:
        assert not states(product(record, small_description=[refusal]), "box spring")
        page = product(record, small_description=[refusal], full_description="With a box spring.")
        assert not states(page, "box spring")
    # a "not" about something else with it denies nothing that is stated beside it
    page = product(
        record, small_description=["Dry skin?", "For dry skin", "Cleans without drying skin"]
    )
    assert states(page, "dry skin")


def shelved(record, column):
    """A product from "category; name of its search; title"."""
    category, query, title = (part.strip() for part in f"{column};".split(";")[:3])
    return product(record, product_category=category, query=query, name=title)


def test_not_only_denies_nothing(record):
    for text in ("It is not only waterproof, it is light.", "Not just waterproof."):
        assert states(product(record, full_description=text), "waterproof")
    assert not states(product(record, full_description="Not waterproof."), "waterproof")


def test_a_list_may_share_a_modifier_and_shares_its_denial(record):
    for text in ("Artificial colors and flavors.", "No artificial colors and flavors."):
        assert not states(product(record, full_description=text), "artificial flavors")
    listed = product(
        record, attributes=["artificial flavors"], full_description="Artificial colors and flavors."
    )
    assert states(listed, "artificial flavors")


def test_the_purpose_of_a_product_is_not_its_kind(record):
    target = shelved(record, "Beauty › Makeup › Eyes; eye shadow; Matte Eye Shadow")
    for title, right in (("Eye Shadow Palette", True), ("Makeup Brushes for Eye Shadow", False)):
        bought = shelved(record, f"Beauty › Makeup › Eyes; makeup; {title}")
        assert is_same_kind(target, bought) == right


def test_kinds(record):
    judged = [
        (person, is_same_kind(*(shelved(record, side) for side in sides)), " | ".join(sides))
        for person, sides in cases("kinds")
    ]
    audit("kinds", judged)


def test_a_product_for_other_people_is_of_another_kind(record):
    target = shelved(record, "Clothing › Men › Shoes › Sneakers; sneakers; Runner")
    for people, right in (("Men", True), ("Women", False), ("Girls", False)):
        bought = shelved(record, f"Clothing › {people} › Sneakers; sneakers; Racer")
        assert is_same_kind(target, bought) == right
    for_all = shelved(record, "Clothing › Sneakers; sneakers; Racer")
    assert is_same_kind(target, for_all)


def test_options(record):
    def pairs(column):
        found = (part.split("=") for part in column.split(",") if part.strip())
        return tuple((name.strip(), value.strip()) for name, value in found)

    judged = []
    for person, (asked, offered, chosen) in cases("options"):
        options = dict(part.split("=") for part in offered.split(";"))
        values = {name.strip(): text.split(",") for name, text in options.items()}
        bought = product(record, options=values)
        wanted, lacking = find_choices(Goal("A1-0", 0, "", (), pairs(asked), 20.0), bought)
        picked = [(name, value.replace("/", " | ")) for name, value in pairs(chosen)]
        right = not lacking and count_exact_options(wanted, picked) == len(wanted)
        judged.append((person, right, f"{asked} | {offered} | {chosen}"))
    audit("options", judged)


def test_prices(record):
    target = product(record)
    judged = []
    for person, (limit, shown) in cases("prices"):
        goal = Goal("A1-0", 0, "", (), (), float(limit))
        bought = product(record, pricing=shown)
        found = match_strictly(goal, target, bought, (["shoe"], ["shoe"]))
        judged.append((person, found.price, f"{limit} | {shown}"))
    audit("prices", judged)
