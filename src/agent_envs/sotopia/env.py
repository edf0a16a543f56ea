"""Sotopia-v0: conversations in which two characters follow private goals."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from agent_envs.assets import find_data
from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import one_of
from agent_envs.sotopia import families
from agent_envs.sotopia.acts import parse_act
from agent_envs.sotopia.models import open_judge, open_partner
from agent_envs.sotopia.prompt import TEMPLATE
from agent_envs.sotopia.published import open_published
from agent_envs.sotopia.rules import RANGES, JudgeError, Verdict, find_told_facts
from agent_envs.sotopia.talk import Talk

if TYPE_CHECKING:
    import os

    from agent_envs.endpoint import Endpoint
    from agent_envs.sotopia.acts import Act
    from agent_envs.sotopia.rules import Judge
    from agent_envs.sotopia.scene import Deal, Scene
    from agent_envs.sotopia.scripted import Partner, Speaker

REWARDS = ("goal", "weighted", "success")
ON_JUDGE_ERROR = ("raise", "flag")
WITHOUT_GAME = {"partner": "echo", "judge": "none"}  # that also know scenes of text alone
ACTS = 20
_UNKNOWN = float("nan")
SUCCESS = 6.0  # iStar's threshold: success is a goal score above it


class Sotopia(AgentEnv):
    """Talks between two characters with private goals and partial knowledge of each other.

    Description:
        The agent plays one side of a scene: it has a character, a secret and a goal, sees as much
        of the other as their relationship allows, and talks, acts or leaves. The other side is a
        scripted character, a model behind an endpoint, an echo, or played by the caller, too
        (self-chat); then the goal changes from turn to turn, to that of the side whose turn it is.
        At the end a judge gives seven scores: rules for generated scenes, or a model.

    Observation:
        First the situation, the agent's own character, what is known of the other, the goal, and
        the other's first act if it begins (side 0 begins). Then the other's acts, such as
        `Adele said: "..."`, `Adele [action] ...`, `Adele left the conversation`.

    Action:
        JSON `{"action_type": "speak", "argument": "..."}` with the types speak, non-verbal
        communication, action, leave and none; or plain text, which is a spoken line.

        In generated scenes the speaker can make binding statements by fields. `"accept": true`
        accepts the other's open offer, `"accept": false` declines it and withdraws one's own, and
        `"offer"` proposes:
        `{"price": 40}` (bargain), `{"monthly": 20}` (donation), `{"keep": {"lamp": 2, "rug": 0}}`
        (divide; the rest goes to the other), `{"hours": 3, "return": "dinner"}` (favour),
        `{"day": "Tuesday", "hour": 15}` (schedule), `{"friend": "Anouk"}` (friend). The first
        observation shows the form for the scene. Fields are binding at once, and the words beside
        them are not interpreted.

        Words alone are not binding at once. They are interpreted (see `reading`). When both sides
        have accepted the same terms, each side that did so in words gets a notice, such as `You
        agreed to this: $40. Say otherwise in your next turn to withdraw.` The deal is binding when
        each of these sides has agreed again, named the same terms, done nothing or left. A refusal,
        a hedge, other terms and unclear words withdraw; everything else keeps it open. Newer terms
        of either side replace terms that are not yet binding.

    Validity:
        "format" for a text that is not an act, lacks its argument or has an impossible offer, and
        "refused" for accepting without an open offer; the other notices neither. Repeating an
        earlier act of one's own verbatim is also "refused", but takes effect: the other hears it.

    Progress:
        The rule judge's current goal score divided by 6, at most 1. The goal score is that of the
        deal, or a quarter of the score of the open terms. It can be 1 without success: before the
        talk has ended, and if the score is exactly 6 (a success exceeds it). With another judge it
        is 0 until the end, and `info["progress_known"]` is False.

    Anchor:
        Digest of everything that can change the effect of an act: open and binding terms, the
        scripted partner's mood, and the agent's acts so far, since repeating one is invalid. With
        `reward="weighted"` also the count of each act and the facts that the other told. With
        other partners, digest of the conversation.

    Reward:
        At the end, else 0. "goal" (default): the goal score / 10. "weighted": the mean of all
        scores, each scaled to [0, 1] by its range, weighted by `weights`, times the completed share
        of a talk. A deal, or three different lines of one's own that were answered, complete a
        talk; leaving at once gives 0. "success": 1 for a goal score above 6. NaN if the judge
        failed and `on_judge_error="flag"`.

    Ends:
        If a side leaves or both do nothing in a row: terminated. After 20 acts in total (10 turns,
        or 20 in self-chat): truncated, unless it is a success, a goal score above 6.

    Tasks and splits:
        A task is a scene and a side. Generated: `family-number-side`, families bargain, divide,
        donation, favour, friend, schedule; `train`, `val` and `test` share no subject, `hard` are
        those of `test` with a small range and a stubborn or impatient partner, `all` is everything.
        Public data: `pairing-side`; `train`, `val`, `test` by a digest of the situation, `hard`
        as in the paper, `all`.

    Data:
        `data="auto"`: the folder `$SOTOPIA_DATA` if it is set, otherwise generated scenes.
        "embedded" or a folder with the public profiles selects one. The rule judge and scripted
        partners do not support the public scenes, so these need `partner` and `judge`.
        `info` also has `scores`, `reasons` (a sentence for each) and `partner_scores`, empty until
        known; `overall`, the mean of the scores; `partner_reward` and `partner_progress`, reward
        and progress of the other side, 0 until known (in self-chat with the rules, progress is
        known at every turn; a model judges the other side only in self-chat, otherwise
        `partner_reward` is NaN at the end); `agreed`, the binding terms; `pending`, terms that
        wait for a confirmation and can be withdrawn; `speaker`, the side whose turn it is;
        `progress_known`; `judge_error`.

    Source:
        Zhou et al., SOTOPIA: Interactive Evaluation for Social Intelligence in Language Agents,
        ICLR 2024. Generated scenes, scripted partners and rules are this project's.

    Args:
        split: see Tasks and splits.
        data: see Data.
        family: one family of generated scenes, or "all".
        partner: "scripted", "scripted:<temper>" (stubborn, generous, impatient, fair), "echo",
            "external" (self-chat), "openai:<model>@<base url>", an `agent_envs.endpoint.Endpoint`
            or a table of its options, or a `Partner`.
        judge: "rules", "none", "openai:<model>@<base url>", an `Endpoint` or a table of its
            options, or a `Judge`.
        on_judge_error: "raise", or "flag" to continue without scores, with `info["judge_error"]`.
        reward: see Reward.
        weights: weights of "weighted" by dimension, 1 by default.
        max_turns: turn limit; None for 20 acts in total.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option, or a partner or judge that does not support these scenes.
        MissingAsset: a folder without the files.
        BadAsset: a broken file.
    """

    template = TEMPLATE
    experts = "agent_envs.sotopia.experts"

    def __init__(
        self,
        *,
        split: str = "train",
        data: str | os.PathLike[str] = "auto",
        family: str = "all",
        partner: str | Mapping[str, Any] | Endpoint | Partner = "scripted",
        judge: str | Mapping[str, Any] | Endpoint | Judge = "rules",
        on_judge_error: str = "raise",
        reward: str = "goal",
        weights: Mapping[str, float] | None = None,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        one_of("reward", reward, REWARDS)
        one_of("on_judge_error", on_judge_error, ON_JUDGE_ERROR)
        self.partner, self.judge = open_partner(partner), open_judge(judge)
        self.external = self.partner is None
        self.waits = any(getattr(one, "waits", False) for one in (self.partner, self.judge))
        folder = find_data(data, "SOTOPIA_DATA")
        self.published = None if folder is None else open_published(folder)
        if self.published is not None and family != "all":
            raise ValueError(f"only generated scenes have families, got family={family!r}")
        panel = (
            self.published.panel(split) if self.published else families.open_panel(split, family)
        )
        turns = ACTS // (1 if self.external else 2) if max_turns is None else max_turns
        super().__init__(panel, max_turns=turns, render_mode=render_mode)
        self.reward, self.weights = reward, _read_weights(weights or {})
        self.graded = reward != "success"
        self.flags_errors = on_judge_error == "flag"
        scene, _ = self._open_scene(panel.task_ids[0])
        for role, other in WITHOUT_GAME.items():
            if scene.game is None and getattr(getattr(self, role), "needs_game", False):
                raise ValueError(
                    f"this {role} only knows generated scenes, got {scene.codename!r}; use "
                    f'{role}="openai:<model>@<base url>", "{other}" or one of your own'
                )

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The scene of a task, up to the agent's first act."""
        scene, self.side = self._open_scene(task_id)
        self.talk = Talk(scene, ahead=self.max_turns * (1 if self.external else 2))
        self.speaker: Speaker | None = None
        if self.partner is not None:
            self.speaker = self.partner.begin(scene, 1 - self.side, self.np_random)
        self.next = 0 if self.external else self.side
        if self.speaker and self.side == 1:
            self._let_partner_act()
        return scene.show_goal(self.next), self._report(self._render_opening(), first=True)

    def act(self, action: str) -> Turn:
        """One act, and the other's answer."""
        side, game = self.next, self.talk.scene.game
        try:
            act = parse_act(action, game, side)
        except ValueError as error:
            return self.reject("format", str(error))
        wrong = self.talk.find_obstacle(side, act)
        if wrong:
            return self.reject("refused", wrong)
        repeated = self.talk.is_repetition(side, act)
        self.talk = self._count_turns(self.max_turns - self.turn).after(side, act)
        if self.external:
            self.next = 1 - side
            self.goal = self.talk.scene.show_goal(self.next)
        elif not self.talk.is_over and not (self.side == 1 and self._is_last_turn()):
            self._let_partner_act()
        return self._report(self._render_latest(side), "refused" if repeated else "")

    def reject(self, reason: str, notice: str) -> Turn:
        """A turn that the other does not notice."""
        self.talk = self._count_turns(self.max_turns - self.turn - 1)
        return self._report(self._add_notice(notice), reason)

    def _count_turns(self, turns: int) -> Talk:
        """The talk at the caller's turn, with `turns` turns left."""
        ahead = max(0, turns if self.external else 2 * turns - (self.side == 1))
        return self.talk if self.talk.ahead == ahead else self.talk._replace(ahead=ahead)

    def _open_scene(self, task_id: str) -> tuple[Scene, int]:
        name, _, side = task_id.rpartition("-")
        if self.published is not None:
            return self.published.scenes[name], int(side)
        family, _, number = name.rpartition("-")
        return families.draw_scene(family, int(number)), int(side)

    def _let_partner_act(self) -> None:
        assert self.speaker is not None  # noqa: S101  only called if there is one
        act: Act = self.speaker.reply(self.talk)
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
        return self._add_notice(self.talk.render(latest, 1 - latest.side))

    def _add_notice(self, text: str) -> str:
        """A text, followed by the notice of terms that can still be withdrawn."""
        notice = self.talk.render_notice(self.next)
        return f"{text}\n{notice}" if notice else text

    def _report(self, observation: str, invalid: str = "", *, first: bool = False) -> Turn:
        ended = self.talk.is_over
        over = ended or (not first and self._is_last_turn())
        live = self.judge is not None and self.judge.live
        verdict, error = self._judge(self.side, wanted=over or live)
        others, failed = self._report_partner(error, over=over, live=live)
        goal = verdict.scores.get("goal", 0.0)
        success = over and goal > SUCCESS
        extra = {
            "scores": dict(verdict.scores),
            "reasons": dict(verdict.reasons),
            "overall": _average(verdict.scores),
            **others,
            "agreed": self._describe(self.talk.agreed),
            "pending": self._describe(self.talk.open and self.talk.open.deal),
            "speaker": self.next,
            "progress_known": bool(verdict.scores),
            "judge_error": error or failed,
        }
        return Turn(
            observation,
            valid=not invalid,
            invalid_reason=invalid,
            progress=_measure_progress(verdict.scores),
            anchor=self._digest_state(),
            reward=self._pay(self.side, verdict.scores, error) if over else 0.0,
            success=success,
            failure=ended and not success,
            extra=extra,
        )

    def _report_partner(self, error: str, *, over: bool, live: bool) -> tuple[dict[str, Any], str]:
        """What the info has about the other side's scores, and the judge's error.

        They are wanted at the end if they cost nothing, or if the caller plays the other side, too.
        """
        paid = over and not error and (live or self.external)
        verdict, failed = self._judge(1 - self.side, wanted=paid or (self.external and live))
        reward = _UNKNOWN if over and self.judge is not None else 0.0
        if paid:
            reward = self._pay(1 - self.side, verdict.scores, failed)
        return {
            "partner_scores": dict(verdict.scores) if over else {},
            "partner_progress": _measure_progress(verdict.scores),
            "partner_reward": reward,
        }, failed

    def _judge(self, side: int, *, wanted: bool) -> tuple[Verdict, str]:
        """The current scores of a side, if wanted, and the judge's error."""
        if self.judge is None or not wanted:
            return Verdict({}, {}), ""
        try:
            return self.judge.judge(self.talk, side), ""
        except JudgeError as error:
            if not self.flags_errors:
                raise
            return Verdict({}, {}), str(error)

    def _describe(self, deal: Deal | None) -> str:
        game = self.talk.scene.game
        return "" if game is None or deal is None else game.wordings[self.side].describe(deal)

    def _digest_state(self) -> str:
        """Digest of everything that can change the effect of an act, including valid, reward, end.

        With a scripted partner: the terms that both can accept or withdraw, its mood, and earlier
        acts, which would be repetitions; if scores of the conversation count, also their numbers
        and the facts learnt. Otherwise the whole conversation.
        """
        talk, side = self.talk, self.side
        facts: tuple[Any, ...] = self.task_id, self.next, talk.is_over
        state = "" if self.speaker is None else self.speaker.state
        if state:
            own = [_write_act(act) for who, act in talk.said if who == side and act.argument]
            facts += talk.standing, talk.firm, talk.fresh, talk.pending, talk.agreed
            facts += talk.accepted_by, state
            if self.reward == "weighted":
                facts += sorted(own), find_told_facts(talk, 1 - side)
            else:
                facts += (sorted(set(own)),)
        else:
            facts += talk.said
        return blake2b(repr(facts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()

    def _pay(self, side: int, scores: dict[str, float], error: str) -> float:
        if error:
            return float("nan")
        if not scores:
            return 0.0
        if self.reward == "weighted":
            return self.talk.measure_exchange(side) * _weigh(scores, self.weights)
        goal = scores["goal"]
        return goal / RANGES["goal"][1] if self.reward == "goal" else float(goal > SUCCESS)


@lru_cache(maxsize=1024)
def _write_act(act: Act) -> str:
    return repr(act)


def _measure_progress(scores: Mapping[str, float]) -> float:
    """The goal score as a share of the threshold of success: 1 at 6."""
    return min(1.0, scores.get("goal", 0.0) / SUCCESS)


def _read_weights(given: Mapping[str, float]) -> dict[str, float]:
    for name, weight in given.items():
        one_of("weight", name, tuple(RANGES))
        if not 0 <= weight < float("inf"):
            raise ValueError(f"a weight must be at least 0, got {weight} for {name!r}")
    weights = dict.fromkeys(RANGES, 1.0) | {name: float(w) for name, w in given.items()}
    if not sum(weights.values()):
        raise ValueError("at least one weight must be above 0, got none")
    return weights


def _weigh(scores: dict[str, float], weights: dict[str, float]) -> float:
    """The weighted mean of the scores, each scaled to [0, 1] by its range."""
    shares = {n: (scores[n] - low) / (high - low) for n, (low, high) in RANGES.items()}
    return sum(weights[n] * shares[n] for n in RANGES) / sum(weights.values())


def _average(scores: dict[str, float]) -> float:
    return sum(scores.values()) / len(RANGES) if scores else 0.0
