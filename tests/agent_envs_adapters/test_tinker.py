"""The adapter of Tinker's cookbook: its rollouts of groups, and the data of its loop."""

import asyncio
import importlib.util
import json
import pickle
import runpy

import numpy as np
import pytest

import credit
from agent_envs_adapters.episodes import Episodes
from credit.rows import rows_of

from .solving import WAIT, check_reload, needs, save_tokenizer, solution, write_block

THERE = importlib.util.find_spec("tinker_cookbook") is not None
pytestmark = needs("tinker", "tinker_cookbook")
if THERE:
    from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
    from tinker_cookbook.rl import train
    from tinker_cookbook.rl.rollout_limits import RolloutLimits
    from tinker_cookbook.rl.rollouts import do_group_rollout
    from tinker_cookbook.tokenizer_utils import get_tokenizer

    from agent_envs_adapters import tinker as adapter
    from agent_envs_adapters.tinker import RECORD, AgentEnvsDatasetBuilder, assemble_data, use

    class Player(TokenCompleter):
        """Every other episode gets the replies that solve its task, the others wait."""

        def __init__(self, tokenizer, solutions, renderer):
            self.tokenizer, self.solutions, self.opened = tokenizer, solutions, 0
            self.head, self.start, self.end = MARKS[renderer]
            self.solving = {}

        async def __call__(self, model_input, stop, *, max_tokens=None):
            text = self.tokenizer.decode(model_input.to_ints())
            turn = text.count(self.head) - 1
            if turn == 0:
                self.opened += 1
                self.solving[asyncio.current_task()] = self.opened % 2
            first = next(first for first in self.solutions if first in text)
            solves = self.solving[asyncio.current_task()]
            reply = self.solutions[first][turn] if solves else f"{WAIT} again"
            tokens = self.tokenizer.encode(self.start + reply + self.end)[:max_tokens]
            return TokensWithLogprobs(tokens, [-1.0] * len(tokens))


TURNS = 12
METHODS = {"gigpo": {}, "mgr": {"gate": "none"}, "rebn": {"gamma": 0.9}}
MARKS = {  # what is before a reply, begins and ends it
    "qwen3": ("<|im_start|>assistant", "", "<|im_end|>"),  # leaves out earlier thoughts
    "role_colon": ("Assistant:", " ", "\n\nUser:"),  # a conversation that only grows
}
OPTIONS = {"data": "embedded", "max_turns": TURNS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def make_builder(folder, **options):
    return AgentEnvsDatasetBuilder(
        **{
            "env": "AlfWorld-v0",
            "model_name": folder,
            "renderer_name": "role_colon",
            "batch_size": 2,
            "group_size": 4,
            "batches": 1,
            "options": OPTIONS,
            **options,
        }
    )


def play(folder, **options):
    """The groups of a batch, by the cookbook's own rollouts, and their builders."""

    async def run():
        dataset, _ = await make_builder(folder, **options)()
        groups = pickle.loads(pickle.dumps(dataset.get_batch(0)))
        episodes = Episodes("AlfWorld-v0", data="embedded", max_turns=50)
        solutions = {}
        for group in groups:
            first = episodes.start(**group.task)
            solutions[first.message], _ = solution(episodes, **group.task)
            episodes.release(first)
        renderer = options.get("renderer_name", "role_colon")
        player = Player(get_tokenizer(folder), solutions, renderer)
        return groups, [await do_group_rollout(group, player) for group in groups]

    return asyncio.run(run())


@pytest.fixture(scope="module")
def played(folder):
    return play(folder)


def records_of(groups):
    """Records of the episodes, as they were logged, and the group of each."""
    logged = [
        (uid, [json.loads(turn.logs[RECORD]) for turn in one.transitions])
        for uid, group in enumerate(groups)
        for one in group.trajectories_G
    ]
    for _, turns in logged:
        for turn in turns[:-1]:
            assert turn["outcome"] == 0.0  # as if it ended there
            turn |= {"outcome": None, "success": None}
    return [turns for _, turns in logged], [uid for uid, _ in logged]


def test_episodes_are_played_and_rewarded(played):
    _, groups = played
    for group in groups:
        success = [metrics["success"] for metrics in group.metrics_G]
        assert sorted(success) == [0.0, 0.0, 1.0, 1.0]
        assert group.get_total_rewards() == success  # AlfWorld pays 1 for a solved task
        waiting = [
            one for one, solved in zip(group.trajectories_G, success, strict=True) if not solved
        ]
        assert {len(one.transitions) for one in waiting} == {TURNS}


@pytest.mark.parametrize("renderer", MARKS)
@pytest.mark.parametrize("method", METHODS)
def test_the_loop_trains_on_the_credit_of_turns(folder, method, renderer, monkeypatch):
    monkeypatch.setattr(train, "assemble_training_data", train.assemble_training_data)
    builders, groups = play(folder, renderer_name=renderer)
    estimator = credit.make(method, **METHODS[method])
    use(estimator)
    data, metrics = asyncio.run(
        train.prepare_minibatch(builders, groups, get_tokenizer(folder), None, 0.0, 0.0)
    )
    assert metrics["env/all/success"] == 0.5
    expected = estimator(rows_of(*records_of(groups)).turns)
    turns = [turn for group in groups for one in group.trajectories_G for turn in one.transitions]
    wanted = [
        (token, pytest.approx(value, abs=1e-5))
        for turn, value in zip(turns, expected, strict=True)
        for token in turn.ac.tokens
    ]
    found = []
    for datum in data:
        columns = {name: one.to_torch().tolist() for name, one in datum.loss_fn_inputs.items()}
        for token, value, inside in zip(
            columns["target_tokens"], columns["advantages"], columns["mask"], strict=True
        ):
            assert inside or value == 0
            found += [(token, value)] * int(inside)
    assert found == wanted
    assert len(data) == (8 if renderer == "role_colon" else len(turns))
    assert len(np.unique(expected.round(6))) > 2


def test_an_episode_that_the_cookbook_ends_counts_as_cut_off(folder):
    _, groups = play(folder, limits=RolloutLimits(max_turns=2))
    records, uid = records_of(groups)
    assert {len(turns) for turns in records} == {2}
    data, metadata = assemble_data(credit.make("grpo"), groups)
    assert [one["group_idx"] for one in metadata] == uid
    assert not any(datum.loss_fn_inputs["advantages"].to_torch().any() for datum in data)


def test_a_cut_reply_is_a_turn(folder):
    _, groups = play(folder, limits=RolloutLimits(max_turn_tokens=5, max_turns=1))
    (turn,), *_ = records_of(groups)[0]
    assert not turn["valid"]
    assert turn["success"] is False


def test_test_data_have_their_own_options(folder):
    options = {"held_out": {"split": "valid_seen"}, "batch_size": 3, "batches": 4}
    training, held_out = asyncio.run(make_builder(folder, **options)())
    assert [len(training), len(held_out)] == [4, 1]
    tasks = [{group.task["task"] for group in one.get_batch(0)} for one in (training, held_out)]
    assert not tasks[0] & tasks[1]


def test_trajectories_of_other_environments_are_refused(played):
    _, groups = played
    turn = groups[0].trajectories_G[0].transitions[1]
    logs, turn.logs = turn.logs, {}
    with pytest.raises(ValueError, match="turn 1 of a trajectory has no record"):
        assemble_data(credit.make("grpo"), groups)
    turn.logs = logs


def test_the_block_of_the_page_runs(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(train, "assemble_training_data", train.assemble_training_data)
    monkeypatch.setenv("MODEL", folder)
    runpy.run_path(str(write_block("tinker", tmp_path)))
    assert capsys.readouterr().out.count("torch.Size") == 2


def test_an_untested_release_is_told_and_a_wrong_one_refused(monkeypatch):
    check_reload(adapter, "tinker-cookbook", (train, "assemble_training_data"), monkeypatch)
