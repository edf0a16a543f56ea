"""The doctor's findings, the estimate of memory, and errors that name what had too little of it."""

import pytest
from typer.testing import CliRunner

from agent_envs.cli.app import app
from agent_envs_lab import memory
from agent_envs_lab.doctor import examine
from tests.trainer.conftest import short
from trainer import recipe
from trainer.model.policy import Policy
from trainer.model.weights import LoRA


def found(tiny_folder, *options):
    return {what: (state, said) for state, what, said in examine(short(tiny_folder, *options))}


def test_a_sound_recipe(corridor, tiny_folder):
    findings = found(tiny_folder)
    assert list(findings) == [
        "environment", "model", "memory", "precision", "rollouts", "signal", "log-probabilities",
        "costs",
    ]  # fmt: skip
    assert {state for state, _ in findings.values()} == {"ok"}
    assert "training tasks" in findings["environment"][1]
    assert "6 steps" in findings["costs"][1]


@pytest.mark.parametrize(
    ("option", "largest", "remedy"),
    [
        ("update.tokens=1000000000", "activations", "lower update.tokens"),
        ("sampling.rows=1000000000", "keys and values", "lower sampling.rows"),
    ],
)
def test_what_cannot_fit_is_said_by_part(corridor, tiny_folder, option, largest, remedy):
    state, said = found(tiny_folder, option)["memory"]
    assert state == "error"
    assert largest in said.split(": ")[1].split(" GiB")[0]  # the largest comes first
    assert remedy in said


def test_a_model_that_is_too_large_is_not_mended_by_fewer_tokens():
    parts = {"weights": 3.0, "gradients": 4.0, "activations": 1.0}
    assert "policy.lora.rank=16" in memory.suggest_remedy(parts)
    assert "update.tokens" not in memory.suggest_remedy(parts)


@pytest.mark.parametrize(
    ("options", "what", "message"),
    [
        (["env.options={nothing=1}"], "environment", "nothing"),
        (["policy.model=/nowhere"], "model", "no model folder"),
        (["engine.name=vllm", "engine.urls=['http://127.0.0.1:9']"], "engine", "vllm serve"),
        (["sampling.max_tokens=30"], "rollouts", "no room for a reply"),
    ],
)
def test_the_first_part_that_fails_is_the_last_finding(
    corridor, tiny_folder, options, what, message
):
    findings = found(tiny_folder, *options)
    state, said = findings[what]
    assert state == "error"
    assert message in said
    assert list(findings)[-1] == what


def test_a_batch_without_signal_is_a_warning(corridor, tiny_folder):
    """Free replies of a random policy never act."""
    state, said = found(tiny_folder, "sampling.decode=free", "sft.steps=0")["signal"]
    assert state == "warning"
    assert "success 0%" in said
    assert "raise sampling.max_reply_tokens" in said


def test_before_a_warm_start_it_is_none_and_says_what_to_do(corridor, tiny_folder):
    state, said = found(tiny_folder, "sampling.decode=free")["signal"]
    assert state == "ok"
    assert "As it is before the warm start (sft.steps): replies are cut" in said
    assert "raise sampling.max_reply_tokens" in said


@pytest.mark.parametrize(("name", "warns"), [("gigpo", True), ("grpo", False)])
def test_a_world_whose_anchor_is_the_history_is_a_warning(
    corridor, tiny_folder, monkeypatch, name, warns
):
    monkeypatch.setattr("agent_envs.AgentEnv.revisits", False)
    findings = found(tiny_folder, f"credit.name={name}", "sampling.tasks=1")
    assert ("anchors" in findings) == warns
    if warns:
        assert "credit.name='gigpo' compares turns in equal states" in findings["anchors"][1]


def test_the_command_exits_with_1_if_something_cannot_work(corridor, tiny_folder, tmp_path):
    own = tmp_path / "own.toml"
    recipe.save(short(tiny_folder), own)
    assert CliRunner().invoke(app, ["doctor", str(own)]).exit_code == 0
    result = CliRunner().invoke(app, ["doctor", str(own), "sampling.max_tokens=30"])
    assert result.exit_code == 1
    assert "no room for a reply" in " ".join(result.output.split())


def test_weights_gradients_and_moments_are_counted(tiny_folder):
    policy = Policy.load(str(tiny_folder))
    trained = sum(p.numel() for p in policy.parameters())
    parts = memory.estimate_memory(policy, short(tiny_folder), reference=True)
    assert parts["weights"] == parts["gradients"] == parts["reference"] == 4 * trained
    assert parts["moments of AdamW"] == 8 * trained
    light = memory.estimate_memory(
        Policy.load(str(tiny_folder), lora=LoRA(rank=2)), short(tiny_folder), reference=False
    )
    assert light["moments of AdamW"] < parts["moments of AdamW"] / 5
    assert "reference" not in light


def test_activations_grow_with_the_tokens_and_shrink_by_checkpointing(tiny_folder):
    plain = Policy.load(str(tiny_folder))
    saving = Policy.load(str(tiny_folder), gradient_checkpointing=True)
    one, more = (
        memory.estimate_memory(
            plain, short(tiny_folder, f"update.tokens={tokens}"), reference=False
        )
        for tokens in (1000, 4000)
    )
    assert more["activations"] == 4 * one["activations"] > 0
    less = memory.estimate_memory(saving, short(tiny_folder, "update.tokens=1000"), reference=False)
    assert less["activations"] < one["activations"] / 2
