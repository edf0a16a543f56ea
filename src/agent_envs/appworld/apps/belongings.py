"""The apps that keep what belongs to the person: files, music, notes, shopping lists."""

from __future__ import annotations

from typing import Any

from agent_envs.appworld.apps.app import (
    LONGEST_TEXT,
    App,
    Body,
    Count,
    Page,
    Rating,
    Text,
    Words,
    Written,
    drop_repeats,
    has_words,
    only,
)
from agent_envs.appworld.session import Refusal


class Files(App):
    """Keep text files under paths like "/work/plan.txt"; a folder is there while it has files."""

    name = "files"

    def list_files(self, folder: Text = "/") -> Page:
        """List the files of a folder and of the folders in it, in the order of their paths.

        Gives: a list of id, path, size (in characters), created_at

        Args:
            folder: path of the folder, like "/work"
        """
        inside = folder.rstrip("/") + "/"
        return [_summarise(file) for file in self._sort_files() if file["path"].startswith(inside)]

    def search_files(self, query: Text) -> Page:
        """Find files by words of their path and text, in the order of their paths.

        Gives: a list of id, path, size (in characters), created_at

        Args:
            query: words that path or text must have, all of them
        """
        return [
            _summarise(file)
            for file in self._sort_files()
            if has_words(query, file["path"], file["text"])
        ]

    def show_file(self, path: Text) -> dict[str, Any]:
        """Show a file with its text.

        Gives: id, path, text, created_at

        Args:
            path: path of the file
        """
        return dict(self._find_file(path))

    def create_file(self, path: Text, text: Body = "") -> dict[str, int]:
        """Make a new file.

        Gives: file_id

        Args:
            path: path of the file
            text: its text
        """
        self._check_free(path)
        return {
            "file_id": self._add_row("files", path=path, text=text, created_at=self._session.now)
        }

    def write_file(self, path: Text, text: Body) -> None:
        """Give a file a new text in place of the old one.

        Args:
            path: path of the file
            text: all of its new text
        """
        self._state.change("files", self._find_file(path)["id"], text=text)

    def append_to_file(self, path: Text, text: Written) -> None:
        """Add text at the end of a file.

        Args:
            path: path of the file
            text: what to add, with line ends where you want them
        """
        file = self._find_file(path)
        longer = file["text"] + text
        if (size := len(longer)) > LONGEST_TEXT:
            raise Refusal(
                409, f"A file has at most {LONGEST_TEXT} characters, this would be {size}."
            )
        self._state.change("files", file["id"], text=longer)

    def move_file(self, path: Text, new_path: Text) -> None:
        """Move or rename a file.

        Args:
            path: path of the file
            new_path: where it goes, with its name
        """
        file = self._find_file(path)
        self._check_free(new_path)
        self._state.change("files", file["id"], path=new_path)

    def copy_file(self, path: Text, new_path: Text) -> dict[str, int]:
        """Copy a file.

        Gives: file_id

        Args:
            path: path of the file
            new_path: path of the copy
        """
        text = self._find_file(path)["text"]
        return self.create_file(new_path, text)

    def delete_file(self, path: Text) -> None:
        """Delete a file for good.

        Args:
            path: path of the file
        """
        self._remove_row("files", self._find_file(path)["id"])

    def _find_file(self, path: str) -> dict[str, Any]:
        for file in self._state.find_rows("files", path=path):
            return dict(file)
        raise Refusal(404, f"There is no file {path}.")

    def _check_free(self, path: str) -> None:
        if not path.startswith("/") or path.endswith("/") or "//" in path:
            raise Refusal(422, f"A path is like '/work/plan.txt', got {path!r:.80}.")
        if self._state.find_rows("files", path=path):
            raise Refusal(409, f"There is already a file {path}.")

    def _sort_files(self) -> list[dict[str, Any]]:
        files = [dict(file) for file in self._state.find_rows("files")]
        return sorted(files, key=lambda file: str(file["path"]))


def _summarise(file: dict[str, Any]) -> dict[str, Any]:
    return {**only(file, "id", "path", "created_at"), "size": len(file["text"])}


class Music(App):
    """Find songs, like and rate them, and put them into playlists."""

    name = "music"

    def search_songs(self, query: str = "", genre: str = "") -> Page:
        """Find songs by words and genre; without either, list all.

        Gives: a list of id, title, artist, album, genre, year, seconds, plays, liked, rating

        Args:
            query: words that title, artist or album must have, all of them
            genre: only songs of this genre
        """
        return [
            dict(song)
            for song in self._state.find_rows("songs")
            if has_words(query, song["title"], song["artist"], song["album"])
            and (not genre or song["genre"] == genre.lower())
        ]

    def show_song(self, song_id: int) -> dict[str, Any]:
        """Show a song; plays is how often it was heard, rating is 0 where it has none.

        Gives: id, title, artist, album, genre, year, seconds, plays, liked, rating

        Args:
            song_id: id of the song
        """
        return dict(self._find_row("songs", song_id))

    def list_genres(self) -> list[str]:
        """List the genres.

        Gives: a list of genres
        """
        return sorted({song["genre"] for song in self._state.find_rows("songs")})

    def list_liked_songs(self) -> Page:
        """List the songs that you like.

        Gives: a list of id, title, artist, album, genre, year, seconds, plays, liked, rating
        """
        return [dict(song) for song in self._state.find_rows("songs", liked=True)]

    def like_song(self, song_id: int) -> None:
        """Like a song.

        Args:
            song_id: id of the song
        """
        self._like(song_id, True)

    def unlike_song(self, song_id: int) -> None:
        """Like a song no more.

        Args:
            song_id: id of the song
        """
        self._like(song_id, False)

    def rate_song(self, song_id: int, rating: Rating) -> None:
        """Rate a song.

        Args:
            song_id: id of the song
            rating: stars, 5 for the best
        """
        self._set_fields("songs", song_id, rating=rating)

    def list_playlists(self) -> Page:
        """List the playlists.

        Gives: a list of id, title, song_ids
        """
        return [dict(row) for row in self._state.find_rows("playlists")]

    def show_playlist(self, playlist_id: int) -> dict[str, Any]:
        """Show a playlist with its songs in order.

        Gives: id, title, songs: a list of songs as show_song gives them

        Args:
            playlist_id: id of the playlist
        """
        row = self._find_row("playlists", playlist_id)
        songs = [dict(self._find_row("songs", song_id)) for song_id in row["song_ids"]]
        return {"id": row["id"], "title": row["title"], "songs": songs}

    def create_playlist(self, title: Text) -> dict[str, int]:
        """Start an empty playlist.

        Gives: playlist_id

        Args:
            title: title of the playlist
        """
        return {"playlist_id": self._add_row("playlists", title=title, song_ids=[])}

    def rename_playlist(self, playlist_id: int, title: Text) -> None:
        """Give a playlist another title.

        Args:
            playlist_id: id of the playlist
            title: the new title
        """
        self._set_fields("playlists", playlist_id, title=title)

    def delete_playlist(self, playlist_id: int) -> None:
        """Delete a playlist for good; its songs stay.

        Args:
            playlist_id: id of the playlist
        """
        self._remove_row("playlists", playlist_id)

    def add_song_to_playlist(self, playlist_id: int, song_id: int) -> None:
        """Put a song at the end of a playlist.

        Args:
            playlist_id: id of the playlist
            song_id: id of the song
        """
        songs = self._find_row("playlists", playlist_id)["song_ids"]
        self._find_row("songs", song_id)
        if song_id in songs:
            raise Refusal(409, f"Song {song_id} is already in the playlist.")
        self._state.change("playlists", playlist_id, song_ids=[*songs, song_id])

    def remove_song_from_playlist(self, playlist_id: int, song_id: int) -> None:
        """Take a song out of a playlist.

        Args:
            playlist_id: id of the playlist
            song_id: id of the song
        """
        songs = self._find_row("playlists", playlist_id)["song_ids"]
        if song_id not in songs:
            raise Refusal(404, f"Song {song_id} is not in the playlist.")
        kept = [known for known in songs if known != song_id]
        self._state.change("playlists", playlist_id, song_ids=kept)

    def _like(self, song_id: int, liked: bool) -> None:
        song = self._find_row("songs", song_id)
        if song["liked"] == liked:
            raise Refusal(409, f"Song {song_id} is {'already' if liked else 'not'} liked.")
        self._state.change("songs", song_id, liked=liked)


class Notes(App):
    """Write down notes, tag them, pin them and find them again."""

    name = "notes"

    def search_notes(self, query: str = "", tag: str = "") -> Page:
        """Find notes by words and tag, pinned ones first; without either, list all.

        Gives: a list of id, title, tags, pinned

        Args:
            query: words that title and text must have, all of them
            tag: only notes with this tag
        """
        found = [
            only(note, "id", "title", "tags", "pinned")
            for note in self._state.find_rows("notes")
            if has_words(query, note["title"], note["text"]) and (not tag or tag in note["tags"])
        ]
        found.sort(key=lambda note: not note["pinned"])
        return found

    def show_note(self, note_id: int) -> dict[str, Any]:
        """Show a note with its text.

        Gives: id, title, text, tags, pinned

        Args:
            note_id: id of the note
        """
        return dict(self._find_row("notes", note_id))

    def create_note(
        self, title: Text, text: Body = "", tags: Words | None = None
    ) -> dict[str, int]:
        """Write a new note.

        Gives: note_id

        Args:
            title: title of the note
            text: its text
            tags: its tags
        """
        note_id = self._add_row(
            "notes", title=title, text=text, tags=drop_repeats(tags or []), pinned=False
        )
        return {"note_id": note_id}

    def update_note(
        self,
        note_id: int,
        title: Text | None = None,
        text: Body | None = None,
        tags: Words | None = None,
    ) -> None:
        """Change title, text or tags of a note; what is not given stays.

        Args:
            note_id: id of the note
            title: the new title
            text: the new text, in place of all of the old one
            tags: the new tags, in place of all old ones
        """
        tags = None if tags is None else drop_repeats(tags)
        self._set_fields("notes", note_id, title=title, text=text, tags=tags)

    def pin_note(self, note_id: int, pinned: bool = True) -> None:
        """Pin a note to the top, or unpin it.

        Args:
            note_id: id of the note
            pinned: whether it is to be pinned
        """
        self._set_fields("notes", note_id, pinned=pinned)

    def delete_note(self, note_id: int) -> None:
        """Delete a note for good.

        Args:
            note_id: id of the note
        """
        self._remove_row("notes", note_id)

    def list_tags(self) -> list[dict[str, Any]]:
        """List all tags with the number of notes that have them.

        Gives: a list of tag, notes
        """
        notes = self._state.find_rows("notes")
        tags = sorted({tag for note in notes for tag in note["tags"]})
        return [{"tag": t, "notes": sum(t in note["tags"] for note in notes)} for t in tags]


class Shopping(App):
    """Keep shopping lists, and tick off what is bought."""

    name = "shopping"

    def show_lists(self) -> Page:
        """Show all shopping lists.

        Gives: a list of id, title, items (how many)
        """
        return [
            {"id": row["id"], "title": row["title"], "items": len(self._find_items(row["id"]))}
            for row in self._state.find_rows("lists")
        ]

    def show_list(self, list_id: int) -> dict[str, Any]:
        """Show a shopping list with its items.

        Gives: id, title, items: a list of id, name, quantity, bought

        Args:
            list_id: id of the list
        """
        row = self._find_row("lists", list_id)
        items = [only(i, "id", "name", "quantity", "bought") for i in self._find_items(list_id)]
        return {"id": row["id"], "title": row["title"], "items": items}

    def create_list(self, title: Text) -> dict[str, int]:
        """Start a shopping list.

        Gives: list_id

        Args:
            title: title of the list
        """
        if self._state.find_rows("lists", title=title):
            raise Refusal(409, f"There is already a list {title!r}.")
        return {"list_id": self._add_row("lists", title=title)}

    def rename_list(self, list_id: int, title: Text) -> None:
        """Give a shopping list another title.

        Args:
            list_id: id of the list
            title: the new title
        """
        self._set_fields("lists", list_id, title=title)

    def delete_list(self, list_id: int) -> None:
        """Delete a shopping list with all its items for good.

        Args:
            list_id: id of the list
        """
        self._find_row("lists", list_id)
        for item in self._find_items(list_id):
            self._remove_row("items", item["id"])
        self._remove_row("lists", list_id)

    def add_item(self, list_id: int, name: Text, quantity: Count = 1) -> dict[str, int]:
        """Put an item on a shopping list.

        Gives: item_id

        Args:
            list_id: id of the list
            name: what to buy
            quantity: how many
        """
        self._find_row("lists", list_id)
        if any(item["name"] == name for item in self._find_items(list_id)):
            raise Refusal(409, f"{name!r} is already on the list; use update_item.")
        item_id = self._add_row(
            "items", list_id=list_id, name=name, quantity=quantity, bought=False
        )
        return {"item_id": item_id}

    def update_item(
        self, item_id: int, quantity: Count | None = None, bought: bool | None = None
    ) -> None:
        """Change how many of an item to buy, or whether it is bought; what is not given stays.

        Args:
            item_id: id of the item
            quantity: how many
            bought: whether it is bought
        """
        self._set_fields("items", item_id, quantity=quantity, bought=bought)

    def remove_item(self, item_id: int) -> None:
        """Remove an item from its shopping list for good.

        Args:
            item_id: id of the item
        """
        self._remove_row("items", item_id)

    def _find_items(self, list_id: int) -> list[dict[str, Any]]:
        return [dict(item) for item in self._state.find_rows("items", list_id=list_id)]
