"""The scripted partner: what it tells, accepts, refuses and puts up with."""

import json

import gymnasium as gym
import numpy as np
import pytest

import agent_envs  # noqa: F401  registers the id
from agent_envs.sotopia.games import FAMILIES, draw_scene
from agent_envs.sotopia.scripted import Echo, Holder, ScriptedPartner
from agent_envs.sotopia.talk import Act, Talk, speak


def meet(family="meet", split="test", task=0, seed=0, **options):
    """An episode in which the agent begins; the environment and its game."""
    env = gym.make("Sotopia-v1", family=family, split=split, **options).unwrapped
    env.reset(seed=seed, options={"task": task})
    return env, env.game


def ask(topic):
    return json.dumps({"ask": topic})


def offer(game, deal):
    return Act("speak", offer=deal).to_json(game)


def find_wrong(game, broken=None):
    """A deal against which these facts speak, by default any."""
    return next(
        deal
        for deal in game.list_deals()
        if (found := game.find_broken(deal)) and broken in (None, found)
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_a_question_is_answered_by_the_fact_on_its_topic(family):
    env, game = meet(family)
    for place, fact in enumerate(game.facts):
        observation, *_, info = env.step(ask(fact.topic))
        assert any(fact.say("test", wording) in observation for wording in range(10))
        assert info["valid"]
        assert info["progress"] == pytest.approx((place + 1) / 8)  # half of the share of four
    assert env.speaker.mood.patience == 2


def test_to_talk_it_answers_with_what_it_has_not_told():
    env, game = meet()
    env.step(ask(game.topics[1]))
    heard = [env.step(line)[0] for line in ("What about you?", "Nice weather.", "Well.")]
    for place, observation in zip((0, 2, 3), heard, strict=True):
        assert any(game.facts[place].say("test", wording) in observation for wording in range(10))
    assert env.speaker.mood.patience == 2
    observation, _, terminated, *_ = env.step("And what else?")
    assert (env.speaker.mood.patience, terminated) == (1, False)
    assert "My patience is at its end." in observation
    observation, reward, terminated, *_ = env.step("Hm.")
    assert observation.endswith("left the conversation")
    assert (reward, terminated) == (0, True)


def test_what_is_said_beside_a_field_and_in_plain_text_changes_nothing():
    answers = []
    for words in ("", "I beg you!", "I accept, deal.", "You fool, offer me the museum."):
        env, game = meet()
        env.step(
            json.dumps({"ask": game.topics[0], "say": words} if words else {"ask": game.topics[0]})
        )
        answers.append((env.talk.said[-1].act, env.speaker.state, env.talk.standing))
    assert all(answer == answers[0] for answer in answers)
    first, second = meet()[0], meet()[0]
    assert first.step("I accept.")[0] == second.step("Please leave.")[0]


def test_a_refusal_says_a_new_fact_that_need_not_speak_against_the_offer():
    against = []
    for seed in range(20):
        env, game = meet(seed=seed)
        wrong = next(deal for deal in game.list_deals() if {*game.find_broken(deal)} - {0})
        env.step(ask(game.topics[0]))
        observation, *_, info = env.step(offer(game, wrong))
        (place,) = env.speaker.mood.told - {0}
        assert any(game.facts[place].say("test", wording) in observation for wording in range(10))
        assert observation.endswith("[does not accept]")
        assert info["valid"]
        assert env.speaker.mood == (1, {0, place}, {wrong}, True)
        assert env.talk.standing == (None, None)
        against.append(place in game.find_broken(wrong))
    assert len(set(against)) == 2


def test_the_order_of_the_words_of_one_fact_does_not_tell_that_of_another():
    orders = set()
    for seed in range(100):
        env, game = meet(seed=seed)
        for topic in game.topics:
            env.step(ask(topic))
        said = [act.argument for _, act in env.talk.said if act.argument][-len(game.facts) :]
        both = zip(said, game.facts, strict=True)
        orders.add(tuple(line.find(fact.yes) < line.find(fact.no) for line, fact in both))
    assert len(orders) == 2 ** len(game.facts)


def test_an_offer_against_what_was_said_costs_twice_as_much():
    env, game = meet()
    for topic in game.topics:
        env.step(ask(topic))
    observation, _, terminated, *_ = env.step(offer(game, find_wrong(game)))
    assert terminated
    assert observation.endswith("left the conversation")


def test_in_hard_scenes_one_refused_offer_is_the_end():
    env, game = meet(split="hard")
    *_, terminated, truncated, info = env.step(offer(game, find_wrong(game)))
    assert (terminated, truncated, info["success"]) == (True, False, False)
    assert len(game.facts) == 5


def test_repeating_is_invalid_and_costs_patience():
    env, game = meet()
    env.step(ask(game.topics[0]))
    observation, *_, info = env.step(ask(game.topics[0]))
    assert (info["valid"], info["invalid_reason"]) == (False, "refused")
    assert any(game.facts[0].say("test", wording) in observation for wording in range(10))
    assert env.speaker.mood.patience == 1
    env, game = meet()
    wrong = offer(game, find_wrong(game))
    assert env.step(wrong)[4]["valid"]
    *_, info = env.step(wrong)
    assert (info["valid"], info["invalid_reason"]) == (False, "refused")


@pytest.mark.parametrize("family", FAMILIES)
def test_it_accepts_exactly_what_its_facts_allow(family):
    for number in range(500, 506):
        game = draw_scene(f"{family}-{number}", 4).game
        deals = [*game.list_deals()]
        for deal in deals[:: max(1, len(deals) // 12)]:
            holder = Holder(game, 3)
            talk = Talk(draw_scene(f"{family}-{number}", 4)).after(0, Act("speak", offer=deal))
            assert (holder.reply(talk).accept is True) == (not game.find_broken(deal))


@pytest.mark.parametrize("family", ["bargain", "divide"])
def test_what_it_offers_by_itself_is_worth_little(family):
    for task in range(20):
        env, game = meet(family, task=task)
        if env.side == 0:
            env.step("Good morning.")
        demand = env.talk.standing[1 - env.side]
        assert demand == game.demand
        assert not game.find_broken(demand)
        assert game.share(demand, env.side) < 0.5
        assert "offer" not in env.step(ask(game.topics[0]))[0]  # it said so once
        _, reward, terminated, _, info = env.step('{"accept": true}')
        assert (terminated, info["success"]) == (True, False)
        assert reward == pytest.approx(game.share(demand, env.side))


def test_its_words_come_from_the_seed_and_its_decisions_do_not():
    heard = {seed: meet(seed=seed)[0].step("Hello.") for seed in range(8)}
    assert len({observation for observation, *_ in heard.values()}) > 1
    assert len({info["anchor"] for *_, info in heard.values()}) == 1
    assert meet(seed=3)[0].step("Hello.") == heard[3]


def test_it_begins_with_a_greeting_where_it_is_the_first():
    env, game = meet(task=1)
    assert env.talk.said[0].act.argument
    assert env.side == game.asker == 1


def test_the_echo_repeats_and_binds_nobody():
    talk = Talk(draw_scene("meet-500", 4)).after(0, speak("Well then."))
    assert Echo().begin(talk.scene, 1, None).reply(talk) == Act("action", "repeats: Well then.")


def test_a_partner_needs_no_global_randomness():
    scene = draw_scene("meet-500", 4)
    holders = [ScriptedPartner().begin(scene, 1, np.random.default_rng(5)) for _ in range(2)]
    talk = Talk(scene).after(0, speak("Hello."))
    assert holders[0].reply(talk) == holders[1].reply(talk)
