"""Attribution: differences of log-probabilities, by hand, and a table of a run."""

import numpy as np
import pytest
import torch

import credit
from agent_envs_lab import attribution
from agent_envs_lab.attribution import (
    BLIND,
    PARTS,
    Attribution,
    attribute,
    attribute_model,
    save,
    split_truth,
    table,
)
from agent_envs_lab.benchmark import SHIPPED
from agent_envs_lab.papers.lab import read_lab
from agent_envs_lab.truth import Truth
from tests.trainer.conftest import own_sampler, short
from trainer import recipe
from trainer.build import make_rollouts
from trainer.learn.update import recompute_logprobs
from trainer.play.source import draw_tasks


def played(policy, context, folder):
    chosen = short(folder, f"prompt.context={context}", "env.max_turns=3")
    rollouts = make_rollouts(chosen, "train", blind=BLIND)
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


def test_equal_turns_of_several_rollouts_are_scored_once(
    corridor, tiny_policy, tiny_folder, monkeypatch
):
    episodes = played(tiny_policy, "history", tiny_folder)
    alone = attribute(tiny_policy, episodes, tokens=10_000)
    scored = []

    def note(policy, rows, **how):
        scored.append(len(rows))
        return recompute_logprobs(policy, rows, **how)

    monkeypatch.setattr(attribution, "recompute_logprobs", note)
    result = attribute(tiny_policy, [*episodes, *episodes[:2]], tokens=10_000)
    turns = sum(len(e.steps) for e in episodes)
    assert scored == [turns] * (1 + len(BLIND))  # each prompt once, the whole one too
    again = sum(len(e.steps) for e in episodes[:2])
    for name in ("gains", "trajectory", "divergence"):
        one, other = getattr(alone, name), getattr(result, name)
        np.testing.assert_array_equal(other[:turns], one)
        np.testing.assert_array_equal(other[turns:], one[:again])


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
    told = by_hand(gains=np.array([[1.0, -1.0, 2.0], [0, 0, 0], [3.0, 0, 1.0]]))
    lost = {part: told.list_measures()[part].mean() for part in PARTS}
    assert lost == pytest.approx({"goal": 4 / 3, "history": -1 / 3, "observation": 1.0})
    assert told.share.tolist() == pytest.approx([0.5, 0.125, 0.375])
    assert by_hand(gains=np.zeros((3, 3))).share.tolist() == [0, 0, 0]


def by_hand(**changes):
    """Three turns: the first is of unusually low entropy, the second of unusually high entropy."""
    columns = {
        "gains": np.ones((3, 3)),
        "trajectory": np.array([1.0, 2.0, 6.0]),
        "divergence": np.array([0.1, 0.3, 0.5]),
        "unusual": np.array([-1, 1, 0]),
        "advantage": np.array([-1.0, 0.0, 1.0]),
        "success": np.array([False, True, True]),
        "task": np.array([4, 5, 6]),
    }
    return Attribution(**(columns | changes))


def test_measures_of_outliers_and_inliers_by_hand(tmp_path):
    measures, tasks = by_hand().list_measures(), by_hand().list_tasks
    assert all(len(tasks(name)) == len(values) for name, values in measures.items())
    assert (tasks("outliers_low"), tasks("kl_inliers")) == ([4, 5], [6])
    means = {name: values.mean() for name, values in measures.items()}
    assert [*means][:3] == [*PARTS]
    assert {name: mean for name, mean in means.items() if name not in PARTS} == pytest.approx({
        "kl": 0.3, "attribution": 3.0, "outliers": 2 / 3, "outliers_low": 0.5,
        "outliers_high": 0.5, "advantage_outliers": -0.5, "advantage_inliers": 1.0,
        "attribution_outliers": 1.5, "attribution_inliers": 6.0, "kl_outliers": 0.2,
        "kl_inliers": 0.5, "success_outliers": 0.5, "success_inliers": 1.0,
    })  # fmt: skip
    none = by_hand(unusual=np.zeros(3, int)).list_measures()
    assert none.keys() == {*PARTS, "kl", "attribution", "outliers"}
    save(measures, tmp_path / "lab.json")
    assert read_lab(tmp_path, "outliers").tolist() == pytest.approx([2 / 3])
    with pytest.raises(KeyError, match="no measure 'klk', did you mean 'kl'"):
        read_lab(tmp_path, "klk")


def test_the_divergence_of_a_turn_is_exact(corridor, tiny_policy, tiny_folder):
    """Against the definition, token by token, over the whole vocabulary."""
    episodes = played(tiny_policy, "turn", tiny_folder)
    result = attribute(tiny_policy, episodes, tokens=10_000)
    step = episodes[0].steps[0]

    def distributions(prompt):
        ids = torch.tensor([[*prompt, *step.reply_ids]])
        with torch.no_grad():
            logits = tiny_policy.model(ids).logits[0, -len(step.reply_ids) - 1 : -1]
        return logits.double().log_softmax(-1)

    seeing, guessing = distributions(step.prompt_ids), distributions(step.blind_ids["both"])
    each = (seeing.exp() * (seeing - guessing)).sum(-1)
    assert result.divergence[0] == pytest.approx(each.mean().item(), abs=1e-5)
    assert (result.divergence >= -1e-6).all()
    spoken = torch.tensor(step.reply_ids)[:, None]
    lost = (seeing.gather(-1, spoken) - guessing.gather(-1, spoken)).mean().item()
    assert result.trajectory[0] == pytest.approx(lost, abs=1e-4)


def test_the_true_advantage_of_outliers():
    path = SHIPPED / "webshop_trained.parquet"
    found, truth = split_truth(path), Truth.load(path)
    out = credit.STAPO().mask(truth.turns)
    assert 0 < out.sum() < len(out)
    true = truth.value_after - truth.value_before
    np.testing.assert_array_equal(found["true_advantage_outliers"], true[out])
    np.testing.assert_array_equal(found["true_advantage_inliers"], true[~out])
    estimated = credit.GiGPO().step_advantage(truth.turns)
    np.testing.assert_allclose(found["advantage_inliers"], estimated[~out])


def test_a_table_of_policies(corridor, tiny_folder):
    chosen = short(tiny_folder, "eval.tasks=2", "eval.split=train", "env.max_turns=2")
    result = attribute_model(chosen)
    names, cells = table({"step 3": result}).columns
    assert [names.header, cells.header] == [
        "log-probability a reply loses without",
        "step 3, nats (share)",
    ]
    told = dict(zip(map(str, names.cells), map(str, cells.cells), strict=True))
    assert [*told][:5] == [*PARTS, "of each turn", "kl"]
    assert told["goal"].startswith(f"{result.gains[:, 0].mean():.3g}")
    assert told["goal"].endswith(f" ({result.share[0]:.0%})")
