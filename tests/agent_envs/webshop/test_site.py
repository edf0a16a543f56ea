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
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned import planned

from agent_envs.webshop import site
from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.experts import Oracle
from agent_envs.webshop.pages import Element, Page
from agent_envs.webshop.shop import open_shop
from agent_envs.webshop.site import Site, render_page, write_link

pytestmark = pytest.mark.slow

pytest.importorskip("flask", reason="no Flask; pip install 'agent-envs[browser]'")


def shop_of(data="embedded", kind="synthetic", *, strict=True, attributes=True):
    return open_shop(open_catalogue(data), kind, strict, price_seed=0, attributes=attributes)


@pytest.fixture(scope="module")
def shop():
    return shop_of()


@pytest.fixture
def served(shop):
    """A site with the first goal's episode."""
    with Site(shop) as one:
        one.start(next(iter(shop.goals)))
        yield one


@pytest.fixture(scope="module")
def open_site(shop):
    """A site that the tests of a module share."""
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
    page, session = Page(), shop.number[goal.task_id]
    yield page
    for _ in range(turns):
        if page.kind == "index":
            words = rng.sample(goal.text.split(), 2)
            page, _ = shop.follow(page, session, "search", " ".join(words).lower())
        else:
            text = rng.choice(shop.build_body(page).clickable)
            page, _ = shop.follow(page, session, "click", text)
        yield page
        if page.kind == "done":
            return


def bought(one, page):
    """Buys what a page shows."""
    status, headers, _ = ask(one.open_page(page._replace(kind="done")), "POST")
    assert status == 303
    return urljoin(one.open_page(page), headers["Location"])


class TestPages:
    @pytest.mark.parametrize("strict", [True, False])
    @pytest.mark.parametrize("source", ["embedded", "made_up", "real"])
    def test_elements_are_those_of_the_text(self, source, strict, request):
        data = source if source == "embedded" else request.getfixturevalue(source)
        shop, rng = shop_of(data, strict=strict), random.Random(5)
        kinds = set()
        for goal in rng.sample(list(shop.goals.values()), 15):
            for page in walk(shop, goal, rng):
                kinds.add(page.kind)
                expected = shop.list_elements(page, goal.text, 0.25)
                assert Seen(render_page(shop, page, goal, 0.25)).elements == expected
        assert kinds == {"index", "results", "item", "sub", "done"}

    def test_links_lead_where_clicks_lead(self, served, shop):
        goal, rng = next(iter(shop.goals.values())), random.Random(2)
        for page in walk(shop, goal, rng):
            if page.kind in {"index", "done"}:
                continue
            targets = [
                urljoin(served.open_page(page), one) for one in links(get(served.open_page(page)))
            ]
            clicks = [
                e.text.lower() for e in shop.list_elements(page, goal.text) if e.kind != "text"
            ]
            follow = [shop.follow(page, served.session, "click", one)[0] for one in clicks]
            assert [served.find_page(target) for target in targets] == follow

    @pytest.mark.parametrize("mode", ["strict", "upstream"])
    def test_the_html_observation_is_the_page_served(self, mode):
        env = gym.make("WebShop-v0", observation="html", mode=mode)
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

    def test_nothing_tells_the_goals_product(self, shop):
        for goal in list(shop.goals.values())[:20]:
            asin = shop.catalogue.products[goal.product].asin
            elsewhere = next(i for i in range(50) if i != goal.product)
            for page in (Page(), Page("results", "zebra"), Page("item", "", 1, elsewhere)):
                text = render_page(shop, page, goal)
                assert asin not in text
                assert goal.task_id not in text
                assert "<!--" not in text

    def test_receipt_tells_the_score(self, served, shop):
        page = Page("item", "x", 1, 0)
        goal = next(iter(shop.goals.values()))
        expected = shop.score(goal, shop.match(goal, 0), page).total
        text = get(bought(served, page))
        assert f"<strong>{expected:.2f}</strong> of 1" in text
        assert Element("text", str(expected)) in Seen(text).elements


class TestAddresses:
    @given(
        product=st.integers(0, 999),
        query=st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
        number=st.integers(-2, 60),
        visited=st.frozensets(st.integers(0, 999), max_size=4),
        draws=st.lists(st.integers(0, 50), max_size=4),
    )
    def test_an_address_holds_all_of_a_page(self, open_site, draws, **fields):
        shop = shop_of()
        page = Page("item", **fields)
        options = list(shop.catalogue.products[page.product].options.items())
        for draw in draws:
            name, values = options[draw % len(options)]
            page = page.choose(name, values[draw % len(values)])
        tab, receipt = page._replace(kind="sub", sub="Features"), page._replace(kind="done")
        listing = page._replace(kind="results", product=-1, options=())
        pages = (page, tab, receipt, listing, Page(), page._replace(number=page.number + 1))
        assert len({write_link(shop, one) for one in pages}) == len(set(pages))
        assert [open_site.find_page(open_site.open_page(one)) for one in pages] == list(pages)

    def test_addresses_of_an_earlier_episode_of_the_task_do_not_open(self):
        shop = shop_of()
        with Site(shop) as one:
            one.start(task := next(iter(shop.goals)))
            old = one.open_page(Page("item", product=3))
            assert ask(old)[0] == 200
            one.start(task)
            assert ask(old)[0] == 404
            with pytest.raises(ValueError, match="nothing in the episode at /0/ led to"):
                one.find_page(old)

    @pytest.mark.parametrize("strict", [True, False])
    def test_only_what_the_episode_led_to_opens(self, strict):
        """Addresses changed by hand open nothing but pages that one of the walk has a link to."""
        shop, rng = shop_of(strict=strict, attributes=False), random.Random(4)
        opened = 0
        with Site(shop) as one:
            for goal in rng.sample(list(shop.goals.values()), 3):
                one.start(goal.task_id)
                led = {Page()}
                for page in walk(shop, goal, rng):
                    if page.kind == "done":
                        break
                    if page.kind == "results":
                        led.add(page)
                        get(search(one, page.query))
                    assert page in led
                    address = one.open_page(page)
                    text = get(address)
                    assert Seen(text).elements == shop.list_elements(page, goal.text)
                    led |= {one.find_page(urljoin(address, each)) for each in links(text)}
                    for _ in range(15):
                        changed = by_hand(rng, one.open_page(rng.choice(sorted(led, key=repr))))
                        status, headers, text = ask(changed)
                        opened += status == 200
                        if status == 404:
                            assert Seen(text).elements == []
                        else:
                            assert status in {200, 302, 308}
                            found = one.find_page(
                                urljoin(changed, headers.get("Location", changed))
                            )
                            assert found in led or found == Page("results", found.query)
                            led |= {
                                found,
                                *(one.find_page(urljoin(changed, each)) for each in links(text)),
                            }
        assert opened  # a change may be none

    @pytest.mark.parametrize(
        "address",
        [
            "Results?query=lamp",
            "results",
            "results?query=lamp&query=lamp",
            "results?query=lamp&number=2",
            "results?query=lamp&number=\u0662",
            "results?query=lamp&color=red",
            "results/?query=lamp",
            "item?query=lamp&product=0&visited=0",
            "item?query=lamp&product=1000000",
            "item?product=%00",
            "sub?query=lamp&product=0&sub=Attributes&visited=0",
            "done?query=lamp&product=0&visited=0",
            "../0/item?query=lamp&product=0",
            "../../etc/passwd",
            "%2e%2e%2fshop.css",
        ],
    )
    def test_addresses_made_by_hand_are_not_found(self, served, address):
        get(search(served, "lamp"))
        address = f"{served.open_page(Page())}{quote(address, safe='/?&=%.')}"
        status, _, text = ask(address)
        assert status == 404
        assert "Back to the shop" in text
        assert ask(address, "POST")[0] in {404, 405}
        with pytest.raises(ValueError, match="nothing in the episode at /0/ led to"):
            served.find_page(address)

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
    def test_a_search_as_typed_is_the_one_of_the_text_or_leads_back(self, served, typed, words):
        form = get(served.open_page(Page()))
        assert '<form class="search" action="results">' in form
        assert 'name="query"' in form
        address = search(served, typed)
        status, headers, _ = ask(address)
        if status == 302:
            address = urljoin(address, headers["Location"])
        assert served.find_page(address) == (Page("results", words) if words else Page())
        assert Element("text", words) not in Seen(get(address)).elements

    def test_a_longer_address_than_servers_read(self, served):
        assert ask(search(served, "a" * 70_000))[0] == 414
        assert get(served.open_page(Page()))

    def test_old_addresses_are_forgotten(self, served, monkeypatch):
        monkeypatch.setattr(site, "MOST_ADDRESSES", 3)
        addresses = [served.open_page(Page("results", word)) for word in "abcd"]
        assert [ask(address)[0] for address in addresses[1:]] == [200] * 3
        with pytest.raises(ValueError, match="nothing in the episode at /0/ led to"):
            served.find_page(addresses[0])

    def test_another_episode_is_not_found(self, served, shop):
        before = served.open_page(Page())
        root = f"http://127.0.0.1:{served.port}/"
        assert ask(root)[1]["Location"] == "/0/"
        served.start(list(shop.goals)[1])
        assert ask(root)[1]["Location"] == "/1/"
        status, _, text = ask(before)
        assert status == ask(f"{before}done?product=0", "POST")[0] == 404
        assert 'href="/"' in text
        with pytest.raises(ValueError, match="nothing in the episode at /1/ led to"):
            served.find_page(before)


def by_hand(rng, address):
    """The address with something changed in it, as a person or a program may try."""
    parts = urlsplit(address)
    fields = parse_qsl(parts.query)
    odd = ("-1", "0", "1", "2", "99", "1e9", "Attributes", "Reviews", "0-0", "3.4", "", "x" * 300)
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(fields)) if fields else 0
        change = rng.choice(("value", "name", "drop", "double", "add", "turn", "case", "path"))
        if change == "add" or not fields:
            name = rng.choice(("query", "number", "product", "sub", "options", "visited"))
            fields.append((name, rng.choice(odd)))
        elif change == "value":
            fields[at] = fields[at][0], rng.choice(odd)
        elif change == "name":
            fields[at] = rng.choice(("number", "product", "sub", "xyz")), fields[at][1]
        elif change == "drop":
            del fields[at]
        elif change == "double":
            fields.append(fields[at])
        elif change == "turn":
            rng.shuffle(fields)
        elif change == "case":
            fields[at] = fields[at][0].upper(), fields[at][1].upper()
        else:
            *path, _ = parts.path.split("/")
            path = "/".join([*path, rng.choice(("results", "item", "sub", "done", ""))])
            parts = parts._replace(path=path)
    return parts._replace(query=urlencode(fields)).geturl()


class TestPurchase:
    item = Page("item", "x", 1, 3)

    def test_the_first_counts_and_is_scored_once(self, served, shop, monkeypatch):
        scored = []
        score = shop.score
        monkeypatch.setattr(shop, "score", lambda *a: scored.append(a) or score(*a))
        first = bought(served, self.item)
        assert served.find_page(first) == self.item._replace(kind="done")
        for other in (self.item, self.item._replace(product=4)):
            assert bought(served, other) == first
        assert get(first) == get(first)
        assert len(scored) == 1

    def test_all_leads_to_the_receipt_afterwards(self, served):
        receipt = bought(served, self.item)
        for page in (Page(), Page("results", "lamp"), self.item, Page("done", "", 1, 9)):
            status, headers, _ = ask(served.open_page(page))
            assert (status, urljoin(receipt, headers["Location"])) == (302, receipt)
        assert get(served.start(next(iter(served.shop.goals))))  # another episode has none

    def test_looking_at_a_receipt_buys_nothing(self, served):
        address = served.open_page(self.item._replace(kind="done"))
        status, headers, _ = ask(address)
        assert status == 302
        assert served.find_page(urljoin(address, headers["Location"])) == self.item
        assert get(served.open_page(self.item))

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

    def test_waiting_ends_with_the_purchase(self, served):
        threading.Timer(0.2, bought, [served, self.item]).start()
        assert served.wait().page == self.item._replace(kind="done")


class TestMore:
    """A site for a person: what comes after the purchase."""

    item = TestPurchase.item

    @pytest.fixture
    def drawn(self, shop):
        return iter(list(shop.goals)[1:])

    @pytest.fixture
    def played(self, shop, drawn):
        with Site(shop, following=drawn.__next__) as one:
            one.start(next(iter(shop.goals)))
            yield one

    def test_the_receipt_stays_until_another_task(self, played, shop):
        root = f"http://127.0.0.1:{played.port}"
        receipt = bought(played, self.item)
        text = get(receipt)
        assert 'action="/another"' in text
        assert 'action="/stop"' in text
        assert get(receipt) == text
        assert ask(f"{root}/")[1]["Location"] == "/0/"
        assert ask(f"{root}/another", "POST")[1]["Location"] == "/"
        assert ask(f"{root}/")[1]["Location"] == "/1/"
        assert ask(receipt)[0] == 404
        assert list(shop.goals.values())[1].text in get(f"{root}/1/").replace("&#39;", "'")
        assert bought(played, self.item) != receipt

    def test_another_task_begins_once_and_only_after_the_purchase(self, played, drawn, shop):
        address = f"http://127.0.0.1:{played.port}/another"
        assert ask(address, "POST")[1]["Location"] == "/"
        assert get(played.open_page(Page()))
        bought(played, self.item)
        for _ in range(2):
            ask(address, "POST")
        assert next(drawn) == list(shop.goals)[2]

    def test_stopping(self, played):
        bought(played, self.item)
        assert played.wait()
        status, _, text = ask(f"http://127.0.0.1:{played.port}/stop", "POST")
        assert status == 200
        assert "You can close this window" in text
        assert played.wait() is None

    def test_an_agents_site_offers_neither(self, served):
        assert 'action="/' not in get(bought(served, self.item))
        for name in ("another", "stop"):
            assert ask(f"http://127.0.0.1:{served.port}/{name}", "POST")[0] in {404, 405}


class TestProtection:
    def test_only_requests_for_this_machine_are_answered(self, served):
        assert served._server.socket.getsockname()[0] == "127.0.0.1"
        page = served.open_page(Page())
        for host in ("shop.example", "shop.example:80", "127.0.0.1.evil.example", "example.com"):
            for method, path in (("GET", ""), ("POST", "done?product=0")):
                status, _, text = ask(page + path, method, host)
                assert status == 403
                assert "127.0.0.1 and localhost only" in text
        for host in (None, "localhost:1", "127.0.0.1"):
            assert ask(page, host=host)[0] == 200

    def test_every_answer_forbids_scripts_and_other_sites(self, served):
        for path in ("", "results?query=x", "nothing", "../shop.css"):
            headers = ask(urljoin(served.open_page(Page()), path))[1]
            policy = headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none';")
            assert "script" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"

    def test_pages_name_no_other_address(self, served, shop):
        goal = next(iter(shop.goals.values()))
        for page in walk(shop, goal, random.Random(1)):
            assert "//" not in render_page(shop, page, goal).replace("<!doctype html>", "")
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
                item = item.choose(name, values[0])
            subs = [item._replace(kind="sub", sub=sub) for sub in ("Description", "Features")]
            pages += [item, *subs, item._replace(kind="done")]
        for page in pages:
            seen = Seen(render_page(hostile, page, goal))
            assert seen.elements == hostile.list_elements(page, goal.text)
            assert set(seen.tags) <= usual

    def test_characters_that_html_has_not(self, record, wanted, folder_of):
        title = "A\rB\r\nC \ud800 D\x00"
        data = folder_of([record(name=title)], {record()["asin"]: wanted("soft")})
        shop = shop_of(data)
        goal = next(iter(shop.goals.values()))
        text = render_page(shop, Page("item", "", 1, 0), goal)
        assert "A&#13;B&#13;\nC \ufffd D\ufffd" in text
        assert text.encode()


def tags(shop, goal):
    """All tags that pages without hostile texts have."""
    item = Page("item", "lamp", 1, 0)
    subs = [item._replace(kind="sub", sub=sub) for sub in ("Description", "Features", "Reviews")]
    pages = (Page(), Page("results", "lamp"), item, *subs, item._replace(kind="done"))
    return {tag for page in pages for tag in Seen(render_page(shop, page, goal)).tags}


class TestServer:
    def test_ports(self, shop):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match=f"port {port} is in use by another program"):
                Site(shop, port=port)
        with Site(shop, port=port) as one:
            assert one.port == port
            assert f":{port}/0/" in one.start(next(iter(shop.goals)))
        for port in (-1, 65_536):
            with pytest.raises(ValueError, match=rf"0\.\.65535, 0 for a free one, got {port}"):
                Site(shop, port=port)

    def test_closing_twice(self, shop):
        one = Site(shop)
        assert ask(f"http://127.0.0.1:{one.port}/")[0] == 404  # no episode yet
        address = one.start(next(iter(shop.goals)))
        one.close()
        one.close()
        with pytest.raises(ConnectionRefusedError):
            get(address)
        assert one.wait() is None

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


class TestWhatIsMissing:
    def test_flask(self, shop, monkeypatch):
        monkeypatch.setitem(sys.modules, "flask", None)
        with pytest.raises(ImportError, match=r"flask.*pip install 'agent-envs\[browser\]'"):
            Site(shop)

    def test_jinja(self, monkeypatch):
        site._load_environment.cache_clear()
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
