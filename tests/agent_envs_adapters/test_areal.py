"""The adapter of AReaL: groups played by its client, and the advantages of its PPO actor."""

import asyncio
import importlib.util
import runpy

import pytest

import credit
from agent_envs_adapters.episodes import Episodes

from .solving import WAIT, check_reload, needs, save_tokenizer, solution, write_block

THERE = importlib.util.find_spec("areal") is not None
pytestmark = needs("areal", "areal")
if THERE:
    from areal.api import ModelResponse
    from areal.api.cli_args import GenerationHyperparameters, PPOActorConfig
    from areal.experimental.openai import ArealOpenAI
    from areal.trainer.ppo.actor import PPOActor
    from areal.utils import stats_tracker
    from areal.utils.data import concat_padded_tensors
    from transformers import AutoTokenizer

    from agent_envs_adapters import areal as adapter
    from agent_envs_adapters.areal import AgentEnvsWorkflow

OPTIONS = {"data": "embedded", "max_turns": 12}
METHODS = {"gigpo": {}, "mgr": {"gate": "none"}, "rtmc": {}}


class Engine:
    """AReaL's engine; every other episode gets the replies that solve its task."""

    def __init__(self, tokenizer, replies):
        self.tokenizer, self.replies, self.opened = tokenizer, replies, 0
        self.solving = {}

    async def agenerate(self, request):
        text = self.tokenizer.decode(request.input_ids)
        turn = text.count("<|im_start|>assistant") - 1
        if turn == 0:
            self.opened += 1
            self.solving[asyncio.current_task()] = self.opened % 2
        reply = self.replies[turn] if self.solving[asyncio.current_task()] else WAIT
        tokens = self.tokenizer.encode(f"{reply}<|im_end|>")
        return ModelResponse(
            input_tokens=request.input_ids,
            output_tokens=tokens,
            output_logprobs=[-1.0] * len(tokens),
            output_versions=[0] * len(tokens),
            tokenizer=self.tokenizer,
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def task():
    episodes = Episodes("AlfWorld-v0", **OPTIONS)
    return episodes.tasks(1, seed=2)[0]


def play(folder, task, **options):
    """What the workflow returns for a group of four."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    replies, _ = solution(Episodes("AlfWorld-v0", data="embedded", max_turns=50), **task)
    workflow = AgentEnvsWorkflow(
        "AlfWorld-v0",
        **{
            "tokenizer": tokenizer,
            "gconfig": GenerationHyperparameters(max_new_tokens=64),
            "group_size": 4,
            "options": OPTIONS,
            **options,
        },
    )
    engine = Engine(tokenizer, replies)
    return asyncio.run(workflow.arun_episode(engine, {"id": 7, **task})), len(replies)


@pytest.mark.parametrize("method", METHODS)
def test_the_actor_trains_on_the_credit_of_turns(folder, task, method):
    estimator = credit.make(method, **METHODS[method])
    seen = []

    def watch(turns, rng):
        seen.append((turns, estimator(turns, rng)))
        return seen[0][1]

    stats_tracker.export_all()
    found, turns = play(folder, task, credit=watch)
    logged = stats_tracker.export_all()
    assert logged["rollout/success"] == logged["rollout/reward"] == 0.5
    ((batch, expected),) = seen
    assert batch.outcome.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert len(found) == len(expected) == 2 * turns + 2 * 12
    config = PPOActorConfig(
        experiment_name="test", trial_name="test", path="", kl_ctl=0.0, adv_norm=None
    )
    rows = concat_padded_tensors([one.to_tensor_dict() for one in found.values()])
    data = PPOActor(config, None)._compute_advantages(rows)
    for advantages, mask, value in zip(
        data["advantages"], data["loss_mask"].bool(), expected, strict=True
    ):
        assert mask.any()
        assert advantages[mask].tolist() == pytest.approx([value] * int(mask.sum()), abs=1e-5)
    assert len({round(value, 6) for value in expected}) > 2


def test_a_method_by_name_is_that_estimator(folder, task):
    found, _ = play(folder, task, credit="gigpo", credit_options={"gamma": 0.9})
    again, _ = play(folder, task, credit=credit.make("gigpo", gamma=0.9))
    assert [one.reward for one in found.values()] == [one.reward for one in again.values()]


def test_an_episode_without_room_for_a_reply_ends(folder, task):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    first = Episodes("AlfWorld-v0", **OPTIONS).start(**task).message
    room = len(tokenizer.encode(first)) + 200
    found, _ = play(folder, task, credit="grpo", max_tokens=room)
    assert len(found) < 2 * 12
    assert {one.reward for one in found.values()} == {0.0}
    assert play(folder, task, credit="grpo", max_tokens=64)[0] is None


def test_a_group_of_groups_is_refused(folder, task):
    with pytest.raises(ValueError, match=r"n_samples must be 1.*got 8; give .* group_size"):
        play(folder, task, credit="grpo", gconfig=GenerationHyperparameters(n_samples=8))


def test_the_block_of_the_page_runs(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MODEL", folder)
    runpy.run_path(str(write_block("areal", tmp_path)))
    assert capsys.readouterr().out.count("chatcmpl reward 0.0") == 6


def test_an_untested_release_is_told_and_a_wrong_one_refused(monkeypatch):
    check_reload(adapter, "areal", (ArealOpenAI, "set_reward"), monkeypatch)
