"""What a machine ran out of: the reason that is reported, and what to lower."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
import torch

from agent_envs import cli
from agent_envs.machine import find_shortage, is_of_memory
from agent_envs.sokoban.env import Sokoban
from agent_envs.workers import Workers
from trainer.engine import EngineError
from trainer.play.environments import Env, PromptOptions
from trainer.play.failures import Failure, split_attempts
from trainer.play.rollout import Rollouts
from trainer.scale import pool

from .conftest import Script, corridor_tasks, east

ALLOCATORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:121] . not enough memory: you tried to allocate"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: out of memory"),
]
MEMORIES = [
    MemoryError(),
    MemoryError("Unable to allocate 7.45 GiB for an array with shape (10,)"),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    *ALLOCATORS,
]


OTHERS = [
    RuntimeError("shapes do not match"),
    ValueError("out of memory"),  # of a user's code
    BlockingIOError(errno.EAGAIN, "no data"),  # of a socket
    OSError(errno.ENOENT, "no file"),
]


@pytest.mark.parametrize("error", [*MEMORIES, *OTHERS], ids=repr)
def test_a_lack_of_memory_is_told_from_other_errors(error):
    lacks = error in MEMORIES
    assert is_of_memory(error) == lacks
    assert find_shortage(error).startswith("memory ran out") == lacks
    assert bool(find_shortage(error)) == lacks


def refused(*given, **more):
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@pytest.fixture
def processless(monkeypatch):
    """The operating system starts no process."""
    monkeypatch.setattr(subprocess, "_fork_exec", refused)
    monkeypatch.setattr(subprocess, "_USE_POSIX_SPAWN", False)
    monkeypatch.setattr("_posixsubprocess.fork_exec", refused)
    monkeypatch.setattr(os, "fork", refused)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_no_process_can_be_started(method, processless):
    calls = [lambda: subprocess.Popen([sys.executable])]
    calls.append(multiprocessing.get_context(method).Process(target=print).start)
    calls.append(lambda: Workers(Sokoban, processes=2).make_envs(4))
    for call in calls:
        with pytest.raises(BlockingIOError) as raised:
            call()
        assert "no further process or thread can be started" in find_shortage(raised.value)
        assert "lower env.processes" in find_shortage(raised.value)


def test_no_thread_can_be_started(corridor, monkeypatch):
    monkeypatch.setattr(corridor.Corridor, "waits", True, raising=False)

    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    player = Rollouts(Env("Corridor-v0"), PromptOptions(), "train")
    _, (failure,) = split_attempts(player.attempt(corridor_tasks(2), Script(east), seed=0))
    assert "no further process or thread can be started" in failure.error
    assert "sampling.rows or run.threads" in failure.error


def test_an_environment_without_memory_says_so_and_torch_ends_the_run():
    with pytest.raises(torch.OutOfMemoryError):
        Failure.of(ALLOCATORS[0], task=("t", 0, 1))
    assert "memory ran out" in Failure.of(MemoryError(), task=("t", 0, 1)).error
    full = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    assert "raise the limit (`ulimit -n`)" in Failure.of(full, task=("t", 0, 1)).error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "MemoryError: memory ran out"),
        (ALLOCATORS[1], "can't allocate memory: memory ran out"),
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full; make room"),
        (OSError(errno.EMFILE, "Too many open files"), "raise the limit"),
        (RuntimeError("can't start new thread"), "no further process or thread can be started"),
    ],
    ids=repr,
)
def test_the_command_says_it_in_one_line(error, said, monkeypatch):
    def app():
        raise error

    monkeypatch.setitem(sys.modules, "agent_envs.cli.app", SimpleNamespace(app=app))
    with pytest.raises(SystemExit, match=rf"^agent-envs: .*{said}"):
        cli.main()


def test_ray_that_does_not_start(monkeypatch, processless):
    def init():
        subprocess.Popen([sys.executable])

    ray = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setattr(pool, "require", lambda *_: ray)
    with pytest.raises(EngineError, match=r"sampling\.actors=2: Ray does not start.*no further pr"):
        pool.Pool(2).prepare(None, None, 1)
