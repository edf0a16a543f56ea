"""Sotopia-v1: turns, rewards, scores, ends, self-chat, the anchor."""

import copy

import gymnasium as gym
import pytest

from agent_envs.sotopia.experts import Oracle
from agent_envs.sotopia.games import FAMILIES
from agent_envs.sotopia.talk import Act
from agent_envs.testing import check_agent_env

LEAVE = '{"leave": true}'


def opened(task=0, seed=0, **options):
    env = gym.make("Sotopia-v1", **{"family": "bargain"} | options)
    env.reset(seed=seed, options={"task": task})
    return env


def offer(env, deal):
    return Act("speak", offer=deal).to_json(env.unwrapped.game)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"split": "hard"}, {"family": "friend", "constraints": 1, "typed_only": True},
     {"family": "divide"}, {"reward": "success", "family": "meet"}, {"partner": "external"}],
)  # fmt: skip
def test_the_contract_with_options(options):
    check_agent_env(gym.make("Sotopia-v1", **options))


def test_the_agent_begins_in_scenes_of_even_numbers_and_hears_the_other_first_in_odd_ones():
    env = gym.make("Sotopia-v1")
    for task in range(16):
        observation, info = env.reset(seed=0, options={"task": task})
        first = int(info["task_id"].rpartition("-")[2]) % 2 == 0
        assert (" said: " in observation) is not first
        assert info["goal"] in observation
        assert info["speaker"] == int(not first)


def test_malformed_acts_are_not_noticed():
    env = opened()
    before = env.unwrapped.talk
    for act, reason in (
        ('{"sing": true}', "format"), ('{"offer": {"price": 1}}', "format"), ("", "format"),
        ('{"ask": "wine"}', "unknown"), ('{"accept": true}', "refused"),
    ):  # fmt: skip
        _, reward, *_, info = env.step(act)
        assert (info["valid"], info["invalid_reason"], reward) == (False, reason, 0)
        assert env.unwrapped.talk == before


def test_a_deal_pays_its_share_of_the_best_one():
    env = opened(split="test")
    game = env.unwrapped.game
    best = game.measure(game.best)
    dearer = (game.best[0] + round(best / 2), *game.best[1:])
    _, reward, terminated, truncated, info = env.step(offer(env, dearer))
    assert (terminated, truncated, info["success"]) == (True, False, False)
    assert reward == pytest.approx(game.measure(dearer) / best)
    assert info["scores"]["goal"] == pytest.approx(10 * reward)
    assert info["scores"]["financial_and_material_benefits"] == pytest.approx(5 * reward)
    assert info["scores"]["knowledge"] == 0
    assert info["agreed"].startswith(f"${dearer[0]}")


@pytest.mark.parametrize(("less", "success"), [(0, True), (0.04, True), (0.1, False)])
def test_a_success_is_worth_95_percent_of_the_best_deal(less, success):
    for reward in ("goal", "success"):
        env = opened(task=1, reward=reward)
        game = env.unwrapped.game
        best = game.measure(game.best)
        deal = (game.best[0] + int(less * best), *game.best[1:])
        assert (game.measure(deal) / best >= 0.95) is success
        assert (deal == game.best) is (less == 0)
        _, paid, _, _, info = env.step(offer(env, deal))
        assert info["success"] is success
        assert (info["progress"] == 1) is success
        share = game.measure(deal) / best
        assert paid == pytest.approx(share if reward == "goal" else float(success))


def test_leaving_at_once_pays_nothing():
    observation, reward, terminated, truncated, info = opened().step(LEAVE)
    assert (terminated, truncated, reward, info["success"]) == (True, False, 0, False)
    assert observation == "The conversation is over."
    assert info["scores"] == {
        "knowledge": 0, "financial_and_material_benefits": 0, "goal": 0,
    }  # fmt: skip
    assert info["reasons"] == {"goal": "No deal."}


def test_scores_without_a_judge_are_facts_and_talk_does_not_change_them():
    found = []
    for words in ("Thank you, my dear.", "You thief, I will hurt you!"):
        env = opened(family="meet", split="test")
        env.step(words)
        found.append(env.step(offer(env, env.unwrapped.game.best))[4]["scores"])
    assert found[0] == found[1] == {
        "knowledge": 2.5, "financial_and_material_benefits": 0, "goal": 10,
    }  # fmt: skip


@pytest.mark.parametrize("task", [0, 1])
def test_twenty_acts_are_the_limit(task):
    env = opened(task, family="meet", max_turns=3)
    for turn in range(3):
        *_, terminated, truncated, info = env.step(f"Line {turn}.")
    assert (terminated, truncated, info["success"]) == (False, True, False)
    assert gym.make("Sotopia-v1").unwrapped.max_turns == 10
    assert gym.make("Sotopia-v1", partner="external").unwrapped.max_turns == 20


def test_anchors_are_those_of_the_negotiation():
    def anchor(*acts, seed=0):
        env = opened(family="meet", seed=seed)
        return [env.step(act)[4]["anchor"] for act in acts][-1]

    topics = opened(family="meet").unwrapped.game.topics
    one, other = (f'{{"ask": "{topic}"}}' for topic in topics[:2])
    assert anchor(one, other) == anchor(other, one) == anchor(other, one, seed=9)
    assert anchor(one, other) == anchor("Hello.", "Well.")  # it tells them in this order
    assert anchor(one) != anchor(other)
    assert anchor(one, one) != anchor(one)  # less patience
    assert anchor('{"sing": 1}') == opened(family="meet").unwrapped._digest_state()


def test_the_anchor_has_each_part_by_itself():
    env = opened(family="divide", split="test")
    env.step("Good morning!")
    inner = env.unwrapped
    before, mood = inner._digest_state(), inner.speaker.mood
    deal = inner.game.best
    for change in (
        {"patience": 1}, {"told": frozenset()}, {"refused": frozenset({deal})}, {"spoke": False},
    ):  # fmt: skip
        inner.speaker.mood = mood._replace(**change)
        assert inner._digest_state() != before, change
    inner.speaker.mood = mood
    talk = inner.talk
    for change in ({"standing": (deal, None)}, {"agreed": deal}):
        inner.talk = talk._replace(**change)
        assert inner._digest_state() != before, change


@pytest.mark.parametrize("family", FAMILIES)
def test_a_copy_goes_on_alike_and_apart(family):
    env = opened(family=family, split="test", seed=4)
    env.step("Hello.")
    twin = copy.deepcopy(env)
    acts = ["Go on.", '{"ask": "price"}', "Well.", "Hm.", "And?"]
    assert [env.step(act) for act in acts[:3]] == [twin.step(act) for act in acts[:3]]
    twin.step(acts[3])
    assert env.unwrapped.speaker.mood != twin.unwrapped.speaker.mood


@pytest.mark.parametrize("family", ["meet", "friend"])
def test_few_actions_are_listed_and_all_of_them_are_valid(family):
    options = {"family": family, "constraints": 1, "split": "test"}
    env = gym.make("Sotopia-v1", **options, typed_only=True)
    _, info = env.reset(seed=0, options={"task": 2})
    listed = info["admissible_actions"]
    assert len(listed) == len(set(listed)) > 8
    for act in listed:
        twin = copy.deepcopy(env)
        *_, info = twin.step(act)
        assert info["valid"]
        assert act.startswith('{"leave"') or act not in info["admissible_actions"]
    *_, info = env.step("Hello.")
    assert (info["valid"], info["invalid_reason"]) == (False, "refused")
    assert info["admissible_actions"] == listed
    assert not gym.make("Sotopia-v1", **options).reset(seed=0)[1]["admissible_actions"]


def test_self_chat_alternates_and_each_reads_its_own_goal():
    env = opened(task=1, family="meet", partner="external")
    game, scene = env.unwrapped.game, env.unwrapped.talk.scene
    observation, info = env.reset(seed=0, options={"task": 1})
    assert (info["speaker"], info["goal"]) == (0, scene.show_goal(0))
    assert scene.show_goal(1) not in observation  # side 1 asks, side 0 has the facts
    observation, *_, info = env.step("Hello.")
    assert (info["speaker"], info["goal"]) == (1, scene.show_goal(1))
    assert scene.render_background(1) in observation
    env.step(offer(env, game.best))
    _, reward, terminated, _, info = env.step('{"accept": true}')
    assert (terminated, info["success"], reward, info["partner_reward"]) == (True, True, 1, 1)
    assert info["scores"] == {"financial_and_material_benefits": 0, "goal": 10}


def test_in_self_chat_the_side_with_the_facts_loses_by_a_deal_against_them():
    env = opened(partner="external", split="test")
    game = env.unwrapped.game
    env.step(offer(env, (game.best[0] - 1, *game.best[1:])))
    _, reward, _, _, info = env.step('{"accept": true}')
    assert (reward, info["partner_reward"]) == (1, 0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"reward": "weighted"}, "unknown reward 'weighted'"),
        ({"on_judge_error": "ignore"}, "unknown on_judge_error"),
        ({"max_turns": 0}, "max_turns must be at least 1"),
        ({"partner": "scriptd"}, "unknown partner 'scriptd', did you mean"),
        ({"judge": "rules"}, "unknown judge 'rules'"),
    ],
)
def test_options_that_make_no_sense(options, says):
    with pytest.raises(ValueError, match=says):
        gym.make("Sotopia-v1", **options)


def test_a_success_in_the_last_turn_terminates():
    env = opened(family="friend", max_turns=2)
    env.step("Good morning to you.")
    *_, terminated, truncated, info = env.step(Oracle(env).act())
    assert (terminated, truncated, info["success"]) == (True, False, True)
