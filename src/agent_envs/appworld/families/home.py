"""Tasks with notes, shopping lists and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.families.plan import (
    TEXTS,
    Added,
    Changed,
    Family,
    Plan,
    Removed,
    want_payment,
)

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft


def tag_notes(draft: Draft) -> Plan:
    """Add a tag to all notes that mention a word."""
    word, tag = draft.choose_subject(TEXTS["tag_notes"].subjects)
    sentences = (
        f"Think about the {word} before the end of the month.",
        f"Everything for the {word} is in the blue box.",
        f"Ask the neighbours what they plan for the {word}.",
        f"The {word} took longer than I thought.",
    )
    topics = ("Sunday", "Blue box", "Neighbours", "Looking back")
    some = draft.rng.randrange(2, 5)
    for topic, sentence in list(zip(topics, sentences, strict=True))[:some]:
        draft.add_note(f"{topic} ({word})", sentence, "todo")
    draft.add_note("Errands", "Post office, key copies, milk", "todo")
    return Plan(
        {"tag": tag, "word": word},
        tuple(
            Changed("notes", {"title": f"{topic} ({word})"}, {"tags": frozenset({"todo", tag})})
            for topic in topics[:some]
        ),
    )


def tick_off(draft: Draft) -> Plan:
    """Tick off everything on a shopping list except a few things."""
    title = draft.choose_subject(TEXTS["tick_off"].subjects)
    items = draft.draw_groceries(8)
    one, other = draft.rng.sample(sorted(items), 2)
    list_id = draft.add_shopping_list(title, items)
    return Plan(
        {"title": title, "one": one, "other": other},
        tuple(
            Changed("items", {"list_id": list_id, "name": name}, {"bought": True})
            for name in items
            if name not in (one, other)
        ),
    )


def sort_downloads(draft: Draft) -> Plan:
    """Move the files of one kind from the downloads into a folder."""
    kinds = TEXTS["sort_downloads"].subjects
    kind = draft.choose_subject(kinds)
    others = draft.rng.sample([other for other in kinds if other != kind], 3)
    for other, count in {**dict.fromkeys(others, 2), kind: 3}.items():
        for number in range(1, count + 1):
            text = f"{other.capitalize()} number {draft.rng.randrange(1000, 9999)}, please keep."
            draft.add_file(f"/downloads/{other}_{number}.txt", text, days=number)
    return Plan(
        {"kind": kind},
        tuple(
            Changed("files", {"path": f"/downloads/{name}"}, {"path": f"/{kind}s/{name}"})
            for name in [f"{kind}_{number}.txt" for number in (1, 2, 3)]
        ),
    )


def shop_for_a_recipe(draft: Draft) -> Plan:
    """Add the missing ingredients of a recipe to a shopping list."""
    dish = draft.choose_subject(TEXTS["shop_for_a_recipe"].subjects)
    needed = draft.draw_groceries(6)
    names = sorted(needed)
    have = draft.rng.sample(names, 2)
    lines = "\n".join(f"{needed[name]} x {name}" for name in names)
    draft.add_note(f"Recipe: {dish}", f"You need:\n{lines}\nThen follow the book.", "recipes")
    list_id = draft.add_shopping_list("Market", {**dict.fromkeys(have, 1), "flowers": 1})
    return Plan(
        {"dish": dish},
        tuple(
            Added("items", {"list_id": list_id, "name": name, "quantity": needed[name]})
            for name in names
            if name not in have
        ),
    )


def what_a_neighbour_bought(draft: Draft) -> Plan:
    """Remove the things that a neighbour bought from the list, and pay for them."""
    (neighbour,) = draft.choose_people(1, "neighbour")
    shop = draft.choose_subject(TEXTS["what_a_neighbour_bought"].subjects)
    items = draft.draw_groceries(6)
    bought = draft.rng.sample(sorted(items), 3)
    amount = draft.draw_amount(9, 30)
    list_id = draft.add_shopping_list("House", items)
    listed = f"{bought[0]}, {bought[1]} and {bought[2]}"
    draft.add_mail(
        neighbour["email"],
        f"From the {shop}",
        f"I was at the {shop} and brought you {listed}. It came to {amount:.2f} altogether.",
        days=0,
    )
    return Plan(
        {"name": neighbour["name"], "shop": shop},
        (
            *(Removed("items", {"list_id": list_id, "name": name}) for name in bought),
            want_payment(neighbour["email"], amount, shop),
        ),
    )


FAMILIES = (
    Family(tag_notes, 1, ("notes",)),
    Family(tick_off, 1, ("shopping",)),
    Family(sort_downloads, 1, ("files",)),
    Family(shop_for_a_recipe, 2, ("notes", "shopping")),
    Family(what_a_neighbour_bought, 3, ("contacts", "mail", "shopping", "payments")),
)
