"""The shop as a web site of one episode: HTML pages, and a server for this machine only.

An address contains the whole state of its page, so that the browser's history and a reload work.
The agent's text is read from the elements with `data-kind`, in order; the rest is for people. A
site keeps the task, the pages that the episode led to and, after the purchase, the receipt. It has
no accounts, logs or scripts, and loads nothing from outside the package.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from agent_envs.assets import require
from agent_envs.contract import encodable
from agent_envs.net import connections
from agent_envs.net.connections import Guard, RefusalError
from agent_envs.spaces import ACTION_LENGTH
from agent_envs.webshop.pages import Page

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from agent_envs.webshop.catalogue import Product
    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.pages import Element
    from agent_envs.webshop.shop import Shop

ASSETS = ("shop.css", "icon.svg")
HEADERS = {
    "Cache-Control": "no-store",  # after the purchase every page is the receipt
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # with none, a browser sends no Origin for its forms either
    "X-Content-Type-Options": "nosniff",
}
MOST_ADDRESSES = 4096  # the latest addresses of an episode that can be opened
BODY = 65_536  # bytes of a request; forms send none
ON_PRODUCT = ("item", "sub", "done")
_TONES = 6  # colours of the pictures
_DOTS = 5  # in a picture


class Shown(NamedTuple):
    """A displayed element, with the target of a click and whether it is the purchase."""

    kind: str
    text: str
    chosen: bool
    link: str
    buys: bool


def render_page(
    shop: Shop,
    page: Page,
    goal: Goal,
    score: float = 0.0,
    *,
    link: Callable[[Page], str] | None = None,
    more: bool = False,
) -> str:
    """The page as HTML.

    Args:
        shop: The shop.
        page: The page.
        goal: The shopper's goal.
        score: The score on the last page.
        link: Maps each page that this one links to, to its address; None for `write_link`.
        more: Whether the last page offers another task.

    Raises:
        ImportError: Jinja is not installed.
    """
    session = shop.number[goal.task_id]
    link = link or partial(write_link, shop)
    elements = shop.list_elements(page, goal.text, score)
    shown = [_show_element(shop, page, session, element, link) for element in elements]
    product = shop.products[page.product] if page.kind in ON_PRODUCT else None
    template, groups = _load_template(page.kind), _group_elements(page.kind, shown)
    text = template.render(
        page=page, product=product, goal=goal.text, score=score, more=more, **groups
    )
    # An HTML parser converts a bare carriage return to a line feed, and does not accept NUL.
    return encodable(text).replace("\r", "&#13;").replace("\0", "\ufffd")


def render_notice(title: str, text: str, *, back: bool) -> str:
    """A page outside of any episode, with or without a link back to the running one."""
    return _load_template("notice").render(title=title, text=text, back=back)


def write_link(shop: Shop, page: Page) -> str:
    """The page's address, relative to the other pages of the episode."""
    if page.kind == "index":
        return "./"
    fields: dict[str, object] = {"query": page.query}
    if page.number != 1:
        fields["number"] = page.number
    if page.product >= 0:
        fields["product"] = page.product
    if page.sub:
        fields["sub"] = page.sub
    if page.options:
        fields["options"] = _write_places(shop.products[page.product], page.options)
    if page.visited:
        fields["visited"] = ".".join(map(str, sorted(page.visited)))
    return f"{page.kind}?{urlencode(fields)}"


def _write_places(product: Product, options: Sequence[tuple[str, str]]) -> str:
    """The options by place of name and value, such as "0-2.1-0", so that nothing needs quoting."""
    names = list(product.options)
    return ".".join(
        f"{names.index(name)}-{product.options[name].index(value)}" for name, value in options
    )


def _show_element(
    shop: Shop, page: Page, session: str, element: Element, link: Callable[[Page], str]
) -> Shown:
    if element.kind == "text" or page.kind == "index":
        return Shown(*element, link="", buys=False)
    target, _ = shop.follow(page, session, "click", element.text.lower())
    return Shown(*element, link=link(target), buys=target.kind == "done")


def _group_elements(kind: str, shown: list[Shown]) -> dict[str, Any]:
    """The elements of a kind of page in order, grouped for its layout."""
    if kind == "index":
        return {"said": shown[:-1], "search": shown[-1]}
    if kind == "done":
        return {"thanks": shown[0], "receipt": shown[1:]}
    first = next(at for at, element in enumerate(shown) if element.kind == "button")
    head, back, rest = shown[:first], shown[first], shown[first + 1 :]
    if kind == "results":
        starts = [at for at, element in enumerate(rest) if element.kind == "product"]
        ends = [*starts, len(rest)]
        cards = [rest[start:end] for start, end in pairwise(ends)]
        return {"head": head, "back": back, "pager": rest[: ends[0]], "cards": cards}
    previous, *rest = rest
    if kind == "sub":
        return {"head": head, "back": back, "previous": previous, "told": rest}
    last = max((at for at, element in enumerate(rest) if element.kind == "option"), default=-1)
    tail = rest[last + 1 :]
    return {
        "head": head,
        "back": back,
        "previous": previous,
        "choices": _group_options(rest[: last + 1]),
        "details": [element for element in tail if element.kind == "text"],
        "tabs": [element for element in tail if element.kind == "button"],
    }


def _group_options(shown: Sequence[Shown]) -> list[tuple[list[Shown], list[Shown]]]:
    """Options: the elements before the values (mostly one name), and the values."""
    found: list[tuple[list[Shown], list[Shown]]] = []
    for element in shown:
        if not found or (element.kind == "text" and found[-1][1]):
            found.append(([], []))
        found[-1][element.kind == "option"].append(element)
    return found


def _load_template(name: str) -> Template:
    return _load_environment().get_template(f"{name}.html")


@lru_cache(maxsize=1)
def _load_environment() -> Environment:
    jinja2 = require("jinja2", "webshop")
    environment: Environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.PackageLoader("agent_envs.webshop"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "tone": lambda asin: _draw_dots(asin)[0][2] % _TONES,
        "dots": _draw_dots,
    }
    return environment


def _draw_dots(asin: str) -> list[tuple[int, int, int]]:
    """Place and size of the dots in a product's picture: by its id alone, to reveal nothing."""
    drawn = blake2b(asin.encode(errors="replace"), digest_size=3 * _DOTS).digest()
    return [
        (42 + x % 37, 56 + y % 33, 2 + r % 5) for x, y, r in zip(*[iter(drawn)] * 3, strict=True)
    ]


class Receipt(NamedTuple):
    """The purchase that ended an episode: its page and score."""

    page: Page
    score: float


class Site:
    """A server for a shop, which runs until `close()`; `start` begins an episode.

    It listens on 127.0.0.1, with the checks of `agent_envs.net.connections`. It only serves pages
    that the episode led to: the search page, the results of a search from it, links of served
    pages, and pages given to `open_page`. The first purchase of an episode counts; afterwards all
    of these addresses lead to the receipt.

    Args:
        shop: The shop.
        port: Port to listen on; 0 takes a free one.
        following: Returns the next task id; if given, a receipt offers another task and a stop.

    Raises:
        ImportError: Starlette or uvicorn is not installed.
        ValueError: an invalid port.
        OSError: a port in use.
    """

    def __init__(
        self, shop: Shop, *, port: int = 0, following: Callable[[], str] | None = None
    ) -> None:
        app = _make_app(self, more=following is not None)
        self.shop = shop
        self._following = following
        self._goal: Goal | None = None
        self._receipt: Receipt | None = None
        self._pages: dict[str, Page] = {}
        self._lock = threading.RLock()
        self._purchases: SimpleQueue[Receipt | None] = SimpleQueue()
        self._opened = ExitStack()
        served = connections.serving(Guard(app, largest=BODY), port)
        self.port = urlsplit(self._opened.enter_context(served)).port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, task_id: str) -> str:
        """Begin an episode of a task, return the address of its search page."""
        with self._lock:
            self._goal, self._receipt = self.shop.goals[task_id], None
            self._pages.clear()
            return self.open_page(Page())

    def open_page(self, page: Page) -> str:
        """The address of a page in the episode; it can be opened from now on."""
        return urljoin(f"http://127.0.0.1:{self.port}/{self.session}/", self._register_link(page))

    def find_page(self, address: str) -> Page:
        """The page that an address opens.

        Raises:
            ValueError: It opens no page.
        """
        parts = urlsplit(address)
        session, _, kind = parts.path[1:].partition("/")
        page = self._pages.get(_join_target(kind, parts.query))
        if page is None or session != self.session:
            raise ValueError(f"nothing in the episode at /{self.session}/ led to {address!r:.200}")
        return page

    @property
    def session(self) -> str:
        """Name of the episode in addresses: the number of its goal, which reveals no product."""
        return self.shop.number[self._goal.task_id] if self._goal else ""

    def wait(self) -> Receipt | None:
        """Wait for the next purchase; None if the shopper stopped or the site was closed."""
        return self._purchases.get()

    def close(self) -> None:
        """Stop serving; closing again does nothing."""
        self._opened.close()
        self._purchases.put(None)

    async def redirect_home(self, _: Request) -> Response:
        """Redirect to the episode."""
        self._find_goal(self.session)
        return _redirect(f"/{self.session}/")

    async def show(self, request: Request) -> Response:
        """The page at an address; after the purchase, a redirect to the receipt."""
        kind = request.path_params.get("kind", "")
        goal, receipt = self._find_goal(request.path_params["session"]), self._receipt
        where = _join_target(kind, request.url.query)
        page = self._pages.get(where)
        if page is None and kind == "results":
            page = self._open_search(where)
        if page is None:
            raise RefusalError(404, "No page of this task led to this address.")
        if receipt and page != receipt.page:
            return _redirect(self._register_link(receipt.page))
        if not receipt and page.kind == "done":
            page = page._replace(kind="item")
        if self._register_link(page) != where:
            return _redirect(self._register_link(page))
        more, score = self._following is not None, receipt.score if receipt else 0.0
        return _write_page(
            render_page(self.shop, page, goal, score, link=self._register_link, more=more)
        )

    async def buy(self, request: Request) -> Response:
        """Buy the product in the address, if nothing is bought yet; redirect to the receipt."""
        with self._lock:
            goal = self._find_goal(request.path_params["session"])
            page = self._pages.get(_join_target("done", request.url.query))
            if page is None:
                raise RefusalError(404, "No page of this task led to this address.")
            if self._receipt is None:
                self._receipt = Receipt(page, self.shop.score(goal, page).total)
                self._purchases.put(self._receipt)
            return _redirect(self._register_link(self._receipt.page), 303)

    async def start_another(self, _: Request) -> Response:
        """Begin an episode of the next task, if this one is over, and redirect to it."""
        with self._lock:
            if self._following is not None and self._receipt is not None:
                self.start(self._following())
            return _redirect("/", 303)

    async def stop(self, _: Request) -> Response:
        """Show a last page, which `close` lets arrive; `wait` returns None."""
        self._purchases.put(None)
        text = "The shop is closed. You can close this window."
        return _write_page(render_notice("Stopped", text, back=False))

    def _find_goal(self, session: str) -> Goal:
        """The goal of the running episode, which must be that of `session`."""
        if self._goal is None or session != self.session:
            raise RefusalError(404, "This address belongs to no task, or to another one.")
        return self._goal

    def _register_link(self, page: Page) -> str:
        """The relative address of a page; it can be opened from now on."""
        where = write_link(self.shop, page)
        with self._lock:
            self._pages.pop(where, None)
            self._pages[where] = page
            while len(self._pages) > MOST_ADDRESSES:
                del self._pages[next(iter(self._pages))]
        return where

    def _open_search(self, where: str) -> Page | None:
        """The page for the search form: the results, or the search page if there are no words."""
        fields = parse_qsl(urlsplit(where).query, keep_blank_values=True)
        if [name for name, _ in fields] != ["query"]:
            return None
        action = f"search[{fields[0][1]}]"
        name, words = self.shop.parse(action) if len(action) <= ACTION_LENGTH else ("", "")
        return Page("results", words) if name else Page()


def _join_target(kind: str, query: str) -> str:
    """The target of an address as written by `write_link`."""
    return f"{kind}?{query}" if kind or query else "./"


def _make_app(site: Site, *, more: bool) -> Starlette:
    """The site's routes."""
    require("starlette", "browser")
    from starlette.applications import Starlette
    from starlette.routing import Route

    routes = [
        Route("/", site.redirect_home),
        *(Route(f"/{name}", _send_asset) for name in ASSETS),
        Route("/{session}/", site.show),
        Route("/{session}/done", site.buy, methods=["POST"]),
        Route("/{session}/{kind}", site.show),
    ]
    if more:
        routes.append(Route("/another", site.start_another, methods=["POST"]))
        routes.append(Route("/stop", site.stop, methods=["POST"]))
    app = Starlette(
        routes=routes, exception_handlers={404: _render_missing, RefusalError: _render_missing}
    )
    app.router.redirect_slashes = False
    return app


async def _render_missing(_: Request, error: Any) -> Response:
    text = render_notice("No such page", str(error.detail), back=True)
    return _write_page(text, error.status_code)


def _write_page(text: str, status: int = 200) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(text, status, HEADERS)


def _redirect(link: str, status: int = 302) -> Response:
    from starlette.responses import RedirectResponse

    return RedirectResponse(link, status, HEADERS)


async def _send_asset(request: Request) -> Response:
    from starlette.responses import FileResponse

    path = Path(__file__).with_name("templates") / request.scope["path"][1:]
    return FileResponse(path, headers=HEADERS | {"Cache-Control": "max-age=3600"})
