"""A policy that sees: images from the environment through sampling and training."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agent_envs.prompt import IMAGE
from agent_envs.spaces import Picture
from trainer import recipe
from trainer.build import make_rollouts
from trainer.learn.batch import collate
from trainer.learn.prompts import prompts
from trainer.learn.rows import join_values, make_rows
from trainer.learn.update import recompute_logprobs, token_logprobs
from trainer.model.policy import Policy
from trainer.play.source import draw_tasks
from trainer.train import train

from .conftest import Script, figures, own_sampler, quiet

OPTIONS = [
    "env.id=EZPoints-v0", "env.options.observation=image", "env.max_turns=3", "env.split=train",
    "eval.split=val", "env.data=auto", "sampling.tasks=2", "sampling.rollouts=3",
    "sampling.max_reply_tokens=12", "sampling.max_tokens=2000", "eval.tasks=2", "run.threads=1",
]  # fmt: skip


@pytest.fixture
def policy(vision_folder):
    return Policy.load(str(vision_folder))


def played(policy, *options, blind=()):
    loaded = recipe.load("alfworld mgr pocket", [*OPTIONS, *options])
    rollouts = make_rollouts(loaded, "train", blind=blind)
    tasks = draw_tasks(rollouts.panel, tasks=2, rollouts=3, seed=0, step=1)
    sampler = own_sampler(loaded, policy)
    return rollouts.play(tasks, sampler, seed=1)


def test_a_picture_is_an_array_that_can_be_compared():
    array = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    picture = Picture.of(array)
    assert (picture.array == array).all()
    assert picture == Picture.of(array.copy())
    assert len({picture, Picture.of(array + 1)}) == 2


def test_an_image_has_as_many_tokens_as_pieces(policy):
    small, large = (Picture.of(np.zeros((n, n, 3), np.uint8)) for n in (56, 112))
    ids = policy.chat.opening(f"a {IMAGE} b {IMAGE} c")
    token = policy.vision.token
    assert ids.count(token) == 2
    full = policy.vision.expand_marks(ids, [small, large])
    assert full.count(token) == 4 + 16  # pieces of 28 x 28
    assert [one for one in full if one != token] == [one for one in ids if one != token]


@pytest.mark.parametrize("context", ["history", "turn"])
def test_sampled_logprobs_are_those_of_whole_rows(policy, context):
    found = played(policy, f"prompt.context={context}")
    assert all(len(step.images) == 1 for episode in found for step in episode.steps)
    assert len({step.images[0] for episode in found for step in episode.steps}) > 1
    rows = make_rows(found)
    told = recompute_logprobs(policy, rows, tokens=4096)
    np.testing.assert_allclose(told, join_values(rows, "logprobs"), atol=2e-4)
    assert len(rows[0].images) == (len(found[0].steps) if context == "history" else 1)


def test_what_is_seen_matters_and_gradients_reach_the_eyes(policy):
    (episode, *_) = played(policy)
    (row,) = make_rows([episode])
    batch = collate([row])
    with torch.no_grad():
        seen = token_logprobs(policy, batch)
        other = [Picture.of(255 - image.array) for image in batch.images]
        batch.images[:] = other
        unseen = token_logprobs(policy, batch)
    assert (seen - unseen).abs().max() > 1e-3
    token_logprobs(policy, batch).sum().backward()
    eyes = policy.model.model.visual.parameters()
    assert all(parameter.grad is not None for parameter in eyes)


def test_images_for_a_model_of_text_are_refused(tiny_policy):
    with pytest.raises(ValueError, match="shows images, but this model reads only text"):
        played(tiny_policy)


def test_blind_prompts_keep_the_images_that_they_may(policy):
    found = played(policy, blind=("goal", "history", "both", "observation"))
    episode = max(found, key=lambda one: len(one.steps))
    token = policy.vision.token
    pieces = [ids.count(token) for ids in (step.prompt_ids for step in episode.steps)]
    for turn, shown in enumerate(prompts(episode)):
        counts = {what: len(prompt.images) for what, prompt in shown.items()}
        assert counts == {
            "": turn + 1,
            "goal": turn + 1,
            "history": 1,
            "both": 1,
            "observation": turn,
        }
        for prompt in shown.values():
            assert prompt.ids.count(token) == pieces[0] * len(prompt.images)


def test_a_policy_that_sees_is_saved_and_loaded(policy, tmp_path):
    policy.save(tmp_path)
    again = Policy.load(str(tmp_path))
    (episode, *_) = played(policy)
    rows = make_rows([episode])
    one, two = (recompute_logprobs(own, rows, tokens=4096) for own in (again, policy))
    assert (one == two).all()


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        ["credit.name=gigpo"],
        ["credit.name=stapo", "credit.options.masking=both"],
        ["credit.name=mgr", "credit.model=critic", "credit.models.critic.learning_rate=1e-3"],
        ["credit.name=istar", "credit.models.prm.learning_rate=1e-4", "policy.lora.rank=2"],
    ],
    ids=["gigpo", "stapo", "critic", "istar"],
)
def test_methods_train_what_sees(vision_folder, tmp_path, options):
    brief = ["sft.steps=1", "sft.episodes=2", "run.steps=1", "env.max_turns=4"]
    brief += ["update.skip_dead_groups=false", f"policy.model={vision_folder}"]
    loaded = recipe.load("alfworld mgr pocket", [*OPTIONS, *brief, *options])
    train(loaded, tmp_path, console=quiet())
    lines = figures(tmp_path)
    assert lines[-1]["logprob_gap"] < 1e-3
    assert all(np.isfinite(v) for line in lines for v in line.values() if isinstance(v, float))


def test_a_reply_that_writes_the_mark_of_an_image_breaks_nothing(policy):
    options = ["prompt.context=turn", "prompt.history=3"]
    rollouts = make_rollouts(recipe.load("alfworld mgr pocket", [*OPTIONS, *options]), "train")
    said = "<think></think><action><image></action>"

    class Writing(Script):
        @property
        def policy(self):
            return policy

    sampler = Writing(lambda *_: said, max_reply_tokens=60)
    (episode,) = rollouts.play(
        draw_tasks(rollouts.panel, tasks=1, rollouts=1, seed=0, step=1), sampler, seed=0
    )
    assert [len(step.images) for step in episode.steps] == [1, 1, 1]
    assert not any(step.valid for step in episode.steps)
