"""The credit benchmark: `python -m agent_envs_lab.benchmark my_module:MyMethod` ranks estimators.

Every estimator gives its advantages for the turns of truth files, and is scored by
`fidelity.compare` against the measured true advantages. No model, environment or GPU is needed;
pyarrow reads the files. A corrected correlation can exceed 1 by chance. Files that ship are in
`truths` beside this module, one for each environment and state of the policy;
docs/measured_credit.md describes how they were measured.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

import credit
from agent_envs_lab.fidelity import Fidelity, compare
from agent_envs_lab.intervals import average
from agent_envs_lab.truth import Truth
from credit.estimators import import_object
from credit.methods.has import Progressive
from credit.turns import MissingColumn
from credit.validation import check_known

if TYPE_CHECKING:
    from agent_envs_lab.intervals import Score
    from credit.stats import Array
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
    "signal": ("signal", {}),
    "kevin": ("kevin", {}),
    "kevin, gamma 1": ("kevin", {"gamma": 1.0}),
    "turn_rloo": ("turn_rloo", {}),
    "rebn": ("rebn", {}),
}
"""Estimators that are ranked: name of the row, name and options for `credit.make`."""
BASELINE = "grpo"


def make_methods() -> dict[str, credit.Estimator]:
    """The estimators of this package that need nothing but the columns of `Turns`."""
    made = {row: credit.make(name, **options) for row, (name, options) in ENTRIES.items()}
    return made | {"mt_grpo, progress": reward_progress(credit.MTGRPO())}


def reward_progress(estimator: credit.Estimator) -> credit.Estimator:
    """An estimator that reads the gain in progress as the turn reward."""

    def estimate_on_gain(turns: Turns, rng: np.random.Generator | None) -> Array:
        gain = Progressive()(turns)[:, None]
        return estimator(replace(turns, turn_reward=gain, turn_reward_names=("progress",)), rng)

    return estimate_on_gain


class Ranking(NamedTuple):
    """Estimators scored against one truth.

    Attributes:
        scores: Score of each estimator, by name.
        differences: Its differences to GRPO's scores.
        left: Why an estimator does not fit the batch: it lacks a column, or outcomes of 0 and 1.
        failed: What was wrong with an estimator.
    """

    scores: dict[str, Fidelity]
    differences: dict[str, Fidelity]
    left: dict[str, str]
    failed: dict[str, str]


def score_estimators(
    truth: Truth, estimators: Mapping[str, credit.Estimator], *, seed: int = 0
) -> Ranking:
    """Scores of estimators against a truth.

    Args:
        truth: The truth.
        estimators: Estimators by name; "grpo" is what the others are compared with.
        seed: Seed of the bootstrap, and of each estimator that draws.
    """
    found, left, failed = estimate_advantages(truth, estimators, seed=seed)
    columns = truth.advantage, truth.error, truth.turns.group_of_turn
    scale = float(np.ptp(truth.turns.outcome)) or 1.0
    score = partial(compare, found, *columns, gradient=truth.gradient, scale=scale, seed=seed)
    return Ranking(score(), score(baseline=BASELINE), left, failed)


def estimate_advantages(
    truth: Truth, estimators: Mapping[str, credit.Estimator], *, seed: int = 0
) -> tuple[dict[str, Array], dict[str, str], dict[str, str]]:
    """Advantages of estimators and a perfect critic, and why others are left out or failed."""
    outcome = truth.turns.outcome[truth.turns.trajectory]
    found, left, failed = {CRITIC: outcome - truth.value_before}, {}, {}
    for name, estimator in estimators.items():
        if getattr(estimator, "reads_success", False) and (why := _no_success(truth.turns)):
            left[name] = why
            continue
        try:
            found[name] = credit.estimate(estimator, truth.turns, np.random.default_rng(seed))
        except MissingColumn as error:
            left[name] = str(error)
        except Exception as error:  # noqa: BLE001 - it is the estimator's own
            failed[name] = f"{type(error).__name__}: {error}"
    return found, left, failed


def _no_success(turns: Turns) -> str:
    try:
        turns.check_binary("this method reads success")
    except ValueError as error:
        return str(error)
    return ""


def find_estimator(name: str) -> credit.Estimator:
    """An estimator of one's own by "package.module:Name"; a class is called without arguments.

    Raises:
        ValueError: There is no such module or name.
    """
    if ":" not in name:
        check_known("unknown credit method", [name], credit.names(), "give your own as module:Name")
        return credit.make(name)
    sys.path.insert(0, "")
    found = import_object("estimator", name)
    return cast("credit.Estimator", found() if isinstance(found, type) else found)


def render_table(truth: Truth, ranked: Ranking) -> str:
    """Scores as text, the most faithful first; * marks a difference to GRPO without 0."""
    scores, differences, left, failed = ranked
    about = truth.about
    lines = [
        (
            f"{about.get('name', 'truth')}: {len(truth.turns)} turns of "
            f"{len(truth.turns.group)} episodes, reliability {truth.reliability_score}"
        ),
        (
            f"{'':18}{'correlation':>20}{'to GRPO':>9}{'ranks':>20}{'sign':>7}{'on null turns':>15}"
            + (f"{'gradient':>20}" if truth.gradient is not None else "")
        ),
    ]
    for name, one in sorted(scores.items(), key=lambda pair: -pair[1].pearson.value):
        apart = differences[name].pearson
        star = "*" if apart.apart else " "
        lines.append(
            f"{name:18}{one.pearson!s:>20}{apart.value:+8.2f}{star}{one.spearman!s:>20}"
            f"{one.sign.value:7.2f}{one.null_share.value:15.0%}"
            + (f"{one.gradient!s:>20}" if one.gradient is not None else "")
        )
    lines += [f"{name:18}left out: {why.partition(';')[0]}" for name, why in left.items()]
    lines += [f"{name:18}failed: {why}" for name, why in failed.items()]
    return "\n".join(lines)


def render_overview(results: Sequence[Ranking]) -> str:
    """Each method over several truths, by correlation and by gradient: mean difference to GRPO.

    Its interval is over the task groups of these truths, not over other environments. Beside it are
    the truths in which the method is above and below GRPO, those in all, and its rank by gradient.
    """
    found: dict[str, dict[str, list[Score]]] = {"pearson": {}, "gradient": {}}
    for ranked in results:
        for name, one in ranked.differences.items():
            for what, scores in found.items():
                if (score := getattr(one, what)) is not None:
                    scores.setdefault(name, []).append(score)
    mean = {
        what: {name: average(every) for name, every in scores.items()}
        for what, scores in found.items()
    }
    order = {
        what: sorted(scores, key=lambda name: -scores[name].value) for what, scores in mean.items()
    }
    told = "correlation to GRPO", "gradient to GRPO"
    head = "".join(f"{what:>24}{'above':>7}{'below':>7}{'truths':>8}" for what in told)
    rows = [f"{'':18}{head}{'rank':>6}"]
    for name in order["pearson"]:
        row = f"{name:18}"
        for what, scores in found.items():
            signs = [one.apart for one in scores.get(name, ())]
            middle = mean[what].get(name)
            shown = f"{middle.value:+.3f} {str(middle).partition(' ')[2]}" if middle else "–"
            row += f"{shown:>24}{signs.count(1):7}{signs.count(-1):7}{len(signs):8}"
        place = order["gradient"].index(name) + 1 if name in order["gradient"] else "–"
        rows.append(f"{row}{place:>6}")
    return "\n".join(rows)


def list_values(ranked: Ranking) -> dict[str, Any]:
    """A ranking as JSON values; what is not defined is None."""

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: of(one) for name, one in value.items()}
        return None if isinstance(value, float) and not math.isfinite(value) else value

    scores, differences = (
        {name: of(asdict(one)) for name, one in found.items()} for found in ranked[:2]
    )
    return {
        "scores": scores,
        "differences": differences,
        "left out": ranked.left,
        "failed": ranked.failed,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Rank estimators on truth files; the exit status is 1 if an estimator failed."""
    parser = argparse.ArgumentParser(
        prog="python -m agent_envs_lab.benchmark", description=main.__doc__
    )
    parser.add_argument("estimator", nargs="*", help="package.module:Name, or a shipped name")
    parser.add_argument(
        "--truth", action="append", type=Path, metavar="FILE",
        help="a file; may be given several times; by default what ships",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    given = parser.parse_args(arguments)
    try:
        files = given.truth or sorted(SHIPPED.glob("*.parquet"))
        ranked = make_methods() | {name: find_estimator(name) for name in given.estimator}
        results = {
            str(path): (truth := Truth.load(path), score_estimators(truth, ranked))
            for path in files
        }
    except (ValueError, TypeError, OSError, ImportError) as error:
        parser.error(str(error))
    if given.json:
        values = {path: list_values(found) for path, (_, found) in results.items()}
        sys.stdout.write(json.dumps(values, indent=1, allow_nan=False) + "\n")
    else:
        tables = [render_table(truth, found) for truth, found in results.values()]
        tables += [render_overview([found for _, found in results.values()])] * (len(tables) > 1)
        sys.stdout.write("\n\n".join(tables) + "\n")
    if failed := sorted({name for _, found in results.values() for name in found.failed}):
        parser.exit(1, f"failed: {', '.join(failed)}\n")


if __name__ == "__main__":
    main()
