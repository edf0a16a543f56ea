"""WikiSearch-v1: questions about an invented encyclopaedia, answered by calls of a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from agent_envs.panels import one_of
from agent_envs.search_qa import mt_grpo
from agent_envs.search_qa.env import SearchQA
from agent_envs.spaces import ACTION_LENGTH

if TYPE_CHECKING:
    from agent_envs.contract import Turn
    from agent_envs.template import Template

REWARDS = ("success", "outcome", "merged")
OPENING = (
    "Answer the question from an encyclopaedia of an invented land. Reason inside <reasoning> "
    'tags, then either call the tool, by a JSON command with "name" and "args" inside <tool> tags, '
    "or answer inside <answer> tags.\n\nwiki_search: Returns the article that matches best.\n\n"
    "Arguments:\n- query\n\nA thing may have two names. Where sources disagree, the newest holds. "
    "You have {turns} turns.\n\nQuestion: {goal}\n"
)


class WikiSearch(SearchQA):
    """Questions about an invented encyclopaedia with a tool: call it as JSON, read, answer.

    Description:
        The encyclopaedia and the questions of `SearchQA-v1`, in the form of MT-GRPO: `wiki_search`
        returns the whole article with the best passage. With `hops=1` and `max_turns=2` it is
        MT-GRPO's task of two turns.

    Observation:
        First the rules, the question and the type of its answer, then the `<result>...</result>`
        of a call (an error begins with "Error:"), or what was wrong with the reply.

    Action:
        A whole reply: `<reasoning>...</reasoning>`, then
        `<tool>{"name": "wiki_search", "args": {"query": "..."}}</tool>` or
        `<answer>text</answer>`. Do not wrap the environment in `ParseReply`.

    Validity:
        "format" for a reply without exactly one call or answer outside its reasoning, with a
        `<result>` of its own, or for a call that is not a JSON object with a name; "unknown" for
        another tool or argument, and for a query that finds nothing.

    Progress:
        As in `SearchQA-v1`, of articles; so it can be 1 without success.

    Anchor:
        Digest of the question, the set of passages shown, and with "outcome" and "merged" the form
        of the replies so far.

    Reward:
        "success" (default): 1 for a right answer. "outcome": the sum of MT-GRPO's four rewards of
        the outcome, at most 1.9: 1.5 for a right answer and with it up to 0.2 for the form of the
        replies and 0.2 for the use of tags. "merged": also those of all turns, at most 2.6. Before
        the end 0. `info["turn_reward"]` has the two of a turn as in `SearchQA-v1`, and
        `info["measures"]` all six of the episode, 0 until the end.

    Ends:
        An answer terminates. `max_turns` truncates.

    Tasks and splits:
        As in `SearchQA-v1`.

    Data:
        As in `SearchQA-v1`.

    Source:
        The form of replies and the rewards: Zeng et al., Reinforcing Multi-Turn Reasoning in LLM
        Agents via Turn-Level Credit Assignment, 2025.

    Args:
        split: "train", "val" or "test".
        hops: the dial of difficulty, 1 to 4 facts.
        reward: see Reward.
        max_turns: turn limit; None for 2 `hops` + 3.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown split or reward, or hops outside 1..4.
        ImportError: the packages of the extra [search] are not installed.
    """

    reply_form: ClassVar[str] = "<reasoning>{thought}</reasoning>{action}"
    verbs: ClassVar[tuple[tuple[str, str], ...]] = (
        ("wiki_search", '<tool>{{"name": "wiki_search", "args": {{"query": {query!j}}}}}</tool>'),
        ("answer", "<answer>{text}</answer>"),
    )
    template: ClassVar[Template | None] = None
    kinds: ClassVar[tuple[str, str]] = ("tool", "answer")
    results: ClassVar[str] = "result"
    notice: ClassVar[str] = mt_grpo.NO_COMMAND

    def __init__(
        self,
        *,
        split: str = "train",
        hops: int = 3,
        reward: str = "success",
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        one_of("reward", reward, REWARDS)
        self.reward, self.graded = reward, reward != "success"
        super().__init__(split=split, hops=hops, max_turns=max_turns, render_mode=render_mode)

    def _render_opening(self, goal: str) -> str:
        self._said: list[tuple[str, str]] = []
        return OPENING.format(turns=self.max_turns, goal=goal)

    def act(self, action: str) -> Turn:
        """One call or answer."""
        latest = len(self._said)
        self._said.append(("assistant", action))
        turn = super().act(action)
        if not turn.valid:  # only valid replies count for the rewards of form
            del self._said[latest:]
            turn = turn._replace(anchor=self._make_anchor())
        return turn

    def _find(self, query: str, tag: str) -> Turn:
        """One call."""
        try:
            words = mt_grpo.read_call(query)
        except mt_grpo.CallError as error:
            return self._make_turn(f"Error: {error}", tag, invalid=error.reason)
        (found,) = self.world.retriever.search([words[:ACTION_LENGTH]], 1)
        if not found:
            return self._make_turn(f"Error: {mt_grpo.MISS}", tag, invalid="unknown")
        article = self.world.list_article(found[0])
        self.facts = self.facts.add_search(article)
        text = "\n".join([article[0].title, *(passage.text for passage in article)])
        return self._make_turn(mt_grpo.render_result(text), tag, query=words, found=article)

    def _make_anchor(self) -> str:
        forms = mt_grpo.list_forms(self._said) if self.graded else ()
        return self.facts.make_anchor(forms)

    def _measure(self, *, right: bool) -> dict[str, float]:
        """MT-GRPO's six rewards of the episode; those of form need a right answer."""
        forms = mt_grpo.compute_form(self._said) if right else {}
        shares = {
            "tool_execution": self.facts.helped,
            "result_has_answer": self.facts.answered,
            "answer_contains": right,
            "exact": right,
            **forms,
        }
        return {name: mt_grpo.WEIGHTS[name] * shares.get(name, 0.0) for name in mt_grpo.WEIGHTS}

    def _report(
        self, answer: str | None, *, ended: bool, right: bool
    ) -> tuple[float, dict[str, Any]]:
        six = self._measure(right=right) if ended else dict.fromkeys(mt_grpo.WEIGHTS, 0.0)
        reward, extra = super()._report(answer, ended=ended, right=right)
        return mt_grpo.sum_rewards(six, self.reward) if self.graded else reward, extra | {
            "measures": six
        }
