"""What the tests of adapters share: replies that solve a task, and replies that do not."""

import importlib
import os
import re
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from agent_envs.experts import expert
from agent_envs.replies import FORM
from trainer.play.environments import find_form

WAIT = FORM.write("look", "I wait.")


TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['reasoning_content'] %}<think>{{ m['reasoning_content'] }}</think>{% endif %}"
    "{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_tokenizer(folder):
    """Write a tokenizer of bytes, with a template that keeps the thoughts; the folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    ends = ["<|im_start|>", "<|im_end|>"]
    made = Tokenizer(models.BPE({one: at for at, one in enumerate([*ends, *sorted(alphabet)])}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(ends)
    PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=ends[1], pad_token=ends[1], chat_template=TEMPLATE
    ).save_pretrained(folder)
    return folder


def needs(script, *packages):
    """The marks of tests that .ci/SCRIPT runs, in an environment with these packages."""
    reason = f"needs {' and '.join(packages)} in an environment of its own; see .ci/{script}"
    mark = "skyrl" if "skyrl_gym" in packages else script
    return [
        getattr(pytest.mark, mark),
        pytest.mark.skipif(not all(map(find_spec, packages)), reason=reason),
    ]


def check_releases(adapter, peer, change):
    """An untested release of a peer gives a warning, and one with this change an ImportError."""
    for changed, code, said in (
        ("", 0, f"UserWarning: {peer} 99.0 was not tested with agent-envs"),
        (change, 1, f"ImportError: {peer} 99.0 lacks what this adapter uses"),
    ):
        program = f"""import importlib.metadata as metadata
found = metadata.version
metadata.version = lambda name: "99.0" if name == {peer!r} else found(name)
{changed}
import agent_envs_adapters.{adapter}"""
        child = subprocess.run(
            [sys.executable, "-W", "default", "-c", program],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert (child.returncode, said in child.stderr) == (code, True), child.stderr


def check_reload(module, peer, remove, monkeypatch):
    """`check_releases` in this process, for peers whose import takes long; `remove` is the change.

    Call it in the last test of a file: the module is imported anew.
    """
    found = metadata.version
    changed = f"{module.__package__}.version", lambda name: "99.0" if name == peer else found(name)
    monkeypatch.setattr(*changed)
    with pytest.warns(UserWarning, match=f"{peer} 99.0 was not tested with agent-envs"):
        importlib.reload(module)
    monkeypatch.delattr(*remove)
    with pytest.raises(ImportError, match=f"{peer} 99.0 lacks what this adapter uses"):
        importlib.reload(module)


def solution(episodes, **task):
    """The explorer's replies to a task, and the episode that they made."""
    episode, replies = episodes.start(**task), []
    explorer, form = expert(episode.env), find_form(episode.env)
    while not episode.done:
        replies.append(form.write(explorer.act(), "I do it."))
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


def write_block(name, folder):
    """Write the Python block of an integration's page to a folder; its path."""
    page = Path(__file__).parents[2] / "docs" / "integrations" / f"{name}.md"
    (block,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    (folder / "block.py").write_text(block)
    return folder / "block.py"


def run_page(name, folder, **variables):
    """Run the Python block of an integration's page; its output."""
    child = subprocess.run(
        [sys.executable, write_block(name, folder)],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout
