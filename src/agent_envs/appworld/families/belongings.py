"""Tasks with songs, playlists, notes, shopping lists and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.appworld.families.plan import (
    TEXTS,
    Added,
    Changed,
    Family,
    Plan,
    Removed,
    want_mail,
    want_payment,
)
from agent_envs.appworld.people import FIRST_ID, WORDS
from agent_envs.appworld.reading import Title

if TYPE_CHECKING:
    from agent_envs.appworld.people import Draft


def _rename(draft: Draft, field: str, name: str) -> None:
    """Replace one artist or genre of the songs by this name."""
    known = sorted({song[field] for song in draft.rows["songs"]})
    if name not in known:
        old = draft.rng.choice(known)
        for song in draft.rows["songs"]:
            song[field] = name if song[field] == old else song[field]


def _list_songs(draft: Draft) -> list[dict[str, Any]]:
    """All songs, with their ids."""
    return [{"id": FIRST_ID + i, **song} for i, song in enumerate(draft.rows["songs"])]


def like_an_artist(draft: Draft) -> Plan:
    """Like all songs of an artist that are not liked yet."""
    artist = draft.choose_subject(WORDS["artists"])
    _rename(draft, "artist", artist)
    for song in draft.rows["songs"]:
        if song["artist"] == artist:
            song["liked"] = False
            break
    songs = _list_songs(draft)
    new = [song for song in songs if song["artist"] == artist and not song["liked"]]
    return Plan(
        {"artist": artist},
        tuple(Changed("songs", {"id": song["id"]}, {"liked": True}) for song in new),
    )


def longest_of_a_genre(draft: Draft) -> Plan:
    """Name the longest song of a genre."""
    genre = draft.choose_subject(WORDS["genres"])
    _rename(draft, "genre", genre)
    by_length = sorted(draft.rows["songs"], key=lambda song: song["seconds"])
    if by_length[-1]["genre"] == genre and sum(s["genre"] == genre for s in by_length) > 1:
        # The longest of all songs is none of the genre's: who does not look at it is wrong.
        by_length[-1]["genre"] = next(s["genre"] for s in by_length if s["genre"] != genre)
    longest = [song for song in by_length if song["genre"] == genre][-1]
    return Plan({"genre": genre}, answer=Title(longest["title"], longest["artist"]))


def rate_a_playlist(draft: Draft) -> Plan:
    """Rate the songs of a playlist that have no rating yet."""
    rated = draft.rng.choice((3, 4, 5))
    playlist, other = draft.rng.sample(draft.rows["playlists"], 2)
    playlist["title"] = draft.choose_subject(WORDS["playlists"])
    other["title"] = draft.rng.choice([t for t in WORDS["playlists"] if t != playlist["title"]])
    for place, song_id in enumerate(playlist["song_ids"]):
        draft.rows["songs"][song_id - FIRST_ID]["rating"] = (0, 4, 0, 5, 0, 3)[place]
    return Plan(
        {"title": playlist["title"], "rated": rated},
        tuple(
            Changed("songs", {"id": song_id}, {"rating": rated})
            for song_id in playlist["song_ids"][::2]
        ),
    )


def playlist_from_a_note(draft: Draft) -> Plan:
    """Make a playlist of the songs that a note lists, in its order."""
    occasion = draft.choose_subject(TEXTS["playlist_from_a_note"].subjects)
    songs = draft.rng.sample(_list_songs(draft), 5)
    lines = [f"- {song['title']} ({song['artist']})" for song in songs]
    draft.add_note(f"Songs for: {occasion}", "\n".join(lines), "music")
    return Plan(
        {"occasion": occasion},
        (Added("playlists", {"title": occasion, "song_ids": [song["id"] for song in songs]}),),
    )


def songs_that_a_friend_asks_for(draft: Draft) -> Plan:
    """Answer a friend's mail with wishes for songs by making a playlist and replying."""
    (friend,) = draft.choose_people(1, "friend")
    artists = draft.rng.sample(sorted({song["artist"] for song in _list_songs(draft)}), 2)
    songs = [song for song in _list_songs(draft) if song["artist"] in artists]
    draft.add_mail(
        friend["email"],
        "Music for the party",
        f"For the party I would love everything by {artists[0]} and by {artists[1]}. "
        "Tell me what the playlist is called when it is ready!",
        days=1,
    )
    party = draft.choose_subject(TEXTS["songs_that_a_friend_asks_for"].subjects)
    title = f"{party} with {friend['name'].split()[0]}"
    wanted = {"title": title, "song_ids": frozenset(song["id"] for song in songs)}
    return Plan(
        {"name": friend["name"], "title": title},
        (
            Added("playlists", wanted),
            want_mail([friend["email"]], "Re: Music for the party", title),
        ),
    )


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
    Family(like_an_artist, 1, ("music",)),
    Family(longest_of_a_genre, 1, ("music",)),
    Family(rate_a_playlist, 1, ("music",)),
    Family(playlist_from_a_note, 2, ("notes", "music")),
    Family(songs_that_a_friend_asks_for, 3, ("contacts", "mail", "music")),
    Family(tag_notes, 1, ("notes",)),
    Family(tick_off, 1, ("shopping",)),
    Family(sort_downloads, 1, ("files",)),
    Family(shop_for_a_recipe, 2, ("notes", "shopping")),
    Family(what_a_neighbour_bought, 3, ("contacts", "mail", "shopping", "payments")),
)
