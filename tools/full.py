"""Run what the gate leaves out: the long tests, and the scripts of `.ci`.

python -m tools.full [PART ...]

It goes on after a failure and ends with a table. Most scripts make an environment of their own. A
part that could not be installed, or whose tests were all skipped, was "not run", and the table says
why; a script says so with exit status 77 and its last line. What is green is remembered for the
files of this tree and is not run again; logs and results are in `build/full`. The exit status is 1
if a part failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALONE = {"speed": [sys.executable, "-m", "tools.speed"], "long": ["make", "long"]}
# Those that take longest first; `verl_agent` shares the environment of `verl`.
BESIDE = (
    "extras", "vllm", "openenv", "smollm2", "ray", "verl", "trl", "nemo_gym", "areal", "tinker",
    "verifiers", "torchrl", "trackers", "foreign", "genuine", "quick", "hostile", "agents",
    "gym_sokoban", "appworld", "lucene", "wheel", "sdist", "docs", "verl_agent",
)  # fmt: skip
PARTS = (*ALONE, *BESIDE)
LIMIT = 7200  # seconds of a part
NOT_RUN = 77  # as in Automake
_CLOSING = re.compile(r"^[= ]*(?:\d+ \w+, )*\d+ \w+ in [\d.]+s\b.*$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")
_SKIPPED = re.compile(r"^SKIPPED \[\d+\] \S+ (.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a part ended: "green", "red" or "not run", the tests counted, and the minutes it took."""

    part: str
    verdict: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    minutes: float = 0.0
    why: str = ""


def judge(part: str, code: int, log: str, minutes: float) -> Result:
    """The result of a part from its exit status and all that it printed."""
    counts = {"passed": 0, "failed": 0, "error": 0, "skipped": 0}
    closing = _CLOSING.findall(log)
    for line in closing:
        for number, kind in _COUNT.findall(line):
            counts[kind.removesuffix("s")] += int(number)
    lines = log.split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
    verdict, why = "green", ""
    if code == NOT_RUN:
        verdict, why = "not run", last
    elif code:
        verdict, why = "red", last
    elif closing and not counts["passed"]:
        reason = _SKIPPED.search(log)
        verdict, why = "not run", reason[1] if reason else "no test was executed"
    return Result(
        part=part,
        verdict=verdict,
        passed=counts["passed"],
        failed=counts["failed"] + counts["error"],
        skipped=counts["skipped"],
        minutes=round(minutes, 1),
        why=why,
    )


def name_tree() -> str:
    """The name that git gives to the files as they are now, committed or not."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "GIT_INDEX_FILE": str(Path(folder, "index"))}
        subprocess.run(["git", "add", "-A"], cwd=ROOT, env=env, check=True)
        tree = subprocess.run(
            ["git", "write-tree"], cwd=ROOT, env=env, check=True, capture_output=True, text=True
        )
    return tree.stdout.strip()


def run_part(part: str, folder: Path, running: set[subprocess.Popen[bytes]]) -> Result:
    """Run a part unless it was green for these files, and keep its log and result in the folder."""
    kept = folder / f"{part}.json"
    if kept.is_file():
        result = Result(**json.loads(kept.read_text(encoding="utf-8")))
        if result.verdict == "green":
            return result
    command = ALONE.get(part, [f".ci/{part}"])
    log, start = folder / f"{part}.log", time.monotonic()
    env = {**os.environ, "PIP": sys.executable}
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        running.add(process)
        try:
            code = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            end(process)
            code = process.wait()
            file.write(f"not over after {LIMIT // 60} minutes\n".encode())
        running.discard(process)
    said = log.read_text(encoding="utf-8", errors="replace")
    result = judge(part, code, said, (time.monotonic() - start) / 60)
    new = kept.with_suffix(".new")
    new.write_text(json.dumps(asdict(result)), encoding="utf-8")
    new.replace(kept)
    print(f"{part}: {result.verdict}, {result.minutes} min  {result.why}", flush=True)
    return result


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a part and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def print_table(results: list[Result]) -> None:
    """One line a part: what passed, failed and was skipped, or why it was not run."""
    print(f"\n{'part':12} {'verdict':8} {'passed':>6} {'failed':>6} {'skipped':>7} {'min':>5}  why")
    for result in results:
        print(
            f"{result.part:12} {result.verdict:8} {result.passed:6} {result.failed:6}"
            f" {result.skipped:7} {result.minutes:5}  {result.why[:100]}"
        )


def main() -> None:
    """Run the parts, those alone first and then two at a time, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("part", nargs="*", help=", ".join(PARTS))
    chosen = parser.parse_args().part or PARTS
    if unknown := set(chosen) - {*PARTS}:
        parser.error(f"{', '.join(sorted(unknown))}: parts are {', '.join(PARTS)}")
    folder = ROOT / "build" / "full" / name_tree()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    running: set[subprocess.Popen[bytes]] = set()
    for number in (signal.SIGINT, signal.SIGTERM):  # a background job has the first ignored
        signal.signal(number, signal.default_int_handler)
    try:
        results = [run_part(part, folder, running) for part in chosen if part in ALONE]
        with ThreadPoolExecutor(2) as pool:
            jobs = [
                pool.submit(run_part, part, folder, running) for part in chosen if part in BESIDE
            ]
            try:
                results += [job.result() for job in jobs]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in running.copy():  # else the pool waits for them
                    end(process)
                raise
    except BaseException:
        for process in running.copy():
            end(process)
        raise
    print_table(results)
    sys.exit(any(result.verdict == "red" for result in results))


if __name__ == "__main__":
    main()
