"""Sections of the pages on what was measured, taken from tables that are in docs/."""

from __future__ import annotations

import re
from pathlib import Path

from tools.site import papers
from trainer import recipes

DOCS = Path(__file__).parents[2] / "docs"
SAME_AS = {"WebShopSite-v1": "WebShop-v1"}
"""Environments with the rewards and published results of another one."""
LINKS = {
    "AlfWorld-v0": {
        "Speed": ("results.md#alfworlds-engine", "engine and fidelity"),
        "Training": ("results.md#the-study", "fourteen methods on household tasks"),
        "Settings": ("settings.md#alfworld", "the recipe's, with sources"),
    },
    "AppWorld-v1": {
        "More": ("appworld.md", "families, the sandbox, the public benchmark"),
        "Speed": ("appworld.md#speed-and-memory", "the command that measures it"),
        "Data": ("appworld.md#the-public-benchmark", "the public benchmark by HTTP"),
        "Training": ("training.md#recipes", "a small policy"),
        "Settings": ("settings.md#appworld", "the recipe's, with sources"),
    },
    "Bifurcation-v1": {
        "More": ("environments.md#bifurcation", "exact advantages of every turn"),
        "Training": ("tutorials/own_trainer.md", "a loop of your own on it"),
    },
    "EZPoints-v0": {
        "More": ("puzzles.md#ezpoints", "rewards, pictures, splits"),
        "Speed": ("puzzles.md#ezpoints", "steps a second, in text and in pictures"),
        "Training": ("results.md#ezpoints", "four methods"),
        "Settings": ("settings.md#ezpoints", "the recipe's, with sources"),
    },
    "Points-v0": {
        "More": ("puzzles.md#four-cards-to-24", "rules, sets of numbers held out"),
        "Training": ("audit.md#the-ladder", "its ladder"),
    },
    "SearchQA-v1": {
        "More": ("search_qa.md", "worlds, typed answers, public data, retrieval servers"),
        "Speed": ("search_qa.md#measurements", "retrievers and servers"),
        "Data": ("search_qa.md#public-data", "public questions and passages"),
        "Settings": ("settings.md#search", "the recipe's, with sources"),
    },
    "Sokoban-v0": {
        "More": ("puzzles.md", "rooms, solver, levels from files"),
        "Speed": ("puzzles.md#measurements", "beside gym-sokoban"),
        "Training": ("results.md#sokoban", "three methods"),
        "Settings": ("settings.md#sokoban", "the recipe's, with sources"),
    },
    "Sotopia-v1": {
        "More": ("sotopia.md", "families of scenes, acts, partners, judges"),
        "Speed": ("sotopia.md#measurements", "turns a second, memory"),
        "Data": ("sotopia.md#the-public-data", "SOTOPIA's scenes"),
        "Settings": ("settings.md#sotopia", "the recipe's, with sources"),
    },
    "TextWorld-v0": {
        "More": ("textworld.md", "kinds and levels of games, splits, files"),
        "Speed": ("textworld.md#experts-and-measurements", "beside plain TextWorld"),
        "Data": ("textworld.md#games-of-your-own", "games made by tw-make"),
        "Settings": ("settings.md#textworld", "the recipe's, with sources"),
    },
    "WebShop-v1": {
        "More": ("webshop.md", "the generated catalogues, scripts, the public shop"),
        "Speed": ("webshop.md#measurements", "steps a second, memory, large catalogues"),
        "Data": ("webshop.md#the-public-shop", "the public catalogue"),
        "Training": ("results.md#webshop", "GiGPO, of the version before the facts"),
        "Settings": ("settings.md#webshop", "the recipe's, with sources"),
    },
    "WebShopSite-v1": {
        "More": ("webshop.md#the-web-site", "Chromium, differences to the text form"),
        "Speed": ("webshop.md#measurements", "actions a second"),
    },
    "WikiSearch-v1": {
        "More": ("search_qa.md", "worlds, typed answers, rewards, public data"),
        "Speed": ("search_qa.md#measurements", "retrievers and servers"),
        "Data": ("search_qa.md#public-data", "public questions and passages"),
        "Training": ("results.md#two-turns-does-tool-use-survive", "three methods"),
        "Settings": ("settings.md#wiki", "the recipe's, with sources"),
    },
}
LINKS["VisualSokoban-v0"] = LINKS["Sokoban-v0"]
OLDER = ("AppWorld", "SearchQA", "Sotopia", "WebShop", "WikiSearch")
LINKS |= {f"{name}-v0": LINKS[f"{name}-v1"] for name in OLDER}
OF_STUDY = {
    "has": ("has_progressive", "has_turnrd", "has_turnrd_film"),
    "mgr": ("mgr", "mgr_critic", "mgr_no_gate", "mgr_no_repetition"),
}
"""Rows of a study that are variants of a method."""
SINCE = {
    "istar": "In this study iStar's reward model was trained at a rate ten times too high. That is "
    "mended: since then iStar does not differ from GRPO ([iStar again](../results.md#istar-again))."
}
"""What has changed about a method since the study."""


def rows(page: str, head: str) -> list[dict[str, str]]:
    """The rows of the table in a page of docs/ whose first line starts with `head`, by column.

    Raises:
        ValueError: No table of the page starts so.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(head)}.*\n\|[-:| ]+\|\n(?:\|.*\|\n)*", text, re.MULTILINE)
    if not found:
        raise ValueError(f"docs/{page} has no table that starts with {head!r}")
    names, _, *lines = (cells(line) for line in found[0].splitlines())
    return [dict(zip(names, line, strict=True)) for line in lines]


def cells(line: str) -> list[str]:
    """The cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def of_environment(name: str) -> list[str]:
    """The sections on audits, links and published results of an environment's page."""
    lines = ["## Measurements and links", "", *anchors(name), *non_solver(name)]
    for kind, (target, what) in LINKS[name].items():
        lines.append(f"* **{kind}**: [{what}](../{target})")
    return [*lines, "", *published(name)]


def anchors(name: str) -> list[str]:
    """What the audit of anchors found, a line for each setting that was audited."""
    lines = []
    for row in rows("audit.md", "| environment | turns |"):
        shown, _, options = row["environment"].partition(", ")
        if shown != f"`{name}`":
            continue
        setting = f" with `{options}`" if options else ""
        lines.append(
            f"* **[Anchors](../audit.md#anchors)**{setting}: {row['revisited pairs']} pairs of "
            f"anchor and action were met again in {row['turns']} turns; {row['diverging']} of them "
            f"had different results. With the observation as the key, "
            f"{row['diverging by observation']} had."
        )
    return lines


def non_solver(name: str) -> list[str]:
    """What the best player that does not read the task earns."""
    known = SAME_AS.get(name, name)
    return [
        f"* **[Reward](../audit.md#rewards)**: the best of the players that ignore the task "
        f"({row['player']}) succeeds in {row['success [95%]']} of {row['episodes']} episodes. "
        "Compare learned scores with this."
        for row in rows("audit.md", "| environment | player |")
        if f"`{known}`" in row["environment"]
    ]


def published(name: str) -> list[str]:
    """The section on what papers report on an environment."""
    known = SAME_AS.get(name, name)
    ids = {one: recipes.part("environment", one).settings for one in recipes.names("environment")}
    found = [
        line
        for one, settings in ids.items()
        if settings["env", "id"].value in {name, known}
        for line in papers.list_rows(one)
    ]
    if not found:
        return []
    about = (
        "What papers report on the benchmark, none of it repeated here "
        "([published results](../published.md))."
    )
    return ["## Published results", "", about, "", *found, ""]


def cost(names: list[str]) -> list[str]:
    """The section on the cost of a method: alone, and in a step of training."""
    alone = [row for row in rows("credit.md", "| | 128 × 50 |") if _of(row[""], names)]
    steps = [
        row
        for row in rows("methods.md", "| method | seconds a step |")
        if _of(row["method"], names)
    ]
    lines = []
    if alone:
        sizes = [size for size in alone[0] if size]
        lines += ["CPU seconds of the estimator on batches of trajectories × turns (in brackets: "]
        lines += ["plain Python takes so many times as long; [speed](../credit.md#speed)):", ""]
        lines += table(["", *sizes], [[row[size] for size in ("", *sizes)] for row in alone])
    if steps:
        lines += ["A step of training with the pocket policy "]
        lines += ["([cost of a step](../methods.md#cost-of-a-step)):", ""]
        lines += table(list(steps[0]), [list(row.values()) for row in steps])
    return lines or ["Not measured.", ""]


def study(names: list[str]) -> list[str]:
    """The section on what a method reached in the household study."""
    found = [
        row
        for row in rows("results.md", "| method | start | success |")
        if _of(row["method"], names)
    ]
    if not found:
        return []
    about = (
        "Household tasks, five seeds of the pocket policy, 120 held-out games "
        "([the study](../results.md#the-study) has the settings and what the differences mean):"
    )
    kept = ["method", "start", "success", "to GRPO", "p", "valid", "turns", "seconds"]
    shown = table(kept, [[row[name] for name in kept] for row in found])
    return [about, "", *shown, *(SINCE[name] for name in names if name in SINCE), ""]


def _of(shown: str, names: list[str]) -> bool:
    """Whether a row of a table is on a method or a variant of it."""
    method = shown.strip("`").partition(" ")[0].partition("`")[0]
    return any(method in {name, *OF_STUDY.get(name, ())} for name in names)


def table(head: list[str], lines: list[list[str]]) -> list[str]:
    """A Markdown table."""
    parts = [head, ["---"] * len(head), *lines]
    return [*(f"| {' | '.join(part)} |" for part in parts), ""]
