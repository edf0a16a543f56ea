"""Does more faithful credit learn faster? python benchmarks/learning.py exact | study FOLDER.

`python -m agent_envs_lab.learning` asks the same of a log-linear policy in three environments.

`exact` trains a table of logits on Bifurcation-v1, where true advantages and success are computed
without error, with every method: fidelity at the start against mean success over training.
`study FOLDER` does the same for the finished runs in FOLDER of the table `fidelity` of
studies.toml (`agent-envs paper benchmarks/studies.toml fidelity --run --out FOLDER`), with the
shipped truths of its environment. Success is that of the rollouts in training, averaged over the
steps of a run. Differences to GRPO are paired by seed; intervals are 95%, from a bootstrap over
seeds.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

# `credit.py` beside this file has the name of the package.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402
from rich.box import MARKDOWN  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import track  # noqa: E402
from rich.table import Table  # noqa: E402
from scipy.stats import permutation_test, spearmanr  # noqa: E402

import agent_envs  # noqa: E402, F401
from agent_envs_lab import benchmark  # noqa: E402
from agent_envs_lab.fidelity import Fidelity, fidelity  # noqa: E402
from agent_envs_lab.learning import difference  # noqa: E402
from agent_envs_lab.papers import read_table  # noqa: E402
from agent_envs_lab.papers.results import compare_pairs  # noqa: E402
from agent_envs_lab.truth import Truth  # noqa: E402
from credit.turns import Turns  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import credit
    from credit.stats import Array

KINDS = ("decisive", "distractors", "delayed", "early", "reversible", "irreversible")
TASKS, ROLLOUTS = 8, 8
TRUE = "true advantage"
BASELINE = "grpo"
STUDIES = Path(__file__).parent / "studies.toml"
OF_STUDY = {"has_anchor": "has, by anchor", "rtmc": "rtmc, gamma 1"}
"""Methods of the study by the name of their row in the benchmark."""


class Choice(NamedTuple):
    """An action of a state: the next state or -1, and the outcome and progress after it."""

    action: str
    to: int
    outcome: float
    progress: float


@dataclass
class Walk:
    """A task as a table; state 0 is the start.

    Attributes:
        goal: The task's goal.
        anchors: Anchor of each state.
        choices: The possible actions of each state.
        logits: Logit of each action of each state.
    """

    goal: str
    anchors: list[str] = field(default_factory=list)
    choices: list[list[Choice]] = field(default_factory=list)
    logits: list[Array] = field(default_factory=list)

    def policy(self) -> list[Array]:
        """Probability of each action of each state."""
        powers = [np.exp(one - one.max()) for one in self.logits]
        return [one / one.sum() for one in powers]

    def values(self, policy: Sequence[Array]) -> tuple[list[float], list[Array]]:
        """V of each state and Q of each of its actions."""
        value: dict[int, float] = {}
        worth: list[Array] = [np.zeros(0)] * len(self.choices)

        def of(state: int) -> float:
            if state not in value:
                worth[state] = np.array(
                    [c.outcome if c.to < 0 else of(c.to) for c in self.choices[state]]
                )
                value[state] = float(policy[state] @ worth[state])
            return value[state]

        of(0)
        return [value[state] for state in range(len(self.choices))], worth


def walks(kind: str) -> list[Walk]:
    """The training tasks of a kind, unrolled by turns: their number is part of the state."""
    env = gym.make("Bifurcation-v1", kind=kind).unwrapped
    return [_walk(env, task) for task in env.panel.task_ids]


def _walk(env: Any, task: str) -> Walk:
    _, info = env.reset(seed=0, options={"task_id": task})
    walk, known = Walk(info["goal"]), {}

    def visit(env: Any, info: Mapping[str, Any]) -> int:
        key = info["anchor"], info["turn"]
        if key in known:
            return known[key]
        known[key] = state = len(walk.anchors)
        walk.anchors.append(info["anchor"])
        walk.choices.append([])
        walk.logits.append(np.zeros(len(info["admissible_actions"])))
        for action in info["admissible_actions"]:
            after = copy.deepcopy(env)
            _, reward, terminated, truncated, told = after.step(action)
            to = -1 if terminated or truncated else visit(after, told)
            walk.choices[state].append(Choice(action, to, float(reward), told["progress"]))
        return state

    visit(env, info)
    return walk


class Sample(NamedTuple):
    """Rollouts of some walks: for each turn its walk, state and action, and the columns."""

    taken: list[tuple[int, int, int]]
    turns: Turns
    truth: Array


def sample(tasks: list[Walk], picked: Sequence[int], rng: np.random.Generator) -> Sample:
    """ROLLOUTS rollouts of each picked walk."""
    taken, trajectory, outcomes, goals, groups = [], [], [], [], []
    columns: dict[str, list[Any]] = {"anchor": [], "action": [], "progress": [], "entropy": []}
    better = []
    for group, at in enumerate(picked):
        walk = tasks[at]
        policy = walk.policy()
        value, worth = walk.values(policy)
        for _ in range(ROLLOUTS):
            state = 0
            while state >= 0:
                p = policy[state]
                which = int(np.searchsorted(p.cumsum(), rng.random() * (1 - 1e-12)))
                choice = walk.choices[state][which]
                taken.append((at, state, which))
                trajectory.append(len(outcomes))
                columns["anchor"].append(walk.anchors[state])
                columns["action"].append(choice.action)
                columns["progress"].append(choice.progress)
                columns["entropy"].append(-float(p @ np.log(p)))
                better.append(worth[state][which] - value[state])
                state, outcome = choice.to, choice.outcome
            outcomes.append(outcome)
            goals.append(walk.goal)
            groups.append(group)
    turns = Turns(
        group=groups,
        outcome=outcomes,
        goal=goals,
        trajectory=trajectory,
        reward=np.zeros(len(taken)),
        valid=np.ones(len(taken), dtype=bool),
        **columns,
    )
    return Sample(taken, turns, np.array(better))


Estimate = "Callable[[Sample, np.random.Generator], Array]"


def estimators() -> dict[str, Estimate]:
    """The benchmark's methods, less STAPO, which equals GiGPO on walks; and the true advantage."""

    def of(method: credit.Estimator) -> Estimate:
        return lambda sampled, rng: method(sampled.turns, rng)

    return {TRUE: lambda sampled, _: sampled.truth} | {
        name: of(method) for name, method in benchmark.make_methods().items() if name != "stapo"
    }


def train(kind: list[Walk], estimate: Estimate, *, steps: int, rate: float, seed: int) -> Array:
    """Exact mean success over the tasks before each update, by ascent on one method's credit.

    Credit is scaled to a root mean square of 1 over turns, so that methods differ in direction and
    not in step size.
    """
    tasks = [replace(walk, logits=[one.copy() for one in walk.logits]) for walk in kind]
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(steps):
        found.append(np.mean([walk.values(walk.policy())[0][0] for walk in tasks]))
        picked = rng.choice(len(tasks), TASKS, replace=False)
        sampled = sample(tasks, picked, rng)
        advantage = estimate(sampled, rng)
        size = float(np.sqrt(np.mean(advantage**2)))
        if size <= 1e-9:
            continue
        policies = {at: tasks[at].policy() for at in picked}
        for (at, state, which), gain in zip(sampled.taken, advantage / size, strict=True):
            slope = -policies[at][state]
            slope[which] += 1
            tasks[at].logits[state] = tasks[at].logits[state] + rate * gain * slope
    return np.array(found)


def fidelity_of(kind: list[Walk], estimate: Estimate, seed: int) -> float:
    """Correlation with the true advantage at the start, over 4 rollout groups of each task."""
    rng = np.random.default_rng(seed)
    sampled = sample(kind, [*range(len(kind))] * 4, rng)
    given = estimate(sampled, rng)
    return float(np.corrcoef(given, sampled.truth)[0, 1]) if np.ptp(given) > 0 else 0.0


def exact(steps: int, seeds: int, rate: float, only: Sequence[str]) -> None:
    """Print a table for all kinds of walks, of the true advantage, GRPO and some methods or all."""
    methods = estimators()
    if only:
        methods = {name: methods[name] for name in dict.fromkeys([TRUE, BASELINE, *only])}
    worlds = {kind: walks(kind) for kind in KINDS}
    fit = {kind: {m: fidelity_of(worlds[kind], e, 0) for m, e in methods.items()} for kind in KINDS}
    area: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}
    for kind, (name, estimate) in track(
        [(kind, pair) for kind in KINDS for pair in methods.items()], console=Console(stderr=True)
    ):
        area[kind][name] = [
            float(train(worlds[kind], estimate, steps=steps, rate=rate, seed=seed).mean())
            for seed in range(seeds)
        ]
    table = Table("method", *KINDS, box=MARKDOWN)
    for name in sorted(methods, key=lambda n: -np.mean([fit[kind][n] for kind in KINDS])):
        cells = []
        for kind in KINDS:
            gain = difference(area[kind][name], area[kind][BASELINE])
            cells.append(f"{fit[kind][name]:.2f}: {gain}")
        table.add_row(name, *cells)
    page = Console(width=200)
    page.print(
        f"fidelity at the start: mean success over {steps} updates, difference to GRPO in points, "
        f"{seeds} seeds"
    )
    page.print(table)
    of_grpo = [f"{kind} {np.mean(area[kind][BASELINE]):.1%}" for kind in KINDS]
    page.print(f"GRPO's mean success: {', '.join(of_grpo)}")
    for kind in KINDS:
        names = [name for name in methods if name != TRUE]
        both = [[fit[kind][n] for n in names], [float(np.mean(area[kind][n])) for n in names]]
        page.print(f"{kind}: rank correlation of fidelity and success {agreement(*both)}")


def agreement(fidelity: Sequence[float], success: Sequence[float]) -> str:
    """Spearman's correlation with the p of a permutation test."""
    found = float(spearmanr(fidelity, success).statistic)
    test = permutation_test(
        (fidelity,),
        lambda x: spearmanr(x, success).statistic,
        permutation_type="pairings",
        n_resamples=5000,
        rng=np.random.default_rng(0),
    )
    return f"{found:+.2f} (p = {test.pvalue:.3f}, {len(fidelity)} methods)"


def study(folder: Path) -> None:
    """Print the table of a finished study."""
    success, last = runs(folder)
    if BASELINE not in success:
        raise SystemExit(f"{folder} has no finished runs of {BASELINE}")
    seeds = sorted(set.intersection(*(set(found) for found in success.values())))
    files = sorted(benchmark.SHIPPED.glob("sotopia_*.parquet"))
    scores = [scores_of(truth) for truth in map(Truth.load, files)]
    rows = {name: [score[OF_STUDY.get(name, name)] for score in scores] for name in success}
    table = Table(
        "method", "correlation", "gradient", "success in training", "to GRPO", "p", "held out",
        box=MARKDOWN,
    )  # fmt: skip
    order = sorted(rows, key=lambda name: -np.mean([one.pearson.value for one in rows[name]]))
    base = [success[BASELINE][seed] for seed in seeds]
    for name in order:
        own = [success[name][seed] for seed in seeds]
        table.add_row(
            name,
            " / ".join(f"{one.pearson.value:.2f}" for one in rows[name]),
            " / ".join(f"{one.gradient.value:.2f}" for one in rows[name] if one.gradient),
            f"{np.mean(own):.1%}",
            "" if name == BASELINE else str(difference(own, base)),
            "" if name == BASELINE else f"{compare_pairs(np.array([own]), np.array([base])):.3f}",
            f"{np.mean([last[name][seed] for seed in seeds]):.1%}",
        )
    page = Console(width=160)
    page.print(f"{len(seeds)} seeds: {', '.join(map(str, seeds))}")
    page.print(table)
    for what in ("pearson", "gradient"):
        known = [name for name in order if getattr(rows[name][0], what) is not None]
        fit = [float(np.mean([getattr(one, what).value for one in rows[n]])) for n in known]
        mean = [float(np.mean([success[n][seed] for seed in seeds])) for n in known]
        if known:
            page.print(f"rank correlation of {what} and success {agreement(fit, mean)}")


def scores_of(truth: Truth) -> dict[str, Fidelity]:
    """Scores of the benchmark's methods, and of one half of the truth against the other.

    Vine estimates what a half does. The error of a half is √2 times that of both.
    """
    columns = truth.second, np.sqrt(2) * truth.error, truth.turns.group_of_turn
    scale = float(np.ptp(truth.turns.outcome))
    half = fidelity(truth.first, *columns, gradient=truth.gradient, scale=scale)
    return benchmark.score_estimators(truth, benchmark.make_methods())[0] | {"vine": half}


def runs(folder: Path) -> tuple[dict[str, dict[int, float]], dict[str, dict[int, float]]]:
    """Mean success in training, and success at the end, of each method and seed."""
    success: dict[str, dict[int, float]] = {}
    last: dict[str, dict[int, float]] = {}
    for cell, *_ in read_table(str(STUDIES), "fidelity").cells:
        found = (folder / cell.run.name).glob("seed_*/metrics.jsonl") if cell.run else ()
        for path in sorted(found):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            steps = [line["success"] for line in lines if "success" in line]
            ends = [line["eval_success"] for line in lines if "eval_success" in line]
            seed = int(path.parts[-2].removeprefix("seed_"))
            if len(ends) > 1:
                success.setdefault(cell.row.label, {})[seed] = float(np.mean(steps))
                last.setdefault(cell.row.label, {})[seed] = ends[-1]
    return success, last


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_subparsers(required=True, dest="what")
    walk = what.add_parser("exact")
    walk.add_argument("--steps", type=int, default=30)
    walk.add_argument("--seeds", type=int, default=10)
    walk.add_argument("--rate", type=float, default=0.1)
    walk.add_argument("--only", nargs="+", choices=list(estimators()), default=[])
    what.add_parser("study").add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.what == "study":
        study(given.folder)
    else:
        exact(given.steps, given.seeds, given.rate, given.only)


if __name__ == "__main__":
    main()
