"""Environments that read whole replies, in rollouts, demonstrations and the update."""

import pytest

import credit
from trainer import recipe
from trainer.build import make_rollouts
from trainer.learn.batch import collate
from trainer.learn.rows import make_rows
from trainer.learn.sft import attempt_demonstrations
from trainer.play import episode_files as episodes
from trainer.play.records import Task
from trainer.run.metrics import describe

from .conftest import Script

CALL = '<reasoning>r</reasoning><tool>{"name": "wiki_search", "args": {"query": "town"}}</tool>'


@pytest.fixture
def tasks():
    panel = make_rollouts(recipe.load("wiki mt_grpo"), "train").panel
    return [Task(panel.task_ids[0], 0, 1), Task(panel.task_ids[0], 0, 1)]


def test_replies_reach_the_environment_whole_and_rewards_of_turns_are_kept(tasks, tmp_path):
    rollouts = make_rollouts(recipe.load("wiki mt_grpo", ["sampling.max_tokens=9000"]), "train")
    sampler = Script(
        lambda text, row: CALL if row == 0 and "Question: " in text else "<answer>x</answer>",
        max_reply_tokens=200,
    )
    caller, guesser = rollouts.play(tasks, sampler, seed=0)
    assert sampler.prompts[0].startswith("You have access to the following tools")
    assert [step.action for step in caller.steps][1] == "<answer>x</answer>"
    assert caller.steps[0].reply == CALL
    assert caller.steps[0].turn_reward["tool_execution"] == 0.2
    assert guesser.steps[0].turn_reward == {"tool_execution": 0.0, "result_has_answer": 0.0}
    assert guesser.outcome == pytest.approx(
        0.2 * (0.2 + 0.2 + 0.2) + 0.2
    )  # form, and tags used once
    assert caller.outcome > guesser.outcome  # reasoning is a field
    assert describe([caller, guesser])["tool_execution"] == pytest.approx(0.1)

    turns = credit.Turns.from_episodes([caller, guesser])
    assert turns.turn_reward_names == ("tool_execution", "result_has_answer")
    called, answered, guessed = credit.make("mt_grpo")(turns)
    assert called > answered > 0 > guessed

    episodes.write_episodes(tmp_path / "e.parquet", [caller, guesser])
    assert episodes.read_episodes(tmp_path / "e.parquet") == [caller, guesser]


def test_a_turn_limit_pays_what_the_environment_pays(tasks):
    rollouts = make_rollouts(recipe.load("wiki grpo", ["sampling.max_tokens=9000"]), "train")
    sampler = Script(lambda *_: "no tag at all", max_reply_tokens=200)
    (episode, _) = rollouts.play(tasks, sampler, seed=0)
    assert episode.truncated
    assert episode.outcome == pytest.approx(0.04)  # the floor of the form's reward
    assert [step.reward for step in episode.steps] == [0.0, 0.0]


@pytest.mark.parametrize("name", ["search_r1 grpo", "search gigpo", "wiki mt_grpo"])
def test_no_loss_on_what_the_environment_says(name, tasks, tiny_policy):
    loaded = recipe.load(name, ["sampling.max_tokens=9000"])
    rollouts = make_rollouts(loaded, "train")
    chat = tiny_policy.chat
    (episode,) = attempt_demonstrations(
        rollouts, [Task(rollouts.panel.task_ids[3], 0, 1)], tiny_policy, "oracle"
    )
    batch = collate(make_rows([episode]))
    told = [chat.text(step.reply_ids) for step in episode.steps]
    assert all("</search>" in text or "</answer>" in text or "</tool>" in text for text in told)
    said = [token for step in episode.steps for token in step.reply_ids]
    assert batch.target.tolist() == said
    assert len(said) < batch.ids.numel() / 2  # most of the rest is what the environment said
