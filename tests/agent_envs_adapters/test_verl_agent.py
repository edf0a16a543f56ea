"""verl-agent plays our environments and gets an advantage for each turn."""

import importlib
import importlib.util
import pickle
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import credit
from agent_envs_adapters.episodes import Episodes

from .solving import make_twelve, needs

# The recorded penalty is for GiGPO; other methods warn that they do not read it.
pytestmark = pytest.mark.filterwarnings("ignore:.*turns were paid beside them")
PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "verl_agent.md"
MODULE = "agent_envs_adapters.verl_agent"
THERE = importlib.util.find_spec("agent_system") is not None
CONFIG = SimpleNamespace(
    data=SimpleNamespace(train_batch_size=3, val_batch_size=2),
    env=SimpleNamespace(
        rollout=SimpleNamespace(n=4), seed=5, max_steps=6, history_length=2, env_name="ours"
    ),
)


class Base:
    """A stand-in for verl-agent's `EnvironmentManagerBase`: what the adapter uses of it."""

    def __init__(self, envs, projection_f, config):
        self.envs, self.projection_f, self.config = envs, projection_f, config

    def success_evaluator(self, *, total_infos, total_batch_list, **_):
        last = [
            max(t for t, row in enumerate(rows) if row["active_masks"]) for rows in total_batch_list
        ]
        won = [float(infos[at]["won"]) for infos, at in zip(total_infos, last, strict=True)]
        return {"success_rate": np.array(won)}


@pytest.fixture(
    params=["stand-in", pytest.param("genuine", marks=needs("verl_agent", "agent_system"))]
)
def adapter(request, monkeypatch):
    """The adapter on verl-agent's class, and on a stand-in that needs no verl-agent."""
    if request.param == "stand-in":
        names = "agent_system", "agent_system.environments", "agent_system.environments.base"
        for name in names:
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        sys.modules[names[-1]].EnvironmentManagerBase = Base
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return importlib.import_module(MODULE)


class Batch:
    """Rows of a batch as verl-agent keeps them."""

    def __init__(self, rows, seed=0):
        rng = np.random.default_rng(seed)
        self.non_tensor_batch = {}
        for name in ("uid", "traj_uid", "anchor_obs"):
            self.non_tensor_batch[name] = column = np.empty(len(rows), dtype=object)
            for at, row in enumerate(rows):
                column[at] = row[name]
        lengths = rng.integers(1, 9, size=(len(rows), 1))
        self.batch = {"response_mask": (np.arange(8) < lengths).astype(int)}


def rollout(manager, rng, max_steps=6, group_size=4):
    """What verl-agent's loop does with a manager: rows, infos of each episode, and success."""
    observed, infos = manager.reset(kwargs=None)
    count = len(observed["text"])
    done = np.zeros(count, dtype=bool)
    total, told = [[[] for _ in range(count)] for _ in range(2)]
    for _ in range(max_steps):
        active = ~done
        replies = [
            f"<think>so</think><action>{make_twelve(text)}</action>" if rng.random() < 0.7 else "hm"
            for text in observed["text"]
        ]
        before = observed
        observed, rewards, dones, infos = manager.step(replies)
        assert rewards.shape == dones.shape == (count,)
        for row in range(count):
            told[row].append(infos[row])
            total[row].append(
                {
                    "uid": f"group {row // group_size}",
                    "traj_uid": f"episode {row}",
                    "anchor_obs": before["anchor"][row],
                    "active_masks": active[row],
                    "is_action_valid": infos[row]["is_action_valid"],
                    "rewards": rewards[row],
                }
            )
        done |= dones
        if done.all():
            break
    success = manager.success_evaluator(
        total_infos=told, total_batch_list=total, episode_rewards=None, episode_lengths=None
    )
    return total, success["success_rate"]


def active(total):
    return [row for rows in total for row in rows if row["active_masks"]]


def test_what_it_needs_is_said(monkeypatch):
    if THERE:
        pytest.skip("verl-agent is installed")
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with pytest.raises(ImportError, match=r"clone https://github\.com/langfengQ/verl-agent"):
        importlib.import_module(MODULE)


def test_a_rollout(adapter):
    training, validation = adapter.make_envs(CONFIG, "EZPoints-v0")
    first, _ = training.reset(kwargs=None)
    assert first["image"] is None
    assert len(first["text"]) == 12
    assert len(set(first["text"][:4])) == 1
    total, success = rollout(training, np.random.default_rng(0))
    assert 0 < success.mean() < 1
    for played, won in zip(total, success, strict=True):
        rows = [row for row in played if row["active_masks"]]
        records = [row["anchor_obs"].record for row in rows]
        assert [record.step for record in records] == list(range(len(rows)))
        assert [record.anchor for record in records] == [row["anchor_obs"] for row in rows]
        assert [record.valid for record in records] == [bool(r["is_action_valid"]) for r in rows]
        assert records[-1].success == bool(won)
        paid = sum(record.reward for record in records) + records[-1].outcome
        assert sum(row["rewards"] for row in rows) == pytest.approx(paid)
    again, _ = training.reset(kwargs=None)
    assert again["text"] != first["text"]
    held, infos = validation.reset(kwargs=None)
    assert len(held["text"]) == 2
    assert held["text"] == validation.reset(kwargs=None)[0]["text"]
    assert not infos[0]["won"]
    training.close()
    validation.close()


def test_tasks_of_the_data_set(adapter):
    episodes = Episodes("EZPoints-v0", context="turn", max_turns=3)
    manager = adapter.EpisodeManager(episodes, CONFIG, groups=1)
    tasks = episodes.tasks(2, seed=9)
    _, infos = manager.reset(kwargs=tasks)
    assert [info["task_id"] for info in infos] == [task["task"] for task in tasks]


@pytest.mark.parametrize("name", ["mgr", "gigpo", "stapo", "has", "grpo"])
def test_the_hook_gives_the_advantages_of_credit(adapter, name):
    """Rows in any order, and some twice, as verl-agent's `adjust_batch` makes them."""
    manager, _ = adapter.make_envs(CONFIG, "EZPoints-v0", invalid_penalty=-0.1)
    rng = np.random.default_rng(1)
    total, _ = rollout(manager, rng)
    rows = active(total)
    rows = [rows[at] for at in [*rng.permutation(len(rows)), *rng.integers(len(rows), size=5)]]
    data = Batch(rows)
    adapter.assign(data, credit.make(name), np.random.default_rng(0))
    # Credit directly, of whole episodes in their order.
    order = list(dict.fromkeys(row["traj_uid"] for row in rows))
    episodes = {one["traj_uid"]: one["anchor_obs"].records for one in rows}
    groups = {one["traj_uid"]: one["uid"] for one in rows}
    of_credit = credit.rows_of([episodes[one] for one in order], [groups[one] for one in order])
    advantage = credit.make(name)(of_credit.turns, np.random.default_rng(0))
    of_turn = dict(
        zip(
            ((one, turn.step) for one in order for turn in episodes[one]),
            of_credit.advantage(advantage),
            strict=True,
        )
    )
    wanted = np.array([of_turn[row["traj_uid"], row["anchor_obs"].step] for row in rows])
    assert (wanted != 0).any()
    mask = data.batch["response_mask"]
    np.testing.assert_allclose(data.batch["advantages"], wanted[:, None] * mask, atol=1e-12)


def test_the_trainers_function_is_replaced(adapter, monkeypatch):
    there = ModuleType("verl.trainer.ppo.ray_trainer")
    for name in ("verl", "verl.trainer", "verl.trainer.ppo"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["verl.trainer.ppo"], "ray_trainer", there, raising=False)
    monkeypatch.setitem(sys.modules, there.__name__, there)
    manager, _ = adapter.make_envs(CONFIG, "EZPoints-v0")
    total, _ = rollout(manager, np.random.default_rng(2))
    data = Batch(active(total))
    mask = data.batch.pop("response_mask")
    there.compute_response_mask = lambda given: mask
    adapter.use(credit.make("gigpo"))
    found = there.compute_advantage(data, adv_estimator="grpo", gamma=1.0, gigpo_mode="mean_norm")
    assert found.batch["returns"] is found.batch["advantages"]
    assert (found.batch["advantages"] != 0).any()


def test_anchors_cross_processes_and_group_as_text(adapter):
    manager, _ = adapter.make_envs(CONFIG, "EZPoints-v0")
    observed, infos = manager.reset(kwargs=None)
    anchor = observed["anchor"][0]
    assert anchor == infos[0]["anchor"] == observed["anchor"][1]
    assert hash(anchor) == hash(infos[0]["anchor"])
    manager.step(["hm"] * 12)
    sent = pickle.loads(pickle.dumps(anchor))
    assert sent == anchor
    assert sent.record == anchor.record
    assert not sent.record.valid


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.pop(0), "has no step 0, but step 1"),
        (lambda rows: rows[0].update(uid="group 2"), "uid 'group 2' has the tasks"),
        (lambda rows: rows[0].update(anchor_obs="a desk"), "pass its make_envs to the trainer"),
    ],
)
def test_rows_that_do_not_fit_are_refused(adapter, change, message):
    manager, _ = adapter.make_envs(CONFIG, "EZPoints-v0")
    total, _ = rollout(manager, np.random.default_rng(3))
    rows = active(total)
    change(rows)
    with pytest.raises(ValueError, match=message):
        adapter.assign(Batch(rows), credit.make("gigpo"))


@pytest.mark.parametrize(
    ("options", "groups", "message"),
    [
        ({}, 1, "makes a prompt for each turn; use Episodes"),
        ({"context": "turn"}, 10**6, r"the split has \d+ tasks, got groups=1000000; lower it"),
    ],
)
def test_what_a_manager_does_not_play(adapter, options, groups, message):
    with pytest.raises(ValueError, match=message):
        adapter.EpisodeManager(Episodes("EZPoints-v0", **options), CONFIG, groups=groups)


def test_the_page_runs(adapter):
    manager, _ = adapter.make_envs(CONFIG, "EZPoints-v0")
    total, _ = rollout(manager, np.random.default_rng(4))
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    data = Batch(active(total))
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {"data": data, "config": CONFIG})  # noqa: S102 - our own page
    assert (data.batch["advantages"] != 0).any()
