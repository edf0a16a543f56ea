"""A page for each section of docs/credit.md on a method: formula, an episode, quality, recipe."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import credit
from agent_envs_lab import benchmark
from agent_envs_lab.truth import Truth
from tools.site import measured
from tools.site.html import bar, code, plain, table
from tools.site.picture import EPISODES, SHIPPED

if TYPE_CHECKING:
    from credit.stats import Array

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "src" / "trainer" / "recipes" / "methods"
ON_WIKI = {"mt_grpo", "mt_rloo", "igpo", "trace"}
"""Methods that read turn rewards or the probability of the right answer; AlfWorld has neither."""
COLUMNS = 3
LEAST = 0.001
"""The smallest probability of the right answer in a worked episode."""


class Method:
    """A section of docs/credit.md with the names of `credit.make` in its heading."""

    def __init__(self, title: str, body: str) -> None:
        self.title = title.partition(": `")[0]
        self.names = re.findall(r"`(\w+)`", title)
        self.slug = self.names[0]
        body = re.sub(r"\]\(#", "](../credit.md#", body.strip())
        body = body.replace("see above", "see [the batch](../credit.md#the-batch)")
        self.body = re.sub(r"\]\((\w+)\.md", r"](../\1.md", body)

    def estimators(self) -> dict[str, credit.Estimator]:
        """Estimators of this section by row of the benchmark; without one, those of its names."""
        ranked = benchmark.make_methods()
        rows = {row: ranked[row] for row in ranked if row.partition(",")[0] in self.names}
        return rows or {name: credit.make(name) for name in self.names}


def all_methods() -> list[Method]:
    """The methods in the order of docs/credit.md.

    Raises:
        ValueError: A name of `credit.names()` is in no heading, or a heading's name is unknown.
    """
    text = (ROOT / "docs" / "credit.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    found = [
        Method(title, body)
        for title, body in zip(parts[::2], parts[1::2], strict=True)
        if ": `" in title
    ]
    named = {name for method in found for name in method.names}
    if wrong := named ^ set(credit.names()):
        raise ValueError(f"docs/credit.md and credit.names() differ in {sorted(wrong)}")
    return found


def truths() -> dict[str, Truth]:
    """The truths that ship, by file name."""
    return {path.stem: Truth.load(path) for path in sorted(benchmark.SHIPPED.glob("*.parquet"))}


def scores(files: dict[str, Truth]) -> dict[str, dict[str, tuple[str, str, str]]]:
    """By method and truth: the correlation, or why there is none, and the difference to GRPO."""
    found: dict[str, dict[str, tuple[str, str, str]]] = {}
    for name, truth in files.items():
        ranked = benchmark.score_estimators(truth, benchmark.make_methods())
        for row, why in ranked.left.items():
            reason = why.partition(" because ")[0]
            found.setdefault(row, {})[name] = (f"not scored: {reason}", "", "")
        for row, one in ranked.scores.items():
            apart = ranked.differences[row].pearson
            mark = ("no difference", "better", "worse")[apart.apart]
            shown = f"{one.pearson.value:.2f} [{one.pearson.low:.2f}, {one.pearson.high:.2f}]"
            found.setdefault(row, {})[name] = (shown, f"{apart.value:+.2f}", mark)
    return found


def fidelity(method: Method, found: dict[str, dict[str, tuple[str, str, str]]]) -> str:
    """The section on measured fidelity."""
    rows = [row for row in found if row.partition(",")[0] in method.names]
    if not rows:
        return (
            "Not ranked: `agent_envs_lab.benchmark` ranks methods that read the columns of the "
            "truths that ship, and none of this section is among them. "
            "`python -m agent_envs_lab.benchmark NAME` adds a method that can read them.\n"
        )
    about = (
        "Correlation with the true advantage of a turn on the truths that ship "
        "([measured credit](../measured_credit.md)), with its 95% interval, and its difference to "
        "GRPO. Computed when this page was built.\n"
    )
    head = ("truth", *(f"{row}{part}" for row in rows for part in ("", " − GRPO")))
    cells = []
    for truth in found[benchmark.CRITIC]:
        line = [plain(truth.replace("_start", ", as it is").replace("_trained", ", trained"))]
        for row in rows:
            shown, apart, mark = found[row][truth]
            line += [shown, f"{apart} {mark}".strip()]
        cells.append(line)
    return "\n".join([about, table("Correlation with the truth", head, cells), ""])


def bias(method: Method) -> str:
    """The section on exact bias: the method's rows of the table in docs/credit.md."""
    text = (ROOT / "docs" / "credit.md").read_text(encoding="utf-8")
    lines = re.findall(
        r"^\| method \| stop .*$|^\| `[^`]+` \|(?: [-\d./]+ \|){7}$", text, re.MULTILINE
    )
    head, *rows = lines
    of_it = [row for row in rows if re.split(r"[`,]", row)[1] in method.names]
    if not of_it:
        return "Not among the methods that were enumerated.\n"
    about = (
        "Error of the expected policy gradient over the size of the true gradient, and the cosine "
        "of the two, in small worlds where both can be computed without sampling "
        "([exact bias](../credit.md#exact-bias) describes the worlds).\n"
    )
    return "\n".join([about, head, "|---" * head.count(" | ") + "|---|", *of_it, ""])


def worked(method: Method, truth: Truth) -> str:
    """The section with what the method credits in two episodes of one task."""
    found, lacking, failed = benchmark.estimate_advantages(truth, method.estimators())
    left = lacking
    if lacking:
        found, left, failed = benchmark.estimate_advantages(completed(truth), method.estimators())
    found.pop(benchmark.CRITIC)
    if left or failed:
        raise ValueError(f"no worked episode of {method.title}: {left | failed}")
    shown = dict(list(found.items())[:COLUMNS])
    goal = truth.turns.goal[EPISODES[0]]
    about = (
        f"Two rollouts of one household task, “{goal}” (of eight; the pocket policy, from "
        "`agent_envs_lab/truths`). The first number is the true advantage of the turn, measured by "
        "going on from copies of its state, with its standard error. Bars have one scale in "
        "a column."
    )
    if lacking:
        about += (
            " The recording lacks the column that the method reads. Here an implicit reward is the "
            "true advantage of the turn, and the probability of the right answer is the value of "
            "the state: what models without error would give."
        )
    return "\n".join([about, "", *(episode(truth, number, shown) for number in EPISODES)])


def completed(truth: Truth) -> Truth:
    """The truth with the columns that its recording lacks, as models without error give them."""
    turns = replace(
        truth.turns,
        turn_reward=truth.advantage[:, None],
        turn_reward_names=("implicit",),
        gold_logprob=np.log(np.clip(truth.value_before, LEAST, 1.0)),
    )
    return replace(truth, turns=turns)


def episode(truth: Truth, trajectory: int, found: dict[str, Array]) -> str:
    """The table of one episode: true and estimated advantage of every turn."""
    turns = truth.turns
    rows = [row for row in range(len(turns)) if turns.trajectory[row] == trajectory]
    inside = [row for row in range(len(turns)) if turns.trajectory[row] in EPISODES]
    columns = {"true advantage": truth.advantage, **found}
    largest = {name: float(abs(column[inside]).max()) for name, column in columns.items()}
    cells = []
    for turn, row in enumerate(rows, 1):
        line = [str(turn), code(turns.action[row])]
        line.append("yes" if turns.valid[row] else '<strong class="no">no</strong>')
        for name, column in columns.items():
            line.append(bar(float(column[row]), largest[name]))
        line[3] += f' <span class="error">± {truth.error[row]:.2f}</span>'
        cells.append(line)
    outcome = turns.outcome[trajectory]
    title = f"{'Success' if outcome == 1 else 'Failure'}, outcome {outcome:g}"
    return table(title, ("turn", "action", "valid", *columns), cells) + "\n"


def trained(method: Method) -> list[tuple[str, str]]:
    """The section on the household study, if the method was in it."""
    lines = measured.study(method.names)
    return [("## Trained on household tasks", "\n".join(lines))] if lines else []


def recipe(method: Method) -> str:
    """The section with the recipes, as their files are."""
    lines: list[str] = []
    for name in method.names:
        file = RECIPES / f"{name}.toml"
        if not file.is_file():
            continue
        environment = "wiki" if name in ON_WIKI else "alfworld"
        lines += [f"`agent-envs train {environment} {name} pocket`", ""] if not lines else []
        lines += [
            "```toml",
            f"# {file.relative_to(ROOT)}",
            file.read_text("utf-8").strip(),
            "```",
            "",
        ]
    about = "A recipe is this file, an environment and a model ([recipes](../recipes.md)).\n"
    return "\n".join([about, *lines]) if lines else "No recipe: call the estimator yourself.\n"


def options(method: Method) -> str:
    """The section with the docstrings of the classes."""
    classes = dict.fromkeys(type(credit.make(name)).__name__ for name in method.names)
    lines = ["```{eval-rst}"]
    for name in classes:
        lines += [f".. autoclass:: credit.{name}", ""]
    return "\n".join([*lines, "```", ""])


def page(method: Method, truth: Truth, found: dict[str, dict[str, tuple[str, str, str]]]) -> str:
    """The page of a method in Markdown."""
    made = ", ".join(f'`credit.make("{name}")`' for name in method.names)
    parts = (
        (f"# {method.title}", f"{made}\n\n{method.body}\n"),
        ("## What it credits in two episodes", worked(method, truth)),
        ("## Measured fidelity", fidelity(method, found)),
        ("## Exact bias", bias(method)),
        *trained(method),
        ("## Cost", "\n".join(measured.cost(method.names))),
        ("## Recipe", recipe(method)),
        ("## Options", options(method)),
    )
    return "\n".join(f"{title}\n\n{body}" for title, body in parts)


def write(folder: Path) -> None:
    """Write the pages and their index into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = truths()
    found = scores(files)
    methods = all_methods()
    lines = ["# Credit methods", "", "| method | names | correlation, to GRPO |", "|---|---|---|"]
    for method in methods:
        text = page(method, files[SHIPPED], found)
        (folder / f"{method.slug}.md").write_text(text, encoding="utf-8")
        names = ", ".join(f"`{name}`" for name in method.names)
        differences = {
            row: [float(apart) for _, apart, _ in found[row].values() if apart]
            for row in found
            if row in method.names and row != benchmark.BASELINE
        }
        means = [f"{row} {np.mean(of):+.2f} ({len(of)})" for row, of in differences.items()]
        lines.append(f"| [{method.title}]({method.slug}.md) | {names} | {', '.join(means)} |")
    about = (
        "The last column is the difference to GRPO's correlation with the true advantage, the mean "
        "over the truths that the method can read (their number is in brackets). "
        "[Measured credit](../measured_credit.md) describes them. Models "
        "that are learned beside a policy are on the page [methods](../methods.md)."
    )
    lines += ["", about, ""]
    lines += ["```{toctree}", ":hidden:", "", *(method.slug for method in methods), "```", ""]
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")
