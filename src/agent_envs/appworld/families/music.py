"""Tasks with songs and playlists."""

from __future__ import annotations

from typing import Any

from agent_envs.appworld.families.plan import Added, Changed, Family, Plan
from agent_envs.appworld.people import FIRST_ID, Draft
from agent_envs.appworld.reading import Title
from agent_envs.appworld.words import ARTISTS, GENRES, PLAYLISTS

OCCASIONS = (
    *("Road trip", "Dinner party", "Spring cleaning", "Late night", "First snow", "Long drive"),
    *("Beach day", "Study hour", "Camp fire", "Rainy Sunday", "Morning run", "Slow dance"),
    *("House party", "Train ride", "Workout", "Bath time", "Baking day", "Farewell", "Sunset"),
    *("Old times", "Wake up"),
)
PARTIES = (
    *("Party", "Picnic", "Barbecue", "Dinner", "Dancing", "Karaoke", "Housewarming", "Brunch"),
    *("Birthday", "Carnival", "Bonfire", "Reunion", "Farewell", "Garden party", "Wedding"),
    *("Boat trip", "Festival", "Sleepover", "Street party", "Jubilee", "New year"),
)


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
    artist = draft.scenario(ARTISTS)
    _rename(draft, "artist", artist)
    for song in draft.rows["songs"]:
        if song["artist"] == artist:
            song["liked"] = False
            break
    songs = _songs(draft)
    new = [song for song in songs if song["artist"] == artist and not song["liked"]]
    return Plan(
        (
            "I can't get enough of {artist}. Please like all of their songs in my music app.",
            "Go through the songs by {artist} in my music app and like every one of them.",
            "I want all songs of {artist} among the ones I like. Can you do that for me?",
        ),
        {"artist": artist},
        (
            """
# Find the artist's songs.
songs = every(apis.music.search_songs, access_token=music_token, query=$artist)
songs = [song for song in songs if song["artist"] == $artist]
print([(song["title"], song["liked"]) for song in songs])
""",
            """
# Like those that are not liked yet.
for song in songs:
    if not song["liked"]:
        apis.music.like_song(access_token=music_token, song_id=song["id"])
apis.supervisor.complete_task()
""",
        ),
        tuple(Changed("songs", {"id": song["id"]}, {"liked": True}) for song in new),
    )


def longest_of_a_genre(draft: Draft) -> Plan:
    """Name the longest song of a genre."""
    genre = draft.scenario(GENRES)
    _rename(draft, "genre", genre)
    by_length = sorted(draft.rows["songs"], key=lambda song: song["seconds"])
    if by_length[-1]["genre"] == genre and sum(s["genre"] == genre for s in by_length) > 1:
        # The longest of all songs is none of the genre's: who does not look at it is wrong.
        by_length[-1]["genre"] = next(s["genre"] for s in by_length if s["genre"] != genre)
    longest = [song for song in by_length if song["genre"] == genre][-1]
    return Plan(
        (
            "What is the title of the longest {genre} song in my music app?",
            "Which {genre} song in my music app goes on for the longest? I need its title.",
        ),
        {"genre": genre},
        (
            """
# List the songs of the genre and take the longest.
songs = every(apis.music.search_songs, access_token=music_token, genre=$genre)
longest = max(songs, key=lambda song: song["seconds"])
print(longest["title"], longest["seconds"])
""",
            """
# That is the answer.
apis.supervisor.complete_task(answer=longest["title"])
""",
        ),
        answer=Title(longest["title"], longest["artist"]),
    )


def rate_a_playlist(draft: Draft) -> Plan:
    """Rate the songs of a playlist that have no rating yet."""
    rated = draft.rng.choice((3, 4, 5))
    playlist, other = draft.rng.sample(draft.rows["playlists"], 2)
    playlist["title"] = draft.scenario(PLAYLISTS)
    other["title"] = draft.rng.choice([t for t in PLAYLISTS if t != playlist["title"]])
    for place, song_id in enumerate(playlist["song_ids"]):
        draft.rows["songs"][song_id - FIRST_ID]["rating"] = (0, 4, 0, 5, 0, 3)[place]
    return Plan(
        (
            (
                'Some songs in my playlist "{title}" have no rating yet. Give each of them {rated} '
                "stars and leave the other ratings alone."
            ),
            (
                'In the playlist "{title}", rate every song that I have not rated so far with '
                "{rated} stars."
            ),
        ),
        {"title": playlist["title"], "rated": rated},
        (
            """
# Open the playlist.
lists = every(apis.music.list_playlists, access_token=music_token)
(found,) = [one for one in lists if one["title"] == $title]
songs = apis.music.show_playlist(access_token=music_token, playlist_id=found["id"])["songs"]
print([(song["title"], song["rating"]) for song in songs])
""",
            """
# Rate the songs without a rating.
for song in songs:
    if song["rating"] == 0:
        apis.music.rate_song(access_token=music_token, song_id=song["id"], rating=$rated)
apis.supervisor.complete_task()
""",
        ),
        tuple(
            Changed("songs", {"id": song_id}, {"rating": rated})
            for song_id in playlist["song_ids"][::2]
        ),
    )


def playlist_from_a_note(draft: Draft) -> Plan:
    """Make a playlist of the songs that a note lists, in its order."""
    occasion = draft.scenario(OCCASIONS)
    songs = draft.rng.sample(_songs(draft), 5)
    lines = [f"- {song['title']} ({song['artist']})" for song in songs]
    draft.note(f"Songs for: {occasion}", "\n".join(lines), "music")
    return Plan(
        (
            (
                'I wrote down some songs in a note called "Songs for: {occasion}". Make a playlist '
                '"{occasion}" with exactly these songs, in the order of the note.'
            ),
            (
                'Could you turn my note "Songs for: {occasion}" into a playlist? Call it '
                '"{occasion}" and keep the order that the note has.'
            ),
        ),
        {"occasion": occasion},
        (
            """
# Read the note.
(found,) = apis.notes.search_notes(access_token=notes_token, query="Songs for: " + $occasion)
text = apis.notes.show_note(access_token=notes_token, note_id=found["id"])["text"]
titles = [line[2:].split(" (")[0] for line in text.split("\\n")]
print(titles)
""",
            """
# Look the songs up.
songs = every(apis.music.search_songs, access_token=music_token)
ids = {song["title"]: song["id"] for song in songs}
wanted = [ids[title] for title in titles]
print(wanted)
""",
            """
# Make the playlist.
made = apis.music.create_playlist(access_token=music_token, title=$occasion)["playlist_id"]
for song_id in wanted:
    apis.music.add_song_to_playlist(access_token=music_token, playlist_id=made, song_id=song_id)
apis.supervisor.complete_task()
""",
        ),
        (Added("playlists", {"title": occasion, "song_ids": [song["id"] for song in songs]}),),
    )


def songs_that_a_friend_asks_for(draft: Draft) -> Plan:
    """Answer a friend's mail with wishes for songs by making a playlist and replying."""
    (friend,) = draft.people(1, "friend")
    first = friend["name"].split()[0]
    artists = draft.rng.sample(sorted({song["artist"] for song in _songs(draft)}), 2)
    songs = [song for song in _songs(draft) if song["artist"] in artists]
    draft.mail(
        friend["email"],
        "Music for the party",
        f"For the party I would love everything by {artists[0]} and by {artists[1]}. "
        "Tell me what the playlist is called when it is ready!",
        days=1,
    )
    title = f"{draft.scenario(PARTIES)} with {first}"
    return Plan(
        (
            (
                "My friend {name} mailed me which artists to play at the party. Make a playlist "
                '"{title}" with all songs of these artists, in any order, then reply to that mail '
                "with nothing but the title of the playlist."
            ),
            (
                "{name} is a friend of mine and wrote me a mail about the music for our party. Put "
                'every song of the artists in it into a new playlist "{title}" and answer the mail '
                "with just the title of the playlist as text."
            ),
        ),
        {"name": friend["name"], "title": title},
        (
            """
# Find the friend's address.
(friend,) = apis.contacts.search_contacts(access_token=contacts_token, query=$name)
print(friend["email"])
""",
            """
# Find the mail and read it.
mails = every(apis.mail.search_mails, access_token=mail_token, query=friend["email"] + " playlist")
mail = apis.mail.show_mail(access_token=mail_token, mail_id=mails[0]["id"])
print(mail["body"])
""",
            """
# Collect the songs of the artists that it names.
songs = every(apis.music.search_songs, access_token=music_token)
wanted = [song for song in songs if song["artist"] in mail["body"]]
print([(song["artist"], song["title"]) for song in wanted])
""",
            """
# Make the playlist and tell the friend.
made = apis.music.create_playlist(access_token=music_token, title=$title)["playlist_id"]
for song in wanted:
    apis.music.add_song_to_playlist(access_token=music_token, playlist_id=made, song_id=song["id"])
apis.mail.reply_to_mail(access_token=mail_token, mail_id=mail["id"], body=$title)
apis.supervisor.complete_task()
""",
        ),
        (
            Added(
                "playlists",
                {"title": title, "song_ids": frozenset(song["id"] for song in songs)},
            ),
            Added(
                "mails",
                {
                    "recipients": [friend["email"]],
                    "subject": "Re: Music for the party",
                    "body": title,
                },
            ),
        ),
    )


FAMILIES = (
    Family(like_an_artist, 1, ("music",)),
    Family(longest_of_a_genre, 1, ("music",)),
    Family(rate_a_playlist, 1, ("music",)),
    Family(playlist_from_a_note, 2, ("notes", "music")),
    Family(songs_that_a_friend_asks_for, 3, ("contacts", "mail", "music")),
)
