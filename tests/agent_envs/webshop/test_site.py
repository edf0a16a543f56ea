"""The web site as a client sees it: pages, addresses, the purchase, and what is refused."""

import html.parser
import http.client
import random
import re
import socket
import sys
import threading
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned import planned

from agent_envs.webshop import site
from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.oracle import Oracle
from agent_envs.webshop.pages import Element, Page
from agent_envs.webshop.shop import open_facts, open_shop
from agent_envs.webshop.site import Site, render_page, write_link
from agent_envs.webshop.world import SEED

pytestmark = pytest.mark.slow

for package in ("starlette", "uvicorn"):
    pytest.importorskip(package, reason=f"no {package}; pip install 'agent-envs[browser]'")


def shop_of(data=None):
    """The public shop of a folder, or else a generated one."""
    if data is None:
        return open_facts("val", 3, SEED)
    return open_shop(open_catalogue(data), "synthetic", price_seed=0, attributes=True)


@pytest.fixture(scope="module")
def shop():
    return shop_of()


@pytest.fixture(scope="module")
def shared(shop):
    with Site(shop) as one:
        one.start(next(iter(shop.goals)))
        yield one


@pytest.fixture
def served(shared):
    """A site with a new episode of the first goal."""
    shared.start(next(iter(shared.shop.goals)))
    return shared


def ask(address, method="GET", host=None):
    """Status, headers and text of one answer; redirects are not followed."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    headers = {} if host is None else {"Host": host}
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    connection.request(method, target, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def get(address):
    status, _, text = ask(address)
    assert status == 200
    return text


def search(one, typed):
    """The address that the search form leads to."""
    return urljoin(one.open_page(Page()), f"results?{urlencode({'query': typed})}")


def links(text):
    """Where a page's links and its purchase lead."""
    found = re.findall(r'<(?:a href|form class="buy" method="post" action)="([^"]*)"', text)
    return [html.unescape(one) for one in found]


class Seen(html.parser.HTMLParser):
    """The elements that a page has for an agent, and all tags."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.tags, self._open = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        told = dict(attributes)
        if "data-kind" in told:
            self._open = tag
            self.elements.append(Element(told["data-kind"], "", "data-chosen" in told))

    def handle_endtag(self, tag):
        if tag == self._open:
            self._open = None

    def handle_data(self, data):
        if self._open:
            last = self.elements[-1]
            self.elements[-1] = last._replace(text=last.text + data)


def walk(shop, goal, rng, turns=12):
    """Pages of a random walk that ends with a purchase or after some turns."""
    pages = [Page()]
    while len(pages) <= turns and pages[-1].kind != "done":
        action = f"click[{rng.choice(shop.read_body(pages[-1]).clickable)}]"
        if pages[-1].kind == "index":
            action = f"search[{' '.join(rng.sample(goal.text.split(), 2))}]"
        page, _ = shop.follow(pages[-1], shop.number[goal.task_id], *shop.parse(action))
        pages.append(page)
    return pages


def bought(one, page):
    """Buys what a page shows."""
    status, headers, _ = ask(one.open_page(page._replace(kind="done")), "POST")
    assert status == 303
    return urljoin(one.open_page(page), headers["Location"])


@pytest.mark.parametrize("public", [False, True])
def test_elements_are_those_of_the_text(public, made_up):
    shop, rng = shop_of(made_up if public else None), random.Random(5)
    kinds = set()
    for goal in rng.sample(list(shop.goals.values()), 15):
        for page in walk(shop, goal, rng):
            kinds.add(page.kind)
            expected = shop.list_elements(page, goal.text, 0.25)
            assert Seen(render_page(shop, page, goal, 0.25)).elements == expected
    assert kinds == {"index", "results", "item", "sub", "done"}


@pytest.mark.parametrize("public", [False, True])
def test_the_html_observation_is_the_page_served(public, made_up):
    options = {"id": "WebShop-v0", "data": made_up, "split": "test"} if public else {}
    env = gym.make(**({"id": "WebShop-v1", "observation": "html"} | options))
    seen, info = env.reset(seed=4)
    with Site(env.shop) as one:
        assert get(one.start(info["task_id"])) == seen
        for action in planned(env, Oracle):
            seen, *_ = env.step(action)
            if env.page.kind == "done":
                bought(one, env.page)
            assert get(one.open_page(env.page)) == seen
        assert env.observation_space.contains(seen)
    assert env.page.kind == "done"


def test_no_page_reveals_the_goals_product(shop):
    for goal in list(shop.goals.values())[:20]:
        hidden = shop.products[goal.product].asin, goal.task_id, "<!--"
        elsewhere = next(i for i in range(50) if i != goal.product)
        for page in (Page(), Page("results", "zebra"), Page("item", "", 1, elsewhere)):
            text = render_page(shop, page, goal)
            assert not [part for part in hidden if part in text]


@given(
    product=st.integers(0, 319),
    query=st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    number=st.integers(-2, 60),
    visited=st.frozensets(st.integers(0, 319), max_size=4),
    draws=st.lists(st.integers(0, 50), max_size=4),
)
def test_an_address_holds_all_of_a_page(shared, draws, **fields):
    shop = shared.shop
    page = Page("item", **fields)
    options = list(shop.products[page.product].options.items())
    for draw in draws:
        name, values = options[draw % len(options)]
        page = page.choose(name, values[draw % len(values)])
    tab, receipt = page._replace(kind="sub", sub="Features"), page._replace(kind="done")
    listing = page._replace(kind="results", product=-1, options=())
    pages = (page, tab, receipt, listing, Page(), page._replace(number=page.number + 1))
    assert len({write_link(shop, one) for one in pages}) == len(set(pages))
    assert [shared.find_page(shared.open_page(one)) for one in pages] == list(pages)


def test_addresses_of_an_earlier_episode_do_not_open(served):
    goals = list(served.shop.goals)
    root = f"http://127.0.0.1:{served.port}/"
    for number in (0, 1):  # of the same task, and of another
        old = served.open_page(Page("item", product=3))
        assert ask(old)[0] == 200
        served.start(goals[number])
        status, _, text = ask(old)
        assert status == ask(urljoin(old, "done?product=0"), "POST")[0] == 404
        assert 'href="/"' in text
        assert ask(root)[1]["Location"] == f"/{number}/"
        with pytest.raises(ValueError, match=f"nothing in the episode at /{number}/ led to"):
            served.find_page(old)


LONG = "x" * 300


def test_only_pages_that_the_episode_led_to_open(served):
    """Addresses changed by hand open nothing but pages that one of the walk has a link to."""

    def read_links(address):
        return [urljoin(address, each) for each in links(get(address)) if "done" not in each]

    results = search(served, "lamp")
    led = read_links(results)
    item = next(one for one in led if served.find_page(one).kind == "item")
    led += [results, *read_links(item)]
    opened = {served.find_page(one) for one in led}
    known = dict(parse_qsl(urlsplit(item).query))
    for path in ("results", "item", "sub", "done"):
        for name in ("query", "number", "product", "sub", "options", "visited", "xyz"):
            for odd in (
                *["-1", "0", "2", "99", "1e9", "Attributes", "Features", "0-0"],
                "",
                "x" * 300,
            ):
                changed = urljoin(item, f"{path}?{urlencode(known | {name: odd})}")
                status, headers, text = ask(changed)
                if status == 404:
                    assert Seen(text).elements == []
                    continue
                assert status in {200, 302, 308}
                found = served.find_page(urljoin(changed, headers.get("Location", changed)))
                assert found in opened or found in {Page(), Page("results", found.query)}


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("Red SHOES", "red shoes"),
        ("  lamp ", "lamp"),
        ("r\u00f6te \u6f22\u5b57", "r\u00f6te \u6f22\u5b57"),
        ('"><script>', '"><script>'),
        ("a]b[c", "a]b[c"),
        ("&query=x#y", "&query=x#y"),
        ("\U0001f389" * 4088, "\U0001f389" * 4088),  # and search[]: as long as may be
        *((typed, None) for typed in ("", "\t", "a" * 4089, "\U0001f389" * 5000)),
    ],
)
def test_a_search_as_typed_is_the_one_of_the_text_or_leads_back(served, typed, words):
    form = get(served.open_page(Page()))
    assert '<form class="search" action="results">' in form
    assert 'name="query"' in form
    address = search(served, typed)
    status, headers, _ = ask(address)
    if status == 302:
        address = urljoin(address, headers["Location"])
    assert served.find_page(address) == (Page("results", words) if words else Page())
    assert Element("text", words) not in Seen(get(address)).elements


ITEM = Page("item", "x", 1, 3)


def test_the_first_counts_and_is_scored_once(served, shop, monkeypatch):
    scored = []
    score = shop.score
    monkeypatch.setattr(shop, "score", lambda *a: scored.append(a) or score(*a))
    address = served.open_page(ITEM._replace(kind="done"))
    status, headers, _ = ask(address)  # looking at a receipt buys nothing
    assert status == 302
    assert served.find_page(urljoin(address, headers["Location"])) == ITEM
    first = bought(served, ITEM)
    assert 'action="/' not in get(first)  # an agent's site offers no other task and no stop
    for name in ("another", "stop"):
        assert ask(f"http://127.0.0.1:{served.port}/{name}", "POST")[0] in {404, 405}
    assert served.find_page(first) == ITEM._replace(kind="done")
    for other in (ITEM, ITEM._replace(product=4)):
        assert bought(served, other) == first
    assert get(first) == get(first)
    assert len(scored) == 1
    for page in (Page(), Page("results", "lamp"), ITEM, Page("done", "", 1, 9)):
        status, headers, _ = ask(served.open_page(page))
        assert (status, urljoin(first, headers["Location"])) == (302, first)
    assert get(served.start(next(iter(shop.goals))))  # another episode has none


def test_a_person_plays_several_tasks_and_stops(shop):
    drawn = iter(list(shop.goals)[1:])
    with Site(shop, following=drawn.__next__) as one:
        root = f"http://127.0.0.1:{one.port}"
        one.start(next(iter(shop.goals)))
        ask(f"{root}/another", "POST")  # nothing is bought yet
        threading.Timer(0.2, bought, [one, ITEM]).start()
        assert one.wait().page == ITEM._replace(kind="done")
        receipt = bought(one, ITEM)
        text = get(receipt)
        assert 'action="/another"' in text
        assert 'action="/stop"' in text
        assert ask(f"{root}/")[1]["Location"] == "/0/"
        for _ in range(2):  # begins one
            assert ask(f"{root}/another", "POST")[1]["Location"] == "/"
        assert ask(f"{root}/")[1]["Location"] == "/1/"
        assert ask(receipt)[0] == 404
        assert list(shop.goals.values())[1].text in get(f"{root}/1/").replace("&#39;", "'")
        status, _, text = ask(f"{root}/stop", "POST")
        assert status == 200
        assert "You can close this window" in text
        assert one.wait() is None


def test_only_requests_for_this_machine_are_answered_and_no_scripts_are_allowed(served):
    page = served.open_page(Page())
    for host in ("shop.example", "shop.example:80", "127.0.0.1.evil.example", "example.com"):
        for method, path in (("GET", ""), ("POST", "done?product=0")):
            status, _, text = ask(page + path, method, host)
            assert status == 403
            assert "127.0.0.1 and localhost only" in text
    for host in (None, "localhost:1", "127.0.0.1"):
        assert ask(page, host=host)[0] == 200
    for path in ("", "results?query=x", "nothing", "../shop.css"):
        headers = ask(urljoin(page, path))[1]
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none';")
        assert "script" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_hostile_texts_are_texts(hostile, shop):
    def render_pages(shop, query):
        goal = next(iter(shop.goals.values()))
        for place, product in enumerate(shop.products[:6]):
            item = Page("item", query, 1, place)
            for name, values in product.options.items():
                item = item.choose(name, values[0])
            subs = [item._replace(kind="sub", sub=sub) for sub in ("Description", "Features")]
            for page in (Page("results", query), item, item._replace(kind="done"), *subs):
                seen = Seen(render_page(shop, page, goal))
                assert seen.elements == shop.list_elements(page, goal.text)
                yield from seen.tags

    query = "\"'></title><script>alert(1)</script>&lt;{{ 7 * 7 }}"
    assert {*render_pages(shop_of(hostile), query)} <= {*render_pages(shop, "lamp")}


def test_characters_that_html_has_not(record, wanted, folder_of):
    title = "A\rB\r\nC \ud800 D\x00"
    data = folder_of([record(name=title)], {record()["asin"]: wanted("soft")})
    shop = shop_of(data)
    goal = next(iter(shop.goals.values()))
    text = render_page(shop, Page("item", "", 1, 0), goal)
    assert "A&#13;B&#13;\nC \ufffd D\ufffd" in text
    assert text.encode()


def test_ports_and_closing_twice(shop):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for bad, error, why in (
            (port, OSError, f"port {port}: Address already in use; stop that process"),
            (-1, ValueError, r"0\.\.65535, 0 for a free one, got -1"),
            (65_536, ValueError, r"0\.\.65535, 0 for a free one, got 65536"),
        ):
            with pytest.raises(error, match=why):
                Site(shop, port=bad)
    one = Site(shop, port=port)
    assert ask(f"http://127.0.0.1:{port}/")[0] == 404  # no episode yet
    address = one.start(next(iter(shop.goals)))
    assert f":{port}/0/" in address
    one.close()
    one.close()
    with pytest.raises(ConnectionRefusedError):
        get(address)
    assert one.wait() is None


@pytest.mark.parametrize(("package", "extra"), [("starlette", "browser"), ("jinja2", "webshop")])
def test_missing_packages(monkeypatch, package, extra):
    site._load_environment.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    env = gym.make("WebShop-v1", observation="html")
    with pytest.raises(ImportError, match=rf"{package}.*pip install 'agent-envs\[{extra}\]'"):
        env.reset(seed=1) if package == "jinja2" else Site(env.shop)
