"""Ladders of the worlds: python benchmarks/ladders.py [--out FOLDER] [--only ROW] [--dials].

Plays each row's ladder and prints a Markdown table; with `--dials` the rows are the settings of
each world's dial of difficulty. With `--out` it writes each row's JSON into a folder, and does not
play a row again that has a file there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

# This file's folder has files with the names of packages.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402

import agent_envs  # noqa: E402, F401  registers the ids
from agent_envs_lab.ladder import climb_ladder  # noqa: E402


class Row(NamedTuple):
    """An environment, its options, the split that is played, and the one that rungs learn from."""

    env_id: str
    options: Mapping[str, Any] = {}
    test: str = "test"
    train: str = "train"

    @property
    def name(self) -> str:
        """The id and the options."""
        given = [f"{key}={value}" for key, value in self.options.items()]
        split = [] if self.test == "test" else [f"split={self.test}"]
        return " ".join([self.env_id, *split, *given])


LARGE = {"height": 8, "width": 8, "boxes": 3, "max_solution": 60, "max_turns": 80}
ROWS = (
    Row("Points-v0"),
    Row("EZPoints-v0"),
    Row("Bifurcation-v1"),
    Row("Sokoban-v0"),
    Row("Sokoban-v0", LARGE),
    Row("SearchQA-v1"),
    Row("WikiSearch-v1"),
    Row("Sotopia-v1"),
    Row("WebShop-v1", {"requirements": 4}),
    Row("AppWorld-v1", test="test_unseen"),
    Row("AlfWorld-v0", test="valid_unseen"),
    Row("AlfWorld-v0", {"max_turns": "oracle+5"}, test="valid_unseen"),
    Row("AlfWorld-v0", test="valid_two", train="train_two"),
    Row("AlfWorld-v0", {"max_turns": "oracle+5"}, test="valid_two", train="train_two"),
    Row("TextWorld-v0"),
)
DIALS = (
    *(
        Row(world, {"hops": facts})
        for world in ("SearchQA-v1", "WikiSearch-v1")
        for facts in (1, 2, 3, 4)
    ),
    *(Row("Sotopia-v1", {"constraints": facts}) for facts in (1, 2, 3, 4, 5)),
    *(Row("WebShop-v1", {"requirements": properties}) for properties in (1, 2, 3, 4)),
    *(Row("AppWorld-v1", {"parts": families}, "test_unseen") for families in (2, 3, 4)),
    *(
        Row("AlfWorld-v0", {"max_turns": f"oracle+{turns}"}, "valid_unseen")
        for turns in (0, 2, 5, 10, 20)
    ),
    *(
        Row("Sokoban-v0", {"height": side, "width": side, "boxes": boxes})
        for side, boxes in ((6, 1), (7, 2), (8, 3))
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the rows' JSON")
    parser.add_argument("--dials", action="store_true", help="the settings of the worlds' dials")
    parser.add_argument("--only", default="", help="one row, or the beginning of some")
    parser.add_argument("--tasks", type=int, default=100, help="tasks of each rung")
    parser.add_argument("--seconds", type=float, default=900, help="time of each row")
    given = parser.parse_args()
    rows = DIALS if given.dials else ROWS
    chosen = [row for row in rows if row.name.startswith(given.only)]
    if not chosen:
        sys.exit(f"no row begins with {given.only!r}: {', '.join(row.name for row in rows)}")
    print("| world | tasks | best rung | success [95%] | expert | headroom | in training |")
    print("|---|---|---|---|---|---|---|")
    for row in chosen:
        file = given.out and given.out / f"{row.name.replace(' ', '_')}.json"
        if file and file.exists():
            print_row(row.name, json.loads(file.read_text()))
            continue
        try:
            found = climb_ladder(
                lambda split, row=row: gym.make(row.env_id, split=split, **row.options),
                train=row.train,
                test=row.test,
                tasks=given.tasks,
                seconds=given.seconds,
            )
        except ImportError as error:
            print(f"no row: {error}", file=sys.stderr)
            continue
        if file:
            given.out.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(found.json()))
        print_row(row.name, found.json())


def print_row(name: str, told: dict[str, Any]) -> None:
    success = told["success"]
    rungs = {rung: shares for rung, shares in success.items() if not rung.startswith("expert: ")}
    tops = {rung: shares for rung, shares in success.items() if rung not in rungs}
    if not rungs:
        print(f"| `{name}` | 0 | | | | | |")
        return
    best, top = max(rungs, key=rungs.__getitem__), max(tops, key=tops.__getitem__)
    share, low, high = rungs[best]
    expert = tops[top][0]
    overlap = ", ".join(f"{kind} {known:.0%}" for kind, known in told["overlap"].items())
    print(
        f"| `{name}` | {told['tasks']} | {best} | {share:.0%} [{low:.0%}, {high:.0%}] | "
        f"{top.removeprefix('expert: ')} {expert:.0%} | {expert - share:.0%} | {overlap} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
