"""Recorded text on a terminal or a page."""

from __future__ import annotations

import unicodedata

_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def printable(text: str) -> str:
    """The text with U+FFFD for control characters, lone surrogates and marks of writing direction.

    Such characters can move a terminal's cursor or show other text in another order. Line ends and
    tabs stay.
    """
    if text.isprintable():
        return text
    return "".join("\ufffd" if _acts(one) else one for one in text)


def _acts(one: str) -> bool:
    if one in "\n\t":
        return False
    return unicodedata.category(one) in {"Cc", "Cs"} or unicodedata.bidirectional(one) in _TURNING
