"""Import strings and shipped files: what they find, and the message of each mistake."""

import re
from functools import partial

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
    monkeypatch.syspath_prepend(tmp_path)


def test_what_is_named_is_found():
    assert isinstance(load_object("parcel.prompts:SHORT", Template), Template)
    assert load_object("parcel.prompts:NUMBER") == 3
    assert load_object("agent_envs:Template", type) is Template
    for path in ("EZPoints-v0", "agent_envs:EZPoints-v0", "agent_envs.ezpoints.env:EZPoints"):
        assert find_creator(path, option="env") is EZPoints


FORM, FAILS = "prompt must have the form package.module:Name", "but the module parcel."
MISTAKES = {
    "alfworld": f"{FORM}, got 'alfworld'",
    "": f"{FORM}, got ''",
    ":Name": FORM,
    "parcel.prompts:": FORM,
    ".prompts:SHORT": FORM,
    "parcel.prompts:SHORT:x": FORM,
    "parcel/prompts.py:SHORT": FORM,
    "your.prompts:SHORT": "no module 'your'; install it, or put its folder on PYTHONPATH",
    "parcel.promts:SHORT": "there is no module 'parcel.promts'; install it",
    "parcel.prompts.more:SHORT": "there is no module 'parcel.prompts.more'",
    "parcel.prompts:SHRT": "parcel.prompts has no 'SHRT', did you mean 'SHORT'?",
    "parcel.prompts:NUMBER": "must name an object of class Template, and 'parcel.prompts:NUMBER'",
    "parcel.needs:X": f"{FAILS}needs fails when it is imported: ModuleNotFoundError: No module",
    "parcel.breaks:X": f"{FAILS}breaks fails when it is imported: ImportError: the driver is too",
    "parcel.wrong:X": f"{FAILS}wrong fails when it is imported: ZeroDivisionError: division by",
    "parcel.syntax:X": f"{FAILS}syntax fails when it is imported: SyntaxError: ",
}
NO_ENVIRONMENT = {
    "EZPoint-v0": "'EZPoint-v0' is registered, did you mean 'EZPoints-v0'?; your own is",
    "parcel.prompts:Id-v0": "env is 'parcel.prompts:Id-v0', but parcel.prompts registers no",
    "parcel.prompts:Shop": "env names 'parcel.prompts:Shop', but parcel.prompts has no 'Shop'",
    "parcel.prompts:Template": "names 'parcel.prompts:Template', a class that is no gymnasium",
    "parcel.prompts:NUMBER": "env must name an object of class type",
    "your.shop:Shop": "env names 'your.shop:Shop', but there is no module 'your'; install",
}


@pytest.mark.parametrize(
    ("call", "path", "message"),
    [
        *((partial(load_object, kind=Template, option="prompt"), *row) for row in MISTAKES.items()),
        *((partial(find_creator, option="env"), *row) for row in NO_ENVIRONMENT.items()),
    ],
)
def test_mistakes_are_told_in_a_line(call, path, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        call(path)
    said = str(refused.value)
    assert "\n" not in said
    assert said.endswith(f"{path[7:-2]}.py:1)") == (FAILS in message)


def test_a_shipped_file_is_found_or_its_error_has_the_remedy():
    assert asset("__init__.py").is_file()
    with pytest.raises(MissingAsset, match=r"alfworld/nowhere.json is not in .*pip install"):
        asset("alfworld/nowhere.json")
