"""Runs that are set up wrongly are told why they do not learn: the cause, in the run itself."""

import json

import pytest

from trainer.run.metrics import WARNINGS, read_log
from trainer.train import train

from .conftest import quiet, short

FREE = ("sampling.decode=free", "sampling.max_tokens=3000")
WARM = ("sft.steps=60", "sft.episodes=5", "sft.learning_rate=1e-2", "sft.warmup=5", *FREE)
"""A policy that has learned to walk and to write."""
COLD = ("sft.steps=0", "sampling.temperature=3.0")
PLANTED = {
    "replies are cut": ("sft.steps=0", "sampling.max_reply_tokens=4", "sampling.decode=free"),
    "replies do not have the form": ("sft.steps=0", *FREE, "sampling.max_reply_tokens=400"),
    "thoughts are longer than a reply": (
        *WARM, "sft.steps=100", "sft.expert=corridor:Thinker", "sampling.max_reply_tokens=60",
        "env.max_turns=1",
    ),
    "episodes end before the task can": ("sampling.max_tokens=250", "env.max_turns=30"),
    "nearly deterministic from the start": ("sft.steps=0", "sampling.temperature=1e-5"),
    "most actions are not possible": (*COLD, "env.id=corridor:Refusing"),
    "the policy forgets what it could": (*WARM, "update.learning_rate=0.3", "run.steps=10"),
    "the reward does not pay success": (*COLD, "env.id=corridor:Paying"),
    "the tasks are solved": (*WARM, "env.max_turns=5"),
    "no task is ever solved": (*COLD, "env.id=corridor:Endless"),
    "the rollouts of a task end alike": (*COLD, "env.id=corridor:Settled"),
    "the updates change nothing": (*COLD, "update.learning_rate=1e-12", "run.steps=20"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("cause", PLANTED)
def test_a_run_names_what_was_planted(cause, corridor, tiny_folder, tmp_path):
    options = ["env.id=corridor:Corridor", "run.steps=5", "eval.every=0", "update.kl=none"]
    options += ["update.kl_coefficient=0.0", "update.kl_target=0.0", *PLANTED[cause]]
    train(short(tiny_folder, *options), tmp_path, console=quiet())
    path = tmp_path / WARNINGS
    told = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    assert cause in told[-1].partition(":")[0], told


ODD = {
    "Crowded": (),  # 500 listed actions
    "Wordy": ("sft.expert=corridor:Steady", "sampling.max_tokens=4096"),  # of 60 words each
    "Lonely": (),  # one task
}


@pytest.mark.parametrize("world", ODD)
def test_an_odd_world_is_learned_from_its_demonstrations(world, corridor, tiny_folder, tmp_path):
    options = [f"env.id=corridor:{world}", "env.max_turns=5", "run.steps=1", *ODD[world]]
    options += ["sft.steps=30", "sft.episodes=5", "sft.learning_rate=1e-2", "sft.warmup=5"]
    train(short(tiny_folder, *options), tmp_path, console=quiet())
    success = [
        line["eval_success"]
        for line in read_log(tmp_path / "metrics.jsonl")
        if "eval_success" in line
    ]
    assert success[0] < success[-1] == 1, success
