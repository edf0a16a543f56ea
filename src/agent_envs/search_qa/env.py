"""SearchQA-v0: questions answered with a search engine, by several searches and an answer."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import one_of
from agent_envs.retrieval.factory import open_retriever
from agent_envs.search_qa import search_r1, verl_agent
from agent_envs.search_qa.accepted import Accepted
from agent_envs.search_qa.answers import METRICS, in_any
from agent_envs.search_qa.data import open_data
from agent_envs.search_qa.mt_grpo import WEIGHTS
from agent_envs.search_qa.prompt import TEMPLATE
from agent_envs.search_qa.replies import escape_marks, read_request, shorten_text
from agent_envs.spaces import ACTION_LENGTH, OBSERVATION_LENGTH

if TYPE_CHECKING:
    import os

    from agent_envs.retrieval.passages import Passage, Retriever

PROTOCOLS = {"search_r1": 4, "verl_agent": 3}
"""How many searches each protocol allows before the answer."""
TURNS = {"search_r1": 5, "verl_agent": 4}
REWARDS = (*METRICS, "format")
ANCHORS = ("facts", "text")
_KINDS = ("search", "answer")


class SearchQA(AgentEnv):
    """Questions for a search engine: search, read passages, search again, answer.

    Description:
        The agent reads a question, searches a corpus as often as the protocol allows, and answers.
        `protocol="search_r1"` follows Search-R1, in one growing conversation (4 searches);
        "verl_agent" follows verl-agent, on which GiGPO and STAPO build (3 searches).
        By default only the agent's one answer counts, tags and control tokens in questions and
        passages are escaped, and too many searches are refused. `strict_compat=True` is
        byte-identical to the public code, with its faults (listed in docs/search_qa.md).

    Observation:
        "search_r1": first the prompt with the question, then the passages, as
        `<information>Doc 1(Title: "...") ...</information>`. "verl_agent": first the question,
        then `<information>{"result": "Doc 1: ..."}</information>`; the `Prompt` wrapper
        renders its prompt.

    Action:
        A whole reply: `<think>...</think>`, then `<search>words</search>` or
        `<answer>text</answer>`. Do not wrap the environment in `ParseReply`.

    Validity:
        "format" for a reply without exactly one search or answer outside its thoughts, or with an
        `<information>` of its own; "refused" for a search when there are none left. With
        `strict_compat` a reply takes effect as in the public code although it is invalid.

    Progress:
        The share of the question's gold passages found so far. If these are not known, 1 once a
        found passage contains an accepted answer; so it can be 1 without success. 1 for a right
        answer.

    Anchor:
        "facts" (default): digest of the question, the set of passages seen, whether one had the
        answer, the searches left, and with `reward="format"` whether all replies were well formed.
        With `strict_compat` the last two are replaced by everything in the conversation that the
        rewards read. "text": the latest passages as displayed (before any search, the question),
        for grouping by similarity as published; it misses part of the state.

    Reward:
        With the answer: "em" (default) 1 for an accepted answer (`accepted.Accepted`); "sub_em"
        also for one among words without information; "f1" the word overlap of such an answer;
        "format" 1 for an accepted answer (0.8 if a reply was not well formed) and 0.1 for another
        answer after a passage with the right one. If the question names the answer or asks for yes
        or no, only the answer alone is rewarded. Otherwise 0. With `strict_compat` the rewards of
        the public code; "format" then also at an end without an answer.

    Ends:
        An answer terminates, a success if it is an accepted one. `max_turns` truncates.

    Tasks and splits:
        A task id is the id of a question. Embedded data: `train`, `val`, `test`, which ask about
        different things. Other data: the splits of its questions or files; without splits, `train`,
        `val`, `test` in tenths by a digest of the ids. Always: `all`.

    Data:
        `data="auto"`: the folder `$SEARCH_QA_DATA` if it is set, otherwise the embedded
        encyclopaedia. "embedded" or a folder selects one. A folder has `qa.jsonl` and
        `corpus.jsonl` (plain or compressed; also Search-R1's corpus and parquet questions).
        `retriever`: "bm25", "dense", "hybrid", the URL of a retrieval server, or any object with
        `search(queries, k)`.
        `info` also has `answers`, the accepted ones; `action`, the executed tag; `query`; `answer`;
        `passages`, those of this turn; `gold_hits`, ids of the gold passages seen;
        `searches_left`; `turn_reward`, MT-GRPO's two rewards of a turn by name, for turn-level
        credit: 0.2 for a search that finds a new gold passage, 0.5 for the first search that finds
        a gold passage with an accepted answer (all gold passages, if the question names the answer
        or asks for yes or no). If gold passages are not known, both are for the first passage with
        an accepted answer. With `strict_compat` 0.2 for any search.

    Source:
        Jin et al., Search-R1, 2025 (PeterGriffinJin/Search-R1 at a14dc3a4); verl-agent's search
        environment, as GiGPO (Feng et al., 2025) and STAPO use it.

    Args:
        split: see Tasks and splits.
        data: see Data.
        kinds: only questions of these kinds, given by "type" or "dataset" in the data; in the
            embedded data "single", "comparison", "2hop", "3hop". All by default.
        protocol: "search_r1" or "verl_agent".
        strict_compat: see Description.
        retriever: see Data.
        model: encoder of a dense retriever, see `agent_envs.retrieval.factory.open_retriever`.
        index: kind or folder of its index.
        k: passages per search.
        reward: see Reward.
        anchor: see Anchor.
        passage_characters: length to which passages are truncated; not with `strict_compat`.
        max_searches: None for the protocol's; not with `strict_compat`.
        strict: refuse data with bad records, for benchmarks; False leaves them out with a warning.
        max_turns: turn limit; None for the protocol's.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option, a split without questions, a retriever without a corpus.
        MissingAsset: a folder without questions.
        BadAsset: no record is good, or with `strict`, one is bad.
        ImportError: the packages of the extra [search] are not installed.
        RetrievalError: later, from `step`, a retrieval server that gives no passages.
    """

    reply_form: ClassVar[str] = "<think>{thought}</think>{action}"
    action_length: ClassVar[int] = OBSERVATION_LENGTH
    experts: ClassVar[str] = "agent_envs.search_qa.experts"
    template = TEMPLATE

    def __init__(
        self,
        *,
        split: str = "train",
        data: str | os.PathLike[str] = "auto",
        kinds: Sequence[str] = (),
        protocol: str = "search_r1",
        strict_compat: bool = False,
        retriever: str | Retriever = "bm25",
        model: str = "",
        index: str = "flat",
        k: int = 3,
        reward: str = "em",
        anchor: str = "facts",
        passage_characters: int = 1000,
        max_searches: int | None = None,
        strict: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        one_of("protocol", protocol, tuple(PROTOCOLS))
        one_of("reward", reward, REWARDS)
        one_of("anchor", anchor, ANCHORS)
        if strict_compat and protocol == "verl_agent" and reward == "format":
            raise ValueError("reward='format' with strict_compat needs protocol='search_r1'")
        if strict_compat and max_searches is not None:
            raise ValueError("with strict_compat set max_turns instead of max_searches")
        if min(k, passage_characters) < 1:
            raise ValueError(f"k and passage_characters must be >= 1: {k}, {passage_characters}")
        self.data = open_data(data, strict=strict)
        self.reading = self.data.reading
        turns = TURNS[protocol] if max_turns is None else max_turns
        super().__init__(self.data.panel(split, kinds), max_turns=turns, render_mode=render_mode)
        allowed = PROTOCOLS[protocol] if max_searches is None else max_searches
        self.max_searches = turns - 1 if strict_compat else allowed
        self.retriever = open_retriever(retriever, self.data.corpus, model=model, index=index)
        self.waits = bool(getattr(self.retriever, "waits", False))
        self.protocol, self.strict, self.k = protocol, strict_compat, k
        self.reward, self.by, self.passage_characters = reward, anchor, passage_characters
        self.graded = reward not in ("em", "sub_em")

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The question."""
        self.question = question = self.data.questions[task_id]
        self.accepted = Accepted(question.answers, question.text, question.bridges)
        # the ids of the gold passages are those of the data's own corpus
        self.facts = Facts(question.id, question.gold if self.data.corpus is not None else ())
        text = question.text if self.strict else escape_marks(question.text)
        opening = search_r1.render_prompt(text) if self.protocol == "search_r1" else text
        self._said: list[str] = []
        self._block, self._is_neat = opening, True
        return text, self._make_turn(opening, "")

    def reject(self, reason: str, notice: str) -> Turn:
        """An invalid turn without effect; the state does not change."""
        return self._make_turn(notice, "", invalid=reason)

    def act(self, action: str) -> Turn:
        """One search or answer."""
        if self.strict:
            return self._act_strictly(action)
        request = read_request(action, _KINDS, "information")
        if not request.kind:
            return self._make_turn(_NOT_UNDERSTOOD, "", invalid="format")
        tag = f"<{request.kind}>{request.content}</{request.kind}>"
        if request.kind == "search" and not self.searches_left:
            notice = _NO_SEARCH_LEFT.format(self.max_searches)
            return self._make_turn(notice, tag, invalid="refused")
        self._is_neat = self._is_neat and request.is_neat
        if request.kind == "answer":
            return self._make_turn("", tag, answer=request.content)
        found, longest = self._search(request.content), self.passage_characters
        short = [
            p._replace(title=shorten_text(p.title, 200), text=shorten_text(p.text, longest))
            for p in found
        ]
        block = self._render_passages(short)
        return self._make_turn(block, tag, query=request.content, found=found)

    @property
    def searches_left(self) -> int:
        """How many searches the agent may still make."""
        return max(0, self.max_searches - self.facts.searches)

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
        if last:
            return self._make_turn("", tag, invalid=invalid)
        found = self._search(content)
        block = self._render_passages(found)
        return self._make_turn(block, tag, query=content, found=found, invalid=invalid)

    def _search(self, query: str) -> list[Passage]:
        (found,) = self.retriever.search([query[:ACTION_LENGTH]], self.k)
        if self.strict:
            answered = in_any(self.question.answers, (passage.document for passage in found))
        else:
            answered = self.facts.has_answer(found, self.accepted)
        self.facts = self.facts.add_search(found, answered=answered)
        return found

    def _render_passages(self, passages: list[Passage]) -> str:
        if self.protocol == "search_r1":
            return search_r1.render_passages(passages)
        nothing = "" if self.strict else verl_agent.NOTHING
        return verl_agent.render_passages(passages, ascii_only=self.strict, nothing=nothing)

    def _make_turn(
        self,
        observation: str,
        tag: str,
        *,
        query: str = "",
        answer: str | None = None,
        found: list[Passage] | None = None,
        invalid: str = "",
    ) -> Turn:
        self._said.append(observation)
        if found is not None:
            self._block = observation.strip()
        elif invalid and self.strict and self.protocol == "verl_agent":
            self._block = ""
        ended = answer is not None or (bool(tag or invalid) and self.turn + 1 >= self.max_turns)
        right, facts = self._is_right(answer), self.facts
        return Turn(
            observation,
            valid=not invalid,
            invalid_reason=invalid,
            progress=1.0 if right else facts.progress,
            anchor=facts.make_anchor(*self._list_others()) if self.by == "facts" else self._block,
            reward=self._score(answer, right=right) if ended else 0.0,
            success=right,
            failure=answer is not None and not right,
            extra={
                "action": tag,
                "query": query,
                "answer": answer or "",
                "answers": list(self.question.answers),
                "passages": [
                    {"id": p.id, "title": p.title, "text": p.text, "score": p.score}
                    for p in found or ()
                ],
                "gold_hits": [gold for gold in self.question.gold if gold in facts.seen],
                "searches_left": self.searches_left,
                "turn_reward": self._compute_turn_reward(searched=found is not None),
            },
        )

    def _is_right(self, answer: str | None) -> bool:
        if answer is None:
            return False
        if self.strict:
            return self._score_strictly("em") == 1
        return self.accepted.is_right(answer)

    def _compute_turn_reward(self, *, searched: bool) -> dict[str, float]:
        """MT-GRPO's rewards of a turn: for any search in strict mode, else for its results."""
        shares = {
            "tool_execution": searched and (self.strict or self.facts.gained),
            "result_has_answer": searched and self.facts.first_answered,
        }
        return {name: WEIGHTS[name] * share for name, share in shares.items()}

    def _list_others(self) -> tuple[object, ...]:
        """The state besides the passages seen: the search budget, and what the rewards read.

        With `strict_compat` the turn limit is the budget, and rewards read the whole conversation.
        """
        if not self.strict:
            return (self.searches_left, self._is_neat if self.reward == "format" else None)
        if self.protocol == "verl_agent":
            return (search_r1.find_pending("".join(self._said[1:])),)
        if self.reward == "format":
            return search_r1.describe_form(self._mark_chat(), self.question.answers)
        return (search_r1.find_pending("".join(self._said)),)

    def _score(self, answer: str | None, *, right: bool) -> float:
        """The reward of the end."""
        if self.strict and self.reward != "f1":
            return self._score_strictly(self.reward)
        if answer is None:
            return 0.0
        if self.strict:
            return METRICS[self.reward](answer, self.question.answers)
        if self.reward != "format":
            return 1.0 if right else self.accepted.score_part(self.reward, answer)
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


_NOT_UNDERSTOOD = (
    "\n\nThe reply was not understood and nothing was done. Think inside <think> and </think>, "
    "then write either one <search> and </search> or one <answer> and </answer>.\n\n"
)
_NO_SEARCH_LEFT = (
    "\n\nNothing was searched: all {} searches are used. Answer inside <answer> and </answer>.\n\n"
)


class Facts(NamedTuple):
    """The facts of an episode: the passages seen, and whether one had the answer.

    gold: ids of the passages with the answer; () if unknown.
    gained, first_answered: whether the latest search found a new gold passage (or the answer, if
        gold passages are unknown), and whether it was the first with the answer.
    """

    question: str
    gold: tuple[str, ...] = ()
    seen: frozenset[str] = frozenset()
    searches: int = 0
    answered: bool = False
    gained: bool = False
    first_answered: bool = False

    def has_answer(self, found: Sequence[Passage], accepted: Accepted) -> bool:
        """Whether passages have the answer, or earlier ones had it.

        If the gold passages are known, only these count, since a word can occur anywhere. For an
        answer that no text can show, such as that of a choice, all of them must have been seen.
        """
        able = [p for p in found if p.id in self.gold] if self.gold else found
        if self.answered or not able:
            return self.answered
        if accepted.silent and self.gold:
            return self.seen.union(passage.id for passage in able).issuperset(self.gold)
        return accepted.is_shown_in(passage.document for passage in able)

    def add_search(self, found: Sequence[Passage], *, answered: bool) -> Facts:
        """After a search."""
        seen = self.seen.union(passage.id for passage in found)
        first = answered and not self.answered
        return self._replace(
            seen=seen,
            searches=self.searches + 1,
            answered=self.answered or answered,
            gained=not (seen - self.seen).isdisjoint(self.gold) if self.gold else first,
            first_answered=first,
        )

    @property
    def helped(self) -> bool:
        """Whether any search found a gold passage, or the answer if these are unknown."""
        return not self.seen.isdisjoint(self.gold) if self.gold else self.answered

    @property
    def progress(self) -> float:
        """Share of the gold passages seen; if these are unknown, whether an answer was seen."""
        if self.gold:
            return len(self.seen.intersection(self.gold)) / len(set(self.gold))
        return float(self.answered)

    def make_anchor(self, *others: object) -> str:
        """Digest of the question, the passages seen, whether one has the answer, and `others`."""
        facts = repr((self.question, sorted(self.seen), self.answered, others))
        return blake2b(facts.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
