"""Shops: a catalogue with its goals, and the rules of its pages, the public WebShop's or ours.

All environments of a process with the same data and rules share one shop.
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from agent_envs.spaces import ACTION_LENGTH
from agent_envs.webshop import pages, reward
from agent_envs.webshop.catalogue import require_requests
from agent_envs.webshop.goals import draw_prices, make_goals
from agent_envs.webshop.pages import Element, Page
from agent_envs.webshop.world import open_world

if TYPE_CHECKING:
    from agent_envs.webshop.catalogue import Catalogue, Product
    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.reward import Score
    from agent_envs.webshop.world import World

PAGES_KEPT = 8192
SCORES_KEPT = 4096
_PUBLIC = re.compile(r"(.+)\[(.+)\]")
_ACTION = re.compile(r"\s*(search|click)\[(.*)\]\s*", re.DOTALL)
_SECOND = re.compile(r"\].*\b(?:search|click)\[", re.DOTALL | re.IGNORECASE)


class Reading(NamedTuple):
    """The clickable texts of a page, and its text below the head as observation="text" has it.

    The first and the last page have no text here.
    """

    clickable: tuple[str, ...]
    text: str = ""


class Shop(ABC):
    """Goals and pages of a catalogue; immutable.

    Attributes:
        public: Whether its rules are those of the public WebShop, with their faults.
        products, place, search: Those of the catalogue.
        goals: By task id.
        number: Of each task id, the number of the goal.
        build_body: The elements of a page below its head, cached; not of the first and the last.
        read_body: The `Reading` of a page, cached.
    """

    public: ClassVar[bool]

    def __init__(self, catalogue: Catalogue | World, goals: Sequence[Goal]) -> None:
        self.products: Sequence[Product] = catalogue.products
        self.place = catalogue.place
        self.search: Callable[[str], tuple[int, ...]] = catalogue.search
        self.goals = {goal.task_id: goal for goal in goals}
        self.number = {task_id: str(place) for place, task_id in enumerate(self.goals)}
        self.build_body = lru_cache(maxsize=PAGES_KEPT)(self._build_body)
        self.read_body = lru_cache(maxsize=PAGES_KEPT)(self._read_body)
        self._read_anew = lru_cache(maxsize=PAGES_KEPT)(self._read_elements)

    def __deepcopy__(self, memo: dict[int, Any]) -> Shop:
        return self

    @abstractmethod
    def parse(self, action: str) -> tuple[str, str]:
        """Name and lower-case argument of an action, ("", "") for any other text."""

    @abstractmethod
    def score(self, goal: Goal, page: Page) -> Score:
        """The score of buying the page's product with its chosen options."""

    def follow(self, page: Page, session: str, name: str, argument: str) -> tuple[Page, str]:
        """The page that an action leads to, and "" or why it has no effect."""
        if not name:
            return page, "format"
        if name == "search":
            if page.kind != "index" and not self.public:
                return page, "refused"
            return Page("results", argument, visited=page.visited), ""
        if argument == "search" and page.kind == "index":
            return page, "refused"
        if argument not in self.read_body(page).clickable:
            return page, "unknown"
        return self._click(page, session, argument), ""

    def list_elements(self, page: Page, instruction: str, score: float = 0.0) -> list[Element]:
        """The elements of a page."""
        if page.kind == "index":
            return pages.build_index(instruction)
        if page.kind == "done":
            return pages.build_receipt(page, self.products[page.product], score)
        return [*pages.build_head(instruction), *self.build_body(page)]

    def write_text(self, page: Page, instruction: str, score: float = 0.0) -> str:
        """The page as text."""
        if page.kind in {"index", "done"}:
            return pages.write_text(self.list_elements(page, instruction, score), marked=False)
        head = pages.write_text(pages.build_head(instruction), marked=False)
        return f"{head}{pages.SEPARATOR}{self.read_body(page).text}"

    def write_address(self, page: Page, session: str) -> str:
        """The page's address on the public site."""
        product = self.products[page.product] if page.product >= 0 else None
        return pages.write_address(page, session, product)

    def _read_body(self, page: Page) -> Reading:
        """What can be read on a page: the path to it changes nothing, a choice only marks."""
        where = page[1:3] if page.kind == "results" else ("", 1)
        options = () if self.public else page.options
        return self._read_anew(Page(page.kind, *where, page.product, options, page.sub))

    def _read_elements(self, page: Page) -> Reading:
        if page.kind in {"index", "done"}:
            return Reading(("search",) if page.kind == "index" else ())
        elements = self._build_body(page)
        clicks = pages.list_clicks([*pages.build_head(""), *elements])
        text = pages.write_text(elements, marked=not self.public)
        return Reading(tuple(filter(self._can_click, clicks)), text)

    def _build_body(self, page: Page) -> Sequence[Element]:
        if page.kind == "results":
            found = self.search(page.query)
            return pages.build_results(page, found, self.products, bounded=not self.public)
        build = self._build_item if page.kind == "item" else pages.build_tab
        return build(page, self.products[page.product])

    def _build_item(self, page: Page, product: Product) -> list[Element]:
        return pages.build_told_item(page, product)

    def _can_click(self, text: str) -> bool:
        """Whether an action can name a text: a public option may be empty, or have brackets."""
        action = f"click[{text}]"
        return self.parse(action) == ("click", text) and len(action) <= ACTION_LENGTH

    def _click(self, page: Page, session: str, text: str) -> Page:
        if text == pages.BACK.lower():
            return Page()
        if text == pages.BUY.lower():
            return page._replace(kind="done")
        if text in {pages.NEXT.lower(), pages.PREVIOUS.lower()}:
            return self._turn(page, session, forward=text == pages.NEXT.lower())
        if page.kind == "results":
            return page.open_product(self.place[text])
        sub = next((sub for sub in pages.SUB_PAGES if sub.lower() == text), None)
        if sub:
            return page._replace(kind="sub", sub=sub)
        # if several options have a value, the public WebShop always takes the last
        options = self.products[page.product].options
        return page.choose([name for name, values in options.items() if text in values][-1], text)

    def _turn(self, page: Page, session: str, *, forward: bool) -> Page:
        """The page after or before this one."""
        kind = self._find_kind(page, session)
        if kind == "results":
            return page.show_results(page.number + (1 if forward else -1))
        if kind == "sub":
            return page._replace(kind="item", sub="")
        return page.show_results(page.number)

    def _find_kind(self, page: Page, session: str) -> str:  # noqa: ARG002
        return page.kind


class PublicShop(Shop):
    """The public WebShop.

    Args:
        catalogue: Products and their index.
        kind: Kind of goals, "synthetic" or "human".
        price_seed: Seed of the goals' price limits, and of the prices of products with a range.
        attributes: Whether pages show attributes.
    """

    public = True

    def __init__(
        self, catalogue: Catalogue, *, kind: str, price_seed: int, attributes: bool
    ) -> None:
        self._arguments = (catalogue, kind, price_seed, attributes)
        self.catalogue, self.attributes = catalogue, attributes
        if kind == "human":
            require_requests(catalogue)
        rng = random.Random(price_seed)
        self.prices = draw_prices(catalogue.products, rng)
        super().__init__(catalogue, make_goals(catalogue.products, self.prices, kind, rng))
        values = [v for one in self.products for v in chain.from_iterable(one.options.values())]
        fixed = [v for v in values if v in pages.BUTTONS or not self._can_click(v)]
        catalogue.reading.note(catalogue.folder, fixed, len(values), "option values have no click")
        self._match = lru_cache(maxsize=SCORES_KEPT)(self._match_product)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_shop, self._arguments

    def parse(self, action: str) -> tuple[str, str]:
        """Name and lower-case argument of an action, ("", "") for any other text."""
        found = _PUBLIC.match(action)
        return (
            (found[1], found[2].lower()) if found and found[1] in {"search", "click"} else ("", "")
        )

    def score(self, goal: Goal, page: Page) -> Score:
        """The score of buying the page's product with its chosen options."""
        match = self._match(goal, page.product)
        return reward.make_score(
            match.type,
            (match.attributes, len(goal.attributes)),
            (reward.count_similar_options(goal.options, page.options), len(goal.options)),
            price=match.price,
        )

    def _match_product(self, goal: Goal, product: int) -> reward.Match:
        nouns = self.catalogue.nouns[goal.product], self.catalogue.nouns[product]
        target, bought = self.products[goal.product], self.products[product]
        return reward.match_product(goal, target, bought, nouns, self.prices[product])

    def _build_item(self, page: Page, product: Product) -> list[Element]:
        return pages.build_item(page, product, attributes=self.attributes)

    def _can_click(self, text: str) -> bool:
        return text != "search" and super()._can_click(text)

    def _find_kind(self, page: Page, session: str) -> str:
        """The kind of a page by its address, which also contains the query, as published."""
        names = {"search_results": "results", "item_page": "item", "item_sub_page": "sub"}
        address = self.write_address(page, session)
        return next(of for name, of in names.items() if name in address)


class FactShop(Shop):
    """A generated catalogue: searches from the search page only, and scores by facts."""

    public = False

    def __init__(self, world: World) -> None:
        super().__init__(world, world.goals)
        self.world = world

    def __reduce__(self) -> tuple[Any, ...]:
        return open_facts, self.world.key

    def parse(self, action: str) -> tuple[str, str]:
        """Name and lower-case argument of an action, ("", "") for any other text.

        Two actions in one text are not an action.
        """
        found = _ACTION.fullmatch(action)
        argument = found[2].strip().lower() if found and not _SECOND.search(found[2]) else ""
        return (found[1], argument) if found and argument else ("", "")

    def score(self, goal: Goal, page: Page) -> Score:
        """The score of buying the page's product with its chosen options; 0 of another family."""
        families, facts = self.world.families, self.world.facts[page.product]
        kin = families[page.product] is families[goal.product]
        met = sum(facts.get(wish.name) == wish.holds for wish in goal.wishes)
        return reward.make_score(
            float(kin),
            (met, len(goal.wishes)),
            (sum(option in page.options for option in goal.options), len(goal.options)),
            price=self.products[page.product].prices[0] < goal.price_upper,
        )


@lru_cache(maxsize=4)
def open_shop(catalogue: Catalogue, kind: str, price_seed: int, attributes: bool) -> PublicShop:
    """The public shop of a catalogue, cached."""
    return PublicShop(catalogue, kind=kind, price_seed=price_seed, attributes=attributes)


@lru_cache(maxsize=4)
def open_facts(split: str, requirements: int, seed: int) -> FactShop:
    """The shop of a generated catalogue, cached."""
    return FactShop(open_world(split, requirements, seed))
