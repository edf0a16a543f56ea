"""WebShopSite-v0 in a real Chromium: as WebShop-v0, turn by turn, whatever happens to it."""

from __future__ import annotations

import copy
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
import pytest

import agent_envs
from agent_envs.webshop import chromium, oracle, site
from agent_envs.webshop import pages as webpages
from agent_envs.webshop.pages import Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="no chromium and chromedriver on the path; apt-get install chromium chromium-driver",
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _kept_open():
    """A tab that nobody closes, so that the tests start no Chromium each."""
    kept = gym.make("WebShopSite-v0")
    kept.reset(seed=1)
    yield
    kept.close()
    assert running() == set()


@pytest.fixture
def env():
    env = gym.make("WebShopSite-v0", data="embedded")
    yield env.unwrapped
    env.close()


@pytest.fixture
def quiet():
    """No Chromium at the start, as after it crashed."""
    chromium.chromium().quit()
    yield
    chromium.chromium().quit()


def running():
    """Ids of the Chromium and driver processes of this one."""
    found, parents = set(), {os.getpid()}
    tree = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent = rest.split()[:2]
        if state != "Z":
            tree.setdefault(int(parent), set()).add((int(status.parent.name), name))
    while parents:
        children = tree.get(parents.pop(), set())
        parents |= {process for process, _ in children}
        found |= {process for process, name in children if name.startswith("chrom")}
    return found


def alive(driver, profile):
    """Command lines of the driver and of what was started with the profile."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()  # empty of what has ended
        except (FileNotFoundError, ProcessLookupError):
            continue
        if command and (process.name == driver or profile in command):
            found.append(command)
    return found


def kill(*, driver):
    """Kills the driver, or Chromium and leaves the driver."""
    service = chromium.chromium()._driver.service.process.pid
    for process in [service] if driver else sorted(running() - {service}):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:  # died with one before
            continue


def driven(env):
    """The driver, turned to the environment's tab."""
    return env._window._turned()


def twins(**options):
    """The same environment on the site and as text."""
    return [gym.make(name, data="embedded", **options) for name in ("WebShopSite-v0", "WebShop-v0")]


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
    if rng.random() < 0.12:
        action = rng.choice(INVALID)
    elif action.startswith("search["):
        words = rng.sample(info["goal"].split(), 3)
        action = f"search[{rng.choice(QUERIES) if rng.random() < 0.2 else ' '.join(words)}]"
    return action


class TestSameAsText:
    @pytest.mark.parametrize(
        ("episodes", "options"),
        [
            (20, {"mode": "strict", "reward": "score"}),
            (15, {"mode": "strict", "observation": "text_rich", "attributes": True}),
            (15, {"mode": "upstream", "observation": "text_rich", "progress": "best"}),
        ],
    )
    def test_random_episodes(self, episodes, options):
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

    def test_a_purchase_of_what_was_asked(self, env):
        _, info = env.reset(seed=3)
        for action in oracle(env):
            _, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["success"], info["progress"]) == (1.0, True, True, 1.0)

    @pytest.mark.parametrize("observation", ["html", "url"])
    def test_other_observations(self, observation):
        on_site, as_text = twins(observation=observation)
        assert on_site.reset(seed=2) == as_text.reset(seed=2)
        for action in oracle(as_text):
            assert on_site.step(action) == as_text.step(action)
        on_site.close()

    def test_hostile_texts_run_nothing(self, hostile):
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
            wait.until(lambda d: one.page(d.current_url).kind == kind)
            return one.page(driver.current_url)

        driver.find_element("name", "query").send_keys("Rain Jacket\n")
        assert arrived("results").query == "Rain Jacket"
        driver.find_element("css selector", ".cards li:nth-child(3) a").click()
        item = arrived("item")
        driver.find_element("css selector", ".values a:nth-child(2)").click()
        wait.until(lambda d: one.page(d.current_url).options)
        assert driver.find_element("css selector", "[aria-checked=true]").text == "beige"
        driver.back()
        wait.until(lambda d: one.page(d.current_url) == item)
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

    @pytest.mark.parametrize("width", [320, 390, 1280])
    def test_nothing_is_wider_than_the_screen(self, hostile, width):
        env = gym.make("WebShopSite-v0", data=hostile, split="all").unwrapped
        env.reset(seed=1)
        driver, one = driven(env), env._window.site
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 1000}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        item = Page("item", "shoe" * 200, 1, 2)
        for page in (
            Page(),
            item._replace(kind="results"),
            item,
            item._replace(kind="sub", sub="Features"),
        ):
            driver.get(one.address(page))
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        env.close()


class TestRequests:
    def test_only_the_loopback_server_is_asked(self, quiet, monkeypatch, tmp_path):
        """By Chromium's own log of the network, which has what pages ask for and what it asks."""
        log = tmp_path / "network.json"
        monkeypatch.setattr(chromium, "FLAGS", (*chromium.FLAGS, f"log-net-log={log}"))
        env = gym.make("WebShopSite-v0", data="embedded").unwrapped
        env.reset(seed=3)
        port = env._window.site.port
        for action in oracle(env):
            env.step(action)
        env.close()
        told = json.loads(log.read_text())
        names = {number: name for name, number in told["constants"]["logEventTypes"].items()}
        events = [(names[event["type"]], event.get("params", {})) for event in told["events"]]
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

    def test_pages_ask_for_themselves_only(self, quiet, monkeypatch):
        from selenium import webdriver

        class Logged(webdriver.ChromeOptions):
            def __init__(self):
                super().__init__()
                self.set_capability("goog:loggingPrefs", {"performance": "ALL"})

        monkeypatch.setattr(webdriver, "ChromeOptions", Logged)
        env = gym.make("WebShopSite-v0", data="embedded").unwrapped
        env.reset(seed=3)
        for action in oracle(env):
            env.step(action)
        told = [
            json.loads(line["message"])["message"] for line in driven(env).get_log("performance")
        ]
        asked = {
            one["params"]["request"]["url"]
            for one in told
            if one["method"] == "Network.requestWillBeSent"
        }
        own = f"http://127.0.0.1:{env._window.site.port}/"
        inside = (own, "data:", "chrome:")  # the last are pages of the program's own
        assert [url for url in asked if not url.startswith(inside)] == []
        assert f"{own}shop.css" in asked
        env.close()


class TestCrashes:
    @pytest.mark.parametrize("driver", [False, True])
    def test_once_is_mended_and_twice_raises(self, driver, quiet):
        on_site, as_text = twins(max_turns=30)
        on_site.reset(seed=3)
        as_text.reset(seed=3)
        actions = oracle(as_text)
        assert on_site.step(actions[0]) == as_text.step(actions[0])
        profile = Path(chromium.chromium()._profile)
        kill(driver=driver)
        for action in [*actions[1:-1], "click[features]"]:
            assert on_site.step(action) == as_text.step(action)
        assert not profile.exists()
        kill(driver=driver)
        with pytest.raises(RuntimeError, match="crashed twice in one episode"):
            on_site.step("click[< prev]")
        with pytest.raises(gym.error.ResetNeeded):
            on_site.step("click[< prev]")
        assert on_site.reset(seed=4) == as_text.reset(seed=4)
        on_site.close()

    def test_others_open_their_pages_anew(self, env):
        other = copy.deepcopy(env)
        env.reset(seed=3)
        other.reset(seed=3)
        first, second = oracle(env)[:2]
        env.step(first)
        other.step(first)
        kill(driver=False)
        assert env.step(second) == other.step(second)
        other.close()

    def test_bought_before_the_crash(self, env):
        """The site sold, the browser died before it showed the receipt."""
        env.reset(seed=3)
        actions = oracle(env)
        for action in actions[:-1]:
            env.step(action)
        page = env._window.page._replace(kind="done")
        driven(env).execute_script("document.querySelector('.buy').submit()")
        assert env._window.site.wait().page == page
        kill(driver=False)
        _, reward, terminated, *_ = env.step(actions[-1])
        assert (reward, terminated) == (1.0, True)

    def test_a_page_that_never_loads(self, env, monkeypatch):
        def hanging(shop, page, goal, score):
            if page.kind == "results":
                released.wait(60)
            return shown(shop, page, goal, score)

        shown, released = site.html, threading.Event()
        monkeypatch.setattr(site, "html", hanging)
        env.page_timeout = 2.0
        env.reset(seed=3)
        started = time.monotonic()
        with pytest.raises(TimeoutError, match="no page within 2 s"):
            env.step("search[lamp]")
        assert time.monotonic() - started < 15
        released.set()
        env.page_timeout = 30.0
        env.reset(seed=3)
        assert env.step("search[lamp]")[-1]["valid"]

    def test_a_site_that_fails_is_told(self, env, monkeypatch):
        env.reset(seed=3)
        monkeypatch.setattr(env._window.site.shop, "number", {env.task_id: "elsewhere"})
        with pytest.raises(RuntimeError, match="no page of the shop at http"):
            env.step("search[lamp]")


class TestLife:
    def test_copies_walk_alone(self, env):
        env.reset(seed=3)
        first, second, *_ = oracle(env)
        env.step(first)
        others = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
        expected = env.step(second)
        assert [other.step(second) for other in others] == [expected, expected]
        assert others[0].step("click[< prev]") == others[1].step("click[< prev]")
        assert env._window.page.kind == "item"
        for other in others:
            other.close()

    def test_a_copy_answers_nonsense_too(self, env):
        observation, _ = env.reset(seed=3)
        other = copy.deepcopy(env)
        told = other.step("dance")
        assert (told[0], told[-1]["invalid_reason"]) == (observation, "format")
        other.close()

    def test_the_last_to_close_ends_all(self, quiet):
        one, other = twins()[0], twins()[0]
        one.reset(seed=1)
        other.reset(seed=2)
        profile, port = chromium.chromium()._profile, one.unwrapped._window.site.port
        assert running()
        one.close()
        assert running()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        other.close()
        other.close()
        assert running() == set()
        assert not Path(profile).exists()

    def test_forgotten_environments_close_their_tabs(self, quiet):
        env = gym.make("WebShopSite-v0", data="embedded")
        env.reset(seed=1)
        port = env.unwrapped._window.site.port
        del env
        assert running() == set()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))

    @pytest.mark.parametrize("end", ["raise KeyboardInterrupt", "os.kill(os.getpid(), 9)"])
    def test_nothing_outlives_the_process(self, end):
        program = (
            "import os, gymnasium as gym\n"
            "from agent_envs.webshop.chromium import chromium\n"
            "env = gym.make('agent_envs:WebShopSite-v0', data='embedded')\n"
            "env.reset(seed=1)\n"
            "print(chromium()._driver.service.process.pid, chromium()._profile, flush=True)\n"
            f"{end}\n"
        )
        child = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
        driver, profile = child.stdout.split()
        until = time.monotonic() + 30  # killed, it cannot wait for the others to end
        while time.monotonic() < until and (alive(driver, profile) or Path(profile).exists()):
            time.sleep(0.1)
        assert alive(driver, profile) == []
        assert not Path(profile).exists()

    def test_a_forked_child_has_its_own(self, env):
        env.reset(seed=3)
        vector = agent_envs.make_vec(
            "WebShopSite-v0", 1, vectorization_mode="async", env_kwargs={"data": "embedded"}
        )
        observations, _ = vector.reset(seed=3)
        vector.close()
        first, *_ = oracle(env)
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

    def test_selenium(self, env, monkeypatch):
        monkeypatch.setitem(sys.modules, "selenium", None)
        with pytest.raises(ImportError, match=r"pip install 'agent-envs\[browser\]'"):
            env.reset(seed=1)


def test_elements_have_the_kinds_of_pages(env):
    env.reset(seed=3)
    for action in oracle(env)[:2]:
        env.step(action)
        expected = env.shop.elements(env.page, env.goal)
        assert env._window.elements == expected
        assert webpages.clickable(expected) == list(env.shop.body(env.page).clickable)
