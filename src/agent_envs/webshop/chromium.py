"""One headless Chromium for all who need a tab in this process.

It starts with the first tab and ends with the last, or with the process: a program beside it, the
warden, ends what was started however this process ends. Left out: other browsers, downloads of
drivers.
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
from typing import TYPE_CHECKING

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
    # It finds no host but this one, so that what it would ask of its makers leads nowhere.
    "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "disable-features=AutofillServerCommunication,NetworkTimeServiceQuerying",
    "remote-debugging-pipe",  # it ends when its driver does, however that ends
)

REMEDY = (
    f"Chromium and its driver must be complete and of one version: on Debian {DEBIAN} installs and "
    "updates both. WebShop-v0 plays the same episodes without a browser."
)

_LOOK = 0.05  # seconds between two attempts at ending what is late
_CLOSING = 2.0  # seconds that a tab may take to close
_ENDING = 5.0  # seconds that the warden may take to end


class Chromium:
    """The browser and its tabs; use `tab` and what it returns inside `using`."""

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
        """Chromium for this thread alone, started if it does not run.

        Args:
            starting: Seconds that the start may take.
            seconds: Seconds that the body may take.

        Raises:
            TimeoutError: One of them took longer; all that was started is killed, and what waited
                for it in the body has failed.
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
        """The driver, turned to the tab of that name or, where there is none, to a new one's."""
        driver = self._driver
        if driver is None:
            raise RuntimeError("Chromium is used outside `using`")
        if name not in self._tabs:
            self._current = ""
            if self._tabs:
                driver.switch_to.new_window("tab")
            name = driver.current_window_handle
            self._tabs.add(name)
            self._current = name
        if name != self._current:
            self._current = ""  # whatever interrupts the switch
            driver.switch_to.window(name)
            self._current = name
        return driver, name

    def drop(self, name: str) -> None:
        """Close a tab, and Chromium with its last; if it is in use, once it is not.

        Never waits for that use, as garbage collection may call it in the midst of it.
        """
        self._dropped.append(name)
        if self._lock.acquire(blocking=False):
            try:
                self._close_dropped()
            finally:
                self._lock.release()

    def quit(self) -> None:
        """End Chromium, if it runs: all tabs are gone. A forked child leaves it alone."""
        if self._process != os.getpid():
            return
        self._tabs.clear()
        self._current = ""
        if self._driver is not None:
            self._driver.command_executor.close()  # type: ignore[union-attr]
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
        try:
            self._warden = subprocess.Popen(
                [sys.executable, "-I", "-S", warden.__file__, str(os.getpid()), str(driver)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            atexit.register(self.quit)
            # A multiprocessing child leaves without atexit.
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
                _end(self._warden)  # so that it has said all
                _told(self._warden, getattr(error, "msg", None) or str(error))
        except BaseException:
            self.quit()
            raise

    @contextlib.contextmanager
    def _within(self, seconds: float, what: str) -> Iterator[None]:
        """Kill Chromium if the body takes longer, so that what waits for it fails."""
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
        except Exception as error:  # noqa: BLE001 - raised below, or told as what it comes from
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
    """What the warden says next: where the driver is.

    Raises:
        RuntimeError: It says why driver or browser do not start, or nothing: then `otherwise` is
            why.
    """
    line = started.stdout.readline() if started.stdout else b""
    found: dict[str, str] = json.loads(line) if line.startswith(b"{") else {}
    if "port" in found:
        return found
    why = found.get("error") or otherwise or line.decode(errors="replace")
    raise RuntimeError(f"Chromium does not start: {why.strip() or 'it says nothing'}\n{REMEDY}")


def _end(started: subprocess.Popen[bytes]) -> None:
    """End the warden and with it all that it started."""
    started.send_signal(signal.SIGCONT)  # it may have been stopped
    started.terminate()
    try:
        started.wait(_ENDING)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()


_OF_PROCESS: dict[int, Chromium] = {}


def chromium() -> Chromium:
    """The Chromium of this process; a forked child leaves its parent's alone.

    Raises:
        ImportError: Selenium is not installed. FileNotFoundError: Chromium is not.
    """
    require("selenium", "browser")
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise FileNotFoundError(
                f"no {program} on the PATH: install Chromium and its driver, on Debian with "
                f"{DEBIAN}; WebShop-v0 plays the same episodes without"
            )
    return _OF_PROCESS.setdefault(os.getpid(), Chromium())


def failures() -> tuple[type[Exception], ...]:
    """What Selenium raises when a page, Chromium or its driver fails."""
    from selenium.common.exceptions import WebDriverException
    from urllib3.exceptions import HTTPError

    return WebDriverException, HTTPError
