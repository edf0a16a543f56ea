"""A real pre-trained model on the public games: warm start, two steps, and what they leave.

`.ci/smollm2` fetches the weights and runs this file; elsewhere it runs where they are.
"""

import io
from itertools import pairwise

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from trainer import recipe, train
from trainer.learn.batch import collate
from trainer.learn.rows import make_rows
from trainer.learn.update import recompute_logprobs, token_logprobs
from trainer.model.policy import Policy
from trainer.model.pretrained import resolve
from trainer.play import episode_files as episodes
from trainer.run import metrics, session

from .conftest import conversations

pytestmark = pytest.mark.smollm2

OPTIONS = [
    "policy.model=smollm2-135m", "policy.lora.rank=16", "policy.dtype=float32",
    "policy.gradient_checkpointing=false", "policy.device=cpu", "run.threads=1", "run.steps=2",
    "sft.steps=2", "sft.episodes=2", "sft.learning_rate=1e-3", "sft.warmup=0", "sampling.tasks=2",
    "sampling.rollouts=2", "sampling.max_reply_tokens=32",
    "sampling.max_tokens=512",  # the explorer plays on; what is past this is not trained on
    "sampling.decode=admissible", "env.options.progress=distance",
    "credit.name=has",  # progress gives credit where nobody succeeds
    "credit.options.normalize=group", "update.learning_rate=1e-3",
    "update.skip_dead_groups=false", "eval.split=valid_seen", "eval.tasks=1", "eval.every=0",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(alfworld_data, tmp_path_factory):
    """The run's folder, and the policy that it trained."""
    try:
        resolve("smollm2-135m")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("smollm2")
    chosen = recipe.load(
        "alfworld has", ["credit.name=grpo", *OPTIONS, f"env.data={alfworld_data}"]
    )
    policies = []
    with pytest.MonkeyPatch.context() as patch:
        load = session.load_policy
        patch.setattr(session, "load_policy", lambda m: policies.append(load(m)) or policies[0])
        train.train(chosen, folder, console=Console(file=io.StringIO()))
    return folder, policies[0]


def lines(folder, stage):
    return [line for line in metrics.read_log(folder / "metrics.jsonl") if line["stage"] == stage]


def adapter(folder, step):
    return load_file(folder / "checkpoints" / f"step_{step}" / "adapter_model.safetensors")


def gap(policy, folder, step):
    """Largest distance of a policy's log-probabilities from those recorded at sampling."""
    batch = collate(make_rows(episodes.read_episodes(folder / "episodes" / f"step_{step}.parquet")))
    with torch.no_grad():
        logprobs = token_logprobs(policy, batch)
    return (logprobs - batch.logprobs).abs().max().item()


def test_public_games_were_conversations(trained):
    for step in (3, 4):
        played = episodes.read_episodes(trained[0] / "episodes" / f"step_{step}.parquet")
        assert [episode.task_id.split("/")[0] for episode in played] == ["alfworld"] * 4
        turns = [turn for episode in played for turn in episode.steps]
        assert len(turns) >= 8
        assert all(turn.valid for turn in turns)  # decoding is constrained


def test_recomputed_logprobs_are_the_sampled_ones(trained):
    gaps = [line["logprob_gap"] for line in lines(trained[0], "rl")]
    assert len(gaps) == 2
    assert 0 < max(gaps) < 1e-4


def test_every_step_moves_the_adapters_and_none_the_weights_under_them(trained):
    folder, policy = trained
    states = [adapter(folder, step) for step in (2, 3, 4)]
    for before, after in pairwise(states):
        moved = [name for name, value in before.items() if not torch.equal(value, after[name])]
        assert len(moved) == len(before) == 2 * 7 * 30  # A and B of 7 projections in 30 layers
    under = policy.model.get_base_model().state_dict()
    stored = load_file(f"{resolve('smollm2-135m')}/model.safetensors")
    assert len(stored) == 272
    for name, value in stored.items():
        projection = name.replace("_proj.weight", "_proj.base_layer.weight")
        assert torch.equal(under[projection], value)


def test_a_checkpoint_is_the_policy_that_was_saved(trained):
    """The one before a step gives what that step sampled; the last is the policy at the end."""
    folder, policy = trained
    before, last = (Policy.load(str(folder / "checkpoints" / f"step_{n}")) for n in (3, 4))
    assert gap(before, folder, 4) < 1e-4 < gap(last, folder, 4)
    assert gap(last, folder, 4) == gap(policy, folder, 4)


def test_sampler_and_update_agree_in_bfloat16():
    """Rounded logits and residuals made it 0.044 on average and 0.49 at most."""
    try:
        policy = Policy.load("smollm2-135m", dtype="bfloat16")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    rows = make_rows(conversations(policy, episodes=4, size=2, reply=24))
    recorded = np.concatenate([row.logprobs for row in rows])
    gap = np.abs(recompute_logprobs(policy, rows, tokens=4096) - recorded)
    assert len(gap) > 100
    assert gap.mean() < 0.03
    assert gap.max() < 0.25
