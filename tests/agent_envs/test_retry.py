"""How long a server that failed is left alone."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from agent_envs import web as retry


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0.25", 0.25), ("7", 7), ("1000", 30), ("inf", 30), ("-1", 0), ("nan", 0), ("", 0),
        (None, 0), ("soon", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 9999 07:28:00 GMT", 30), ("Wed, 99 Oct 2015 07:28:00 GMT", 0),
    ],
)  # fmt: skip
def test_what_a_server_asks_for(header, seconds):
    assert retry.read_retry_after(header) == seconds


def test_a_date_is_waited_for():
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=12), usegmt=True)
    assert 9 < retry.read_retry_after(then) <= 12


def test_pauses_grow_up_to_a_limit_and_are_at_least_what_is_asked_for(monkeypatch):
    waited = []
    monkeypatch.setattr(retry, "sleep", waited.append)
    for tried in (1, 2, 3, 10, 10**6):
        retry.pause(tried)
    retry.pause(1, 5.0)
    bounds = [(0.25, 0.5), (0.5, 1), (1, 2), (15, 30), (15, 30), (5, 5)]
    assert all(low <= wait <= high for wait, (low, high) in zip(waited, bounds, strict=True))


def test_pauses_do_not_draw_from_the_generator_of_the_process():
    before = random.getstate()
    retry.choose_delay(3)
    assert random.getstate() == before


def test_tries_are_counted():
    assert (retry.count_tries(1), retry.count_tries(3)) == ("1 try", "3 tries")
