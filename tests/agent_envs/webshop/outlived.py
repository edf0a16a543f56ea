"""What outlives a process with a browser: run as a program, it prints a line of JSON a trial.

Each trial starts a Python process with a WebShopSite-v0, waits for one moment of its life and ends
it there. This program is the subreaper of all that the process started, so that the kernel gives
it whatever is left, and temporary files go to an empty folder of the trial.
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

SUBREAPER = 36  # of prctl(2)
PATIENCE = 15.0  # seconds that what is left gets to end
LIFE = """
import os, signal, sys, time
import gymnasium as gym
import agent_envs
ending = {ending!r}
def end():
    if ending == 'exception': raise ZeroDivisionError
    if ending == 'exit': sys.exit(3)
env = gym.make('WebShopSite-v0', data='embedded')
print('start', flush=True)
env.reset(seed=1)
print('step', flush=True)
if {moment!r} == 'fork' and not os.fork():
    time.sleep(60)
until = time.monotonic() + {length}
while True:
    env.step('search[lamp]')
    if time.monotonic() > until: end()
    env.reset(seed=1)
    if {moment!r} == 'close' and time.monotonic() > until: break
print('close', flush=True)
env.close()
time.sleep(60)
"""
SIGNALS = {"term": signal.SIGTERM, "kill": signal.SIGKILL, "int": signal.SIGINT}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("moment", choices=("start", "step", "close", "fork"))
    options.add_argument("ending", choices=(*SIGNALS, "exception", "exit"))
    options.add_argument("--trials", type=int, default=3)
    options.add_argument("--longest", type=float, default=2.0, help="seconds into the moment")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    rng = random.Random(given.seed)
    for _ in range(given.trials):
        print(json.dumps(trial(given.moment, given.ending, given.longest * rng.random())))
        sys.stdout.flush()


def trial(moment: str, ending: str, delay: float) -> dict[str, object]:
    """One life, ended so many seconds into a moment, and what it left when, in the end."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        shared = set(os.listdir("/dev/shm"))
        program = LIFE.format(moment=moment, ending=ending, length=delay)
        child = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"TMPDIR": folder},
            text=True,
        )
        marker = "step" if moment == "fork" else moment
        while (line := child.stdout.readline().strip()) != marker:
            if not line:
                raise RuntimeError(f"it ended with {child.wait()} before {moment}")
        if ending in SIGNALS:
            time.sleep(delay)
            child.send_signal(SIGNALS[ending])
        code = child.wait(timeout=60)
        began = time.monotonic()
        at_end = below(os.getpid())
        if moment == "fork":  # it stays, with what it holds
            forked = [one for one in at_end if one in at_end and "ending =" in at_end[one]]
        while time.monotonic() < began + PATIENCE and (left(folder, shared, moment)):
            time.sleep(0.02)
        seconds = time.monotonic() - began
        found = left(folder, shared, moment)
        for process in below(os.getpid()):
            os.kill(process, signal.SIGKILL)
        while below(os.getpid()):
            reap()
        return {
            "moment": moment,
            "ending": ending,
            "delay": round(delay, 3),
            "code": code,
            "seconds": round(seconds, 2),
            "left": found,
        }


def left(folder: str, shared: set[str], moment: str) -> list[str]:
    """Processes and files that are still there; the forked child of the trial is not ours."""
    reap()
    processes = [
        command
        for command in below(os.getpid()).values()
        if not (moment == "fork" and "ending = " in command)
    ]
    files = [str(path.relative_to(folder)) for path in Path(folder).iterdir()]
    return [*processes, *files, *(set(os.listdir("/dev/shm")) - shared)]


def below(parent: int) -> dict[int, str]:
    """Id and command of each process that descends from one and runs."""
    tree: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, above = status.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            tree.setdefault(int(above), []).append(int(status.parent.name))
    found, open_ = {}, [parent]
    while open_:
        for process in tree.get(open_.pop(), []):
            open_.append(process)
            try:
                command = Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            found[process] = command[:300]
    return found


def reap() -> None:
    """Take leave of all that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main()
