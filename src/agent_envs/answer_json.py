"""JSON in the answers of language models."""

from __future__ import annotations

import json
import math
from typing import Any

_MOST_STARTS = 1000  # at most so many positions of a text are tried as the start of JSON


class RepeatedKeyError(ValueError):
    """A JSON object has the same key twice."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; an `object_pairs_hook` of JSON decoders.

    Raises:
        RepeatedKeyError: The same key occurs twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise RepeatedKeyError(f"the key {twice!r:.60} is there twice")
    return found


def json_in(text: str, opening: str = "{") -> Any:
    """The JSON in an answer, ignoring text around it: the last object, or with "[" the last array.

    Raises:
        ValueError: There is no JSON, or an object has the same key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=unique)
    except RepeatedKeyError:
        raise
    except (ValueError, RecursionError):
        pass
    _, closed, answer = text.partition("</think>")
    if not closed:
        answer = "" if text.lstrip().startswith("<think>") else text
    decoder = json.JSONDecoder(object_pairs_hook=unique)
    found, at = None, answer.find(opening)
    for _ in range(_MOST_STARTS):
        if at < 0:
            break
        try:
            found, end = decoder.raw_decode(answer, at)
        except RepeatedKeyError:
            raise
        except (ValueError, RecursionError):
            end = at + 1
        at = answer.find(opening, end)
    if found is None:
        raise ValueError(f"it has no JSON that begins with {opening}")
    return found


def number(given: Any) -> float:
    """A number in an answer; models also write numbers as strings.

    Raises:
        ValueError: It is not a number, or not finite.
    """
    odd = isinstance(given, bool) or (isinstance(given, str) and "_" in given)
    try:
        value = math.nan if odd else float(given)
    except (TypeError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{given!r:.60} is not a number")
    return value
