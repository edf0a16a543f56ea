from __future__ import annotations

import pytest

from agent_envs import BadAsset, MissingAsset
from agent_envs.assets import asset


def test_a_shipped_file_is_found():
    assert asset("__init__.py").is_file()


@pytest.mark.parametrize("path", ["nowhere.json", "alfworld/nowhere.json"])
def test_one_that_is_not_there_names_itself_and_what_to_run(path):
    with pytest.raises(MissingAsset, match=rf"{path} is not in .*pip install"):
        asset(path)


def test_the_errors_are_what_callers_already_catch():
    assert issubclass(MissingAsset, FileNotFoundError)
    assert issubclass(BadAsset, ValueError)
