"""WebShopSite-v0: WebShop-v0's episodes on the real web site, in a real browser.

Every environment has its own site and a tab of the process's Chromium. Not supported: screenshots.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from agent_envs.webshop.chromium import chromium, failures
from agent_envs.webshop.env import WebShop
from agent_envs.webshop.pages import Element, Page
from agent_envs.webshop.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable

    from selenium.webdriver import Remote

    from agent_envs.contract import Turn
    from agent_envs.webshop.shop import Shop

_PAUSE = 0.02  # seconds between two checks of a page that is loading
_READ = """
if (window.left || document.readyState !== 'complete') return null;
return [location.href, [...document.querySelectorAll('[data-kind]')].map(
  e => [e.dataset.kind, e.textContent, e.hasAttribute('data-chosen')])];
"""
_CLICK = "window.left = true; document.querySelectorAll('[data-kind]')[arguments[0]].click();"
_SEARCH = """
const field = document.querySelector('input[name=query]');
if (field) field.value = arguments[0];
if (!field || field.value !== arguments[0]) return false;
window.left = true;
field.form.requestSubmit();
return true;
"""


class WebShopSite(WebShop):
    """WebShop-v0 through its web site in a headless Chromium: the same episodes, turn by turn.

    Description:
        Each environment serves the shop's site on a free port of 127.0.0.1 and opens it in a tab
        of a Chromium that the environments of a process share: it types searches, follows links
        and reads the page. It needs the extra [browser] and Debian's chromium and
        chromium-driver, or equivalents. Options and rules are those of `WebShop`.
        `page_timeout` (seconds), an attribute of the environment, limits the pages of a step or
        reset, and separately the start of a browser. A browser that exceeds it is killed, which
        takes up to 5 s more.

    Observation:
        As `WebShop`'s; "text" and "text_rich" are read from the page in the browser.

    Action:
        As `WebShop`'s. A search that cannot be typed into a field, because it has several lines or
        (in "upstream") the page has no field, opens the address of its results.

    Validity:
        As `WebShop`'s. Faults of the machine raise: TimeoutError for a page or a browser that
        hangs, RuntimeError for a browser that does not start or that crashes a second time in an
        episode; after the first crash it is restarted at the same page. `reset()` starts a new
        browser.

    Progress:
        As `WebShop`'s.

    Anchor:
        As `WebShop`'s.

    Reward:
        As `WebShop`'s.

    Ends:
        As `WebShop`'s.

    Tasks and splits:
        As `WebShop`'s.

    Data:
        As `WebShop`'s.

    Source:
        As `WebShop`'s; the site is modelled on the public one.
    """

    page_timeout = 30.0
    _window: Window | None = None

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The search page of a task."""
        self._crashed = False
        self._guarded(lambda window: window.start(task_id))
        return super().begin(task_id)

    def act(self, action: str) -> Turn:
        """One search or click."""
        page, (name, argument) = self.page, self.shop.parse(action)
        session = self.shop.number[self.task_id]
        target, why = self.shop.follow(page, session, name, argument)
        if why:
            self._guarded(lambda window: window.look(page))
        else:
            self._guarded(lambda window: window.walk(page, name, argument, target))
        return super().act(action)

    def close(self) -> None:
        """Close site and tab, and the browser with its last tab."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def __getstate__(self) -> dict[str, Any]:
        """The state without the browser: a copy opens its page in its own tab when it is used."""
        return self.__dict__ | {"_window": None}

    def _elements(self, _score: float) -> list[Element]:
        """All that is on the page in the browser."""
        return self._opened().elements

    def _opened(self) -> Window:
        """The window of this environment in this process."""
        if self._window is None or self._window.process != os.getpid():
            self._window = Window(self.shop)
            self._window.site.start(self.task_id)
            weakref.finalize(self, self._window.close)
        return self._window

    def _guarded(self, visit: Callable[[Window], None]) -> None:
        """Visit a page, once more in a new browser after the episode's first crash."""
        timeout = self.page_timeout
        number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        if not number or not 0 < timeout <= threading.TIMEOUT_MAX:
            raise ValueError(f"page_timeout must be a finite number above 0, got {timeout!r}")
        budget = _Budget(timeout)
        while True:
            window = self._opened()
            try:
                with window.chromium.using(timeout, max(budget.left, 0)), budget:
                    return visit(window)
            except TimeoutError as error:
                self.close()
                raise TimeoutError(
                    f"{error}: it hangs or the machine is overloaded; env.unwrapped.page_timeout "
                    f"({timeout:g}) sets how long to wait, reset() starts a new browser"
                ) from error
            except failures() as error:
                if self._crashed:
                    raise RuntimeError(
                        "the browser crashed twice in one episode, the last time with "
                        f"{str(error).partition(chr(10))[0]!r}; reset() starts a new one"
                    ) from error
                self._crashed = True


class _Budget:
    """A number of seconds, of which `left` are left after the `with` blocks so far."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.left -= time.monotonic() - self._began


class Window:
    """A site, and a tab of Chromium that shows it; used within `chromium.using`.

    Attributes:
        process: Id of the process that it belongs to.
        chromium: The browser of that process.
        page: The page in the tab; None without a tab.
        elements: The elements of that page.
    """

    def __init__(self, shop: Shop) -> None:
        self.process = os.getpid()
        self.chromium = chromium()
        self.site = Site(shop)
        self.page: Page | None = None
        self.elements: list[Element] = []
        self._tab = ""

    def start(self, task_id: str) -> None:
        """Show the search page of a new episode."""
        driver = self._turned()
        driver.get(self.site.start(task_id))
        self._read(driver)

    def look(self, page: Page) -> None:
        """Read the page again, and open it first if there is no tab."""
        driver = self._turned()
        if self.page is None:
            driver.get(self.site.address(page))
        self._read(driver)

    def walk(self, page: Page, name: str, argument: str, target: Page) -> None:
        """Go from one page to another by search or click.

        Raises:
            RuntimeError: The browser reaches a wrong page.
        """
        driver = self._turned()
        reopened = self.page is None
        if reopened:
            driver.get(self.site.address(page))
            self._read(driver)
        if not (reopened and self.page == target):  # bought before the browser crashed
            self._do(driver, name, argument, target)
            self._read(driver)
        if self.page != target:
            raise RuntimeError(f"the browser should show {target} but shows {self.page}")

    def close(self) -> None:
        """Close site and tab; does nothing in another process."""
        if self.process == os.getpid():
            self.site.close()
            self.chromium.drop(self._tab)

    def _turned(self) -> Remote:
        driver, tab = self.chromium.tab(self._tab)
        if tab != self._tab:
            self._tab, self.page = tab, None
        return driver

    def _do(self, driver: Remote, name: str, argument: str, target: Page) -> None:
        if name == "search":
            if not driver.execute_script(_SEARCH, argument):
                driver.get(self.site.address(target))
            return
        clickable = [e.kind != "text" and e.text.lower() == argument for e in self.elements]
        if True not in clickable:
            raise RuntimeError(f"the page in the browser lacks {argument!r:.200}")
        driver.execute_script(_CLICK, clickable.index(True))

    def _read(self, driver: Remote) -> None:
        """Wait for the page and read it."""
        while (found := driver.execute_script(_READ)) is None:
            time.sleep(_PAUSE)
        address, elements = found
        self.elements = [Element(*element) for element in elements]
        if not self.elements:
            raise RuntimeError(f"no page of the shop at {address}: {driver.page_source:.300}")
        self.page = self.site.page(address)
