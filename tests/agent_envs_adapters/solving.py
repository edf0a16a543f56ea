"""What the tests of adapters share: replies that solve a task, and replies that do not."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from agent_envs.experts import expert
from trainer.play.environments import reply_form

FORM = "<think>{thought}</think><action>{action}</action>"
WAIT = FORM.format(thought="I wait.", action="look")


def needs(script, *packages):
    """The marks of tests that .ci/SCRIPT runs, in an environment with these packages."""
    reason = f"needs {' and '.join(packages)} in an environment of its own; see .ci/{script}"
    mark = "skyrl" if "skyrl_gym" in packages else script
    return [
        getattr(pytest.mark, mark),
        pytest.mark.skipif(not all(map(find_spec, packages)), reason=reason),
    ]


def solution(episodes, **task):
    """The explorer's replies to a task, and the episode that they made."""
    episode, replies = episodes.start(**task), []
    explorer, form = expert(episode.env), reply_form(episode.env) or FORM
    while not episode.done:
        replies.append(form.format(thought="I do it.", action=explorer.act()))
        episode.step(replies[-1])
    episodes.release(episode)
    assert episode.success
    return replies, episode


def make_twelve(text):
    """The next action of EZPoints that makes 12 of the two cards in a prompt."""
    cards = re.findall(r"cards: (\w+) of \w+, (\w+) of", text)[-1]
    formula = re.findall(r"current formula: '([^']*)'", text)[-1]
    first, second = (card if card.isdigit() else "10" for card in cards)
    operator = "*" if int(first) * int(second) == 12 else "+"
    return {"": first, first: operator, first + operator: second}.get(formula, "=")


def run_page(name, folder, **variables):
    """Run the Python block of an integration's page; its output."""
    page = Path(__file__).parents[2] / "docs" / "integrations" / f"{name}.md"
    (block,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    (folder / "block.py").write_text(block)
    child = subprocess.run(
        [sys.executable, "block.py"],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout
