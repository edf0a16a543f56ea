"""WebShop-v0: shopping by search and clicks, with validity, progress, anchors and goals."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import one_of
from agent_envs.spaces import FreeText
from agent_envs.webshop import pages
from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.goals import KINDS, open_panel
from agent_envs.webshop.pages import Element, Page
from agent_envs.webshop.prompt import TEMPLATE
from agent_envs.webshop.shop import MODES, open_shop
from agent_envs.webshop.site import render_page

if TYPE_CHECKING:
    import os

    from agent_envs.webshop.reward import Match, Score

OBSERVATIONS = ("text", "text_rich", "html", "url")
REWARDS = ("success", "score", "success10")
PROGRESS = ("now", "best", "none")
SEARCH = "search[<keywords>]"
HTML_LENGTH = 1_000_000


class WebShop(AgentEnv):
    """Shopping in text: search a catalogue, look at products, choose options, buy one.

    Description:
        The instruction says what to buy, with attributes, options and often a price limit. The
        agent searches, turns pages of results, opens products, reads their tabs, chooses options
        and buys, which ends the episode with a score (Yao et al., WebShop, 2022).
        `mode="upstream"` is byte-identical to the public WebShop. `mode="strict"` (default) fixes
        its faults: searches only from the search page, no pages without results, chosen options
        are marked, and purchases are scored by stricter rules (see Reward). In both modes nothing
        works after the end, and the public version's hidden queries are ordinary searches.

    Observation:
        "text": the page's texts separated by " [SEP] ". "text_rich": one text per line, with
        buttons marked. "html": the page of the web site (needs the extra [webshop]). "url": its
        address on the public site.

    Action:
        `search[words]` or `click[text]`, where text is one of the page's buttons, products (by id)
        or option values, in any case. `info["admissible_actions"]` has every click, and
        "search[<keywords>]" if the page has a search bar.

    Validity:
        "format" for any other text, "unknown" for a click on something that is not on the page,
        "refused" for a search without a search bar ("strict") and for `click[search]`.

    Progress:
        "now" (default): the score of buying the page's product with the chosen options, 0 without
        a product. "best": the highest so far. "none": 0. After the purchase its score. It can be 1
        without success: before the purchase.

    Anchor:
        Digest of page, search results (in "upstream" the query, which the site's addresses
        contain), page number, product, tab and chosen options.

    Reward:
        On the purchase: "success" gives 1 for a score of 1, "success10" gives 10, "score" gives
        the score. Otherwise 0. After the purchase `info["reward_terms"]` has the parts of the
        score: `type`, `attributes`, `options`, `price`, each in [0, 1]; before it is empty.
        The score is the share of satisfied attributes, options and price, times the type. In
        "strict" an attribute is satisfied if the product's texts state it in whole words and do
        not deny it, or if its attributes list it and no text denies it; an option if name and
        value match; the price if the highest price on the page is below the limit. The type is 1
        only for the goal's kind of product, by category and name, else at most 0.5.

    Ends:
        A purchase terminates, a success if it scores 1. `max_turns` truncates.

    Tasks and splits:
        A task id is `<product>-<number of its goal>`, with an "h" before the number of human
        goals. Embedded data: `train`, `val` and `test`, no product in two of them. Other data: the
        paper's splits (`test` 0-499, `val` 500-1499, `train` the rest, of the goals shuffled with
        seed 233), `eto_train` and `eto_test` if the folder has ETO's lists, `ragen_train`,
        `ragen_val` and `ragen_test`, `verl_train` and `verl_test`.
        Always: `all`, in the public order. In "strict" a split omits goals that their own product
        does not satisfy: its texts deny an attribute, or it lacks an option. No embedded goal is
        omitted.

    Data:
        `data="auto"`: the folder `$WEBSHOP_DATA` if it is set, otherwise the embedded catalogue of
        this package's own generator. "embedded" or a folder selects one. A folder has
        `items_shuffle*.json`, `items_ins_v2*.json` and optionally `items_human_ins.json` (one file
        of each, plain or gzip). The type score of another kind of product, and every type score in
        "upstream", needs the nouns of titles: `title_nouns.json` of the folder ("stored"), else
        spaCy's ("spacy") if it is installed, else all but the most common words ("words");
        `info["title_nouns"]` says which.

    Source:
        Yao et al., WebShop: Towards Scalable Real-World Web Interaction with Grounded Language
        Agents, NeurIPS 2022; princeton-nlp/WebShop at commit 64fa2a5.

    Args:
        split: see Tasks and splits.
        data: see Data.
        mode: "strict" or "upstream".
        goals: "synthetic", made of attributes and options, or "human", requests by people.
        observation: see Observation.
        reward: see Reward.
        progress: see Progress.
        attributes: whether products have a tab with their attributes.
        price_seed: seed of the goals' price limits, and in "upstream" of the prices of products
            with a range of prices.
        previous_observations: number of earlier observations to put before the page, as in the
            public WebShop.
        previous_actions: number of earlier actions likewise.
        search: "bm25", like the public WebShop's Lucene, or "dense" (needs the extra [dense]).
        model: the encoder of "dense", a sentence-transformers path or name; "" for
            `$AGENT_ENVS_DENSE_MODEL`.
        strict: refuse data with bad records, for benchmarks; False leaves them out with a warning.
        max_turns: turn limit.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option, a count below 0, or a split without goals.
        MissingAsset: a folder without the files.
        BadAsset: a broken file; with `strict`, a bad record.
    """

    template = TEMPLATE
    experts = "agent_envs.webshop.experts"

    def __init__(
        self,
        *,
        split: str = "train",
        data: str | os.PathLike[str] = "auto",
        mode: str = "strict",
        goals: str = "synthetic",
        observation: str = "text",
        reward: str = "success",
        progress: str = "now",
        attributes: bool = False,
        price_seed: int = 0,
        previous_observations: int = 0,
        previous_actions: int = 0,
        search: str = "bm25",
        model: str = "",
        strict: bool = False,
        max_turns: int = 15,
        render_mode: str | None = None,
    ) -> None:
        one_of("mode", mode, MODES)
        one_of("goals", goals, KINDS)
        one_of("observation", observation, OBSERVATIONS)
        one_of("reward", reward, REWARDS)
        one_of("progress", progress, PROGRESS)
        if min(previous_observations, previous_actions) < 0:
            raise ValueError(
                "previous_observations and previous_actions must be at least 0, got "
                f"{previous_observations} and {previous_actions}"
            )
        catalogue = open_catalogue(data, search=search, model=model, strict=strict)
        self.reading = catalogue.reading
        self.shop = open_shop(catalogue, goals, mode == "strict", price_seed, attributes)
        panel = open_panel([*self.shop.goals.values()], self.shop.catalogue.folder, split)
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)
        self.observation, self.reward, self.progress = observation, reward, progress
        self.graded = reward != "success"
        self.previous = previous_observations, previous_actions
        if observation == "html":
            self.observation_space = FreeText(HTML_LENGTH)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The search page of a task."""
        self.task = self.shop.goals[task_id]
        self.page = Page()
        self.trail = [self.page]  # all pages of the episode, the latest last
        self._best = 0.0
        self._matches: dict[int, Match] = {}
        self._history: list[tuple[str, str]] = []  # actions and the observations after them
        self._results = "", repr("")  # the page's query, and the part of its results that counts
        return self.task.text, self._make_turn("")

    def act(self, action: str) -> Turn:
        """One search or click."""
        shop, session = self.shop, self.shop.number[self.task_id]
        self.page, why = shop.follow(self.page, session, *shop.parse(action))
        self.trail.append(self.page)
        turn = self._make_turn(action)
        return turn._replace(valid=False, invalid_reason=why) if why else turn

    def _make_turn(self, action: str) -> Turn:
        page, bought = self.page, self.page.kind == "done"
        score = self._score_page() if page.product >= 0 else None
        total = score.total if score else 0.0
        self._best = max(self._best, total)
        progress = {"now": total, "best": self._best, "none": 0.0}[self.progress]
        terms = dict(zip(score._fields[1:], score[1:], strict=True)) if bought and score else {}
        return Turn(
            self._add_past(action, self._write_observation(total)),
            progress=total if bought else progress,
            anchor=make_anchor(page, self._describe_results()),
            reward=self._pay(total) if bought else 0.0,
            success=bought and total == 1,
            failure=bought and total < 1,
            admissible_actions=self._list_actions(),
            extra={"reward_terms": terms, "title_nouns": self.shop.catalogue.title_nouns},
        )

    def _describe_results(self) -> str:
        """The part of the last search that later actions depend on, as text."""
        query = self.page.query
        if query != self._results[0]:
            found = self.shop.catalogue.search(query) if query and self.shop.strict else query
            self._results = query, repr(found)
        return self._results[1]

    def _score_page(self) -> Score:
        """The score of buying the page's product now."""
        place = self.page.product
        if place not in self._matches:
            self._matches[place] = self.shop.match(self.task, place)
        return self.shop.score(self.task, self._matches[place], self.page)

    def _pay(self, total: float) -> float:
        """The reward of a purchase."""
        if self.reward == "score":
            return total
        return (10.0 if self.reward == "success10" else 1.0) * (total == 1)

    def _write_observation(self, score: float) -> str:
        if self.observation == "url":
            return self.shop.write_address(self.page, self.shop.number[self.task_id])
        if self.observation == "html":
            return render_page(self.shop, self.page, self.task, score)
        elements = self._list_elements(score)
        if self.observation == "text_rich":
            return pages.write_rich_text(elements)
        return pages.write_text(elements, marked=self.shop.strict)

    def _list_elements(self, score: float) -> list[Element]:
        """The elements of the page."""
        return self.shop.list_elements(self.page, self.task.text, score)

    def _list_actions(self) -> list[str]:
        if self.page.kind == "index":
            return [SEARCH]
        clicks = [f"click[{text}]" for text in self.shop.build_body(self.page).clickable]
        return clicks if self.shop.strict or self.page.kind == "done" else [SEARCH, *clicks]

    def _add_past(self, action: str, observation: str) -> str:
        """The observation, preceded by the earlier observations and actions to show.

        If it is longer than an observation may be, the oldest ones are dropped; a page alone is
        truncated.
        """
        longest = HTML_LENGTH if self.observation == "html" else self.observation_length
        observation = observation[:longest]
        self._history.append((action, observation))
        texts = [observation]
        for back in range(1, min(1 + max(self.previous), len(self._history))):
            if back <= self.previous[1]:
                texts.append(self._history[-back][0])
            if back <= self.previous[0]:
                texts.append(self._history[-back - 1][1])
        return pages.SEPARATOR.join(reversed(texts))[-longest:]


def make_anchor(page: Page, results: str) -> str:
    """Key of the page: repr of the results, page and chosen options, independent of the path."""
    facts = (
        f"({page.kind!r}, {results}, {page.number!r}, {page.product!r}, "
        f"{sorted(page.options)!r}, {page.sub!r})"
    )
    return blake2b(facts.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
