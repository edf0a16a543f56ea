"""One headless Chromium per process, shared by all users of tabs.

It starts with the first tab and ends with the last, or with the process: a separate program, the
warden, ends the browser when this process ends for any reason. Not supported: other browsers,
downloads of drivers.
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
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, cast

from agent_envs.assets import require
from agent_envs.webshop import warden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Remote

PROGRAMS = ("chromium", "chromedriver")
DEBIAN = "apt-get install chromium chromium-driver"
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
    "Chromium and its driver must be complete and of the same version: on Debian install or update "
    f"both by {DEBIAN}. WebShop-v0 plays the same episodes without a browser."
)

_LOOK = 0.05  # seconds between two attempts to end a late browser
_CLOSING = 2.0  # seconds that a tab may take to close
_ENDING = 5.0  # seconds that the warden may take to end


class Chromium:
    """The browser and its tabs; use `tab` and its result only inside `using`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._warden: subprocess.Popen[bytes] | None = None
        self._driver: Remote | None = None
        self._tabs: set[str] = set()
        self._current = ""
        self._dropped: list[str] = []

    @contextlib.contextmanager
    def using(self, starting: float, seconds: float) -> Iterator[None]:
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
            self._close_dropped()
            if self._driver is None:
                with self._within(starting, "start of Chromium"):
                    self._start()
            try:
                with self._within(seconds, "page"):
                    yield
            except failures():
                self.quit()
                raise

    def tab(self, name: str) -> tuple[Remote, str]:
        """The driver, switched to the tab of that name or to a new tab, and the tab's name."""
        driver = self._driver
        if driver is None:
            raise RuntimeError("Chromium is used outside `using`")
        if name not in self._tabs:
            self._current = ""
            if self._tabs:
                # WebDriver opens a tab from a tab; the last one used may be closed.
                driver.switch_to.window(next(iter(self._tabs)))
                driver.switch_to.new_window("tab")
            name = driver.current_window_handle
            self._tabs.add(name)
            self._current = name
        if name != self._current:
            self._current = ""  # in case the switch is interrupted
            driver.switch_to.window(name)
            self._current = name
        return driver, name

    def drop(self, name: str) -> None:
        """Close a tab, and Chromium with the last tab; if it is in use, after that use.

        It never waits for the use to end, since garbage collection may call it during the use.
        """
        self._dropped.append(name)
        if self._lock.acquire(blocking=False):
            try:
                self._close_dropped()
            finally:
                self._lock.release()

    def quit(self) -> None:
        """End Chromium with all tabs, if it runs; does nothing in a forked child."""
        if self._process != os.getpid():
            return
        self._tabs.clear()
        self._current = ""
        if self._driver is not None:
            cast("Any", self._driver.command_executor).close()
            self._driver = None
        if self._warden is not None:
            _end(self._warden)
            for pipe in (self._warden.stdin, self._warden.stdout):
                if pipe is not None:
                    pipe.close()
            self._warden = None
            atexit.unregister(self.quit)
            self._ending.cancel()

    def _start(self) -> None:
        """Start the warden, which starts the driver, and through that Chromium."""
        from selenium import webdriver
        from selenium.webdriver.common.proxy import Proxy, ProxyType
        from selenium.webdriver.remote.client_config import ClientConfig

        program, driver = map(shutil.which, PROGRAMS)
        with contextlib.ExitStack() as failed:
            failed.callback(self.quit)
            self._warden = subprocess.Popen(
                [sys.executable, "-I", "-S", warden.__file__, str(os.getpid()), str(driver)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            atexit.register(self.quit)
            # A multiprocessing child ends without calling atexit.
            self._ending = Finalize(None, self.quit, exitpriority=10)
            found = _told(self._warden)
            options = webdriver.ChromeOptions()
            options.binary_location = str(program)
            for flag in (*FLAGS, f"user-data-dir={found['folder']}/profile"):
                options.add_argument(f"--{flag}")
            address = f"http://127.0.0.1:{found['port']}"
            direct = Proxy({"proxyType": ProxyType.DIRECT})
            config = ClientConfig(address, proxy=direct, timeout=None)
            try:
                self._driver = webdriver.Remote(address, options=options, client_config=config)
            except failures() as error:
                _end(self._warden)  # so that all its output is there
                _told(self._warden, getattr(error, "msg", None) or str(error))
            failed.pop_all()

    @contextlib.contextmanager
    def _within(self, seconds: float, what: str) -> Iterator[None]:
        """Kill Chromium if the body takes longer, so that the waiting call fails."""
        done, late = threading.Event(), threading.Event()

        def watch() -> None:
            if done.wait(seconds):
                return
            late.set()
            while not done.wait(_LOOK):
                if self._warden is not None:
                    _end(self._warden)

        watching = threading.Thread(target=watch, name="chromium-watch", daemon=True)
        watching.start()
        failure = None
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised below, or as the cause
            failure = error
        finally:
            done.set()
            watching.join()
        if late.is_set():
            self.quit()
            raise TimeoutError(f"no {what} within {seconds:g} s, Chromium was ended") from failure
        if failure is not None:
            raise failure

    def _close_dropped(self) -> None:
        while self._dropped:
            name = self._dropped.pop()
            if name not in self._tabs:
                continue
            self._tabs.remove(name)
            if not self._tabs or self._driver is None:
                self.quit()
                continue
            self._current = ""
            try:
                with self._within(_CLOSING, "closing of a tab"):
                    self._driver.switch_to.window(name)
                    self._driver.close()
            except TimeoutError:
                pass
            except failures():
                self.quit()


def _told(started: subprocess.Popen[bytes], otherwise: str = "") -> dict[str, str]:
    """The next message of the warden, with the driver's port and folder.

    Raises:
        RuntimeError: The message is an error, or there is none; then `otherwise` is the reason.
    """
    line = started.stdout.readline() if started.stdout else b""
    found: dict[str, str] = json.loads(line) if line.startswith(b"{") else {}
    if "port" in found:
        return found
    why = found.get("error") or otherwise or line.decode(errors="replace")
    raise RuntimeError(f"Chromium does not start: {why.strip() or 'no output'}\n{REMEDY}")


def _end(started: subprocess.Popen[bytes]) -> None:
    """End the warden and everything that it started."""
    started.send_signal(signal.SIGCONT)  # it may have been stopped
    started.terminate()
    try:
        started.wait(_ENDING)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()


_OF_PROCESS: dict[int, Chromium] = {}


def chromium() -> Chromium:
    """The Chromium of this process; a forked child never uses its parent's.

    Raises:
        ImportError: Selenium is not installed.
        FileNotFoundError: Chromium is not.
    """
    require("selenium", "browser")
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise FileNotFoundError(
                f"no {program} on the PATH: install Chromium and its driver, on Debian by "
                f"{DEBIAN}; WebShop-v0 plays the same episodes without a browser"
            )
    return _OF_PROCESS.setdefault(os.getpid(), Chromium())


def failures() -> tuple[type[Exception], ...]:
    """The errors of Selenium when a page, Chromium or its driver fails."""
    from selenium.common.exceptions import WebDriverException
    from urllib3.exceptions import HTTPError

    return WebDriverException, HTTPError
