"""The log-probability of the right answer: what is scored, under which weights, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import credit
from trainer import recipe
from trainer.build import make_rollouts
from trainer.engine import Decoding, Sampler
from trainer.engine.own import OwnEngine
from trainer.learn.prompts import prompts
from trainer.learn.rows import make_rows
from trainer.methods import Experience, make_method
from trainer.methods.gold import score_answers
from trainer.play.records import Task


@pytest.fixture
def experience(tiny_policy):
    """Two episodes of two turns, whose replies make no sense."""
    rollouts = make_rollouts(recipe.load("wiki igpo", ["sampling.max_tokens=9000"]), "train")
    tasks = [Task(task_id, 0, 1) for task_id in rollouts.panel.task_ids[:2]]
    sampler = Sampler(OwnEngine(tiny_policy), tiny_policy, Decoding(1.0, 8, "free"))
    played = rollouts.play(tasks, sampler, seed=0)
    turns = credit.Turns.from_episodes(played)
    return Experience(0, played, turns, make_rows(played), np.random.default_rng(0), None, None)


def scored(policy, experience):
    """Mean log-probability of each turn's answer by plain passes of the model."""
    found = []
    for episode in experience.episodes:
        for prompt in prompts(episode):
            answer = policy.chat.plain(episode.answer)
            before = [*prompt[""].ids, *policy.chat.plain("<reasoning></reasoning><answer>")]
            with torch.no_grad():
                logits = policy.model(torch.tensor([[*before, *answer]])).logits[0].log_softmax(-1)
            at = range(len(before) - 1, len(before) + len(answer) - 1)
            found.append(np.mean([logits[i, a].item() for i, a in zip(at, answer, strict=True)]))
    return found


def test_the_answer_is_scored_in_the_place_of_each_reply(tiny_policy, experience):
    update = recipe.load("wiki igpo").update
    seen = score_answers(tiny_policy, experience.episodes, update, reference=False)
    assert seen == pytest.approx(scored(tiny_policy, experience), abs=1e-5)
    assert [episode.answer_opening for episode in experience.episodes] == [
        "<reasoning></reasoning><answer>"
    ] * 2
    assert all(episode.answer for episode in experience.episodes)


def test_igpo_asks_the_policy_and_trace_the_reference(tiny_policy, experience):
    tiny_policy.keep_reference()
    start = scored(tiny_policy, experience)
    with torch.no_grad():
        for parameter in tiny_policy.parameters():
            parameter.add_(0.01)
    now = scored(tiny_policy, experience)
    assert np.abs(np.subtract(now, start)).max() > 1e-3
    for name, known in (("igpo", now), ("trace", start)):
        chosen = recipe.load(f"wiki {name}")
        method = make_method(chosen)
        method.begin(tiny_policy, None)
        turns = replace(experience.turns, gold_logprob=known)
        expected = credit.make(name, **chosen.credit.options)(turns)
        done = method.credit(experience)
        assert done.advantage == pytest.approx(expected, abs=1e-3)
        assert done.figures["gold_probability"] == pytest.approx(np.exp(known).mean(), rel=1e-3)
        assert method.needs_reference is (name == "trace")
