"""Many worlds at once, and many episodes one after the other: nothing grows and nothing mixes."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from attacks import below

from agent_envs.appworld import tasks
from agent_envs.appworld.mini import MiniWorld
from agent_envs.appworld.sandbox import start_warden

pytestmark = pytest.mark.slow


def solve(world, task_id):
    """Play a task's solution: what each turn printed."""
    world.open(task_id)
    said = [world.execute(code) for code in world.solution]
    assert not world.evaluate().failures
    return said


def memory(pid):
    """Resident memory in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


@pytest.mark.long
def test_64_worlds_at_once_do_not_mix():
    ids = tasks.list_tasks("train")[::4][:64]
    expected = [solve(MiniWorld(), task_id) for task_id in ids]
    barrier = threading.Barrier(64)

    def play(task_id):
        world = MiniWorld(timeout=300)
        world.open(task_id)
        world.execute("x = 1")
        barrier.wait()
        said = solve(world, task_id)
        barrier.wait()
        return world, said

    with ThreadPoolExecutor(64) as threads:
        played = list(threads.map(play, ids))
    assert [said for _, said in played] == expected
    assert len(below(start_warden().pid)) >= 65
    for world, _ in played:
        world.close()


@pytest.mark.parametrize("episodes", [80, pytest.param(2000, marks=pytest.mark.long)])
def test_episodes_leave_nothing_behind(episodes):
    world = MiniWorld(timeout=300)
    ids = tasks.list_tasks("all")
    seen = []
    for episode in range(episodes):
        world.open(ids[episode % 40])
        assert "@" in world.execute("print(apis.supervisor.show_profile()['email'])")
        if episode % (episodes // 2) == episodes // 2 - 1:
            gc.collect()
            pid = start_warden().pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            inside = [memory(int(child)) for child in children]
            descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
            inner = sum(1 for _ in Path(f"/proc/{children[0]}/fd").iterdir())
            seen.append((memory(os.getpid()), *inside, descriptors, inner, len(below(pid))))
    first, last = seen
    assert last[2:] == first[2:]  # descriptors and processes
    assert all(now - then < 2 for then, now in zip(first, last, strict=True))
