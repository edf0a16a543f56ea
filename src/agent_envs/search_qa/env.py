"""SearchQA-v1: questions about an invented encyclopaedia, answered with a search engine."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import Panel, one_of
from agent_envs.search_qa.mt_grpo import WEIGHTS
from agent_envs.search_qa.prompt import TEMPLATE
from agent_envs.search_qa.replies import read_request
from agent_envs.search_qa.search_r1 import render_passages
from agent_envs.search_qa.world import SPLITS, open_world
from agent_envs.spaces import ACTION_LENGTH, OBSERVATION_LENGTH

if TYPE_CHECKING:
    from agent_envs.retrieval.passages import Passage
    from agent_envs.search_qa.answers import Answer
    from agent_envs.template import Template

HOPS = (1, 2, 3, 4)
# Passages of a search.
K = 3
OPENING = (
    "Answer the question from an encyclopaedia of an invented land. Think inside <think> and "
    "</think>, then write one <search>words</search>, which returns {k} passages, or one "
    "<answer>text</answer>. A thing may have two names. Where passages disagree, the newest source "
    "holds. You have {turns} turns.\nQuestion: {goal}\n"
)


class Facts(NamedTuple):
    """The state of an episode: the passages seen.

    gold: ids of the passages that the answer needs; () if unknown.
    answered: whether all of them were seen, or of public questions, an accepted answer.
    gained, first_answered: whether the latest search found a new one (or the answer, if they are
        unknown), and whether it was the first after which `answered` holds.
    """

    question: str
    gold: tuple[str, ...] = ()
    seen: frozenset[str] = frozenset()
    searches: int = 0
    answered: bool = False
    gained: bool = False
    first_answered: bool = False

    def add_search(self, found: Sequence[Passage], *, shown: bool | None = None) -> Facts:
        """After a search; `shown` is whether it has an accepted answer, None to go by the gold."""
        seen = self.seen.union(passage.id for passage in found)
        complete = (bool(self.gold) and seen.issuperset(self.gold)) if shown is None else shown
        first = complete and not self.answered
        return self._replace(
            seen=seen,
            searches=self.searches + 1,
            answered=self.answered or complete,
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
            return sum(name in self.seen for name in self.gold) / len(self.gold)
        return float(self.answered)

    def make_anchor(self, *others: object) -> str:
        """Digest of the question, the passages seen, whether one has the answer, and `others`."""
        facts = repr((self.question, sorted(self.seen), self.answered, others))
        return blake2b(facts.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


class SearchQA(AgentEnv):
    """Questions about an invented encyclopaedia: search, read passages, search again, answer.

    Description:
        The encyclopaedia is invented by seed: people, towns, rivers, books and guilds with facts
        that exist nowhere else. A question needs `hops` facts: of a chain, of two things compared,
        added or counted. Some facts are stated twice, by sources of different age, and the newest
        holds; a question may use a thing's second name; names are similar; one question in 12 has
        no answer, and the right answer is then "unknown".

    Observation:
        First the rules, the question and the type of its answer, then the passages found, as
        `<information>Doc 1(Title: "...") ...</information>`.

    Action:
        A whole reply: `<think>...</think>`, then `<search>words</search>` or
        `<answer>text</answer>`. Do not wrap the environment in `ParseReply`.

    Validity:
        "format" for a reply without exactly one search or answer outside its thoughts, or with an
        `<information>` of its own; "unknown" for a search that finds nothing.

    Progress:
        The share of the hops whose passage was shown, so it can be 1 without success; 1 for a right
        answer. If a fact is stated nowhere, its passage is the first of its subject's article.

    Anchor:
        Digest of the question and the set of passages shown.

    Reward:
        1 for a right answer, otherwise 0. An answer is read as its declared type (a name, number,
        date, yes or no, or that it is unknown) and compared as such; `info["reason"]` says why one
        is wrong.

    Ends:
        An answer terminates. `max_turns` truncates.

    Tasks and splits:
        `train`, `val` and `test` are different encyclopaedias without a common name, fact, wording
        or, from two hops on, chain of relations. A task id is split, hops and a number.

    Data:
        Generated. `info` also has `answers`, the accepted ones, and `answer_type`; `action`, the
        executed tag; `query`; `answer`; `passages`, those of this turn; `gold_hits`, ids of the
        needed passages seen; `turn_reward`, by name: 0.2 for a search that finds a new one, 0.5 for
        the search that completes them.

    Source:
        Ours; the form of replies is that of Search-R1 (Jin et al., 2025).

    Args:
        split: "train", "val" or "test".
        hops: the dial of difficulty, 1 to 4 facts; 3 by default.
        max_turns: turn limit; None for 2 `hops` + 3.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown split, or hops outside 1..4.
        ImportError: the packages of the extra [search] are not installed.
    """

    reply_form: ClassVar[str] = "<think>{thought}</think>{action}"
    action_length: ClassVar[int] = OBSERVATION_LENGTH
    experts: ClassVar[str] = "agent_envs.search_qa.experts"
    verbs: ClassVar[tuple[tuple[str, str], ...]] = (
        ("search", "<search>{words}</search>"),
        ("answer", "<answer>{text}</answer>"),
    )
    template: ClassVar[Template | None] = TEMPLATE
    kinds: ClassVar[tuple[str, str]] = ("search", "answer")
    results: ClassVar[str] = "information"
    notice: ClassVar[str] = (
        "\n\nThe reply was not understood and nothing was done. Think inside <think> and </think>, "
        "then write either one <search> and </search> or one <answer> and </answer>.\n\n"
    )
    question: Any

    def __init__(
        self,
        *,
        split: str = "train",
        hops: int = 3,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        one_of("split", split, tuple(SPLITS))
        if hops not in HOPS:
            raise ValueError(f"hops, the facts that a question needs, lie in 1..4, got {hops}")
        self.world, self.hops = open_world(split), hops
        ids = tuple(f"{split}-{hops}-{number}" for number in range(SPLITS[split]))
        turns = 2 * hops + 3 if max_turns is None else max_turns
        super().__init__(Panel(split, ids), max_turns=turns, render_mode=render_mode)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The question."""
        question = self.world.draw_question(task_id, self.hops, int(task_id.rpartition("-")[2]))
        goal = f"{question.text} {question.answer.declare()}"
        return goal, self._open(question, Facts(question.id, question.support), goal)

    @property
    def searches_left(self) -> int:
        """How many searches the agent may still make before it must answer."""
        return max(0, self.max_turns - 1 - self.turn)

    def list_answers(self) -> list[str]:
        """The accepted answers; of a type that has many forms, one."""
        answer: Answer = self.question.answer
        return answer.spell()

    def find_passage(self, name: str) -> Passage | None:
        """The passage with that id."""
        return self.world.passages.get(name)

    def _open(self, question: Any, facts: Facts, goal: str) -> Turn:
        self.question, self.facts = question, facts
        return self._make_turn(self._render_opening(goal))

    def _render_opening(self, goal: str) -> str:
        return OPENING.format(k=K, turns=self.max_turns, goal=goal)

    def reject(self, reason: str, notice: str) -> Turn:
        """An invalid turn without effect; the state does not change."""
        return self._make_turn(notice, invalid=reason)

    def act(self, action: str) -> Turn:
        """One search or answer."""
        request = read_request(action, self.kinds, self.results)
        if not request.kind:
            return self._make_turn(self.notice, invalid="format")
        tag = f"<{request.kind}>{request.content}</{request.kind}>"
        if request.kind == "answer":
            return self._make_turn("", tag, answer=request.content)
        return self._find(request.content, tag)

    def _find(self, query: str, tag: str) -> Turn:
        """One search."""
        (found,) = self.world.retriever.search([query[:ACTION_LENGTH]], K)
        if not found:
            return self._make_turn("\n\nNothing was found.\n\n", tag, invalid="unknown")
        self.facts = self.facts.add_search(found)
        return self._make_turn(render_passages(found), tag, query=query, found=found)

    def _make_turn(
        self,
        observation: str,
        tag: str = "",
        *,
        query: str = "",
        answer: str | None = None,
        found: Sequence[Passage] | None = None,
        invalid: str = "",
        over: bool = False,
    ) -> Turn:
        """The report of a turn; an answer or `over` ends the episode."""
        right, reason = (False, "") if answer is None else self._judge(answer)
        over, facts = over or answer is not None, self.facts
        ended = over or (bool(tag or invalid) and self.turn + 1 >= self.max_turns)
        reward, extra = self._report(answer, ended=ended, right=right)
        return Turn(
            f"The answer is wrong: {reason}." if reason else observation,
            valid=not invalid,
            invalid_reason=invalid,
            progress=1.0 if right else facts.progress,
            anchor=self._make_anchor(),
            reward=reward if ended else 0.0,
            success=right,
            failure=over and not right,
            extra={
                "action": tag,
                "query": query,
                "answer": answer or "",
                "answers": self.list_answers(),
                "reason": reason,
                "passages": [
                    {"id": p.id, "title": p.title, "text": p.text, "score": p.score}
                    for p in found or ()
                ],
                "gold_hits": [gold for gold in facts.gold if gold in facts.seen],
                "turn_reward": self._reward_turn(searched=found is not None),
                **extra,
            },
        )

    def _judge(self, answer: str) -> tuple[bool, str]:
        """Whether an answer is right, and if not, why."""
        question = self.question
        expected: Answer = question.answer
        return expected.judge(answer, question.text, self.world.named, question.steps)

    def _make_anchor(self) -> str:
        return self.facts.make_anchor()

    def _reward_turn(self, *, searched: bool) -> dict[str, float]:
        """MT-GRPO's two rewards of a turn, for what its search found."""
        shares = {
            "tool_execution": searched and self.facts.gained,
            "result_has_answer": searched and self.facts.first_answered,
        }
        return {name: WEIGHTS[name] * share for name, share in shares.items()}

    def _report(
        self, answer: str | None, *, ended: bool, right: bool
    ) -> tuple[float, dict[str, Any]]:
        """The reward if the episode has ended, and further keys of `info`."""
        question = self.question
        extra = {"answer_type": question.answer.kind, "strata": {"kind": question.kind}}
        return float(ended and answer is not None and right), extra
