"""The shop as a web site of one episode: pages from `render`, served to this machine only.

A site knows the task and, once something is bought, the receipt; all else is in a page's address.
Left out: accounts, logs, pictures, scripts, and anything that is not in the package.
"""

from __future__ import annotations

import errno
import socket
import threading
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import parse_qsl, urljoin, urlsplit

from agent_envs.assets import require
from agent_envs.webshop.pages import Page
from agent_envs.webshop.render import html, link, page_at

if TYPE_CHECKING:
    from flask import Flask, Response
    from flask.typing import ResponseReturnValue
    from werkzeug.serving import WSGIRequestHandler

    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.shop import Shop

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
ASSETS = {"shop.css": "text/css", "icon.svg": "image/svg+xml"}
HEADERS = {
    "Cache-Control": "no-store",  # after the purchase every page is the receipt
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_POLL = 0.1  # seconds until a server notices that it is to stop
_LAST_PORT = 65_535


class Receipt(NamedTuple):
    """The purchase that ended an episode: its page and score."""

    page: Page
    score: float


class Site:
    """A server for a shop, from the moment it is made until `close()`; `start` begins an episode.

    It listens on 127.0.0.1 and answers only who asks for that name or localhost. Of an episode the
    first purchase counts; afterwards every address of it shows the receipt.

    Args:
        shop: What is sold.
        port: To listen on; 0 takes a free one.

    Raises:
        ImportError: Flask is not installed. ValueError: no such port. OSError: the port is taken.
    """

    def __init__(self, shop: Shop, *, port: int = 0) -> None:
        app = _app(self)
        from werkzeug.serving import make_server

        self.shop = shop
        self._goal: Goal | None = None
        self._receipt: Receipt | None = None
        self._purchase = threading.Lock()
        self._sold = threading.Event()
        with _listening(port) as listening:
            self.port = listening.getsockname()[1]
            self._server = make_server(
                HOST,
                self.port,
                app,
                threaded=True,
                request_handler=_handler(),
                fd=listening.fileno(),
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), name="webshop-site", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, task_id: str) -> str:
        """Begin an episode of a task; the address of its search page."""
        with self._purchase:
            self._goal, self._receipt = self.shop.goals[task_id], None
            self._sold.clear()
        return self.address(Page())

    def address(self, page: Page) -> str:
        """The address of a page in the episode."""
        return urljoin(f"http://{HOST}:{self.port}/{self.session}/", link(self.shop, page))

    def page(self, address: str) -> Page:
        """The page at an address in the episode.

        Raises:
            ValueError: There is none.
        """
        parts = urlsplit(address)
        session, _, kind = parts.path[1:].partition("/")
        if session != self.session:
            raise ValueError(f"the episode is at /{self.session}/, got {address!r:.200}")
        return page_at(self.shop, kind, dict(parse_qsl(parts.query, keep_blank_values=True)))

    @property
    def session(self) -> str:
        """Name of the episode in addresses: the number of its goal, which tells no product."""
        return self.shop.number[self._goal.task_id] if self._goal else ""

    def wait(self) -> Receipt:
        """Wait for the purchase and until its receipt has been sent."""
        self._sold.wait()
        if self._receipt is None:
            raise RuntimeError("the site was closed before anything was bought")
        return self._receipt

    def close(self) -> None:
        """Stop serving; closing again does nothing."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._sold.set()

    def home(self) -> ResponseReturnValue:
        """The way to the episode."""
        import flask

        if not self.session:
            flask.abort(404, "no episode is under way: call Site.start first")
        return flask.redirect(f"/{self.session}/")

    def show(self, session: str, kind: str = "") -> ResponseReturnValue:
        """The page at an address; after the purchase, the way to the receipt."""
        import flask

        goal, receipt, page = self._goal_of(session), self._receipt, self._asked(kind)
        if receipt and page != receipt.page:
            return flask.redirect(link(self.shop, receipt.page))
        if not receipt and page.kind == "done":
            return flask.redirect(link(self.shop, page._replace(kind="item")))
        text = html(self.shop, page, goal, receipt.score if receipt else 0.0)
        answer = flask.make_response(text)
        if receipt:
            answer.call_on_close(self._sold.set)
        return answer

    def buy(self, session: str) -> ResponseReturnValue:
        """Buy what the address says, if nothing is bought yet, and tell the way to the receipt."""
        import flask

        with self._purchase:
            goal, page = self._goal_of(session), self._asked("done")
            if self._receipt is None:
                match = self.shop.match(goal, page.product)
                self._receipt = Receipt(page, self.shop.score(goal, match, page).total)
            return flask.redirect(link(self.shop, self._receipt.page), 303)

    def _goal_of(self, session: str) -> Goal:
        """The goal of the episode under way, which has to be the one asked for."""
        import flask

        if self._goal is None or session != self.session:
            flask.abort(404, "this address belongs to another episode; start at /")
        return self._goal

    def _asked(self, kind: str) -> Page:
        """The page that the request's address means."""
        import flask

        try:
            page = page_at(self.shop, kind, flask.request.args.to_dict())
        except ValueError as error:
            flask.abort(404, str(error))
        return page._replace(query=page.query.lower())


def _app(site: Site) -> Flask:
    """The site's addresses."""
    flask = require("flask", "browser")
    app: Flask = flask.Flask(__name__, static_folder=None)
    app.before_request(_refuse_strangers)
    app.after_request(_protect)
    app.add_url_rule("/", view_func=site.home)
    app.add_url_rule(f"/<any({', '.join(map(repr, ASSETS))}):name>", view_func=_asset)
    app.add_url_rule("/<session>/", view_func=site.show)
    app.add_url_rule("/<session>/<kind>", view_func=site.show)
    app.add_url_rule("/<session>/done", view_func=site.buy, methods=["POST"])
    return app


def _refuse_strangers() -> None:
    """Answer to our own names only: a page from elsewhere may have given its own to 127.0.0.1."""
    import flask

    if flask.request.host.partition(":")[0] not in NAMES:
        flask.abort(403, f"this site answers to {' and '.join(NAMES)} only")


def _protect(answer: Response) -> Response:
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer


def _asset(name: str) -> ResponseReturnValue:
    content = (files("agent_envs.webshop") / "templates" / name).read_bytes()
    return content, {"Content-Type": ASSETS[name], "Cache-Control": "max-age=3600"}


def _listening(port: int) -> socket.socket:
    """A socket that listens on a port of this machine."""
    if not 0 <= port <= _LAST_PORT:
        raise ValueError(f"a port is a number in 0..{_LAST_PORT}, 0 for a free one, got {port}")
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise OSError(
            error.errno,
            f"port {port} is taken by another program: stop that one, give another port, or "
            "port=0 for a free one",
        ) from error


def _handler() -> type[WSGIRequestHandler]:
    """Answers requests one a connection, which none outlives, and keeps no log of them."""
    from werkzeug.serving import WSGIRequestHandler

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.0"

        def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002
            pass

    return Quiet
