"""Exact bias of every estimator in small worlds: python benchmarks/bias.py [--rollouts 8].

Two tables, of relative bias with cosine, and of noise, for each estimator and world of
`agent_envs_lab.bias`, by enumeration of all groups. Estimators that read only the outcome get the
whole return as outcome. A dash means that the world lacks what the estimator reads: outcomes of
0 and 1 and turns that are not paid.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

# `credit.py` beside this file has the name of the package.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

from rich.box import MARKDOWN  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import credit  # noqa: E402
from agent_envs_lab import bias  # noqa: E402
from credit.methods import mgr  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from credit.stats import Array


class Row(NamedTuple):
    """An estimator, whether it reads rewards, and the worlds in which it is defined."""

    estimator: Callable[[credit.Turns], Array]
    split: bool
    binary: bool = False


def average_gates(turns: credit.Turns) -> Array:
    """MGR, averaged over the signs of its gate: the reward is linear in them."""
    method = credit.MGR()
    sign = 2 * method.p_retain(turns) - 1
    return mgr.combine(
        method.local_reward(turns), method.global_reward(turns), sign, method.conflict_scale
    )


def read_rewards(turns: credit.Turns) -> Array:
    """The reward of each turn, as a decomposer."""
    return turns.reward


def make_rows() -> dict[str, Row]:
    """All estimators, and the options that change their bias."""

    def whole(name: str, **options: Any) -> Row:
        return Row(credit.make(name, **options), split=False)

    def split(name: str, **options: Any) -> Row:
        return Row(credit.make(name, **options), split=True)

    return {
        "reinforce": whole("reinforce"),
        "rloo": whole("rloo"),
        "turn_rloo": whole("turn_rloo"),
        "dr_grpo": whole("dr_grpo"),
        "grpo": whole("grpo"),
        "reinforce_pp": whole("reinforce_pp"),
        "mt_rloo": split("mt_rloo"),
        "mt_grpo": split("mt_grpo"),
        "gigpo": whole("gigpo"),
        "gigpo, gamma 1, means": whole("gigpo", gamma=1.0, mode="mean_norm"),
        "hgpo": whole("hgpo"),
        "rtmc": whole("rtmc"),
        "signal": whole("signal"),
        "kevin": whole("kevin"),
        "rebn": whole("rebn"),
        "has, progress": whole("has"),
        "has, rewards": split("has", decomposer=read_rewards),
        "mgr": Row(average_gates, split=False, binary=True),
        "mgr, no gate": Row(credit.make("mgr", gate="none"), split=False, binary=True),
        "empg": whole("empg"),
        "istar": whole("istar"),
        "igpo": Row(credit.make("igpo"), split=False, binary=True),
        "trace": Row(credit.make("trace"), split=False, binary=True),
        "prime": Row(credit.make("prime"), split=False, binary=True),
    }


def measure_row(row: Row, world: bias.World, rollouts: int) -> bias.Bias | None:
    """The bias of an estimator; None if the world lacks what it reads."""
    if row.binary and not world.binary:
        return None
    return bias.measure(row.estimator, world, rollouts, split=row.split)


def format_bias(found: bias.Bias | None) -> str:
    """Relative bias and cosine."""
    return f"{found.relative:.3f}/{found.cosine:.3f}" if found else "-"


def make_tables(rollouts: int) -> list[Table]:
    """Relative bias with cosine, and noise."""
    compared, noise = (Table("method", *bias.WORLDS, box=MARKDOWN) for _ in range(2))
    for name, row in make_rows().items():
        found = [measure_row(row, world, rollouts) for world in bias.WORLDS.values()]
        compared.add_row(f"`{name}`", *map(format_bias, found))
        noise.add_row(f"`{name}`", *(f"{one.noise:.2f}" if one else "-" for one in found))
    compared.title = f"relative bias / cosine, groups of {rollouts}"
    noise.title = f"noise of the gradient of one group, groups of {rollouts}"
    return [compared, noise]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rollouts", type=int, default=8, help="rollouts of a group")
    for table in make_tables(options.parse_args().rollouts):
        Console(width=150).print(table)


if __name__ == "__main__":
    main()
