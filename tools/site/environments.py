"""A page for each registered environment: its docstring, and an episode shown turn by turn."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

import agent_envs
from agent_envs.experts import experts_of
from agent_envs.imports import load_object
from tools.site import measured
from tools.site.html import clipped, code, markdown, plain, table

if TYPE_CHECKING:
    from pathlib import Path

SEED = 7
READ = 1500
ORDER = (
    *("Description", "Observation", "Action", "Validity", "Progress", "Anchor", "Reward", "Ends"),
    *("Tasks and splits", "Data", "Args", "Raises", "Source"),
)
MISTAKE, MISTAKEN_TURN = "dance", 2
# A wrong action there ends the episode, or is an ordinary line of a conversation.
WITHOUT_MISTAKE = {"Sotopia-v1"}
PLAYED_ELSEWHERE = {"WebShopSite-v1": "WebShop-v1"}
# Their package or data is not there where the site is built.
SHOWN_ELSEWHERE = {
    "AppWorld-v0": "../appworld.md#the-public-benchmark",
    "SearchQA-v0": "../search_qa.md",
    "Sotopia-v0": "../sotopia.md#the-public-data",
    "TextWorld-v0": "../textworld.md#an-episode",
    "WebShop-v0": "../webshop.md#the-public-shop",
    "WikiSearch-v0": "../search_qa.md",
}


@dataclass
class Step:
    """What a turn of a recorded episode was."""

    action: str
    read: Any
    reward: float
    info: dict[str, Any] = field(repr=False)


def registered() -> dict[str, str]:
    """Import strings of the environments by id."""
    specs = gym.registry.items()
    found = {name: str(spec.entry_point) for name, spec in specs}
    return {name: path for name, path in sorted(found.items()) if path.startswith("agent_envs.")}


def sections(docstring: str) -> tuple[str, dict[str, str]]:
    """The first line of a docstring and the text under each of its headings."""
    text = inspect.cleandoc(docstring)
    summary, *parts = re.split(r"^([A-Z][A-Za-z ]+):\n", text, flags=re.MULTILINE)
    names, bodies = parts[::2], parts[1::2]
    return summary.strip(), {
        name: inspect.cleandoc(body) for name, body in zip(names, bodies, strict=True)
    }


def record(name: str) -> tuple[str, list[Step]]:
    """An episode of the first expert, whose second turn is a mistake; its name and the turns."""
    env = gym.make(name)
    read, info = env.reset(seed=SEED)
    kind = next(iter(experts_of(type(env.unwrapped))))
    player = agent_envs.expert(env, kind)
    steps, ended = [Step("", read, 0.0, info)], False
    while not ended:
        mistaken = len(steps) == MISTAKEN_TURN and name not in WITHOUT_MISTAKE
        action = MISTAKE if mistaken else reply(env, player)
        read, reward, terminated, truncated, info = env.step(action)
        steps.append(Step(action, read, float(reward), info))
        ended = terminated or truncated
    env.close()
    return kind, steps


def reply(env: gym.Env[Any, Any], player: agent_envs.Expert) -> str:
    """The next action of an expert, as a whole reply where the environment reads these."""
    form = str(getattr(env.unwrapped, "reply_form", ""))
    return form.format(thought=player.think(), action=player.act()) if form else player.act()


def signals(steps: list[Step]) -> str:
    """The table of an episode: action, validity, progress, anchor and reward of every turn."""
    first_seen: dict[str, int] = {}
    rows = []
    for turn, step in enumerate(steps):
        info = step.info
        at = first_seen.setdefault(info["anchor"], turn)
        same = f'<br><span class="same">same state as after turn {at}</span>' if at < turn else ""
        valid = f'<strong class="no">no</strong>: {info["invalid_reason"]}'
        done = f"{info['progress']:.2f}"
        bar = f'<progress max="1" value="{done}" aria-label="progress"></progress> {done}'
        rows.append(
            (
                str(turn),
                code(clipped(step.action, 160)) if turn else "reset",
                "yes" if info["valid"] else valid,
                bar,
                code(info["anchor"][:16]) + same,
                f"{step.reward:g}" if turn else "",
            )
        )
    head = ("turn", "action", "valid", "progress", "anchor after it", "reward")
    return table("Signals of every turn", head, rows)


def readings(name: str, steps: list[Step], images: Path) -> str:
    """What the agent read, turn by turn: texts, or images that are written to a folder."""
    parts = ["<details><summary>What the agent read, turn by turn</summary>"]
    for turn, step in enumerate(steps):
        title = "after the reset" if not turn else f"after turn {turn}"
        parts.append(f'<p class="when">{title}</p>')
        if isinstance(step.read, np.ndarray):
            continue
        parts.append(f'<pre class="read">{plain(clipped(str(step.read), READ))}</pre>')
    parts.append("</details>\n")
    if isinstance(steps[0].read, np.ndarray):
        return pictures(name, steps, images)
    return "\n".join(parts)


def pictures(name: str, steps: list[Step], images: Path) -> str:
    """The images that the agent saw, as a row of figures."""
    from PIL import Image

    images.mkdir(parents=True, exist_ok=True)
    lines = []
    for turn, step in enumerate(steps):
        file = images / f"{name}-{turn}.png"
        picture = Image.fromarray(step.read)
        scale = max(1, 240 // max(picture.size))
        size = (picture.width * scale, picture.height * scale)
        picture.resize(size, Image.Resampling.NEAREST).save(file, optimize=True)
        alt = f"turn {turn} of the episode as a picture" if turn else "the first picture"
        lines.append(f"![{alt}](images/{file.name})")
    return "\n".join(lines) + "\n"


def page(name: str, images: Path) -> str:
    """The page of an environment in Markdown."""
    env_class = load_object(registered()[name], option="the environment")
    summary, parts = sections(env_class.__doc__ or "")
    lines = [f"# {name}", "", markdown(summary), ""]
    lines += ["```python", "import gymnasium as gym, agent_envs", ""]
    lines += [f'env = gym.make("{name}")', "observation, info = env.reset(seed=7)", "```", ""]
    lines += ["## An episode", "", *episode(name, images)]
    elsewhere = inherited(parts)
    if elsewhere:
        same, titles = next(iter(elsewhere.values())), ", ".join(elsewhere)
        lines += [f"{titles}: as in [{same}]({same}.md).", ""]
    for title in [*ORDER, *(parts.keys() - set(ORDER))]:
        if title in parts.keys() - elsewhere.keys():
            body = parts[title]
            if title in {"Args", "Raises"}:
                body = arguments(body, defaults(env_class) if title == "Args" else {})
            heading = {"Args": "Arguments"}.get(title, title)
            lines += [f"## {heading}", "", markdown(body), ""]
    return "\n".join([*lines, *measured.of_environment(name)])


def inherited(parts: dict[str, str]) -> dict[str, str]:
    """By title the environment to which a section only refers, in the words "As `Sokoban`'s."."""
    ids = {path.rpartition(":")[2]: name for name, path in registered().items()}
    found = {title: re.fullmatch(r"As `(\w+)`'s\.", body.strip()) for title, body in parts.items()}
    return {title: ids[match[1]] for title, match in found.items() if match}


def episode(name: str, images: Path) -> list[str]:
    """The section with the recorded episode."""
    if name in PLAYED_ELSEWHERE:
        other = PLAYED_ELSEWHERE[name]
        return [f"It plays the episodes of [{other}]({other}.md), with the same signals.", ""]
    if name in SHOWN_ELSEWHERE:
        return [f"[This page]({SHOWN_ELSEWHERE[name]}) shows one.", ""]
    kind, steps = record(name)
    knows = agent_envs.experts.EXPERTS[kind]
    about = f"Task `{steps[0].info['task_id']}`, played by the {kind.title()}, which {knows}."
    if name not in WITHOUT_MISTAKE:
        about += f" Its second turn was replaced by a mistake, `{MISTAKE}`."
    end = "success" if steps[-1].info["success"] else "no success"
    return [
        *(goal(steps), "", about, ""),
        *(signals(steps), "", f"The episode ends with {end}.", ""),
        *(readings(name, steps, images), ""),
    ]


def goal(steps: list[Step]) -> str:
    """The goal of an episode as a quotation."""
    text = plain(steps[0].info["goal"])
    return f'<blockquote class="goal"><strong>goal</strong> {text}</blockquote>'


def defaults(env_class: type) -> dict[str, str]:
    """The defaults of the arguments of an environment, by name, as Python shows them."""
    known = inspect.signature(env_class).parameters.values()
    return {one.name: repr(one.default) for one in known if one.default is not one.empty}


def arguments(text: str, given: dict[str, str]) -> str:
    """The entries of a section as a list, each with the defaults of the names in it."""

    def entry(found: re.Match[str]) -> str:
        values = [given[name] for name in found[1].split(", ") if name in given]
        shown = f" (default {', '.join(f'`{value}`' for value in values)})" if values else ""
        return f"* **{found[1]}**{shown}: "

    return re.sub(r"^([\w, ]+):\s+", entry, text, flags=re.MULTILINE)


def write(folder: Path) -> None:
    """Write the pages and their index into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["# Environments", "", "| id | what it is |", "|---|---|"]
    for name, path in registered().items():
        env_class = load_object(path, option="the environment")
        summary, _ = sections(env_class.__doc__ or "")
        lines.append(f"| [{name}]({name}.md) | {markdown(summary)} |")
        (folder / f"{name}.md").write_text(page(name, folder / "images"), encoding="utf-8")
    lines += ["", "[The contract](../environments.md) is common to all of them.", ""]
    lines += ["```{toctree}", ":hidden:", "", *registered(), "```", ""]
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")
