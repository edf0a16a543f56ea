"""What outlives a process with a browser: run as a program, it prints a line of JSON a trial.

Each trial starts a Python process with a WebShopSite-v0 and ends it at some time of one moment of
its life. This program is the subreaper of all that the process started, so that the kernel hands
it whatever is left, and the process has an empty folder for temporary files.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

SUBREAPER = 36  # of prctl(2)
PATIENCE = 15.0  # seconds that what is left gets to end
LIFE = """
import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it ends with the trials
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job has it ignored
import gymnasium as gym
import agent_envs
moment, ending, length = {moment!r}, {ending!r}, {length!r}
def end():
    if ending == 'exception': raise ZeroDivisionError
    if ending == 'exit': sys.exit(3)
env = gym.make('WebShopSite-v0', data='embedded')
print('start', flush=True)
env.reset(seed=1)
if moment == 'fork' and not os.fork(): time.sleep(60)
print('step', 'fork', flush=True)
until = time.monotonic() + length
while moment != 'close':
    env.step('search[lamp]')
    if time.monotonic() > until: end()
    env.reset(seed=1)
print('close', flush=True)
env.close()
time.sleep(60)
"""
SIGNALS = {"term": signal.SIGTERM, "kill": signal.SIGKILL, "int": signal.SIGINT}
LONGEST = {"start": 1.1, "step": 1.0, "close": 0.5, "fork": 0.5}  # of a start's time, in seconds
SHARED = Path("/dev/shm")  # noqa: S108 - what is left there is looked for


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("moment", choices=LONGEST)
    options.add_argument("ending", choices=(*SIGNALS, "exception", "exit"))
    options.add_argument("--trials", type=int, default=3)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    rng = random.Random(given.seed)
    longest = LONGEST[given.moment]
    if given.moment == "start":
        with life("step", "kill", 0.0) as child:
            arrive(child, "start")
            began = time.monotonic()
            arrive(child, "step")
            longest *= time.monotonic() - began
            child.kill()
    for _ in range(given.trials):
        told = trial(given.moment, given.ending, longest * rng.random())
        print(json.dumps(told), flush=True)  # noqa: T201


def trial(moment: str, ending: str, delay: float) -> dict[str, object]:
    """One life, ended so many seconds into a moment; what it left, and how long it took to go."""
    # A long path would send the browser elsewhere.
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder:
        before = files(folder)
        with life(moment, ending, delay, TMPDIR=folder) as child:
            try:
                arrive(child, moment)
                if ending in SIGNALS:
                    time.sleep(delay)
                    child.send_signal(SIGNALS[ending])
                code = child.wait(timeout=60)
            finally:
                child.kill()
        began, left = time.monotonic(), None
        while left is None or (left and time.monotonic() < began + PATIENCE):
            left = [*map(command, ours()), *sorted(files(folder) - before)]
        seconds = time.monotonic() - began
    while last := below(os.getpid()):
        for process in last.values():
            process.kill()
        psutil.wait_procs(last.values(), timeout=1)
    told = {"moment": moment, "ending": ending, "delay": round(delay, 3), "code": code}
    return told | {"seconds": round(seconds, 2), "left": left}


def life(moment: str, ending: str, delay: float, **more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LIFE.format(moment=moment, ending=ending, length=delay)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, **pipes, env=os.environ | more, text=True)


def arrive(child: subprocess.Popen[str], moment: str) -> None:
    """Wait until the life says that it has come to a moment."""
    while moment not in (line := child.stdout.readline()).split():
        if not line:
            raise RuntimeError(f"it ended with {child.wait()} before {moment}")


def files(folder: str) -> set[str]:
    """What lies in a folder, and Chromium's in shared memory."""
    return {*map(str, Path(folder).iterdir()), *map(str, SHARED.glob("*chromium*"))}


def ours() -> list[psutil.Process]:
    """The processes that are left; a forked life is not ours to end."""
    return [p for p in below(os.getpid()).values() if "moment, ending, length" not in command(p)]


def below(parent: int) -> dict[int, psutil.Process]:
    """The processes that descend from one and run, by id."""
    try:
        found = psutil.Process(parent).children(recursive=True)
    except psutil.NoSuchProcess:
        return {}
    psutil.wait_procs(found, timeout=0)  # takes leave of those that have ended
    return {process.pid: process for process in found if process.is_running() and command(process)}


def command(process: psutil.Process) -> str:
    """The command line of a process, "" if it has ended."""
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


if __name__ == "__main__":
    main()
