"""SearchQA-v0 and WikiSearch-v0: public questions, with the published forms and rewards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from agent_envs.assets import MissingAsset
from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import one_of
from agent_envs.retrieval.factory import open_retriever
from agent_envs.search_qa import mt_grpo, search_r1, verl_agent
from agent_envs.search_qa.data import open_data
from agent_envs.search_qa.env import Facts, SearchQA
from agent_envs.search_qa.metrics import METRICS, in_any
from agent_envs.search_qa.replies import escape_marks, read_request, shorten_text
from agent_envs.search_qa.wiki import WikiSearch
from agent_envs.spaces import ACTION_LENGTH, FreeText

if TYPE_CHECKING:
    import os

    from agent_envs.retrieval.passages import Corpus, Passage, Retriever
    from agent_envs.search_qa.data import Data

# How many searches each protocol allows before the answer.
SEARCHES = {"search_r1": 4, "verl_agent": 3}
REWARDS = (*METRICS, "format")
ANCHORS = ("facts", "text")
MERGED = ("outcome", "merged")
PASSAGE, TITLE, ARTICLE = 1000, 200, 4000
"""Characters to which texts are shortened; not with `strict_compat`."""
ARTICLE_LENGTH = 1_000_000
_NO_SEARCH_LEFT = (
    "\n\nNothing was searched: all {} searches are used. Answer inside <answer> and </answer>.\n\n"
)


class _Public(SearchQA):
    """What both environments of public questions have in common."""

    experts: ClassVar[str] = "agent_envs.search_qa.oracle"
    data: Data
    retriever: Retriever
    strict: bool
    _said: list[Any]

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The question."""
        question = self.data.questions[task_id]
        text = question.text if self.strict else escape_marks(question.text)
        self._said = []
        # the ids of the gold passages are those of the data's own corpus
        gold = tuple(dict.fromkeys(question.gold)) if self.data.corpus is not None else ()
        facts = Facts(question.id, gold)
        return text, self._open(question, facts, text)

    def list_answers(self) -> list[str]:
        """The accepted answers."""
        return list(self.question.answers)

    def find_passage(self, name: str) -> Passage | None:
        """The passage with that id."""
        corpus = self.data.corpus
        return corpus[corpus.place[name]] if corpus and name in corpus.place else None

    def _note(self, found: Sequence[Passage]) -> None:
        """Note passages as seen; if the gold ones are known, only these show an answer."""
        facts, able = self.facts, found
        if facts.gold and not self.strict:
            able = [passage for passage in found if passage.id in facts.gold]
        shown = in_any(self.question.answers, (passage.document for passage in able))
        if not self.strict and not shown and facts.add_search(found).answered:
            shown = bool(facts.gold)  # of yes or no, or of names that the question has
        self.facts = facts.add_search(found, shown=shown)


class PublicSearchQA(_Public):
    """Public questions for a search engine: search, read passages, search again, answer.

    Description:
        `protocol="search_r1"` follows Search-R1, in one growing conversation (4 searches);
        "verl_agent" follows verl-agent, on which GiGPO and STAPO build (3 searches).
        By default only the agent's one answer counts, tags and control tokens in questions and
        passages are escaped, and too many searches are refused. `strict_compat=True` is
        byte-identical to the public code, with its faults (listed in docs/search_qa.md).

    Observation:
        "search_r1": first the prompt with the question, then the passages, as
        `<information>Doc 1(Title: "...") ...</information>`. "verl_agent": first the question,
        then `<information>{"result": "Doc 1: ..."}</information>`; the `Prompt` wrapper renders its
        prompt.

    Action:
        A whole reply, as in `SearchQA-v1`.

    Validity:
        "format" for a reply without exactly one search or answer outside its thoughts, or with an
        `<information>` of its own; "refused" for a search when there are none left. With
        `strict_compat` a reply takes effect as in the public code although it is invalid.

    Progress:
        The share of the question's gold passages found. If these are not known, 1 once a found
        passage contains an accepted answer; so it can be 1 without success. 1 for a right answer.

    Anchor:
        "facts" (default): digest of the question, the passages seen, the searches left, and what
        the reward reads of the replies. "text": the latest passages as displayed (before any
        search, the question), to group by similarity as published; it misses part of the state.

    Reward:
        With the answer: "em" (default), "f1" or "sub_em" as published; "format" 1 for an exact
        answer (0.8 if a reply was not well formed), 0.1 for another one after the gold passages.
        With `strict_compat` the rewards of the public code.

    Ends:
        An answer terminates, a success if it is an exact match. `max_turns` truncates.

    Tasks and splits:
        The splits of the questions or their files; without, `train`, `val`, `test` in tenths by a
        digest of the ids. Always: `all`.

    Data:
        A folder with `qa.jsonl` and `corpus.jsonl` (plain or compressed; also Search-R1's corpus
        and parquet questions). `info` is as in `SearchQA-v1`, and `searches_left`; `turn_reward`
        pays 0.5 for the first gold passage with an accepted answer, of any passages if the gold
        ones are not known, and with `strict_compat` 0.2 for any search.

    Source:
        Jin et al., Search-R1, 2025 (PeterGriffinJin/Search-R1 at a14dc3a4); verl-agent's search
        environment, as GiGPO (Feng et al., 2025) and STAPO use it.

    Args:
        split: see Tasks and splits.
        data: the folder; "auto" is `$SEARCH_QA_DATA`.
        protocol: "search_r1" or "verl_agent".
        strict_compat: see Description.
        retriever: "bm25", "dense", "hybrid", the URL of a retrieval server, or any object with
            `search(queries, k)`.
        model: encoder of a dense retriever, see `agent_envs.retrieval.factory.open_retriever`.
        index: kind or folder of its index.
        k: passages per search.
        reward: see Reward.
        anchor: see Anchor.
        strict: refuse data with bad records, for benchmarks; False leaves them out with a warning.
        max_turns: turn limit; None for the protocol's searches and the answer.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option, a split without questions, a retriever without a corpus.
        MissingAsset: no folder, or one without questions.
        BadAsset: no record is good, or with `strict`, one is bad.
        ImportError: the packages of the extra [search] are not installed.
        RetrievalError: later, from `step`, a retrieval server that gives no passages.
    """

    def __init__(
        self,
        *,
        split: str = "train",
        data: str | os.PathLike[str] = "auto",
        protocol: str = "search_r1",
        strict_compat: bool = False,
        retriever: str | Retriever = "bm25",
        model: str = "",
        index: str = "flat",
        k: int = 3,
        reward: str = "em",
        anchor: str = "facts",
        strict: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        one_of("protocol", protocol, tuple(SEARCHES))
        one_of("reward", reward, REWARDS)
        one_of("anchor", anchor, ANCHORS)
        if strict_compat and protocol == "verl_agent" and reward == "format":
            raise ValueError("reward='format' with strict_compat needs protocol='search_r1'")
        if k < 1:
            raise ValueError(f"k, the passages per search, must be at least 1, got {k}")
        self.data = open_data(data, "SearchQA", strict=strict)
        self.reading = self.data.reading
        turns = SEARCHES[protocol] + 1 if max_turns is None else max_turns
        AgentEnv.__init__(self, self.data.panel(split), max_turns=turns, render_mode=render_mode)
        self.max_searches = turns - 1 if strict_compat else SEARCHES[protocol]
        self.retriever = open_retriever(retriever, self.data.corpus, model=model, index=index)
        self.waits = bool(getattr(self.retriever, "waits", False))
        self.protocol, self.strict, self.k = protocol, strict_compat, k
        self.reward, self.by = reward, anchor
        self.graded = reward not in ("em", "sub_em")

    def _render_opening(self, goal: str) -> str:
        self._is_neat, self._block = True, goal
        if self.protocol == "search_r1":
            self._block = search_r1.render_prompt(goal)
        return self._block

    @property
    def searches_left(self) -> int:
        """How many searches the agent may still make."""
        return max(0, self.max_searches - self.facts.searches)

    def act(self, action: str) -> Turn:
        """One search or answer."""
        if self.strict:
            return self._act_strictly(action)
        request = read_request(action, self.kinds, self.results)
        if request.kind == "search" and not self.searches_left:
            tag = f"<search>{request.content}</search>"
            return self._make_turn(
                _NO_SEARCH_LEFT.format(self.max_searches), tag, invalid="refused"
            )
        if request.kind:
            self._is_neat = self._is_neat and request.is_neat
        return super().act(action)

    def _act_strictly(self, reply: str) -> Turn:
        """One reply as the public code interprets it."""
        last = self.turn + 1 >= self.max_turns
        notice = ""
        if self.protocol == "search_r1":
            said = search_r1.cut_reply(reply)
            kind, content = search_r1.read_action(said)
            tag, valid = f"<{kind}>{content}</{kind}>" if kind else "", bool(kind)
            notice = "" if last else search_r1.INVALID
        else:
            said, valid = verl_agent.project_reply(reply)
            kind, content = verl_agent.read_action(said)
            tag = said
        self._said.append(said)
        invalid = "" if valid else "format"
        if kind == "answer":
            return self._make_turn("", tag, answer=content, invalid=invalid)
        if kind != "search":
            return self._make_turn(notice, tag, invalid=invalid)
        return (
            self._make_turn("", tag, invalid=invalid) if last else self._find(content, tag, invalid)
        )

    def _find(self, query: str, tag: str, invalid: str = "") -> Turn:
        (found,) = self.retriever.search([query[:ACTION_LENGTH]], self.k)
        self._note(found)
        block = self._render_passages(found)
        return self._make_turn(block, tag, query=query, found=found, invalid=invalid)

    def _render_passages(self, found: list[Passage]) -> str:
        if not self.strict:
            found = [
                p._replace(title=shorten_text(p.title, TITLE), text=shorten_text(p.text, PASSAGE))
                for p in found
            ]
        if self.protocol == "search_r1":
            return search_r1.render_passages(found)
        nothing = "" if self.strict else verl_agent.NOTHING
        return verl_agent.render_passages(found, ascii_only=self.strict, nothing=nothing)

    def _make_turn(
        self,
        observation: str,
        tag: str = "",
        *,
        found: Sequence[Passage] | None = None,
        invalid: str = "",
        **rest: Any,
    ) -> Turn:
        self._said.append(observation)
        if found is not None:
            self._block = observation.strip()
        elif invalid and self.strict and self.protocol == "verl_agent":
            self._block = ""
        return super()._make_turn(observation, tag, found=found, invalid=invalid, **rest)

    def _judge(self, answer: str) -> tuple[bool, str]:
        if self.strict:
            return self._score_strictly("em") == 1, ""
        return bool(METRICS["em"](answer, self.question.answers)), ""

    def _reward_turn(self, *, searched: bool) -> dict[str, float]:
        paid = super()._reward_turn(searched=searched)
        if self.strict and searched:
            paid["tool_execution"] = mt_grpo.WEIGHTS["tool_execution"]
        return paid

    def _make_anchor(self) -> str:
        """With `strict_compat` the turn limit is the budget, and rewards read the conversation."""
        if self.by == "text":
            return self._block
        if not self.strict:
            neat = self._is_neat if self.reward == "format" else None
            return self.facts.make_anchor(self.searches_left, neat)
        if self.protocol == "verl_agent":
            return self.facts.make_anchor(search_r1.find_pending("".join(self._said[1:])))
        if self.reward == "format":
            answers = self.question.answers
            return self.facts.make_anchor(search_r1.describe_form(self._mark_chat(), answers))
        return self.facts.make_anchor(search_r1.find_pending("".join(self._said)))

    def _report(
        self, answer: str | None, *, ended: bool, right: bool
    ) -> tuple[float, dict[str, Any]]:
        extra = {"searches_left": self.searches_left, "strata": self.question.strata}
        return self._score(answer, right=right) if ended else 0.0, extra

    def _score(self, answer: str | None, *, right: bool) -> float:
        if self.strict and self.reward != "f1":
            return self._score_strictly(self.reward)
        if answer is None:
            return 0.0
        if self.reward != "format":
            return METRICS[self.reward](answer, self.question.answers)
        # Search-R1's "format" by facts: form is rewarded only with a right answer
        if right:
            return 1.0 if self._is_neat else 1.0 - search_r1.STRUCTURE
        return search_r1.RETRIEVAL * (self._is_neat and self.facts.answered)

    def _score_strictly(self, reward: str) -> float:
        said, golds = self._said, self.question.answers
        if reward == "format":
            return search_r1.score_format(self._mark_chat(), golds)
        if self.protocol == "search_r1":
            answer = search_r1.find_answer("".join(said))
        else:
            answer = search_r1.find_answer("".join(said[1:]), given=0)
        score = search_r1.score_sub_em if reward == "sub_em" else search_r1.score_em
        return score(answer, golds)

    def _mark_chat(self) -> str:
        """The conversation with the chat marks of Qwen."""
        return f"<|im_start|>user\n{self._said[0]}<|im_end|>\n{search_r1.ASSISTANT}\n" + "".join(
            self._said[1:]
        )


class PublicWikiSearch(_Public, WikiSearch):
    """Public questions with MT-GRPO's two turns: a call of `wiki_search`, then an answer.

    Description:
        The call returns the best article. By default only the agent's one answer counts, and tags
        and control tokens in questions and articles are escaped. `strict_compat=True` follows
        MT-GRPO's public code, with its faults (listed in docs/search_qa.md).

    Observation:
        First the prompt with the tool and the question, then the `<result>...</result>` of the call
        (an error begins with "Error:"), or a notice of what was wrong with the reply.

    Action:
        A whole reply, as in `WikiSearch-v1`.

    Validity:
        As in `WikiSearch-v1`, but a call may find nothing; "refused" for a second call. With
        `strict_compat` a reply takes effect as in the public code although it is invalid.

    Progress:
        As in `SearchQA-v0`, so it can be 1 without success.

    Anchor:
        Digest of the question, the passages read, whether the call was made, and with "outcome" and
        "merged" the form of the replies so far.

    Reward:
        "em" (default), "f1" or "sub_em" of the answer as published; "outcome" and "merged" as in
        `WikiSearch-v1`. With `strict_compat` as in the public code.

    Ends:
        An answer terminates, a success if it is an exact match. A second call terminates in
        failure. `max_turns` truncates.

    Tasks and splits:
        As in `SearchQA-v0`.

    Data:
        As in `SearchQA-v0`, with a corpus; its passages with the same title are one article.

    Source:
        Zeng et al., Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit
        Assignment, 2025 (SiliangZeng/Multi-Turn-RL-Agent at 7dbdd08b).

    Args:
        split, data, strict_compat, retriever, model, index, strict, render_mode: as in
            `SearchQA-v0`.
        reward: see Reward.
        max_turns: turn limit; None for 2, or 8 with `strict_compat`.

    Raises:
        ValueError, MissingAsset, BadAsset, ImportError, RetrievalError: as `SearchQA-v0`;
            MissingAsset also for a folder without a corpus.
    """

    def __init__(
        self,
        *,
        split: str = "train",
        data: str | os.PathLike[str] = "auto",
        strict_compat: bool = False,
        retriever: str | Retriever = "bm25",
        model: str = "",
        index: str = "flat",
        reward: str = "em",
        strict: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        one_of("reward", reward, (*METRICS, *MERGED))
        self.data = open_data(data, "WikiSearch", strict=strict)
        if self.data.corpus is None:
            raise MissingAsset(f"no corpus.jsonl in {self.data.folder}; articles need it: add one")
        turns = (8 if strict_compat else 2) if max_turns is None else max_turns
        AgentEnv.__init__(self, self.data.panel(split), max_turns=turns, render_mode=render_mode)
        self.strict, self.reward = strict_compat, reward
        self.graded = reward not in ("em", "sub_em")
        self.retriever = open_retriever(retriever, self.data.corpus, model=model, index=index)
        self.waits = bool(getattr(self.retriever, "waits", False))
        self.observation_space = FreeText(ARTICLE_LENGTH + 100)

    @property
    def searches_left(self) -> int:
        """Whether the call is left."""
        return int(not self.called)

    def _render_opening(self, goal: str) -> str:
        self.called = False
        return f"{mt_grpo.SYSTEM.format(tools=mt_grpo.WIKI_SEARCH)}\n\nQuestion: {goal}\n"

    def act(self, action: str) -> Turn:
        """One call or answer."""
        if self.strict:
            reply = mt_grpo.cut_reply(action)
            answer, command = mt_grpo.read_field("answer", reply), mt_grpo.read_field("tool", reply)
        else:
            reply, request = action, read_request(action, self.kinds, self.results)
            answer = request.content if request.kind == "answer" else None
            command = request.content if request.kind == "tool" else None
        if answer is not None:
            self._record(reply)
            return self._make_turn("", f"<answer>{answer}</answer>", answer=answer)
        if command is None:
            self._record(reply, mt_grpo.NO_COMMAND, invalid=True)
            return self._make_turn(mt_grpo.NO_COMMAND, invalid="format")
        tag = f"<tool>{command}</tool>"
        if self.called:
            self._record(reply)
            return self._make_turn("", tag, invalid="refused", over=True)
        found: list[Passage] | None = []
        try:
            result, invalid = self._read_article(mt_grpo.read_call(command)), ""
        except mt_grpo.CallError as error:
            result, invalid = f"Error: {error}", error.reason
        self.called = self.called or self.strict or not invalid
        shown = result if self.strict else shorten_text(result, ARTICLE)
        block = mt_grpo.render_result(shown[:ARTICLE_LENGTH])
        self._record(reply, block, invalid=bool(invalid))
        return self._make_turn(block, tag, invalid=invalid, found=found)

    def _record(self, reply: str, result: str | None = None, *, invalid: bool = False) -> None:
        """Keep a reply and its result for the rewards of form; by default no failed result."""
        if self.strict or not invalid:
            self._said.append(("assistant", reply))
            if result is not None and self.turn + 1 < self.max_turns:
                self._said.append(("user", result))

    def _read_article(self, query: str) -> str:
        """The article with the best passage."""
        (found,) = self.retriever.search([query[:ACTION_LENGTH]], 1)
        if not found:
            return mt_grpo.MISS
        article = find_article(cast("Corpus", self.data.corpus), found[0].title) or found
        self._note(article)
        return "\n".join([article[0].title, *(passage.text for passage in article)])

    def _judge(self, answer: str) -> tuple[bool, str]:
        if self.strict:
            return answer.lower() in [gold.lower().strip() for gold in self.question.answers], ""
        return bool(METRICS["em"](answer, self.question.answers)), ""

    def _make_anchor(self) -> str:
        """The state besides the articles read: the call, and what the summed rewards read."""
        if self.reward not in MERGED:
            return self.facts.make_anchor(self.called)
        turn = []
        if self.strict:
            six = mt_grpo.compute_rewards(self._said, self.question.answers, None)
            turn = [six[name] for name in mt_grpo.TURN]
        return self.facts.make_anchor(self.called, turn, mt_grpo.list_forms(self._said))

    def _reward_turn(self, *, searched: bool) -> dict[str, float]:
        """By default for the result, not for the call."""
        if not self.strict:
            return super()._reward_turn(searched=searched)
        said = self._said[-2:] if searched else []
        latest = mt_grpo.compute_rewards(said, self.question.answers, None)
        return {name: latest[name] for name in mt_grpo.TURN}

    def _report(
        self, answer: str | None, *, ended: bool, right: bool
    ) -> tuple[float, dict[str, Any]]:
        six = dict.fromkeys(mt_grpo.WEIGHTS, 0.0)
        if ended and self.strict:
            six = mt_grpo.compute_rewards(self._said, self.question.answers, answer)
        elif ended:
            six = self._measure(right=right)
        extra = {"strata": self.question.strata, "measures": six}
        if self.reward in MERGED:
            return mt_grpo.sum_rewards(six, self.reward), extra
        return METRICS[self.reward](answer or "", self.question.answers), extra


def find_article(corpus: Corpus, title: str) -> list[Passage]:
    """The passages of the article with that title, in order; [] if there is none."""
    return [corpus[place] for place in _index_titles(corpus).get(title, ())]


@lru_cache(maxsize=2)
def _index_titles(corpus: Corpus) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place, passage in enumerate(corpus):
        places[passage.title or passage.id].append(place)
    return places
