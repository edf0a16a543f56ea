"""Sotopia-v0 and Sotopia-v1: conversations in which two characters follow private goals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from agent_envs.assets import MissingAsset, find_data
from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import one_of
from agent_envs.sotopia import games, models
from agent_envs.sotopia.models import RANGES, JudgeError, Verdict, open_judge, open_partner
from agent_envs.sotopia.prompt import SHORT, TEMPLATE
from agent_envs.sotopia.published import open_published
from agent_envs.sotopia.scene import Unknown
from agent_envs.sotopia.scripted import Holder
from agent_envs.sotopia.talk import Act, Said, Talk, parse_act

if TYPE_CHECKING:
    import os

    from agent_envs.net.endpoint import Endpoint
    from agent_envs.panels import Panel
    from agent_envs.sotopia.models import Judge
    from agent_envs.sotopia.scene import Scene
    from agent_envs.sotopia.scripted import Partner, Speaker

ON_JUDGE_ERROR = ("raise", "flag")
ACTS = 20
_UNKNOWN = float("nan")
SUCCESS = 6.0  # iStar's threshold for published scenes: success is a goal score above it
SHARE = 0.95  # of the best deal, from which on a deal of a generated scene is a success
_LISTED = 40  # most deals that are listed as admissible actions
_EXCHANGE = 3  # answered lines of a side that make a complete talk


class Conversation(AgentEnv):
    """What both environments have in common: turns, partners, judges, ends and rewards."""

    rewards: ClassVar[tuple[str, ...]] = ("goal", "success")
    typed_only = False

    def __init__(
        self,
        panel: Panel,
        partner: Partner | None,
        judge: Judge | None,
        *,
        on_judge_error: str,
        reward: str,
        max_turns: int | None,
        render_mode: str | None,
    ) -> None:
        one_of("reward", reward, self.rewards)
        one_of("on_judge_error", on_judge_error, ON_JUDGE_ERROR)
        self.partner, self.judge, self.external = partner, judge, partner is None
        self.waits = any(getattr(one, "waits", False) for one in (partner, judge))
        turns = ACTS // (1 if self.external else 2) if max_turns is None else max_turns
        super().__init__(panel, max_turns=turns, render_mode=render_mode)
        self.reward, self.graded = reward, reward != "success"
        self.flags_errors = on_judge_error == "flag"

    @abstractmethod
    def open_scene(self, task_id: str) -> tuple[Scene, int, dict[str, str]]:
        """The scene of a task, the agent's side, and the groups that success is reported for."""

    def score_facts(self, side: int) -> Verdict:  # noqa: ARG002
        """The scores of a side that are facts."""
        return Verdict({}, {})

    @abstractmethod
    def is_success(self, scores: Mapping[str, float]) -> bool:
        """Whether the scores at the end are a success."""

    @abstractmethod
    def measure_progress(self, side: int, scores: Mapping[str, float]) -> float:
        """The progress of a side, 1 for a success."""

    def pay(self, side: int, scores: Mapping[str, float]) -> float:  # noqa: ARG002
        """The reward of a side at the end."""
        return scores["goal"] / RANGES["goal"][1] if self.graded else float(self.is_success(scores))

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The scene of a task, up to the agent's first act."""
        scene, self.side, self._strata = self.open_scene(task_id)
        self.talk = Talk(scene)
        self.speaker: Speaker | None = None
        if self.partner is not None:
            self.speaker = self.partner.begin(scene, 1 - self.side, self.np_random)
        self.next = 0 if self.external else self.side
        if self.speaker and self.side == 1:
            self._let_partner_act()
        return scene.show_goal(self.next), self._report(self._render_opening(), first=True)

    def act(self, action: str) -> Turn:
        """One act, and the other's answer."""
        side = self.next
        try:
            act = parse_act(action, self.talk.scene.game)
        except ValueError as error:
            return self.reject("unknown" if isinstance(error, Unknown) else "format", str(error))
        wrong = self.talk.find_obstacle(side, act)
        if self.typed_only and act._replace(argument="") == Act("speak"):
            wrong = "An act needs one of the fields ask, offer, accept and leave here."
        if wrong:
            return self.reject("refused", wrong)
        idle = self._is_idle(side, act)
        self.talk = self.talk.after(side, act)
        if self.external:
            self.next = 1 - side
            self.goal = self.talk.scene.show_goal(self.next)
        elif not self.talk.is_over and not (self.side == 1 and self._is_last_turn()):
            self._let_partner_act()
        return self._report(self._render_latest(side), "refused" if idle else "")

    def reject(self, reason: str, notice: str) -> Turn:
        """A turn that the other does not notice."""
        return self._report(notice, reason)

    def _is_idle(self, side: int, act: Act) -> bool:
        """Whether an act only repeats: by what a scripted partner answered, else verbatim."""
        if isinstance(self.speaker, Holder):
            return self.speaker.is_idle(act)
        return bool(act.argument) and Said(side, act) in self.talk.said

    def _let_partner_act(self) -> None:
        assert self.speaker is not None  # noqa: S101  only called if there is one
        act = self.speaker.reply(self.talk)
        wrong = self.talk.find_obstacle(1 - self.side, act)
        if wrong:
            raise ValueError(f"the partner {self.partner!r} did what is not possible: {wrong}")
        self.talk = self.talk.after(1 - self.side, act)

    def _is_last_turn(self) -> bool:
        return self.turn + 1 >= self.max_turns

    def _render_opening(self) -> str:
        return "\n".join(
            [self.talk.scene.render_background(self.next), *self.talk.render_script(self.next)]
        )

    def _render_latest(self, side: int) -> str:
        """The observation of the side to act: the other's act; in self-chat first everything."""
        if self.external and len(self.talk.said) == 1:
            return self._render_opening()
        latest = self.talk.said[-1]
        if not self.external and latest.side == side:
            return "The conversation is over."
        return self.talk.render(latest, 1 - latest.side)

    def _report(self, observation: str, invalid: str = "", *, first: bool = False) -> Turn:
        ended = self.talk.is_over
        over = ended or (not first and self._is_last_turn())
        verdict, error = self._judge(self.side, asked=over)
        asks_twice = over and not error and self.external
        other, failed = self._judge(1 - self.side, asked=asks_twice)
        scores, theirs = verdict.scores, other.scores
        success = over and "goal" in scores and self.is_success(scores)
        unknown = over and self.judge is not None and not (self.external and theirs)
        return Turn(
            observation,
            valid=not invalid,
            invalid_reason=invalid,
            progress=self.measure_progress(self.side, scores),
            anchor=self._digest_state(),
            reward=self._pay(self.side, scores, error),
            success=success,
            failure=ended and not success,
            admissible_actions=() if over else self.list_actions(),
            extra={
                "scores": dict(scores),
                "measures": dict(scores) if over else {},
                "strata": self._strata,
                "reasons": dict(verdict.reasons),
                "overall": sum(scores.values()) / len(scores) if scores else 0.0,
                "partner_scores": dict(theirs) if over else {},
                "partner_progress": self.measure_progress(1 - self.side, theirs),
                "partner_reward": (
                    _UNKNOWN if unknown else self._pay(1 - self.side, theirs, failed)
                ),
                "agreed": self._describe_deal(),
                "speaker": self.next,
                "agent": self.talk.scene.characters[self.next].name,
                "progress_known": "goal" in scores,
                "judge_error": error or failed,
            },
        )

    def list_actions(self) -> list[str]:
        """The admissible actions, where they are few."""
        return []

    def _judge(self, side: int, *, asked: bool) -> tuple[Verdict, str]:
        """The current scores of a side, and the judge's error if it is asked; facts come first."""
        facts = self.score_facts(side)
        if self.judge is None or not asked:
            return facts, ""
        try:
            verdict = self.judge.judge(self.talk, side)
        except JudgeError as error:
            if not self.flags_errors:
                raise
            return facts, str(error)
        return Verdict(verdict.scores | facts.scores, verdict.reasons | facts.reasons), ""

    def _describe_deal(self) -> str:
        game, deal = self.talk.scene.game, self.talk.agreed
        return "" if game is None or deal is None else game.describe(deal)

    def _digest_state(self) -> str:
        """Digest of everything that can change the effect of an act, including valid, reward, end.

        With the scripted partner its state, the open offers and the deal; otherwise the talk.
        """
        talk = self.talk
        facts: tuple[Any, ...] = self.task_id, self.next, talk.is_over
        state = "" if self.speaker is None else self.speaker.state
        facts += (talk.standing, talk.agreed, state) if state else (talk.said,)
        return blake2b(repr(facts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()

    def _pay(self, side: int, scores: Mapping[str, float], error: str) -> float:
        if error:
            return _UNKNOWN
        return self.pay(side, scores) if "goal" in scores else 0.0


class Sotopia(Conversation):
    """Talks between two characters of the public data, with a model as partner and judge.

    Description:
        The agent has a character, a secret and a goal, sees as much of the other as their
        relationship allows, and talks, acts or leaves. The other side is a model, an echo, or
        played by the caller, too (self-chat); then the goal changes from turn to turn, to that of
        the side whose turn it is. At the end a model gives seven scores.

    Observation:
        First the situation, the agent's own character, what is known of the other, the goal, and
        the other's first act if it begins (side 0 begins). Then the other's acts, such as
        `Adele said: "..."`, `Adele [action] ...`, `Adele left the conversation`.

    Action:
        JSON `{"action_type": "speak", "argument": "..."}` with the types speak, non-verbal
        communication, action, leave and none; or plain text, which is a spoken line.

    Validity:
        "format" for a text that is not an act or lacks its argument, which the other does not
        notice. Repeating an earlier act of one's own verbatim is "refused", but takes effect.

    Progress:
        0 until the judge has scored the talk, and `info["progress_known"]` is False; then the goal
        score divided by 6, at most 1. It is also 1 without success if the score is exactly 6.

    Anchor:
        Digest of the conversation.

    Reward:
        At the end, else 0. "goal" (default): the goal score / 10. "weighted": the mean of all
        scores, each scaled to [0, 1] by its range, weighted by `weights`, times the completed share
        of a talk: three different lines of one's own that were answered complete it. "success": 1
        for a goal score above 6. NaN if the judge failed and `on_judge_error="flag"`.

    Ends:
        If a side leaves or both do nothing in a row: terminated. After 20 acts in total (10 turns,
        or 20 in self-chat): truncated, unless it is a success, a goal score above 6.

    Tasks and splits:
        A task is `pairing-side`; `train`, `val`, `test` by a digest of the situation, `hard` as in
        the paper, `all`. SOTOPIA-pi: `train`, which is everything.

    Data:
        A folder with the public profiles, or with the conversations of SOTOPIA-pi
        (docs/sotopia.md); "auto" is `$SOTOPIA_DATA`. `info` also has `scores`, `reasons` (a
        sentence for each) and `partner_scores`, empty until known; `overall`, the mean of the
        scores; `partner_reward` and `partner_progress`, reward and progress of the other side, 0
        until known (only self-chat judges the other side, otherwise `partner_reward` is NaN at the
        end); `speaker`, the side whose turn it is, and `agent`, its name; `progress_known`;
        `judge_error`.

    Source:
        Zhou et al., SOTOPIA: Interactive Evaluation for Social Intelligence in Language Agents,
        ICLR 2024.

    Args:
        split: see Tasks and splits.
        data: see Data.
        partner: "echo", "external" (self-chat), "openai:<model>@<base url>", an
            `agent_envs.net.endpoint.Endpoint` or a table of its options, or a `Partner`.
        judge: "none", "openai:<model>@<base url>", an `Endpoint` or a table of its options, or a
            `Judge`.
        on_judge_error: "raise", or "flag" to continue without scores, with `info["judge_error"]`.
        reward: see Reward.
        weights: weights of "weighted" by dimension, 1 by default.
        strict: refuse data with bad records; False leaves them out with a warning.
        max_turns: turn limit; None for 20 acts in total.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option, or no partner or judge.
        MissingAsset: no folder is named, or it is without the files.
        BadAsset: a broken file.
    """

    template = TEMPLATE
    rewards = ("goal", "weighted", "success")
    verbs = (
        ("speak", '{{"action_type": "speak", "argument": {text!j}}}'),
        ("gesture", '{{"action_type": "non-verbal communication", "argument": {text!j}}}'),
        ("do", '{{"action_type": "action", "argument": {text!j}}}'),
        ("wait", '{{"action_type": "none", "argument": ""}}'),
        ("leave", '{{"action_type": "leave", "argument": ""}}'),
    )

    def __init__(
        self,
        *,
        split: str = "train",
        data: str | os.PathLike[str] = "auto",
        partner: str | Mapping[str, Any] | Endpoint | Partner = "",
        judge: str | Mapping[str, Any] | Endpoint | Judge = "",
        on_judge_error: str = "raise",
        reward: str = "goal",
        weights: Mapping[str, float] | None = None,
        strict: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        given = (partner, judge)
        missing = [one in ("", "scripted") or hasattr(one, "needs_game") for one in given]
        plays = None if missing[0] else open_partner(partner)
        scores = None if missing[1] else open_judge(judge)
        folder = find_data(data, "SOTOPIA_DATA")
        if folder is None:
            raise MissingAsset(
                "Sotopia-v0 plays the public data and no folder is named: set data= to one "
                "(docs/sotopia.md), or use Sotopia-v1, whose scenes are generated"
            )
        if any(missing):
            role, known = (
                ("partner", models.PARTNERS[1:]) if missing[0] else ("judge", models.JUDGES)
            )
            raise ValueError(
                f"the public scenes need a {role} that reads them; set {role}=, in a recipe "
                f"env.options.{role}=, to one of {', '.join(known)}"
            )
        self.published = open_published(folder, strict=strict)
        self.reading = self.published.reading
        self.weights = _read_weights(weights or {})
        super().__init__(
            self.published.panel(split), plays, scores, on_judge_error=on_judge_error,
            reward=reward, max_turns=max_turns, render_mode=render_mode,
        )  # fmt: skip

    def open_scene(self, task_id: str) -> tuple[Scene, int, dict[str, str]]:
        """The scene, the agent's side, and whether it is on the list of hard ones."""
        name, _, side = task_id.rpartition("-")
        hard = self.published.situations[name] in (self.published.hard or ())
        difficulty = {"difficulty": "hard" if hard else "other"}
        return self.published.scenes[name], int(side), difficulty

    def is_success(self, scores: Mapping[str, float]) -> bool:
        """A goal score above 6."""
        return scores["goal"] > SUCCESS

    def measure_progress(self, side: int, scores: Mapping[str, float]) -> float:  # noqa: ARG002
        """The goal score as a share of the threshold of success."""
        return min(1.0, scores.get("goal", 0.0) / SUCCESS)

    def pay(self, side: int, scores: Mapping[str, float]) -> float:
        """The reward of a side at the end."""
        if self.reward != "weighted":
            return super().pay(side, scores)
        shares = {n: (scores[n] - low) / (high - low) for n, (low, high) in RANGES.items()}
        mean = sum(self.weights[n] * shares[n] for n in RANGES) / sum(self.weights.values())
        return mean * min(1.0, len(self._list_answered(side)) / _EXCHANGE)

    def _list_answered(self, side: int) -> set[str]:
        """The different lines of a side that the other answered."""
        said = self.talk.said
        return {
            one.act.argument
            for one, after in pairwise(said)
            if one.side == side and one.act.kind == "speak" and after.side != side
            and after.act.kind not in ("leave", "none")
        }  # fmt: skip


class SotopiaFacts(Conversation):
    """Generated talks: the agent must learn from the other's words which deal the other accepts.

    Description:
        The agent has a goal in a scene of one of four families: it buys something with extras
        (bargain), divides things (divide), settles a meeting (meet) or finds a friend in common
        (friend). The other side has private facts, such as its least price and the cost of each
        extra, which decide the offers that it accepts. It only says them in talk. Offers,
        acceptance and leaving bind by the fields of a JSON act; what is said is never read. In
        self-chat the goal changes from turn to turn, to that of the side whose turn it is.

    Observation:
        First the situation, the goal, the forms of acts, and the other's greeting if it begins
        (in scenes of odd numbers). Then its acts, such as `Adele said: "..." [does not accept]`.

    Action:
        JSON with `"say"`, free talk, and at most one of `"ask": "<topic>"`, `"offer": {...}` in the
        form of the scene, `"accept": true` or false, and `"leave": true`. Plain text is talk.

        The scripted partner answers a question by the fact on its topic, and talk without a field
        by the next fact. It refuses a wrong offer with a new fact. It has a patience of 2 (1 in
        `hard`) and leaves at 0: a refused offer costs 1, or 2 if the facts against it were all
        told before; a question or talk that brings nothing new costs 1.

    Validity:
        "format" for a text that is not an act or has an impossible offer, "unknown" for a question
        or an offer that names what the scene does not have, "refused" for accepting without an open
        offer; the other notices none of these. Asking about what was told or repeating a refused
        offer is also "refused", but takes effect. With other partners this holds for repeating an
        act verbatim.

    Progress:
        Half the share of the other's facts that it has told; 1 for a success. With other partners
        than the scripted one 0 until then.

    Anchor:
        Digest of task, open offers, deal, and what the scripted partner has told, refused and has
        left of its patience. With other partners, digest of the conversation.

    Reward:
        At the end, else 0. "goal" (default): the goal score / 10, that is the worth of the deal as
        a share of the best deal that the other accepts. "success": 1 for a success, else 0. NaN if
        the judge failed and `on_judge_error="flag"`.

    Ends:
        A deal or leaving: terminated. A deal worth at least 95% of the best deal that the other
        accepts is a success. After 20 acts in total (10 turns, or 20 in self-chat): truncated.

    Tasks and splits:
        A task is `family-number`. `train` has 400 scenes of each family, `val`, `test` and `hard`
        80. `train`, `val` and `test` share no scene, sentence, name or thing (days and hours are
        the same); `hard` has scenes of its own with the sentences of `test`, five facts and less
        patience.

    Data:
        Generated by number, nothing is read. `info` has the keys of Sotopia-v0. Without a judge
        `scores` has only facts: goal, financial_and_material_benefits, and knowledge, the share of
        the other's facts that were told; a model adds the other four. `agreed` is the deal.

    Source:
        Scores and form of Zhou et al., SOTOPIA, ICLR 2024; scenes and partners are this project's.

    Args:
        split: see Tasks and splits.
        family: one family, or "all".
        constraints: the dial of difficulty, how many facts the other side has, 1 to 5; None for 4,
            and 5 in `hard`.
        partner: "scripted", or as in Sotopia-v0.
        judge: "none" for facts alone, or as in Sotopia-v0.
        on_judge_error: as in Sotopia-v0.
        reward: see Reward.
        typed_only: whether a field is required, so that talk alone is "refused". All acts
            are then listed, except where there are more than 40 offers, and in bargains.
        max_turns: turn limit; None for 20 acts in total.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option.
    """

    template = SHORT
    experts = "agent_envs.sotopia.experts"
    verbs = (
        ("say", '{{"say": {text!j}}}'),
        ("ask", '{{"ask": {topic!j}}}'),
        ("offer", '{{"offer": {terms}}}'),
        ("accept", '{{"accept": true}}'),
        ("leave", '{{"leave": true}}'),
    )

    def __init__(
        self,
        *,
        split: str = "train",
        family: str = "all",
        constraints: int | None = None,
        partner: str | Mapping[str, Any] | Endpoint | Partner = "scripted",
        judge: str | Mapping[str, Any] | Endpoint | Judge = "none",
        on_judge_error: str = "raise",
        reward: str = "goal",
        typed_only: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        panel = games.open_panel(split, family)
        self.constraints = games.CONSTRAINTS[split] if constraints is None else constraints
        if not 1 <= self.constraints <= games.MOST:
            raise ValueError(
                f"constraints, the facts of the other side, must be 1 to {games.MOST}, got "
                f"{self.constraints}"
            )
        self.typed_only = typed_only
        super().__init__(
            panel, open_partner(partner), open_judge(judge), on_judge_error=on_judge_error,
            reward=reward, max_turns=max_turns, render_mode=render_mode,
        )  # fmt: skip

    def open_scene(self, task_id: str) -> tuple[Scene, int, dict[str, str]]:
        """The scene, the agent's side, and the family."""
        scene = games.draw_scene(task_id, self.constraints)
        assert scene.game is not None  # noqa: S101  generated scenes have one
        self.game = scene.game
        return scene, scene.game.asker, {"family": task_id.rpartition("-")[0]}

    def score_facts(self, side: int) -> Verdict:
        """Goal, material benefit, and against the scripted partner knowledge."""
        deal = self.talk.agreed
        share = 0.0 if deal is None else self.game.share(deal, side)
        scores = {
            "financial_and_material_benefits": 5 * share if self.game.material else 0.0,
            "goal": 10 * share,
        }
        told = self._told
        if told is not None and side == self.side:
            scores = {"knowledge": 10 * told} | scores
        return Verdict(scores, {"goal": f"{self._describe_deal() or 'No deal'}."})

    def is_success(self, scores: Mapping[str, float]) -> bool:
        """A deal worth 95% of the best one."""
        return scores["goal"] >= 10 * SHARE

    def measure_progress(self, side: int, scores: Mapping[str, float]) -> float:
        """Half the share of the facts that were told; 1 for a success."""
        if self.is_success(scores):
            return 1.0
        return 0.5 * (self._told or 0.0) if side == self.side else 0.0

    @property
    def _told(self) -> float | None:
        """The share of its facts that a scripted partner has told; None with others."""
        return self.speaker.told if isinstance(self.speaker, Holder) else None

    def list_actions(self) -> list[str]:
        """Questions, offers, accepting and leaving; empty where there are many offers."""
        game, speaker = self.game, self.speaker
        if not self.typed_only or not game.listed or not isinstance(speaker, Holder):
            return []
        deals = list(game.list_deals())
        if len(deals) > _LISTED:
            return []
        acts = [Act("speak", ask=topic) for topic in game.topics]
        acts += [Act("speak", offer=deal) for deal in deals]
        if self.talk.standing[1 - self.side] is not None:
            acts.append(Act("speak", accept=True))
        acts.append(Act("leave"))
        return [act.to_json(game) for act in acts if not speaker.is_idle(act)]


def _read_weights(given: Mapping[str, float]) -> dict[str, float]:
    for name, weight in given.items():
        one_of("weight", name, tuple(RANGES))
        if not 0 <= weight < float("inf"):
            raise ValueError(f"a weight must be at least 0, got {weight} for {name!r}")
    weights = dict.fromkeys(RANGES, 1.0) | {name: float(w) for name, w in given.items()}
    if not sum(weights.values()):
        raise ValueError("at least one weight must be above 0, got none")
    return weights
