"""Words that the small world is made of, from `words.toml`."""

from __future__ import annotations

from agent_envs.assets import table

_WORDS = table("appworld/words.toml")
FIRST_NAMES: list[str] = _WORDS["first_names"]
LAST_NAMES: list[str] = _WORDS["last_names"]
CITIES: list[str] = _WORDS["cities"]
STREETS: list[str] = _WORDS["streets"]
GENRES: list[str] = _WORDS["genres"]
ARTISTS: list[str] = _WORDS["artists"]
PLAYLISTS: list[str] = _WORDS["playlists"]
SONG_STARTS: list[str] = _WORDS["song_starts"]
SONG_ENDS: list[str] = _WORDS["song_ends"]
ALBUM_WORDS: list[str] = _WORDS["album_words"]
GROCERIES: list[str] = _WORDS["groceries"]
RESTAURANTS: list[str] = _WORDS["restaurants"]
SHOPS: list[str] = _WORDS["shops"]
PURPOSES: list[str] = _WORDS["purposes"]

NOTES: list[tuple[str, str, str]] = [*map(tuple, _WORDS["notes"])]
EVENTS: list[tuple[str, str, int]] = [*map(tuple, _WORDS["events"])]
MAILS: list[tuple[str, str]] = [*map(tuple, _WORDS["mails"])]
NEWSLETTERS: list[tuple[str, str, str]] = [*map(tuple, _WORDS["newsletters"])]
SPAM: list[tuple[str, str, str]] = [*map(tuple, _WORDS["spam"])]
FILES: list[tuple[str, str]] = [*map(tuple, _WORDS["files"])]
