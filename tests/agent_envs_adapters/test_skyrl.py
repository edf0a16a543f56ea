"""The adapter of SkyRL: episodes through skyrl-gym, rows of a data set, advantages of tokens."""

import importlib.util
import json

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

import credit
from agent_envs_adapters.episodes import Episodes
from credit.rows import TurnRecord, rows_of

from .solving import WAIT, check_releases, needs, run_page, solution

THERE = importlib.util.find_spec("skyrl_gym") is not None
pytestmark = needs("verifiers", "skyrl_gym")
if THERE:
    import skyrl_gym
    from skyrl_gym.metrics import aggregate_for_environment

    from agent_envs_adapters.skyrl import (
        ENV_CLASS,
        RECORDS,
        TurnCredit,
        dataset_rows,
        register,
        token_advantages,
    )

TASKS = {"AlfWorld-v0": {"data": "embedded"}, "WebShop-v1": {}, "Sokoban-v0": {}, "EZPoints-v0": {}}


@pytest.fixture(autouse=True)
def registered():
    register()
    register()  # again is fine


def opened(row, **extras):
    """What SkyRL's generator does with a row: other columns than its own two are extras."""
    given = {name: row[name] for name in row if name not in {"prompt", "env_class"}}
    env = skyrl_gym.make(row["env_class"], env_config={}, extras=given | {"max_turns": 30} | extras)
    prompt, _ = env.init(row["prompt"])
    return env, prompt


def played(row, replies):
    """An episode in the form of SkyRL's output: a reply is 3 tokens, what comes after it 2."""
    env, _ = opened(row)
    mask, rewards = [], []
    for reply in replies:
        result = env.step(reply)
        rewards += [0.0, 0.0, result["reward"], 0.0, 0.0]
        mask += [1, 1, 1, 0, 0]
    metrics = env.get_metrics()
    env.close()
    return mask[:-2], rewards[:-2], metrics


@pytest.fixture(scope="module")
def rows():
    return dataset_rows("AlfWorld-v0", 2, seed=3, data="embedded")


@pytest.fixture(scope="module")
def group(rows):
    """Two prompts with four episodes each, in SkyRL's output: every other one is solved."""
    episodes = Episodes("AlfWorld-v0", data="embedded", max_turns=30)
    masks, rewards, metrics, uids = [], [], [], []
    for row in rows:
        replies, _ = solution(episodes, task=row["task"], seed=row["seed"])
        for at in range(4):
            chosen = replies if at % 2 else replies[: at + 1] + [WAIT] * 3
            for column, value in zip((masks, rewards, metrics), played(row, chosen), strict=True):
                column.append(value)
            uids.append(row["task"])
    return {"loss_masks": masks, "rewards": rewards, "env_metrics": metrics}, uids


@pytest.mark.parametrize("name", TASKS)
def test_the_explorer_solves_through_skyrl_gym(name):
    (row,) = dataset_rows(name, 1, seed=1, **TASKS[name])
    assert json.loads(json.dumps(row)) == row
    episodes = Episodes(name, max_turns=30, **TASKS[name])
    replies, episode = solution(episodes, task=row["task"], seed=row["seed"])
    env, prompt = opened(row)
    assert prompt == row["prompt"]
    for reply in replies:
        result = env.step(reply)
        assert [one["role"] for one in result["observations"]] == ["user"] * (not result["done"])
    assert result["done"]
    metrics = env.get_metrics()
    assert metrics["success"] is True
    assert metrics["turns"] == env.turns == len(replies)
    assert [TurnRecord.of(one) for one in metrics[RECORDS]] == episode.records
    total = sum(record.reward for record in episode.records) + episode.outcome
    before = sum(one["reward"] for one in metrics[RECORDS][:-1])
    assert before + result["reward"] == pytest.approx(total)
    with pytest.raises(ResetNeeded, match="has ended"):
        env.step(replies[0])


def test_a_system_message_of_the_prompt_is_kept(rows):
    system = {"role": "system", "content": "Be brief."}
    env, prompt = opened(rows[0] | {"prompt": [system, *rows[0]["prompt"]]})
    assert prompt == [system, *rows[0]["prompt"]]
    env.close()


def test_the_limit_on_turns_is_skyrls(rows):
    env, _ = opened(rows[0], max_turns=2)
    assert [env.step(WAIT)["done"], env.step(WAIT)["done"]] == [False, True]
    assert env.get_metrics()["truncated"] is True


def test_metrics_are_averaged_without_records(rows):
    metrics = []
    for turns in (1, 3):
        env, _ = opened(rows[0])
        for _ in range(turns):
            env.step(WAIT)
        metrics.append(env.get_metrics())
        assert metrics[-1][RECORDS][-1]["outcome"] == 0.0  # cut off
        env.close()
    found = aggregate_for_environment(ENV_CLASS, metrics)
    assert found["turns"] == 2.0
    assert found["truncated"] == 1.0
    assert RECORDS not in found


@pytest.mark.parametrize(
    ("extras", "said"),
    [
        ({"env": "AlfWorld-v1"}, "no environment 'AlfWorld-v1' is registered"),
        ({"options": '{"split": "training"}'}, "training"),
        ({"options": '{"context": "turn"}'}, "multiple values for keyword argument 'context'"),
        ({"env": "VisualSokoban-v0", "options": "{}"}, "shows images"),
        ({"task": "nowhere"}, "no task 'nowhere'"),
    ],
    ids=["id", "split", "context", "images", "task"],
)
def test_extras_that_do_not_fit_are_refused(rows, extras, said):
    with pytest.raises((ValueError, TypeError), match=said):
        opened(rows[0] | extras)


@pytest.mark.parametrize("method", ["mgr", "gigpo", "stapo", "has"])
def test_every_reply_gets_the_advantage_of_its_turn(group, method):
    output, uids = group
    estimator = credit.make(method)
    found = token_advantages(estimator, output, uids, rng=np.random.default_rng(1))
    table = rows_of([one[RECORDS] for one in output["env_metrics"]], uids)
    expected = iter(estimator(table.turns, np.random.default_rng(1)))
    values = set()
    for row, mask, metrics in zip(found, output["loss_masks"], output["env_metrics"], strict=True):
        wanted = []
        for _ in range(metrics["turns"]):
            value = float(next(expected))
            values.add(value)
            wanted += [value] * 3 + [0.0] * 2
        assert row == pytest.approx(wanted[: len(mask)], abs=1e-9)
    assert len(values) > 2


def test_step_wise_rows_get_the_same(group):
    """SkyRL's step_wise_trajectories: a row is a turn, and only the last one has metrics."""
    output, uids = group
    steps = {"loss_masks": [], "env_metrics": [], "is_last_step": []}
    of_row = []
    for metrics, uid in zip(output["env_metrics"], uids, strict=True):
        for turn in range(metrics["turns"]):
            last = turn + 1 == metrics["turns"]
            steps["loss_masks"].append([1, 1, 1, 0, 0])
            steps["is_last_step"].append(last)
            steps["env_metrics"].append(metrics if last else {})
            of_row.append(uid)
    whole = token_advantages(credit.make("gigpo"), output, uids)
    found = token_advantages(credit.make("gigpo"), steps, of_row)
    assert [one for row in found for one in row[:3]] == [
        value
        for row, mask in zip(whole, output["loss_masks"], strict=True)
        for value, inside in zip(row, mask, strict=True)
        if inside
    ]


def test_filtered_responses_count_in_their_group_and_get_nothing(group):
    output, uids = group
    masks = [[0] * len(mask) if at == 1 else mask for at, mask in enumerate(output["loss_masks"])]
    whole = token_advantages(credit.make("gigpo"), output, uids)
    found = token_advantages(credit.make("gigpo"), output | {"loss_masks": masks}, uids)
    assert found[1] == [0.0] * len(masks[1])
    assert found[0] == whole[0]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"loss_masks": [[1, 0, 1]] * 8}, "have 2 replies in their loss masks"),
        ({"env_metrics": [{}] * 8}, "no turn records"),
        ({"env_metrics": None}, "no turn records"),
    ],
    ids=["replies", "records", "metrics"],
)
def test_an_output_that_does_not_fit_is_refused(group, changed, said):
    output, uids = group
    with pytest.raises(ValueError, match=said):
        token_advantages(credit.make("gigpo"), output | changed, uids)


def test_the_trainers_advantages_are_right_aligned_and_padding_gets_nothing(group):
    torch = pytest.importorskip("torch")
    output, uids = group
    width = max(map(len, output["loss_masks"]))

    class Upstream:
        def convert_to_training_input(self, generator_output, uids):
            return {"rows": len(uids) + 1}

        def compute_advantages_and_returns(self, data):
            return data | {"advantages": torch.ones(data["rows"], width)}

    class Trainer(TurnCredit, Upstream):
        estimator = credit.make("gigpo")
        rng = None

    trainer = Trainer()
    data = trainer.compute_advantages_and_returns(trainer.convert_to_training_input(output, uids))
    found = data["advantages"].tolist()
    for row, given in zip(found, token_advantages(trainer.estimator, output, uids), strict=False):
        assert row == pytest.approx([0.0] * (width - len(given)) + given, abs=1e-6)
    assert found[-1] == [0.0] * width


def test_the_block_of_the_page_runs(tmp_path):
    run_page("skyrl", tmp_path)


def test_an_untested_release_is_told_and_a_wrong_one_refused():
    check_releases(
        "skyrl",
        "skyrl-gym",
        "from skyrl_gym.envs import base_text_env as base; del base.BaseTextEnvStepOutput",
    )
