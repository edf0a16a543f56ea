"""WebShopSite-v0 in a real Chromium: as WebShop-v0, turn by turn, whatever happens to it."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym
import outlived
import pytest
from planned import planned

import agent_envs
from agent_envs.webshop import browser, site
from agent_envs.webshop.experts import Oracle
from agent_envs.webshop.pages import Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="no chromium and chromedriver on the path; apt-get install chromium chromium-driver",
    ),
]


@pytest.fixture(scope="module", autouse=True)
def kept():
    """Has a tab that no test closes, so that most need not start a Chromium."""
    kept = gym.make("WebShopSite-v0")
    yield kept
    kept.close()
    assert not running()


@pytest.fixture
def env(kept):
    if not running():  # the first test, or one after a test that ended Chromium
        kept.reset(seed=1)
    env = gym.make("WebShopSite-v0", data="embedded")
    yield env.unwrapped
    env.close()


@pytest.fixture
def quiet():
    """No Chromium at the start, as after it crashed."""
    browser.find_chromium().quit()
    yield
    browser.find_chromium().quit()


def running():
    """Ids of the processes that the browser of this one is made of, and their commands."""
    keeper = browser.find_chromium()._warden
    found = {} if keeper is None else outlived.below(keeper.pid)
    commands = {pid: outlived.command(process) for pid, process in found.items()}
    return {keeper.pid: "warden", **commands} if keeper else {}


PARTS = {
    "warden": lambda command: command == "warden",
    "driver": lambda command: "chromedriver" in command,
    "browser": lambda command: "user-data-dir" in command and "--type=" not in command,
    "pages": lambda command: "--type=renderer" in command,
    "all": bool,
}


def send(number, part):
    """A signal to a part of what runs."""
    for process, command in running().items():
        if PARTS[part](command):
            with contextlib.suppress(ProcessLookupError):  # died with one before
                os.kill(process, number)


def folder_of_browser():
    return Path(browser.find_chromium()._driver.capabilities["chrome"]["userDataDir"]).parent


def driven(env):
    """The driver, turned to the environment's tab."""
    return env._window.switch_to_tab()


def twins(**options):
    """The same environment on the site and as text."""
    return [gym.make(name, data="embedded", **options) for name in ("WebShopSite-v0", "WebShop-v0")]


def bought(seed):
    """The actions that buy what an episode asks for."""
    env = gym.make("WebShop-v0", data="embedded")
    env.reset(seed=seed)
    return planned(env, Oracle)


INVALID = (
    "dance",
    "",
    "click[nothing]",
    "click[search]",
    "search[]",
    "click[buy now]",
    "search[a b]",
)
QUERIES = ("a\nb lamp", "\ttea \x00 \x7f", "ÄÖ漢字🎉 İ", '"><script>', "search_results", "a" * 600)


def drawn(rng, info):
    """Mostly an admissible action, searches with words of the goal, now and then anything."""
    action = rng.choice(info["admissible_actions"])
    if rng.random() < 0.25:
        action = rng.choice(INVALID)
    elif action.startswith("search["):
        words = rng.sample(info["goal"].split(), 3)
        action = f"search[{rng.choice(QUERIES) if rng.random() < 0.2 else ' '.join(words)}]"
    return action


LONG = pytest.mark.long


class TestSameAsText:
    @pytest.mark.parametrize(
        ("episodes", "options"),
        [
            (5, {"mode": "upstream", "observation": "text_rich", "progress": "best"}),
            *(
                pytest.param(*one, marks=LONG)
                for one in (
                    (5, {"mode": "strict", "observation": "text_rich", "attributes": True}),
                    (50, {"mode": "strict", "reward": "score"}),
                )
            ),
        ],
    )
    def test_random_episodes(self, env, episodes, options):
        on_site, as_text = twins(max_turns=7, **options)
        rng = random.Random(episodes)
        seen = set()
        for seed in range(episodes):
            opening = on_site.reset(seed=seed)
            assert opening == as_text.reset(seed=seed)
            info, ended = opening[1], False
            while not ended:
                action = drawn(rng, info)
                one, other = on_site.step(action), as_text.step(action)
                assert one == other
                *_, terminated, truncated, info = one
                ended = terminated or truncated
                seen |= {as_text.unwrapped.page.kind, info["invalid_reason"]}
        on_site.close()
        assert seen >= {"index", "results", "item", "", "format", "unknown"}

    @pytest.mark.parametrize("observation", ["html", pytest.param("url", marks=LONG)])
    def test_other_observations(self, env, observation):
        on_site, as_text = twins(observation=observation)
        assert on_site.reset(seed=2) == as_text.reset(seed=2)
        for action in planned(as_text, Oracle):
            assert on_site.step(action) == as_text.step(action)
        on_site.close()

    def test_hostile_texts_run_nothing(self, env, hostile):
        env = gym.make("WebShopSite-v0", data=hostile, split="all")
        text = gym.make("WebShop-v0", data=hostile, split="all")
        window = env.reset(seed=1) and text.reset(seed=1) and env.unwrapped._window
        query = "<script>window.ran=1</script> \"'><b> shoe"
        actions = [f"search[{query}]"]
        for product in text.unwrapped.shop.catalogue.products[:3]:
            clicks = [f"click[{value}]" for values in product.options.values() for value in values]
            tabs = ["click[features]", "click[< prev]", "click[< prev]"]
            actions += [f"click[{product.asin}]", *clicks[:2], clicks[-1], *tabs]
        env.unwrapped.max_turns = text.unwrapped.max_turns = 99
        for action in actions:
            one = env.step(action)
            assert one == text.step(action)
            assert one[-1]["valid"]
            script = "return [window.ran, document.querySelectorAll('script,img,iframe,b').length]"
            assert driven(env.unwrapped).execute_script(script) == [None, 0]
        assert window.page == text.unwrapped.page
        env.close()


class TestByHand:
    """What a person does: real clicks, the browser's buttons, a narrow screen."""

    def test_keyboard_clicks_back_and_forward(self, env):
        from selenium.webdriver.support.wait import WebDriverWait

        env.reset(seed=3)
        driver, one = driven(env), env._window.site
        wait = WebDriverWait(driver, 20, poll_frequency=0.02)

        def arrived(kind):
            wait.until(lambda d: one.find_page(d.current_url).kind == kind)
            return one.find_page(driver.current_url)

        driver.find_element("name", "query").send_keys("Rain Jacket\n")
        assert arrived("results").query == "rain jacket"
        driver.find_element("css selector", ".cards li:nth-child(3) a").click()
        item = arrived("item")
        driver.find_element("css selector", ".values a:nth-child(2)").click()
        wait.until(lambda d: one.find_page(d.current_url).options)
        assert driver.find_element("css selector", "[aria-checked=true]").text == "beige"
        driver.back()
        wait.until(lambda d: one.find_page(d.current_url) == item)
        driver.back()
        arrived("results")
        driver.forward()
        arrived("item")
        driver.find_element("css selector", ".buy button").click()
        receipt = arrived("done")
        driver.back()  # some browsers show the page that they kept; all know better when they ask
        driver.refresh()
        assert arrived("done") == receipt
        assert driver.find_element("tag name", "h1").text == "Thank you for shopping with us!"

    @pytest.mark.parametrize("width", [320, *(pytest.param(n, marks=LONG) for n in (390, 1280))])
    def test_nothing_is_wider_than_the_screen(self, env, hostile, width):
        env = gym.make("WebShopSite-v0", data=hostile, split="all").unwrapped
        env.reset(seed=1)
        driver, one = driven(env), env._window.site
        item = Page("item", "shoe" * 200, 1, 2)
        results, tab = item._replace(kind="results"), item._replace(kind="sub", sub="Features")
        mobile = width < 1000
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": mobile}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics}
        driver.execute("executeCdpCommand", command)
        for page in (Page(), results, item, tab):
            driver.get(one.open_page(page))
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        env.close()


class TestRequests:
    def test_only_the_loopback_server_is_asked(self, quiet, monkeypatch, tmp_path):
        """By Chromium's own log of the network, which has what pages ask for and what it asks."""
        log = tmp_path / "network.json"
        monkeypatch.setattr(browser, "FLAGS", (*browser.FLAGS, f"log-net-log={log}"))
        env = gym.make("WebShopSite-v0", data="embedded").unwrapped
        env.reset(seed=3)
        port = env._window.site.port
        for action in bought(3):
            env.step(action)
        send(signal.SIGTERM, "browser")  # it ends as it should, and writes the log
        until = time.monotonic() + 30
        while time.monotonic() < until and any(map(PARTS["browser"], running().values())):
            time.sleep(0.1)
        env.close()
        head, _, *lines = log.read_text().splitlines()
        constants = json.loads(head.removesuffix(",") + "}")["constants"]
        names = {number: name for name, number in constants["logEventTypes"].items()}
        events = []
        for line in lines:
            try:
                event = json.loads(line.removesuffix(",").removesuffix("]}"))
            except json.JSONDecodeError:
                break  # ended in the midst of it
            events.append((names[event["type"]], event.get("params", {})))
        reached = {
            told["address"]
            for name, told in events
            if name == "TCP_CONNECT_ATTEMPT" and "address" in told
        }
        assert reached == {f"127.0.0.1:{port}"}
        assert [told for name, told in events if name == "UDP_BYTES_SENT"] == []
        asked = [told.get("url", "") for name, told in events if name == "URL_REQUEST_START_JOB"]
        for part in ("/shop.css", "/results?", "/item?", "/done?"):
            assert any(f"http://127.0.0.1:{port}/" in url and part in url for url in asked)


class TestCrashes:
    @LONG
    @pytest.mark.parametrize("part", PARTS)
    def test_once_is_mended_and_twice_raises(self, part, quiet):
        on_site, as_text = twins(max_turns=30)
        on_site.reset(seed=3)
        as_text.reset(seed=3)
        actions = planned(as_text, Oracle)
        assert on_site.step(actions[0]) == as_text.step(actions[0])
        folder = folder_of_browser()
        send(signal.SIGKILL, part)
        for action in [*actions[1:-1], "click[features]"]:
            assert on_site.step(action) == as_text.step(action)
        assert part in {"warden", "all"} or not folder.exists()
        send(signal.SIGKILL, part)
        with pytest.raises(RuntimeError, match="crashed twice in one episode"):
            on_site.step("click[< prev]")
        with pytest.raises(gym.error.ResetNeeded):
            on_site.step("click[< prev]")
        assert on_site.reset(seed=4) == as_text.reset(seed=4)
        on_site.close()

    @LONG
    def test_others_open_their_pages_anew(self, env):
        other = copy.deepcopy(env)
        env.reset(seed=3)
        other.reset(seed=3)
        first, second = bought(3)[:2]
        env.step(first)
        other.step(first)
        send(signal.SIGKILL, "browser")
        assert env.step(second) == other.step(second)
        other.close()

    @LONG
    def test_bought_before_the_crash(self, env):
        """The site sold, the browser died before it showed the receipt."""
        env.reset(seed=3)
        actions = bought(3)
        for action in actions[:-1]:
            env.step(action)
        page = env._window.page._replace(kind="done")
        driven(env).execute_script("document.querySelector('.buy').submit()")
        assert env._window.site.wait().page == page
        send(signal.SIGKILL, "browser")
        _, reward, terminated, *_ = env.step(actions[-1])
        assert (reward, terminated) == (1.0, True)

    @LONG
    def test_a_page_that_never_loads(self, env, monkeypatch):
        def hanging(shop, page, *args, **options):
            if page.kind == "results":
                released.wait(60)
            return shown(shop, page, *args, **options)

        shown, released = site.render_page, threading.Event()
        monkeypatch.setattr(site, "render_page", hanging)
        env.reset(seed=3)
        env.page_timeout = 2.0
        started = time.monotonic()
        with pytest.raises(TimeoutError, match="no page within 2 s, Chromium was ended"):
            env.step("search[lamp]")
        assert time.monotonic() - started < 2 + MARGIN
        released.set()
        env.page_timeout = 30.0
        env.reset(seed=3)
        assert env.step("search[lamp]")[-1]["valid"]


MARGIN = 5.0  # seconds that ending what hangs may take on a busy machine


class TestHangs:
    @LONG
    @pytest.mark.parametrize("moment", ["valid", "invalid", "reset"])
    @pytest.mark.parametrize("part", ["driver", "browser", "pages", "all"])
    def test_a_step_ends_in_time_and_the_next_episode_works(self, env, part, moment):
        acts = {
            "valid": lambda: env.step("search[lamp]"),
            "invalid": lambda: env.step("dance"),
            "reset": lambda: env.reset(seed=4),
        }
        opening = env.reset(seed=3)
        env.page_timeout = 2.0
        before = running()
        send(signal.SIGSTOP, part)
        started = time.monotonic()
        with pytest.raises(TimeoutError, match="no page within 2 s, Chromium was ended"):
            acts[moment]()
        assert time.monotonic() - started < 2 + MARGIN
        with pytest.raises(gym.error.ResetNeeded):
            env.step("dance")
        assert not [process for process in before if Path(f"/proc/{process}").exists()]
        env.page_timeout = 30.0
        assert env.reset(seed=3) == opening
        assert env.step("search[lamp]")[-1]["valid"]

    @LONG
    @pytest.mark.parametrize("part", ["browser", "driver", "all"])
    def test_a_start_ends_in_time(self, env, quiet, part):
        def stop():
            while not ended.wait(0.01):
                if any(map(PARTS[part], running().values())):
                    send(signal.SIGSTOP, part)

        ended = threading.Event()
        stopping = threading.Thread(target=stop)
        stopping.start()
        env.page_timeout = 2.0
        started = time.monotonic()
        with pytest.raises(TimeoutError, match="no start of Chromium within 2 s"):
            env.reset(seed=3)
        took = time.monotonic() - started
        ended.set()
        stopping.join()
        assert took < 2 + MARGIN
        assert not running()
        env.page_timeout = 30.0
        env.reset(seed=3)

    @pytest.mark.parametrize(
        ("part", "others"),
        [
            ("browser", 0),
            *(
                pytest.param(part, others, marks=LONG)
                for part in ("driver", "browser", "all")
                for others in (0, 1)
                if (part, others) != ("browser", 0)
            ),
        ],
    )
    def test_closing_ends_in_time(self, quiet, part, others):
        envs = [gym.make("WebShopSite-v0", data="embedded") for _ in range(1 + others)]
        for env in envs:
            env.reset(seed=3)
        send(signal.SIGSTOP, part)
        started = time.monotonic()
        envs[0].close()
        assert time.monotonic() - started < browser._CLOSING + MARGIN
        for env in envs[1:]:  # not the worse for it
            assert env.step("search[lamp]")[-1]["valid"]
            env.close()

    @pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
    def test_a_timeout_that_is_none(self, env, timeout):
        env.page_timeout = timeout
        with pytest.raises(ValueError, match="page_timeout must be a finite number above 0, got"):
            env.reset(seed=3)


class TestLife:
    @LONG
    def test_copies_walk_alone(self, env):
        env.reset(seed=3)
        first, second, *_ = bought(3)
        env.step(first)
        others = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
        expected = env.step(second)
        assert [other.step(second) for other in others] == [expected, expected]
        assert others[0].step("click[< prev]") == others[1].step("click[< prev]")
        assert env._window.page.kind == "item"
        for other in others:
            other.close()

    def test_the_last_to_close_ends_all(self, quiet):
        one, other = twins()[0], twins()[0]
        one.reset(seed=1)
        other.reset(seed=2)
        folder, port = folder_of_browser(), one.unwrapped._window.site.port
        one.close()
        assert running()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        other.close()
        other.close()
        assert not running()
        assert not folder.exists()

    def test_a_tab_is_opened_after_another_was_closed(self, env):
        """In the same Chromium: an environment that was reset has no crash to its name."""
        env.reset(seed=1)
        before = browser.find_chromium()._warden
        env.close()
        env.reset(seed=2)
        assert not env._crashed
        assert browser.find_chromium()._warden is before

    def test_forgotten_environments_close_their_tabs(self, quiet):
        env = gym.make("WebShopSite-v0", data="embedded")
        env.reset(seed=1)
        port = env.unwrapped._window.site.port
        del env
        assert not running()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))

    @LONG
    @pytest.mark.parametrize(
        ("moment", "ending"),
        [
            *itertools.product(("start", "step", "close", "fork"), ("kill", "term", "int")),
            *(("step", ending) for ending in ("exception", "exit")),
        ],
    )
    def test_nothing_outlives_a_process(self, moment, ending):
        """Ends a life at random times of a moment."""
        trials = 2 if moment == "start" else 1
        command = [sys.executable, outlived.__file__, moment, ending, f"--trials={trials}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        assert [one["left"] for one in told] == [[]] * trials

    @LONG
    def test_a_killed_wardens_folder_goes_with_the_next_start(self, quiet, monkeypatch):
        """Driver and Chromium end without it; what a live one writes to is left alone."""
        program = (
            "import os, sys, time, gymnasium as gym\n"
            "from agent_envs.webshop.browser import find_chromium\n"
            "env = gym.make('agent_envs:WebShopSite-v0', data='embedded')\n"
            "env.reset(seed=1)\n"
            "print(find_chromium()._warden.pid, flush=True)\n"
            "time.sleep(60)\n"
        )
        command = [sys.executable, "-c", program]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one:
            keeper = int(one.stdout.readline())
            below = outlived.below(keeper)
            folder = next(
                Path(command.partition("user-data-dir=")[2].split()[0]).parent
                for command in map(outlived.command, below.values())
                if PARTS["browser"](command)
            )
            os.kill(keeper, signal.SIGSTOP)  # it may not clean up in between
            one.kill()
            os.kill(keeper, signal.SIGKILL)
        until = time.monotonic() + 30
        while time.monotonic() < until and any(Path(f"/proc/{each}").exists() for each in below):
            time.sleep(0.1)
        assert [each for each in below if Path(f"/proc/{each}").exists()] == []
        assert folder.exists()
        live = gym.make("WebShopSite-v0", data="embedded")
        live.reset(seed=1)
        assert folder.exists()  # too young: its warden may be about to hold it
        for each in (folder, folder_of_browser()):
            os.utime(each, (0, 0))
        start = gym.make("WebShopSite-v0", data="embedded")
        monkeypatch.setattr(browser, "_OF_PROCESS", {})
        start.reset(seed=1)
        assert not folder.exists()
        assert live.step("search[lamp]")[-1]["valid"]
        start.close()
        live.close()

    @LONG
    def test_a_forked_child_has_its_own(self, env):
        env.reset(seed=3)
        vector = agent_envs.make_vec(
            "WebShopSite-v0", 1, vectorization_mode="async", env_kwargs={"data": "embedded"}
        )
        observations, _ = vector.reset(seed=3)
        vector.close()
        first, *_ = bought(3)
        assert env.step(first)[-1]["valid"]
        assert observations[0] == env.transcript[0][1]


class TestWhatIsMissing:
    @pytest.mark.parametrize("program", ["chromium", "chromedriver"])
    def test_programs(self, env, monkeypatch, program):
        found = shutil.which
        monkeypatch.setattr(shutil, "which", lambda name: None if name == program else found(name))
        message = f"no {program} on the PATH.*apt-get install chromium chromium-driver"
        with pytest.raises(FileNotFoundError, match=message):
            env.reset(seed=1)

    @pytest.mark.parametrize("name", ["selenium", "psutil"])
    def test_packages(self, env, monkeypatch, name):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=r"pip install 'agent-envs\[browser\]'"):
            env.reset(seed=1)
