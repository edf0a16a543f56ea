"""WebShopSite-v1 in a real Chromium: as WebShop-v1, turn by turn, whatever happens to it."""

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
import tempfile
import threading
import time
from pathlib import Path

import gymnasium as gym
import psutil
import pytest
from planned import planned

from agent_envs.panels import Panel
from agent_envs.webshop import browser
from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.oracle import Oracle
from agent_envs.webshop.shop import open_shop

pytestmark = [pytest.mark.slow, pytest.mark.browser]
LONG = pytest.mark.long


def make(name="WebShopSite-v1", **options):
    return gym.make(name, **options).unwrapped


@pytest.fixture(scope="module", autouse=True)
def kept():
    """Has a tab that no test closes, so that most need not start a Chromium."""
    kept = make()
    yield kept
    kept.close()
    assert not running()


@pytest.fixture
def env(kept):
    if not running():  # the first test, or one after a test that ended Chromium
        kept.reset(seed=1)
    env = make()
    yield env
    env.close()


@pytest.fixture
def quiet():
    """No Chromium at the start, as after it crashed."""
    browser.find_chromium().quit()
    yield
    browser.find_chromium().quit()


def read_command(process):
    """The command line of a process, "" if it has ended."""
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def list_children(parent):
    """The running processes that descend from one."""
    try:
        found = psutil.Process(parent).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in found if read_command(process)]


def running():
    """Ids of the processes that the browser of this one is made of, and their commands."""
    keeper = browser.find_chromium()._warden
    if keeper is None or keeper.poll() is not None:
        return {} if keeper is None else {keeper.pid: "warden"}
    found = {process.pid: read_command(process) for process in list_children(keeper.pid)}
    return {keeper.pid: "warden", **found}


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
    return make(**options), make("WebShop-v1", **options)


def bought(seed):
    """The actions that buy what an episode asks for."""
    env = make("WebShop-v1")
    env.reset(seed=seed)
    return planned(env, Oracle)


INVALID = ("dance", "", "click[nothing]", "click[search]", "search[]", "click[buy now]")
QUERIES = ("a\nb lamp", "\ttea \x00 \x7f", "ÄÖ漢字🎉 İ", '"><script>', "search_results", "a" * 600)


def draw_action(rng, info):
    """Mostly an admissible action, searches with words of the goal, now and then anything."""
    action = rng.choice(info["admissible_actions"])
    if rng.random() < 0.25:
        action = rng.choice(INVALID)
    elif action.startswith("search["):
        words = rng.sample(info["goal"].split(), 3)
        action = f"search[{rng.choice(QUERIES) if rng.random() < 0.2 else ' '.join(words)}]"
    return action


RICH = {"observation": "text_rich"}


@pytest.mark.parametrize(
    ("episodes", "options"), [(5, RICH), pytest.param(20, {"reward": "score"}, marks=LONG)]
)
def test_random_episodes_are_those_of_the_text(env, episodes, options):
    on_site, as_text = twins(max_turns=7, **options)
    rng = random.Random(episodes)
    seen = set()
    for seed in range(episodes):
        _, info = opening = on_site.reset(seed=seed)
        assert opening == as_text.reset(seed=seed)
        ended = False
        while not ended:
            action = draw_action(rng, info)
            one, other = on_site.step(action), as_text.step(action)
            assert one == other
            *_, terminated, truncated, info = one
            ended = terminated or truncated
            seen |= {as_text.page.kind, info["invalid_reason"]}
    on_site.close()
    assert seen >= {"index", "results", "item", "", "format", "unknown"}


@LONG
def test_hostile_texts_run_nothing(env, hostile):
    shop = open_shop(open_catalogue(hostile), "synthetic", 0, False)
    on_site, as_text = twins(max_turns=99)
    for one in (on_site, as_text):
        one.shop, one.panel = shop, Panel("all", tuple(shop.goals))
    on_site.reset(seed=1)
    as_text.reset(seed=1)
    actions = ["search[<script>window.ran=1</script> \"'><b> shoe]"]
    for product in shop.products[:3]:
        clicks = [f"click[{value}]" for values in product.options.values() for value in values]
        tabs = ["click[features]", "click[< prev]", "click[< prev]"]
        actions += [f"click[{product.asin}]", *clicks[:2], clicks[-1], *tabs]
    for action in actions:
        one = on_site.step(action)
        assert one == as_text.step(action)
        assert one[-1]["valid"]
        script = "return [window.ran, document.querySelectorAll('script,img,iframe,b').length]"
        assert driven(on_site).execute_script(script) == [None, 0]
    on_site.close()


@pytest.mark.long
def test_only_the_loopback_server_is_asked(quiet, monkeypatch, tmp_path):
    """By Chromium's own log of the network, which has what pages ask for and what it asks."""
    log = tmp_path / "network.json"
    monkeypatch.setattr(browser, "FLAGS", (*browser.FLAGS, f"log-net-log={log}"))
    env = make()
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
    events = {}
    with contextlib.suppress(json.JSONDecodeError):  # it may have ended in the midst of a line
        for line in lines:
            event = json.loads(line.removesuffix(",").removesuffix("]}"))
            events.setdefault(names[event["type"]], []).append(event.get("params", {}))
    reached = {told["address"] for told in events["TCP_CONNECT_ATTEMPT"] if "address" in told}
    assert reached == {f"127.0.0.1:{port}"}
    assert "UDP_BYTES_SENT" not in events
    asked = [told.get("url", "") for told in events["URL_REQUEST_START_JOB"]]
    for part in ("/shop.css", "/results?", "/item?", "/done?"):
        assert any(f"http://127.0.0.1:{port}/" in url and part in url for url in asked)


@LONG
@pytest.mark.parametrize("part", PARTS)
def test_the_first_is_mended_and_the_second_raises(part, quiet):
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
def test_bought_before_the_crash(env):
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


MARGIN = 5.0  # seconds that ending what hangs may take on a busy machine


@contextlib.contextmanager
def late(env, what):
    """The body ends in time by an error, and the next episode works."""
    env.page_timeout = 1.0
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=f"no {what} within 1 s, Chromium was ended"):
        yield
    assert time.monotonic() - started < 1 + MARGIN
    env.page_timeout = 30.0


@LONG
@pytest.mark.parametrize(
    ("part", "moment"),
    [
        *itertools.product(("driver", "browser"), ("valid", "reset")),
        *(("pages", "valid"), ("all", "invalid")),
    ],
)
def test_a_step_ends_in_time_and_the_next_episode_works(env, part, moment):
    opening, before = env.reset(seed=3), running()
    send(signal.SIGSTOP, part)
    with late(env, "page"):
        if moment == "reset":
            env.reset(seed=4)
        env.step("search[lamp]" if moment == "valid" else "dance")
    with pytest.raises(gym.error.ResetNeeded):
        env.step("dance")
    assert not [process for process in before if psutil.pid_exists(process)]
    assert env.reset(seed=3) == opening
    assert env.step("search[lamp]")[-1]["valid"]


@LONG
@pytest.mark.parametrize("part", ["browser", "driver", "all"])
def test_a_start_ends_in_time(env, quiet, part):
    def stop():
        while not ended.wait(0.01):
            if any(map(PARTS[part], running().values())):
                send(signal.SIGSTOP, part)

    ended = threading.Event()
    stopping = threading.Thread(target=stop)
    stopping.start()
    with late(env, "start of Chromium"):
        env.reset(seed=3)
    ended.set()
    stopping.join()
    assert not running()
    env.reset(seed=3)


@LONG
@pytest.mark.parametrize(
    ("part", "others"), [("browser", 0), ("driver", 0), ("browser", 1), ("all", 1)]
)
def test_closing_ends_in_time(quiet, part, others):
    envs = [make() for _ in range(1 + others)]
    for env in envs:
        env.reset(seed=3)
    send(signal.SIGSTOP, part)
    before = running()
    envs[0].close()
    assert others or not [process for process in before if psutil.pid_exists(process)]
    for env in envs[1:]:  # not the worse for it
        assert env.step("search[lamp]")[-1]["valid"]
        env.close()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_that_is_none(env, timeout):
    env.page_timeout = timeout
    with pytest.raises(ValueError, match="page_timeout must be a finite number above 0, got"):
        env.reset(seed=3)


@LONG
def test_copies_walk_alone(env):
    observation, _ = env.reset(seed=3)
    first, second, *_ = bought(3)
    assert copy.deepcopy(env).step("dance")[0] == observation
    env.step(first)
    others = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    expected = env.step(second)
    assert [other.step(second) for other in others] == [expected, expected]
    assert others[0].step("click[< prev]") == others[1].step("click[< prev]")
    assert env._window.page.kind == "item"
    for other in others:
        other.close()


@pytest.mark.long
def test_the_last_to_close_ends_all(quiet):
    """Closed, or forgotten; a tab is opened after another was closed."""
    one, other = make(), make()
    one.reset(seed=1)
    before = browser.find_chromium()._warden
    other.reset(seed=2)
    folder, port = folder_of_browser(), one._window.site.port
    one.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    one.reset(seed=2)
    assert not one._crashed
    assert browser.find_chromium()._warden is before
    del one
    assert running()
    other.close()
    other.close()
    assert not running()
    assert not folder.exists()


LIFE = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job has it ignored
import gymnasium as gym
import agent_envs
moment, ending = sys.argv[1:]
env = gym.make('WebShopSite-v1')
print('start', flush=True)
env.reset(seed=1)
if moment == 'fork' and not os.fork(): time.sleep(60)
print('step', 'fork', flush=True)
if ending == 'exception': raise ZeroDivisionError
if ending == 'exit': sys.exit(3)
while moment != 'close':
    env.step('search[lamp]')
    env.reset(seed=1)
print('close', flush=True)
env.close()
time.sleep(60)
"""


def list_leftovers(folder):
    """What a life left: processes with its folder for temporary files, and what lies there."""
    found = [*map(str, Path(folder).iterdir())]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = read_command(process)
            if process.environ().get("TMPDIR") == folder and command and LIFE[:20] not in command:
                found.append(command)
    return found


@LONG
@pytest.mark.parametrize(
    ("moment", "ending", "delay"),
    [
        *(("start", "kill", delay) for delay in (0.1, 0.5, 1.0)),
        *(("start", "int", 0.5), ("close", "kill", 0.2), ("close", "int", 0.2)),
        *(("step", ending, 0.2) for ending in ("kill", "term", "int")),
        *(("fork", "kill", 0.2), ("step", "exception", 0.0), ("step", "exit", 0.0)),
    ],
)
def test_nothing_outlives_a_process(moment, ending, delay):
    # a long path would send the browser elsewhere
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder:
        command = [sys.executable, "-c", LIFE, moment, ending]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with subprocess.Popen(command, env=os.environ | {"TMPDIR": folder}, **pipes) as life:
            while moment not in (line := life.stdout.readline()).split():
                assert line, "it ended before"
            time.sleep(delay)
            if number := getattr(signal, f"SIG{ending.upper()}", None):
                life.send_signal(number)
            forked = list_children(life.pid) if moment == "fork" else []
            life.wait(timeout=60)
        until = time.monotonic() + 15
        while (left := list_leftovers(folder)) and time.monotonic() < until:
            time.sleep(0.2)
        for process in forked:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    assert left == []


@LONG
def test_a_killed_wardens_folder_goes_with_the_next_start(quiet, monkeypatch):
    """Driver and Chromium end without it; what a live one writes to is left alone."""
    command = [sys.executable, "-c", LIFE, "step", "kill"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one:
        assert [one.stdout.readline() for _ in range(2)][1] == "step fork\n"
        (keeper,) = (child.pid for child in psutil.Process(one.pid).children())
        below = list_children(keeper)
        command = next(filter(PARTS["browser"], map(read_command, below)))
        folder = Path(command.partition("user-data-dir=")[2].split()[0]).parent
        os.kill(keeper, signal.SIGSTOP)  # it may not clean up in between
        one.kill()
        os.kill(keeper, signal.SIGKILL)
    assert psutil.wait_procs(below, timeout=30)[1] == []
    assert folder.exists()
    live = make()
    live.reset(seed=1)
    assert folder.exists()  # too young: its warden may be about to hold it
    for each in (folder, folder_of_browser()):
        os.utime(each, (0, 0))
    start = make()
    monkeypatch.setattr(browser, "_OF_PROCESS", {})
    start.reset(seed=1)
    assert not folder.exists()
    assert live.step("search[lamp]")[-1]["valid"]
    start.close()
    live.close()


@pytest.mark.long
def test_a_driver_whose_port_another_takes_is_started_again(quiet, monkeypatch, tmp_path):
    """It finds a free IPv6 port, and ends if the IPv4 port of that number is not free."""
    driver = tmp_path / "chromedriver"
    driver.write_text(
        f"#!/bin/sh\ncd {tmp_path}\n[ -e asked ] && exec {shutil.which('chromedriver')} $*\n"
        "touch asked\necho 'bind() failed: Address already in use (98)'\nexit 1\n"
    )
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    env = make()
    assert env.reset(seed=1)[0]
    assert (tmp_path / "asked").exists()
    env.close()


@pytest.mark.parametrize("missing", ["chromium", "chromedriver", "selenium", "psutil"])
def test_missing_programs_and_packages(env, monkeypatch, missing):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == missing else which(name))
    if "chrom" not in missing:
        monkeypatch.setitem(sys.modules, missing, None)
    message = (
        rf"no {missing} on the PATH\. .*apt-get install chromium chromium-driver"
        r"|pip install 'agent-envs\[browser\]'"
    )
    with pytest.raises((FileNotFoundError, ImportError), match=message):
        env.reset(seed=1)
