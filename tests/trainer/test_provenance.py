"""Where a run comes from: versions and hashes, also of a run that was continued."""

from __future__ import annotations

import pytest

from agent_envs.panels import Panel
from trainer.run import provenance

TRAIN, TEST = Panel("train", ("a", "b"), "alfworld:games"), Panel("test", ("c",))


def test_panels_and_versions_are_kept(tmp_path):
    provenance.write(tmp_path, TRAIN, TEST)
    found = provenance.read_provenance(tmp_path)
    assert (found.training.count, found.training.source) == (2, "alfworld:games")
    assert found.training.hash == TRAIN.hash
    assert found.evaluation.hash == TEST.hash
    assert found.versions == [provenance.own_version()]
    assert {"torch", "numpy"} <= found.packages.keys()


def test_a_run_that_is_continued_lists_both_versions(tmp_path, monkeypatch):
    for version in ("0.1.0", "0.1.0", "0.2.0"):
        monkeypatch.setattr(provenance, "own_version", lambda version=version: version)
        provenance.write(tmp_path, TRAIN, TEST)
    assert provenance.read_provenance(tmp_path).versions == ["0.1.0", "0.2.0"]


def test_a_run_of_before_has_none(tmp_path):
    assert provenance.read_provenance(tmp_path) is None


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"training": 3, "evaluation": 3}'])
def test_damage_is_named(damage, tmp_path):
    (tmp_path / provenance.FILE).write_text(damage)
    with pytest.raises(ValueError, match=r"provenance\.json is damaged"):
        provenance.read_provenance(tmp_path)
