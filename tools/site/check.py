"""What a finished site must be: no link to nowhere, nothing from another host, no heavy page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
LOADED_LINKS = {"stylesheet", "preload", "icon", "modulepreload", "preconnect", "dns-prefetch"}
SCROLLING = {"table-wrapper", "signals", "wide", "indextable", "domainindex-table"}
"""Classes in which a table that is wider than the screen scrolls or is stacked."""
VERBATIM = {"code", "pre", "script", "style"}
UNCONVERTED = r"\$[^$]*\\[a-zA-Z]+|^\\[a-zA-Z]+"
"""A command of LaTeX in a formula that was not found, or alone, as the converter leaves it."""
HEAVIEST = 200_000
"""The most bytes of a page."""


class Page(HTMLParser):
    """The targets, links and loaded files of a page, and what is wrong within it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.without_alt: list[str] = []
        self.weight = len(text.encode())
        self.loose_tables = 0
        self.latex: list[str] = []
        self._around: list[set[str]] = []
        self._verbatim = 0
        self.feed(text)

    def has(self, fragment: str) -> bool:
        """Whether a link can end at this fragment; the empty one is the page itself."""
        return not fragment or fragment in self.ids

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag is, points at or loads."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and LOADED_LINKS & set(given.get("rel", "").split()):
            self.loaded.append(given["href"])
        if given.get(LOADED.get(tag, "")):
            self.loaded.append(given[LOADED[tag]])
        if tag == "img" and not given.get("alt"):
            self.without_alt.append(given.get("src", ""))
        if tag in {"div", "table"}:
            self._around.append(set(given.get("class", "").split()))
        if tag == "table" and not SCROLLING & set().union(*self._around):
            self.loose_tables += 1
        self._verbatim += tag in VERBATIM

    def handle_endtag(self, tag: str) -> None:
        """Note what is around the next tags and texts."""
        self._verbatim -= tag in VERBATIM
        if tag in {"div", "table"} and self._around:
            self._around.pop()

    def handle_data(self, data: str) -> None:
        """Note commands of LaTeX, which a formula that was not converted shows."""
        if not self._verbatim:
            self.latex += re.findall(UNCONVERTED, data)

    def problems(self) -> list[str]:
        """What is wrong with the page by itself."""
        found = [f"image without alt: {src}" for src in self.without_alt]
        found += [f"loads {url}" for url in self.loaded if urlsplit(url).netloc]
        found += [f"shows {command}, a formula was not converted" for command in self.latex]
        if self.loose_tables:
            found.append(f"{self.loose_tables} tables that do not scroll by themselves")
        if self.weight > HEAVIEST:
            found.append(f"{self.weight:,} bytes, more than {HEAVIEST:,}; split it")
        return found


def problems(site: Path) -> list[str]:
    """One line for each broken link, file of another host, or problem of a page by itself."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
    }
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        found += [f"{name}: {wrong}" for wrong in page.problems()]
        for url in {*page.links, *page.loaded}:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{name}: {url} does not exist")
            elif target in pages and not pages[target].has(unquote(parts.fragment)):
                found.append(f"{name}: {url} has no such heading")
    for style in site.rglob("*.css"):
        text = re.sub(r"[\s\"']", "", style.read_text(encoding="utf-8"))
        if re.search(r"url\((https?:)?//", text) or "@importhttp" in text:
            found.append(f"{style.relative_to(site)}: loads from another host")
    return sorted(found)
