"""The scratch folder: files that live in the interpreter's memory, behind a plain `open`."""

from __future__ import annotations

import io
from typing import IO

MODES = ("r", "w", "a", "x", "rt", "wt", "at", "xt")


class Scratch:
    """Text files by name; agent code gets `open`."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def open(self, file: str, mode: str = "r", encoding: str = "utf-8") -> IO[str]:
        """A text file, kept until the end of the episode.

        Raises:
            ValueError: Another mode. FileNotFoundError, FileExistsError: As of Python's own.
        """
        if mode not in MODES or encoding.lower() not in ("utf-8", "utf8"):
            raise ValueError(
                f"files are UTF-8 texts in the sandbox, with mode one of {', '.join(MODES)}; got "
                f"mode {mode!r} and encoding {encoding!r}"
            )
        name, kind = str(file), mode[0]
        if kind == "r" and name not in self.files:
            raise FileNotFoundError(
                f"no file {name!r}: `open` sees only what this task's code has written "
                f"({', '.join(sorted(self.files)) or 'nothing so far'})"
            )
        if kind == "x" and name in self.files:
            raise FileExistsError(f"the file {name!r} is already there")
        if kind == "r":
            return io.StringIO(self.files[name])
        self.files.setdefault(name, "")
        return _Written(self, name, self.files[name] if kind == "a" else "")


class _Written(io.StringIO):
    """A file for writing; its text is stored at each flush and when it is closed."""

    def __init__(self, folder: Scratch, name: str, before: str) -> None:
        super().__init__(before)
        self.seek(0, io.SEEK_END)
        self._kept = folder, name
        self.flush()

    def flush(self) -> None:
        if not self.closed:
            folder, name = self._kept
            folder.files[name] = self.getvalue()

    def close(self) -> None:
        self.flush()
        super().close()

    def __exit__(self, *error: object) -> None:
        self.close()
