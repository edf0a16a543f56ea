"""What messages of recipes, models, runs and measurements advise is done here."""

from __future__ import annotations

import errno
import io
import math
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import warnings
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.numpy import load_file, save_file

from agent_envs import Panel, evaluation
from agent_envs.machine import find_shortage
from agent_envs.sokoban.env import Sokoban
from agent_envs.workers import Workers
from agent_envs_adapters.episodes import Episodes
from agent_envs_lab import doctor
from tests.agent_envs.chat_server import ChatServer, completion
from tests.remedies import command, follow
from trainer import recipe
from trainer.build import check_apart
from trainer.cli import READ, load_played, load_recipe, make_out_option
from trainer.engine.own import OwnEngine
from trainer.errors import Problems
from trainer.learn import learner
from trainer.model import pretrained
from trainer.model.policy import Policy
from trainer.model.weights import LoRA
from trainer.play import prompted
from trainer.play.episode_files import read_episodes
from trainer.run.checkpoint import Checkpoints
from trainer.run.session import Session
from trainer.scale import sharding
from trainer.train import Loop, train

from .conftest import CHATML, COLD, tiny_model, tiny_tokenizer

ROOM = (
    f"pocket policy.model={{model}} {shlex.join(COLD)} sft.steps=0 run.steps=2 run.save_every=1 "
    "update.skip_dead_groups=false sampling.tasks=2 sampling.rollouts=3 eval.tasks=2"
)
WALK = f"alfworld mgr {ROOM}"
POLE = f"{WALK} env.id=CartPole-v1 env.signals.success_reward=0.5 env.signals.text=builtins:repr"
POLE += " eval.split=test sampling.decode=free"
GRADED = "alfworld mt_grpo pocket eval.tasks=3"
PRIME = "alfworld prime pocket eval.tasks=3"
TALK = "sotopia grpo pocket eval.tasks=3"


def load(words):
    """The recipe of some words."""
    given = shlex.split(words)
    options = [word for word in given if "=" in word]
    return recipe.load(" ".join(word for word in given if "=" not in word), options)


def check(words):
    """All that is checked of a recipe before anything is trained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainer.run.session.load_policy", lambda _: None)
        Session(load(words), Path("nowhere"), None, Problems())


def run(words, folder=None, resume=False):
    """Train; what the console warns of is a warning."""
    console = Console(file=io.StringIO(), width=10_000)
    with TemporaryDirectory() as other:
        train(load(words), Path(folder or other), resume=resume, console=console)
    for line in console.file.getvalue().splitlines():
        if line.startswith("warning:"):
            warnings.warn(line, stacklevel=2)


MIXED = "mixture grpo pocket eval.tasks=3 env.mixture.guess.id=EZPoints-v0"  # not GEM's game
# Words of a recipe, and options to add, once for each alternative of the advice.
CHECKED = {
    "lower {}, or set it to 0 for all": (f"{WALK} env.games=9", "env.games=5", "env.games=0"),
    "set prompt.context=turn": (
        f"{MIXED} prompt.context=history env.mixture.boxes.past=1",
        "prompt.context=turn"),
    "leave out one, or change the other": (
        f"{WALK} prompt.template=agent_envs.alfworld.prompt:TEMPLATE", "prompt.context=turn",
        "prompt.template="),
    "set partner.model to the policy of the other side instead": (
        f"{TALK} env.options.partner=external",
        "env.options.partner=scripted partner.model={model}"),
    "set env.processes=0 and sampling.actors=0": (f"{TALK} partner.model=pocket env.processes=2",
        "env.processes=0 sampling.actors=0"),
    "change one of them, or set credit.model=none": (
        "alfworld grpo pocket credit.model=prm eval.tasks=3", "credit.name=istar",
        "credit.model=critic credit.name=reinforce", "credit.model=none"),
    "leave out credit.model, which would": (
        "alfworld stapo pocket eval.tasks=3 credit.model=none", 'credit.model=""'),
    "credit.options.variant; leave out one": (
        ("alfworld istar pocket eval.tasks=3 credit.models.prm.level=token "
         "credit.options.variant=merged"),
        "credit.models.prm.level=turn", "credit.options.variant=step"),
    'set the first to 0, or the second to ""': (
        "alfworld istar pocket eval.tasks=3 credit.models.prm.model=pocket",
        "credit.models.prm.play=0", 'credit.models.prm.model=""'),
    'name a model with the same vocabulary, or set it to ""': (
        f"{PRIME} credit.models.prm.model={{model}} credit.models.prm.play=0",
        "credit.models.prm.model=pocket", 'credit.models.prm.model=""'),
    "give your own as module:Name": (f"{WALK} credit.name=my_own", "credit.name=credit:GRPO"),
    "see credit.Estimator": (f"{WALK} credit.name=math:pi", "credit.name=credit:GRPO"),
    "set env.options.reward=success (AlfWorld:": ("sokoban mgr pocket eval.tasks=3",
        "env.options.reward=success"),
    "env.options.success_reward=1, SearchQA and": (
        "alfworld mgr pocket eval.tasks=3 env.options.success_reward=10",
        "env.options.success_reward=1"),
    "WikiSearch: env.options.reward=em)": (
        "search mgr policy.model={model} eval.tasks=3 env.options.reward=f1",
        "env.options.reward=em"),
    "set env.invalid_penalty=0 env.wrappers={}, there with": (
        "alfworld grpo pocket eval.tasks=3 env.invalid_penalty=-0.1",
        "env.invalid_penalty=0.0 env.wrappers={}"),
    "credit.options.row_penalty=0.1 for a penalty off the outcome of invalid turns, or": (
        "alfworld grpo pocket eval.tasks=3 env.invalid_penalty=-0.1",
        "env.invalid_penalty=0.0 env.wrappers={} credit.options.row_penalty=0.1"),
    "choose a method that reads rewards, e.g. credit.name=gigpo": (
        "alfworld grpo pocket eval.tasks=3 env.invalid_penalty=-0.1", "credit.name=gigpo"),
    "no row_penalty of credit.options; set env.invalid_penalty=-0.1": (
        "alfworld ppo pocket eval.tasks=3 credit.options.row_penalty=0.1",
        "credit.options.row_penalty=0.0 env.invalid_penalty=-0.1"),
    'set its span to "trajectory"': (
        "alfworld mgr pocket eval.tasks=3 credit.model=critic credit.models.critic.cut_off=value",
        "credit.models.critic.span=trajectory"),
    "leave it out, or set credit.model": ("alfworld mgr pocket credit.models.critic.lam=0.5",
        "credit.model=critic"),
    ", or choose another method": ("sokoban mgr pocket eval.tasks=3", "credit.name=grpo"),
    "give the folder `episodes` of a run": (f"alfworld dpo {ROOM} sampling.recorded={{run}}",
        "sampling.recorded={run}/episodes"),
    "give a folder with config.json, weights and tokenizer, a hub name ORG/NAME, or one of {}; "
    "`eval` plays a model of a server with --endpoint URL": (
        f"{WALK} policy.model=./nowhere", "policy.model={model}", "policy.model=pocket"),
}  # fmt: skip


def list_recipes(found, at):
    """A name that the advised command lists."""
    said = command("recipes")
    return {"words": f"{'alfworld' if 'alfworld' in said else ''} mgr"}


CHECKS = {
    advice: (check, {"words": words}, *({"words": f"{words} {more}"} for more in changes))
    for advice, (words, *changes) in CHECKED.items()
} | {
    "use the environment search or wiki, another method, or, for turn rewards, add a verifier": (
        check, GRADED,
        lambda found, at: {"words": f"{GRADED} {found.string[found.end() + 1 :]}"},
        {"words": "search mt_grpo pocket eval.tasks=3"},
        {"words": "wiki mt_grpo pocket eval.tasks=3"},
        {"words": "alfworld grpo pocket eval.tasks=3"}),
    "set engine.name=vllm and engine.urls, or sampling.actors=0": (check,
        f"{WALK} sampling.actors=2", "sampling.actors=0",
        {"words": f"{WALK} sampling.actors=2 engine.name=vllm engine.urls=\"['http://a:8000']\"",
        "but": "package ray"}),
    "reports its own signals; leave env.signals out": (check,
        f"{WALK} env.signals.success_reward=1", {"words": WALK}),
    "give the hooks of agent_envs.Signals as env.signals, at least env.signals.success_reward": (
        check, f"{WALK} env.id=CartPole-v1", {"words": f"{POLE} env.signals.reward=success"}),
    "set env.signals.reward=success": (check, POLE, "env.signals.reward=success"),
    "is ambiguous; use one of {}": (check, f"{WALK} steps=3",
        lambda found, at: {"words": f"{WALK} {found[1].split(', ')[0]}=3"}),
    "put the servers' key into ${}": (load,
        f"{WALK} engine.name=vllm engine.urls=\"['http://me:secret@a:8000']\"",
        {"words": f"{WALK} engine.name=vllm engine.urls=\"['http://a:8000']\"",
        "$VLLM_API_KEY": "x"}),
    "name one of {}, or give {}=module:Name of your own": (load,
        {"words": "{at}/mine.toml", "/mine.toml": "environment = 'alfworld'"},
        lambda found, at: {"words": f"{at}/mine.toml {found[1].split(', ')[0]}"},
        {"words": "{at}/mine.toml credit.name=credit:GRPO"}),
    "in the place of a word you may give your own, module:World, or credit.name=module:Name": (
        load, "alfworld credit", {"words": "alfworld credit.name=credit:GRPO"},
        {"words": "mgr corridor:Corridor"}),
    "`agent-envs recipes` lists all": (load, "alfword mgr", list_recipes),
    "set another eval.split, or other data for one of the two (env.data, eval.data)": (check_apart,
        {"training": Panel("train", ("a",), "x", {"a": "rain"}),
        "held_out": Panel("all", ("b",), "x", {"b": "rain"})},
        {"held_out": Panel("test", ("c",), "x", {"c": "sun"})},
        {"training": Panel("train", ("c",), "y", {"c": "sun"})}),
    "set one of them, or 'auto'": (lambda device: pretrained.load("pocket", device),
        {"device": "cuda:7"}, {"device": "cpu"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def trained(corridor, tiny_folder, tmp_path_factory):
    """A finished run of two steps."""
    folder = tmp_path_factory.mktemp("trained")
    run(WALK.replace("{model}", str(tiny_folder)), folder)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("advice", CHECKS)
def test_checks(advice, trained, tiny_folder, tmp_path, monkeypatch):
    follow(advice, CHECKS[advice], tmp_path, monkeypatch, model=tiny_folder, run=trained)


def saved(name):
    """The file of the run as it was."""
    return lambda at: (at / "saved" / name).read_text()


def restore(name):
    return lambda found, at: {f"/run/{name}": saved(name)(at)}


def remove(path):
    """Delete what the message names, or a path of the folder."""

    def change(found, at):
        shutil.rmtree(at / path)
        return {"spoil": None}

    return change


def resume(words, folder, spoil=None):
    """Continue a run, whose newest checkpoint may be spoiled before."""
    checkpoints = Checkpoints(Path(folder) / "checkpoints")
    if spoil:
        checkpoints.save(2, partial(spoil, Path(folder) / "checkpoints"))
    run(words, folder, resume=True)


def copy_checkpoint(one, part):
    shutil.copytree(one, part, dirs_exist_ok=True, ignore=shutil.ignore_patterns("manifest.json"))


def mix_up(checkpoints, part):
    """A checkpoint with the state of another step."""
    copy_checkpoint(checkpoints / "step_1", part)


def poison(checkpoints, part):
    """A checkpoint whose weights are not finite."""
    copy_checkpoint(checkpoints / "step_2", part)
    weights = load_file(part / "model.safetensors")
    save_file({name: one * np.nan for name, one in weights.items()}, part / "model.safetensors")


def read_new(at):
    """The lines that a resumed run wrote."""
    return (at / "run/metrics.jsonl").read_text()


DAMAGED = {f"/run/checkpoints/step_{n}/manifest.json": "{}" for n in range(3)}
MORE = f"{WALK} run.steps=3"
FEW = f"{ROOM} sampling.rollouts=2 sampling.tasks=1 run.steps=1 eval.tasks=1 env.max_turns=1"
BOXES = f"sokoban grpo {FEW} env.id=Sokoban-v0 env.options={{}} eval.split=test"
BOXES += " sampling.max_tokens=9000"
FREE = f"search grpo {FEW} env.id=SearchQA-v1 env.options={{}} eval.split=test"
MANY = f"{WALK} sampling.tasks=4 sampling.rollouts=4"
WILD = f"{MANY} run.save_every=9 update.minibatch=4 update.learning_rate=1e30"
RUNS = {
    "--resume continues it, --out DIR starts a new one": (run,
        {"words": WALK, "folder": "{at}/run"}, {"resume": True}, {"folder": "{at}/other"}),
    "resume it with the same recipe and options (see {}), or start a new run with --out DIR": (
        resume, {"words": f"{WALK} update.clip_low=0.1", "folder": "{at}/run"}, {"words": WALK},
        {"folder": "{at}/other"}),
    "restore config.toml and continue with --resume, or start a new run with --out DIR": (resume,
        {"words": WALK, "folder": "{at}/run", "/run/config.toml": None}, restore("config.toml"),
        {"folder": "{at}/other"}),
    "restore it, install the version that made it, or start a new run with --out DIR": (resume,
        {"words": WALK, "folder": "{at}/run",
        "/run/config.toml": lambda at: saved("config.toml")(at).replace("keep =", "kept =")},
        restore("config.toml"), {"folder": "{at}/other"}),
    "Delete the run folder, or train into another one with --out": (resume,
        {"words": WALK, "folder": "{at}/run", **DAMAGED}, {"folder": "{at}/other"}),
    "delete this folder to continue from the checkpoint before, or start a new run with --out": (
        resume, {"words": WALK, "folder": "{at}/run", "spoil": mix_up},
        remove("run/checkpoints/step_2"), {"folder": "{at}/other", "spoil": None}),
    "delete the run's newest checkpoint and continue from the one before with --resume": (resume,
        {"words": MORE, "folder": "{at}/run", "spoil": poison}, remove("run/checkpoints/step_2")),
    "restore the file, or delete the line": (resume, {"words": MORE, "folder": "{at}/run",
        "/run/metrics.jsonl": lambda at: "no line\n" + saved("metrics.jsonl")(at)},
        restore("metrics.jsonl")),
    "restore these lines to have them in the report": (resume,
        {"words": MORE, "folder": "{at}/run", "/run/metrics.jsonl": ""},
        lambda found, at: {"/run/metrics.jsonl": saved("metrics.jsonl")(at) + read_new(at)}),
    "continue from the last checkpoint with --resume and a lower learning_rate": (resume,
        {"words": WILD, "folder": "{at}/wild"}, "update.learning_rate=1e-5"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("advice", RUNS)
def test_runs(advice, trained, tiny_folder, tmp_path, monkeypatch):
    def prepare(at):
        for name in ("run", "saved"):
            shutil.copytree(trained, at / name)

    follow(advice, RUNS[advice], tmp_path, monkeypatch, prepare, model=tiny_folder)


def evaluate(words, lacks=""):
    """Call a command on a run, which lacks these parts."""
    for part in lacks.split():
        path = Path(words.split()[1]) / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    command(words)


def parse_out(given):
    """What `--out` of a command for a folder takes, if it is given."""
    if given:
        make_out_option("", folder=True).parser(given)


def stop(words, asked=True):
    """Train from the command line, and get a signal in the first step."""

    def take_step(loop):
        if asked:
            os.kill(os.getpid(), signal.SIGTERM)
        own(loop)

    own = Loop.take_step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "take_step", take_step)
        command(words)


def call_advised(number, **more):
    """Call the command in the message, then do the same again."""

    def change(found, at):
        command(re.findall(r"agent-envs ((?:train|eval) [^`;()]+)", found.string)[number].strip())
        return more

    return change


def examine(words, total=None):
    """The doctor's findings about a recipe, on a machine of so much memory."""
    with pytest.MonkeyPatch.context() as patch:
        if total:
            patch.setattr("agent_envs_lab.memory.read_total", lambda _: total)
        for state, _, said in doctor.examine(load(words)):
            if state != "ok":
                raise RuntimeError(said)


COMMANDS = {
    "continue it with `agent-envs train {} --resume`": (evaluate,
        {"words": "eval {at}/run", "lacks": "checkpoints"}, call_advised(0, lacks="")),
    "; continue with: agent-envs train {} --resume": (stop,
        {"words": f"train {WALK} --out {{at}}/new", "but": "--resume continues it"},
        call_advised(0, asked=False)),
    "no evaluation at {}; make one with `agent-envs eval RUN --out`": (
        lambda path: evaluation.load(Path(path)), {"path": "{at}/one.json"},
        lambda found, at: command(f"eval {at}/run --out {found[1]}") and None),
    "at its end: continue it with `agent-envs train {} --resume`": (evaluate,
        {"words": "compare {at}/run {at}/saved", "lacks": "checkpoints eval metrics.jsonl"},
        call_advised(0, lacks="")),
    "continue it with `agent-envs train {} --resume`, or compare an evaluation that it has": (
        evaluate, {"words": "compare {at}/run {at}/saved",
        "/run/config.toml": lambda at: saved("config.toml")(at).replace("steps = 2", "steps = 3")},
        call_advised(0), {"words": "compare {at}/run {at}/saved --step 2"}),
    "write it again with `agent-envs eval {} --out {}/eval/step_{}.json`": (evaluate,
        {"words": "compare {at}/run {at}/saved", "/run/eval/step_2.json": "{"},
        lambda found, at: call_advised(0)(found, at) or restore("eval/step_2.json")(found, at)),
    "compare another step, with --step": (evaluate,
        {"words": "compare {at}/run {at}/saved --step 0", "/run/eval/step_0.json": "{"},
        {"words": "compare {at}/run {at}/saved --step 2"}),
    "train with --out {}": (evaluate, "compare {at}/new {at}/saved",
        lambda found, at: command(f"train {at}/saved --out {found[1].split()[0]}") and None),
    "give the folder and options KEY=VALUE, or the parts of a recipe": (
        lambda words: load_recipe(words.split()), "{at}/run mgr", {"words": "{at}/run run.steps=3"},
        {"words": "alfworld mgr"}),
    "which has its own; leave it out": (load_played, {"run_or_model": "{at}/run",
        "recipe": "alfworld mgr", "options": (), "read": READ}, {"recipe": None}),
    "an evaluation does not read {}; leave it out": (load_played, {"run_or_model": "{at}/run",
        "recipe": None, "options": ["update.tokens=3"], "read": READ}, {"options": []}),
    "has its own adapters; leave {} out": (load_played, {"run_or_model": "{at}/run", "recipe": None,
        "options": ["policy.lora.rank=3"], "read": READ}, {"options": []}),
    "name a {}, or leave --out away": (parse_out, {"given": "{at}/run/config.toml"},
        {"given": "{at}/run"}, {"given": None}),
    "give another path": (parse_out, {"given": "/proc/none/here"}, {"given": "{at}/here"}),
    "holds no readable episodes of this version ({}); delete it": (
        lambda folder: [read_episodes(path) for path in Path(folder).glob("*.parquet")],
        {"folder": "{at}/run/episodes", "/run/episodes/step_1.parquet": "none"},
        {"/run/episodes/step_1.parquet": None}),
    "set policy.gradient_checkpointing=true or lower update.tokens": (examine,
        {"words": f"{MANY} update.tokens=4000000", "total": 1 << 32}, "update.tokens=1000",
        "policy.gradient_checkpointing=true"),
    "lower sampling.rows or sampling.max_tokens": (examine,
        {"words": f"{MANY} sampling.rows=20000", "total": 1 << 32}, "sampling.rows=2",
        "sampling.max_tokens=400"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("advice", COMMANDS)
def test_commands(advice, trained, tiny_folder, tmp_path, monkeypatch):
    def prepare(at):
        for name in ("run", "saved"):
            shutil.copytree(trained, at / name)

    follow(advice, COMMANDS[advice], tmp_path, monkeypatch, prepare, model=tiny_folder)


def make_policy(template=CHATML, added=0, resized=False, options=None):
    """A policy of a tokenizer with another template, or with more tokens."""
    tokenizer = tiny_tokenizer()
    model = tiny_model(len(tokenizer))
    tokenizer.chat_template = template
    tokenizer.add_tokens([f"word{n}" for n in range(added)])
    if resized:
        model.resize_token_embeddings(len(tokenizer))
    Policy(model, tokenizer, template=options or {})


def load_adapter(folder, rank, alpha=8, merged=False):
    """Load an adapter of rank 2 with these settings, or merged into its base with any."""
    made = Policy.load("pocket", lora=LoRA(rank=2, alpha=8))
    made.save(Path(folder))
    if merged:
        shutil.rmtree(folder)
        made.model.merge_and_unload().save_pretrained(folder)
        made.chat.tokenizer.save_pretrained(folder)
    Policy.load(folder, lora=LoRA(rank=int(rank), alpha=int(alpha)))


def play_on(anew):
    """Play on after the end of an episode, or in another one."""
    episodes = Episodes("Corridor-v0", max_turns=1)
    episode = episodes.start(seed=0)
    episode.step("<think></think><action>north</action>")
    (episodes.start(seed=0) if anew else episode).step("<think></think><action>north</action>")


def run_unpacked(words):
    """Train a model that does not keep packed rows apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Policy, "_keeps_rows_apart", lambda _: False)
        run(words)


def run_failing(words, tasks=()):
    """Train where the environment fails in some tasks."""
    own = (kind := import_module("corridor").Corridor).begin

    def begin(env, task_id):
        if task_id in tasks:
            raise ZeroDivisionError
        return own(env, task_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "begin", begin)
        run(words)


FULL = OSError(errno.ENOSPC, "No space left on device")


def train_short(words, rows=math.inf, tokens=math.inf, full=None, error=FULL):
    """Train on a machine with memory for so many conversations or tokens, or a full disk."""
    batch, collate, save = OwnEngine.batch, learner.collate, sharding.save

    def refuse_rows(engine, count, decoding):
        if count > rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return batch(engine, count, decoding)

    def refuse_tokens(given, *rest, **more):
        if sum(len(row.ids) for row in given) > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return collate(given, *rest, **more)

    def refuse_disk(state, path):
        if full and path.is_relative_to(full):
            raise error
        save(state, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnEngine, "batch", refuse_rows)
        patch.setattr(learner, "collate", refuse_tokens)
        patch.setattr(sharding, "save", refuse_disk)
        command(words)


def start_workers(processes, most=99, files=999):
    """Hold environments on a machine that allows so many processes, or open files."""
    left, start = [most], subprocess._fork_exec
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def refuse(*given):
        left[0] -= 1
        if left[0] < 0:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return start(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "_fork_exec", refuse)
        used = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
        limit = [number for number in range(9999) if number not in used][files]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
        try:
            for env in Workers(Sokoban, processes=processes).make_envs(4):
                env.close()
        except OSError as error:
            raise RuntimeError(find_shortage(error)) from error
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


def prompt(options="", out=None, spoil=False, made="alfworld mgr pocket"):
    """Evaluate a prompted model, whose server refuses from the second task on if it is spoiled."""

    def answer(handler):
        refused = spoil and len(handler.server.asked) > 2
        handler.say(
            *(({}, 401) if refused else (completion("<think></think><action>east</action>"),))
        )

    with pytest.MonkeyPatch.context() as patch, ChatServer(answer) as server:
        patch.setattr(prompted, "AT_ONCE", 1)
        words = [
            "env.id=Corridor-v0",
            "env.data=auto",
            "eval.split=train",
            "eval.tasks=3",
            *options.split(),
        ]
        player = prompted.load_player("some", server.url, "", made, words)
        prompted.evaluate_player(player, out and Path(out))


MINE = "environment = 'sotopia'\nmethod = 'grpo'\n"
TRAIN = "train {at}/run run.steps=3 --resume"
MODELS = {
    "save them there with model.save_pretrained and tokenizer.save_pretrained": (Policy.load,
        {"name": "{at}/model", "/model/tokenizer.json": None},
        lambda found, at: {"/model/tokenizer.json": tiny_tokenizer().backend_tokenizer.to_str()}),
    "Give a folder with config.json, weights and tokenizer, a hub name in reach, or one of {}": (
        Policy.load, {"name": "{at}/model", "/model/config.json": "{"}, {"name": "{model}"},
        lambda found, at: {"name": found[1].split(", ")[0]}),
    "call model.resize_token_embeddings(len(tokenizer)) and save both, or use the tokenizer": (
        make_policy, {"added": 40}, {"resized": True}, {"added": 0}),
    "use an instruct model of another family, or set tokenizer.chat_template and save it with": (
        make_policy, {"template": None}, {"template": CHATML}),
    "leave it out of policy.template": (make_policy, {"options": {"enable_thinking": False}},
        {"options": {}}),
    "to train it on, or merge it into its base (peft's merge_and_unload) for another or none": (
        load_adapter, {"folder": "{at}/adapter", "rank": 4},
        lambda found, at: dict(re.findall(r"policy\.lora\.(rank|alpha)=(\d+)", found.string)),
        {"merged": True}),
    "set update.packed=false": (run_unpacked, f"{WALK} update.packed=true", "update.packed=false"),
    "raise sampling.max_tokens": (run, f"{WALK} sampling.max_tokens=90", "sampling.max_tokens=900"),
    ", or lower sampling.max_reply_tokens": (run, f"{WALK} sampling.max_tokens=160",
        "sampling.max_reply_tokens=20"),
    "use a model of more positions": (run, f"{WALK} policy.model={{at}}/small", {"words": WALK}),
    "use a vision-language model, or a text observation of the environment": (run,
        f"{BOXES} env.id=VisualSokoban-v0", "policy.model={vision}", {"words": BOXES}),
    "List at least one in every state, or set sampling.decode=f": (run,
        f"{FREE} sampling.decode=admissible", "sampling.decode=free"),
    "raise env.max_turns or sft.episodes, or use another sft.expert": (run,
        f"{WALK} sft.steps=1 env.max_turns=1 sft.episodes=1 run.seed=1", "env.max_turns=6",
        "sft.episodes=9"),
    "Mend the environment or raise sampling.failures": (run_failing,
        {"words": f"{WALK} sampling.failures=0", "tasks": ["corridor/1"]}, {"tasks": []},
        {"words": f"{WALK} sampling.failures=0.9", "but": "failed in"}),
    "take a smaller model, lower what is held at the same time (update.tokens": (train_short,
        {"words": TRAIN, "tokens": 500}, "update.tokens=400"),
    "sampling.rows, sampling.max_tokens, env.processes), or end other programs": (train_short,
        {"words": TRAIN, "rows": 5}, "sampling.rows=4"),
    "the disk is full; make room, or choose a folder on another one with --out": (train_short,
        {"words": f"{TRAIN} --out {{at}}/run", "full": "{at}/run"}, {"full": None},
        {"words": "train {at}/run --out {at}/other"}),
    "those before it are intact; {}, then continue with --resume": (train_short,
        {"words": TRAIN, "full": "{at}/run"}, {"full": None}),
    "make room": (train_short,
        {"words": TRAIN, "full": "{at}/run", "error": RuntimeError("unexpected pos")},
        {"full": None}),
    "lower env.processes, sampling.actors, sampling.rows or run.threads": (start_workers,
        {"processes": 2, "most": 1}, {"processes": 1}),
    "raise the limit (`ulimit -n`), or lower env.processes or sampling.rows": (start_workers,
        {"processes": 3, "files": 5}, {"processes": 1}, {"files": 40}),
    "take partner.model out of the recipe, and set env.options.partner to an endpoint": (prompt,
        {"made": "{at}/mine.toml", "/mine.toml": f"{MINE}[partner]\nmodel = 'pocket'"},
        {"/mine.toml": MINE,
        "options": "env.id=Sotopia-v1 env.options={partner={model='a'," "url='http://127.0.0.1:9/v1',retries=0,outage=0.0}}",
        "but": "a at .* gave no answer"}),
    "has episodes of other settings; delete it, or give another --out": (prompt,
        {"options": "eval.tasks=2", "out": "{at}/a.json", "/a.episodes.jsonl": "[1]\n"},
        {"/a.episodes.jsonl": None}, {"out": "{at}/b.json"}),
    "the same command plays the others": (prompt,
        {"options": "", "out": "{at}/a.json", "spoil": True}, {"spoil": False}),
    "{} is damaged: it lacks {}; restore it": (evaluate,
        {"words": "compare {at}/run {at}/saved", "/run/config.toml": "[run]\nsteps = 1"},
        restore("config.toml")),
    "{} is damaged: {}; restore it": (evaluate,
        {"words": "compare {at}/run {at}/saved", "/run/config.toml": "["}, restore("config.toml")),
    "start another one": (play_on, {"anew": False}, {"anew": True}),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("advice", MODELS)
def test_models(advice, trained, tiny_folder, vision_folder, tmp_path, monkeypatch):  # noqa: PLR0917
    def prepare(at):
        for name in ("run", "saved"):
            shutil.copytree(trained, at / name)
        shutil.copytree(tiny_folder, at / "model")
        tiny_model(len(tiny_tokenizer()), max_position_embeddings=60).save_pretrained(at / "small")
        tiny_tokenizer().save_pretrained(at / "small")

    names = {"model": tiny_folder, "vision": vision_folder}
    follow(advice, MODELS[advice], tmp_path, monkeypatch, prepare, **names)
