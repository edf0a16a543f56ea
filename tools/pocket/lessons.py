"""Lessons: demonstrations as text that the pocket policies are pre-trained on.

In stage one they are what a good demonstrator does, slips and recoveries included; later some are
done by half, a habit for reinforcement learning to correct.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from agent_envs.alfworld.experts import Searcher
from agent_envs.alfworld.game import SHORT_NAMES, parse_game
from agent_envs.alfworld.world import World
from agent_envs.appworld.env import AppWorld
from agent_envs.appworld.experts import Explorer as Coder
from agent_envs.ezpoints.env import EZPoints
from agent_envs.ezpoints.experts import Explorer as CardPlayer
from agent_envs.search_qa.answers import in_any
from agent_envs.search_qa.wiki import WikiSearch
from agent_envs.sokoban.env import Sokoban
from agent_envs.sokoban.experts import Explorer as Pusher
from agent_envs.sotopia.acts import Act
from agent_envs.sotopia.env import Sotopia
from agent_envs.webshop import pages
from agent_envs.webshop.catalogue import generate_catalogue
from agent_envs.webshop.experts import Shopper, read_request
from agent_envs.webshop.generate import SEED
from agent_envs.webshop.pages import Page
from agent_envs.webshop.shop import Shop
from tools.alfworld.generate import generate_game
from tools.pocket import slips
from tools.pocket.slips import Shown
from trainer.play.episode import INSTRUCTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from agent_envs.alfworld.experts import TaskLine
    from agent_envs.search_qa.data import Question
    from agent_envs.sotopia.scene import Game
    from agent_envs.webshop.goals import Goal

TASK_TYPES = tuple(SHORT_NAMES.values())
MAX_TURNS = 50
CATALOGUES = 32
"""Made-up catalogues of the shop's lessons, none of them the embedded one."""
LOOKS = 0.8  # share of the shop's lessons that are one list; a trip is ten times as long
HALF = 0.5  # of the full size; up to it there are no trips

ROOMS = 4_000
"""Rooms of Sokoban's lessons, none of them of the splits that are held out."""
CARDS = 0.3  # share of EZPoints among the puzzles; its plays are short

TRUE = 0.2  # share of the encyclopaedia's lessons that tell what is so
RARE = 12  # a word of more titles and answers than these is no name

_FIRST = 1000  # seed of the first of them
FAMILIES = ("decline_strangers", "sort_downloads")
"""Requests on a single app whose code takes a word from the request."""
REQUESTS = 1_000  # of each family, so that there is little to know by heart
PATIENCE = 7  # turns, after which a bargain is ended
CLOSE = 0.03  # prices so near that they are not worth a word
DEAREST = 990  # what prices are kept below, so that each is one token
CARELESS = 0.6

_BACK = {"up": "down", "down": "up", "left": "right", "right": "left"}
_API = re.compile(r"(apis\.\w+\.)([a-z]+)_(\w+)")
_PRICE = re.compile(r"\$\d+")
_ASIN = re.compile(r"\b[Bb]0[A-Za-z0-9]{8}\b")
_WORD = re.compile(r"\w+")
_LITERAL = re.compile(r"'([a-z]+)'")


@dataclass(frozen=True)
class Lesson:
    """One demonstration as text: the messages a policy would see, and which replies to learn."""

    prompts: list[str]
    replies: list[str]
    mistakes: list[bool]

    def add(self, observation: str, thought: str, action: str, *, mistake: bool) -> None:
        """One more turn."""
        self.prompts.append(observation if self.prompts else f"{INSTRUCTION}\n\n{observation}")
        self.replies.append(f"<think>{thought}</think><action>{action}</action>")
        self.mistakes.append(mistake)


def play_household(
    rng: np.random.Generator, *, size: float, mistake: float, forget: float = 0.0
) -> Lesson:
    """The explorer's play of one generated game, with mistakes it recovers from.

    With the chance `forget` it does half of a task that has two parts: it brings the thing and has
    forgotten to clean, heat or cool it, or that two were asked for; there the lesson ends.
    """
    task_type = TASK_TYPES[int(rng.integers(len(TASK_TYPES)))]
    data = generate_game(rng, size=size, task_type=task_type)
    world = World(parse_game(data, "pretraining", "pre-training"))
    lesson = Lesson([], [], [])
    expert = Searcher(world.intro)
    if forget and rng.random() < forget:
        expert.task = replace(expert.task, count=1, verb="")
    for turn in slips.play_household(
        world, rng, mistake=mistake, expert=expert, max_turns=MAX_TURNS
    ):
        lesson.add(turn.observation, turn.thought, turn.action, mistake=turn.mistake)
        if _is_delivery(turn, expert.task) and expert.task.count == 1:
            break
    return lesson


def play_shop(
    rng: np.random.Generator, *, size: float = 1.0, mistake: float, forget: float = 0.0
) -> Lesson:
    """A shopper's trip through a generated catalogue, with slips it recovers from.

    The products have ids of the embedded catalogue's, at random: an id tells nothing, and can be
    one token. Most lessons are a look at one list, so that reading ids off is practised often; up
    to half the full `size` all are, and lists are shorter below it. With the chance `forget` the
    shopper is hasty: it chooses one option at most.
    """
    shop = _open_shop(_FIRST + int(rng.integers(CATALOGUES)))
    goals = list(shop.goals.values())
    goal = goals[int(rng.integers(len(goals)))]
    hasty = forget > 0 and rng.random() < forget
    ids, given = iter(rng.permutation(list_product_ids()).tolist()), dict[str, str]()
    lesson = Lesson([], [], [])
    look = not forget and rng.random() < (LOOKS if size > HALF else 1.0)
    trip = slips.play_shop(shop, goal, rng, mistake=mistake, hasty=hasty)
    for turn in [_show_list(shop, goal, rng, size)] if look else trip:
        said = (turn.observation, turn.thought, turn.action)
        for asin in _ASIN.findall(turn.observation):
            given.setdefault(asin.lower(), next(ids))
        seen, thought, action = (_ASIN.sub(lambda m: given[m[0].lower()], text) for text in said)
        lesson.add(seen, thought, action, mistake=turn.mistake)
    return lesson


def _show_list(shop: Shop, goal: Goal, rng: np.random.Generator, size: float) -> Shown:
    """Some of the products that a search finds, mostly few, and which is picked."""
    shopper = Shopper(shop, read_request(goal.text))
    page, _ = shop.follow(Page(), "", *shop.parse(shopper.take_step([Page()]).action))
    found = rng.permutation(pages.slice_results(shop.catalogue.search(page.query), 1)).tolist()
    found = found[: 1 + int(len(found) * size * rng.random() ** 2)]
    products = shop.catalogue.products
    elements = pages.build_results(page, found, products, bounded=True)
    seen = pages.write_text([*pages.build_head(goal.text), *elements], marked=True)
    return Shown(seen, *shopper.pick_product(page, found, set()), mistake=False)


@lru_cache(maxsize=1)
def list_product_ids() -> tuple[str, ...]:
    """The ids of the embedded catalogue, lower case."""
    return tuple(product.asin.lower() for product in generate_catalogue(SEED).products)


def ask_wiki(rng: np.random.Generator, *, forget: float = 0.0) -> Lesson:
    """A question of the training split, looked up and answered from the article that was found.

    Most lessons are of other names and numbers than the encyclopaedia's, so that there is nothing
    to know by heart. With the chance `forget` the question is not looked up: the answer to some
    other one is given.
    """
    env, known, names = _open_wiki()
    question = known[int(rng.integers(len(known)))]
    opening, _ = env.reset(options={"task_id": question.id})
    head, mark, asked = opening.partition("Question: ")
    if forget and rng.random() < forget:
        other = known[int(rng.integers(len(known)))]
        reply = _write_reply(env, "i know this", f"<answer>{other.answers[0]}</answer>")
        return Lesson([opening], [reply], [False])
    found, *_ = env.step(_write_lookup(env, question.text))
    title, answer = found.split("\n")[1], question.answers[0]
    renamed = _draw_names(rng, f"{title} {answer}", names)
    asked, found, query, answer = (
        _replace_words(renamed, text) for text in (asked, found, question.text, answer)
    )
    said = _write_reply(env, "it is said here", f"<answer>{answer}</answer>")
    return Lesson([head + mark + asked, found], [_write_lookup(env, query), said], [False, False])


def play_puzzle(rng: np.random.Generator, *, mistake: float, forget: float = 0.0) -> Lesson:
    """A shortest solution of a Sokoban room or an EZPoints deal, with slips it recovers from.

    The thought is what is planned from here to the end. With the chance `forget` two cards are
    multiplied, whatever they are, and before the last push the player shies and steps back, again
    and again to the end of its turns.
    """
    cards = rng.random() < CARDS
    env: EZPoints | Sokoban = _open_ezpoints() if cards else _open_sokoban()
    tasks = env.panel.task_ids
    seen, info = env.reset(options={"task_id": tasks[int(rng.integers(len(tasks)))]})
    expert: CardPlayer | Pusher = CardPlayer(env) if cards else Pusher(env)
    habit = [sign.replace("+", "*") for sign in expert.plan()] if cards else []
    bad = rng.random() < forget
    lesson, done = Lesson([], [], []), False
    while not done:
        plan = habit[info["turn"] :] if bad and cards else expert.plan()
        known = [word for word in info["admissible_actions"] if word != "="]
        if bad and len(plan) == 1 and _BACK.get(plan[0]) in known:
            plan = [_BACK[plan[0]]]
        slip = bool(known) and not bad and rng.random() < mistake
        action = known[int(rng.integers(len(known)))] if slip else plan[0]
        lesson.add(seen, " ".join(plan), action, mistake=slip)
        seen, _, ended, cut, info = env.step(action)
        done = ended or cut or not expert.plan()
    return lesson


def drive_bargain(rng: np.random.Generator, *, mistake: float, forget: float = 0.0) -> Lesson:
    """A bargain over one price: what is hoped for first, then half-way to what the other wants.

    The thought is the prices that matter: its limit, what it hopes for, and what was named last.
    All prices are moved by one sum and stay below $1,000, so that they have to be read and are one
    token each. A slip is an offer of any price. With the chance `forget` it agrees to what is
    proposed first.
    """
    env = _open_sotopia()
    tasks = env.panel.task_ids
    task = tasks[int(rng.integers(len(tasks)))]
    seen, _ = env.reset(options={"task_id": task}, seed=int(rng.integers(2**31)))
    deals = cast("Game", env.talk.scene.game).deals
    yields = rng.random() < forget
    dearer = min(int(rng.integers(-40, 100)), DEAREST - max(deals)[0])
    lesson, done, own = Lesson([], [], []), False, 0
    while not done:
        act, own = _haggle(env, own, yields=yields or len(lesson.replies) >= PATIENCE)
        slip = act.startswith("I offer") and not yields and bool(rng.random() < mistake)
        if slip:
            (own,) = deals[int(rng.integers(len(deals)))]
            act = f"I offer this: ${own}."
        texts = (_move_prices(text, dearer) for text in (seen, _list_prices(env), act))
        lesson.add(*texts, mistake=slip)
        seen, _, ended, cut, _ = env.step(act)
        done = ended or cut
    return lesson


def write_code(rng: np.random.Generator, *, mistake: float, forget: float = 0.0) -> Lesson:
    """A request of one of `FAMILIES` done by the code of its solution, with slips put right.

    In most lessons the word that the code takes from the request is made up, so that it has to be
    read. A slip calls an API by a name that it has not got. With the chance `forget` the
    demonstrator is careless and slips in most turns, which is learned.
    """
    env = _open_appworld()
    tasks = env.panel.task_ids
    seen, _ = env.reset(options={"task_id": tasks[int(rng.integers(len(tasks)))]})
    careless = rng.random() < forget
    coder, lesson, done, slip = Coder(env), Lesson([], [], []), False, False
    while not done:
        code = coder.act()
        slip = not slip and bool(rng.random() < (CARELESS if careless else mistake))
        said = _API.sub(r"\1\3_\2", code, count=1) if slip else code
        reply = env.reply_form.format(thought="", action=said)
        lesson.prompts.append(seen)
        lesson.replies.append(reply)
        lesson.mistakes.append(slip and not careless)
        seen, _, ended, cut, _ = env.step(reply)
        done = ended or cut
    if rng.random() >= TRUE:
        for word in dict.fromkeys(_LITERAL.findall(lesson.replies[-1])):
            other = _mix_names(rng, _list_requested_words())
            for texts in (lesson.prompts, lesson.replies):
                texts[:] = [re.sub(rf"\b{word}", other, text) for text in texts]
    return lesson


def _haggle(env: Sotopia, own: int, *, yields: bool) -> tuple[str, int]:
    """The next act of a bargain and the agent's price in it, `own` being its last, or 0."""
    proposed = env.talk.standing[1 - env.next]
    if env.talk.accepted_terms is not None:
        return Act("leave").to_json(), own
    if proposed is not None and (yields or abs(proposed[0] - own) <= CLOSE * own):
        return "Agreed.", own
    hoped = int(_PRICE.findall(env.goal)[1][1:])
    price = hoped if not own or proposed is None else (own + proposed[0]) // 2
    return f"I offer this: ${price}.", price


def _list_prices(env: Sotopia) -> str:
    """The prices of a scene's goal, then the last that the agent named and the other side's."""
    said = [" ".join(env.talk.list_lines(side)) for side in (env.next, 1 - env.next)]
    latest = [price for text in said for price in _PRICE.findall(text)[-1:]]
    return " ".join([*_PRICE.findall(env.goal), *latest])


def _move_prices(text: str, dearer: int) -> str:
    return _PRICE.sub(lambda price: f"${int(price[0][1:]) + dearer}", text)


def _write_lookup(env: WikiSearch, query: str) -> str:
    call = json.dumps({"name": "wiki_search", "args": {"query": query}}, ensure_ascii=False)
    return _write_reply(env, "i look it up", f"<tool>{call}</tool>")


def _draw_names(rng: np.random.Generator, text: str, names: list[str]) -> dict[str, str]:
    """Another name or number for each of a text, and in one lesson of five none.

    A name is put together from the ends of two, so that it has to be read and cannot be guessed.
    """
    if rng.random() < TRUE:
        return {}
    others: dict[str, str] = {}
    for word in dict.fromkeys(_WORD.findall(text)):
        if word.isdecimal():
            others[word] = "".join(str(rng.integers(1, 10)) for _ in word)
        elif word in names:
            others[word] = _mix_names(rng, names)
            others[word.lower()] = others[word].lower()
    return others


def _mix_names(rng: np.random.Generator, names: Sequence[str]) -> str:
    """A name put together from the ends of two."""
    one, two = (names[int(place)] for place in rng.integers(len(names), size=2))
    return f"{one[: len(one) // 2 + 1]}{two[len(two) // 2 :].lower()}"


def _replace_words(renamed: dict[str, str], text: str) -> str:
    return _WORD.sub(lambda found: renamed.get(found[0], found[0]), text)


def _write_reply(env: WikiSearch, thought: str, action: str) -> str:
    return env.reply_form.format(thought=thought, action=action)


@lru_cache(maxsize=1)
def _open_wiki() -> tuple[WikiSearch, list[Question], list[str]]:
    """The environment, questions whose answer stands in the article that they find, and names."""
    env = WikiSearch(split="train", data="embedded")
    asked = [q for q in env.data.questions.values() if q.split == "train" and q.kind == "single"]
    pages = env.retriever.search([question.text for question in asked], 1)
    texts = ["\n".join(p.text for p in env.pages.find_passages(found[0].title)) for found in pages]
    known = [q for q, text in zip(asked, texts, strict=True) if in_any(q.answers[:1], [text])]
    words = Counter(
        word for found in pages for word in dict.fromkeys(_WORD.findall(found[0].title))
    )
    words.update(word for q in known for word in dict.fromkeys(_WORD.findall(q.answers[0])))
    names = [word for word, times in words.items() if times <= RARE and word[0].isupper()]
    return env, known, names


@lru_cache(maxsize=1)
def _open_sokoban() -> Sokoban:
    return Sokoban(split="train", rooms=ROOMS, max_solution=6, wall="invalid", max_turns=10)


@lru_cache(maxsize=1)
def _open_ezpoints() -> EZPoints:
    return EZPoints(split="train")


@lru_cache(maxsize=1)
def _open_appworld() -> AppWorld:
    return AppWorld(split="train", families=FAMILIES, train_seeds=REQUESTS)


@lru_cache(maxsize=1)
def _list_requested_words() -> list[str]:
    """The words that requests of `FAMILIES` are about."""
    env, words = _open_appworld(), set[str]()
    for task in env.panel.task_ids[:: REQUESTS // 50]:
        env.reset(options={"task_id": task})
        coder, ended = Coder(env), False
        while not ended:
            code = coder.act()
            ended = env.step(env.reply_form.format(thought="", action=code))[2]
        words.update(_LITERAL.findall(code))
    return sorted(words)


@lru_cache(maxsize=1)
def _open_sotopia() -> Sotopia:
    return Sotopia(split="train", family="bargain")


@lru_cache(maxsize=CATALOGUES)
def _open_shop(seed: int) -> Shop:
    return Shop(
        generate_catalogue(seed), kind="synthetic", strict=True, price_seed=seed, attributes=False
    )


def _is_delivery(turn: Shown, task: TaskLine) -> bool:
    """Whether a turn puts a thing of the task's type where the task wants it."""
    words = turn.action.split()
    return (
        not turn.mistake
        and words[0] == "move"
        and (words[1], words[-2]) == (task.thing, task.place)
    )
