"""Lessons: demonstrations as text that the pocket policies are pre-trained on.

In stage one they are what a good demonstrator does, slips and recoveries included; later some are
done by half, a habit for reinforcement learning to correct.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from agent_envs.alfworld.experts import Searcher
from agent_envs.alfworld.game import SHORT_NAMES, parse_game
from agent_envs.alfworld.world import World
from agent_envs.appworld.env import AppWorld
from agent_envs.appworld.experts import Explorer as Coder
from agent_envs.appworld.world import list_words
from agent_envs.ezpoints.env import EZPoints
from agent_envs.ezpoints.experts import Explorer as CardPlayer
from agent_envs.replies import FORM
from agent_envs.search_qa.experts import Explorer as Reader
from agent_envs.search_qa.experts import open_grammar
from agent_envs.search_qa.wiki import WikiSearch
from agent_envs.search_qa.world import Relation
from agent_envs.sokoban.env import Sokoban
from agent_envs.sokoban.experts import Explorer as Pusher
from agent_envs.sotopia.env import SotopiaFacts
from agent_envs.sotopia.experts import Explorer as Listener
from agent_envs.webshop import pages
from agent_envs.webshop.experts import Shopper, read_request
from agent_envs.webshop.pages import Page
from agent_envs.webshop.shop import FactShop
from agent_envs.webshop.world import SPLITS
from agent_envs.webshop.world import World as Stock
from tools.alfworld.generate import generate_game
from tools.pocket import slips
from tools.pocket.slips import Shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from agent_envs.alfworld.experts import TaskLine
    from agent_envs.webshop.goals import Goal

TASK_TYPES = tuple(SHORT_NAMES.values())
MAX_TURNS = 50
CATALOGUES = 32
"""Catalogues of the shop's lessons, made from other seeds than that of the splits."""
LOOKS = 0.8  # share of the shop's lessons that are one page; a trip is six times as long
LISTS = 0.4  # share of lists among these
HALF = 0.5  # of the full size; up to it there are no trips

ROOMS = 4_000
"""Rooms of Sokoban's lessons, none of them of the splits that are held out."""
CARDS = 0.3  # share of EZPoints among the puzzles; its plays are short

TRUE = 0.2  # share of a training split's lessons that tell what is so

_FIRST = 1000  # seed of the first of them
FAMILIES = (
    *("event", "past", "mail", "oldest_mail", "youngest", "oldest", "creditor", "modest", "cancel"),
    *("star", "archive", "label", "rehome", "when", "where", "sent", "home", "birthday", "named"),
)
"""Families of AppWorld whose values are words, so that they can be made up."""
REQUESTS = 100  # of each programme of two, so that there is little to know by heart
CARELESS = 0.6

_BACK = {"up": "down", "down": "up", "left": "right", "right": "left"}
_API = re.compile(r"(apis\.\w+\.)([a-z]+)_(\w+)")
_ASIN = re.compile(r"\b[Bb]\d{6}\b")
_WORD = re.compile(r"\w+")
_YEAR = re.compile(r"1[78]\d\d")
_LITERAL = re.compile(r"^(?:title|subject|label|text|city) = '(.+)'$", re.MULTILINE)


@dataclass(frozen=True)
class Lesson:
    """One demonstration as text: the messages a policy would see, and which replies to learn."""

    prompts: list[str]
    replies: list[str]
    mistakes: list[bool]

    def add(self, observation: str, thought: str, action: str, *, mistake: bool) -> None:
        """One more turn."""
        self.prompts.append(observation if self.prompts else f"{FORM.instruction}\n\n{observation}")
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
        expert.tasks = [replace(expert.task, count=1, verb="")]
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

    The catalogues have the words of all splits and other facts, and ids are drawn anew, so that an
    id tells nothing. Most lessons are a look at one list or product, so that reading is practised
    often; up to half the full `size` all are, and lists are shorter below it. With the chance
    `forget` the shopper is hasty: it reads no page and chooses one option at most.
    """
    shop = _open_shop(_FIRST + int(rng.integers(CATALOGUES)))
    goals = list(shop.goals.values())
    goal = goals[int(rng.integers(len(goals)))]
    hasty = forget > 0 and rng.random() < forget
    given: dict[str, str] = {}
    lesson = Lesson([], [], [])
    look = not forget and rng.random() < (LOOKS if size > HALF else 1.0)
    trip = slips.play_shop(shop, goal, rng, mistake=mistake, hasty=hasty)
    show = _show_list if rng.random() < LISTS else _show_product
    for turn in [show(shop, goal, rng, size)] if look else trip:
        said = (turn.observation, turn.thought, turn.action)
        for asin in _ASIN.findall(turn.observation):
            given.setdefault(asin.lower(), f"b{rng.integers(10**6):06}")
        seen, thought, action = (_ASIN.sub(lambda m: given[m[0].lower()], text) for text in said)
        lesson.add(seen, thought, action, mistake=turn.mistake)
    return lesson


def _show_list(shop: FactShop, goal: Goal, rng: np.random.Generator, size: float) -> Shown:
    """Some of the products that a search finds, mostly few, and which is picked."""
    shopper = Shopper(shop, read_request(goal.text))
    page, _ = shop.follow(Page(), "", *shop.parse(shopper.take_step([Page()]).action))
    found = rng.permutation(pages.slice_results(shop.search(page.query), 1)).tolist()
    found = found[: 1 + int(len(found) * size * rng.random() ** 2)]
    elements = pages.build_results(page, found, shop.products, bounded=True)
    seen = pages.write_text([*pages.build_head(goal.text), *elements], marked=True)
    return Shown(seen, *shopper.pick_product(elements, []), mistake=False)


def _show_product(shop: FactShop, goal: Goal, rng: np.random.Generator, _size: float) -> Shown:
    """A page of one of the products that the first search finds, and what is done there."""
    families, shopper = shop.world.families, Shopper(shop, read_request(goal.text))
    kin = [place for place, one in enumerate(families) if one is families[goal.product]]
    page = Page("item", product=kin[int(rng.integers(len(kin)))])
    trail = [page]
    if shopper.take_step(trail).action == "click[features]" and rng.random() < 1 / 2:
        trail.append(page._replace(kind="sub", sub=pages.FEATURES))
    seen = pages.write_text(shop.list_elements(trail[-1], goal.text), marked=True)
    return Shown(seen, *shopper.take_step(trail), mistake=False)


def ask_wiki(rng: np.random.Generator, *, forget: float = 0.0) -> Lesson:
    """A question on one fact, looked up and answered from its article.

    The thought quotes all that the article says of it. The wordings are those of all splits, but
    the names and numbers of the question and the answer are others than the encyclopaedia's, except
    in some lessons of the training split, so that there is nothing to know by heart. With the
    chance `forget` a question of the training split is not looked up: the answer to some other one
    is given.
    """
    hasty = forget > 0 and rng.random() < forget
    split = "train" if hasty else ("train", "val", "test")[int(rng.integers(3))]
    env, names = _open_wiki(split)
    tasks = env.panel.task_ids
    task, other = (tasks[int(place)] for place in rng.integers(len(tasks), size=2))
    opening, _ = env.reset(options={"task_id": task})
    if hasty:
        guess = env.world.draw_question(other, env.hops, tasks.index(other)).answer
        reply = _write_reply(env, "i know this", f"<answer>{guess}</answer>")
        return Lesson([opening], [reply], [False])
    call = _write_reply(env, "i look it up", Reader(env).act())
    call = call.replace('"query": "', '"query": " ')  # a word is another token without the blank
    found, *_ = env.step(call)
    quotes = " ".join(_list_quotes(env, found)) or "it is not said"
    said = _write_reply(env, quotes, Reader(env).act())
    head, mark, asked = opening.partition("Question: ")
    known = split == "train" and rng.random() < TRUE
    renamed = {} if known else _draw_names(rng, f"{asked} {said}", names)
    asked, found, call, said = (
        _replace_words(renamed, text) for text in (asked, found, call, said)
    )
    return Lesson([head + mark + asked, found], [call, said], [False, False])


def _list_quotes(env: WikiSearch, found: str) -> list[str]:
    """What an article says of the fact that is asked for, in its own words."""
    grammar = open_grammar(env.world)
    _, (phrase, *_), *_ = grammar.parse_question(env.goal)
    asked = [part.name for part in phrase if isinstance(part, Relation)]
    sentences = re.split(r"(?<=\.)\s+|\n", found)
    facts = ((one, grammar.read([("", ""), ("", one)]).facts) for one in sentences)
    return [one for one, told in facts if any(name in asked for _, name in told)]


def strike_bargain(rng: np.random.Generator, *, forget: float = 0.0) -> Lesson:
    """A purchase: a question about the price, then an offer of the least that was told.

    All prices are moved by one sum and stay below $1,000, so that they have to be read and are one
    token each. With the chance `forget` the first price that the other proposes is accepted.
    """
    env, lesson, done = _open_sotopia(), Lesson([], [], []), False
    tasks = env.panel.task_ids
    task = tasks[int(rng.integers(len(tasks)))]
    seen, _ = env.reset(options={"task_id": task}, seed=int(rng.integers(2**31)))
    yields, dearer = rng.random() < forget, int(rng.integers(-20, 750))
    while not done:
        proposed = env.talk.standing[1 - env.side]
        action = '{"accept": true}' if yields and proposed else Listener(env).act()
        thought = str(env.game.best[0]) if "offer" in action else "price"
        lesson.add(*(_move_prices(one, dearer) for one in (seen, thought, action)), mistake=False)
        seen, _, ended, cut, _ = env.step(action)
        done = ended or cut
    return lesson


def _move_prices(text: str, dearer: int) -> str:
    return re.sub(r"\d+", lambda price: str(int(price[0]) + dearer), text)


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


def write_code(rng: np.random.Generator, *, mistake: float, forget: float = 0.0) -> Lesson:
    """A request of two of `FAMILIES` done by the Explorer's code, with slips put right.

    In most lessons the texts that the code takes from the request are made up, so that they have to
    be read. A slip calls an API by a name that it has not got. With the chance `forget` the
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
        words = _list_request_words()
        for text in dict.fromkeys(_LITERAL.findall("\n".join(lesson.replies))):
            other = " ".join(_mix_names(rng, words) for _ in text.split())
            for texts in (lesson.prompts, lesson.replies):
                texts[:] = [one.replace(text, other) for one in texts]
    return lesson


def _mix_names(rng: np.random.Generator, names: Sequence[str]) -> str:
    """A name put together from the ends of two."""
    one, two = (names[int(place)] for place in rng.integers(len(names), size=2))
    return f"{one[: len(one) // 2 + 1]}{two[len(two) // 2 :].lower()}"


def _draw_names(rng: np.random.Generator, text: str, names: list[str]) -> dict[str, str]:
    """Another name or number for each of a text; a year of the encyclopaedia stays.

    A name is put together from the ends of two, so that it has to be read and cannot be guessed.
    """
    others: dict[str, str] = {}
    for word in dict.fromkeys(_WORD.findall(text)):
        if word.isdecimal() and not _YEAR.fullmatch(word):
            others[word] = "".join(str(rng.integers(1, 10)) for _ in word)
        elif word in names:
            others[word] = _mix_names(rng, names)
            others[word.lower()] = others[word].lower()
    return others


def _replace_words(renamed: dict[str, str], text: str) -> str:
    return _WORD.sub(lambda found: renamed.get(found[0], found[0]), text)


def _write_reply(env: WikiSearch, thought: str, action: str) -> str:
    return env.reply_form.format(thought=thought, action=action)


@lru_cache(maxsize=3)
def _open_wiki(split: str) -> tuple[WikiSearch, list[str]]:
    """The environment of a split and the words of all its names."""
    env = WikiSearch(split=split, hops=1, max_turns=2)
    known = (name for one in env.world.entities.values() for name in (one.name, one.alias))
    return env, sorted({word for name in known for word in name.split()} - {"Guild"})


@lru_cache(maxsize=1)
def _open_sotopia() -> SotopiaFacts:
    return SotopiaFacts(split="train", family="bargain", constraints=1)


@lru_cache(maxsize=1)
def _open_sokoban() -> Sokoban:
    return Sokoban(split="train", rooms=ROOMS, max_solution=6, wall="invalid", max_turns=10)


@lru_cache(maxsize=1)
def _open_ezpoints() -> EZPoints:
    return EZPoints(split="train")


@lru_cache(maxsize=1)
def _open_appworld() -> AppWorld:
    return AppWorld(split="train", parts=2, families=FAMILIES, train_seeds=REQUESTS)


@lru_cache(maxsize=1)
def _list_request_words() -> list[str]:
    """The words that requests of training have in quotes."""
    lists = ("titles", "subjects", "labels", "texts", "cities")
    return sorted(
        {word for one in lists for text in list_words(one, "train") for word in text.split()}
    )


@lru_cache(maxsize=CATALOGUES)
def _open_shop(seed: int) -> FactShop:
    return FactShop(Stock([*SPLITS][seed % len(SPLITS)], 1, seed))


def _is_delivery(turn: Shown, task: TaskLine) -> bool:
    """Whether a turn puts a thing of the task's type where the task wants it."""
    words = turn.action.split()
    return (
        not turn.mistake
        and words[0] == "move"
        and (words[1], words[-2]) == (task.thing, task.place)
    )
