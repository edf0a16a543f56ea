"""The loop: resuming is not having stopped, and every recipe takes a step."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import time
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from agent_envs import evaluation
from agent_envs.machine import read_json
from credit.stats import concentration
from trainer import recipe, recipes
from trainer.build import attempt_panel, derive, evaluate_model, make_rollouts
from trainer.engine.own import OwnEngine
from trainer.learn.rows import make_rows
from trainer.play import episode_files as episodes
from trainer.play.records import Episode, Step
from trainer.run import metrics
from trainer.run.checkpoint import MANIFEST, CheckpointError, Checkpoints, Manifest, _digests
from trainer.run.checks import RunError, check_folder
from trainer.run.metrics import WARNINGS, describe
from trainer.run.run_folder import WarningRecord
from trainer.run.session import STATE
from trainer.train import train

from .conftest import count_lines, figures, finish, own_sampler, quiet, same, short, weights


def assert_same_run(one, other, step):
    assert figures(one) == figures(other)
    assert same(weights(one, step), weights(other, step))
    for path in (one / "eval").iterdir():
        assert path.read_text() == (other / "eval" / path.name).read_text()
    for path in (one / "episodes").glob("*.parquet"):
        assert episodes.read_episodes(path) == episodes.read_episodes(
            other / "episodes" / path.name
        )


def test_what_a_run_leaves(whole):
    lines = figures(whole)
    assert [line["step"] for line in lines] == list(range(13))
    assert [line["stage"] for line in lines] == ["start"] + ["sft"] * 6 + ["rl"] * 6
    assert lines[6]["loss"] < lines[1]["loss"]
    assert [line["step"] for line in lines if "eval_success" in line] == [0, 6, 9, 12]
    assert sorted(path.name for path in (whole / "eval").iterdir()) == [
        "step_0.json",
        "step_12.json",
        "step_6.json",
        "step_9.json",
    ]
    assert Checkpoints(whole / "checkpoints").steps() == [6, 10, 12]  # 6 is the start, kept
    assert [p.stem for p in sorted((whole / "episodes").glob("*.parquet"))] == [
        "step_11",
        "step_12",
        "step_7",
        "step_9",
    ]
    for path in (whole / "episodes").glob("*.parquet"):
        turns = sum(len(episode.steps) for episode in episodes.read_episodes(path))
        assert np.load(path.with_suffix(".npy")).shape == (turns,)
    assert (whole / "report.html").stat().st_size > 10_000
    assert not (whole / "failures").exists()
    assert {line["failed"] for line in lines[1:]} == {0.0}
    assert "failed" not in (whole / "eval" / "step_12.json").read_text()
    assert list((whole / "tensorboard").iterdir())
    gaps = [line["logprob_gap"] for line in lines if "logprob_gap" in line]
    assert gaps  # steps in which some group was alive; what was sampled is recomputed
    assert max(gaps) < 1e-4


def test_the_engine_gets_weights_when_something_is_sampled(
    corridor, tiny_folder, tmp_path, monkeypatch
):
    """After the warm start and after each step that follows, with the number of the step."""
    versions = []
    monkeypatch.setattr(OwnEngine, "sync", lambda _, policy, version: versions.append(version))
    options = ["sft.steps=3", "run.steps=2", "eval.every=0"]
    train(short(tiny_folder, *options), tmp_path, console=quiet())
    assert versions == [3, 4, 5]


def test_another_seed_is_another_run(whole, tiny_folder, tmp_path):
    train(short(tiny_folder, "run.seed=1", "run.steps=0"), tmp_path, console=quiet())
    assert figures(tmp_path)[1]["loss"] != figures(whole)[1]["loss"]


def test_a_warm_start_ends_sooner_and_goes_on_there(corridor, tiny_folder, tmp_path):
    """Steps keep their numbers, and those that are skipped are no gap."""
    options = ["sft.steps=45", "sft.until=0.05", "eval.every=0"]
    said = io.StringIO()
    for folder, steps in (("whole", [2]), ("parts", [0, 2])):
        for number in steps:
            made = short(tiny_folder, *options, f"run.steps={number}")
            console = Console(file=said, width=200)
            train(made, tmp_path / folder, resume=True, console=console)
    assert_same_run(tmp_path / "whole", tmp_path / "parts", 47)
    lines = figures(tmp_path / "whole")
    assert [line["step"] for line in lines] == [*range(30), 45, 46, 47]
    assert lines[30]["stage"] == "sft"
    assert lines[30]["imitation"] >= 0.05
    assert "ends after 30 of at most 45 steps: the policy gives" in said.getvalue()
    assert not list(tmp_path.glob(f"*/{WARNINGS}"))


def test_demonstrations_longer_than_a_reply_may_be_are_told(corridor, tiny_folder, tmp_path):
    options = "sft.steps=2", "run.steps=0", "sampling.decode=free", "sampling.max_reply_tokens=4"
    train(short(tiny_folder, *options), tmp_path, console=quiet())
    (told,) = (tmp_path / WARNINGS).read_text().splitlines()
    assert "tokens, and the policy's are cut at sampling.max_reply_tokens=4; raise it" in told


def test_without_an_expert_learning_starts_at_once(corridor, tiny_folder, tmp_path):
    options = ["env.id=corridor:Unguided", "sft.expert=auto", "run.steps=1", "eval.every=0"]
    train(short(tiny_folder, *options), tmp_path, console=quiet())
    train(short(tiny_folder, *options), tmp_path, resume=True, console=quiet())
    assert [(line["step"], line["stage"]) for line in figures(tmp_path)] == [
        (0, "start"),
        (7, "rl"),
    ]


@pytest.mark.parametrize("steps", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (0, 3))])
def test_a_run_goes_on_where_it_ended(whole, tiny_folder, tmp_path, steps):
    """More steps than at first: the end of the short run is a step of the long one."""
    options = (f"run.steps={steps}", "eval.every=0")
    train(short(tiny_folder, *options), tmp_path, console=quiet())
    train(short(tiny_folder), tmp_path, resume=True, console=quiet())
    assert same(weights(tmp_path, 12), weights(whole, 12))
    assert [line["step"] for line in figures(tmp_path)] == list(range(13))


def test_a_run_in_parts_is_diagnosed_as_a_whole_one(tiny_folder, tmp_path):
    """Of five steps two come after the resume; no task is done in one turn."""
    options = "sft.steps=0", "env.max_turns=1", "eval.every=0"
    for folder, parts in (("whole", [5]), ("parts", [3, 5])):
        for steps in parts:
            made = short(tiny_folder, *options, f"run.steps={steps}")
            train(made, tmp_path / folder, resume=True, console=quiet())
    told, expected = ((tmp_path / one / WARNINGS).read_text() for one in ("parts", "whole"))
    assert "from the start" in expected
    assert told == expected


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_killed_at_random_moments(whole, start_training, tmp_path, seed):
    """SIGKILL soon after a random line was logged, three times; then the run is let through."""
    rng = random.Random(seed)
    for line in sorted(rng.sample(range(1, 12), 3)):
        known = figures(tmp_path)
        process = start_training(tmp_path)
        while count_lines(tmp_path) < line and process.is_alive():
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.15))
        assert process.is_alive(), process.said.read_text()
        process.kill()
        process.join()
        assert figures(tmp_path)[: len(known)] == known  # nothing that was written is lost
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 12, "stage": "r')
    finish(start_training(tmp_path))
    assert_same_run(whole, tmp_path, 12)


def copy_of(run, tmp_path):
    return Path(shutil.copytree(run, tmp_path / "copy"))


def test_a_damaged_checkpoint_is_passed_over(whole, tiny_folder, tmp_path):
    folder = copy_of(whole, tmp_path)
    os.truncate(folder / "checkpoints" / "step_12" / "model.safetensors", 1000)
    with pytest.warns(UserWarning, match=r"model\.safetensors is missing, truncated or.*step_10"):
        train(short(tiny_folder), folder, resume=True, console=quiet())
    assert_same_run(whole, folder, 12)


class Stranger:
    def __reduce__(self):
        return os.system, ("true",)


CHANGES = [
    ({"step": 10**9}, "its state is that of step 1000000000 of 12"),
    ({"step": 11}, "its state is that of step 11 of 12"),
    ({"step": -1}, "step = -1: "),
    ({"step": None}, "step = None: "),
    ({"kl_coefficient": float("nan")}, "kl_coefficient = nan: "),
    ({"more": 1}, "more = 1: "),
    ({"learner": {}}, "KeyError: 'steps'"),
    ({"learner": []}, "learner = ..: "),
    ({"learner": {"steps": 1, "optimizer": {99: {"exp_avg": 0}}}}, "IndexError"),
    ({"method": Stranger()}, "other objects than tensors and numbers, which may"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_a_checkpoint_of_a_stranger_is_refused_by_name(change, said, whole, tiny_folder, tmp_path):
    folder = copy_of(whole, tmp_path)
    path = folder / "checkpoints" / "step_12" / STATE
    torch.save(torch.load(path) | change, path)
    manifest = read_json(path.with_name(MANIFEST), Manifest)
    manifest.files[STATE] = _digests(path.parent)[STATE]
    path.with_name(MANIFEST).write_text(manifest.model_dump_json())
    with pytest.raises(CheckpointError, match=rf"(?s)step_12 is of another.*{said}.*--out") as told:
        train(short(tiny_folder), folder, resume=True, console=quiet())
    assert "weights_only" not in str(told.value)


def test_lines_that_a_log_lacks_are_told_on_resume(whole, tiny_folder, tmp_path):
    folder = copy_of(whole, tmp_path)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["step"] not in {4, 5, 12}]
    (folder / "metrics.jsonl").write_text("".join(kept))
    train(short(tiny_folder), folder, resume=True, console=quiet())
    assert "lacks the lines of 3 steps, the first 4;" in (folder / WARNINGS).read_text()


def test_a_finished_run_stays_as_it_is(whole, tiny_folder, tmp_path):
    folder = copy_of(whole, tmp_path)
    train(short(tiny_folder), folder, resume=True, console=quiet())
    assert (folder / "metrics.jsonl").read_text() == (whole / "metrics.jsonl").read_text()


def test_evaluating_a_run_gives_its_last_evaluation(whole):
    result = evaluate_model(recipe.load(whole), whole)
    assert result == evaluation.load(whole / "eval" / "step_12.json")


def test_a_sampled_evaluation_depends_on_the_seed_of_the_run_only(corridor, tiny_policy):
    loaded = [short("tiny", f"run.seed={seed}", "sampling.decode=free") for seed in (0, 0, 1)]
    held_out = make_rollouts(loaded[0], "test")
    sampler, panel = own_sampler(loaded[0], tiny_policy), evaluation.draw_panel(held_out.panel, 2)
    first, again, other = (attempt_panel(one, sampler, held_out, panel) for one in loaded)
    assert first == again != other


TINY = [
    "run.threads=1", "env.max_turns=2", "policy.lora.rank=2", "sampling.tasks=2",
    "sampling.rollouts=2", "sampling.max_reply_tokens=8", "sampling.max_tokens=4000",
    "eval.tasks=2",
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "free"),
    [
        ("credit.models.judge.outage=900", True),
        ("credit.models.judge.url=http://b/v1", True),
        ("credit.models.judge.model=other", False),
        ("credit.models.judge.temperature=1", False),
        ("env.options.judge.timeout=9", True),
        ("env.options.judge.key=OTHER", True),
        ("env.options.judge.max_tokens=9", False),
        ("env.options.judge.model=other", False),
    ],
)
def test_a_run_is_resumed_with_other_patience_and_another_address_only(change, free, tmp_path):
    table = "env.options.judge={model='stub', url='http://a/v1'}"
    given = ["credit.model=judge", "credit.models.judge.model=stub", table]
    recipe.save(recipe.load("sotopia has pocket", given), tmp_path / "config.toml")
    changed = recipe.load("sotopia has pocket", [*given, change])
    refused = pytest.raises(RunError, match=f"another {change.partition('=')[0]};")
    log = tmp_path / "metrics.jsonl"
    log.touch()
    check_folder(changed, tmp_path, resume=False)  # what ended before its first line is no run
    log.write_text("a line")
    with nullcontext() if free else refused:
        check_folder(changed, tmp_path, resume=True)


def test_what_errors_advise_is_what_resume_takes(corridor, tiny_folder, tmp_path):
    """Memory that ran out, and a loss that is not finite: the advice continues the run."""
    advice = [f"{key}={value}" for key, value in {
        "sampling.rows": 1, "update.tokens": 700, "sampling.max_tokens": 1900,
        "update.learning_rate": 1e-5, "credit.models.critic.learning_rate": 1e-4,
        "update.entropy": 0.01, "policy.gradient_checkpointing": "true",
    }.items()]  # fmt: skip
    given = ["sft.steps=1", "update.skip_dead_groups=false", "credit.model=critic"]
    train(short(tiny_folder, *given, "run.steps=1"), tmp_path, console=quiet())
    changed = short(tiny_folder, *given, "run.steps=2", *advice)
    train(changed, tmp_path, resume=True, console=quiet())
    assert figures(tmp_path)[-1]["learning_rate"] == 1e-5
    (noted,) = metrics.read_log(tmp_path / metrics.WARNINGS, WarningRecord)
    assert noted["step"] == 2
    for one in advice[2:6]:
        assert f"{one} (before: " in noted["text"]
    assert "sampling.rows" not in noted["text"]
    train(changed, tmp_path, resume=True, console=quiet())
    assert len(metrics.read_log(tmp_path / metrics.WARNINGS, WarningRecord)) == 1


def test_a_fork_leaves_the_steps_of_the_other_branch(corridor, tiny_folder, tmp_path):
    given = ["sft.steps=1", "run.steps=2", "run.save_every=1", "update.skip_dead_groups=false"]
    train(short(tiny_folder, *given), tmp_path, console=quiet())
    before = (tmp_path / "metrics.jsonl").read_text().splitlines()
    shutil.rmtree(tmp_path / "checkpoints" / "step_3")
    for name in ("failures/step_3_play_0.json", "replay/step_2.npz", "replay/step_3.npz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    for number, last in enumerate((2, 3)):
        (tmp_path / f"rounds/round_{number}").mkdir(parents=True)
        (tmp_path / f"rounds/round_{number}/manifest.json").write_text(f'{{"steps": [2, {last}]}}')
    made = short(tiny_folder, *given, "update.learning_rate=5e-5")
    train(made, tmp_path, resume=True, console=quiet())  # a warning would be an error
    assert (tmp_path / "metrics.jsonl").read_text().splitlines()[:3] == before[:3]
    assert figures(tmp_path)[3]["learning_rate"] == 5e-5
    assert (tmp_path / "abandoned/1/metrics.jsonl").read_text().splitlines() == before[3:]
    gone = {
        str(path.relative_to(tmp_path / "abandoned/1")) for path in tmp_path.glob("aban*/1/*/*")
    }
    assert gone >= {"eval/step_3.json", "failures/step_3_play_0.json", "replay/step_3.npz"}
    assert {one for one in gone if one.startswith("r")} == {"replay/step_3.npz", "rounds/round_1"}


# A short room in the place of ALFWorld's, where it is the method that matters.
ROOM = ["env.id=Corridor-v0", "env.data=auto", "env.games=0"]


def take_a_step(words, model, folder, endpoint, *more):
    loaded = recipe.load(words, more)
    warm = min(1, loaded.sft.steps)
    options = [f"policy.model={model}", *TINY]
    options += [f"sft.steps={warm}", f"run.steps={min(1, loaded.run.steps)}"]
    options += ["sft.episodes=2"] * warm
    options += [] if loaded.policy.lora.rank else ["policy.lora.rank=0"]
    options += ["env.games=20"] if loaded.env.games else []
    if warm and loaded.env.id != "Corridor-v0":
        options += ["env.max_turns=50"]  # the explorer has to get there
    if loaded.credit.model == "judge":
        options += [f"credit.models.judge.url={endpoint.url}"]
    train(recipe.load(words, [*more, *options]), folder, console=quiet())
    lines = figures(folder)
    assert len(lines) == 1 + warm + min(1, loaded.run.steps)
    assert all(np.isfinite(v) for line in lines for v in line.values() if isinstance(v, float))


# Environments that report turn rewards, or which answers they accept.
REPORTED = {"igpo": "search", "mt_grpo": "wiki", "mt_rloo": "search_r1", "trace": "wiki"}


# What the papers vary (MGR Table 2, iStar Table 3, HAS Tables 4 to 6), as the files tell.
VARIANTS = [
    "istar credit.models.prm.level=token update.ratio=token",
    "has credit.model=turnrd credit.models.turnrd.goal=true",
    "has credit.model=judge",
]
# `make test` leaves out those whose update, model or process is that of another one here or of a
# run in test_methods.
LONG = [
    *("dapo", "dpo", "empg", "gigpo", "grpo", "gspo", "hgpo", "igpo", "istar", "kevin", "loop"),
    *("mt_grpo", "mt_rloo", "ppo", "prime", "rebn", "reinforce_pp", "rloo", "rtmc", "signal"),
    *("stapo", "stapo_dynamic", "trace", "turn_rloo", "vine"),
    "istar credit.models.prm.level=token update.ratio=token",
    "mgr credit.model=critic",
    "mgr credit.model=critic credit.options.gate=none",
    "mgr credit.model=critic update.kl=k3 update.kl_coefficient=0.01",
    "istar credit.options.variant=merged",
    "istar credit.options.variant=environment credit.model=none",
    "istar credit.options.base=reinforce_pp",
    "has credit.options.alpha=1.0",
    "has credit.model=turnrd",
]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=[pytest.mark.long] * (words in LONG))
        for words in sorted({*recipes.names("method"), *VARIANTS, *LONG})
    ],
)
def test_every_method_and_variant_takes_a_step(words, corridor, tiny_folder, endpoint, tmp_path):
    method, *options = words.split()
    environment = REPORTED.get(method, "alfworld")
    options += ROOM if environment == "alfworld" else []
    take_a_step(f"{environment} {method}", tiny_folder, tmp_path, endpoint, *options)


TAKEN = {"ezpoints", "sokoban", "webshop", "search", "search_r1", "wiki"}
TEXTWORLD = pytest.mark.skipif(find_spec("textworld") is None, reason="needs its extra")


@pytest.mark.parametrize(
    "environment",
    [
        # `make test` has a step of STAPO in `ezpoints`, whose pictures are like `sokoban`'s
        pytest.param(
            name, marks=[pytest.mark.long] * (name in TAKEN) + [TEXTWORLD] * (name == "textworld")
        )
        for name in recipes.names("environment")
        if name != "mixture"  # test_mixture.py has one; GEM is not here
    ],
)
def test_every_environment_takes_a_step(
    environment, tiny_folder, vision_folder, endpoint, tmp_path
):
    model = vision_folder if environment in {"sokoban", "ezpoints"} else tiny_folder
    generated = ["env.id=Sotopia-v1"] if environment == "sotopia" else []
    take_a_step(f"{environment} gigpo", model, tmp_path, endpoint, *generated)


@pytest.mark.parametrize(
    "environment", [pytest.param("sokoban", marks=pytest.mark.long), "ezpoints"]
)
def test_stapo_takes_a_step_on_pictures(environment, vision_folder, endpoint, tmp_path):
    take_a_step(f"{environment} stapo", vision_folder, tmp_path, endpoint)


@pytest.mark.long
def test_self_chat_and_recorded_conversations_take_a_step(tiny_folder, endpoint, tmp_path):
    partner = [f"partner.model={tiny_folder}", "partner.max_reply_tokens=8"]
    partner.append("env.id=Sotopia-v1")
    take_a_step("sotopia istar", tiny_folder, tmp_path / "chat", endpoint, *partner)
    recorded = f"sampling.recorded={tmp_path / 'chat' / 'episodes'}"
    given = [recorded, "env.id=Sotopia-v1"]
    take_a_step("sotopia dpo", tiny_folder, tmp_path / "offline", endpoint, *given)


REFUSALS = {
    "alfworld mt_grpo": r"'mt_grpo' reads info.'turn_reward'., but AlfWorld-v0 .*TurnVerifier",
    "wiki igpo env.id=AlfWorld-v0 env.options={}": (
        r"2 problems: .1. credit.name='igpo' reads info.'answers'., but AlfWorld.*; .2. .*'test'"
    ),
    "alfworld mgr policy.model=./no/where data=/no credit.options.x=1": (
        r"3 problems: .1. no model folder '\./no/where'.*; .2. mgr has no option 'x'; known.*"
        r"; .3. env\.id='AlfWorld-v0': no games in /no"
    ),
    "sokoban mgr": r"name='mgr' reads the outcome as success.*set env\.options\.reward=succ",
    "alfworld gigpo env.invalid_penalty=-5.0 credit.options.omega=0.0": "'gigpo' reads the outcome",
    "alfworld grpo env.invalid_penalty=-5.0": (
        r"name='grpo' reads the outcome .* so that invalid_penalty of AlfWorld-v0 would change"
    ),
    "alfworld mgr env.wrappers={'credit.rewards:ProgressReward'={}}": "so that progress_reward of",
    "alfworld rloo env.wrappers={'credit.rewards:TurnVerifier'={}}": "so that turn_verifier of",
    "alfworld has env.wrappers={'tests.trainer.test_rollout:Doubled'={}}": "so that Doubled of",
    "alfworld mgr credit.models.critic.lam=1": (
        r"critic is of a model that is not in the run \(credit.name='mgr'"
    ),
    "alfworld mgr credit.models.critic.learnig_rate=1 credit.model=critic": (
        r"critic\.learnig_rate = 1: .* has learning_rate, trunk"
    ),
    "alfworld mgr sampling.recorded=.": r"sampling\.recorded needs credit\.name=dpo, got 'mgr'",
    "alfworld dpo sampling.recorded=nowhere": r"'nowhere' has no \*\.parquet files",
    "alfworld mgr sampling.ahead=1": r"sampling\.ahead=1 needs an engine with weights of its own",
}


@pytest.mark.parametrize(("words", "message"), REFUSALS.items())
def test_what_does_not_fit_is_refused_before_anything_is_written(words, message, tmp_path):
    names = [word for word in words.split() if "=" not in word]
    options = [word for word in words.split() if "=" in word]
    with pytest.raises(ValueError, match=message):
        train(recipe.load(" ".join([*names, "pocket"]), options), tmp_path / "run", console=quiet())
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_evaluated_on_situations_that_it_was_trained_on(
    shared_data, tiny_folder, tmp_path
):
    """SOTOPIA's hard situations and all of them overlap with those of its split for training."""
    if not (public := shared_data / "sotopia").is_dir():
        pytest.skip(f"no public data at {public}")

    def make(*options):
        given = ["env.id=Sotopia-v0", "env.options={judge='none',partner='echo'}"]
        given += ["sampling.decode=free", f"data={public}", "sft.steps=0"]
        few = ["run.steps=0", "eval.tasks=1", "sampling.max_reply_tokens=8", *options]
        return recipe.load("sotopia grpo pocket", [f"policy.model={tiny_folder}", *given, *few])

    said = r"split 'train'\) and evaluation \(split '{}'\) share {} situations.*, the first '.*eval"
    for split, shared in (("hard", 12), ("all", 70), ("train", 70)):
        with pytest.raises(ValueError, match=said.format(split, shared)):
            train(make(f"eval.split={split}", "eval.tasks=0"), tmp_path / split, console=quiet())
        assert not (tmp_path / split).exists()
    train(make("eval.split=val"), tmp_path / "run", console=quiet())
    made = recipe.load(tmp_path / "run", ["eval.split=test"])
    assert len(evaluate_model(made, tmp_path / "run").success) == 1
    with pytest.raises(ValueError, match=said.format("hard", 12)):
        evaluate_model(make("eval.split=hard", "eval.tasks=0"), tmp_path / "run")


@pytest.mark.parametrize("method", ["mgr", pytest.param("istar", marks=pytest.mark.long)])
def test_methods_take_a_step_with_llama(method, corridor, llama_folder, endpoint, tmp_path):
    take_a_step(f"alfworld {method}", llama_folder, tmp_path, endpoint, *ROOM)


def played(group, outcome, *actions):
    steps = [Step("", a, a, [1], [2], entropies=[0.5, 1.5], valid=a != "no") for a in actions]
    return Episode("t", "g", group, 0, "history", steps, success=outcome > 0, outcome=outcome)


def test_concentration_by_hand():
    owner = np.array([0, 0, 1, 1, 1, 1, 2])
    assert concentration(np.array([3.0, -1, 1, 1, 1, -1, 0]), owner) == pytest.approx(0.5)
    assert concentration(np.zeros(7), owner) == 0.0


def test_describe_by_hand():
    group = [
        played(0, 1.0, "a", "b"),
        played(0, 0.0, "a", "no"),
        played(1, 1.0, "a"),
        played(1, 1.0, "a"),
    ]
    told = describe(group)
    assert told["success"] == 0.75
    assert told["valid"] == pytest.approx(5 / 6)
    assert told["turns"] == 1.5
    assert told["entropy"] == 1.0
    assert told["distinct_actions"] == 2.0  # a, b, no in one group, a in the other
    assert told["dead_groups"] == 0.5
    assert told["identical_groups"] == 0.5


def test_seeds_of_purposes_and_steps_differ():
    seeds = {derive(s, t, p) for s in range(3) for t in range(3) for p in ("play", "credit")}
    assert len(seeds) == 18
    assert derive(1, 2, "play") == derive(1, 2, "play")


def test_warnings_of_a_collapse(tiny_folder, corridor, tmp_path):
    console = quiet()
    options = ["sft.steps=0", "sampling.temperature=1e-5", "run.steps=5"]
    options += ["sampling.decode=admissible", "sampling.tasks=2", "sampling.rollouts=2"]
    train(short(tiny_folder, *options, "eval.every=0"), tmp_path, console=console)
    assert "in 100% of the groups all rollouts have the same replies" in console.file.getvalue()
    assert metrics.read_log(tmp_path / "metrics.jsonl")[0]["stage"] == "start"
    shown = console.file.getvalue()
    assert "\nstart" not in shown  # its only number is in the line of the evaluation
    assert shown.index("step 0  ") < shown.index("rl 1/5")


def test_a_step_without_an_update_says_so(tiny_folder, corridor, tmp_path):
    """All rollouts fail at once, so no group has unequal outcomes."""
    console = Console(file=io.StringIO(), width=200)
    options = ["sft.steps=0", "run.steps=1", "env.max_turns=1", "credit.name=grpo", "env.games=1"]
    options += ["env.split=train", "sampling.temperature=0.01", "sampling.tasks=1"]
    train(short(tiny_folder, *options), tmp_path, console=console)
    (line,) = [line for line in figures(tmp_path) if line["stage"] == "rl"]
    assert line["skipped"] == 1.0
    assert "step 1: no update" in console.file.getvalue()


@pytest.mark.parametrize("decode", ["admissible", pytest.param("free", marks=pytest.mark.long)])
def test_the_warm_start_teaches_thoughts_where_the_policy_may_think(decode, tmp_path, monkeypatch):
    """With `decode="admissible"` thoughts are empty; taught ones could never be said."""
    taught = []

    def noted(shown, **given):
        taught.extend(step.reply for one in shown for step in one.steps)
        return make_rows(shown, **given)

    monkeypatch.setattr("trainer.run.session.make_rows", noted)
    options = ["sft.steps=1", "sft.episodes=2", "run.steps=0", "eval.tasks=1", "run.threads=1"]
    options += [f"sampling.decode={decode}", "env.max_turns=15", "data=embedded", "eval.every=0"]
    train(recipe.load("alfworld grpo pocket", options), tmp_path, console=quiet())
    empty = [reply.startswith("<think></think>") for reply in taught]
    assert len(taught) > 2
    assert all(empty) if decode == "admissible" else not any(empty)
