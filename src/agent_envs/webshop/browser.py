"""WebShopSite-v1: WebShop-v1's episodes on the real web site, in a real browser.

Every environment has its own site and a tab of the process's headless Chromium, which starts with
the first tab and ends with the last, or with the process: a separate program, the warden, ends it
when this process ends for any reason. Not supported: screenshots, other browsers, downloads of
drivers (Selenium Manager would contact its makers, and write to the home folder).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent_envs.assets import require
from agent_envs.webshop import pages
from agent_envs.webshop.env import WebShop
from agent_envs.webshop.pages import Element, Page
from agent_envs.webshop.site import Site

if TYPE_CHECKING:
    from selenium.webdriver import Remote

    from agent_envs.contract import Turn
    from agent_envs.webshop.shop import Shop

PROGRAMS = ("chromium", "chromedriver")
FLAGS = (
    *("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"),
    *("disable-background-networking", "disable-component-update", "disable-sync"),
    *("disable-dev-shm-usage", "no-proxy-server", "window-size=1280,900"),
    # It resolves no host but this one, so that it cannot contact its makers.
    "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "disable-features=AutofillServerCommunication,NetworkTimeServiceQuerying",
    "remote-debugging-pipe",  # so that it ends with its driver
)

REMEDY = (
    "Chromium and its driver must be complete and of the same version, on Debian by apt-get "
    "install chromium chromium-driver. WebShop-v1 plays the same episodes without a browser."
)
_WARDEN = str(Path(__file__).with_name("warden.py"))
_LOOK = 0.05  # seconds between two attempts to end a late browser
_CLOSING = 2.0  # seconds that a tab may take to close
_ENDING = 5.0  # seconds that the warden may take to end
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
    """WebShop-v1 through its web site in a headless Chromium: the same episodes, turn by turn.

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
        As `WebShop`'s. A search of several lines, which cannot be typed into a field, opens the
        address of its results.

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
        self._visit(lambda window: window.start(task_id))
        return super().begin(task_id)

    def act(self, action: str) -> Turn:
        """One search or click."""
        page, (name, argument) = self.page, self.shop.parse(action)
        session = self.shop.number[self.task_id]
        target, why = self.shop.follow(page, session, name, argument)
        if why:
            self._visit(lambda window: window.look(page))
        else:
            self._visit(lambda window: window.walk(page, name, argument, target))
        return super().act(action)

    def close(self) -> None:
        """Close site and tab, and the browser with its last tab."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def __getstate__(self) -> dict[str, Any]:
        """The state without the browser: a copy opens its page in its own tab when it is used."""
        return self.__dict__ | {"_window": None}

    def _list_elements(self, _score: float) -> list[Element]:
        """All that is on the page in the browser."""
        return self._open_window().elements

    def _write_text(self, score: float) -> str:
        return pages.write_text(self._list_elements(score), marked=not self.shop.public)

    def _open_window(self) -> Window:
        """The window of this environment in this process."""
        if self._window is None or self._window.process != os.getpid():
            self._window = Window(self.shop)
            self._window.site.start(self.task_id)
            weakref.finalize(self, self._window.close)
        return self._window

    def _visit(self, visit: Callable[[Window], None]) -> None:
        """Visit a page, once more in a new browser after the episode's first crash."""
        timeout = left = self.page_timeout
        if not 0 < timeout <= threading.TIMEOUT_MAX:
            raise ValueError(f"page_timeout must be a finite number above 0, got {timeout!r}")
        while True:
            window = self._open_window()
            try:
                with window.chromium.use(timeout, max(left, 0)):
                    began = time.monotonic()
                    try:
                        return visit(window)
                    finally:
                        left -= time.monotonic() - began
            except TimeoutError as error:
                self.close()
                raise TimeoutError(
                    f"{error}: it hangs or the machine is overloaded; env.unwrapped.page_timeout "
                    f"({timeout:g}) sets how long to wait, reset() starts a new browser"
                ) from error
            except list_failures() as error:
                if self._crashed:
                    raise RuntimeError(
                        "the browser crashed twice in one episode, the last time with "
                        f"{str(error).partition(chr(10))[0]!r}; reset() starts a new one"
                    ) from error
                self._crashed = True


class Window:
    """A site, and a tab of Chromium that shows it; used within `chromium.use`.

    Attributes:
        process: Id of the process that it belongs to.
        chromium: The browser of that process.
        page: The page in the tab; None without a tab.
        elements: The elements of that page.
    """

    def __init__(self, shop: Shop) -> None:
        self.process = os.getpid()
        self.chromium = find_chromium()
        self.site = Site(shop)
        self.page: Page | None = None
        self.elements: list[Element] = []
        self._tab = ""

    def start(self, task_id: str) -> None:
        """Show the search page of a new episode."""
        driver = self.switch_to_tab()
        driver.get(self.site.start(task_id))
        self._read_page(driver)

    def look(self, page: Page) -> None:
        """Read the page again, and open it first if there is no tab."""
        driver = self.switch_to_tab()
        if self.page is None:
            driver.get(self.site.open_page(page))
        self._read_page(driver)

    def walk(self, page: Page, name: str, argument: str, target: Page) -> None:
        """Go from one page to another by search or click.

        Raises:
            RuntimeError: The browser reaches a wrong page.
        """
        driver = self.switch_to_tab()
        reopened = self.page is None
        if reopened:
            self.look(page)
        if not (reopened and self.page == target):  # bought before the browser crashed
            if name == "click":
                clicks = [e.text.lower() if e.kind != "text" else None for e in self.elements]
                driver.execute_script(_CLICK, clicks.index(argument))
            elif not driver.execute_script(_SEARCH, argument):
                driver.get(self.site.open_page(target))
            self._read_page(driver)
        if self.page != target:
            raise RuntimeError(f"the browser should show {target} but shows {self.page}")

    def close(self) -> None:
        """Close site and tab; does nothing in another process."""
        if self.process == os.getpid():
            self.site.close()
            self.chromium.drop_tab(self._tab)

    def switch_to_tab(self) -> Remote:
        """The driver, switched to this window's tab or to a new one."""
        driver, tab = self.chromium.switch_to(self._tab)
        if tab != self._tab:
            self._tab, self.page = tab, None
        return driver

    def _read_page(self, driver: Remote) -> None:
        """Wait for the page and read it."""
        while (found := driver.execute_script(_READ)) is None:
            time.sleep(_PAUSE)
        address, elements = found
        self.elements = [Element(*element) for element in elements]
        if not self.elements:
            raise RuntimeError(f"no page of the shop at {address}: {driver.page_source:.300}")
        self.page = self.site.find_page(address)


class Chromium:
    """The browser and its tabs; call `switch_to` and use its result only inside `use`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._warden: subprocess.Popen[bytes] | None = None
        self._driver: Remote | None = None
        self._tabs: set[str] = set()
        self._current_tab = ""
        self._dropped_tabs: list[str] = []

    @contextlib.contextmanager
    def use(self, starting: float, seconds: float) -> Iterator[None]:
        """Exclusive use of Chromium by this thread; starts it if it is not running.

        Args:
            starting: Time limit of the start in seconds.
            seconds: Time limit of the body in seconds.

        Raises:
            TimeoutError: One of them took longer; the browser is killed, so that the waiting call
                in the body fails.
            RuntimeError: Chromium does not start.
            WebDriverException, HTTPError: It failed in the body, and is ended.
        """
        with self._lock:
            self._close_dropped_tabs()
            if self._driver is None:
                with self._limit_time(starting, "start of Chromium"):
                    self._start()
            try:
                with self._limit_time(seconds, "page"):
                    yield
            except list_failures():
                self.quit()
                raise

    def switch_to(self, name: str) -> tuple[Remote, str]:
        """The driver, switched to the tab of that name or to a new tab, and the tab's name."""
        driver = cast("Remote", self._driver)
        if name not in self._tabs:
            self._current_tab = ""
            if self._tabs:
                # WebDriver opens a tab from a tab; the last one used may be closed.
                driver.switch_to.window(next(iter(self._tabs)))
                driver.switch_to.new_window("tab")
            name = driver.current_window_handle
            self._tabs.add(name)
            self._current_tab = name
        if name != self._current_tab:
            self._current_tab = ""  # in case the switch is interrupted
            driver.switch_to.window(name)
            self._current_tab = name
        return driver, name

    def drop_tab(self, name: str) -> None:
        """Close a tab, and Chromium with the last tab; if it is in use, after that use.

        It never waits for the use to end, since garbage collection may call it during the use.
        """
        self._dropped_tabs.append(name)
        if self._lock.acquire(blocking=False):
            try:
                self._close_dropped_tabs()
            finally:
                self._lock.release()

    def quit(self) -> None:
        """End Chromium with all tabs, if it runs; does nothing in a forked child."""
        if self._process != os.getpid():
            return
        self._tabs.clear()
        self._current_tab = ""
        if self._driver is not None:
            cast("Any", self._driver.command_executor).close()
            self._driver = None
        if self._warden is not None:
            with self._warden:  # closes its pipes
                _end_warden(self._warden)
            self._warden = None
            atexit.unregister(self.quit)
            self._finalizer.cancel()

    def _start(self) -> None:
        """Start the warden, which starts the driver, and through that Chromium."""
        from selenium import webdriver
        from selenium.webdriver.common.proxy import Proxy, ProxyType
        from selenium.webdriver.remote.client_config import ClientConfig

        program, driver = map(shutil.which, PROGRAMS)
        with contextlib.ExitStack() as failed:
            failed.callback(self.quit)
            self._warden = subprocess.Popen(
                [sys.executable, "-P", _WARDEN, str(os.getpid()), str(driver)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            atexit.register(self.quit)
            # A multiprocessing child ends without calling atexit.
            self._finalizer = Finalize(None, self.quit, exitpriority=10)
            found = _read_message(self._warden)
            options = webdriver.ChromeOptions()
            options.binary_location = str(program)
            for flag in (*FLAGS, f"user-data-dir={found['folder']}/profile"):
                options.add_argument(f"--{flag}")
            address = f"http://127.0.0.1:{found['port']}"
            direct = Proxy({"proxyType": ProxyType.DIRECT})
            config = ClientConfig(address, proxy=direct, timeout=None)
            try:
                self._driver = webdriver.Remote(address, options=options, client_config=config)
            except list_failures() as error:
                _end_warden(self._warden)  # so that all its output is there
                _read_message(self._warden, getattr(error, "msg", None) or str(error))
            failed.pop_all()

    @contextlib.contextmanager
    def _limit_time(self, seconds: float, what: str) -> Iterator[None]:
        """Kill Chromium if the body takes longer, so that the waiting call fails."""
        done, late = threading.Event(), threading.Event()

        def watch() -> None:
            if done.wait(seconds):
                return
            late.set()
            while not done.wait(_LOOK):
                if self._warden is not None:
                    _end_warden(self._warden)

        watching = threading.Thread(target=watch, name="chromium-watch", daemon=True)
        watching.start()
        try:
            yield
        finally:
            done.set()
            watching.join()
            if late.is_set():
                self.quit()
                raise TimeoutError(f"no {what} within {seconds:g} s, Chromium was ended")

    def _close_dropped_tabs(self) -> None:
        while self._dropped_tabs:
            name = self._dropped_tabs.pop()
            if name not in self._tabs:
                continue
            self._tabs.remove(name)
            if not self._tabs or self._driver is None:
                self.quit()
                continue
            self._current_tab = ""
            try:
                with self._limit_time(_CLOSING, "closing of a tab"):
                    self._driver.switch_to.window(name)
                    self._driver.close()
            except TimeoutError:
                pass
            except list_failures():
                self.quit()


def _read_message(warden: subprocess.Popen[bytes], otherwise: str = "") -> dict[str, str]:
    """The next message of the warden, with the driver's port and folder.

    Raises:
        RuntimeError: The message is an error, or there is none; then `otherwise` is the reason.
    """
    line = cast("Any", warden.stdout).readline()
    found: dict[str, str] = json.loads(line) if line.startswith(b"{") else {}
    if "port" in found:
        return found
    why = found.get("error") or otherwise or line.decode(errors="replace")
    raise RuntimeError(f"Chromium does not start: {why.strip() or 'no output'}. {REMEDY}")


def _end_warden(warden: subprocess.Popen[bytes]) -> None:
    """End the warden and everything that it started."""
    warden.send_signal(signal.SIGCONT)  # it may have been stopped
    warden.terminate()
    try:
        warden.wait(_ENDING)
    except subprocess.TimeoutExpired:
        warden.kill()
        warden.wait()


_OF_PROCESS: dict[int, Chromium] = {}


def find_chromium() -> Chromium:
    """The Chromium of this process; a forked child never uses its parent's.

    Raises:
        ImportError: Selenium or psutil is not installed.
        FileNotFoundError: Chromium is not.
    """
    require("selenium", "browser")
    require("psutil", "browser")  # of the warden
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise FileNotFoundError(f"no {program} on the PATH. {REMEDY}")
    return _OF_PROCESS.setdefault(os.getpid(), Chromium())


def list_failures() -> tuple[type[Exception], ...]:
    """The errors of Selenium when a page, Chromium or its driver fails."""
    from selenium.common.exceptions import WebDriverException
    from urllib3.exceptions import HTTPError

    return WebDriverException, HTTPError
