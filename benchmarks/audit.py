"""Audits of all environments: python benchmarks/audit.py [--only ID] [--rewards] [--scale 1.0].

A table of anchors, or with `--rewards` of players that do not do the task, in Markdown. Each row is
played anew with the players of `agent_envs_lab.audits`; `--scale` shortens all of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

# This file's folder has files with the names of packages.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402

import agent_envs  # noqa: E402, F401  registers the ids
from agent_envs_lab.audits import audit_anchors, audit_rewards  # noqa: E402


class Row(NamedTuple):
    """An environment and its options; tasks, episodes of each task, and tasks of each player."""

    env_id: str
    options: dict[str, object]
    tasks: int
    episodes: int
    players: int


ROWS = (
    Row("AlfWorld-v0", {}, 12, 50, 200),
    Row("WebShop-v1", {}, 40, 50, 200),
    Row("WebShopSite-v1", {}, 2, 10, 10),  # the same rules in a browser, some 100 times as slow
    Row("SearchQA-v1", {"split": "test"}, 120, 60, 200),
    Row("WikiSearch-v1", {"split": "test"}, 120, 60, 200),
    Row("Sokoban-v0", {}, 40, 50, 100),
    Row("VisualSokoban-v0", {}, 40, 50, 100),
    Row("EZPoints-v0", {}, 60, 80, 192),
    Row("Points-v0", {}, 60, 40, 120),
    Row("Bifurcation-v1", {}, 60, 40, 180),
    Row("AppWorld-v1", {}, 20, 30, 66),
    Row("Sotopia-v1", {"split": "test"}, 70, 100, 200),
    Row("TextWorld-v0", {"split": "test"}, 10, 30, 25),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="one id, or the beginning of some")
    parser.add_argument("--rewards", action="store_true", help="the players instead of anchors")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of episodes")
    given = parser.parse_args()
    chosen = [row for row in ROWS if row.env_id.startswith(given.only)]
    if not chosen:
        sys.exit(f"no id begins with {given.only!r}: {', '.join(row.env_id for row in ROWS)}")
    if given.rewards:
        print("| environment | player | success [95%] | mean return |\n|---|---|---|---|")
    else:
        print(
            "| environment | turns | revisited pairs | diverging | revisited by observation | "
            "diverging by observation | seconds |\n|---|---|---|---|---|---|---|"
        )
    for row in chosen:
        name = f"`{row.env_id}`" + "".join(f", {k}={v}" for k, v in row.options.items())
        try:
            env = gym.make(row.env_id, **row.options)
        except ImportError as error:
            print(f"no row: {error}", file=sys.stderr)
            continue
        (print_rewards if given.rewards else print_anchors)(env, name, row, given.scale)
        env.close()


def print_anchors(env: gym.Env, name: str, row: Row, scale: float) -> None:
    start = time.perf_counter()
    found = audit_anchors(
        env, tasks=max(1, round(row.tasks * scale)), episodes=max(2, round(row.episodes * scale))
    )
    own, shown = found.anchor or found.observation, found.observation
    print(
        f"| {name} | {found.turns:,} | {own.revisited:,} | {own.diverging:,} | "
        f"{shown.revisited:,} | {shown.diverging:,} ({shown.share:.1%}) | "
        f"{time.perf_counter() - start:.0f} |",
        flush=True,
    )
    if not found.passed:
        print(f"\n{found}\n", file=sys.stderr)


def print_rewards(env: gym.Env, name: str, row: Row, scale: float) -> None:
    found = audit_rewards(env, tasks=max(1, round(row.players * scale)))
    for player, earned in found.players.items():
        mean = f"{earned.mean:.2f} ± {earned.error:.2f}"
        print(f"| {name} | {player} | {earned.success} | {mean} |", flush=True)
        name = ""


if __name__ == "__main__":
    main()
