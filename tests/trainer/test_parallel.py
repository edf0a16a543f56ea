"""Two processes do what one does: figures, weights, checkpoints; and they end together.

Equal is: losses to 1e-5 of their size or 1e-6, other figures to 1e-4. After steps of 1e-3, 99.9% of
the weights to 1e-5, all to 3e-4, and their vector to 1e-3 of its change. Sums in another order
differ in their last bits, and Adam divides gradients by their size, even those that are rounding
errors. So these grow with the steps, by how much depends on the processor: figures after step
`EARLY` may differ ten times as far, and weights from it on twice.
"""

from __future__ import annotations

import random
import shutil
import time

import numpy as np
import pytest
from numpy.linalg import norm
from safetensors.numpy import load_file

from agent_envs.cli import main
from trainer import recipe
from trainer.learn.batch import passes
from trainer.learn.rows import Row
from trainer.model.policy import Policy
from trainer.run.checkpoint import Checkpoints
from trainer.scale import parallel
from trainer.train import train

from .conftest import METHODS, SHORT, count_lines, figures, finish, quiet
from .vllms import Standin, free_port

OPTIONS = [
    *SHORT, "sft.steps=2", "run.steps=3", "run.save_every=1", "run.keep=9", "eval.every=0",
    "update.learning_rate=1e-3", "sampling.decode=free", "sampling.max_reply_tokens=6",
    "update.tokens=600",  # several microbatches
]  # fmt: skip
EARLY = 4
ADMISSIBLE = ["sampling.decode=admissible", "sampling.max_reply_tokens=40"]
pytestmark = [pytest.mark.usefixtures("corridor"), pytest.mark.slow]


@pytest.fixture
def start(start_training):
    """Start the processes of a run, as torchrun does."""

    def started(folder, *options, count=2, before=("", "")):
        """`before` is code that each process runs first."""
        world = {
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
        return [
            start_training(
                *(folder, *OPTIONS, *options),
                before=before[rank],
                world=world | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(count)
        ]

    return started


def alone(tiny_folder, folder, *options):
    """The same in this process."""
    chosen = [*OPTIONS, f"policy.model={tiny_folder}", *options]
    train(recipe.load("alfworld mgr pocket", chosen), folder, resume=True, console=quiet())


def assert_equal(one, other, *left_out):
    """The same figures, but those left out, and the same weights, up to rounding."""
    ours, theirs = figures(one), figures(other)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for line, its in zip(ours, theirs, strict=True):
        for name, value in line.items():
            if name not in {"stage", "logprob_gap", "approx_kl", *left_out}:  # rounding errors
                rel = 1e-5 if name.endswith("loss") else 1e-4
                rel *= 1 if line["step"] <= EARLY else 10
                assert its[name] == pytest.approx(value, rel=rel, abs=1e-6), (line["step"], name)
    steps = Checkpoints(one / "checkpoints").steps()
    assert steps == Checkpoints(other / "checkpoints").steps()
    start = flat(one, steps[0])
    for step in steps:
        mine, its = flat(one, step), flat(other, step)
        difference, change = mine - its, mine - start
        more = 1 if step < EARLY else 2  # the figures of a step are from the weights before it
        assert np.abs(difference).max() <= more * 3e-4, step
        if step > steps[0]:
            assert norm(difference) <= more * 1e-3 * norm(change), step
            assert np.mean(np.abs(difference) > 1e-5) < 1e-3, step
    assert np.abs(change).max() > 5e-4


def flat(folder, step):
    """All weights of a checkpoint as one vector, in the order of their names."""
    (file,) = (folder / "checkpoints" / f"step_{step}").glob("*model.safetensors")
    found = load_file(file)
    return np.concatenate([found[name].ravel() for name in sorted(found)]).astype(np.float64)


@pytest.fixture(scope="module")
def whole(corridor, tiny_folder, tmp_path_factory):
    """A run of one process."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainer.run.report.write", lambda folder: None)
        alone(tiny_folder, folder, *ADMISSIBLE)
    return folder


@pytest.mark.long
def test_servers_of_vllm_sample_for_both(start, tiny_folder, tmp_path):
    """With a stand-in for the server; one process draws the same replies."""
    standin = Standin(Policy.load(str(tiny_folder)))
    options = ["engine.name=vllm", f"engine.urls=['{standin.url}']"]
    options += ["sft.steps=0", "sft.episodes=16", "sft.learning_rate=1e-4"]  # its defaults
    options += ["update.skip_dead_groups=false", "update.entropy=0.05"]  # else nothing changes
    alone(tiny_folder, tmp_path / "one", *options)
    finish(*start(tmp_path / "two", *options))
    assert_equal(tmp_path / "one", tmp_path / "two")
    lines = [line for line in figures(tmp_path / "two") if line["stage"] == "rl"]
    assert all(line["logprob_gap"] < 1e-3 for line in lines)
    assert not any((tmp_path / "two" / "weights").iterdir())
    standin.close()


@pytest.mark.long
def test_two_processes_take_the_steps_of_one(whole, start, tmp_path):
    finish(*start(tmp_path, *ADMISSIBLE))
    assert_equal(whole, tmp_path)
    loaded = Policy.load(str(tmp_path / "checkpoints" / "step_5"))  # as transformers does
    assert not loaded.is_sharded


LONG = {
    "packed": ["update.packed=true"], "lora of istar": [*METHODS["istar"], "policy.lora.rank=2"],
    "turns": ["prompt.context=turn", "update.minibatch=4", "update.epochs=2"],
    "more processes than tasks": ["sampling.tasks=1", "update.minibatch=1", "run.seed=4"],
    "recomputed activations": ["policy.gradient_checkpointing=true"],
}  # fmt: skip
# PPO has a critic on the policy, PRIME a model of tokens.
LONG |= {name: METHODS[name] for name in METHODS if name not in {"critic", "istar of tokens"}}


@pytest.mark.long
@pytest.mark.parametrize("method", LONG)
def test_every_method_takes_the_steps_of_one_process(method, start, tiny_folder, tmp_path):
    one, two, options = tmp_path / "one", tmp_path / "two", [*ADMISSIBLE, *LONG[method]]
    if "istar" in method:  # at first its rewards are the rounding errors of equal models
        alone(tiny_folder, one, *options, "run.steps=1")
        shutil.copytree(one, two)
    processes = start(two, *options)
    alone(tiny_folder, one, *options)
    finish(*processes)
    assert_equal(one, two)


@pytest.mark.long
@pytest.mark.parametrize("method", ["packed", "critic of its own", "istar"])
def test_resumed_by_another_number_of_processes(method, start, tiny_folder, tmp_path):
    """Two processes, then one, then two; `run.steps` may change in between."""
    one, two, options = tmp_path / "one", tmp_path / "two", [*ADMISSIBLE, *LONG[method]]
    alone(tiny_folder, one, *options, "run.steps=1")
    if method == "istar":
        shutil.copytree(one, two)
    alone(tiny_folder, one, *options, "run.steps=4")
    finish(*start(two, *options, "run.steps=2"))
    alone(tiny_folder, two, *options, "run.steps=3")
    finish(*start(two, *options, "run.steps=4"))
    assert_equal(one, two, "eval_success", "eval_valid", "eval_return")  # at the ends of the parts


@pytest.mark.long
@pytest.mark.parametrize("victims", [(0,), (1,), (0, 1)])
def test_killed_at_random_moments(whole, start, tmp_path, victims):
    """SIGKILL of some processes soon after a line was logged; the others end, too."""
    rng = random.Random(len(victims) + victims[-1])
    for line in sorted(rng.sample(range(1, 5), 2)):
        processes = start(tmp_path, *ADMISSIBLE)
        while count_lines(tmp_path) < line and all(process.is_alive() for process in processes):
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2))
        for victim in victims:
            processes[victim].kill()
        for process in processes:
            process.join(60)
            assert process.exitcode, process.said.read_text()
        for survivor in {0, 1} - set(victims):
            assert "another process of the run ended" in processes[survivor].said.read_text()
    finish(*start(tmp_path, *ADMISSIBLE))
    assert_equal(whole, tmp_path)


BROKEN = """
def act(self, action, right=corridor.Corridor.act):
    if self.steps > 5:
        raise ConnectionError("the room is gone")
    return right(self, action)
corridor.Corridor.act = act
"""
FULL = """
from trainer.learn import learner
def collate(*given, right=learner.collate, left=[3], **more):
    left[0] -= 1
    if not left[0]:
        raise MemoryError("no room")
    return right(*given, **more)
learner.collate = collate
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "said"),
    [
        (BROKEN, "the room is gone"),
        (FULL, "no room"),  # while the other waits in the middle of a step
        ("sys.argv.insert(-3, 'run.seed=5')", "another recipe"),
        ("sys.argv[-1] += '2'", "a folder that all machines share"),
    ],
)
def test_an_error_of_one_process_ends_all(start, tmp_path, before, said):
    processes = start(tmp_path, *ADMISSIBLE, before=("", before))
    for process in processes:
        process.join(60)
        assert process.exitcode == 1
        assert said in process.said.read_text()


@pytest.mark.parametrize(
    ("rank", "device", "message"),
    [
        ({}, "cpu", "environment variable RANK expected, but not set"),
        ({"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "3"}, "cuda", "--nproc-per-node 2"),
        ({}, "cuda:1", "'cuda:1' .* set policy.device=cuda"),
        ({}, "a vision-language model", r"a vision-language model.*without torchrun"),
        ({}, "a mixture of experts", r"a mixture of experts.*without torchrun"),
        ({}, "recipes", "only `train` runs under torchrun"),
    ],
)
def test_what_several_processes_do_not_do(vision_folder, monkeypatch, rank, device, message):
    monkeypatch.setattr("sys.argv", ["agent-envs", device])
    policy = Policy.load(str(vision_folder))
    if "experts" in device:
        policy.vision = None
        policy.model.config.get_text_config().num_experts = 4
    for name, value in {"WORLD_SIZE": "3", **rank}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    if device == "recipes":
        start = main
    elif " " in device:
        start = policy.shard
    else:
        start = parallel.join_processes(device).__enter__
    with pytest.raises((ValueError, SystemExit), match=message):
        start()


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("lengths", [[5], [9, 3, 3, 7, 5, 5, 1], list(range(1, 20))])
def test_each_row_counts_in_one_process(monkeypatch, count, lengths):
    rows = [Row(list(range(n + 1)), [1], [0], [0.0]) for n in lengths]
    monkeypatch.setattr(parallel, "size", lambda: count)
    dealt = []
    for rank in range(count):
        monkeypatch.setattr(parallel, "rank", lambda rank=rank: rank)
        dealt.append(passes(rows, 16))
    assert len({len(parts) for parts in dealt}) == 1  # all gather weights at the same time
    counted = [i for parts in dealt for part, counts in parts if counts for i in part]
    assert sorted(counted) == list(range(len(rows)))
    spare = [part for parts in dealt for part, counts in parts if not counts]
    assert all(part == [int(np.argmin(lengths))] or len(rows[part[0]].ids) == 2 for part in spare)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shares_are_the_whole(monkeypatch, count):
    monkeypatch.setattr(parallel, "size", lambda: count)
    found = []
    for rank in range(count):
        monkeypatch.setattr(parallel, "rank", lambda rank=rank: rank)
        found += parallel.share(5)
    assert found == list(range(5))
