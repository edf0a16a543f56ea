"""verl plays our environments and gets an advantage for each turn."""

import asyncio
import copy
import importlib
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import credit
from credit.rows import spans_of
from tests.trainer.conftest import tiny_model, tiny_tokenizer

from .solving import check_releases, make_twelve, needs

# The recorded penalty is for GiGPO; other methods warn that they do not read it.
pytestmark = pytest.mark.filterwarnings("ignore:.*turns were paid beside them")
PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "verl.md"
MODULE = "agent_envs_adapters.verl"
WITH_VERL = needs("verl", "verl")
with_verl = lambda test: WITH_VERL[0](WITH_VERL[1](test))  # noqa: E731
PROMPT = 1600  # verl pads prompts to this
METHODS = ("mgr", "gigpo", "stapo", "has", "grpo")


def expected(records, uid, mask, name):
    """Token advantages of credit directly: [R, T]."""
    rows = credit.rows_of(records, uid)
    advantage = credit.make(name)(rows.turns, np.random.default_rng(0))
    return rows.scatter(advantage, np.asarray(mask), spans_of(records))


def objects(values):
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Folder of a tiny model with its tokenizer."""
    folder, tokenizer = tmp_path_factory.mktemp("tiny"), tiny_tokenizer()
    tokenizer.save_pretrained(folder)
    tiny_model(len(tokenizer)).save_pretrained(folder)
    return folder


class Server:
    """Scripted replies in place of verl's server of tokens.

    It often solves the task, talks nonsense, or forgets the form, and remembers what it was asked.
    """

    def __init__(self, tokenizer, logprobs=True):
        self.tokenizer, self.logprobs = tokenizer, logprobs
        self.rng, self.asked, self.said = np.random.default_rng(1), [], []

    async def generate(self, request_id, *, prompt_ids, sampling_params, **_):
        from verl.workers.rollout.replica import TokenOutput

        action = make_twelve(self.tokenizer.decode(prompt_ids))
        if self.rng.random() < 0.3:
            action = "+" if self.rng.random() < 0.5 else "fly away"
        reply = f"<think>so</think><action>{action}</action>"
        reply = action if self.rng.random() < 0.1 else reply
        ids = [*self.tokenizer.encode(reply), self.tokenizer.eos_token_id]
        self.asked.append((request_id, list(prompt_ids), sampling_params))
        self.said.append(reply)
        return TokenOutput(
            token_ids=ids,
            log_probs=[-float(len(self.said))] * len(ids) if self.logprobs else None,
            extra_fields={"min_global_steps": 1, "max_global_steps": len(self.said)},
        )


def composed(model, data, **changed):
    """verl's own configuration."""
    import verl
    from hydra import compose, initialize_config_dir

    folder = Path(verl.__file__).parent / "trainer" / "config"
    settings = {
        "actor_rollout_ref.model.path": model,
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.n": 4,
        "actor_rollout_ref.rollout.prompt_length": PROMPT,
        "actor_rollout_ref.rollout.response_length": 1500,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
        "data.train_files": data,
        "data.train_batch_size": 3,
        "algorithm.adv_estimator": "credit_mgr",
        "trainer.v1.trainer_mode": "credit_sync",
    } | changed
    with initialize_config_dir(str(folder), version_base=None):
        return compose("ppo_trainer", [f"{name}={value}" for name, value in settings.items()])


def tasks(tmp_path, **options):
    adapter = importlib.import_module(MODULE)
    options = {
        "count": 3,
        "max_turns": 6,
        "max_reply_tokens": 64,
        "invalid_penalty": -0.1,
    } | options
    return adapter.write_tasks(tmp_path / "tasks.parquet", "EZPoints-v0", **options)


def prompts(config, tokenizer, path):
    """What verl's data set makes of the tasks, as one batch."""
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    data = RLHFDataset(str(path), tokenizer, config.data)
    return collate_fn([data[row] for row in range(len(data))])


def play(config, path, server):
    """12 episodes, 4 of each of 3 tasks, in verl's agent loop worker."""
    from verl import DataProto
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker

    worker = AgentLoopWorker(config, server)
    batch = DataProto.from_single_dict(prompts(config, worker.tokenizer, path))
    batch.non_tensor_batch["uid"] = objects([f"task {row}" for row in range(len(batch))])
    return asyncio.run(worker.generate_sequences(batch.repeat(4, interleave=True)))


@pytest.fixture(scope="session")
def once(model, tmp_path_factory):
    path = tasks(tmp_path_factory.mktemp("tasks"))
    server = Server(tiny_tokenizer())
    return play(composed(model, path), path, server), server


@pytest.fixture
def played(once):
    data, server = once
    return SimpleNamespace(data=copy.deepcopy(data), server=server)


@with_verl
def test_verl_finds_the_plug_in_in_a_fresh_process():
    script = """
import verl
from verl.experimental.agent_loop.agent_loop import _agent_loop_registry as loops
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.trainer.ppo.v1 import get_trainer_cls
print(loops["agent_envs"]["_target_"], get_adv_estimator_fn("credit_mgr").__module__)
for mode in ("sync", "colocate_async", "separate_async"):
    print(issubclass(get_trainer_cls("credit_" + mode), get_trainer_cls(mode)))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [f"{MODULE}.EpisodeLoop", MODULE, "True", "True", "True"]


@with_verl
def test_episodes_in_verls_agent_loop(played):
    batch, columns, server = played.data.batch, played.data.non_tensor_batch, played.server
    assert len(batch) == 12
    records = columns["turn_records"]
    assert json.loads(json.dumps(list(records))) is not None
    # Only tokens of replies are in the mask, one span for each turn.
    said = []
    for row, turns in enumerate(records):
        spans = [turn["span"] for turn in turns]
        assert sum(end - start for start, end in spans) == batch["response_mask"][row].sum()
        for start, end in spans:
            assert batch["response_mask"][row, start:end].all()
            said.append(server.tokenizer.decode(batch["responses"][row, start:end]))
    assert sorted(said) == sorted(f"{reply}<|im_end|>" for reply in server.said)
    assert [turn["valid"] for turns in records for turn in turns].count(False) > 5
    assert all(0 < len(turns) <= 6 and turns[-1]["outcome"] is not None for turns in records)
    assert columns["success"].tolist() == [float(turns[-1]["success"]) for turns in records]
    outcome = [turns[-1]["outcome"] for turns in records]
    assert batch["rm_scores"].sum(-1).tolist() == outcome
    assert len(set(outcome)) > 1
    # Episodes of a group begin alike, and what was sampled is what was asked next.
    assert len({turns[0]["task_id"] for turns in records}) == 3
    assert all(len({turns[0]["anchor"] for turns in records[g : g + 4]}) == 1 for g in (0, 4, 8))
    for row in range(12):
        whole = batch["input_ids"][row][batch["attention_mask"][row] == 1].tolist()
        first = int(batch["attention_mask"][row, :PROMPT].sum())
        ends = {tuple(whole[: first + turn["span"][0]]) for turn in records[row]}
        assert ends <= {tuple(ids) for _, ids, _ in server.asked}
    assert len({request for request, *_ in server.asked}) == 12
    assert {params["max_tokens"] for *_, params in server.asked} == {64}
    logprobs = batch["rollout_log_probs"]
    assert ((logprobs != 0) == (batch["response_mask"] == 1)).all()
    assert (columns["min_global_steps"] == 1).all()
    assert (columns["max_global_steps"] > 1).all()


@with_verl
@pytest.mark.parametrize("name", METHODS)
def test_the_hook_gives_the_advantages_of_credit(played, name):
    adapter = importlib.import_module(MODULE)
    columns = played.data.non_tensor_batch
    adapter.assign(played.data, credit.make(name), np.random.default_rng(0))
    found = played.data.batch["advantages"]
    assert found.dtype == torch.float32
    mask = played.data.batch["response_mask"]
    wanted = expected(columns["turn_records"], columns["uid"], mask, name)
    assert (wanted != 0).any()
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)


@with_verl
def test_without_records_methods_of_outcomes_work_in_any_trainer(recorded):
    from verl import DataProto
    from verl.trainer.ppo.ray_trainer import compute_advantage

    importlib.import_module(MODULE)
    mask = torch.tensor(recorded.mask())
    rewards = torch.zeros(mask.shape)
    rewards[:, -1] = torch.tensor([turns[-1].outcome for turns in recorded.records])
    tensors = {"response_mask": mask, "token_level_rewards": rewards}
    data = DataProto.from_dict(tensors, non_tensors={"uid": objects(recorded.uid)})
    records = [[turn.to_dict() for turn in turns] for turns in recorded.records]
    for name in ("grpo", "rloo", "dr_grpo", "reinforce_pp"):
        found = compute_advantage(data, f"credit_{name}", config={}).batch
        wanted = expected(records, recorded.uid, mask, name)
        np.testing.assert_allclose(found["advantages"].numpy(), wanted, atol=1e-6)
        assert found["returns"] is found["advantages"]
    with pytest.raises(credit.MissingColumn, match="trainer_mode=credit_sync, which passes them"):
        compute_advantage(data, "credit_mgr", config={})
    options = {"credit": {"alpha": 1.5}}
    with pytest.raises(ValueError, match=r"alpha .* got 1\.5"):
        compute_advantage(data, "credit_has", config=options)


@with_verl
def test_an_estimator_that_gets_the_columns_uses_the_records(played):
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    batch, columns = played.data.batch, played.data.non_tensor_batch
    found, _ = get_adv_estimator_fn("credit_gigpo")(
        token_level_rewards=batch["rm_scores"],
        response_mask=batch["response_mask"],
        config={},
        batch=batch,
        non_tensor_batch=columns,
    )
    wanted = expected(columns["turn_records"], columns["uid"], batch["response_mask"], "gigpo")
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)


class Queue:
    """verl's TransferQueue in this process, without Ray: rows of fields by key."""

    def __init__(self):
        self.rows, self.tags = {}, {}

    def kv_batch_put(self, *, keys, partition_id, fields=None, tags=None):
        for name in fields.keys() if fields is not None else ():
            values = fields.get(name)
            values = values.unbind() if isinstance(values, torch.Tensor) else values.tolist()
            for key, value in zip(keys, values, strict=True):
                self.rows.setdefault(key, {})[name] = value
        self.tags |= dict(zip(keys, tags or [], strict=bool(tags)))
        return SimpleNamespace(keys=keys, tags=tags, partition_id=partition_id)

    async def async_kv_batch_put(self, **given):
        return self.kv_batch_put(**given)

    async def async_kv_put(self, *, key, partition_id, tag):
        self.tags[key] = tag

    def kv_batch_get(self, *, keys, partition_id, select_fields=None):
        from verl.utils.tensordict_utils import list_of_dict_to_tensordict

        there = [self.rows[key] for key in keys]
        names = [name for name in select_fields or there[0] if name in there[0]]
        return list_of_dict_to_tensordict([{name: row[name] for name in names} for row in there])


@pytest.fixture
def queue(monkeypatch):
    import transfer_queue

    queue = Queue()
    for name in ("kv_batch_put", "kv_batch_get", "async_kv_batch_put", "async_kv_put"):
        monkeypatch.setattr(transfer_queue, name, getattr(queue, name))
    monkeypatch.setattr(transfer_queue, "init", lambda *_: None)
    return queue


def play_into_the_queue(config, path, queue):
    """12 episodes, 4 of each of 3 tasks, in the worker of verl's trainers; keys in any order."""
    from transfer_queue import KVBatchMeta
    from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
    from verl.trainer.ppo.v1 import AgentLoopWorkerTQ

    plain = AgentLoopWorkerTQ.__ray_metadata__.modified_class  # without Ray around it
    worker = plain(config, Server(tiny_tokenizer()))
    batch = prompts(config, worker.tokenizer, path)

    async def generate():
        for row in range(3):
            prompt = {name: column[row] for name, column in batch.items()}
            prompt |= {"uid": f"task-{row}", "global_steps": 1}
            where = {"step": 1, "sample_index": row, "rollout_n": 0, "validate": False}
            await worker._run_prompt(prompt, {"logprobs": True}, where)

    asyncio.run(generate())
    assert [queue.tags[f"task-{row}"]["status"] for row in range(3)] == ["finished"] * 3
    keys = [key for key, tag in queue.tags.items() if tag["status"] == "success"]
    keys = [keys[row] for row in np.random.default_rng(2).permutation(len(keys))]
    tags = [queue.tags[key] for key in keys]
    meta = KVBatchMeta(keys=keys, tags=tags, partition_id="train")
    return keys, upsample_batch_to_divisible_size(meta, len(keys) + 3, 1)


@with_verl
@pytest.mark.parametrize(
    "case",
    [("history", "mgr", {"beta": 0.25}), ("turn", "empg", {}), ("turn", "gigpo", {"omega": 2})],
)
def test_verls_own_trainer_computes_advantages_of_turns(model, tmp_path, queue, case):
    """Its worker plays into the queue, its trainer reads there; rows fill up the batch."""
    from verl.trainer.ppo import v1

    context, name, option = case
    path = tasks(tmp_path, context=context)
    changed = {f"+algorithm.credit.{key}": value for key, value in option.items()}
    changed["algorithm.adv_estimator"] = f"credit_{name}"
    changed["algorithm.rollout_correction.bypass_mode"] = context == "history"
    config = composed(model, path, **changed)
    trainer = v1.get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    assert trainer.trainer_mode == "sync"
    keys, meta = play_into_the_queue(config, path, queue)
    assert len(keys) == 12 if context == "history" else len(keys) > 36
    rows = [queue.rows[key] for key in keys]
    if context == "history":
        trainer._compute_old_log_prob(meta, {})
    else:  # what verl's GPU worker would compute
        for key in meta.keys:
            row = queue.rows[key]
            row["old_log_probs"] = row["rollout_log_probs"].clone()
            row["entropy"] = torch.rand(row["responses"].shape)
    trainer.global_steps = 7
    trainer._compute_advantage(meta, {})

    mask = np.zeros((len(rows), max(len(row["response_mask"]) for row in rows)))
    records = []
    for number, row in enumerate(rows):
        mask[number, : len(row["response_mask"])] = row["response_mask"]
        for turn in (turns := row["extra_fields"]["turn_records"]):
            if "entropy" in row:
                turn["entropy"] = float(row["entropy"][slice(*turn["span"])].mean())
        records.append(turns)
    trajectory = [row["extra_fields"]["trajectory"] for row in rows]
    of_credit = credit.rows_of(records, [row["uid"] for row in rows], trajectory=trajectory)
    assert len(of_credit.turns.group) == 12
    advantage = credit.make(name, **option)(of_credit.turns, np.random.default_rng([7, 0]))
    wanted = of_credit.scatter(advantage, mask, spans_of(records))
    assert (wanted != 0).any()
    for number, row in enumerate(rows):
        found = row["advantages"].numpy()
        np.testing.assert_allclose(found, wanted[number, : len(found)], atol=1e-6)
    assert all((queue.rows[key]["advantages"] == 0).all() for key in meta.keys[len(keys) :])


@with_verl
def test_a_row_that_is_missing_or_of_another_loop_is_refused(model, tmp_path, queue):
    from verl.trainer.ppo.v1 import get_trainer_cls

    path = tasks(tmp_path, context="turn")
    config = composed(model, path, **{"algorithm.rollout_correction.bypass_mode": True})
    trainer = get_trainer_cls("credit_sync")(config)
    _, meta = play_into_the_queue(config, path, queue)
    trainer.global_steps = 1
    middles = [key for key in meta.keys if key.endswith("_1") and f"{key[:-1]}2" in meta.keys]
    gone = meta.keys.index(middles[0])  # the last turn of an episode would leave no gap
    del meta.keys[gone], meta.tags[gone]
    with pytest.raises(ValueError, match="has no step 1, but step 2"):
        trainer._compute_advantage(meta, {})
    del queue.rows[meta.keys[0]]["extra_fields"]["turn_records"]
    with pytest.raises(ValueError, match="the batch has no turn_records; set agent_name to"):
        trainer._compute_advantage(meta, {})


@with_verl
def test_the_page_runs(played, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert any("rows = credit.rows_of(" in block and "rows.scatter(" in block for block in blocks)
    source = Path(importlib.import_module(MODULE).__file__).read_text()
    assert "rows = rows_of(" in source
    assert 'data.batch["advantages"] = rows.scatter(' in source
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {"data": played.data})  # noqa: S102 - our own page
    assert (played.data.batch["advantages"] != 0).any()


def copied(columns, row, other):
    """Make another row one of the same trajectory."""
    for name in ("turn_records", "trajectory"):
        columns[name][other] = copy.deepcopy(columns[name][row])


@with_verl
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["turn_records"][0].pop(0), "has no step 0, but step 1"),
        (lambda c: copied(c, 0, 11), r"uid 'task 2' has the tasks '\d+-\w+-\w+' and '"),
        (lambda c: c["turn_records"][2][0].update(span=None), "turn 0 of row 2 has no token span"),
        (lambda c: c["turn_records"][2][0].update(span=(0, 3)), "token 3 of row 2 is in no span"),
        (lambda c: c["turn_records"][2][-1].update(outcome=None), "has no outcome"),
        (lambda c: c.pop("turn_records"), "the batch has no turn_records; set agent_name to"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(played, change, message):
    adapter = importlib.import_module(MODULE)
    change(played.data.non_tensor_batch)
    with pytest.raises(ValueError, match=message):
        adapter.assign(played.data, credit.make("gigpo"))


@with_verl
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda model, path: play(
                composed(model, tasks(path, max_reply_tokens=2000)),
                path / "tasks.parquet",
                Server(tiny_tokenizer()),
            ),
            "response_length=1500 leaves no room for a reply of 2000",
        ),
        (
            lambda model, path: play(
                composed(model, tasks(path, context="turn")),
                path / "tasks.parquet",
                Server(tiny_tokenizer()),
            ),
            "only verl's v1 trainers take",
        ),
        (
            lambda model, path: importlib.import_module("verl.trainer.ppo.v1").get_trainer_cls(
                "credit_sync"
            )(composed(model, tasks(path), **{"algorithm.use_kl_in_reward": True})),
            "set it to False and actor_rollout_ref",
        ),
        (
            lambda model, path: importlib.import_module(MODULE).write_tasks(
                path / "tasks.parquet", "VisualSokoban-v0", count=1
            ),
            "shows images, and this adapter plays text",
        ),
    ],
)
def test_what_cannot_be_played_is_refused(model, tmp_path, call, message):
    with pytest.raises(ValueError, match=message):
        call(model, tmp_path)


@with_verl
def test_an_episode_ends_when_its_tokens_are_used_up(model, tmp_path):
    path = tasks(tmp_path)
    config = composed(model, path, **{"actor_rollout_ref.rollout.response_length": 130})
    data = play(config, path, Server(tiny_tokenizer(), logprobs=False))
    records = data.non_tensor_batch["turn_records"]
    assert min(map(len, records)) < 4
    assert all(turns[-1]["outcome"] == 0 for turns in records)
    assert (data.batch["attention_mask"][:, PROMPT:].sum(-1) <= 130).all()
    assert "rollout_log_probs" not in data.batch


@with_verl
@pytest.mark.parametrize(
    ("kept", "end"), [(True, "</action>"), (False, "<|end|>"), (False, "</s>")]
)
def test_a_reply_keeps_a_tag_that_is_a_token(kept, end):
    adapter = importlib.import_module(MODULE)
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens(
        {"eos_token": "</s>", "additional_special_tokens": ["</action>", "<|end|>"]}
    )
    ids = [*tokenizer.encode("<action>look"), tokenizer.convert_tokens_to_ids(end)]
    loop = SimpleNamespace(tokenizer=tokenizer)
    assert adapter.EpisodeLoop._text(loop, ids) == "<action>look" + (end if kept else "")


@with_verl
def test_an_untested_release_is_told_and_a_wrong_one_refused():
    check_releases(
        "verl",
        "verl",
        # importing verl imports the plug-in: away with it
        "from verl.experimental.agent_loop import agent_loop as a; del a.AgentLoopOutput; "
        "import sys; sys.modules.pop('agent_envs_adapters.verl', None)",
    )
