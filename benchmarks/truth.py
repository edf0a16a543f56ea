"""Bias of a measured truth where the exact values are known: python benchmarks/truth.py.

In a world of three turns of two tokens each, where few sequences succeed, the value at the start is
measured many times as `agent-envs truth` does it (its rounds, its rule when to stop), with draws
from the exact values. Each row is another size of the batch.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import product
from pathlib import Path

# `credit.py` beside this file has the name of the package.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import numpy as np  # noqa: E402
from rich.box import MARKDOWN  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from agent_envs_lab.truth import draws  # noqa: E402
from agent_envs_lab.truth.draws import HALVES, Group, Round  # noqa: E402
from agent_envs_lab.truth.run import PILOT  # noqa: E402
from agent_envs_lab.truth.tree import Tree  # noqa: E402
from trainer.play.records import Episode, Step  # noqa: E402

TOKENS, LENGTH, TURNS, ENOUGH = 3, 2, 3, 8
REPLIES = [*product(range(TOKENS), repeat=LENGTH)]
SIZES = ((24, 8), (8, 8), (4, 6))
Said = tuple[tuple[int, ...], ...]


@cache
def find_odds(path: Said) -> np.ndarray:
    """Log probability of every reply's tokens after a path: [replies, LENGTH]."""

    def next_token(said: tuple[int, ...]) -> np.ndarray:
        return np.log(np.random.default_rng([1, *said, 99]).dirichlet(np.full(TOKENS, 0.5)))

    said = tuple(token for reply in path for token in reply)
    return np.array(
        [[next_token((*said, *one[:k]))[one[k]] for k in range(LENGTH)] for one in REPLIES]
    )


@cache
def find_value(path: Said, without: frozenset[tuple[int, ...]] = frozenset()) -> float:
    """Probability of success after a path, if the next reply is none of these."""
    if len(path) == TURNS:
        return float(sum(map(sum, path)) >= ENOUGH)
    odds = np.exp(find_odds(path).sum(1)) * [one not in without for one in REPLIES]
    values = [find_value((*path, one)) for one in REPLIES]
    return float(odds @ values / odds.sum()) if odds.any() else 0.0


def play_episodes(count: int, rng: np.random.Generator) -> list[Episode]:
    """Rollouts of one task."""
    made = []
    for _ in range(count):
        path: Said = ()
        steps = []
        for turn in range(TURNS):
            odds = find_odds(path)
            at = int(rng.choice(len(REPLIES), p=np.exp(odds.sum(1))))
            said = odds[at].tolist()
            text, reply = str(at), REPLIES[at]
            steps.append(Step(str(turn), text, text, [turn], [*reply], logprobs=said))
            path = (*path, reply)
        made.append(Episode("task", "goal", 0, 0, "history", steps, outcome=find_value(path)))
    return made


def find_states(tree: Tree) -> list[tuple[Said, float]]:
    """The path to each node, and the exact value of leaving there."""
    found: list[tuple[Said, float]] = []
    for node in tree.nodes:
        path: Said = ()
        if found:
            path = (*found[node.parent][0], tuple(tree.step(node).reply_ids))
        given = [tuple(tree.step(tree.nodes[child]).reply_ids) for child in node.children]
        found.append(
            (path, 0.0 if node.outcome is not None else find_value(path, frozenset(given)))
        )
    return found


def measure(
    seed: int, *, groups: int, rollouts: int, first: float, reliability: float, most: float
) -> tuple[float, float, float]:
    """Error of the value at the start, turns for each turn of the batch, and reliability."""
    rng = np.random.default_rng([seed, 7])
    batch = [Group(Tree(play_episodes(rollouts, rng))) for _ in range(groups)]
    states = [find_states(group.tree) for group in batch]
    turns = groups * rollouts * TURNS

    def play(plans: list[list[np.ndarray]]) -> int:
        spent = 0
        for half in HALVES:
            for group, known, expected in zip(batch, states, plans[half], strict=True):
                counts = draws.draw_counts(expected, rng)
                outcomes = [
                    (rng.random(count) < value).astype(float).tolist()
                    for count, (_, value) in zip(counts, known, strict=True)
                ]
                pairs = zip(counts, known, strict=True)
                spent += sum(count * (TURNS - len(path)) for count, (path, _) in pairs)
                group.rounds[half].append(Round(expected, outcomes))
        return spent

    spent = play([draws.plan_pilot(batch, first * turns / 2)] * 2)
    reached = draws.reliability(batch)
    while reached < reliability and spent < most * turns:
        plans = draws.plan_next_round(batch, reliability, spent / 2, most * turns / 2)
        spent += play(plans)
        reached = draws.reliability(batch)
    start = np.mean([group.value(half)[0] for group in batch for half in HALVES])
    return float(start) - find_value(()), spent / turns, reached


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measurements", type=int, default=1600, help="of each row (1600)")
    parser.add_argument("--reliability", type=float, default=0.8, help="to be reached (0.8)")
    parser.add_argument(
        "--first", type=float, default=PILOT, help=f"turns of the first round ({PILOT:g})"
    )
    parser.add_argument("--most", type=float, default=60.0, help="turns for each turn (60)")
    options = parser.parse_args()
    titles = ("groups × rollouts", "error of V", "turns for each", "reliability")
    table = Table(
        *titles, box=MARKDOWN, title=f"V at the start is {find_value(()):.4f}", title_justify="left"
    )
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for groups, rollouts in SIZES:
            one = partial(
                measure, groups=groups, rollouts=rollouts, first=options.first,
                reliability=options.reliability, most=options.most,
            )  # fmt: skip
            found = np.array([*pool.map(one, range(options.measurements), chunksize=10)])
            means, error = found.mean(0), found.std(0) / len(found) ** 0.5
            table.add_row(
                f"{groups} × {rollouts}",
                f"{means[0]:+.4f} ± {error[0]:.4f}",
                *(f"{x:.2f}" for x in means[1:]),
            )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
