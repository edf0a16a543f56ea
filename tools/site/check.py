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
SCROLLING = {"table-wrapper", "signals", "indextable", "domainindex-table"}
"""Classes in which a table that is wider than the screen scrolls or is stacked."""
HEAVIEST = 200_000
"""The most bytes of a page."""


class Page(HTMLParser):
    """The targets, links and loaded files of a page; its images without a text, its loose tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.without_alt: list[str] = []
        self.loose_tables = 0
        self._around: list[set[str]] = []
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

    def handle_endtag(self, tag: str) -> None:
        """Note what is around the next tags."""
        if tag in {"div", "table"} and self._around:
            self._around.pop()


def problems(site: Path) -> list[str]:
    """One line for each broken link, file of another host, image without a text, and so on."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
    }
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        found += [f"{name}: image without alt: {src}" for src in page.without_alt]
        found += [f"{name}: loads {url}" for url in page.loaded if urlsplit(url).netloc]
        if page.loose_tables:
            found.append(f"{name}: {page.loose_tables} tables that do not scroll by themselves")
        if (weight := path.stat().st_size) > HEAVIEST:
            found.append(f"{name}: {weight:,} bytes, more than {HEAVIEST:,}; split it")
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
