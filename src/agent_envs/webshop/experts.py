"""The experts of WebShop-v1: an Explorer that reads the pages, and the Oracle.

The Explorer knows the wordings of all splits. Of the shop it reads only what the pages show.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.assets import table
from agent_envs.experts import Step, playing
from agent_envs.webshop.env import WebShop
from agent_envs.webshop.oracle import Oracle, click
from agent_envs.webshop.pages import BACK, BUY, FEATURES, NEXT, PREVIOUS, Page

if TYPE_CHECKING:
    import gymnasium as gym

    from agent_envs.webshop.pages import Element
    from agent_envs.webshop.shop import Shop

__all__ = ["Explorer", "Oracle", "Reading", "Request", "Shopper", "read_request"]

_SLOT = re.compile(r"\\\{(\w+)\\\}")
_NUMBER = re.compile(r"\d+")
_PRICE = re.compile(r"\$(\d+)")
_SIDES = ("no", "yes")


class Reading(NamedTuple):
    """What a phrase says of a property: a side, or a number, which in requests is a bound."""

    name: str
    holds: bool
    number: int = -1

    def meets(self, wish: Reading) -> bool:
        """Whether this, of a page, is as a request wants it."""
        holds = self.number >= wish.number if wish.number >= 0 else self.holds
        return holds == wish.holds

    def ask(self) -> str:
        """This, of a request, in a word or two."""
        if self.number < 0:
            return _SIDES[self.holds]
        return f"{'from' if self.holds else 'below'} {self.number}"

    def tell(self, known: dict[str, Reading]) -> str:
        """What is known of the same property, "?" for nothing."""
        said = known.get(self.name)
        if said is None:
            return "?"
        return _SIDES[said.holds] if said.number < 0 else str(said.number)


class Request(NamedTuple):
    """A request as read; the limit is in dollars."""

    product: str
    options: tuple[tuple[str, str], ...]
    limit: int
    wishes: tuple[Reading, ...]


class Shopper:
    """Uses only the pages shown: reads products below the limit one by one, chooses, buys."""

    def __init__(self, shop: Shop, request: Request) -> None:
        self.shop, self.request = shop, request

    def take_step(self, trail: Sequence[Page]) -> Step:
        """The step on the last of these pages, given the pages before it."""
        page, request = trail[-1], self.request
        if page.kind == "index":
            return Step(f"search[{request.product}]", request.product)
        if page.kind == "results":
            return self.pick_product(self.shop.build_body(page), trail)
        known = self.read_product(page.product, trail)
        wrong = [wish for wish in request.wishes if not self._may_meet(known, wish)]
        if wrong or page.kind == "sub":
            return click(PREVIOUS, self._compare(known))
        missing = [wish for wish in request.wishes if wish.name not in known]
        if missing:
            return click(FEATURES, self._compare(known))
        for name, value in request.options:
            if (name, value) not in page.options:
                return click(value, f"{self._compare(known)}; {name} {value}")
        return click(BUY, f"{self._compare(known)}; all is as asked")

    def pick_product(self, elements: Sequence[Element], trail: Sequence[Page]) -> Step:
        """A click on the first product of a list that may be the one."""
        thoughts = [f"under ${self.request.limit}"]
        for here, title, price in zip(elements, elements[1:], elements[2:], strict=False):
            if here.kind == "product" and title.text.lower() == self.request.product.lower():
                known = self.read_product(self.shop.place[here.text.lower()], trail)
                dear = int(_PRICE.findall(price.text)[0]) >= self.request.limit
                seen = not all(self._may_meet(known, wish) for wish in self.request.wishes)
                verdict = "is too dear" if dear else "is wrong" if seen else "may be it"
                thoughts.append(f"{here.text} {price.text} {verdict}".lower())
                if not dear and not seen:
                    return click(here.text, "; ".join(thoughts))
        more = any(one.text == NEXT for one in elements)
        return click(NEXT if more else BACK, "; ".join(thoughts))

    def read_product(self, product: int, trail: Sequence[Page]) -> dict[str, Reading]:
        """What the shown pages of a product say, by property."""
        shown = {(one.kind, one.sub): one for one in trail if one.product == product}
        texts = chain.from_iterable(self.shop.build_body(one) for one in shown.values())
        return {said.name: said for one in texts for said in read_sentence(one.text.strip())}

    def _compare(self, known: dict[str, Reading]) -> str:
        """What is asked for and what is told, by property."""
        return "; ".join(f"{w.name} {w.ask()} told {w.tell(known)}" for w in self.request.wishes)

    @staticmethod
    def _may_meet(known: dict[str, Reading], wish: Reading) -> bool:
        return wish.name not in known or known[wish.name].meets(wish)


class Explorer(Oracle):
    """A `Shopper` that has seen all pages of the episode, including those opened by others."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._shopper = Shopper(playing(env, WebShop).shop, read_request(self._env.goal))

    def plan(self) -> Step:
        """The shopper's step on the last page."""
        return self._shopper.take_step(self._env.trail)


class Words(NamedTuple):
    """The sentences of all splits as patterns, and the phrases with the number as {N}."""

    openings: list[re.Pattern[str]]
    wishes: list[tuple[re.Pattern[str], bool]]
    says: list[re.Pattern[str]]
    phrases: dict[str, tuple[str, bool]]


def read_request(text: str) -> Request:
    """Read the text of a request.

    Raises:
        ValueError: its wording is not one of the generated catalogues.
    """
    words = read_words()
    opening = next(filter(None, (one.match(text) for one in words.openings)), None)
    if opening is None:
        raise ValueError(f"the Explorer only reads requests of WebShop-v1, got {text!r:.200}")
    wishes = [
        said._replace(holds=said.holds == wanted)
        for frame, wanted in words.wishes
        for found in frame.finditer(text, opening.end())
        for said in _read_phrase(found["ask"])
    ]
    options = tuple(
        (name, value)
        for name, _, value in (part.partition(" ") for part in opening["options"].split(" and "))
    )
    product = f"{opening['brand']} {opening['kind']}"
    return Request(product, options, int(opening["limit"]), tuple(wishes))


@lru_cache(maxsize=1 << 14)
def read_sentence(text: str) -> tuple[Reading, ...]:
    """What a sentence of a page says, () for one that says nothing of a product."""
    for frame in read_words().says:
        found = frame.fullmatch(text)
        if found and (said := _read_phrase(found["yes"])) and _read_phrase(found["no"]):
            return said
    return ()


def _read_phrase(text: str) -> tuple[Reading, ...]:
    known = read_words().phrases.get(_NUMBER.sub("{N}", text))
    number = _NUMBER.search(text)
    return (Reading(*known, int(number[0]) if number else -1),) if known else ()


@lru_cache(maxsize=1)
def read_words() -> Words:
    """The words of the generated catalogues."""
    words = table("webshop/world.toml")
    frames = words["requests"] | words["pages"]
    made = {
        name: [re.compile(_SLOT.sub(r"(?P<\1>[^.]+?)", re.escape(one))) for one in chain(*lists)]
        for name, lists in frames.items()
    }
    phrases: dict[str, tuple[str, bool]] = {}
    for of in words["departments"]:
        for name, sides in of["sides"].items():
            for side, lists in sides.items():
                phrases |= dict.fromkeys(chain(*lists), (name, side == "yes"))
        for name, numbers in of["numbers"].items():
            for least, most, *says in numbers["says"]:
                phrases |= dict.fromkeys((least, *says), (name, True)) | {most: (name, False)}
    wishes = [(one, kind == "want") for kind in ("want", "refusal") for one in made[kind]]
    return Words(made["opening"], wishes, made["says"], phrases)
