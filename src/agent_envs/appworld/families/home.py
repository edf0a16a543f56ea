"""Tasks with notes, shopping lists and files."""

from __future__ import annotations

from agent_envs.appworld.families.plan import Added, Changed, Family, Plan, Removed
from agent_envs.appworld.people import FIRST_ID, Draft

TAGS = (
    *(("garden", "outdoors"), ("birthday", "family"), ("holiday", "travel"), ("rent", "money")),
    *(("wedding", "party"), ("piano", "hobby"), ("roof", "repairs"), ("school", "children")),
    *(("theatre", "culture"), ("insurance", "papers"), ("camping", "nature"), ("tax", "office")),
    *(("puppy", "pets"), ("museum", "art"), ("harvest", "autumn"), ("concert", "music")),
    *(("sauna", "health"), ("pottery", "craft"), ("ferry", "sea"), ("reunion", "friends")),
    *(("castle", "history"), ("picnic", "summer"), ("attic", "storage"), ("exam", "study")),
    *(("bakery", "food"), ("skiing", "winter"), ("garage", "tools"), ("choir", "voices")),
    *(("orchard", "fruit"), ("library", "quiet"), ("market", "town"), ("fishing", "water")),
)
LISTS = (
    *("Weekend", "Barbecue", "Picnic", "Brunch", "Camping", "Holiday", "Monday", "Party"),
    *("Breakfast", "Baking", "Visitors", "Pantry", "Dinner", "Sunday", "Freezer", "Office"),
    *("Cottage", "Birthday", "Summer", "Garden", "Soup", "Friday", "Kitchen", "Winter", "Boat"),
    *("School", "Lunch", "Festival", "Roommates", "Cellar", "Supper", "Cabin"),
)
KINDS = (
    *("invoice", "ticket", "manual", "receipt", "report", "letter", "form", "statement"),
    *("contract", "poster", "recipe", "map", "photo", "certificate", "quote", "plan", "scan"),
    *("script", "lecture", "order", "flyer", "survey", "draft", "table", "permit", "chart"),
    *("sketch", "menu", "song", "poem", "diagram", "label"),
)
DISHES = (
    *("Lentil soup", "Lemon cake", "Summer curry", "Baked pasta", "Onion tart", "Rice pudding"),
    *("Noodle salad", "Apple crumble", "Bean stew", "Mushroom pie", "Tomato soup", "Honey bread"),
    *("Garlic chicken", "Carrot cake", "Potato gratin", "Oat biscuits", "Spinach quiche"),
    *("Ginger tofu", "Walnut loaf", "Pepper risotto", "Salmon bowl"),
)
STALLS = (
    *("market", "bakery", "butcher", "pharmacy", "supermarket", "farm", "mill", "dairy"),
    *("orchard", "greengrocer", "deli", "harbour", "warehouse", "fair", "petrol station"),
    *("garden centre", "corner shop", "flea market", "health shop", "drugstore", "night market"),
)


def tag_notes(draft: Draft) -> Plan:
    """Add a tag to all notes that mention a word."""
    word, tag = draft.scenario(TAGS)
    sentences = (
        f"Think about the {word} before the end of the month.",
        f"Everything for the {word} is in the blue box.",
        f"Ask the neighbours what they plan for the {word}.",
        f"The {word} took longer than I thought.",
    )
    topics = ("Sunday", "Blue box", "Neighbours", "Looking back")
    some = draft.rng.randrange(2, 5)
    for topic, sentence in list(zip(topics, sentences, strict=True))[:some]:
        draft.note(f"{topic} ({word})", sentence, "todo")
    draft.note("Errands", "Post office, key copies, milk", "todo")
    return Plan(
        (
            (
                'Please add the tag "{tag}" to all of my notes that mention the word "{word}". '
                "They should keep the tags they have."
            ),
            (
                'All my notes with the word "{word}" in them should also be tagged "{tag}". Don\'t '
                "take any other tags away."
            ),
        ),
        {"tag": tag, "word": word},
        (
            """
# Find the notes with the word.
notes = every(apis.notes.search_notes, access_token=notes_token, query=$word)
print([(note["title"], note["tags"]) for note in notes])
""",
            """
# Add the tag to each.
for note in notes:
    tags = note["tags"] + [$tag]
    apis.notes.update_note(access_token=notes_token, note_id=note["id"], tags=tags)
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Changed("notes", {"title": f"{topic} ({word})"}, {"tags": frozenset({"todo", tag})})
            for topic in topics[:some]
        ),
    )


def tick_off(draft: Draft) -> Plan:
    """Tick off everything on a shopping list except a few things."""
    title = draft.scenario(LISTS)
    items = draft.groceries(8)
    one, other = draft.rng.sample(sorted(items), 2)
    draft.shopping_list(title, items)
    return Plan(
        (
            (
                'I am back from the shop and got everything on my list "{title}", except for {one} '
                "and {other}. Please tick off what I bought."
            ),
            (
                'On my shopping list "{title}", mark everything as bought apart from {one} and '
                "{other}, which they did not have."
            ),
        ),
        {"title": title, "one": one, "other": other},
        (
            """
# Open the list.
lists = every(apis.shopping.show_lists, access_token=shopping_token)
(found,) = [one for one in lists if one["title"] == $title]
items = apis.shopping.show_list(access_token=shopping_token, list_id=found["id"])["items"]
print([item["name"] for item in items])
""",
            """
# Tick off all but what was not there.
for item in items:
    if item["name"] not in ($one, $other):
        apis.shopping.update_item(access_token=shopping_token, item_id=item["id"], bought=True)
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Changed(
                "items",
                {"list_id": FIRST_ID + len(draft.rows["lists"]) - 1, "name": name},
                {"bought": True},
            )
            for name in items
            if name not in (one, other)
        ),
    )


def sort_downloads(draft: Draft) -> Plan:
    """Move the files of one kind from the downloads into a folder."""
    kind = draft.scenario(KINDS)
    others = draft.rng.sample([other for other in KINDS if other != kind], 3)
    for other, count in {**dict.fromkeys(others, 2), kind: 3}.items():
        for number in range(1, count + 1):
            text = f"{other.capitalize()} number {draft.rng.randrange(1000, 9999)}, please keep."
            draft.file(f"/downloads/{other}_{number}.txt", text, days=number)
    return Plan(
        (
            (
                "My downloads are a mess. Move every {kind} from /downloads to /{kind}s, and keep "
                "the names of the files."
            ),
            (
                "Please clean up: all files in /downloads whose name starts with {kind} belong in "
                "the folder /{kind}s, under the same name."
            ),
        ),
        {"kind": kind},
        (
            """
# See what is in the downloads.
files = every(apis.files.list_files, access_token=files_token, folder="/downloads")
names = [file["path"].split("/")[-1] for file in files]
print(names)
""",
            """
# Move those of the kind.
for name in names:
    if name.startswith($kind):
        apis.files.move_file(
            access_token=files_token, path="/downloads/" + name, new_path="/" + $kind + "s/" + name
        )
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Changed(
                "files",
                {"path": f"/downloads/{kind}_{number}.txt"},
                {"path": f"/{kind}s/{kind}_{number}.txt"},
            )
            for number in (1, 2, 3)
        ),
    )


def shop_for_a_recipe(draft: Draft) -> Plan:
    """Add the missing ingredients of a recipe to a shopping list."""
    dish = draft.scenario(DISHES)
    needed = draft.groceries(6)
    names = sorted(needed)
    have = draft.rng.sample(names, 2)
    lines = "\n".join(f"{needed[name]} x {name}" for name in names)
    draft.note(f"Recipe: {dish}", f"You need:\n{lines}\nThen follow the book.", "recipes")
    draft.shopping_list("Market", {**dict.fromkeys(have, 1), "flowers": 1})
    list_id = FIRST_ID + len(draft.rows["lists"]) - 1
    return Plan(
        (
            (
                'I want to cook the {dish} from my notes. Put everything it needs on my "Market" '
                "list with the quantities of the note, but leave what is already on the list as it "
                "is."
            ),
            (
                'Please get my "Market" shopping list ready for the recipe "{dish}" in my notes: '
                "add all ingredients with their quantities. Don't touch those that the list "
                "already has."
            ),
        ),
        {"dish": dish},
        (
            """
# Read the recipe.
(found,) = apis.notes.search_notes(access_token=notes_token, query="Recipe: " + $dish)
text = apis.notes.show_note(access_token=notes_token, note_id=found["id"])["text"]
needed = [line.split(" x ") for line in text.split("\\n") if " x " in line]
print(needed)
""",
            """
# See what the list has.
lists = every(apis.shopping.show_lists, access_token=shopping_token)
(market,) = [one for one in lists if one["title"] == "Market"]
items = apis.shopping.show_list(access_token=shopping_token, list_id=market["id"])["items"]
print([item["name"] for item in items])
""",
            """
# Add what is missing.
there = [item["name"] for item in items]
for quantity, name in needed:
    if name not in there:
        apis.shopping.add_item(
            access_token=shopping_token, list_id=market["id"], name=name, quantity=int(quantity)
        )
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Added("items", {"list_id": list_id, "name": name, "quantity": needed[name]})
            for name in names
            if name not in have
        ),
    )


def what_a_neighbour_bought(draft: Draft) -> Plan:
    """Remove the things that a neighbour bought from the list, and pay for them."""
    (neighbour,) = draft.people(1, "neighbour")
    shop = draft.scenario(STALLS)
    items = draft.groceries(6)
    bought = draft.rng.sample(sorted(items), 3)
    amount = draft.amount(9, 30)
    draft.shopping_list("House", items)
    list_id = FIRST_ID + len(draft.rows["lists"]) - 1
    listed = f"{bought[0]}, {bought[1]} and {bought[2]}"
    draft.mail(
        neighbour["email"],
        f"From the {shop}",
        f"I was at the {shop} and brought you {listed}. It came to {amount:.2f} altogether.",
        days=0,
    )
    return Plan(
        (
            (
                "My neighbour {name} mailed me from the {shop} today. Remove the things they got "
                'for me from my "House" shopping list, rather than ticking them off, and pay them '
                'back with the note "{shop}".'
            ),
            (
                "{name} from next door went to the {shop} and told me by mail what they brought "
                'me. Delete these things from my shopping list "House" and send {name} what it '
                'cost, with "{shop}" as the note.'
            ),
        ),
        {"name": neighbour["name"], "shop": shop},
        (
            """
# Find the neighbour's address.
(neighbour,) = apis.contacts.search_contacts(access_token=contacts_token, query=$name)
print(neighbour["email"])
""",
            """
# Read the mail.
query = neighbour["email"] + " " + $shop
mails = every(apis.mail.search_mails, access_token=mail_token, query=query)
body = apis.mail.show_mail(access_token=mail_token, mail_id=mails[0]["id"])["body"]
print(body)
""",
            """
# Compare it with the list.
import re
amount = float(re.search(r"came to ([0-9.]+) altogether", body).group(1))
names = re.split(", | and ", re.search(r"brought you (.*?)[.] It", body).group(1))
lists = every(apis.shopping.show_lists, access_token=shopping_token)
(house,) = [one for one in lists if one["title"] == "House"]
items = apis.shopping.show_list(access_token=shopping_token, list_id=house["id"])["items"]
print(amount, names, [item["name"] for item in items])
""",
            """
# Take the things off the list and pay.
for item in items:
    if item["name"] in names:
        apis.shopping.remove_item(access_token=shopping_token, item_id=item["id"])
apis.payments.send_money(
    access_token=payments_token, receiver=neighbour["email"], amount=amount, note=$shop
)
apis.supervisor.complete_task()
""",
        ),
        (
            *(Removed("items", {"list_id": list_id, "name": name}) for name in bought),
            Added(
                "transactions",
                {"receiver": neighbour["email"], "amount": amount, "note": shop},
            ),
        ),
    )


FAMILIES = (
    Family(tag_notes, 1, ("notes",)),
    Family(tick_off, 1, ("shopping",)),
    Family(sort_downloads, 1, ("files",)),
    Family(shop_for_a_recipe, 2, ("notes", "shopping")),
    Family(what_a_neighbour_bought, 3, ("contacts", "mail", "shopping", "payments")),
)
