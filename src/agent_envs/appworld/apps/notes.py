"""The notes app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.appworld.apps.app import App, has_words, only, page

if TYPE_CHECKING:
    from agent_envs.appworld.apis import Body, Count, PageLimit, Text, Token, Words


class Notes(App):
    """Write down notes, tag them, pin them and find them again."""

    name = "notes"

    def search_notes(
        self,
        access_token: Token,
        query: str = "",
        tag: str = "",
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
        """Find notes by words and tag, pinned ones first; without either, list all.

        Gives: a list of id, title, tags, pinned

        Args:
            query: words that title and text must have, all of them
            tag: only notes with this tag
        """
        found = [
            only(note, "id", "title", "tags", "pinned")
            for note in self._state.rows("notes")
            if has_words(query, note["title"], note["text"]) and (not tag or tag in note["tags"])
        ]
        found.sort(key=lambda note: not note["pinned"])
        return page(found, page_index, page_limit)

    def show_note(self, access_token: Token, note_id: int) -> dict[str, Any]:
        """Show a note with its text.

        Gives: id, title, text, tags, pinned

        Args:
            note_id: id of the note
        """
        return dict(self._found("notes", note_id, "note"))

    def create_note(
        self, access_token: Token, title: Text, text: Body = "", tags: Words | None = None
    ) -> dict[str, int]:
        """Write a new note.

        Gives: note_id

        Args:
            title: title of the note
            text: its text
            tags: its tags
        """
        note_id = self._add("notes", title=title, text=text, tags=_once(tags or []), pinned=False)
        return {"note_id": note_id}

    def update_note(
        self,
        access_token: Token,
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
        tags = None if tags is None else _once(tags)
        self._give("notes", note_id, "note", title=title, text=text, tags=tags)

    def pin_note(self, access_token: Token, note_id: int, pinned: bool = True) -> None:
        """Pin a note to the top, or unpin it.

        Args:
            note_id: id of the note
            pinned: whether it is to be pinned
        """
        self._give("notes", note_id, "note", pinned=pinned)

    def delete_note(self, access_token: Token, note_id: int) -> None:
        """Delete a note for good.

        Args:
            note_id: id of the note
        """
        self._found("notes", note_id, "note")
        self._remove("notes", note_id)

    def list_tags(self, access_token: Token) -> list[dict[str, Any]]:
        """List all tags with the number of notes that have them.

        Gives: a list of tag, notes
        """
        notes = self._state.rows("notes")
        tags = sorted({tag for note in notes for tag in note["tags"]})
        return [{"tag": t, "notes": sum(t in note["tags"] for note in notes)} for t in tags]


def _once(tags: list[str]) -> list[str]:
    """Each tag once."""
    return list(dict.fromkeys(tags))
