"""Tasks with songs and playlists."""

from __future__ import annotations

from typing import Any

from agent_envs.appworld.families.plan import TEXTS, Added, Changed, Family, Plan, want_mail
from agent_envs.appworld.people import FIRST_ID, WORDS, Draft
from agent_envs.appworld.reading import Title


def _rename(draft: Draft, field: str, name: str) -> None:
    """Replace one artist or genre of the songs by this name."""
    known = sorted({song[field] for song in draft.rows["songs"]})
    if name not in known:
        old = draft.rng.choice(known)
        for song in draft.rows["songs"]:
            song[field] = name if song[field] == old else song[field]


def _songs(draft: Draft) -> list[dict[str, Any]]:
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
    songs = _songs(draft)
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
    songs = draft.rng.sample(_songs(draft), 5)
    lines = [f"- {song['title']} ({song['artist']})" for song in songs]
    draft.add_note(f"Songs for: {occasion}", "\n".join(lines), "music")
    return Plan(
        {"occasion": occasion},
        (Added("playlists", {"title": occasion, "song_ids": [song["id"] for song in songs]}),),
    )


def songs_that_a_friend_asks_for(draft: Draft) -> Plan:
    """Answer a friend's mail with wishes for songs by making a playlist and replying."""
    (friend,) = draft.choose_people(1, "friend")
    artists = draft.rng.sample(sorted({song["artist"] for song in _songs(draft)}), 2)
    songs = [song for song in _songs(draft) if song["artist"] in artists]
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


FAMILIES = (
    Family(like_an_artist, 1, ("music",)),
    Family(longest_of_a_genre, 1, ("music",)),
    Family(rate_a_playlist, 1, ("music",)),
    Family(playlist_from_a_note, 2, ("notes", "music")),
    Family(songs_that_a_friend_asks_for, 3, ("contacts", "mail", "music")),
)
