"""TRL's GRPOTrainer plays our environments and trains on turn-level credit."""

import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import credit
from agent_envs_adapters.episodes import Episodes
from credit.rows import token_advantages

from .solving import check_releases

# The recorded penalty is for GiGPO; other methods warn that they do not read it.
pytestmark = pytest.mark.filterwarnings("ignore:.*turns were paid beside them")
ROOT = Path(__file__).parents[2]
THERE = importlib.util.find_spec("trl") is not None
WITH_TRL = [
    pytest.mark.trl,
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # of TRL and its libraries
    pytest.mark.skipif(not THERE, reason="needs TRL in an environment of its own; see .ci/trl"),
]
METHODS = ("mgr", "gigpo", "has", "stapo", "empg")


def trl(test):
    """A test that needs TRL."""
    for mark in WITH_TRL:
        test = mark(test)
    return test


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def make(tmp_path):
    """Makes a trainer of the pocket policy on AlfWorld, 2 tasks x 4 rollouts of 4 turns a step."""
    from trl import GRPOConfig

    from agent_envs_adapters.trl import CreditGRPOTrainer, Rollout, dataset
    from trainer.model.pretrained import resolve

    def made(*, model=None, episodes=None, rollout=None, config=None, **options):
        source = episodes or Episodes("AlfWorld-v0", data="embedded", max_turns=4)
        given = {
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "per_device_train_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 1024,
            "max_steps": 2,
            "learning_rate": 1e-4,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
        }
        return CreditGRPOTrainer(
            model or resolve("pocket"),
            args=GRPOConfig(str(tmp_path / "out"), **(given | (config or {}))),
            train_dataset=dataset(source, 4, seed=1),
            rollout_func=rollout or Rollout(source, max_reply_tokens=32),
            **options,
        )

    return made


def scored(trainer, count=8):
    """TRL's inputs for the first groups of the data set, and what it makes of them."""
    size = trainer.num_generations
    inputs = [dict(trainer.train_dataset[row // size]) for row in range(count)]
    trainer.model.train()
    return inputs, trainer._generate_and_score_completions(inputs)


@pytest.mark.parametrize("method", METHODS)
def test_a_process_finds_its_part_of_the_advantages(recorded, method):
    made, mask = credit.make(method), recorded.mask()

    def found(rows, kind=np.asarray):
        rng = np.random.default_rng(3)
        return token_advantages(
            made, recorded.records, recorded.uid, kind(mask[rows]), first=rows.start, rng=rng
        )

    whole = found(slice(0, 12))
    assert max(len(np.unique(row)) for row in whole) > 2  # turns differ
    assert not whole[mask == 0].any()
    parts = [found(slice(start, start + 3)) for start in (0, 3, 6, 9)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    tensor = found(slice(0, 12), torch.from_numpy)
    assert tensor.dtype == torch.float32
    np.testing.assert_allclose(tensor, whole, atol=1e-6)


@trl
@pytest.mark.parametrize("method", ["mgr", "empg"])  # of turns, and with numbers of tokens
def test_two_steps_of_training(make, method):
    from trainer.model.pretrained import resolve

    trainer = make(
        model=resolve("pocket-puzzles"),
        episodes=Episodes("EZPoints-v0", goal=False, observation="text", reward="success"),
        config={"per_device_train_batch_size": 16, "num_generations": 8, "temperature": 1.5},
        credit=method,
    )
    before = [p.detach().clone() for p in trainer.model.parameters()]
    seen = []
    score = trainer._generate_and_score_completions

    def kept(inputs):
        seen.append(score(inputs))
        return seen[-1]

    trainer._generate_and_score_completions = kept
    trainer.train()
    assert trainer.state.global_step == 2
    assert any(
        not torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True)
    )
    assert {"success", "valid_turns", "turns"} <= trainer.state.log_history[0].keys()
    for out in seen:
        mask = out["completion_mask"] * out["tool_mask"]
        assert out["advantages"].shape == mask.shape
        assert not out["advantages"][mask == 0].any()
        assert torch.isfinite(out["advantages"]).all()
    assert max(len(row.unique()) for out in seen for row in out["advantages"]) > 2


@trl
def test_advantages_are_those_of_the_recorded_turns(make):
    trainer = make(credit="mgr", credit_options={"beta": 0.3})
    inputs, out = scored(trainer)
    records = [row["records"] for row in inputs]
    turns = credit.rows_of(records, [row // 4 for row in range(8)]).turns
    rng = np.random.default_rng([trainer.args.seed, 0, 0])
    expected = iter(credit.make("mgr", beta=0.3)(turns, rng))
    for row, episode in enumerate(records):
        for turn in episode:
            tokens = out["advantages"][row, slice(*turn.span)]
            assert tokens.tolist() == pytest.approx([next(expected)] * len(tokens), abs=1e-6)


@trl
def test_a_completion_is_the_conversation_as_it_was_sampled(make):
    trainer = make(config={"top_k": 1})  # greedy
    inputs, out = scored(trainer, 4)
    chat, episodes = trainer.rollout_func._chat, trainer.rollout_func.episodes
    for row, given in enumerate(inputs):
        episode = episodes.start(**json.loads(given["prompt"]))
        prompt = out["prompt_ids"][row][out["prompt_mask"][row] == 1].tolist()
        assert prompt == list(chat.opening(episode.message))
        length = int(out["completion_mask"][row].sum())
        ids = out["completion_ids"][row, :length].tolist()
        mask = out["tool_mask"][row, :length].tolist()
        at = 0
        for turn in given["records"]:
            start, end = turn.span
            if start:  # what is between two replies, with the mark of the reply's end if it was cut
                assert ids[at:start] == chat.after(ids[:at], episode.message)
                assert not any(mask[at:start])
            assert all(mask[start:end])
            episode.step(chat.text(ids[start:end]))
            assert episode.records[-1].action == turn.action
            at = end
        assert at == length  # the last message is read by nobody
        # Each sampled token is the likeliest one after the tokens before it, so that the model was
        # asked with the tokens that it is trained on.
        logits = trainer.model(torch.tensor([prompt + ids])).logits[0].argmax(-1)
        guessed = logits[len(prompt) - 1 : -1].tolist()
        pairs = [(a, b) for a, b, reply in zip(ids, guessed, mask, strict=True) if reply]
        assert (
            np.mean([a == b for a, b in pairs]) > 0.99
        )  # sums round, and two may be equally likely


@trl
def test_logprobs_of_an_engine_are_at_the_tokens_of_replies(make, monkeypatch):
    trainer = make()
    plain = type(trainer)._generate_single_turn

    def as_vllm(self, prompts, *more):
        ids, _ = plain(self, prompts, *more)
        return ids, [[-float(token + 1) for token in reply] for reply in ids]

    monkeypatch.setattr(type(trainer), "_generate_single_turn", as_vllm)
    _, out = scored(trainer)
    replies = (out["completion_mask"] * out["tool_mask"]).bool()
    found = out["sampling_per_token_logps"]
    torch.testing.assert_close(found[replies], -(out["completion_ids"][replies] + 1.0))
    assert not found[~replies].any()


@trl
def test_an_episode_without_room_ends_as_truncated(make):
    trainer = make(config={"max_completion_length": 70})
    inputs, out = scored(trainer)
    assert out["completion_ids"].shape[1] <= 70
    for given in inputs:
        assert given["records"][-1].success is False
        assert given["records"][-1].outcome == 0.0
        assert len(given["records"]) < 4


@trl
def test_evaluation_plays_the_held_out_tasks(make):
    from agent_envs_adapters.trl import Rollout, dataset

    train = Episodes("AlfWorld-v0", data="embedded", max_turns=3)
    held_out = Episodes("AlfWorld-v0", data="embedded", max_turns=2, split="valid_unseen")
    trainer = make(
        episodes=train,
        rollout=Rollout(train, max_reply_tokens=32, held_out=held_out),
        config={"num_generations_eval": 1, "per_device_eval_batch_size": 4},
        eval_dataset=dataset(held_out, 4),
    )
    found = trainer.evaluate()
    assert 1 <= found["eval_turns"] <= 2


SCRIPTED = """
import sys

import numpy as np
import torch
from trl import GRPOConfig

from agent_envs import expert
from agent_envs_adapters.episodes import Episodes
from agent_envs_adapters.trl import CreditGRPOTrainer, Rollout, dataset
from trainer.model.pretrained import resolve

folder, processes = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
episodes = Episodes("EZPoints-v0", max_turns=8, observation="text", reward="success")


class Scripted(Rollout):
    # Replies by the number of the completion among those of all processes: experts, and others.
    def __call__(self, prompts, trainer):
        self.numbers, self.first = {}, trainer.accelerator.process_index * len(prompts)
        return super().__call__(prompts, trainer)

    def _turn(self, playing, spare, rows, trainer):
        for place, one in enumerate(playing):
            number = self.numbers.setdefault(id(one), self.first + place)
            rng = np.random.default_rng([number, len(one.spans)])
            if number % 3 == 0 and not one.spans:
                one.expert = expert(one.episode.env)
            action = one.expert.act() if number % 3 == 0 else str(rng.integers(10))
            one.take(list(one.chat.reply(f"<think></think><action>{action}</action>")), None)


args = GRPOConfig(
    folder, use_cpu=True, bf16=False, gradient_checkpointing=False, max_steps=2,
    per_device_train_batch_size=8 // processes, num_generations=4, max_completion_length=1024,
    learning_rate=1e-4, loss_type="grpo", save_strategy="no", report_to="none", disable_tqdm=True,
)
trainer = CreditGRPOTrainer(
    resolve("pocket-puzzles"), args=args, train_dataset=dataset(episodes, 4, seed=1),
    rollout_func=Scripted(episodes, max_reply_tokens=32), credit="mgr",
)
kept = []
score = trainer._generate_and_score_completions


def keeping(inputs):
    out = score(inputs)
    kept.append(out["advantages"].clone())
    return out


trainer._generate_and_score_completions = keeping
trainer.train()
weights = trainer.accelerator.unwrap_model(trainer.model).state_dict()
number = trainer.accelerator.process_index
torch.save((kept, weights), f"{folder}/{number}.pt")

# Replies that are sampled: process 0 plays one episode, and calls TRL as often as the others.
calls = []
turn = Rollout._turn
Rollout._turn = lambda self, *given: (calls.append(len(given[0])), turn(self, *given))
prompts = [row["prompt"] for row in dataset(episodes, 4)][: 1 + 2 * number]
played = Rollout(episodes, max_reply_tokens=32)(prompts, trainer)
assert [len(one) for one in played.values() if one] == [len(prompts)] * 4
everyone = [len(calls)] if processes == 1 else trainer.accelerator.gather(
    torch.tensor([len(calls)])
).tolist()
assert len(set(everyone)) == 1, everyone
trainer.accelerator.end_training()  # a group that is still open may abort the exit
"""


def parts_of(folder, processes):
    """Advantages and weights of each process after training with scripted replies."""
    folder.mkdir()
    (folder / "scripted.py").write_text(SCRIPTED)
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    child = subprocess.run(
        [sys.executable, *launch, str(folder / "scripted.py"), str(folder), str(processes)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    return [torch.load(folder / f"{number}.pt") for number in range(processes)]


@trl
def test_two_processes_give_the_same_advantages_and_weights_as_one(tmp_path):
    with ThreadPoolExecutor(2) as threads:  # most of it is spent on imports
        ((alone, weights),), ((first, one), (second, two)) = threads.map(
            parts_of, (tmp_path / "one", tmp_path / "two"), (1, 2)
        )
    for step, whole in enumerate(alone):
        assert whole.unique().numel() > 4
        parts = [first[step], second[step]]
        padded = [
            torch.nn.functional.pad(part, (0, whole.shape[1] - part.shape[1])) for part in parts
        ]
        torch.testing.assert_close(torch.cat(padded), whole)
    for name, value in weights.items():
        torch.testing.assert_close(one[name], two[name])
        torch.testing.assert_close(value, one[name], atol=1e-5, rtol=0)


def change_rollout(make, **changed):
    """A trainer whose rollout returns other columns."""
    trainer = make()
    play = trainer.rollout_func

    def rollout(prompts, one):
        out = play(prompts, one)
        return out | {name: change(out) for name, change in changed.items()}

    trainer.rollout_func = rollout
    return trainer


def play_prompt(make, prompt, env="AlfWorld-v0", reply=32):
    """Play one prompt."""
    from agent_envs_adapters.trl import Rollout

    Rollout(Episodes(env), max_reply_tokens=reply)([prompt], make())


def with_ends(make, ends):
    """A trainer that stops generation at other tokens."""
    trainer = make()
    trainer.eos_token_ids = ends
    return trainer


def of_context(context):
    """A rollout with this context."""
    from agent_envs_adapters.trl import Rollout

    return Rollout(Episodes("AlfWorld-v0", data="embedded", context=context))


FIRST = '{"task": 0, "seed": 0}'


@trl
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda make: make(credit="mgrr"), r"unknown credit method 'mgrr'.*mgr"),
        (lambda make: make(credit=credit.MGR(), credit_options={"beta": 1}),
         "credit_options belong to a method by name"),
        (lambda make: make(config={"mask_truncated_completions": True}),
         "mask_truncated_completions=True would drop"),
        (lambda make: of_context("turn"), "completion of TRL is one sequence; use Episodes"),
        # what the method reads and the environment does not report
        (lambda make: scored(make(credit="prime"), 4), "a turn_reward named 'implicit'"),
        # prompts
        (lambda make: play_prompt(make, "Hello"), "the prompt 'Hello' is no task of an env"),
        (lambda make: play_prompt(make, FIRST, "VisualSokoban-v0"), "shows images, and this ada"),
        (lambda make: play_prompt(make, FIRST, reply=2000), "leaves no room for a reply: the mod"),
        # a rollout of one's own
        (lambda make: scored(change_rollout(make, records=lambda out: [[]] * 4), 4),
         "the rollout_func must return the TurnRecords of each"),
        (
            lambda make: scored(
                change_rollout(
                    make, env_mask=lambda out: [[0, *mask[:-1]] for mask in out["env_mask"]]
                ),
                4,
            ),
            "spans and mask must cover the same tokens",
        ),
        (lambda make: scored(with_ends(make, [5]), 4),
         r"which does not stop generation; add its id to model\.gen"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make, call, says):
    with pytest.raises(ValueError, match=says):
        call(make)


@trl
def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "integrations" / "trl.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert blocks
    for number, block in enumerate(blocks):
        (tmp_path / f"block{number}.py").write_text(block)
        runpy.run_path(str(tmp_path / f"block{number}.py"))


@trl
def test_the_example_trains_evaluates_and_continues(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "examples" / "trl_quickstart.py").read_text()
    sizes = "STEPS, TASKS, ROLLOUTS, ROWS = 20, 16, 8, 32"
    assert sizes in text
    text = text.replace("max_turns=15", "max_turns=3").replace(
        "threads=1", 'threads=1", "eval.tasks=4'
    )
    for steps in (2, 3):
        part = text.replace(sizes, f"STEPS, TASKS, ROLLOUTS, ROWS = {steps}, 2, 4, 8")
        (tmp_path / "example.py").write_text(part)
        runpy.run_path(str(tmp_path / "example.py"))
        (tmp_path / "runs" / "trl-quickstart" / "end.json").unlink()
    assert "newly solved" in capsys.readouterr().out
    assert (tmp_path / "runs" / "trl-quickstart" / "checkpoint-3").is_dir()


@trl
def test_an_untested_release_is_told_and_a_wrong_one_refused():
    check_releases(
        "trl",
        "trl",
        "from trl import GRPOTrainer; GRPOTrainer._generate_single_turn = lambda self: 0",
    )
