"""One headless Chromium for all who need a tab in this process.

It starts with the first tab and ends with the last, or with the process. Left out: other browsers,
downloads of drivers.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import threading
import time
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

from agent_envs.assets import require

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

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

_ENDING = 5.0  # seconds that Chromium may take to end
# Reads until this process ends, however it does; then the driver has to, and with it Chromium.
_WATCH = 'read _; kill "$1"; sleep 3; rm -rf "$2"'


class Chromium:
    """The browser and its tabs; use `tab` and what it returns with `lock` held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._process = os.getpid()
        self._driver: Chrome | None = None
        self._tabs: set[str] = set()
        self._current = ""
        self._dropped: list[str] = []

    def tab(self, name: str, timeout: float) -> tuple[Chrome, str]:
        """The driver, turned to the tab of that name or, where there is none, to a new one's."""
        self._close_dropped()
        driver = self._started()
        if name not in self._tabs:
            if self._tabs:
                driver.switch_to.new_window("tab")
            name = self._current = driver.current_window_handle
            self._tabs.add(name)
            driver.set_page_load_timeout(timeout)
        if name != self._current:
            driver.switch_to.window(name)
            driver.set_page_load_timeout(timeout)
            self._current = name
        return driver, name

    def drop(self, name: str) -> None:
        """Close a tab, and Chromium with its last; if it is in use, once it is not.

        Never waits, as garbage collection may call it in the midst of that use.
        """
        self._dropped.append(name)
        if self.lock.acquire(blocking=False):
            try:
                self._close_dropped()
            finally:
                self.lock.release()

    def quit(self) -> None:
        """End Chromium, if it runs: all tabs are gone. A forked child leaves it alone."""
        if self._process != os.getpid():
            return
        self._tabs.clear()
        self._current = ""
        driver, self._driver = self._driver, None
        if driver is not None:
            atexit.unregister(self.quit)
            self._ending.cancel()
            driver.quit()
            self._watch.kill()
            self._watch.communicate()
            _remove(self._profile)

    def _started(self) -> Chrome:
        if self._driver is None:
            self._profile = tempfile.mkdtemp(prefix="agent-envs-chromium-")
            try:
                self._driver, process = _start(self._profile)
            except BaseException:
                _remove(self._profile)
                raise
            self._watch = subprocess.Popen(
                ["sh", "-c", _WATCH, "sh", str(process), self._profile],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            atexit.register(self.quit)
            # A multiprocessing child leaves without atexit.
            self._ending = Finalize(None, self.quit, exitpriority=10)
        return self._driver

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
                self._driver.switch_to.window(name)
                self._driver.close()
            except failures():
                self.quit()


def _start(profile: str) -> tuple[Chrome, int]:
    """Chromium with an empty profile, and the id of its driver's process."""
    from selenium import webdriver

    program, driver = map(shutil.which, PROGRAMS)
    options = webdriver.ChromeOptions()
    options.binary_location = program or ""
    for flag in (*FLAGS, f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    service = webdriver.ChromeService(driver)
    return webdriver.Chrome(options, service), service.process.pid


def _remove(profile: str) -> None:
    """Remove a profile after its Chromium, which writes into it for a while without its driver."""
    until = time.monotonic() + _ENDING
    while _written(profile) and time.monotonic() < until:
        time.sleep(0.02)
    while Path(profile).exists() and time.monotonic() < until:
        shutil.rmtree(profile, ignore_errors=True)


def _written(profile: str) -> bool:
    """Whether the process that the profile's lock names, "host-process", still runs."""
    try:
        holder = Path(profile, "SingletonLock").readlink().name.rpartition("-")[2]
        os.kill(int(holder), 0)
    except (OSError, ValueError):
        return False
    return True


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


def timeouts() -> type[Exception]:
    """What Selenium raises when a page takes too long."""
    from selenium.common.exceptions import TimeoutException

    return TimeoutException


def failures() -> tuple[type[Exception], ...]:
    """What Selenium raises when a page, Chromium or its driver fails."""
    from selenium.common.exceptions import WebDriverException
    from urllib3.exceptions import HTTPError

    return WebDriverException, HTTPError
