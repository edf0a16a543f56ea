"""Whether others hold up the threads, from clocks."""

from __future__ import annotations

import pytest

from trainer.run.contention import Clock, contended


@pytest.mark.parametrize(
    ("wall", "cpu", "waited", "threads", "said"),
    [
        (60, 118, 1, 2, False),  # both threads run
        (60, 60, 1, 2, False),  # code that runs in one thread
        (60, 70, 48, 2, True),  # 118 s that could have run, 48 s without a core
        (60, 20, 0, 2, True),  # less than half of one core, e.g. a quota
        (60, 50, 1, 16, False),
        (60, 50, 40, 1, False),  # 83% of its core
        (60, 35, 30, 1, True),
        (3, 1, 3, 2, False),  # too short
    ],
)
def test_cpu_time_far_below_wall_times_threads(wall, cpu, waited, threads, said):
    text = contended(Clock(wall, cpu, waited), threads)
    assert bool(text) == said
    if said:
        assert f"{threads} thread{'s' * (threads > 1)} had {cpu} s of CPU time in {wall} s" in text
        assert ("added up over the threads" in text) == (threads > 1)
        assert "lower run.threads" in text if threads > 1 else "fewer processes" in text


def test_the_clocks_run():
    before = Clock.now()
    sum(range(10**6))
    spent = Clock.now().since(before)
    assert spent.wall > 0
    assert spent.cpu >= 0
    assert spent.waited >= 0
