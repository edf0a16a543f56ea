"""Why a run does not learn: one cause, what shows it, and the one option to change next.

It reads the episodes of a step, and the log of the steps before; `doctor`, the terminal and the
report say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agent_envs.replies import split_thoughts
from credit.filters import is_dead

if TYPE_CHECKING:
    from trainer.play.records import Episode, Step
    from trainer.recipe import Recipe

STEPS = 5
"""Steps of reinforcement learning that are read."""
_FEW, _MANY, _MOST, _ALL = 0.1, 0.3, 0.5, 0.8  # shares of replies, turns or groups
_SETTLED = 0.02  # nats of entropy of a policy that chooses no more
_FELL = 0.5  # of the former share of valid turns
_STILL = 1e-6  # nats by which an update moves nothing
_TINY = 1e-9  # a learning rate that moves no weight
_LONG = 20  # steps after which a rate may be called too low


class Diagnosis(NamedTuple):
    """The likeliest cause.

    cause: in a few words.
    shown: what shows it, with numbers.
    remedy: what to change, with the option's name.
    """

    cause: str
    shown: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.cause}: {self.shown}; {self.remedy}"


@dataclass(frozen=True)
class Evidence:
    """What a diagnosis reads.

    Attributes:
        recipe: The recipe.
        episodes: The rollouts of the last step.
        lines: The log of reinforcement learning up to that step.
        start: Success in the evaluation before reinforcement learning, None if not known.
    """

    recipe: Recipe
    episodes: Sequence[Episode]
    lines: Sequence[dict[str, Any]] = ()
    start: float | None = None

    @cached_property
    def steps(self) -> list[Step]:
        """All turns."""
        return [step for episode in self.episodes for step in episode.steps]

    @cached_property
    def reasons(self) -> Counter[str]:
        """Turns by the reason why they are invalid, "" if valid."""
        return Counter(step.invalid_reason for step in self.steps)

    @cached_property
    def dead(self) -> float:
        """Share of the groups whose outcomes are equal, over the last steps."""
        groups = [episode.group for episode in self.episodes]
        now = float(np.mean(is_dead([one.outcome for one in self.episodes], groups)))
        return self.mean("dead_groups", now)

    @cached_property
    def success(self) -> float:
        """Share of solved rollouts over the last steps."""
        return self.mean("success", float(np.mean([one.success for one in self.episodes])))

    def share(self, holds: Callable[[Step], bool]) -> float:
        """Share of the turns of which something holds."""
        return sum(map(holds, self.steps)) / max(len(self.steps), 1)

    def mean(self, key: str, now: float) -> float:
        """Mean of a logged value over the last steps; `now` if there is no log."""
        values = [line[key] for line in self.lines[-STEPS:] if line.get(key) is not None]
        return float(np.mean(values)) if values else now

    def list_invalid(self, count: int = 3) -> list[tuple[str, str, int]]:
        """The commonest invalid actions with their reasons and numbers of turns."""
        found = Counter(
            (step.action or step.reply, step.invalid_reason)
            for step in self.steps
            if not step.valid
        )
        return [(text, reason, times) for (text, reason), times in found.most_common(count)]


def diagnose(evidence: Evidence) -> Diagnosis | None:
    """The first cause, or None: what changed, what ends too early or is solved, then the turn's."""
    if not evidence.steps:
        return None
    for rule in (
        find_fall, find_full_context, find_overfit, find_easy_tasks, find_cut_replies,
        find_wrong_form, find_collapse, find_wrong_actions, find_misread_reward,
        find_hard_tasks, find_dead_groups, find_standstill, find_no_gain,
    ):  # fmt: skip
        if found := rule(evidence):
            return found
    return None


def find_cut_replies(evidence: Evidence) -> Diagnosis | None:
    """Replies that end at their limit, in or after a thought."""
    limit = evidence.recipe.sampling.max_reply_tokens
    cut = evidence.share(lambda step: len(step.reply_ids) >= limit and not step.valid)
    wrong = 1 - evidence.reasons[""] / len(evidence.steps)
    if cut < max(_FEW, wrong / 2):  # a few may be the very actions that solve the task
        return None
    thinking = evidence.share(lambda step: _is_in_thought(step.reply))
    shown = (
        f"{cut:.0%} of the replies are invalid and have all of sampling.max_reply_tokens={limit}"
    )
    if thinking >= cut / 2:
        return Diagnosis(
            "thoughts are longer than a reply may be",
            f"{shown}, most of them inside a thought",
            "raise sampling.max_reply_tokens, or, if the model's template can, set "
            "policy.template.enable_thinking=false",
        )
    return Diagnosis("replies are cut", shown, "raise sampling.max_reply_tokens")


def find_wrong_form(evidence: Evidence) -> Diagnosis | None:
    """Replies that are no action at all."""
    share = evidence.reasons["format"] / len(evidence.steps)
    if share < _MOST:
        return None
    (reply, _, _), *_ = [one for one in evidence.list_invalid(9) if one[1] == "format"]
    learns = "sft.steps" if evidence.recipe.sft.steps == 0 else "more sft.steps"
    return Diagnosis(
        "replies do not have the form that the environment reads",
        f'{share:.0%} of the turns are no action ("format"), the commonest is {reply!r:.80}',
        f"add {learns}, take a model that follows instructions, or look at policy.template and "
        "prompt.template",
    )


def find_full_context(evidence: Evidence) -> Diagnosis | None:
    """Episodes that end because the conversation is too long."""
    cut = np.mean([one.stopped for one in evidence.episodes])
    if cut < _MANY:
        return None
    limit = evidence.recipe.sampling.max_tokens
    return Diagnosis(
        "episodes end before the task can",
        f"{cut:.0%} have no room for another reply, at sampling.max_tokens={limit}",
        'raise sampling.max_tokens, or set prompt.context="turn"',
    )


def find_collapse(evidence: Evidence) -> Diagnosis | None:
    """Rollouts of a group that are all the same."""
    now = float(np.mean([step.entropy for step in evidence.steps]))
    groups: dict[int, set[tuple[str, ...]]] = {}
    for one in evidence.episodes:
        groups.setdefault(one.group, set()).add(tuple(step.reply for step in one.steps))
    alike = float(np.mean([len(plays) == 1 for plays in groups.values()]))
    same = evidence.mean("identical_groups", alike)
    solved = evidence.success >= 1 - (1 - _ALL) / 2  # there is little left to explore for
    if same < _ALL or solved or evidence.recipe.sampling.rollouts == 1:
        return None
    shown = (
        f"in {same:.0%} of the groups all rollouts have the same replies, entropy {now:.2g} nats"
    )
    if len(evidence.lines) < STEPS or evidence.lines[0].get("entropy", now) < _SETTLED:
        return Diagnosis(
            "the policy is nearly deterministic from the start",
            shown,
            "raise sampling.temperature, or take fewer sft.steps",
        )
    return Diagnosis(
        "the policy has become nearly deterministic",
        shown,
        "stop it and --resume with a lower update.learning_rate or an update.entropy above 0, or "
        "train anew with update.kl",
    )


def find_wrong_actions(evidence: Evidence) -> Diagnosis | None:
    """Actions in the right form that do not exist or are not possible."""
    share = sum(evidence.reasons[reason] for reason in ("unknown", "refused")) / len(evidence.steps)
    if share < _MOST:
        return None
    named = ", ".join(f"{text!r:.40} ({times})" for text, _, times in evidence.list_invalid())
    warm = f"add sft.steps (now {evidence.recipe.sft.steps})"
    free = evidence.recipe.sampling.decode == "free"
    return Diagnosis(
        "most actions are not possible",
        f"{share:.0%} of the turns are refused or unknown actions, most often {named}",
        f"set sampling.decode=admissible if the environment lists its actions, else {warm}"
        if free
        else f"{warm}, and look at the actions that the environment lists",
    )


def find_fall(evidence: Evidence) -> Diagnosis | None:
    """A policy that forgets what it could before the first update; not one that thinks for long."""
    if len(evidence.lines) < STEPS:
        return None
    first, now = evidence.lines[0]["valid"], evidence.share(lambda step: step.valid)
    thinks = evidence.share(lambda step: not step.valid and _is_in_thought(step.reply))
    if now >= _FELL * first or thinks >= (1 - now) / 2:
        return None
    rate = evidence.recipe.update.learning_rate
    return Diagnosis(
        "the policy forgets what it could",
        f"valid turns fell from {first:.0%} to {now:.0%} in {len(evidence.lines)} steps",
        f"lower update.learning_rate (now {rate:g}), or train with update.kl",
    )


def find_misread_reward(evidence: Evidence) -> Diagnosis | None:
    """Outcomes that pay failures as well as successes."""
    success = np.array([one.success for one in evidence.episodes])
    outcome = np.array([one.outcome for one in evidence.episodes])
    paid = outcome[~success]
    if success.all() or (success.any() and outcome[success].mean() > paid.mean()):
        return None
    if not success.any() and (paid.max() < 1 or evidence.mean("success", 0.0) > 0):
        return None  # partial rewards, and nothing solved in this step
    solved = f"{outcome[success].mean():.2g}" if success.any() else "unknown: there is none"
    return Diagnosis(
        "the reward does not pay success",
        f"the mean outcome of a solved episode is {solved}, of an unsolved one {paid.mean():.2g}, "
        f"at most {paid.max():.2g}",
        "look at the environment's reward and success (env.options.reward, env.signals)",
    )


def find_easy_tasks(evidence: Evidence) -> Diagnosis | None:
    """Tasks that are all solved."""
    if evidence.success < 1 - (1 - _ALL) / 4 or evidence.dead < _ALL:
        return None
    return Diagnosis(
        "the tasks are solved",
        f"success {evidence.success:.0%}, and {evidence.dead:.0%} of the groups have equal "
        "outcomes",
        "take harder tasks (env.split, env.options)",
    )


def find_hard_tasks(evidence: Evidence) -> Diagnosis | None:
    """Tasks that are never solved."""
    if evidence.success > 0 or evidence.dead < _ALL:
        return None
    ended = np.mean([one.truncated and not one.stopped for one in evidence.episodes])
    most = max(len(one.steps) for one in evidence.episodes)
    long = f"; {ended:.0%} of the episodes end at a limit of {most} turns" if ended >= _MOST else ""
    return Diagnosis(
        "no task is ever solved",
        f"success 0%, and {evidence.dead:.0%} of the groups have equal outcomes{long}",
        ("raise env.max_turns, " if long else "")
        + f"add sft.steps (now {evidence.recipe.sft.steps}) or take easier tasks",
    )


def find_overfit(evidence: Evidence) -> Diagnosis | None:
    """Tasks that are learned by heart, in the warm start or since."""
    held_out = [line["eval_success"] for line in evidence.lines if "eval_success" in line]
    if not held_out or evidence.success < _MANY or held_out[-1] > evidence.success * _MANY:
        return None
    first = float(np.mean([line["success"] for line in evidence.lines[:STEPS]]))
    if not evidence.recipe.sft.steps and evidence.success < first + _MANY:
        return None  # nothing was learned: a greedy policy differs from a sampled one
    return Diagnosis(
        "what is learned does not hold for other tasks",
        f"success {evidence.success:.0%} in training, and {held_out[-1]:.0%} in the evaluation",
        "train on more, and more varied, tasks (env.games, env.options), or look whether "
        "the tasks of eval.split ask for something that training does not show",
    )


def find_dead_groups(evidence: Evidence) -> Diagnosis | None:
    """Groups whose rollouts end alike, though tasks differ."""
    if evidence.dead <= _ALL:
        return None
    return Diagnosis(
        "the rollouts of a task end alike",
        f"{evidence.dead:.0%} of the groups have equal outcomes, which leaves little to learn",
        f"train anew with more sampling.rollouts (now {evidence.recipe.sampling.rollouts}), "
        "another sampling.temperature or other tasks",
    )


def find_standstill(evidence: Evidence) -> Diagnosis | None:
    """Updates that change nothing.

    The KL of an update is measured before each optimiser step: of a single one it is always 0, and
    then the learning rate tells, by which AdamW moves a weight at most.
    """
    if len(evidence.lines) < _LONG:
        return None
    update, turns = evidence.recipe.update, evidence.recipe.prompt.context == "turn"
    rows = len(evidence.steps if turns else evidence.episodes)
    moved, rate = evidence.mean("approx_kl", 1.0), evidence.mean("learning_rate", 1.0)
    if update.epochs > 1 or 0 < update.minibatch < rows:
        still, shown = moved <= _STILL, f"a step moves the policy by {moved:.1g} nats (approx_kl)"
    else:
        still, shown = rate <= _TINY, f"a step moves a weight by at most {rate:.1g}"
    if not still:
        return None
    return Diagnosis(
        "the updates change nothing",
        shown,
        f"raise update.learning_rate (now {update.learning_rate:g})",
    )


def find_no_gain(evidence: Evidence) -> Diagnosis | None:
    """Success that an evaluation after the last step finds no higher than before the first one.

    Where outcomes are scores, they may have risen all the same.
    """
    start, steps = evidence.start, len(evidence.lines)
    now = evidence.lines[-1].get("eval_success") if evidence.lines else None
    graded = any(one.outcome not in {0.0, 1.0} for one in evidence.episodes)
    if start is None or now is None or graded or steps < 2 * STEPS or start < now or start == 1:
        return None
    first, last = (
        float(np.mean([line["success"] for line in part]))
        for part in (evidence.lines[:STEPS], evidence.lines[-STEPS:])
    )
    update = evidence.recipe.update
    return Diagnosis(
        "reinforcement learning has not raised the success in the evaluation",
        f"{start:.0%} before it, {now:.0%} after {steps} steps; in training {first:.0%} "
        f"in the first steps and {last:.0%} in the last",
        "train on more, and more varied, tasks (env.games, env.options)"
        if last > first + _FEW
        else "take more run.steps, another update.learning_rate (now "
        f"{update.learning_rate:g}), or a start that solves more of the tasks",
    )


def _is_in_thought(reply: str) -> bool:
    """Whether a reply ends inside a thought."""
    return not split_thoughts(reply).said.strip() and bool(reply.strip())


def split_log(
    lines: Sequence[dict[str, Any]], until: int
) -> tuple[float | None, list[dict[str, Any]]]:
    """The success before reinforcement learning, None if not evaluated, and its lines to a step."""
    done = [line for line in lines if line["step"] <= until]
    before, learned = (
        [line for line in done if (line.get("stage") == "rl") == improves]
        for improves in (False, True)
    )
    starts = [line["eval_success"] for line in before if "eval_success" in line]
    return (starts[-1] if starts else None), learned


class Watch:
    """Diagnoses a running run, at every fifth step.

    Args:
        recipe: The recipe.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.lines: list[dict[str, Any]] = []
        self.played: Sequence[Episode] = ()
        self.start: float | None = None
        self.cause = ""

    def recall(self, lines: Sequence[dict[str, Any]], step: int) -> None:
        """Go on from the log of a run that stopped after a step."""
        self.start, self.lines = split_log(lines, step)

    def note_evaluation(self, success: float) -> None:
        """Note the success of an evaluation after the last step, or before the first."""
        if self.lines:
            self.lines[-1] = self.lines[-1] | {"eval_success": success}
        else:
            self.start = success

    def note_step(self, played: Sequence[Episode], values: dict[str, Any]) -> Diagnosis | None:
        """The diagnosis after a step with these rollouts and values, if it is a new one."""
        self.lines.append(values)
        self.played = played
        return self.conclude() if len(self.lines) % STEPS == 0 else None

    def conclude(self) -> Diagnosis | None:
        """The diagnosis of what is noted, if it is a new one; None before the fifth step."""
        if len(self.lines) < STEPS:
            return None
        found = diagnose(Evidence(self.recipe, self.played, self.lines, self.start))
        before, self.cause = self.cause, found.cause if found else ""
        return None if self.cause == before else found
