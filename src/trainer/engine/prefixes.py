"""Openings that begin alike, encoded once: what to encode in which order, and what to copy."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEAST = 32
"""Fewest tokens in common that are worth a forward pass of their own."""


class Part(NamedTuple):
    """Tokens `start` to `end` of one opening; those before are copied from `source`, if any."""

    row: int
    source: int | None
    start: int
    end: int


def levels(openings: Mapping[int, Sequence[int]], *, least: int = LEAST) -> list[list[Part]]:
    """The parts of openings to encode at the same time, one level after another.

    A part continues what its source has encoded in the levels before. The last part of an opening
    ends where the opening does; it is empty if the source has encoded all of it.

    Args:
        openings: Tokens of each row's opening, at least one.
        least: Fewest tokens in common that are encoded once.
    """
    order = sorted(openings, key=lambda row: tuple(openings[row]))
    found: list[list[Part]] = []
    groups: list[tuple[list[int], int | None, int]] = [(order, None, 0)] if order else []
    while groups:
        parts: list[Part] = []
        later: list[tuple[list[int], int | None, int]] = []
        while groups:
            rows, source, start = groups.pop()
            first, last = openings[rows[0]], openings[rows[-1]]
            end = _agree(first, last, start)
            if len(rows) > 1 and end < len(last) and end - start < least:
                groups += [(some, source, start) for some in _split(openings, rows, end)]
                continue
            leader = rows[0]
            parts.append(Part(leader, source, start, end))
            if end == len(last):  # all are equal
                later += [([row], leader, end) for row in rows[1:]]
            else:
                split = _split(openings, rows, end)
                done = split[0] if len(first) == end else []
                later += [([row], leader, end) for row in done if row != leader]
                later += [(some, leader, end) for some in split if some is not done]
        found.append(parts)
        groups = later
    return found


def _agree(one: Sequence[int], other: Sequence[int], start: int) -> int:
    """Number of first tokens in which two openings agree, at least `start`."""
    end = start
    for a, b in zip(one[start:], other[start:], strict=False):
        if a != b:
            break
        end += 1
    return end


def _split(openings: Mapping[int, Sequence[int]], rows: Sequence[int], at: int) -> list[list[int]]:
    """Sorted rows by their token `at`; those that end there come first."""
    return [list(some) for _, some in groupby(rows, key=lambda row: openings[row][at : at + 1])]
