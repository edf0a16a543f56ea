"""A live figure of credit: an episode of one's choice, with the credit of methods of one's choice.

Styles alone choose what is shown. So it needs no script, and works in a report that was mailed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import credit
from agent_envs.cli.console import make_printable

if TYPE_CHECKING:
    from jinja2 import Environment

    from credit.stats import Array
    from trainer.play.records import Episode

OWN = "this run"


class Shown(NamedTuple):
    """An episode of the figure.

    Attributes:
        title: What it is called.
        turns: A batch of N turns with this episode.
        trajectory: Its number there.
        columns: [N] a number for each turn of the batch, by name.
    """

    title: str
    turns: credit.Turns
    trajectory: int
    columns: Mapping[str, Array]


class Row(NamedTuple):
    """A turn; `state` is the letter of its anchor, `again` whether it was visited twice.

    `values` has the numbers of the columns, not a number where it has none, and their shares of
    the largest of the episode.
    """

    action: str
    valid: bool
    progress: float
    state: str
    again: bool
    values: list[tuple[float, float]]


def estimate_credit(turns: credit.Turns) -> dict[str, Array]:
    """[N] the credit of each turn by each method of `credit` that can be computed of them."""
    found, graded = {}, not np.isin(turns.outcome, (0.0, 1.0)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rewards that a method does not read
        for name in credit.names():
            made = credit.make(name)
            if not (graded and getattr(made, "reads_success", False)):
                with suppress(ValueError):  # a column that it needs, or a value that it refuses
                    found[name] = credit.estimate(made, turns, np.random.default_rng(0))
    return found


def draw_live(episodes: Sequence[Shown], chosen: Sequence[str], name: str = "live") -> str:
    """HTML of the figure.

    Args:
        episodes: Episodes to choose from; the first is shown.
        chosen: Names of the columns that are shown first.
        name: Begins the ids of the figure's elements.
    """
    columns = list(dict.fromkeys(key for one in episodes for key in one.columns))
    told = [(one, _list_turns(one, columns)) for one in episodes]
    page = open_templates().get_template("live.html.j2")
    drawn = page.render(told=told, columns=columns, chosen=chosen, name=name)
    return "\n".join(line for line in drawn.splitlines() if line)  # one block of Markdown


def draw_rollouts(
    played: Sequence[Episode], places: Sequence[int], own: Array | None, method: str
) -> str:
    """HTML of the figure for some of the rollouts of a step, with the run's own credit [N]."""
    turns = credit.Turns.from_episodes(played)
    columns = {} if own is None else {OWN: own}
    columns |= estimate_credit(turns)
    shown = [
        Shown(f"{number} {'won' if played[place].success else 'lost'}", turns, place, columns)
        for number, place in enumerate(places, 1)
    ]
    return draw_live(shown, [OWN, "rtmc" if method == "grpo" else "grpo"])


def _list_turns(one: Shown, columns: Sequence[str]) -> list[Row]:
    turns, rows = one.turns, np.flatnonzero(one.turns.trajectory == one.trajectory)
    anchors = [turns.anchor[row] for row in rows]
    order = list(dict.fromkeys(anchors))
    values = []
    for name in columns:
        own = np.round(one.columns.get(name, np.full(len(turns), np.nan))[rows], 2)
        values.append(list(zip(own, own / (np.abs(own).max() or 1.0), strict=True)))
    return [
        Row(
            " ".join(str(turns.action[row]).split()),
            bool(turns.valid[row]),
            float(turns.progress[row]),
            _name_state(order.index(anchor)),
            anchors.count(anchor) > 1,
            list(numbers),
        )
        for row, anchor, *numbers in zip(rows, anchors, *values, strict=True)
    ]


def _name_state(place: int) -> str:
    """A to Z, then A1 to Z1, and so on."""
    number, letter = divmod(place, 26)
    return f"{chr(65 + letter)}{number or ''}"


@cache
def open_templates() -> Environment:
    """The templates of this folder; what is not of this package is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def tell(value: Any) -> Any:
        return make_printable(value) if type(value) is str else value

    return Environment(
        loader=PackageLoader("trainer.run", "."), undefined=StrictUndefined, autoescape=True,
        trim_blocks=True, finalize=tell,
    )  # fmt: skip
