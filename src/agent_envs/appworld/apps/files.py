"""The files app."""

from __future__ import annotations

from typing import Any

from agent_envs.appworld.apis import (
    LONGEST_TEXT,
    Body,
    Count,
    PageLimit,
    Refusal,
    Text,
    Token,
    Written,
)
from agent_envs.appworld.apps.app import App, has_words, only, page


class Files(App):
    """Keep text files under paths like "/work/plan.txt"; a folder is there while it has files."""

    name = "files"

    def list_files(
        self,
        access_token: Token,
        folder: Text = "/",
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
        """List the files of a folder and of the folders in it, in the order of their paths.

        Gives: a list of id, path, size (in characters), created_at

        Args:
            folder: path of the folder, like "/work"
        """
        inside = folder.rstrip("/") + "/"
        found = [_listed(file) for file in self._in_order() if file["path"].startswith(inside)]
        return page(found, page_index, page_limit)

    def search_files(
        self,
        access_token: Token,
        query: Text,
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
        """Find files by words of their path and text, in the order of their paths.

        Gives: a list of id, path, size (in characters), created_at

        Args:
            query: words that path or text must have, all of them
        """
        found = [
            _listed(file)
            for file in self._in_order()
            if has_words(query, file["path"], file["text"])
        ]
        return page(found, page_index, page_limit)

    def show_file(self, access_token: Token, path: Text) -> dict[str, Any]:
        """Show a file with its text.

        Gives: id, path, text, created_at

        Args:
            path: path of the file
        """
        return dict(self._at(path))

    def create_file(self, access_token: Token, path: Text, text: Body = "") -> dict[str, int]:
        """Make a new file.

        Gives: file_id

        Args:
            path: path of the file
            text: its text
        """
        self._check_free(path)
        return {"file_id": self._add("files", path=path, text=text, created_at=self._now)}

    def write_file(self, access_token: Token, path: Text, text: Body) -> None:
        """Give a file a new text in place of the old one.

        Args:
            path: path of the file
            text: all of its new text
        """
        self._state.change("files", self._at(path)["id"], text=text)

    def append_to_file(self, access_token: Token, path: Text, text: Written) -> None:
        """Add text at the end of a file.

        Args:
            path: path of the file
            text: what to add, with line ends where you want them
        """
        file = self._at(path)
        longer = file["text"] + text
        if len(longer) > LONGEST_TEXT:
            raise Refusal(
                409, f"A file has at most {LONGEST_TEXT} characters, this would be {len(longer)}."
            )
        self._state.change("files", file["id"], text=longer)

    def move_file(self, access_token: Token, path: Text, new_path: Text) -> None:
        """Move or rename a file.

        Args:
            path: path of the file
            new_path: where it goes, with its name
        """
        file = self._at(path)
        self._check_free(new_path)
        self._state.change("files", file["id"], path=new_path)

    def copy_file(self, access_token: Token, path: Text, new_path: Text) -> dict[str, int]:
        """Copy a file.

        Gives: file_id

        Args:
            path: path of the file
            new_path: path of the copy
        """
        text = self._at(path)["text"]
        return self.create_file(access_token, new_path, text)

    def delete_file(self, access_token: Token, path: Text) -> None:
        """Delete a file for good.

        Args:
            path: path of the file
        """
        self._remove("files", self._at(path)["id"])

    def _at(self, path: str) -> dict[str, Any]:
        for file in self._state.rows("files", path=path):
            return dict(file)
        raise Refusal(404, f"There is no file {path}.")

    def _check_free(self, path: str) -> None:
        if not path.startswith("/") or path.endswith("/") or "//" in path:
            raise Refusal(422, f"A path is like '/work/plan.txt', got {path!r:.80}.")
        if self._state.rows("files", path=path):
            raise Refusal(409, f"There is already a file {path}.")

    def _in_order(self) -> list[dict[str, Any]]:
        files = [dict(file) for file in self._state.rows("files")]
        return sorted(files, key=lambda file: str(file["path"]))


def _listed(file: dict[str, Any]) -> dict[str, Any]:
    return {**only(file, "id", "path", "created_at"), "size": len(file["text"])}
