"""What the tests of the trainer share: tiny models, short runs, rollouts without a model."""

from __future__ import annotations

import importlib.util
import io
import json
import multiprocessing
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.numpy import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2VLImageProcessorPil,
)

from agent_envs.search_qa.world import open_world
from tests.agent_envs.chat_server import ChatServer, completion
from trainer import recipe
from trainer.build import make_sampler
from trainer.engine import UNBEGUN, Decoding, Prompt, Reply
from trainer.engine.own import Gather, OwnEngine
from trainer.learn.learner import Learner, Optimizer
from trainer.model.policy import Policy
from trainer.play.records import Episode, Step, Task
from trainer.run import metrics
from trainer.train import train

from .vllms import Standin

TEXT = (
    "You are in the middle of a room. Looking quickly around you, you see a desk 1, a bed 1.\n"
    "Your task is to: put some mug on desk. <think></think><action>go to desk 1</action>\n"
    "Nothing happens. <think>I need a mug.</think><action>take mug 1 from bed 1</action>"
)
CHATML = (  # Qwen2.5, SmolLM2: a default system prompt, a newline after the end of a turn
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe useful.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (  # the content is trimmed, a date that would change by the day
    "{{ '<|begin|>' }}{% for m in messages %}<|head|>{{ m['role'] }}<|/head|>\n\n"
    "{{ m['content'] | trim }}<|eot|>{% endfor %}"
    "{% if not date_string is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}"
    "{% if add_generation_prompt %}<|head|>assistant<|/head|>\n\n{% endif %}"
)
STRIPPING = (  # Qwen3: earlier thinking is dropped from the replies
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and not loop.last and '</think>' in m['content'] %}"
    "{{ m['content'].split('</think>')[-1] }}{% else %}{{ m['content'] }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {"chatml": CHATML, "llama3": LLAMA3, "stripping": STRIPPING}
ENDS = {"chatml": "<|im_end|>", "llama3": "<|eot|>", "stripping": "<|im_end|>"}

ACTIONS = ["look", "go to desk 1", "go to bed 1"]
SHORT = [
    "env.id=Corridor-v0", "env.max_turns=4", "env.data=auto", "sft.steps=6", "sft.episodes=3",
    "sft.learning_rate=3e-4", "run.steps=6", "run.save_every=2", "run.threads=1",
    "run.episodes_every=2", "sampling.tasks=4", "sampling.rollouts=4",
    "sampling.max_reply_tokens=40", "sampling.max_tokens=2000", "sampling.decode=admissible",
    "update.learning_rate=3e-4", "update.kl=k3", "update.kl_coefficient=0.02",
    "update.kl_target=0.01", "eval.tasks=3", "eval.every=3",
]  # fmt: skip
COLD = [one for one in SHORT if not one.startswith("sft.")]
"""A short run; with `decode=admissible` a random policy succeeds now and then."""
CRITIC = "credit.model=critic credit.models.critic.learning_rate=1e-3"
PRM = "credit.models.prm.learning_rate=1e-3"
_METHODS = {
    "critic": CRITIC,
    "critic of its own": f"{CRITIC} credit.models.critic.trunk=own update.minibatch=4",
    "ppo": f"credit.name=reinforce {CRITIC} credit.models.critic.epochs=2",
    "istar": f"credit.name=istar {PRM} credit.models.prm.minibatch=4 update.ratio=turn",
    "istar of tokens": f"credit.name=istar {PRM} credit.models.prm.level=token",
    "stapo": "credit.name=stapo credit.options={lam=0.5} update.minibatch=8",
    "has": "credit.name=has credit.model=turnrd credit.models.turnrd.round=1 "
    "credit.models.turnrd.epochs=2 credit.models.turnrd.hidden=8",
    "dpo": "credit.name=dpo",
    "dapo": "credit.name=stapo_dynamic sampling.redraws=2 update.clip_high=0.28",
    "prime": f"credit.name=prime {PRM} credit.models.prm.level=token",
}
METHODS = {name: options.split() for name, options in _METHODS.items()}
"""Options of a short run, by method."""
TINY = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 2048, "initializer_range": 0.3,
    "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": 2,
}  # fmt: skip
"""A model of two layers with grouped heads, and weights large enough that logits differ."""


def tiny_tokenizer(shape: str = "chatml") -> PreTrainedTokenizerFast:
    """A byte-level BPE of a few hundred tokens, so that texts have several tokenisations."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = ["<|pad|>", "<|im_start|>", "<|im_end|>", "<|begin|>", "<|head|>", "<|/head|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=[*special, "<|eot|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([TEXT], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=ENDS[shape],
        pad_token="<|pad|>",  # noqa: S106 - a token, not a secret
        chat_template=TEMPLATES[shape],
    )


def tiny_model(vocabulary: int, seed: int = 0, **changed: Any) -> Qwen2ForCausalLM:
    """Qwen2.5 made tiny."""
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=vocabulary, **(TINY | changed))).eval()


def tiny(seed: int = 0, **options: Any) -> Policy:
    """A policy of the tiny model."""
    tokenizer = tiny_tokenizer()
    return Policy(tiny_model(len(tokenizer), seed), tokenizer, **options)


def tiny_qwen(vocabulary: int, **changed: Any) -> Qwen2ForCausalLM:
    """Qwen2.5 with few layers; its heads are as wide as vLLM's kernels need them."""
    sizes = {"hidden_size": 128, "intermediate_size": 96, "num_attention_heads": 2}
    sizes |= {"num_key_value_heads": 1, "initializer_range": 0.2}
    return tiny_model(vocabulary, **(sizes | changed))


def tiny_llama(vocabulary: int) -> LlamaForCausalLM:
    """Llama-3.1 made tiny: grouped heads, scaled rotary positions, untied embeddings."""
    torch.manual_seed(0)
    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 512}
    changed = {"intermediate_size": 56, "num_key_value_heads": 1, "eos_token_id": 6}
    changed |= {"rope_parameters": rope, "tie_word_embeddings": False}
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **(TINY | changed))).eval()


def tiny_eyes(tokenizer: PreTrainedTokenizerFast) -> Qwen2_5_VLForConditionalGeneration:
    """Qwen2.5-VL made tiny; `tokenizer` gets its marks of images."""
    marks = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    start, end, image, video = tokenizer.convert_tokens_to_ids(marks)
    torch.manual_seed(0)
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [1, 1, 2]}
    text = TINY | {"vocab_size": len(tokenizer), "rope_parameters": rope, "pad_token_id": 0}
    eyes = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2,
        "out_hidden_size": 32, "window_size": 56, "fullatt_block_indexes": [1],
    }  # fmt: skip
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=eyes,
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )
    return Qwen2_5_VLForConditionalGeneration(config).eval()


def short(model, *options):
    base = COLD if "sft.steps=0" in options else SHORT
    return recipe.load("alfworld mgr pocket", [*base, f"policy.model={model}", *options])


def quiet():
    return Console(file=io.StringIO(), width=200)


def figures(folder):
    """The log without its clocks."""
    lines = metrics.read_log(folder / "metrics.jsonl")
    return [{k: v for k, v in x.items() if not k.endswith(metrics.CLOCKS)} for x in lines]


def weights(folder, step):
    return load_file(folder / "checkpoints" / f"step_{step}" / "model.safetensors")


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return one == other


def own_sampler(loaded, policy, temperature=1.0):
    return make_sampler(loaded, OwnEngine(policy), policy, temperature)


def sample(batch, rows, new_ids, rng, admissible=None):
    """Replies of a batch of the own engine, with seeds from a generator."""
    seeds = rng.integers(2**31, size=len(rows)).tolist()
    actions = admissible or [()] * len(rows)
    prompts = [Prompt(ids, (), a) for ids, a in zip(new_ids, actions, strict=True)]
    return batch.reply(rows, prompts, seeds)


def rollouts(policy, *, episodes=4, size=2, turns=3, context="history", reply=6, **options):
    """Episodes sampled from the policy, of unequal lengths."""
    decoding, rng = Decoding(max_reply_tokens=reply, **options), np.random.default_rng(0)
    engine = OwnEngine(policy)
    played = [Episode("t", "g", i // size, 0, context, []) for i in range(episodes)]
    session = engine.batch(episodes, decoding)
    prompts = [list(policy.chat.opening("room " * (i + 1))) for i in range(episodes)]
    constrained = [ACTIONS] * episodes if decoding.decode == "admissible" else None
    for turn in range(turns):
        session = session if context == "history" else engine.batch(episodes, decoding)
        replies = sample(session, range(episodes), prompts, rng, constrained)
        for i, said in enumerate(replies):
            step = Step("", said.text, "", prompts[i], said.ids, said.logprobs, said.entropies)
            step.allowed = said.allowed
            played[i].steps.append(step)
            text = "ok " * (turn + i + 1)
            after = context == "history"
            prompts[i] = policy.chat.after(said.ids, text) if after else policy.chat.opening(text)
            prompts[i] = list(prompts[i])
    return played


def learner(policy, tmp_path, **options):
    return Learner(policy, Optimizer(**({"learning_rate": 1e-2} | options)), folder=tmp_path)


def gradient(policy, rows, update, tmp_path, **options):
    """The gradient of one update: what a step of plain descent at rate 1 would subtract."""
    taught = learner(policy, tmp_path, grad_norm=1e9, **options)
    seen = []
    taught.optimizer.step = lambda: seen.append(
        [torch.zeros(1) if p.grad is None else p.grad.clone() for p in policy.parameters()]
    )
    update(taught, rows, rng=np.random.default_rng(0))
    return seen[0]


def conversations(policy, *, episodes=12, size=4, turns=3, reply=12):
    """The same in larger groups; outcomes and checks by what was said."""
    played = rollouts(policy, episodes=episodes, size=size, turns=turns, reply=reply)
    for episode in played:
        for step in episode.steps:
            step.valid = sum(step.reply_ids) % 3 > 0
            step.invalid_reason = "" if step.valid else "refused"
            episode.outcome = float(sum(step.reply_ids) % 2)
    return played


class Letters:
    """A chat whose tokens are characters; 0 ends a reply, 1 stands between messages."""

    vision = None

    @property
    def chat(self):
        """It is the policy too."""
        return self

    def opening(self, text):
        return tuple(map(ord, text))

    def after(self, reply_ids, text):
        return [1, *map(ord, text)]

    def reply(self, text):
        return (*map(ord, text), 0)

    def text(self, reply_ids):
        return "".join(map(chr, reply_ids[:-1]))


@dataclass
class Script:
    """A sampler that replies by what it reads last; it notes who was asked."""

    answer: object
    temperature: float = 1.0
    max_reply_tokens: int = 50
    decode: str = "free"
    limit: int = 10_000
    asked: list = field(default_factory=list)
    prompts: list = field(default_factory=list)
    offered: list = field(default_factory=list)
    sessions: int = 0
    vision = None

    @property
    def decoding(self):
        return Decoding(self.temperature, self.max_reply_tokens, self.decode)

    @property
    def policy(self):
        return self

    @property
    def chat(self):
        return Letters()

    def open(self, seeds, *, fresh=False):
        self.sessions += 1
        self.fresh = fresh
        self.lengths = [0] * len(seeds)
        self.gather = Gather(range(len(seeds)), self.answered)
        return self

    def room(self, row):
        return self.limit - (0 if self.fresh else self.lengths[row])

    async def reply(self, row, prompt):
        assert prompt.begun == UNBEGUN
        return await self.gather.ask(row, prompt)

    def leave(self, row):
        self.gather.leave(row)

    def answered(self, asked):
        self.asked.append(list(asked))
        self.offered.append([prompt.admissible for prompt in asked.values()])
        return {row: self.answer_to(row, prompt.ids) for row, prompt in asked.items()}

    def answer_to(self, row, ids):
        text = "".join(map(chr, ids))
        self.prompts.append(text)
        reply = self.answer(text, row)
        tokens = [*map(ord, reply), 0]
        self.lengths[row] += len(ids) + len(tokens)
        return Reply(tokens, [-0.5] * len(tokens), [0.25] * len(tokens), reply)


def east(text, row):
    """The reply that takes a step in the corridor."""
    return "<think></think><action>east</action>"


def corridor_tasks(*lengths):
    """A task of the corridor for each length, each in a group of its own."""
    return [Task(f"corridor/{length}", group, 7) for group, length in enumerate(lengths)]


@pytest.fixture(scope="session")
def vision_folder(tmp_path_factory):
    """A folder of a tiny vision-language model."""
    folder = tmp_path_factory.mktemp("vision")
    tokenizer = tiny_tokenizer()
    tiny_eyes(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=112 * 112).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def tiny_policy() -> Policy:
    """A fresh tiny policy, fully trained."""
    return tiny()


@pytest.fixture
def standin(policy):
    """A stand-in for a server of vLLM, with the policy of the test."""
    made = Standin(policy)
    yield made
    made.close()


def write_parts(folder: Path) -> None:
    """The files of a user's own that the documentation shows."""
    for name, page, holds in (
        ("drawers.py", "environments.md", "class Drawers"),
        ("mine.py", "recipes.md", "class OutcomeAndValidity"),
        ("mine.toml", "recipes.md", "drawers:Drawers"),
    ):
        text = (Path(__file__).parents[2] / "docs" / page).read_text()
        blocks = re.findall(r"^```(?:python|toml)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        (found,) = [block for block in blocks if holds in block]
        (folder / name).write_text(found)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A folder as a hub or a path would hold it: weights, tokenizer, chat template."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = tiny_tokenizer()
    tiny_model(len(tokenizer), max_position_embeddings=4096).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory):
    """The same with the architecture and the chat template of Llama-3.1."""
    folder = tmp_path_factory.mktemp("llama")
    tokenizer = tiny_tokenizer("llama3")
    tiny_llama(len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)  # `short` plays it
def corridor():
    """The module beside this file, imported, with its environment registered as Corridor-v0."""
    if "corridor" in sys.modules:  # for another folder of tests
        return sys.modules["corridor"]
    path = Path(__file__).with_name("corridor.py")
    spec = importlib.util.spec_from_file_location("corridor", path)
    sys.modules["corridor"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.register()
    return module


@pytest.fixture(scope="session")
def whole(corridor, tiny_folder, tmp_path_factory):
    """A run that nothing interrupted, with its report."""
    folder = tmp_path_factory.mktemp("whole")
    train(short(tiny_folder), folder, console=quiet())
    return folder


@pytest.fixture
def reported():
    """Runs leave a report."""


@pytest.fixture(autouse=True)
def _unreported(request, monkeypatch):
    """Runs of a test without `reported` leave no report: it takes as long as they do."""
    if "reported" not in request.fixturenames:
        monkeypatch.setattr("trainer.train.report", SimpleNamespace(write=lambda folder: None))


@pytest.fixture(scope="session")
def forked():
    """Runs code in a process of its own, forked from a server that has torch loaded.

    The process has `said`, the file of what it printed.
    """
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(
        ["trainer.train", "trainer.run.report", "transformers.models.qwen2.modeling_qwen2"]
    )

    def start(code, where, **names):
        said = where / "said.txt"
        process = server.Process(
            target=exec, args=(SAYING + code, {"said": str(said)} | names), daemon=True
        )
        process.said = said
        process.start()
        return process

    return start


RUN = """
sys.path.insert(0, here)
os.environ.update(world)
words = ["train", "alfworld", "mgr", "pocket", *options]
sys.argv = ["agent-envs", *words, "--resume", "--out", folder]
import corridor
corridor.register()
import trainer.run.report
trainer.run.report.write = lambda folder: None
from agent_envs.cli import main
exec(before)
main()
"""


@pytest.fixture
def start_training(forked, tiny_folder, tmp_path_factory):
    """Starts `agent-envs train` on the corridor in a process of its own, after other code."""

    def start(folder, *options, before="", world=()):
        return forked(
            RUN,
            tmp_path_factory.mktemp("said"),
            here=str(Path(__file__).parent),
            folder=str(folder),
            options=[*SHORT, f"policy.model={tiny_folder}", *options],
            before=before,
            world=dict(world),
        )

    return start


def finish(*processes):
    """Wait for processes to end well."""
    for process in processes:
        process.join(120)
        assert process.exitcode == 0, process.said.read_text()


def count_lines(folder):
    """Lines in the log of a run that may have just begun."""
    path = folder / "metrics.jsonl"
    return path.read_text().count("\n") if path.is_file() else 0


SAYING = """
import os, sys

output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.dup2(output, 1), os.dup2(output, 2)
os.environ["TQDM_DISABLE"] = "1"
"""


@pytest.fixture
def endpoint(monkeypatch):
    """A server of chat completions that labels the turns of a trajectory as a judge does."""

    def label(handler):
        turns = handler.body["messages"][0]["content"].split("Turn ")[1:]
        labels = [0.0 if "(refused)" in turn else 1.0 for turn in turns]
        handler.say(completion(json.dumps(labels)))

    monkeypatch.setattr("agent_envs.net.web.BACKOFF", 0.01)
    with ChatServer(label) as server:
        yield server


@pytest.fixture(scope="session")
def public_questions(tmp_path_factory):
    """A folder of questions in the public form, from the generated worlds."""
    folder = tmp_path_factory.mktemp("questions")
    for split in ("train", "test"):
        open_world(split).export(folder / split, questions=300)
    for name in ("qa.jsonl", "corpus.jsonl"):
        parts = [(folder / split / name).read_text() for split in ("train", "test")]
        (folder / name).write_text("".join(parts))
    return folder


@pytest.fixture(scope="session")
def public_products(tmp_path_factory):
    """A folder of 300 products in the public form, with nine goals each."""
    folder = tmp_path_factory.mktemp("products")
    values = {name: [{"value": value} for value in "abc"] for name in ("color", "size")}
    texts = dict.fromkeys(("full_description", "product_category", "category", "query"), "shoe")
    common = texts | {"name": "Shoe", "pricing": "$9", "customization_options": values}
    names = [f"B{number:09}" for number in range(300)]
    asked = {"attributes": ["light"], "instruction": "a shoe", "instruction_attributes": ["light"]}
    records = [common | {"asin": name} for name in names]
    (folder / "items_shuffle.json").write_text(json.dumps(records))
    (folder / "items_ins_v2.json").write_text(json.dumps(dict.fromkeys(names, asked)))
    return folder


@pytest.fixture
def public_data(public_questions, public_products, monkeypatch):
    """What the papers' settings of search and of the shop play."""
    monkeypatch.setenv("SEARCH_QA_DATA", str(public_questions))
    monkeypatch.setenv("WEBSHOP_DATA", str(public_products))


@pytest.fixture(autouse=True)
def set_public_data(public_data):
    """Every test has it, but where vLLM starts in this process: see `test_vllm`."""
