"""Recipes that are fitted to a machine."""

import pytest
import torch

from trainer import recipe as recipes
from trainer.cli import load_recipe
from trainer.model.pretrained import open_model
from trainer.run import needs
from trainer.run.needs import Shape, estimate_needs, fit_recipe


@pytest.fixture
def fit(monkeypatch, tiny_folder):
    """Fits AlfWorld's MGR with a tiny model to a machine of so many GiB: options and reasons."""

    def make(gib, *options, gpu):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
        monkeypatch.setattr(needs, "find_memory", lambda: gib / 0.9)

        def load(chosen):
            return recipes.load("alfworld mgr", chosen)

        given = [f"policy.model={tiny_folder}", *options]
        made, told = fit_recipe(load, given)
        return recipes.changes(load(given), made), told, made

    return make


def test_a_machine_with_room_changes_nothing(fit):
    assert fit(80, gpu=True)[:2] == ({}, [])


def test_a_gpu_without_room_trains_an_adapter_on_smaller_batches(fit, tiny_folder):
    shape = Shape.read(open_model(str(tiny_folder)).config)
    whole = fit(80, gpu=True)[2]
    size = estimate_needs(whole, shape).memory
    changed, told, made = fit(size / 3, gpu=True)
    assert made.policy.lora.rank == 16
    assert changed.keys() <= {
        *("policy.lora.rank", "policy.lora.alpha", "update.learning_rate"),
        *("update.tokens", "sampling.rows"),
    }
    assert estimate_needs(made, shape).memory <= size / 3
    assert {key for line in told for key in changed if f"{key}=" in line} == changed.keys()
    kept = fit(size / 3, "policy.lora.rank=0", "sampling.rows=64", gpu=True)[2]
    assert (kept.policy.lora.rank, kept.sampling.rows) == (0, 64)


def test_without_a_gpu_a_run_is_short_and_options_are_kept(fit):
    changed, _, made = fit(16, "sampling.tasks=6", "run.steps=3", gpu=False)
    assert (made.sampling.tasks, made.run.steps) == (6, 3)
    assert (made.policy.dtype, made.sampling.decode, made.policy.lora.rank) == (
        "float32",
        "auto",
        16,
    )
    assert not {"sampling.tasks", "run.steps"} & changed.keys()
    assert fit(16, gpu=False)[2].run.steps <= 20


def test_a_shipped_recipe_is_fitted_to_a_folder_alone(monkeypatch, tiny_folder, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    own, file = f"policy.model={tiny_folder}", tmp_path / "own.toml"
    file.write_text('environment = "alfworld"\nmethod = "mgr"\n')
    said = []
    made, _ = load_recipe(["alfworld", "mgr", own], said.append)
    assert (made.policy.lora.rank, len(said)) == (16, 3)
    assert all(line.startswith("fitted to this machine: ") for line in said)
    for words in (
        ["alfworld", "mgr", "pocket", own],
        [str(file), own],
        ["alfworld", "mgr", "policy.model=Qwen/Qwen2.5-7B-Instruct"],
    ):
        said.clear()
        assert load_recipe(words, said.append)[0] == load_recipe(words)[0]
        assert not said


def test_the_shape_of_a_model_is_its_number_of_weights(tiny_folder, llama_folder):
    from transformers import AutoModelForCausalLM

    for folder in (tiny_folder, llama_folder):
        model = AutoModelForCausalLM.from_pretrained(folder)
        counted = sum(weight.numel() for weight in model.parameters() if weight.ndim > 1)
        assert Shape.read(model.config).weights == counted
