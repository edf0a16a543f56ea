"""Attribution: differences of log-probabilities, by hand, and a table of a run."""

import numpy as np
import pytest
import torch

from agent_envs_lab.attribution import PARTS, Attribution, attribute, attribute_model, table
from tests.trainer.conftest import own_sampler, short
from trainer import recipe
from trainer.build import make_rollouts
from trainer.play.source import draw_tasks


def played(policy, context, folder):
    chosen = short(folder, f"prompt.context={context}", "env.max_turns=3")
    rollouts = make_rollouts(chosen, "train", blind=PARTS)
    tasks = draw_tasks(rollouts.panel, tasks=3, rollouts=1, seed=0, step=0)
    sampler = own_sampler(
        recipe.load("alfworld mgr pocket", ["sampling.max_reply_tokens=12"]), policy
    )
    return rollouts.play(tasks, sampler, seed=0)


@pytest.mark.parametrize("context", ["history", "turn"])
def test_a_gain_is_the_difference_of_two_log_probabilities(
    context, corridor, tiny_policy, tiny_folder
):
    episodes = played(tiny_policy, context, tiny_folder)
    result = attribute(tiny_policy, episodes, tokens=10_000)
    turn = len(episodes[0].steps) + 1  # the second turn of the second episode
    episode, step = episodes[1], episodes[1].steps[1]
    past = [i for s in episode.steps[:1] for i in (*s.prompt_ids, *s.reply_ids)]
    full = [*(past if context == "history" else []), *step.prompt_ids]

    def score(prompt):
        ids = torch.tensor([[*prompt, *step.reply_ids]])
        size = len(step.reply_ids)
        with torch.no_grad():
            told = tiny_policy.model(ids).logits[0, -size - 1 : -1].log_softmax(-1)
        return told.gather(-1, torch.tensor(step.reply_ids)[:, None]).sum().item()

    gains = [score(full) - score(step.blind_ids[part]) for part in PARTS]
    assert result.gains.shape == (sum(len(e.steps) for e in episodes), 3)
    np.testing.assert_allclose(result.gains[turn], gains, atol=1e-3)


def test_what_is_left_out_is_not_there(corridor, tiny_policy, tiny_folder):
    for context in ("history", "turn"):
        for episode in played(tiny_policy, context, tiny_folder):
            for number, step in enumerate(episode.steps):
                text = {
                    part: tiny_policy.tokenizer.decode(ids) for part, ids in step.blind_ids.items()
                }
                assert episode.goal.removesuffix(".") not in text["goal"]
                assert episode.goal.removesuffix(".") in text["history"]
                assert f"You stand at {episode.steps[-1].progress}" not in text["observation"]
                if number:
                    assert episode.steps[0].reply.strip() not in text["history"]


def test_shares_by_hand():
    told = Attribution(np.array([[1.0, -1.0, 2.0], [0, 0, 0], [3.0, 0, 1.0]]), 0.1)
    assert told.mean.tolist() == pytest.approx([4 / 3, -1 / 3, 1.0])
    assert told.share.tolist() == pytest.approx([0.5, 0.125, 0.375])
    assert Attribution(np.zeros((2, 3)), 0.0).share.tolist() == [0, 0, 0]


def test_a_table_of_policies(corridor, tiny_folder):
    chosen = short(tiny_folder, "eval.tasks=2", "eval.split=train", "env.max_turns=2")
    result = attribute_model(chosen)
    assert [column.header for column in table({"step 3": result}).columns] == [
        "",
        "step 3, nats (share)",
    ]
