"""Sotopia-v0: turns, rewards, ends, self-chat, the anchor."""

import gymnasium as gym
import pytest

from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.experts import Oracle
from agent_envs.sotopia.rules import RANGES, Verdict
from agent_envs.sotopia.talk import Pending, Said
from agent_envs.testing import check_agent_env

LEAVE = Act("leave").to_json()
NONE = Act("none").to_json()


def make(**options):
    return gym.make("Sotopia-v0", **{"family": "bargain"} | options)


def opened(task=0, seed=0, **options):
    env = make(**options)
    env.reset(seed=seed, options={"task": task})
    return env


def finish(env, act):
    """Steps of `act(env)` to the end: the last one's results."""
    while True:
        step = env.step(act(env))
        if step[2] or step[3]:
            return step


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"split": "hard"}, {"family": "friend"}, {"reward": "weighted"}, {"partner": "external"}],
)
def test_the_contract_with_options(options):
    check_agent_env(make(**options))


def test_side_0_begins_and_side_1_hears_the_other_first():
    env = make()
    observation, info = env.reset(seed=0, options={"task": 0})
    assert info["task_id"].endswith("-0")
    assert "said:" not in observation
    observation, info = env.reset(seed=0, options={"task": 1})
    assert info["task_id"].endswith("-1")
    assert observation.count("said:") == 1
    assert info["goal"] in observation


def test_the_partner_chooses_its_words_by_the_seed_of_the_episode():
    def heard():
        return [opened(seed=seed).step("Good morning!")[0] for seed in range(10)]

    told = heard()
    assert told == heard()
    assert len(set(told)) > 1


def test_malformed_acts_are_not_noticed():
    env = opened()
    before = env.unwrapped.talk.said
    _, reward, _, _, info = env.step('{"action_type": "sing"}')
    assert (info["valid"], info["invalid_reason"], reward) == (False, "format", 0)
    assert env.unwrapped.talk.said == before
    assert info["scores"]["believability"] == 10


def test_taking_an_offer_that_there_is_not_is_refused_and_not_noticed():
    env = opened()
    env.step("Good morning!")
    game, before = env.unwrapped.talk.scene.game, env.unwrapped.talk
    take = Act("speak", "Agreed.", accept=True).to_json()
    env.unwrapped.talk = before._replace(standing=(None, None))
    observation, *_, info = env.step(take)
    assert (info["valid"], info["invalid_reason"]) == (False, "refused")
    assert "no open offer" in observation
    env.unwrapped.talk = before
    *_, info = env.step(take)
    assert info["valid"]
    assert info["agreed"] == game.wordings[0].describe(before.standing[1])


def test_what_was_agreed_in_words_is_repeated_back():
    env = opened()
    env.step("Good morning!")
    terms = f"${env.unwrapped.talk.standing[1][0]}"
    observation, *_, info = env.step("Agreed.")
    assert f"You agreed to this: {terms}. Say otherwise in your next turn" in observation
    assert (info["agreed"], info["pending"]) == ("", terms)
    assert "You agreed to this" in env.step('{"action_type": "sing"}')[0]  # still to be taken back
    *_, info = env.step("Yes.")
    assert (info["agreed"], info["pending"]) == (terms, "")


def test_a_repeated_line_is_said_and_reported():
    env = opened()
    env.step("Good morning!")
    _, _, _, _, info = env.step(" Good morning! ")
    assert (info["valid"], info["invalid_reason"]) == (False, "refused")
    assert info["scores"]["believability"] == 7
    assert len(env.unwrapped.talk.said) == 4
    env.step(NONE)
    _, _, _, _, info = env.step(NONE)
    assert info["valid"]  # nothing was said twice


@pytest.mark.parametrize("task", [0, 1])
def test_twenty_acts_are_the_limit(task):
    env = opened(task, partner="echo")
    turns = iter(range(100))
    _, _, terminated, truncated, info = finish(env, lambda _: f"Line number {next(turns)}.")
    assert (terminated, truncated, info["turn"]) == (False, True, 10)
    assert len(env.unwrapped.talk.said) == 20


def test_rewards_of_the_same_talk():
    paid = {}
    for reward in ("goal", "weighted", "success"):
        env = opened(reward=reward, weights={"goal": 3.0})
        _, paid[reward], terminated, _, info = finish(env, lambda e: Oracle(e).act())
        assert terminated
        assert info["success"]
    scores = info["scores"]
    assert paid["goal"] == pytest.approx(scores["goal"] / 10)
    assert paid["success"] == 1
    # Nine weights: three for the goal, one for each of the other six.
    others = sum((scores[n] - a) / (b - a) for n, (a, b) in RANGES.items() if n != "goal")
    assert paid["weighted"] == pytest.approx((3 * scores["goal"] / 10 + others) / 9)
    assert info["overall"] == pytest.approx(sum(scores.values()) / 7)


def test_a_success_in_the_last_turn_terminates():
    env = make(max_turns=3, family="friend")
    env.reset(seed=0, options={"task": 0})
    game = env.unwrapped.talk.scene.game
    env.step("Good morning to you.")
    env.step("How are you?")
    last = Act("speak", "Do you know them?", offer=(game.shared,)).to_json(game)
    *_, terminated, truncated, info = env.step(last)
    assert (terminated, truncated, info["success"]) == (True, False, True)


def test_words_of_the_last_turn_bind_nobody():
    env = make(max_turns=1, family="friend")
    env.reset(seed=0, options={"task": 0})
    game = env.unwrapped.talk.scene.game
    *_, terminated, truncated, info = env.step(game.propose((game.shared,)))
    assert (terminated, truncated, info["success"]) == (False, True, False)
    assert info["pending"] == ""


def test_anchors_are_those_of_the_negotiation():
    one, other = opened(), opened()
    hellos = ["Good morning.", "Well, well."]
    assert one.step(hellos[0])[4]["anchor"] != other.step(hellos[1])[4]["anchor"]
    # Said in another order it is the same state: what would be a repetition is part of it.
    assert one.step(hellos[1])[4]["anchor"] == other.step(hellos[0])[4]["anchor"]
    assert one.step("I pay $100.")[4]["anchor"] != other.step("I pay $150.")[4]["anchor"]
    echo, again = opened(partner="echo"), opened(partner="echo")
    assert echo.step("Good morning.")[4]["anchor"] != again.step("Well, well.")[4]["anchor"]


def test_self_chat_alternates_and_each_reads_its_own_goal():
    env = make(partner="external")
    observation, info = env.reset(seed=0, options={"task": 1})
    scene = env.unwrapped.talk.scene
    assert (info["speaker"], info["goal"]) == (0, scene.show_goal(0))
    assert scene.characters[1].secret not in observation
    observation, _, _, _, info = env.step("Hello.")
    assert (info["speaker"], info["goal"]) == (1, scene.show_goal(1))
    assert scene.render_background(1) in observation
    assert 'said: "Hello."' in observation
    observation, _, _, _, info = env.step("[action] waves")
    assert info["speaker"] == 0
    assert observation == f"{scene.name_side(1)} [action] waves"
    _, _, _, _, info = env.step("")
    assert info["speaker"] == 0  # tries again


def test_both_sides_of_a_talk_are_scored_alike_whoever_is_asked():
    talks = []
    for task in (0, 1):
        env = make(partner="external")
        env.reset(seed=0, options={"task": task})
        limits = env.unwrapped.talk.scene.game.limits
        env.step(f"I pay ${sum(limits) // 2}, because I ride to work every day.")
        env.step("Agreed.")
        env.step("Yes, deal.")
        _, reward, _, _, info = env.step("Yes.")
        assert info["agreed"]
        _, reward, _, _, info = env.step(LEAVE)
        assert reward == pytest.approx(info["scores"]["goal"] / 10)
        assert info["partner_reward"] == pytest.approx(info["partner_scores"]["goal"] / 10)
        assert info["partner_progress"] == min(1, info["partner_scores"]["goal"] / 6)
        talks.append(info)
    assert talks[0]["scores"] == talks[1]["partner_scores"] != talks[0]["partner_scores"]
    assert talks[1]["scores"] == talks[0]["partner_scores"]
    assert talks[0]["progress"] == talks[1]["partner_progress"]


def test_a_talk_that_did_not_take_place_pays_nothing():
    observation, reward, terminated, truncated, info = opened(reward="weighted").step(LEAVE)
    assert (terminated, truncated, reward, info["success"]) == (True, False, 0, False)
    assert observation == "The conversation is over."
    env = opened(reward="weighted")
    env.step("Good morning.")
    _, reward, _, _, info = env.step(LEAVE)
    shares = [(info["scores"][n] - a) / (b - a) for n, (a, b) in RANGES.items()]
    assert reward == pytest.approx(sum(shares) / 7 / 3)  # one answered line of three


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"reward": "goals"}, "did you mean 'goal'"),
        ({"on_judge_error": "ignore"}, "unknown on_judge_error"),
        ({"weights": {"gaol": 1}}, "did you mean 'goal'"),
        ({"weights": {"goal": -1}}, "at least 0"),
        ({"weights": dict.fromkeys(RANGES, 0)}, "above 0"),
        ({"split": "tests"}, "did you mean 'test'"),
        ({"family": "bargains"}, "did you mean 'bargain'"),
        ({"max_turns": 0}, "max_turns must be at least 1"),
        ({"partner": "scriptd"}, "unknown partner 'scriptd', did you mean"),
        ({"partner": "scripted:stuborn"}, "did you mean 'stubborn'"),
        ({"partner": {"modle": "stub"}}, "no option 'modle', did you mean 'model'"),
        ({"judge": "rule"}, "unknown judge 'rule', did you mean"),
    ],
)
def test_options_that_make_no_sense(options, says):
    with pytest.raises(ValueError, match=says):
        make(**options)


class Fixed:
    """A judge that always gives the same goal score."""

    live = True

    def __init__(self, goal):
        self.goal = goal

    def judge(self, talk, side):
        return Verdict(dict.fromkeys(RANGES, 0.0) | {"goal": self.goal}, dict.fromkeys(RANGES, ""))


@pytest.mark.parametrize("reward", ["goal", "success"])
@pytest.mark.parametrize(("goal", "success"), [(5.9, False), (6.0, False), (6.1, True)])
def test_a_success_is_a_goal_score_above_6(goal, success, reward):
    env = make(judge=Fixed(goal), reward=reward)
    env.reset(seed=1)
    _, paid, terminated, _, info = env.step("Good morning!")
    assert (paid, terminated, info["success"]) == (0.0, False, False)
    assert info["progress"] == pytest.approx(min(1.0, goal / 6))
    _, paid, terminated, _, info = env.step("left the conversation")
    assert (terminated, info["success"]) == (True, success)
    assert info["progress"] == pytest.approx(min(1.0, goal / 6))
    assert paid == pytest.approx(goal / 10 if reward == "goal" else float(success))


def parts_of(env):
    """Each part of what the anchor of an episode is made of, changed."""
    inner = env.unwrapped
    talk, deal, side = inner.talk, inner.talk.scene.game.deals[1], inner.side
    fact = speak(talk.scene.facts[1 - side][0])
    talks = {
        "what stands": {"standing": (deal, None)},
        "whether it binds": {"firm": (True, False)},
        "whether it is fresh": {"fresh": not talk.fresh},
        "what is pending": {"pending": Pending(deal, 0, (True, False))},
        "what is agreed": {"agreed": deal},
        "who accepted": {"accepted_by": 1},
        "the end": {"said": (*talk.said, Said(side, Act("leave")))},
        "an own act": {"said": (*talk.said, Said(side, speak("Good day!")))},
        "how often": {"said": (*talk.said, *talk.said[:1])},
        "a fact that was told": {"said": (*talk.said, Said(1 - side, fact))},
    }
    return {part: ("talk", talk._replace(**change)) for part, change in talks.items()} | {
        "the task": ("task_id", "another"),
        "whose turn it is": ("next", 1 - inner.next),
    }


@pytest.mark.parametrize("reward", ["goal", "weighted"])
def test_the_anchor_has_each_part_by_itself(reward):
    env = opened(reward=reward)
    env.step("Good morning!")
    inner, before = env.unwrapped, env.unwrapped._digest_state()
    for part, (name, value) in parts_of(env).items():
        kept = getattr(inner, name)
        setattr(inner, name, value)
        counts = reward == "weighted" or part not in ("how often", "a fact that was told")
        assert (inner._digest_state() != before) == counts, part
        setattr(inner, name, kept)
    inner.speaker.mood = inner.speaker.mood._replace(patience=1)
    assert inner._digest_state() != before
