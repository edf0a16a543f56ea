"""The generated worlds: facts and their articles, splits, the dial, both environments, gates."""

import copy
import json
import pickle
import random
import re
from datetime import date
from itertools import combinations

import gymnasium as gym
import pytest

from agent_envs import ParseReply, expert
from agent_envs.search_qa.env import HOPS
from agent_envs.search_qa.world import SPLITS, open_world, read_words, show_value
from agent_envs.testing import check_agent_env

IDS = ("SearchQA-v1", "WikiSearch-v1")
BOTH = pytest.mark.parametrize("name", IDS)


def write(env, kind, text):
    """The action that searches or answers."""
    if kind == "search" and env.unwrapped.kinds[0] == "tool":
        kind, text = "tool", json.dumps({"name": "wiki_search", "args": {"query": text}})
    return f"<{kind}>{text}</{kind}>"


def reply(env, kind, text):
    """The whole reply with that action."""
    return env.unwrapped.reply_form.format(thought="t", action=write(env, kind, text))


def play(env, task, agent):
    """The last info of an episode; `agent(env)` is called once, then asked for actions."""
    env.reset(options={"task": task})
    player, ended = agent(env), False
    while not ended:
        *_, terminated, truncated, info = env.step(
            env.unwrapped.reply_form.format(thought="t", action=player.act())
        )
        ended = terminated or truncated
    return info


def draw(split, hops, count=150):
    return [open_world(split).draw_question(f"{split}-{hops}-{n}", hops, n) for n in range(count)]


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"hops": 1, "max_turns": 2}])
def test_the_contract(name, options):
    env = gym.make(name, split="val", render_mode="ansi", **options)
    check_agent_env(env)


def test_articles_state_the_facts_and_the_newest_source_holds():
    world, outdated = open_world("train"), 0
    for entity in world.entities.values():
        for fact in entity.facts.values():
            article = world.list_article(world.passages[fact.passage])
            texts = " ".join(passage.text for passage in article)
            shown = {"S": re.escape(str(entity)), "O": r"(\w[^.:]*?)"}
            says = fact.relation.says.replace(".", r"\.").format(**shown)
            stated = re.findall(
                rf"(?:A survey of (\d+) says: )?{says}(?= |$)", texts, re.IGNORECASE
            )
            newest = max(stated, key=lambda pair: int(pair[0] or 0))
            assert newest[1].lower() == show_value(fact.value, fact.relation.kind).lower()
            outdated += len(stated) > 1
    assert outdated > 100


def test_splits_share_no_name_wording_or_chain():
    names = [
        {word for e in world.entities.values() for n in (e.name, e.alias) for word in n.split()}
        - {"Guild"}
        for world in map(open_world, SPLITS)
    ]
    assert all(len(group) > 150 for group in names)
    words = read_words()
    lists = list(words["frames"].values())
    for kind, relations in words.items():
        if kind not in {"frames", "names"}:
            lists += [relation[key] for relation in relations.values() for key in ("says", "asks")]
    assert all(len(set(three)) == len(three) == len(SPLITS) for three in lists)
    chains = []
    for world in map(open_world, SPLITS):
        rng = random.Random(0)
        drawn = [world._draw_chain(2, rng) for _ in range(3000)]
        chains.append({chain.path for chain in drawn if chain and world._owns("chain", chain.path)})
    for group in (names, chains):
        assert all(one.isdisjoint(other) for one, other in combinations(group, 2))


def test_sentences_and_phrases_of_a_relation_share_no_telling_word():
    common = set(
        re.findall("[a-z]+", "the of a in on at to that with s o and is it its was by for are date")
    ) | {"town", "person", "guild", "river"}
    for kind, relations in read_words().items():
        if kind in {"frames", "names"}:
            continue
        for relation in relations.values():
            for says, asks in zip(relation["says"], relation["asks"], strict=True):
                shared = set(re.findall("[a-z]+", says.lower())) & set(re.findall("[a-z]+", asks))
                assert shared <= common, (says, asks)


@pytest.mark.parametrize("hops", HOPS)
def test_the_dial_is_the_number_of_facts(hops):
    for split, world in zip(SPLITS, map(open_world, SPLITS), strict=True):
        questions = draw(split, hops)
        assert {len(question.support) for question in questions} == {hops}
        assert all(set(question.support) <= world.passages.keys() for question in questions)
        kinds = {question.kind for question in questions}
        assert kinds >= {"chain", "missing"}
        assert ("count" in kinds) == (hops > 1)
        unknown = [question for question in questions if question.answer.value is None]
        assert {question.kind for question in unknown} == {"missing"}
        assert len(unknown) / len(questions) < 0.15


def test_tasks_are_the_same_everywhere_and_copies_are_exact():
    env = gym.make("SearchQA-v1", split="test")
    goals = [env.reset(options={"task": task})[1]["goal"] for task in (3, 4, 3)]
    assert goals[0] == goals[2] != goals[1]
    assert "Answer with" in goals[0]
    world = open_world("test")
    assert copy.deepcopy(world) is pickle.loads(pickle.dumps(world)) is world
    assert env.unwrapped.panel.source == "embedded"


@BOTH
def test_a_turn_reports_what_was_found(name):
    env = gym.make(name, split="test", hops=2)
    observation, info = env.reset(options={"task": 1})
    question = env.unwrapped.question
    assert info["goal"] in observation
    assert info["goal"].startswith(question.text)
    first, second = (env.unwrapped.world.passages[place] for place in question.support)
    queries = [f"{passage.title} {passage.text}" for passage in (first, second)]
    found = [env.step(reply(env, "search", query)) for query in (*queries, queries[0], "zzzz", "")]
    infos = [step[4] for step in found]
    assert [info["progress"] for info in infos] == [0.5, 1, 1, 1, 1]
    assert [sum(info["turn_reward"].values()) for info in infos] == [0.2, 0.7, 0, 0, 0]
    assert [info["invalid_reason"] for info in infos][:4] == ["", "", "", "unknown"]
    anchors = [info["anchor"] for info in infos]
    assert anchors[0] != anchors[1] == anchors[2] == anchors[3] == anchors[4]
    assert first.text in found[0][0]
    observation, reward, terminated, _, info = env.step(reply(env, "answer", "nonsense 7 or 8"))
    assert (reward, terminated, info["success"], info["valid"]) == (0, True, False, True)
    assert observation == f"The answer is wrong: {info['reason']}."


@BOTH
def test_right_answers_of_every_type(name):
    env, seen = gym.make(name, split="val", hops=2), set()
    for task in range(80):
        env.reset(options={"task": task})
        answer = env.unwrapped.question.answer
        text = (
            f"The answer is {answer.value:%B %d, %Y}."
            if isinstance(answer.value, date)
            else str(answer)
        )
        _, reward, terminated, _, info = env.step(reply(env, "answer", text))
        assert (reward, terminated, info["success"], info["progress"]) == (1, True, True, 1)
        seen.add("unknown" if answer.value is None else answer.kind)
    assert seen == {"entity", "number", "date", "yes_no", "unknown"}


def test_rewards_of_mt_grpo():
    env = gym.make("WikiSearch-v1", split="test", hops=1, reward="merged", max_turns=2)
    env.reset(options={"task": 0})
    question = env.unwrapped.question
    passage = env.unwrapped.world.passages[question.support[0]]
    step = env.step(reply(env, "search", f"{passage.title} {passage.text}"))
    assert set(step[4]["measures"].values()) == {0}
    *_, info = ended = env.step(reply(env, "answer", str(question.answer)))
    assert ended[1] == pytest.approx(2.6) == sum(info["measures"].values())
    env.reset(options={"task": 0})
    env.step(reply(env, "search", f"{passage.title} {passage.text}"))
    *_, info = ended = env.step(reply(env, "answer", "nonsense"))
    # the turn's 0.2 and 0.5 alone: without a right answer the form of the replies pays nothing
    assert ended[1] == pytest.approx(0.7) == sum(info["measures"].values())


@BOTH
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "hard"}, "unknown split 'hard'; known are train, val, test"),
        ({"hops": 0}, "hops, the facts that a question needs, lie in 1..4, got 0"),
        ({"hops": 5}, "lie in 1..4, got 5"),
        ({"max_turns": 0}, "max_turns must be at least 1, got 0"),
        ({}, "reads whole replies itself"),
    ],
)
def test_options_that_are_refused(name, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ParseReply(gym.make(name, **options))


# gates


@BOTH
@pytest.mark.parametrize("hops", [1, 2, 4])
@pytest.mark.parametrize("tasks", [12, pytest.param(40, marks=pytest.mark.long)])
def test_experts_solve_it(name, hops, tasks):
    env = gym.make(name, split="test", hops=hops)
    wins = {
        who: sum(
            play(env, task, lambda env, who=who: expert(env, who))["success"]
            for task in range(tasks)
        )
        for who in ("oracle", "explorer")
    }
    assert wins["oracle"] == tasks
    assert wins["explorer"] >= 0.85 * tasks


class Guess:
    """Says yes, one or unknown, by the type of the answer."""

    def __init__(self, env):
        self.env = env.unwrapped

    def act(self):
        kind = self.env.question.answer.kind
        text = {"yes_no": "yes", "number": "1"}.get(kind, "unknown")
        unit = self.env.question.answer.unit
        return f"<answer>{'unknown' if unit else text}</answer>"


class Extract(Guess):
    """Searches the question's last name, then a name of what was found, and answers a value of
    the declared type at random."""

    def __init__(self, env):
        super().__init__(env)
        self.rng, self.steps = random.Random(env.unwrapped.task_id), 0

    def act(self):
        shown = re.sub(r".*?Question: ", "", self.env.transcript[-1][1], flags=re.DOTALL)
        names = re.findall(r"(?<!^)\b[A-Z][a-z]{3,}(?: (?:Guild|[A-Z][a-z]+))?", shown)
        self.steps += 1
        if self.steps <= 2 and names:
            query = names[-2] if self.steps == 1 and len(names) > 1 else self.rng.choice(names)
            return write(self.env, "search", query)
        answer = self.env.question.answer
        found = {
            "date": re.findall(r"\d+ [A-Z][a-z]+ \d{4}", shown),
            "number": re.findall(rf"[\d,]+ {answer.unit}", shown) or ["1"],
            "yes_no": ["yes", "no"],
            "entity": names,
        }[answer.kind]
        return f"<answer>{self.rng.choice(found) if found else 'unknown'}</answer>"


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize("cheat", [Guess, Extract])
@pytest.mark.parametrize("tasks", [40, pytest.param(200, marks=pytest.mark.long)])
def test_scripts_that_do_not_read_fail(name, cheat, tasks):
    env = gym.make(name, split="test")
    assert sum(play(env, task, cheat)["success"] for task in range(tasks)) <= tasks // 5
