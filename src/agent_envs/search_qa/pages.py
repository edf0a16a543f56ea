"""Pages: the passages of a corpus grouped by title, as articles with sections."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.retrieval.bm25 import BM25
from agent_envs.retrieval.passages import Passage

if TYPE_CHECKING:
    from agent_envs.retrieval.corpus import Corpus

FOUND = 10  # pages per search
WHOLE, INTRODUCTION = "full", "Introduction"


class Section(NamedTuple):
    """A part of a page; `id` is "<page id>:<slug of the section's name>"."""

    id: str
    name: str
    text: str


class Pages:
    """Pages made of all passages with the same title, in order; the id is that of the first.

    A passage without a title is its own page, with its id as the title.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._titled: dict[str, list[int]] = defaultdict(list)
        for place, passage in enumerate(corpus):
            self._titled[passage.title or passage.id].append(place)
        self._title = {corpus[places[0]].id: title for title, places in self._titled.items()}

    @cached_property
    def titles(self) -> BM25:
        """A BM25 index of the titles, made on first use."""
        return BM25([Passage(page, title, "") for page, title in self._title.items()])

    def search(self, query: str) -> list[Passage]:
        """At most 10 pages whose titles share words with the query, best first, without text."""
        return self.titles.search([query], FOUND)[0]

    def titled(self, title: str) -> list[Passage]:
        """The passages of the page with that title; [] if there is none."""
        return [self.corpus[place] for place in self._titled.get(title, ())]

    def passages(self, page: str) -> list[Passage] | None:
        """The passages of the page with that id; None if there is none."""
        return self.titled(self._title[page]) if page in self._title else None

    def sections(self, page: str) -> list[Section] | None:
        """A page's sections, one for each line that begins with #, or the whole; None if no page.

        Text before the first heading is the section "Introduction". If sections have the same
        name, only the first can be read.
        """
        passages = self.passages(page)
        return None if passages is None else split(page, "\n".join(p.text for p in passages))

    def __deepcopy__(self, memo: dict[int, Any]) -> Pages:
        return self


def split(page: str, text: str) -> list[Section]:
    """The sections of a page's text."""
    parts: list[tuple[str, list[str]]] = [(INTRODUCTION, [])]
    for line in text.split("\n"):
        if line.startswith("#"):
            parts.append((line.lstrip("#").strip() or INTRODUCTION, []))
        parts[-1][1].append(line)
    if len(parts) == 1:
        return [Section(f"{page}:{WHOLE}", "Full Page", text)]
    if not "".join(parts[0][1]).strip():
        del parts[0]
    return [Section(f"{page}:{slug(name)}", name, "\n".join(lines)) for name, lines in parts]


def slug(name: str) -> str:
    """A section's name as written in its id."""
    return name.lower().replace(" ", "_")


@lru_cache(maxsize=2)
def pages_of(corpus: Corpus) -> Pages:
    """The pages of a corpus, cached."""
    return Pages(corpus)
