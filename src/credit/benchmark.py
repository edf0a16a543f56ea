"""The credit benchmark: `python -m credit.benchmark my_module:MyMethod` ranks estimators.

Every estimator gives its advantages for the turns of truth files, and is scored by `credit.compare`
against the measured true advantages. No model, environment or GPU is needed. A corrected
correlation can exceed 1 by chance. Files that ship are in
`credit/truths`, one for each environment and state of the policy; docs/measured_credit.md says how
they were measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import credit
from credit.fidelity import Fidelity, Score, compare
from credit.truth import Truth
from credit.validation import as_array

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from credit.segments import Array
    from credit.turns import Turns

SHIPPED = Path(__file__).with_name("truths")
"""Folder of the truth files that ship."""
CRITIC = "perfect critic"
"""Row of outcome − V(s_t): what a critic without error gives with λ = 1."""
ENTRIES: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {}),
    "rloo": ("rloo", {}),
    "gigpo": ("gigpo", {}),
    "gigpo, gamma 1": ("gigpo", {"gamma": 1.0}),
    "stapo": ("stapo", {}),
    "mgr": ("mgr", {}),
    "mgr, no gate": ("mgr", {"gate": "none"}),
    "has": ("has", {}),
    "has, by anchor": ("has", {"normalize": "anchor"}),
    "empg": ("empg", {}),
    "hgpo": ("hgpo", {}),
    "rtmc": ("rtmc", {}),
    "rtmc, gamma 1": ("rtmc", {"gamma": 1.0}),
    "kevin": ("kevin", {}),
    "kevin, gamma 1": ("kevin", {"gamma": 1.0}),
    "turn_rloo": ("turn_rloo", {}),
}
"""Estimators that are ranked: name of the row, name and options for `credit.make`."""
BASELINE = "grpo"


def methods() -> dict[str, credit.Estimator]:
    """The estimators of this package that need nothing but the columns of `Turns`."""
    made = {row: credit.make(name, **options) for row, (name, options) in ENTRIES.items()}
    return made | {"mt_grpo, progress": on_progress(credit.MTGRPO())}


def on_progress(estimator: credit.Estimator) -> credit.Estimator:
    """An estimator that reads the gain in progress as the turn reward."""

    def paid(turns: Turns, rng: np.random.Generator | None) -> Array:
        before = np.where(turns.position == 0, 0.0, np.roll(turns.progress, 1))
        gain = (turns.progress - before)[:, None]
        changed = replace(
            turns, turn_reward=gain, turn_reward_names=("progress",), outcome_in_reward=False
        )
        return estimator(changed, rng)

    return paid


def scored(
    truth: Truth, estimators: Mapping[str, credit.Estimator], *, seed: int = 0
) -> tuple[dict[str, Fidelity], dict[str, Fidelity], dict[str, str]]:
    """Scores of estimators against a truth.

    Args:
        truth: The truth.
        estimators: Estimators by name; "grpo" is what the others are compared with.
        seed: Seed of the bootstrap, and of each estimator that draws.

    Returns:
        Their scores; the differences to GRPO's; and why the others have none.

    Raises:
        ValueError: An estimator returned no finite number for each turn.
    """
    found, left = advantages(truth, estimators, seed=seed)
    columns = truth.advantage, truth.error, truth.turns.group_of_turn
    scale = float(np.ptp(truth.turns.outcome)) or 1.0
    score = partial(compare, found, *columns, gradient=truth.gradient, scale=scale, seed=seed)
    return score(), score(baseline=BASELINE), left


def advantages(
    truth: Truth, estimators: Mapping[str, credit.Estimator], *, seed: int = 0
) -> tuple[dict[str, Array], dict[str, str]]:
    """Advantages of estimators and of a perfect critic, and why the others have none.

    Raises:
        ValueError: An estimator returned no finite number for each turn.
    """
    outcome = truth.turns.outcome[truth.turns.trajectory]
    found, left = {CRITIC: outcome - truth.value_before}, {}
    for name, estimator in estimators.items():
        try:
            given = estimator(truth.turns, np.random.default_rng(seed))
        except ValueError as error:  # the batch is none for this method
            left[name] = str(error)
        else:
            found[name] = _checked(name, given, len(truth.turns))
    return found, left


def _checked(name: str, given: Any, count: int) -> Array:
    """What an estimator returned, as [N] finite floats."""
    try:
        found = as_array("the advantage", given)
    except TypeError as error:
        raise ValueError(f"{name} returned no array of numbers: {error}") from error
    if found.shape != (count,) or found.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} returned {found.dtype} of shape {list(found.shape)}; an estimator returns one "
            f"float for each of N={count} turns"
        )
    if (wrong := np.flatnonzero(~np.isfinite(found))).size:
        raise ValueError(f"{name} returned {found[wrong[0]]} for turn {wrong[0]}")
    return found.astype(np.float64)


def own(name: str) -> credit.Estimator:
    """An estimator of one's own by "package.module:Name"; a class is called without arguments.

    Raises:
        ValueError: There is no such module or name.
        TypeError: It is not callable.
    """
    module, _, attribute = name.partition(":")
    if not attribute:
        return credit.make(name)
    sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot import {name!r}: {error}; give package.module:Name") from error
    made = found() if isinstance(found, type) else found
    if not callable(made):
        raise TypeError(f"{name!r} is no estimator: call it as (turns, rng) -> [N] advantages")
    estimator: Callable[[Turns, np.random.Generator | None], Array] = made
    return estimator


def table(truth: Truth, ranked: tuple[dict[str, Fidelity], dict[str, Fidelity], Any]) -> str:
    """Scores as text, the most faithful first; * marks a difference to GRPO without 0."""
    scores, differences, left = ranked
    about = truth.about
    lines = [
        (
            f"{about.get('name', 'truth')}: {len(truth.turns)} turns of "
            f"{len(truth.turns.group)} episodes, reliability {truth.reliability:.2f}"
        ),
        (
            f"{'':18}{'correlation':>20}{'to GRPO':>9}{'ranks':>20}{'sign':>7}{'on null turns':>15}"
            + (f"{'gradient':>20}" if truth.gradient is not None else "")
        ),
    ]
    for name, one in sorted(scores.items(), key=lambda pair: -pair[1].pearson.value):
        apart = differences[name].pearson
        star = "*" if apart.low > 0 or apart.high < 0 else " "
        lines.append(
            f"{name:18}{one.pearson!s:>20}{apart.value:+8.2f}{star}{one.spearman!s:>20}"
            f"{one.sign.value:7.2f}{one.null_share.value:15.0%}"
            + (f"{one.gradient!s:>20}" if one.gradient is not None else "")
        )
    return "\n".join(
        [*lines, *(f"{name:18}left out: {why.partition(';')[0]}" for name, why in left.items())]
    )


def overview(results: Sequence[tuple[dict[str, Fidelity], dict[str, Fidelity]]]) -> str:
    """Each method over several truths: mean difference to GRPO, truths above, below, and in all."""
    found: dict[str, list[Score]] = {}
    for _, differences in results:
        for name, one in differences.items():
            found.setdefault(name, []).append(one.pearson)
    rows = [f"{'':18}{'mean difference to GRPO':>24}{'above':>7}{'below':>7}{'truths':>8}"]
    mean = {name: float(np.mean([one.value for one in every])) for name, every in found.items()}
    for name in sorted(found, key=lambda name: -mean[name]):
        above, below = (
            sum(sign * end > 0 for end in ends)
            for sign, ends in (
                (1, [one.low for one in found[name]]),
                (-1, [one.high for one in found[name]]),
            )
        )
        rows.append(f"{name:18}{mean[name]:+24.3f}{above:7}{below:7}{len(found[name]):8}")
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Rank estimators on truth files."""
    parser = argparse.ArgumentParser(prog="python -m credit.benchmark", description=main.__doc__)
    parser.add_argument("estimator", nargs="*", help="package.module:Name, or a shipped name")
    parser.add_argument("--truth", nargs="+", type=Path, help="files; by default what ships")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    given = parser.parse_args(arguments)
    try:
        files = given.truth or sorted(SHIPPED.glob("*.parquet"))
        ranked = methods() | {name: own(name) for name in given.estimator}
        results = {str(path): (truth := Truth.load(path), scored(truth, ranked)) for path in files}
    except (ValueError, TypeError, OSError) as error:
        parser.error(str(error))
    if given.json:
        plain = {
            path: {name: asdict(one) for name, one in found[0].items()}
            for path, (_, found) in results.items()
        }
        sys.stdout.write(json.dumps(plain, indent=1) + "\n")
        return
    tables = [table(truth, found) for truth, found in results.values()]
    tables += [overview([found[:2] for _, found in results.values()])] * (len(tables) > 1)
    sys.stdout.write("\n\n".join(tables) + "\n")


if __name__ == "__main__":
    main()
