"""Where a run comes from: versions and hashes, also of a run that was continued."""

from __future__ import annotations

from agent_envs.panels import Panel
from trainer.run.run_folder import RunFolder, write_provenance

TRAIN, TEST = Panel("train", ("a", "b"), "alfworld:games"), Panel("test", ("c",))


def test_panels_packages_and_all_versions_are_kept(tmp_path, monkeypatch):
    for version in ("0.1.0", "0.1.0", "0.2.0"):
        monkeypatch.setattr("agent_envs.__version__", version)
        write_provenance(tmp_path, TRAIN, TEST)
    found = RunFolder(tmp_path).read_provenance()
    assert found.versions == ["0.1.0", "0.2.0"]
    assert (found.training.count, found.training.source) == (2, "alfworld:games")
    assert (found.training.hash, found.evaluation.hash) == (TRAIN.hash, TEST.hash)
    assert {"torch", "numpy"} <= found.packages.keys()
