"""Recorded episodes with their signals, the true advantage and the credit of each turn.

`python -m tools.site.picture` writes the picture of one to docs/episode.svg, which the README
shows. The home page of the site has ten in a figure in which episode and methods are chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import credit
from agent_envs_lab import benchmark
from agent_envs_lab.truth import Truth
from tools.site.html import plain
from trainer.run.live import Shown, draw_live, estimate_credit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from credit.stats import Array

SHIPPED = "alfworld_start"
EPISODES = (110, 107)
"""A success and a failure of one task among the trajectories of that truth; the first is drawn."""
READS = {"grpo": "outcome", "mgr": "valid", "has": "progress", "rtmc": "anchor"}
"""The methods that are shown, and the signal that each of them reads."""
BOTH = {"alfworld_start", "ezpoints_start", "webshop_start"}
"""Truths of which the live figure also shows a failure."""
LONGEST = 15  # turns of an episode of that figure
TRUE = "true"
WIDTH, ROW, TOP = 780, 26, 92
X = {"turn": 18, "action": 28, "valid": 262, "progress": 288, "anchor": 392}
FIRST, TRUE_WIDTH, WIDE, BAR = 428, 104, 61, 24
REPEATED = ("#1d4ed8", "#7c3aed", "#0f766e", "#9d174d")
GAIN, LOSS = "#0a7d5a", "#c2410c"
STYLE = """
.episode { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif;
  --ink: #1f2328;
  --soft: #59636e;
  --line: #d1d9e0; --edge: #8c959f;
  --page: #ffffff; --no: #b3261e; }
@media (prefers-color-scheme: dark) { .episode {
  --ink: #e6edf3;
  --soft: #9aa4af;
  --line: #3d444d; --edge: #656c76;
  --page: #0d1117; --no: #ff8a80; } }
.episode text { fill: var(--ink); }
.episode .soft { fill: var(--soft); font-size: 11px; }
.episode .head { font-weight: 600; }
.episode .code { font: 11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.episode .no { fill: var(--no); font-weight: 600; }
.episode .letter { fill: #ffffff; font-weight: 600; }
.episode line { stroke: var(--line); }
.episode .open { stroke: var(--edge); fill: none; }
"""


def worked() -> Truth:
    """The truth whose episodes the site shows."""
    return Truth.load(benchmark.SHIPPED / f"{SHIPPED}.parquet")


def draw(truth: Truth) -> str:
    """The picture as SVG."""
    turns = truth.turns
    rows = [row for row in range(len(turns)) if turns.trajectory[row] == EPISODES[0]]
    found, *_ = benchmark.estimate_advantages(truth, {name: credit.make(name) for name in READS})
    columns = {TRUE: truth.advantage, **{name: found[name] for name in READS}}
    height = TOP + ROW * len(rows) + 10
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg class="episode" xmlns="http://www.w3.org/2000/svg" {size}',
        ' role="img" aria-labelledby="episode-says">',
        f'<title id="episode-says">{plain(alternative(truth, rows))}</title>',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="var(--page)"/>',
        *heading(turns.goal[EPISODES[0]], len(rows)),
        *signals(truth, rows),
    ]
    left = FIRST
    for name, column in columns.items():
        wide = TRUE_WIDTH if name == TRUE else WIDE
        lines += bars(name, column[rows], left + wide // 2 - (8 if name == TRUE else 0))
        left += wide
    return "\n".join([*lines, "</svg>"]) + "\n"


def decisive(truth: Truth, rows: list[int]) -> int:
    """The place in the episode, from 0, of the turn with the largest true advantage."""
    return max(range(len(rows)), key=lambda place: truth.advantage[rows[place]])


def alternative(truth: Truth, rows: list[int]) -> str:
    """What the picture shows, in words."""
    turns, place = truth.turns, decisive(truth, rows)
    invalid = sum(not turns.valid[row] for row in rows)
    return (
        f"An episode of {len(rows)} turns, {invalid} of them invalid, that succeeds: "
        f"{turns.goal[EPISODES[0]]} For each turn: action, validity, progress, anchor, the "
        f"measured true advantage, and the credit of {', '.join(READS)}. The largest true "
        f"advantage, {truth.advantage[rows[place]]:+.2f}, is that of turn {place + 1}, "
        f"{turns.action[rows[place]]}."
    )


def heading(goal: str, turns: int) -> Iterator[str]:
    """The goal, the names of the columns, and the lines between the rows."""
    yield f'<text x="10" y="20"><tspan class="head">goal</tspan>  {plain(goal)}</text>'
    yield text(X["action"], 66, "action", "head")
    for name, at in (("valid", X["valid"]), ("progress", 328), ("anchor", X["anchor"])):
        yield text(at, 66, name, "head", "middle")
    yield text((X["valid"] + X["anchor"]) // 2, 44, "signals of the turn", "soft", "middle")
    yield text(X["anchor"], 82, "before it", "soft", "middle")
    left = FIRST + TRUE_WIDTH
    middle = (left + WIDTH - 14) // 2
    yield text(FIRST + TRUE_WIDTH // 2 - 8, 66, "true", "head", "middle")
    yield text(FIRST + TRUE_WIDTH // 2 - 8, 82, "advantage", "soft", "middle")
    yield text(middle, 44, "credit by a method, and what it reads", "soft", "middle")
    for name, what in READS.items():
        yield text(left + WIDE // 2, 66, name.upper(), "head", "middle")
        yield text(left + WIDE // 2, 82, what, "soft", "middle")
        left += WIDE
    for row in range(turns):
        at = TOP + ROW * row - 2
        yield f'<line x1="4" x2="{WIDTH - 4}" y1="{at}" y2="{at}"/>'


def signals(truth: Truth, rows: list[int]) -> Iterator[str]:
    """Number, action, validity, progress and anchor of each turn."""
    turns = truth.turns
    anchors = [turns.anchor[row] for row in rows]
    order = list(dict.fromkeys(anchors))
    again = [anchor for anchor in order if anchors.count(anchor) > 1]
    colours = dict(zip(again, REPEATED, strict=False))
    for place, row in enumerate(rows):
        at = TOP + ROW * place + 15
        yield text(X["turn"], at, str(place + 1), "soft", "end")
        yield text(X["action"], at, turns.action[row], "code")
        yield text(
            X["valid"],
            at,
            "yes" if turns.valid[row] else "✗ no",
            "" if turns.valid[row] else "no",
            "middle",
        )
        done = float(turns.progress[row])
        box = f'x="{X["progress"]}" y="{at - 9}" height="10" rx="2"'
        yield f'<rect {box} width="50" class="open"/>'
        yield f'<rect {box} width="{50 * done:.1f}" fill="{GAIN}"/>'
        yield text(X["progress"] + 80, at, f"{done:.2f}", "soft", "end")
        letter, colour = chr(65 + order.index(anchors[place])), colours.get(anchors[place])
        shape = f'fill="{colour}"' if colour else 'class="open"'
        yield f'<circle cx="{X["anchor"]}" cy="{at - 4}" r="10" {shape}/>'
        yield text(X["anchor"], at, letter, "letter" if colour else "", "middle")


def bars(name: str, column: Array, middle: int) -> Iterator[str]:
    """A column of bars around a line at `middle`, with numbers beside those of the truth."""
    largest = max(float(abs(column).max()), 1e-9)
    bottom = TOP + ROW * len(column) - 4
    yield f'<line x1="{middle}" x2="{middle}" y1="{TOP}" y2="{bottom}"/>'
    for place, value in enumerate(column):
        at = TOP + ROW * place + 15
        wide = BAR * abs(value) / largest
        left = middle if value > 0 else middle - wide
        shown = f"{value:+.2f}" if round(float(value), 2) else "0"
        yield (
            f'<rect x="{left:.1f}" y="{at - 10}" width="{wide:.1f}" height="12" '
            f'fill="{GAIN if value > 0 else LOSS}"><title>{name} {shown}</title></rect>'
        )
        if name == TRUE:
            yield text(middle + BAR + 36, at, shown, "soft", "end")


def text(x: int, y: int, words: str, kind: str = "", anchor: str = "start") -> str:
    """A text element."""
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{plain(words)}</text>'


def choose_episodes() -> list[Shown]:
    """Ten episodes of the truths that ship: of each environment a success, of three a failure."""
    shown = []
    for path in sorted(benchmark.SHIPPED.glob("*_start.parquet")):
        truth = Truth.load(path)
        turns, name = truth.turns, str(truth.about["env"]).partition("-")[0]
        columns = {"true advantage": truth.advantage, **estimate_credit(turns)}
        largest = np.zeros(len(turns.outcome))
        np.maximum.at(largest, turns.trajectory, np.abs(truth.advantage))
        largest[np.bincount(turns.trajectory) > LONGEST] = -1
        for won in (True, False) if path.stem in BOTH else (True,):
            wanted = turns.outcome.max() if won else turns.outcome.min()
            chosen = int(np.where(turns.outcome == wanted, largest, -1).argmax())
            shown.append(Shown(name if won else f"{name}, failed", turns, chosen, columns))
    return shown


def page() -> str:
    """The live figure inside a Markdown page, with what it shows."""
    said = (
        "Rollouts of small policies. The true advantage of a turn is [measured]"
        "(measured_credit.md) by going on from copies of each state; a filled letter is a state "
        "that was visited twice. Choose an episode, and the [methods](methods/index.md) whose "
        "credit you want to see beside it. The report of a run has the same figure of its own "
        "rollouts. The episodes of WebShop, Sotopia, AppWorld and WikiSearch are of their worlds "
        "before `-v1`."
    )
    return f"{draw_live(choose_episodes(), ('true advantage', 'grpo', 'rtmc'))}\n\n{said}\n"


if __name__ == "__main__":
    target = Path(__file__).parents[2] / "docs" / "episode.svg"
    target.write_text(draw(worked()), encoding="utf-8")
    print(target)
