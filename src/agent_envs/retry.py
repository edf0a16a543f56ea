"""Retries with exponential back-off: how long to wait before a failed request is sent again."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from time import sleep

BACKOFF = 0.5  # seconds before the second try, doubled before each further one
LONGEST = 30.0  # longest wait in seconds, even if a server asks for more


def delay(tried: int, asked: float = 0.0) -> float:
    """Seconds to wait after `tried` tries: doubled each time, with random jitter, at least `asked`.

    It uses a generator of its own and leaves the global random state as it is.
    """
    longest = min(BACKOFF * 2.0 ** min(tried - 1, 10), LONGEST)
    return max(asked, longest * Random().uniform(0.5, 1.0))


def pause(tried: int, asked: float = 0.0) -> float:
    """Sleep for `delay(tried, asked)` seconds, and return them."""
    seconds = delay(tried, asked)
    sleep(seconds)
    return seconds


def retry_after(header: str | None) -> float:
    """Seconds of a `Retry-After` header, a number or a date; 0 without a valid one."""
    if not header:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        seconds = _seconds_to(header)
    return min(seconds, LONGEST) if seconds > 0 else 0.0  # NaN gives 0, too


def tries(count: int) -> str:
    """`1 try`, `3 tries`."""
    return "1 try" if count == 1 else f"{count} tries"


def _seconds_to(date: str) -> float:
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return 0.0
    return (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
