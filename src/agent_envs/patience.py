"""How long to wait before a server that failed is asked again."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from time import sleep

BACKOFF = 0.5  # seconds before the second try, twice as many before each further one
LONGEST = 30.0  # seconds that are waited at most, even if a server asks for more


def delay(tried: int, asked: float = 0.0) -> float:
    """Seconds to wait after `tried` tries: more each time, a little at random, at least `asked`.

    The generator is one of its own: that of the process stays as it was.
    """
    longest = min(BACKOFF * 2.0 ** min(tried - 1, 10), LONGEST)
    return max(asked, longest * Random().uniform(0.5, 1.0))


def pause(tried: int, asked: float = 0.0) -> None:
    """Wait for as long as `delay` says."""
    sleep(delay(tried, asked))


def retry_after(header: str | None) -> float:
    """Seconds that a header `Retry-After` asks for, a number or a date; 0 where it says no time."""
    if not header:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        seconds = _seconds_to(header)
    return min(seconds, LONGEST) if seconds > 0 else 0.0  # neither is NaN


def tries(count: int) -> str:
    """`1 try`, `3 tries`."""
    return "1 try" if count == 1 else f"{count} tries"


def _seconds_to(date: str) -> float:
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return 0.0
    return (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
