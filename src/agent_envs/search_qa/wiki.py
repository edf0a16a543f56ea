"""WikiSearch-v0: questions answered with tools, in MT-GRPO's two turns or by reading pages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from agent_envs.assets import MissingAsset
from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import one_of
from agent_envs.retrieval.bm25 import BM25
from agent_envs.retrieval.factory import open_retriever
from agent_envs.retrieval.passages import Passage
from agent_envs.search_qa import mt_grpo
from agent_envs.search_qa.accepted import Accepted
from agent_envs.search_qa.answers import METRICS, in_any
from agent_envs.search_qa.data import open_data
from agent_envs.search_qa.env import Facts
from agent_envs.search_qa.mt_grpo import Tool, ToolError
from agent_envs.search_qa.replies import escape_marks, read_request, shorten_text
from agent_envs.spaces import ACTION_LENGTH, OBSERVATION_LENGTH, FreeText

if TYPE_CHECKING:
    import os

    from agent_envs.retrieval.passages import Corpus, Retriever

TURNS = {"mt_grpo": 2, "wiki_pages": 10}
"""How many turns each protocol allows."""
MERGED = ("outcome", "merged")
REWARDS = (*METRICS, *MERGED)
ARTICLE_LENGTH = 1_000_000
PAGES = 10  # per search
_KINDS = ("tool", "answer")
_PAGES = """search_pages: Finds pages whose titles match a query; gives their ids and titles.

Arguments:
- query

view_sections: Lists the sections of a page; gives their ids and names.

Arguments:
- page_id

read_section: Gives the text of a section.

Arguments:
- section_id"""
PROMPTS = {
    "mt_grpo": mt_grpo.SYSTEM.format(tools=mt_grpo.WIKI_SEARCH),
    "wiki_pages": f"""You have access to the following tools to help answer a question:

{_PAGES}

In each message, first reason inside <reasoning> tags. Then either use one tool, by writing a JSON \
command with its "name" and "args" inside <tool> tags, and you will see its output inside <result> \
tags; or give your final answer inside <answer> tags, in a few words.""",
}


class WikiSearch(AgentEnv):
    """Questions for an encyclopaedia with tools: call a tool as JSON, read its result, answer.

    Description:
        `protocol="mt_grpo"` is the environment of MT-GRPO: one call of `wiki_search`, which returns
        the best article, then an answer, with verifiable rewards of the turn and of the outcome.
        "wiki_pages" has three tools: find pages, list their sections, read a section.
        By default only the agent's one answer counts, and tags and control tokens in questions and
        articles are escaped. `strict_compat=True` follows MT-GRPO's public code, with its faults
        (listed in docs/search_qa.md).

    Observation:
        First the prompt with the tools and the question, then the `<result>...</result>` of a call
        (an error begins with "Error:"), or a notice of what was wrong with the reply.

    Action:
        A whole reply: `<reasoning>...</reasoning>`, then
        `<tool>{"name": "wiki_search", "args": {"query": "..."}}</tool>` or
        `<answer>text</answer>`. Do not wrap the environment in `ParseReply`.

    Validity:
        "format" for a reply without exactly one call or answer outside its reasoning, with a
        `<result>` of its own, or for a call that is not a JSON object with a name; "unknown" for a
        tool, argument, page or section that does not exist; "refused" for "mt_grpo"'s second call.
        With `strict_compat` a reply takes effect as in the public code although it is invalid.

    Progress:
        The share of the question's gold passages read so far. If these are not known, 1 once a
        text that was read contains an accepted answer; so it can be 1 without success. 1 for a
        right answer.

    Anchor:
        Digest of the question, the set of passages read, whether one had the answer, with
        "mt_grpo" whether the call was made, and with "outcome" and "merged" the form of the replies
        so far.

    Reward:
        At the end: "em" (default), "f1" or "sub_em" of the answer, as in `SearchQA-v0`; "outcome":
        the sum of MT-GRPO's four outcome rewards, at most 1.9; "merged": the sum of all six, at
        most 2.6. Before the end 0. `info["turn_reward"]` has the two rewards of the turn by name,
        as in `SearchQA-v0`, and `info["outcome_reward"]` the four, 0 until the end ("mt_grpo"
        only): 0.5 times "sub_em", 1 times "em", and if one of these is 1, up to 0.2 for the form of
        the replies and 0.2 for the use of tags. With `strict_compat` as in the public code.

    Ends:
        An answer terminates, a success if it is an accepted one. A second call of "mt_grpo"
        terminates in failure. `max_turns` truncates.

    Tasks and splits:
        As in `SearchQA-v0`.

    Data:
        As in `SearchQA-v0`, with a corpus; its passages with the same title are one article.
        `info` also has `answers`, `action`, `answer` and `gold_hits` as there.

    Source:
        Zeng et al., Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit
        Assignment, 2025 (SiliangZeng/Multi-Turn-RL-Agent at 7dbdd08b); wiki-search of
        willccbb/verifiers at 39f0675a.

    Args:
        split: see Tasks and splits.
        data: see Data.
        kinds: as in `SearchQA-v0`.
        protocol: "mt_grpo" or "wiki_pages".
        strict_compat: see Description; "mt_grpo" only.
        retriever: that of `wiki_search`, as in `SearchQA-v0`; "wiki_pages" searches titles.
        model: encoder of a dense retriever.
        index: kind or folder of its index.
        reward: see Reward.
        article_characters: length to which a result is truncated; not with `strict_compat`.
        strict: refuse data with bad records, for benchmarks; False leaves them out with a warning.
        max_turns: turn limit; None for the protocol's, 8 with `strict_compat`.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option, one that the protocol lacks, a split without questions.
        MissingAsset: a folder without questions or corpus.
        BadAsset: no record is good, or with `strict`, one is bad.
        ImportError: the packages of the extra [search] are not installed.
        RetrievalError: later, from `step`, a retrieval server that gives no passages.
    """

    reply_form: ClassVar[str] = "<reasoning>{thought}</reasoning>{action}"
    action_length: ClassVar[int] = OBSERVATION_LENGTH
    experts: ClassVar[str] = "agent_envs.search_qa.experts"

    def __init__(
        self,
        *,
        split: str = "train",
        data: str | os.PathLike[str] = "auto",
        kinds: Sequence[str] = (),
        protocol: str = "mt_grpo",
        strict_compat: bool = False,
        retriever: str | Retriever = "bm25",
        model: str = "",
        index: str = "flat",
        reward: str = "em",
        article_characters: int = 4000,
        strict: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        one_of("protocol", protocol, tuple(TURNS))
        one_of("reward", reward, REWARDS)
        if protocol == "wiki_pages" and (strict_compat or reward in MERGED):
            raise ValueError(f"strict_compat and {MERGED} need protocol='mt_grpo'")
        if article_characters < 1:
            raise ValueError(f"article_characters must be at least 1, got {article_characters}")
        self.data = open_data(data, strict=strict)
        if self.data.corpus is None:
            raise MissingAsset(f"no corpus.jsonl in {self.data.folder}; the pages need it: add one")
        turns = (8 if strict_compat else TURNS[protocol]) if max_turns is None else max_turns
        super().__init__(self.data.panel(split, kinds), max_turns=turns, render_mode=render_mode)
        self.protocol, self.strict, self.reward = protocol, strict_compat, reward
        self.graded = reward not in ("em", "sub_em")
        self.article_characters = article_characters
        self.pages = open_pages(self.data.corpus)
        self.tools = {
            "search_pages": Tool("query", self._search_pages),
            "view_sections": Tool("page_id", self._view_sections),
            "read_section": Tool("section_id", self._read_section),
        }
        if protocol == "mt_grpo":
            self.tools = {"wiki_search": Tool("query", self._search_wiki)}
            self.retriever = open_retriever(retriever, self.data.corpus, model=model, index=index)
            self.waits = bool(getattr(self.retriever, "waits", False))
        self.observation_space = FreeText(ARTICLE_LENGTH + 100)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The question."""
        self.question = question = self.data.questions[task_id]
        self.accepted = Accepted(question.answers, question.text, question.bridges)
        self.facts = Facts(question.id, question.gold)
        self._said: list[tuple[str, str]] = []
        self.called = False
        text = question.text if self.strict else escape_marks(question.text)
        prompt = f"{PROMPTS[self.protocol]}\n\nQuestion: {text}\n"
        return text, self._make_turn(prompt, first=True)

    def reject(self, reason: str, notice: str) -> Turn:
        """An invalid turn without effect; the state does not change."""
        return self._make_turn(notice, invalid=reason)

    def act(self, action: str) -> Turn:
        """One call or answer."""
        if self.strict:
            reply = mt_grpo.cut_reply(action)
            answer, command = mt_grpo.read_field("answer", reply), mt_grpo.read_field("tool", reply)
        else:
            reply, request = action, read_request(action, _KINDS, "result")
            answer = request.content if request.kind == "answer" else None
            command = request.content if request.kind == "tool" else None
        if answer is not None:
            self._record(reply)
            return self._make_turn("", action=f"<answer>{answer}</answer>", answer=answer)
        if command is None:
            self._record(reply, mt_grpo.NO_COMMAND, invalid=True)
            return self._make_turn(mt_grpo.NO_COMMAND, invalid="format")
        tag = f"<tool>{command}</tool>"
        if self.protocol == "mt_grpo" and self.called:
            self._record(reply)
            return self._make_turn("", action=tag, invalid="refused", over=True)
        try:
            result, invalid = mt_grpo.run_call(command, self.tools), ""
        except ToolError as error:
            result, invalid = f"Error: {error}", error.reason
        self.called = self.called or self.strict or not invalid
        shown = result if self.strict else shorten_text(result, self.article_characters)
        block = mt_grpo.render_result(shown[:ARTICLE_LENGTH])
        self._record(reply, block, invalid=bool(invalid))
        return self._make_turn(block, action=tag, invalid=invalid, call=True)

    def _record(self, reply: str, result: str | None = None, *, invalid: bool = False) -> None:
        """Keep a reply and its result for the rewards of form; by default no failed result."""
        if self.strict or not invalid:
            self._said.append(("assistant", reply))
            if result is not None and self.turn + 1 < self.max_turns:
                self._said.append(("user", result))

    def _search_wiki(self, query: str) -> str:
        """The article with the best passage."""
        (found,) = self.retriever.search([query[:ACTION_LENGTH]], 1)
        if not found:
            return mt_grpo.MISS
        article = self.pages.find_passages(found[0].title) or found
        self._note(article)
        return "\n".join([article[0].title, *(passage.text for passage in article)])

    def _search_pages(self, query: str) -> str:
        pages = [{"page_id": page.id, "title": page.title} for page in self.pages.search(query)]
        return json.dumps(pages, ensure_ascii=False)

    def _view_sections(self, page_id: str) -> str:
        sections = self.pages.list_sections(page_id)
        listed = [{"section_id": section.id, "section_name": section.name} for section in sections]
        return json.dumps(listed, ensure_ascii=False)

    def _read_section(self, section_id: str) -> str:
        page_id = section_id.partition(":")[0]
        for section in self.pages.list_sections(page_id):
            if section.id == section_id:
                self._note(self.pages.find_passages(self.pages.titles[page_id]))
                return section.text
        raise ToolError(f"Section not found: {section_id}")

    def _note(self, passages: Sequence[Passage]) -> None:
        """Note passages as read."""
        if self.strict:
            answered = in_any(self.question.answers, (passage.document for passage in passages))
        else:
            answered = self.facts.has_answer(passages, self.accepted)
        self.facts = self.facts.add_search(passages, answered=answered)

    def _make_turn(
        self,
        observation: str,
        *,
        action: str = "",
        answer: str | None = None,
        invalid: str = "",
        over: bool = False,
        call: bool = False,
        first: bool = False,
    ) -> Turn:
        golds = self.question.answers
        over = over or answer is not None
        ended = over or (not first and self.turn + 1 >= self.max_turns)
        if answer is None:
            right = False
        elif self.strict:
            right = answer.lower() in [gold.lower().strip() for gold in golds]
        else:
            right = self.accepted.is_right(answer)
        extra: dict[str, Any] = {
            "action": action,
            "answer": answer or "",
            "answers": list(golds),
            "gold_hits": [gold for gold in self.question.gold if gold in self.facts.seen],
        }
        six = dict.fromkeys(mt_grpo.WEIGHTS, 0.0)
        if self.protocol == "mt_grpo":
            six = self._compute_rewards(answer, right=right) if ended else six
            extra["turn_reward"] = self._compute_turn_reward(call=call)
            extra["outcome_reward"] = {name: six[name] for name in mt_grpo.OUTCOME}
        return Turn(
            observation,
            valid=not invalid,
            invalid_reason=invalid,
            progress=1.0 if right else self.facts.progress,
            anchor=self.facts.make_anchor(*self._list_others()),
            reward=self._score(answer, six, right=right) if ended else 0.0,
            success=right,
            failure=over and not right,
            extra=extra,
        )

    def _list_others(self) -> tuple[object, ...]:
        """The state besides the pages read: the one call, and what the summed rewards read."""
        if self.protocol != "mt_grpo":
            return ()
        if self.reward not in MERGED:
            return (self.called,)
        turn = []
        if self.strict:
            six = mt_grpo.compute_rewards(self._said, self.question.answers, None)
            turn = [six[name] for name in mt_grpo.TURN]
        return self.called, turn, mt_grpo.list_forms(self._said)

    def _score(self, answer: str | None, six: dict[str, float], *, right: bool) -> float:
        """The reward of the end; `six` has MT-GRPO's rewards by name."""
        if self.reward in MERGED:
            names = mt_grpo.OUTCOME if self.reward == "outcome" else mt_grpo.WEIGHTS
            return sum(six[name] for name in names)
        if self.strict:
            return METRICS[self.reward](answer or "", self.question.answers)
        if right or answer is None:
            return float(right)
        return self.accepted.score_part(self.reward, answer)

    def _compute_turn_reward(self, *, call: bool) -> dict[str, float]:
        """MT-GRPO's two rewards of the turn; by default for the result, not for the call."""
        if self.strict:
            said = self._said[-2:] if call else []
            latest = mt_grpo.compute_rewards(said, self.question.answers, None)
            return {name: latest[name] for name in mt_grpo.TURN}
        shares = call and self.facts.gained, call and self.facts.first_answered
        return {
            name: mt_grpo.WEIGHTS[name] * share
            for name, share in zip(mt_grpo.TURN, shares, strict=True)
        }

    def _compute_rewards(self, answer: str | None, *, right: bool) -> dict[str, float]:
        """MT-GRPO's rewards at the end.

        By default the turn's rewards are for the results, and those of form require an answer that
        contains an accepted one.
        """
        if self.strict:
            return mt_grpo.compute_rewards(self._said, self.question.answers, answer)
        partly = answer is not None and not right and self.accepted.score_part("sub_em", answer)
        contains = right or bool(partly)
        none = {"xml_format": 0.0, "xml_usage": 0.0}
        shares = {
            "tool_execution": self.facts.helped,
            "result_has_answer": self.facts.answered,
            "answer_contains": contains,
            "exact": right,
            **(mt_grpo.compute_form(self._said) if contains else none),
        }
        return {name: mt_grpo.WEIGHTS[name] * share for name, share in shares.items()}


class Section(NamedTuple):
    """A part of a page; `id` is "<page id>:<the name in lower case, with _ for blanks>"."""

    id: str
    name: str
    text: str


class Pages:
    """Pages made of all passages with the same title, in order; the id is that of the first.

    A passage without a title is its own page, with its id as the title.

    Attributes:
        titles: The title of each page by its id.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, passage in enumerate(corpus):
            self._places[passage.title or passage.id].append(place)
        self.titles = {corpus[places[0]].id: title for title, places in self._places.items()}

    @cached_property
    def _index(self) -> BM25:
        """A BM25 index of the titles, made on first use."""
        return BM25([Passage(page, title, "") for page, title in self.titles.items()])

    def search(self, query: str) -> list[Passage]:
        """At most 10 pages whose titles share words with the query, best first, without text."""
        return self._index.search([query], PAGES)[0]

    def find_passages(self, title: str) -> list[Passage]:
        """The passages of the page with that title; [] if there is none."""
        return [self.corpus[place] for place in self._places.get(title, ())]

    def list_sections(self, page: str) -> list[Section]:
        """A page's sections, one for each line that begins with #, or the whole.

        Text before the first heading is the section "Introduction". If sections have the same
        name, only the first can be read.

        Raises:
            ToolError: There is no page with that id.
        """
        if page not in self.titles:
            raise ToolError(f"Page not found: {page}")
        text = "\n".join(passage.text for passage in self.find_passages(self.titles[page]))
        parts: list[tuple[str, list[str]]] = [("Introduction", [])]
        for line in text.split("\n"):
            if line.startswith("#"):
                parts.append((line.lstrip("#").strip() or "Introduction", []))
            parts[-1][1].append(line)
        if len(parts) == 1:
            return [Section(f"{page}:full", "Full Page", text)]
        if not "".join(parts[0][1]).strip():
            del parts[0]
        return [
            Section(f"{page}:{name.lower().replace(' ', '_')}", name, "\n".join(lines))
            for name, lines in parts
        ]

    def __deepcopy__(self, memo: dict[int, Any]) -> Pages:
        return self


@lru_cache(maxsize=2)
def open_pages(corpus: Corpus) -> Pages:
    """The pages of a corpus, cached."""
    return Pages(corpus)
