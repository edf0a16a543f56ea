"""Calls of the command line in this process, and a run that it made."""

import sys

import pytest

from agent_envs import cli

TRAIN = ("train", "alfworld", "mgr", "pocket")
SHORT = [
    "env.id=Corridor-v0", "env.max_turns=3", "sft.steps=2", "sft.episodes=2", "run.steps=1",
    "run.threads=1", "sampling.tasks=2", "sampling.rollouts=2", "sampling.max_reply_tokens=8",
    "sampling.max_tokens=2000", "eval.tasks=3",
]  # fmt: skip


@pytest.fixture(scope="session")
def short():
    """Options that make a run of the quickstart last seconds, on the corridor."""
    return SHORT


@pytest.fixture(scope="session")
def trained(corridor, tiny_folder, tmp_path_factory):
    """A run folder made by the command line, and what the command printed."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    with pytest.MonkeyPatch.context() as patch:
        model = f"policy.model={tiny_folder}"
        call = ["agent-envs", *TRAIN, *SHORT, model, "--out", str(folder)]
        patch.setattr(sys, "argv", call)
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    assert not stopped.value.code
    return folder
