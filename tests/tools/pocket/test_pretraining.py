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
from agent_envs.replies import FORM
from agent_envs.search_qa.wiki import WikiSearch
from tools.pocket import exercises, lessons, pretraining
from trainer.model.policy import Policy
from trainer.model.pretrained import POCKETS

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
    assert item.prompts[0].startswith(f"{FORM.instruction}\n\nWebShop [SEP] Instruction: [SEP] ")
    assert item.replies[0].startswith("<think>")
    assert "<action>search[" in item.replies[0]
    assert item.replies[-1].endswith("<action>click[buy now]</action>")
    assert item.prompts[-1].count("(chosen)") == 2


@pytest.mark.long
def test_most_shopping_lessons_are_a_list_or_a_product_and_say_what_was_read():
    rng = np.random.default_rng(5)
    told = [lessons.play_shop(rng, mistake=0.0) for _ in range(40)]
    looks = [item for item in told if len(item.replies) == 1]
    assert 24 <= len(looks) < 40
    read = [item.replies[0] for item in looks if " told " in item.replies[0]]
    assert 8 <= len(read) < len(looks)
    ids = {
        re.search(r"b\d{6}", item.prompts[-1])[0] for item in looks if "Page 1" in item.prompts[0]
    }
    assert len(ids) > 5


def found_names(item, names):
    """Which names a lesson's question has."""
    asked = item.prompts[0].rpartition("Question: ")[2].partition(" Answer with ")[0]
    return names.intersection(re.findall(r"\w+", asked.lower()))


def test_what_is_looked_up_stands_in_the_article():
    rng = np.random.default_rng(6)
    told = [lessons.ask_wiki(rng) for _ in range(100)]
    for item in told:
        (asked, found), (called, said) = item.prompts, item.replies
        call = json.loads(re.search("<tool>(.*)</tool>", called)[1])
        assert call["args"]["query"].strip() in asked
        assert called.startswith("<reasoning>i look it up</reasoning><tool>")
        answer = re.search("<answer>(.*)</answer>", said)[1]
        assert answer == "unknown" or answer.lower() in found.lower()
    assert len({item.prompts[0] for item in told}) > 80  # names and numbers change
    held = [WikiSearch(split=split, hops=1).world for split in ("val", "test")]
    names = {word for world in held for word in world.named if word.isalpha()}
    hasty = [lessons.ask_wiki(rng, forget=1.0) for _ in range(40)]
    asked = [[found_names(item, names) for item in items] for items in (told, hasty)]
    assert sum(map(bool, asked[0])) < 10  # made-up names, which are some other thing's by chance
    assert not any(asked[1])


def test_a_bargain_is_struck_at_the_least_price_that_was_told():
    rng = np.random.default_rng(7)
    told = [lessons.strike_bargain(rng) for _ in range(50)]
    for item in told:
        (shown, said), (asked, offered) = item.prompts, map(json.loads, actions_of(item))
        price = offered["offer"]["price"]
        assert asked == {"ask": "price"}
        assert f"<think>{price}</think>" in item.replies[1]
        assert f"${price}" in said
        assert price < int(re.search(r"is worth \$(\d+)", shown)[1]) < 1000
    assert len({item.prompts[0] for item in told}) > 45  # prices change
    habits = [actions_of(lessons.strike_bargain(rng, forget=1.0))[-1] for _ in range(20)]
    assert set(habits) == {'{"accept": true}'}


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


def test_a_model_with_heads_that_copy_does_so_from_birth(tokenizer):
    """Tokens without meaning, some of them hundreds of places back; without the heads: guesses."""
    rng = np.random.default_rng(9)
    ids, weights = pretraining.pad_rows(pretraining.draw_copies(rng, len(tokenizer), 256, 16))
    right = []
    for copies in (True, False):
        config = replace(pretraining.POLICIES["pocket-wiki"], copies=copies)
        with torch.no_grad():
            said = pretraining.build_model(config, tokenizer)(input_ids=ids).logits.argmax(-1)
        right.append(float((said[:, :-1] == ids[:, 1:])[weights[:, 1:] > 0].float().mean()))
    assert right[0] > 0.4
    assert right[1] < 0.02


def test_what_to_do_in_an_exercise_stands_in_what_was_read():
    rng, seen = np.random.default_rng(2), {}
    for number in range(900):
        item = exercises.draw_exercise(rng)
        read = ""
        for prompt, action in zip(item.prompts, actions_of(item), strict=True):
            read += f" {prompt}".lower()
            for word in action.lower().split():
                assert re.search(rf"(?<!\w){word}(?!\w)", read), (number, prompt, action)
        seen[item.replies[-1]] = item
    assert len(seen) > 850  # nothing to know by heart


def test_exercises_have_one_answer():
    """A stranger who reads by the rules alone finds the same thing."""
    for seed in range(200):
        writer = exercises.Writer(np.random.default_rng(seed))
        exercises.suit_wishes(writer)
        (told, action, _), *_ = writer.turns[-1:]
        shown = writer.turns[0][0].partition(": ")[2].partition(".")[0]
        things = [one.split() for one in re.split(", | / ", shown.splitlines()[0])]
        wishes = [
            one.lower().split()
            for text, *_ in writer.turns
            for one in re.split(r"[.;\n]+ ?", text)
            if len(one.split()) == 2 and ":" not in one
        ]
        chosen = action.removeprefix(f"{writer.verb} ").split()
        for thing in things:
            unmet = [value for _, value in wishes if (value in thing) != (value in chosen)]
            assert thing == chosen or unmet, (seed, told, action)


@pytest.mark.parametrize("copies", [False, True])
def test_the_loaded_tokenizer_is_the_one_that_was_trained(tmp_path, monkeypatch, copies):
    """AutoTokenizer rebuilds the tokenizers of some architectures by their own rules."""
    monkeypatch.setattr(pretraining, "CORPUS", 3)
    config = replace(pretraining.POLICIES["pocket-talk"], copies=copies)
    made = pretraining.train_tokenizer(
        pretraining.iter_corpus(config), config.vocabulary, config.world
    )
    made.save_pretrained(tmp_path)
    pretraining.build_model(config, made).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for price in range(10, 1000):  # one token each
        text = f"<|user|>I need ${price}."
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
        assert item.prompts[0].removeprefix(f"{FORM.instruction}\n\n") not in openings
