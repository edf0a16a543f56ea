"""WebShop-v0 and WebShop-v1: shopping by search and clicks, in public or generated catalogues."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar

from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import Panel, one_of
from agent_envs.spaces import FreeText
from agent_envs.webshop import pages
from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.goals import KINDS, open_panel
from agent_envs.webshop.pages import Element, Page
from agent_envs.webshop.prompt import TEMPLATE
from agent_envs.webshop.shop import Shop, open_facts, open_shop
from agent_envs.webshop.site import render_page
from agent_envs.webshop.world import SEED, SPLITS

if TYPE_CHECKING:
    import os

OBSERVATIONS = ("text", "text_rich", "html")
REQUIREMENTS = (1, 2, 3, 4)
SEARCH = "search[<keywords>]"
HTML_LENGTH = 1_000_000
PAY = {"success": 1.0, "success10": 10.0}


class Shopping(AgentEnv):
    """What both environments have in common: pages, actions, scores and ends."""

    template = TEMPLATE
    verbs = (("search", "search[{words}]"), ("click", "click[{text}]"))
    rewards: ClassVar[tuple[str, ...]] = ("success", "score")
    observations: ClassVar[tuple[str, ...]] = OBSERVATIONS

    def __init__(
        self,
        shop: Shop,
        panel: Panel,
        *,
        observation: str,
        reward: str,
        max_turns: int,
        render_mode: str | None,
    ) -> None:
        one_of("observation", observation, self.observations)
        one_of("reward", reward, self.rewards)
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)
        self.shop, self.observation, self.reward = shop, observation, reward
        self.graded = reward != "success"
        self.facts: dict[str, Any] = {}  # which every info has, too
        self.longest = HTML_LENGTH if observation == "html" else self.observation_length
        self.observation_space = FreeText(self.longest)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The search page of a task."""
        self.task = self.shop.goals[task_id]
        self.page = Page()
        self.trail = [self.page]  # all pages of the episode, the latest last
        self._results = "", repr("")  # the page's query, and the part of its results that counts
        return self.task.text, self._make_turn("")

    def act(self, action: str) -> Turn:
        """One search or click."""
        session = self.shop.number[self.task_id]
        self.page, why = self.shop.follow(self.page, session, *self.shop.parse(action))
        self.trail.append(self.page)
        turn = self._make_turn(action)
        return turn._replace(valid=False, invalid_reason=why) if why else turn

    def _make_turn(self, action: str) -> Turn:
        page, bought = self.page, self.page.kind == "done"
        score = self.shop.score(self.task, page) if page.product >= 0 else None
        total = score.total if score else 0.0
        factors = dict(zip(score._fields[1:], score[1:], strict=True)) if bought and score else {}
        extra = {"reward_factors": factors, "measures": {"score": total if bought else 0.0}}
        return Turn(
            self._show(action, total),
            progress=total,
            anchor=make_anchor(page, self._describe_results()),
            reward=self._pay(total) if bought else 0.0,
            success=bought and total == 1,
            failure=bought and total < 1,
            admissible_actions=self._list_actions(),
            extra=extra | self.facts,
        )

    def _describe_results(self) -> str:
        """The part of the last search that later actions depend on, as text."""
        query = self.page.query
        if query != self._results[0]:
            found = query if self.shop.public or not query else self.shop.search(query)
            self._results = query, repr(found)
        return self._results[1]

    def _pay(self, total: float) -> float:
        """The reward of a purchase."""
        return total if self.reward == "score" else PAY[self.reward] * (total == 1)

    def _show(self, action: str, score: float) -> str:  # noqa: ARG002
        """The observation after an action."""
        return self._write_page(score)[: self.longest]

    def _write_page(self, score: float) -> str:
        if self.observation == "html":
            return render_page(self.shop, self.page, self.task, score)
        if self.observation == "text_rich":
            return pages.write_rich_text(self._list_elements(score))
        return self._write_text(score)

    def _write_text(self, score: float) -> str:
        """The page as text."""
        return self.shop.write_text(self.page, self.task.text, score)

    def _list_elements(self, score: float) -> list[Element]:
        """The elements of the page."""
        return self.shop.list_elements(self.page, self.task.text, score)

    def _list_actions(self) -> list[str]:
        if self.page.kind == "index":
            return [SEARCH]
        clicks = [f"click[{text}]" for text in self.shop.read_body(self.page).clickable]
        return [SEARCH, *clicks] if self.shop.public and self.page.kind != "done" else clicks


class WebShop(Shopping):
    """Shopping in a generated catalogue: search, compare alike products, choose options, buy one.

    Description:
        The catalogue is made by seed. A kind of product of a brand has a family of alike products
        with all combinations of `requirements` properties: sides such as quiet or loud, and
        numbers. Only a product's page and its tab "Features" state them, in other words than the
        request, and each sentence also names what does not hold ("A prototype runs 7 hours on a
        full battery; the finished article runs 21 hours on a full battery."). The request names a
        price limit, options, and each property by what it wants or refuses. One product of the
        catalogue satisfies it, and at most one more that costs too much has the same properties.

    Observation:
        "text": the page's texts separated by " [SEP] ". "text_rich": one text per line, with
        buttons marked. "html": the page of the web site (needs the extra [webshop]). Chosen options
        are marked.

    Action:
        `search[words]` or `click[text]`, where text is one of the page's buttons, products (by id)
        or option values, in any case. `info["admissible_actions"]` has every click, and
        "search[<keywords>]" if the page has a search bar.

    Validity:
        "format" for any other text, "unknown" for a click on something that is not on the page,
        "refused" for a search without a search bar and for `click[search]`.

    Progress:
        The score of buying the page's product with the chosen options, 0 without a product. After
        the purchase its score. It can be 1 without success: before the purchase.

    Anchor:
        Digest of page, search results, page number, product, tab and chosen options.

    Reward:
        On the purchase: "success" gives 1 for a score of 1, "score" gives the score. Otherwise 0.
        The score is the share of properties, options and price that are as requested, 0 for a
        product of another kind or brand. It comes from the catalogue's facts; no text is read.
        After the purchase `info["reward_factors"]` has its parts: `type`, `attributes`, `options`,
        `price`, each in [0, 1]; before it is empty.

    Ends:
        A purchase terminates, a success if it scores 1. `max_turns` truncates.

    Tasks and splits:
        `train` (2,048 requests for 1,024 products), `val` (256 for 256) and `test` (512 for 512)
        are different catalogues without a common kind of product, brand, wording or sentence. A
        task id is split, requirements and a number.

    Data:
        Generated; `info["measures"]` has the score of the purchase.

    Source:
        Ours; pages and actions are those of Yao et al., WebShop: Towards Scalable Real-World Web
        Interaction with Grounded Language Agents, NeurIPS 2022.

    Args:
        split: "train", "val" or "test".
        requirements: the dial of difficulty, 1 to 4 properties in a request.
        observation: see Observation.
        reward: see Reward.
        max_turns: turn limit; None for 3 times 2 to the power of `requirements`, plus 8.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option, or requirements outside 1..4.
    """

    experts = "agent_envs.webshop.experts"

    def __init__(
        self,
        *,
        split: str = "train",
        requirements: int = 3,
        observation: str = "text",
        reward: str = "success",
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        one_of("split", split, tuple(SPLITS))
        if requirements not in REQUIREMENTS:
            raise ValueError(
                f"requirements, the properties in a request, lie in 1..4, got {requirements}"
            )
        shop = open_facts(split, requirements, SEED)
        super().__init__(
            shop,
            Panel(split, tuple(shop.goals)),
            observation=observation,
            reward=reward,
            max_turns=3 * 2**requirements + 8 if max_turns is None else max_turns,
            render_mode=render_mode,
        )


class PublicWebShop(Shopping):
    """The public WebShop: search public products, look at them, choose options, buy one.

    Description:
        The instruction says what to buy, with attributes, options and often a price limit. The
        agent searches, turns pages of results, opens products, reads their tabs, chooses options
        and buys, which ends the episode with a score (Yao et al., WebShop, 2022).
        Pages and scores are byte-identical to the public WebShop, with its faults
        (docs/webshop.md lists them); but nothing works after the end, and the public version's
        hidden queries are ordinary searches.

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
        "refused" for `click[search]`.

    Progress:
        The score of buying the page's product with the chosen options, 0 without a product. After
        the purchase its score. It can be 1 without success: before the purchase.

    Anchor:
        Digest of page, query (which the public site's addresses contain), page number, product,
        tab and chosen options.

    Reward:
        On the purchase: "success" gives 1 for a score of 1, "success10" gives 10, "score" gives
        the score. Otherwise 0. After the purchase `info["reward_factors"]` has the parts of the
        score: `type`, `attributes`, `options`, `price`, each in [0, 1]; before it is empty.
        The score is the share of satisfied attributes, options and price, times the type.

    Ends:
        A purchase terminates, a success if it scores 1. `max_turns` truncates.

    Tasks and splits:
        A task id is `<product>-<number of its goal>`, with an "h" before the number of human
        goals. The paper's splits: `test` 0-499, `val` 500-1499, `train` the rest, of the goals
        shuffled with seed 233. Others': `eto_train` and `eto_test` if the folder has ETO's lists,
        `ragen_train`, `ragen_val` and `ragen_test`, `verl_train` and `verl_test`. `all`, in the
        public order.

    Data:
        `data="auto"`: the folder `$WEBSHOP_DATA`; or a folder. It has `items_shuffle*.json`,
        `items_ins_v2*.json` and optionally `items_human_ins.json` (one file of each, plain, gzip
        or xz). `reading.notes` counts records of no product, products without a goal, and options
        that cannot be chosen. The type score needs the nouns of titles: `title_nouns.json` of the
        folder ("stored"), else spaCy's ("spacy") if it is installed, else all but the most common
        words ("words"); `info["title_nouns"]` says which.

    Source:
        Yao et al., WebShop: Towards Scalable Real-World Web Interaction with Grounded Language
        Agents, NeurIPS 2022; princeton-nlp/WebShop at commit 64fa2a5.

    Args:
        split: see Tasks and splits.
        data: see Data.
        goals: "synthetic", made of attributes and options, or "human", requests by people.
        observation: see Observation.
        reward: see Reward.
        attributes: whether products have a tab with their attributes.
        price_seed: seed of the goals' price limits, and of prices drawn from a range.
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
        MissingAsset: no folder, or one without the files.
        BadAsset: a broken file; with `strict`, a bad record.
    """

    rewards: ClassVar[tuple[str, ...]] = ("success", "score", "success10")
    observations: ClassVar[tuple[str, ...]] = (*OBSERVATIONS, "url")
    experts = "agent_envs.webshop.oracle"

    def __init__(
        self,
        *,
        split: str = "train",
        data: str | os.PathLike[str] = "auto",
        goals: str = "synthetic",
        observation: str = "text",
        reward: str = "success",
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
        one_of("goals", goals, KINDS)
        if min(previous_observations, previous_actions) < 0:
            raise ValueError(
                "previous_observations and previous_actions must be at least 0, got "
                f"{previous_observations} and {previous_actions}"
            )
        catalogue = open_catalogue(data, search=search, model=model, strict=strict)
        self.reading = catalogue.reading
        shop = open_shop(catalogue, goals, price_seed, attributes)
        super().__init__(
            shop,
            open_panel([*shop.goals.values()], catalogue.folder, split),
            observation=observation,
            reward=reward,
            max_turns=max_turns,
            render_mode=render_mode,
        )
        self.facts = {"title_nouns": catalogue.title_nouns}
        self.previous = previous_observations, previous_actions

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The search page of a task."""
        self._history: list[tuple[str, str]] = []  # actions and the observations after them
        return super().begin(task_id)

    def _write_page(self, score: float) -> str:
        if self.observation == "url":
            return self.shop.write_address(self.page, self.shop.number[self.task_id])
        return super()._write_page(score)

    def _show(self, action: str, score: float) -> str:
        """The page, preceded by the earlier observations and actions to show.

        If it is longer than an observation may be, the oldest ones are dropped; a page alone is
        truncated.
        """
        self._history.append((action, super()._show(action, score)))
        texts = [self._history[-1][1]]
        for back in range(1, min(1 + max(self.previous), len(self._history))):
            if back <= self.previous[1]:
                texts.append(self._history[-back][0])
            if back <= self.previous[0]:
                texts.append(self._history[-back - 1][1])
        return pages.SEPARATOR.join(reversed(texts))[-self.longest :]


def make_anchor(page: Page, results: str) -> str:
    """Key of the page: repr of the results, page and chosen options, independent of the path."""
    facts = (
        f"({page.kind!r}, {results}, {page.number!r}, {page.product!r}, "
        f"{sorted(page.options)!r}, {page.sub!r})"
    )
    return blake2b(facts.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
