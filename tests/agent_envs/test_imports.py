"""Import strings: what they find, and what each kind of mistake is told."""

from __future__ import annotations

import re

import pytest

from agent_envs import Template
from agent_envs.imports import named


@pytest.fixture(autouse=True)
def _package(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "prompts.py").write_text(
        "from agent_envs import Template\nSHORT = Template('{step_count}', '')\nNUMBER = 3\n"
    )
    (folder / "needs.py").write_text("import not_installed_anywhere\n")
    (folder / "breaks.py").write_text("raise ImportError('the driver is too old')\n")
    (folder / "wrong.py").write_text("1 / 0\n")
    (folder / "syntax.py").write_text("def (:\n")
    (folder / "leaves.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_what_is_named_is_found():
    assert isinstance(named("mine.prompts:SHORT", Template), Template)
    assert named("mine.prompts:NUMBER") == 3
    assert named("agent_envs:Template", type) is Template


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("alfworld", "prompt must have the form package.module:Name, got 'alfworld'"),
        ("", "must have the form package.module:Name, got ''"),
        (":Name", "must have the form package.module:Name"),
        ("mine.prompts:", "must have the form package.module:Name"),
        (".prompts:SHORT", "must have the form package.module:Name"),
        ("mine.prompts:SHORT:x", "must have the form package.module:Name"),
        ("mine/prompts.py:SHORT", "must have the form package.module:Name"),
        (
            "your.prompts:SHORT",
            "there is no module 'your'; install it, or put its folder on PYTHON",
        ),
        ("mine.promts:SHORT", "there is no module 'mine.promts'; install it"),
        ("mine.prompts.more:SHORT", "there is no module 'mine.prompts.more'"),
        ("mine.prompts:SHRT", "mine.prompts has no 'SHRT', did you mean 'SHORT'?"),
        ("mine.prompts:NUMBER", "must name an object of class Template, and 'mine.prompts:NUMBER'"),
    ],
)
def test_mistakes_are_told_in_a_line(path, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        named(path, Template, option="prompt")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("needs", "ModuleNotFoundError: No module named 'not_installed_anywhere'"),
        ("breaks", "ImportError: the driver is too old"),
        ("wrong", "ZeroDivisionError: division by zero"),
        ("syntax", "SyntaxError: "),
        ("leaves", "SystemExit: 3"),
    ],
)
def test_a_module_that_fails_is_told_with_option_file_and_line(module, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        named(f"mine.{module}:Name", option="credit.name")
    said = str(refused.value)
    assert said.startswith(f"credit.name names 'mine.{module}:Name', but the module mine.{module}")
    assert said.endswith(f"{module}.py:1)")
    assert "\n" not in said
    assert refused.value.__cause__ is not None
