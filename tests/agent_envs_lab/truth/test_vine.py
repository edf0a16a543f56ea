"""Vine: the method's advantages against a measured truth, and a run with it."""

from types import SimpleNamespace

import numpy as np
import pytest

import credit
from agent_envs_lab.truth.player import Player
from agent_envs_lab.truth.run import Plan, measure
from trainer.errors import RecipeError
from trainer.learn.rows import make_rows
from trainer.methods import Experience, make_method
from trainer.run import metrics
from trainer.train import train


def advantages(given, result, turns, seed):
    """Of the method, for the episodes of a measured truth."""
    player = Player(given, None)
    episodes = result.episodes
    experience = Experience(
        1,
        episodes,
        credit.Turns.from_episodes(episodes),
        make_rows(episodes),
        np.random.default_rng(seed),
        player.rollouts,
        player.sampler,
    )
    method = make_method(given)
    method.options = SimpleNamespace(turns=turns)
    return method.credit(experience)


VINE = "credit.name=agent_envs_lab.truth.vine:Vine"


@pytest.mark.long
@pytest.mark.parametrize(
    "way", [("Sums",), ("Choices", "sampling.decode=admissible", "sampling.temperature=2.0")]
)
def test_its_mean_is_the_true_advantage(small, tmp_path, way):
    given = small(*way, VINE)
    result = measure(given, tmp_path, Plan(3, 0.97, 200, 0), jobs=1)
    many = [advantages(given, result, 8.0, seed) for seed in range(8)]
    apart = np.mean([one.advantage for one in many], axis=0) - result.truth.advantage
    single = many[0].advantage - result.truth.advantage
    assert np.sqrt(np.mean(apart**2)) < 0.5 * np.sqrt(np.mean(single**2))
    assert abs(apart.mean()) < 0.02
    for one in many:
        assert 4 < one.figures["vine_turns"] < 12
    starts = np.array([group.advantage.sum() for group in many])
    assert np.isfinite(starts).all()
    tokens = [value for row in many[0].rows for value in row.advantage]
    assert len(tokens) == sum(len(step.reply_ids) for e in result.episodes for step in e.steps)


def test_a_run_takes_steps_with_it(small, tmp_path):
    options = (VINE, "sampling.tasks=2", "run.steps=2", "eval.tasks=2",
               "update.skip_dead_groups=false", "sft.steps=0", "eval.split=train")  # fmt: skip
    train(small("Sums", *options), tmp_path, resume=False)
    lines = [line for line in metrics.read_log(tmp_path / "metrics.jsonl") if line["stage"] == "rl"]
    assert [line["vine_turns"] > 1 for line in lines] == [True, True]
    assert all(line["grad_norm"] > 0 for line in lines)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("credit.options={turns=-1}", "turns must lie in"),
        ("credit.options={turn=1}", "credit.options of vine are turns"),
        ("engine.name=vllm", "engine.name='vllm'; set it to 'own'"),
        ("env.processes=2", "env.processes=2; set it to 0"),
    ],
)
def test_recipes_that_cannot_have_it_are_refused(small, option, told):
    with pytest.raises((RecipeError, ValueError), match=told):
        make_method(small("Sums", VINE, option))


def test_a_random_world_is_refused(small, tmp_path):
    options = (VINE, "sampling.tasks=2", "run.steps=1", "eval.tasks=2", "sft.steps=0",
               "eval.split=train")  # fmt: skip
    with pytest.raises(ValueError, match="drew from its np_random"):
        train(small("Dice", *options), tmp_path, resume=False)
