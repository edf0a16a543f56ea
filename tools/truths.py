"""Make the truth files of the credit benchmark: `python -m tools.truths FOLDER [NAME ...]`.

For each environment the pocket policy is measured as it is, and after some steps of reinforcement
learning. Runs and measurements are in FOLDER and go on where they were stopped; the files come to
src/agent_envs_lab/truths. Hours on two cores. `--tables` prints the tables of
docs/measured_credit.md, `--options` what the options and columns of the signal critic give,
`--outliers` the advantages of STAPO's outliers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

import credit
from agent_envs_lab import benchmark
from agent_envs_lab.fidelity import NULL
from agent_envs_lab.intervals import Bootstrap, interval
from agent_envs_lab.truth import Truth
from credit.turns import Turns
from trainer import recipe

TRUTHS = Path(__file__).parents[1] / "src/agent_envs_lab/truths"
MADE = {
    "alfworld": ("mgr", 12),
    "appworld": ("mgr", 6),
    "ezpoints": ("gigpo", 6),
    "sokoban": ("gigpo", 10),
    "sotopia": ("grpo", 10),
    "webshop": ("gigpo", 6),
    "wiki": ("mt_grpo", 8),
}
"""The method and the steps that train the policy of each environment."""
STATES = ("start", "trained")


def main(folder: Path, names: list[str]) -> None:
    """Measure both policies of these environments and copy the truths."""
    for name in names:
        method, steps = MADE[name]
        words, run = [name, method, "pocket"], folder / name
        measure = ["--groups", "16", "--fresh", "16", "--gradients"]
        first = ["--groups", "24", "--gradients"] if name == "alfworld" else measure
        _call("truth", *words, *first, "--out", folder / f"{name}_start")
        options = [f"run.steps={steps}", "eval.every=1000", "run.threads=1"]
        _call("train", *words, *options, "--out", run, "--resume")
        _call("truth", *words, *measure, "--policy", run, "--out", folder / f"{name}_trained")
        for state in STATES:
            publish(folder, name, state)


def publish(folder: Path, name: str, state: str) -> None:
    """Copy a measured truth to those that ship, under a name that says what it is."""
    measured = folder / f"{name}_{state}"
    method, steps = MADE[name]
    told = "as it is" if state == "start" else f"after {steps} steps of {method}"
    truth = Truth.load(measured / "truth.parquet")
    model = recipe.load(measured).policy.model
    about = {**truth.about, "name": f"{name}, {told}", "policy": f"{model}, {told}"}
    replace(truth, about=about).save(TRUTHS / f"{name}_{state}.parquet")


def tables() -> str:
    """Correlation, gradients and costs of all files, as Markdown."""
    files = sorted(TRUTHS.glob("*.parquet"))
    truths = {path.stem: Truth.load(path) for path in files}
    scored = {
        name: benchmark.score_estimators(one, benchmark.make_methods())
        for name, one in truths.items()
    }
    names = [name.removesuffix("_start") for name in truths if name.endswith("_start")]
    parts = [
        _scores(scored, names, "pearson"),
        _scores(scored, names, "gradient"),
        _costs(truths),
        _facts(truths, scored),
    ]
    return "\n\n".join(parts)


def _scores(scored: dict[str, Any], names: list[str], what: str) -> str:
    """One score of each method before and after training, the best first."""
    found: dict[str, dict[str, Any]] = {}
    for truth, (scores, differences, *_) in scored.items():
        for method in scores:
            own, apart = getattr(scores[method], what), getattr(differences[method], what)
            found.setdefault(method, {})[truth] = own.value, apart
    mean = {m: np.mean([apart.value for _, apart in rows.values()]) for m, rows in found.items()}
    counts = " above, below |" if what == "pearson" else ""
    lines = [f"| method | {' | '.join(names)} | mean to GRPO |{counts}"]
    lines.append(f"|---|{'---|' * len(names)}---|{'---|' if counts else ''}")
    for method in sorted(found, key=lambda m: -mean[m]):
        cells = [
            "/".join(_cell(found[method].get(f"{name}_{state}")) for state in STATES)
            for name in names
        ]
        signs = [apart.apart for _, apart in found[method].values()]
        told = f" {signs.count(1)}, {signs.count(-1)} of {len(signs)} |" if counts else ""
        lines.append(f"| {method} | {' | '.join(cells)} | {mean[method]:+.3f} |{told}")
    return "\n".join(lines)


def _cell(found: tuple[float, Any] | None) -> str:
    if found is None:
        return "–"
    value, apart = found
    return f"{value:.2f}{'*' if apart.apart else ''}"


def _costs(truths: dict[str, Truth]) -> str:
    last = "turns played for each turn | V(s_0) − fresh rollouts"
    lines = [
        f"| truth | turns | states | success | reliability | {last} |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in truths.values():
        about = one.about
        apart, error = about["V(s0) minus fresh rollouts"], about["standard error of it"]
        lines.append(
            f"| {about['name']} | {about['turns']:,} | {about['states']:,} | {about['success']:.0%}"
            f" | {one.reliability_score} | {about['turns played for each turn']:.1f} "
            f"| {apart:+.3f} ± {error:.3f} ({about['fresh rollouts']}) |"
        )
    return "\n".join(lines)


def _facts(truths: dict[str, Truth], scored: dict[str, Any]) -> str:
    """Counts and means that the text of docs/measured_credit.md quotes."""
    apart = [
        one.pearson.apart
        for ranked in scored.values()
        for method, one in ranked.differences.items()
        if method != benchmark.BASELINE
    ]
    kinds = [_turns(truth) for truth in truths.values()]
    counts = f"{len(truths)} truths, {len(apart)} differences to {benchmark.BASELINE}"
    lines = [f"{counts}, {np.count_nonzero(apart)} with a star"]
    lines += [
        f"{what} on average: {np.mean([one[what] for one in kinds]):.1%}" for what in kinds[0]
    ]
    for name, one in zip(truths, kinds, strict=True):
        told = ", ".join(f"{what} {share:.1%}" for what, share in one.items())
        lines.append(f"  {name}: {told}, noise by halves {_by_halves(truths[name]):+.1%}")
    lines.append("credit on null turns, mean over truths:")
    shares: dict[str, list[float]] = {}
    for ranked in scored.values():
        for method, one in ranked.scores.items():
            shares.setdefault(method, []).append(one.null_share.value)
    lines += [f"  {method}: {np.mean(each):.0%} ({len(each)})" for method, each in shares.items()]
    return "\n".join(lines)


def _turns(truth: Truth) -> dict[str, float]:
    """Shares of the turns of a truth."""
    low, high = truth.turns.outcome.min(), truth.turns.outcome.max()
    beyond = np.maximum(low - truth.value_before, truth.value_before - high) / (high - low)
    squares = np.sort(truth.advantage**2)[::-1].cumsum()
    return {
        "null": float(np.mean(np.abs(truth.advantage) < NULL * (high - low))),
        "with 80% of the squares": float(np.mean(squares < 0.8 * squares[-1]) + 1 / len(squares)),
        "with a value out of range": float(np.mean(beyond > 0)),
        "range beyond it, at most": max(float(beyond.max()), 0.0),
    }


def _by_halves(truth: Truth) -> float:
    """How much the noise of the gradient by the halves' covariance exceeds that by the errors."""
    sketch = np.asarray(truth.gradient)
    of = np.unique(truth.turns.group_of_turn, return_inverse=True)[1]

    def summed(advantage: Any) -> Any:
        total = np.zeros((of.max() + 1, sketch.shape[1]))
        np.add.at(total, of, advantage[:, None] * sketch)
        return total - total.mean(0)

    error = np.sum(truth.error[:, None] ** 2 * sketch**2)
    by_error = np.sum(summed(truth.advantage) ** 2) - error
    return float(np.sqrt(np.sum(summed(truth.first) * summed(truth.second)) / by_error) - 1)


OPTIONS: dict[str, tuple[float, ...]] = {
    "k": (0.5, 2.0, 8.0),
    "c": (0.0, 0.2, 0.4),
    "rho": (0.3, 0.6, 0.9),
    "kappa": (0.3, 0.6, 0.9),
}
"""Values among which options of the signal critic are chosen on some environments."""
PARTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "k = 0, one step": {"k": 0.0},
    "k = 1e99, the whole return": {"k": 1e99},
    "c = 0": {"c": 0.0},
    "rho = 0": {"rho": 0.0},
    "kappa = 0": {"kappa": 0.0},
    "prior 2": {"prior": 2.0},
}
"""Rows of the table of parts, by options."""
COLUMNS = ("progress", "valid", "anchor", "action", "group")


def options() -> str:
    """What each part and column of the signal critic gives, and options chosen elsewhere."""
    truths = [Truth.load(path) for path in sorted(TRUTHS.glob("*.parquet"))]
    lines = ["| signal critic | correlation to GRPO | gradient to GRPO |", "|---|---|---|"]
    parts = {name: credit.make("signal", **changed) for name, changed in PARTS.items()}
    parts |= {f"without {name}": partial(_without, name) for name in COLUMNS}
    found = {name: _gains(estimator, truths).mean(0) for name, estimator in parts.items()}
    lines += [f"| {name} | {one:+.3f} | {two:+.3f} |" for name, (one, two) in found.items()]
    grid = [dict(zip(OPTIONS, values, strict=True)) for values in product(*OPTIONS.values())]
    gains = np.array([_gains(credit.make("signal", **one), truths) for one in grid])
    worlds = gains.reshape(len(grid), -1, len(STATES), 2).mean(2)  # [options, environments, 2]
    every = range(worlds.shape[1])
    scores = []
    for size in (len(every) // 2, len(every) - len(every) // 2):
        for known in map(list, combinations(every, size)):
            best = worlds[:, known].mean(1).sum(1).argmax()
            scores.append(worlds[best][[one for one in every if one not in known]].mean(0))
    one, two = np.mean(scores, axis=0)
    told = f"options of {len(grid)} chosen on some environments, scored on the others"
    lines.append(f"| {told}, {len(scores)} ways | {one:+.3f} | {two:+.3f} |")
    return "\n".join(lines)


def outliers(folders: Sequence[Path]) -> str:
    """True and estimated advantages of STAPO's outliers, less those of the other turns.

    The true ones are in ranges of the outcome.
    """
    files = [*sorted(TRUTHS.glob("*.parquet")), *(one / "truth.parquet" for one in folders)]
    lines = [
        "| truth | turns | outliers | their true advantage, less the others' | estimated |",
        "|---|---|---|---|---|",
    ]
    for truth in map(Truth.load, files):
        method, turns = credit.STAPO(), truth.turns
        out, draws = method.mask(turns), Bootstrap(turns.group_of_turn, seed=0)
        cells = [f"{truth.about['name']}", f"{len(out):,}", f"{out.sum()}"]
        for x in (truth.advantage / np.ptp(turns.outcome), method.step_advantage(turns)):
            with np.errstate(invalid="ignore", divide="ignore"):
                both = [draws.sums(x * side) / draws.sums(side * 1.0) for side in (out, ~out)]
            found = interval(both[0] - both[1], draws.groups)
            spread = f" [{found.low:+.2f}, {found.high:+.2f}]"
            cells.append("–" if np.isnan(found.value) else f"{found.value:+.3f}{spread}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _without(name: str, turns: Turns, rng: Any = None) -> Any:
    """Credit of the signal critic without a column; without groups each trajectory is one."""
    given = {n: getattr(turns, n) for n in ("group", "outcome", "trajectory", *COLUMNS[:-1])}
    given |= {"group": np.arange(len(turns.group))} if name == "group" else {}
    kept = {n: column for n, column in given.items() if n != name or name == "group"}
    return credit.make("signal")(Turns(**kept), rng)


def _gains(estimator: credit.Estimator, truths: list[Truth]) -> Any:
    """Differences to GRPO in correlation and gradient: [truths, 2]."""
    rows = []
    for truth in truths:
        both = {benchmark.BASELINE: credit.make(benchmark.BASELINE), "": estimator}
        one = benchmark.score_estimators(truth, both).differences[""]
        rows.append((one.pearson.value, one.gradient.value if one.gradient else np.nan))
    return np.array(rows)


def _call(*words: object) -> None:
    subprocess.run([Path(sys.executable).with_name("agent-envs"), *map(str, words)], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.truths", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="of the runs and measurements")
    parser.add_argument("name", nargs="*", help=f"of {', '.join(MADE)}; all by default")
    parser.add_argument("--tables", action="store_true", help="print the tables of the docs")
    parser.add_argument("--options", action="store_true", help="of the signal critic, on truths")
    parser.add_argument("--outliers", type=Path, nargs="*", help="and of these measurements")
    given = parser.parse_args()
    if unknown := set(given.name) - set(MADE):
        parser.error(f"no environment {', '.join(unknown)}; there are {', '.join(MADE)}")
    if given.tables:
        sys.stdout.write(tables() + "\n")
    elif given.options:
        sys.stdout.write(options() + "\n")
    elif given.outliers is not None:
        sys.stdout.write(outliers(given.outliers) + "\n")
    elif given.folder is None:
        parser.error("give a folder, --tables, --options or --outliers")
    else:
        main(given.folder, given.name or list(MADE))
