"""Published preferences: what becomes of them, and that DPO learns from them."""

import json

import pytest

from agent_envs import BadAsset
from agent_envs.replies import FORM
from trainer import recipe
from trainer.build import load_policy
from trainer.learn.preferences import import_pairs
from trainer.model.policy import Model
from trainer.play.episode_files import read_episodes
from trainer.train import train

from .conftest import figures, quiet


def talk(*texts):
    who = ("human", "gpt")
    said = [{"from": who[at % 2], "value": text} for at, text in enumerate(texts)]
    return {"conversations": said}


PAIR = [talk("Ada", "go"), talk("Ada", "stay", "Thanks", "bye")]


@pytest.fixture
def pairs(tmp_path):
    def write(*rows):
        (tmp_path / "pairs.json").write_text(json.dumps(rows, indent=1))
        return str(tmp_path / "pairs.json")

    return write


def test_a_pair_is_a_group_and_its_tokens_are_those_of_the_policy(pairs, tiny_folder, tmp_path):
    assert import_pairs(pairs(*PAIR, *PAIR), str(tiny_folder), str(tmp_path)) == 2
    made = read_episodes(tmp_path / "pairs.parquet")
    assert [(one.group, one.outcome) for one in made] == [(0, 0.0), (0, 1.0), (1, 0.0), (1, 1.0)]
    first, second = made[1].steps
    assert [first.action, second.action] == ["stay", "bye"]
    chat = load_policy(Model(str(tiny_folder))).chat
    assert first.prompt_ids == list(chat.opening(f"{FORM.instruction}\n\nAda"))
    assert second.prompt_ids == chat.after(first.reply_ids, "Thanks")
    assert chat.text(second.reply_ids) == "<think></think><action>bye</action>"


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ([{}, PAIR[1]], "must be pairs of human and gpt"),
        ([talk("Ada"), PAIR[1]], "must be pairs of human and gpt"),
        ([talk("Ada", ""), PAIR[1]], "message 1 must be a text from 'gpt'"),
        ([{"conversations": ["Ada", "go"]}, PAIR[1]], "message 0 must be a text from 'human'"),
        ([talk("Bob", "go"), PAIR[1]], "must begin alike"),
    ],
)
def test_a_bad_pair_is_left_out(bad, says, pairs, tiny_folder, tmp_path):
    with pytest.warns(UserWarning, match=says):
        assert import_pairs(pairs(*bad, *PAIR), str(tiny_folder), str(tmp_path)) == 1
    with pytest.raises(BadAsset, match=says):
        import_pairs(pairs(*bad), str(tiny_folder), str(tmp_path))


def test_dpo_learns_from_pairs(pairs, tiny_folder, tmp_path):
    import_pairs(pairs(*PAIR), str(tiny_folder), str(tmp_path / "recorded"))
    options = [f"sampling.recorded={tmp_path / 'recorded'}", f"policy.model={tiny_folder}"]
    options += ["sft.steps=0", "run.steps=3", "eval.tasks=1", "sampling.max_reply_tokens=8"]
    train(recipe.load("sotopia dpo pocket", options), tmp_path / "run", console=quiet())
    losses = [line["dpo_loss"] for line in figures(tmp_path / "run") if "dpo_loss" in line]
    assert losses[-1] < losses[0]
