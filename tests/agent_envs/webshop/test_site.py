"""The web site as a client sees it: pages, addresses, the purchase, and what is refused."""

from __future__ import annotations

import html.parser
import http.client
import random
import re
import socket
import subprocess
import sys
import threading
from urllib.parse import urljoin, urlsplit

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.webshop import oracle, render, site
from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.pages import Element, Page
from agent_envs.webshop.render import link, page_at
from agent_envs.webshop.shop import open_shop
from agent_envs.webshop.site import Site

pytest.importorskip("flask", reason="no Flask; pip install 'agent-envs[browser]'")


def shop_of(data="embedded", kind="synthetic", *, strict=True):
    return open_shop(open_catalogue(data), kind, strict, price_seed=0, attributes=True)


@pytest.fixture(scope="module")
def shop():
    return shop_of()


@pytest.fixture
def served(shop):
    """A site with the first goal's episode."""
    with Site(shop) as one:
        one.start(next(iter(shop.goals)))
        yield one


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
    page, session = Page(), shop.number[goal.task_id]
    yield page
    for _ in range(turns):
        if page.kind == "index":
            words = rng.sample(goal.text.split(), 2)
            page, _ = shop.follow(page, session, "search", " ".join(words).lower())
        else:
            text = rng.choice(shop.body(page).clickable)
            page, _ = shop.follow(page, session, "click", text)
        yield page
        if page.kind == "done":
            return


def bought(one, page):
    """Buys what a page shows."""
    status, headers, _ = ask(one.address(page._replace(kind="done")), "POST")
    assert status == 303
    return urljoin(one.address(page), headers["Location"])


class TestPages:
    @pytest.mark.parametrize("strict", [True, False])
    @pytest.mark.parametrize("source", ["embedded", "made_up", "real"])
    def test_elements_are_those_of_the_text(self, source, strict, request):
        data = source if source == "embedded" else request.getfixturevalue(source)
        shop, rng = shop_of(data, strict=strict), random.Random(5)
        kinds = set()
        for goal in rng.sample(list(shop.goals.values()), 40):
            for page in walk(shop, goal, rng):
                kinds.add(page.kind)
                expected = shop.elements(page, goal.text, 0.25)
                assert Seen(render.html(shop, page, goal, 0.25)).elements == expected
        assert kinds == {"index", "results", "item", "sub", "done"}

    def test_links_lead_where_clicks_lead(self, served, shop):
        goal, rng = next(iter(shop.goals.values())), random.Random(2)
        for page in walk(shop, goal, rng):
            if page.kind in {"index", "done"}:
                continue
            text = render.html(shop, page, goal)
            links = re.findall(r'<(?:a href|form class="buy" method="post" action)="([^"]*)"', text)
            targets = [urljoin(served.address(page), html.unescape(one)) for one in links]
            clicks = [e.text.lower() for e in shop.elements(page, goal.text) if e.kind != "text"]
            follow = [shop.follow(page, served.session, "click", one)[0] for one in clicks]
            assert [served.page(target) for target in targets] == follow

    @pytest.mark.parametrize("mode", ["strict", "upstream"])
    def test_the_html_observation_is_the_page_served(self, mode):
        env = gym.make("WebShop-v0", observation="html", mode=mode)
        seen, info = env.reset(seed=4)
        with Site(env.shop) as one:
            assert get(one.start(info["task_id"])) == seen
            for action in oracle(env):
                seen, *_ = env.step(action)
                if env.page.kind == "done":
                    bought(one, env.page)
                assert get(one.address(env.page)) == seen
            assert env.observation_space.contains(seen)
        assert env.page.kind == "done"

    def test_nothing_tells_the_goals_product(self, shop):
        for goal in list(shop.goals.values())[:20]:
            asin = shop.catalogue.products[goal.product].asin
            elsewhere = next(i for i in range(50) if i != goal.product)
            for page in (Page(), Page("results", "zebra"), Page("item", "", 1, elsewhere)):
                text = render.html(shop, page, goal)
                assert asin not in text
                assert goal.task_id not in text
                assert "<!--" not in text

    def test_the_search_form_asks_for_the_results(self, served):
        text = get(served.address(Page()))
        assert '<form class="search" action="results">' in text
        assert 'name="query"' in text
        page = get(urljoin(served.address(Page()), "results?query=Red+SHOES"))
        assert page == get(served.address(Page("results", "red shoes")))

    def test_receipt_tells_the_score(self, served, shop):
        page = Page("item", "x", 1, 0)
        goal = next(iter(shop.goals.values()))
        expected = shop.score(goal, shop.match(goal, 0), page).total
        text = get(bought(served, page))
        assert f"<strong>{expected:.2f}</strong> of 1" in text
        assert Element("text", str(expected)) in Seen(text).elements


class TestAddresses:
    @given(
        place=st.integers(0, 999),
        query=st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
        number=st.integers(-2, 60),
        visited=st.frozensets(st.integers(0, 999), max_size=4),
        draws=st.lists(st.integers(0, 50), max_size=4),
    )
    def test_an_address_holds_all_of_a_page(self, place, query, number, visited, draws):
        shop = shop_of()
        options = list(shop.catalogue.products[place].options.items())
        page = Page("item", query, number, place, visited=visited)
        for draw in draws:
            name, values = options[draw % len(options)]
            page = page.chosen(name, values[draw % len(values)])
        tab, receipt = page._replace(kind="sub", sub="Features"), page._replace(kind="done")
        listing = Page("results", query, number, visited=visited)
        for one in (page, tab, receipt, listing, Page()):
            assert read(shop, link(shop, one)) == one

    @pytest.mark.parametrize(
        "address",
        [
            "lamp?query=x",
            "results?query=x&number=one",
            "results?query=x&visited=5.1000",
            "item?query=x",
            "item?query=x&product=1000",
            "item?query=x&product=0&options=9-9",
            "item?query=x&product=0&options=red",
            "item?query=x&product=0&sub=Description",
            "sub?query=x&product=0&sub=Secrets",
            "sub?query=x&product=0",
        ],
    )
    def test_what_is_no_page_is_not_found(self, served, shop, address):
        assert ask(urljoin(served.address(Page()), address))[0] == 404
        with pytest.raises(ValueError, match=r"."):
            read(shop, address)

    def test_another_episode_is_not_found(self, served, shop):
        before = served.address(Page())
        served.start(list(shop.goals)[1])
        assert ask(before)[0] == 404
        assert ask(f"{before}done?product=0", "POST")[0] == 404
        with pytest.raises(ValueError, match="the episode is at /1/"):
            served.page(before)

    def test_the_root_leads_to_the_episode(self, served, shop):
        root = f"http://127.0.0.1:{served.port}/"
        assert ask(root)[1]["Location"] == "/0/"
        with Site(shop) as idle:
            assert ask(f"http://127.0.0.1:{idle.port}/")[0] == 404


def read(shop, address):
    """The page at a relative address."""
    parts = urlsplit(address)
    fields = dict(site.parse_qsl(parts.query, keep_blank_values=True))
    return page_at(shop, parts.path.removeprefix("./"), fields)


class TestPurchase:
    item = Page("item", "x", 1, 3)

    def test_the_first_counts_and_is_scored_once(self, served, shop, monkeypatch):
        scored = []
        score = shop.score
        monkeypatch.setattr(shop, "score", lambda *a: scored.append(a) or score(*a))
        first = bought(served, self.item)
        assert served.page(first) == self.item._replace(kind="done")
        for other in (self.item, self.item._replace(product=4)):
            assert bought(served, other) == first
        assert get(first) == get(first)
        assert len(scored) == 1

    def test_all_leads_to_the_receipt_afterwards(self, served):
        receipt = bought(served, self.item)
        for page in (Page(), Page("results", "lamp"), self.item, Page("done", "", 1, 9)):
            status, headers, _ = ask(served.address(page))
            assert (status, urljoin(receipt, headers["Location"])) == (302, receipt)

    def test_looking_at_a_receipt_buys_nothing(self, served):
        address = served.address(self.item._replace(kind="done"))
        status, headers, _ = ask(address)
        assert status == 302
        assert served.page(urljoin(address, headers["Location"])) == self.item
        assert get(served.address(self.item))

    def test_another_episode_starts_without(self, served, shop):
        bought(served, self.item)
        assert get(served.start(next(iter(shop.goals))))

    def test_buyers_at_the_same_time(self, served):
        pages = [Page("item", "x", 1, place) for place in range(8)]
        found = []
        threads = [
            threading.Thread(target=lambda page=page: found.append(bought(served, page)))
            for page in pages
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len(set(found)) == 1

    def test_waiting_ends_when_the_receipt_has_been_sent(self, served):
        receipt = bought(served, self.item)
        threading.Timer(0.2, get, [receipt]).start()
        assert served.wait().page == self.item._replace(kind="done")

    def test_waiting_ends_with_the_site(self, shop):
        one = Site(shop)
        one.close()
        with pytest.raises(RuntimeError, match="closed before anything was bought"):
            one.wait()


class TestProtection:
    @pytest.mark.parametrize("method", ["GET", "POST"])
    @pytest.mark.parametrize("host", ["shop.example", "shop.example:80", "127.0.0.1.evil.example"])
    def test_other_hosts_are_refused(self, served, host, method):
        path = "done?product=0" if method == "POST" else ""
        status, _, text = ask(served.address(Page()) + path, method, host)
        assert status == 403
        assert "127.0.0.1 and localhost only" in text

    @pytest.mark.parametrize("host", [None, "localhost:1", "127.0.0.1"])
    def test_own_names_are_served(self, served, host):
        assert ask(served.address(Page()), host=host)[0] == 200

    def test_it_listens_on_this_machine_only(self, served):
        assert served._server.socket.getsockname()[0] == "127.0.0.1"

    def test_every_answer_forbids_scripts_and_other_sites(self, served):
        for path in ("", "results?query=x", "nothing", "../shop.css"):
            headers = ask(urljoin(served.address(Page()), path))[1]
            policy = headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none';")
            assert "script" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"

    def test_pages_name_no_other_address(self, served, shop):
        goal = next(iter(shop.goals.values()))
        for page in walk(shop, goal, random.Random(1)):
            assert "//" not in render.html(shop, page, goal).replace("<!doctype html>", "")
        for name in site.ASSETS:
            text = get(f"http://127.0.0.1:{served.port}/{name}")
            assert re.findall(r"(?:url\(|@import|href)", text) == []

    def test_hostile_texts_are_texts(self, hostile, shop):
        hostile = shop_of(hostile)
        goal = next(iter(hostile.goals.values()))
        query = "\"'></title><script>alert(1)</script>&lt;{{ 7 * 7 }}"
        usual = tags(shop, next(iter(shop.goals.values())))
        pages = [Page("results", query)]
        for place in range(len(hostile.catalogue.products)):
            item = Page("item", query, 1, place)
            for name, values in hostile.catalogue.products[place].options.items():
                item = item.chosen(name, values[0])
            subs = [item._replace(kind="sub", sub=sub) for sub in ("Description", "Features")]
            pages += [item, *subs, item._replace(kind="done")]
        for page in pages:
            seen = Seen(render.html(hostile, page, goal))
            assert seen.elements == hostile.elements(page, goal.text)
            assert set(seen.tags) <= usual

    def test_characters_that_html_has_not(self, record, wanted, folder_of):
        title = "A\rB\r\nC \ud800 D\x00"
        data = folder_of([record(name=title)], {record()["asin"]: wanted("soft")})
        shop = shop_of(data)
        goal = next(iter(shop.goals.values()))
        text = render.html(shop, Page("item", "", 1, 0), goal)
        assert "A&#13;B&#13;\nC \ufffd D\ufffd" in text
        assert text.encode()


def tags(shop, goal):
    """All tags that pages without hostile texts have."""
    item = Page("item", "lamp", 1, 0)
    subs = [item._replace(kind="sub", sub=sub) for sub in ("Description", "Features", "Reviews")]
    pages = (Page(), Page("results", "lamp"), item, *subs, item._replace(kind="done"))
    return {tag for page in pages for tag in Seen(render.html(shop, page, goal)).tags}


class TestServer:
    def test_a_taken_port(self, shop):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match=f"port {port} is taken by another program"):
                Site(shop, port=port)

    def test_a_given_port(self, shop):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with Site(shop, port=port) as one:
            assert one.port == port
            assert f":{port}/0/" in one.start(next(iter(shop.goals)))

    @pytest.mark.parametrize("port", [-1, 65_536])
    def test_no_port(self, shop, port):
        with pytest.raises(ValueError, match=rf"0\.\.65535, 0 for a free one, got {port}"):
            Site(shop, port=port)

    def test_closing_twice(self, shop):
        one = Site(shop)
        address = one.start(next(iter(shop.goals)))
        one.close()
        one.close()
        with pytest.raises(ConnectionRefusedError):
            get(address)
        assert not one._thread.is_alive()

    def test_it_dies_with_its_owner(self):
        program = (
            "import gymnasium as gym\n"
            "from agent_envs.webshop.site import Site\n"
            "print(Site(gym.make('agent_envs:WebShop-v0').shop).port)\n"
        )
        child = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
        )
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(child.stdout)))

    def test_two_at_once(self, shop):
        first, second = list(shop.goals)[:2]
        with Site(shop) as one, Site(shop) as other:
            assert get(one.start(first)) != get(other.start(second))


class TestWhatIsMissing:
    def test_flask(self, shop, monkeypatch):
        monkeypatch.setitem(sys.modules, "flask", None)
        with pytest.raises(ImportError, match=r"flask.*pip install 'agent-envs\[browser\]'"):
            Site(shop)

    def test_jinja(self, monkeypatch):
        render._templates.cache_clear()
        monkeypatch.setitem(sys.modules, "jinja2", None)
        env = gym.make("WebShop-v0", observation="html")
        with pytest.raises(ImportError, match=r"jinja2.*pip install 'agent-envs\[webshop\]'"):
            env.reset(seed=1)

    def test_text_needs_neither(self):
        program = (
            "import sys\n"
            "for name in ('flask', 'jinja2', 'selenium'): sys.modules[name] = None\n"
            "import gymnasium as gym\n"
            "env = gym.make('agent_envs:WebShop-v0')\n"
            "env.reset(seed=1)\n"
            "env.step('search[lamp]')\n"
        )
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
