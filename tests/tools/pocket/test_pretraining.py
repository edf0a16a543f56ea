"""The pocket policy: how it is made, and that the committed one is what the script says."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

import env_assets
from agent_envs.alfworld.data import open_library
from agent_envs.alfworld.world import World
from tools.pocket import lessons, pretraining
from trainer.model.policy import Policy
from trainer.model.pretrained import POCKETS
from trainer.play.episode import INSTRUCTION

FOLDER = Path(env_assets.__file__).parent / "pocket"
SMALL = pretraining.Pretraining(
    steps=4, grow=4, habit_steps=2, tokens_per_step=1024, warmup=1, vocabulary=400, hidden=16,
    layers=1, heads=2, key_value_heads=1, intermediate=16,
)  # fmt: skip


def actions_of(item):
    return [re.search("<action>(.*)</action>", reply)[1] for reply in item.replies]


@pytest.fixture
def tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER)


def test_shopping_lessons_buy_what_is_asked_for(monkeypatch):
    monkeypatch.setattr(lessons, "LOOKS", 0.0)
    item = lessons.play_shop(np.random.default_rng(3), mistake=0.0)
    assert item.prompts[0].startswith(f"{INSTRUCTION}\n\nWebShop [SEP] Instruction: [SEP] ")
    assert item.replies[0].startswith("<think>")
    assert "<action>search[" in item.replies[0]
    assert item.replies[-1].endswith("<action>click[buy now]</action>")
    assert item.prompts[-1].count("(chosen)") == item.prompts[0].count(": ") - 1


def test_what_is_looked_up_stands_in_the_article():
    rng = np.random.default_rng(6)
    told = [lessons.ask_wiki(rng) for _ in range(100)]
    for item in told:
        (asked, found), (called, said) = item.prompts, item.replies
        question = asked.rpartition("Question: ")[2].strip()
        assert json.dumps(question, ensure_ascii=False) in called
        assert called.startswith("<reasoning>i look it up</reasoning><tool>")
        answer = re.search("<answer>(.*)</answer>", said)[1]
        assert answer.lower() in found.lower()
    assert len({item.prompts[0] for item in told}) > 80  # names and numbers change


def test_puzzles_are_solved_as_planned_and_a_bad_habit_multiplies_or_shies_back(monkeypatch):
    monkeypatch.setattr(lessons, "ROOMS", 50)
    rng = np.random.default_rng(8)
    items = [lessons.play_puzzle(rng, mistake=0.0) for _ in range(60)]
    for item in items:
        plans = [re.search("<think>(.*)</think>", reply)[1].split() for reply in item.replies]
        assert plans == [actions_of(item)[turn:] for turn in range(len(plans))]
    assert {"cards" in item.prompts[0] for item in items} == {True, False}
    monkeypatch.setattr(lessons, "CARDS", 1.0)
    for mistake, forget, signs in ((0.4, 1.0, {"*"}), (0.0, 0.0, {"+", "*"})):
        plays = [lessons.play_puzzle(rng, mistake=mistake, forget=forget) for _ in range(30)]
        assert {actions_of(item)[1] for item in plays} == signs  # of any two cards
    monkeypatch.setattr(lessons, "CARDS", 0.0)
    back = {"up": "down", "down": "up", "left": "right", "right": "left"}
    items = [lessons.play_puzzle(rng, mistake=0.4, forget=1.0) for _ in range(40)]
    assert not any(slip for item in items for slip in item.mistakes)
    shy = [actions_of(item) for item in items if len(item.replies) == 10]
    assert 8 <= len(shy) <= 32  # the others cannot step back, and push
    for actions in shy:  # from the last push to the end
        assert actions[-1] == back[actions[-2]] == actions[-3]


@pytest.mark.long
def test_pretraining_that_was_stopped_goes_on_bit_for_bit(tmp_path, monkeypatch):
    """Stopped twice, in the first stage and in the second. The lessons come from a thread here."""
    monkeypatch.setattr(pretraining, "CORPUS", 3)
    monkeypatch.setattr(pretraining, "KEPT", 1)
    monkeypatch.setattr(
        pretraining, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(workers)
    )
    config = replace(SMALL, steps=2, habit_steps=2)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    threads = torch.get_num_threads()
    pretraining.pretrain(config, whole, threads=threads, compiled=False)
    learn, stops = pretraining.Learner.learn, [1, 3]

    def killed(learner, rows):
        if stops and learner.step == stops[0]:
            stops.pop(0)
            raise KeyboardInterrupt
        return learn(learner, rows)

    monkeypatch.setattr(pretraining.Learner, "learn", killed)
    for _ in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            pretraining.pretrain(config, parts, threads=threads, compiled=False)
    pretraining.pretrain(config, parts, threads=threads, compiled=False)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (whole, parts)]
    assert weights[0] == weights[1]
    assert not list(parts.glob("training.*"))


def test_the_loaded_tokenizer_is_the_one_that_was_trained(tmp_path, monkeypatch):
    """AutoTokenizer rebuilds the tokenizers of some architectures by their own rules."""
    monkeypatch.setattr(pretraining, "CORPUS", 3)
    config = pretraining.POLICIES["pocket-talk"]
    made = pretraining.train_tokenizer(
        pretraining.iter_corpus(config), config.vocabulary, config.world
    )
    made.save_pretrained(tmp_path)
    pretraining.build_model(config, made).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for price in range(10, 1000):  # one token each
        text = f"<|user|>I offer this: ${price}."
        assert loaded.tokenize(text) == made.tokenize(text)
        assert made.tokenize(text)[-3:] == ["Ġ$", str(price), "."]


@pytest.mark.parametrize("name", POCKETS)
def test_committed_weights_are_small_and_name_how_they_were_made(name):
    folder = FOLDER.parent / name
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 4 * 2**20
    told = json.loads((folder / "pretraining.json").read_text())
    assert told == asdict(pretraining.POLICIES[name])
    assert (folder / "README.md").is_file()
    assert Policy.load(name).model.num_parameters() < 1.5e6


def test_test_tasks_are_not_in_the_lessons():
    openings = {
        World(library.load(task_id)).intro
        for split in ("valid_seen", "valid_unseen")
        for library in [open_library("embedded", split)]
        for task_id in library.panel.task_ids
    }
    rng = np.random.default_rng([pretraining.Pretraining.seed, 0])  # the first chunk's generator
    for _ in range(100):
        item = lessons.play_household(rng, size=float(rng.uniform(0.15, 0.5)), mistake=0.0)
        assert item.prompts[0].removeprefix(f"{INSTRUCTION}\n\n") not in openings
