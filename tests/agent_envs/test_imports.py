"""Import strings and shipped files: what they find, and the message of each mistake."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest

from agent_envs import MissingAsset, Template
from agent_envs.assets import asset
from agent_envs.ezpoints.env import EZPoints
from agent_envs.imports import find_creator, load_object


@pytest.fixture(autouse=True)
def _package(tmp_path, monkeypatch):
    folder = tmp_path / "parcel"
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
    assert isinstance(load_object("parcel.prompts:SHORT", Template), Template)
    assert load_object("parcel.prompts:NUMBER") == 3
    assert load_object("agent_envs:Template", type) is Template


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("alfworld", "prompt must have the form package.module:Name, got 'alfworld'"),
        ("", "must have the form package.module:Name, got ''"),
        (":Name", "must have the form package.module:Name"),
        ("parcel.prompts:", "must have the form package.module:Name"),
        (".prompts:SHORT", "must have the form package.module:Name"),
        ("parcel.prompts:SHORT:x", "must have the form package.module:Name"),
        ("parcel/prompts.py:SHORT", "must have the form package.module:Name"),
        (
            "your.prompts:SHORT",
            "there is no module 'your'; install it, or put its folder on PYTHON",
        ),
        ("parcel.promts:SHORT", "there is no module 'parcel.promts'; install it"),
        ("parcel.prompts.more:SHORT", "there is no module 'parcel.prompts.more'"),
        ("parcel.prompts:SHRT", "parcel.prompts has no 'SHRT', did you mean 'SHORT'?"),
        (
            "parcel.prompts:NUMBER",
            "must name an object of class Template, and 'parcel.prompts:NUMBER'",
        ),
    ],
)
def test_mistakes_are_told_in_a_line(path, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        load_object(path, Template, option="prompt")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "path", ["EZPoints-v0", "agent_envs:EZPoints-v0", "agent_envs.ezpoints.env:EZPoints"]
)
def test_an_environment_is_found_by_id_or_class(path):
    assert find_creator(path, option="env") is EZPoints


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("EZPoint-v0", "'EZPoint-v0' is registered, did you mean 'EZPoints-v0'?; your own is"),
        ("parcel.prompts:Id-v0", "env is 'parcel.prompts:Id-v0', but parcel.prompts registers no"),
        (
            "parcel.prompts:Shop",
            "env names 'parcel.prompts:Shop', but parcel.prompts has no 'Shop'",
        ),
        (
            "parcel.prompts:Template",
            "names 'parcel.prompts:Template', a class that is no gymnasium",
        ),
        ("parcel.prompts:NUMBER", "env must name an object of class type"),
        ("your.shop:Shop", "env names 'your.shop:Shop', but there is no module 'your'; install"),
        (
            "Nowhere-v0",
            "env is 'Nowhere-v0', registered with the entry point 'parcel:Nothing', which",
        ),
    ],
)
def test_an_environment_that_is_not_there_is_told_in_a_line(path, message, monkeypatch):
    spec = gym.envs.registration.EnvSpec("Nowhere-v0", entry_point="parcel:Nothing")
    monkeypatch.setitem(gym.registry, "Nowhere-v0", spec)
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        find_creator(path, option="env")
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
        load_object(f"parcel.{module}:Name", option="credit.name")
    said = str(refused.value)
    assert said.startswith(
        f"credit.name names 'parcel.{module}:Name', but the module parcel.{module}"
    )
    assert said.endswith(f"{module}.py:1)")
    assert "\n" not in said
    assert refused.value.__cause__ is not None


def test_a_shipped_file_is_found_or_its_error_has_the_remedy():
    assert asset("__init__.py").is_file()
    with pytest.raises(MissingAsset, match=r"alfworld/nowhere.json is not in .*pip install"):
        asset("alfworld/nowhere.json")
