"""Why a run does not learn: one cause for each planted failure, and none for a healthy run."""

from dataclasses import replace

import pytest

from trainer import recipe
from trainer.play.records import Episode, Step
from trainer.run.diagnosis import STEPS, Evidence, Watch, diagnose

MADE = recipe.load("alfworld grpo pocket", ["sft.steps=0", "env.max_turns=4"])
LIMIT = MADE.sampling.max_reply_tokens
HEALTHY = {
    "valid": 0.9, "dead_groups": 0.3, "identical_groups": 0.0, "success": 0.4, "entropy": 0.5,
    "approx_kl": 1e-3,
}  # fmt: skip


def turn(reply="<think>so</think><action>look</action>", action="look", reason="", length=10):
    return Step(
        observation="a room", reply=reply, action=action, prompt_ids=[1], reply_ids=[1] * length,
        entropies=[0.5] * length, valid=not reason, invalid_reason=reason,
    )  # fmt: skip


def play(outcomes, turns=None, *, distinct=True, success=None, **rest):
    """A group for each row of outcomes."""
    made = []
    for group, row in enumerate(outcomes):
        for number, outcome in enumerate(row):
            steps = [replace(one) for one in turns or [turn()] * 2]
            if distinct:
                steps[0].reply += f" {number}"
            solved = outcome > 0 if success is None else success
            made.append(
                Episode("task", "goal", group, 0, "history", steps, solved, outcome, **rest)
            )
    return made


def log(steps=STEPS, **changed):
    return [HEALTHY | changed for _ in range(steps)]


MIXED = [(0.0, 1.0), (1.0, 0.0)]
LOST, WON = [(0.0, 0.0)] * 2, [(1.0, 1.0)] * 2
THOUGHT = turn("<think>" + "well " * 30, "", "format", LIMIT)
PLANTED = {
    "too short replies": (
        play(MIXED, [turn("Let me say what I", "", "format", LIMIT)] * 2), [],
        "replies are cut", "raise sampling.max_reply_tokens",
    ),
    "a thinking template": (
        play(MIXED, [THOUGHT] * 2), [],
        "thoughts are longer", "policy.template.enable_thinking=false",
    ),
    "a wrong form of replies": (
        play(MIXED, [turn("I would look around.", "", "format")] * 2), [],
        "do not have the form", "add sft.steps",
    ),
    "too short a context": (
        play(MIXED, truncated=True, stopped=True), [],
        "episodes end before the task can", "raise sampling.max_tokens",
    ),
    "a temperature of almost zero": (
        play(MIXED, distinct=False), [],
        "nearly deterministic from the start", "raise sampling.temperature",
    ),
    "a collapse in training": (
        play(LOST, distinct=False), log(12, identical_groups=0.9),
        "has become nearly deterministic", "lower update.learning_rate",
    ),
    "misspelt words": (
        play(MIXED, [turn(action="opne drawer 1", reason="unknown")] * 3), [],
        "most actions are not possible", "sampling.decode=admissible",
    ),
    "a rate that is too high": (
        play(LOST, [turn(action="zzz", reason="unknown")] * 2),
        [*log(5), *log(5, valid=0.2, dead_groups=1.0, success=0.0)],
        "forgets what it could", "lower update.learning_rate",
    ),
    "a reward that pays failure": (
        play([(0.0, 1.0), (0.0, 1.0)], success=False), log(success=0.0),
        "the reward does not pay success", "env.signals",
    ),
    "tasks learned by heart": (
        play(MIXED), log(success=0.2) + log(success=0.6, eval_success=0.02),
        "does not hold for other tasks", "more varied, tasks",
    ),
    "tasks that are solved": (
        play(WON), log(success=1.0, dead_groups=1.0),
        "the tasks are solved", "take harder tasks",
    ),
    "tasks that are too hard": (
        play(LOST), log(success=0.0, dead_groups=1.0),
        "no task is ever solved", "take easier tasks",
    ),
    "too few turns": (
        play(LOST, [turn()] * 4, truncated=True), log(success=0.0, dead_groups=1.0),
        "no task is ever solved", "raise env.max_turns",
    ),
    "groups that end alike": (
        play([(1.0, 1.0), (0.0, 0.0)]), log(success=0.5, dead_groups=0.9),
        "the rollouts of a task end alike", "more sampling.rollouts",
    ),
    "a rate that is too low": (
        play(MIXED), log(20, learning_rate=1e-12),
        "the updates change nothing", "raise update.learning_rate",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_failure_has_its_own_cause_and_an_option_that_exists(name):
    episodes, lines, cause, remedy = PLANTED[name]
    found = diagnose(Evidence(MADE, episodes, lines))
    assert cause in found.cause
    assert remedy in found.remedy


def test_the_kl_of_a_single_optimiser_step_tells_nothing():
    """It is measured before the step."""
    lines = log(20, approx_kl=1e-14, learning_rate=1e-4)
    assert diagnose(Evidence(MADE, play(MIXED), lines)) is None
    several = recipe.load("alfworld grpo pocket", ["sft.steps=0", "update.minibatch=2"])
    found = diagnose(Evidence(several, play(MIXED), lines))
    assert (found.cause, "1e-14 nats" in found.shown) == ("the updates change nothing", True)


def test_equal_replies_are_no_collapse_where_nearly_all_is_solved():
    same = play(MIXED, distinct=False)
    assert diagnose(Evidence(MADE, same, log(success=0.5, identical_groups=0.9)))
    assert not diagnose(Evidence(MADE, same, log(success=0.92, identical_groups=0.9)))


def test_what_was_never_learned_is_not_learned_by_heart():
    lines = log(success=0.5, eval_success=0.0)  # a greedy policy solves less than a sampled one
    assert diagnose(Evidence(MADE, play(MIXED), lines)) is None
    warm = recipe.load("alfworld grpo pocket")
    assert "does not hold" in diagnose(Evidence(warm, play(MIXED), lines)).cause


def test_a_healthy_run_has_no_diagnosis():
    assert diagnose(Evidence(MADE, play(MIXED), log(40))) is None
    assert diagnose(Evidence(MADE, play(MIXED))) is None
    assert diagnose(Evidence(MADE, [])) is None


def test_partial_rewards_before_the_first_success_are_no_misread_reward():
    episodes = play([(0.0, 0.4), (0.2, 0.6)], success=False)
    assert diagnose(Evidence(MADE, episodes, log(success=0.0))) is None


def test_the_commonest_invalid_actions_are_counted():
    turns = [turn(action="opne", reason="unknown")] * 3 + [turn(action="fly", reason="refused")]
    found = Evidence(MADE, play(MIXED, turns)).list_invalid()
    assert found == [("opne", "unknown", 12), ("fly", "refused", 4)]


def test_a_run_is_diagnosed_at_every_fifth_step_and_a_cause_is_told_once():
    watch = Watch(MADE)
    shown = [LOST] * 10 + [MIXED] * 10 + [LOST] * 10
    said = [
        watch.note_step(
            play(one), log(1, success=float(one is MIXED), dead_groups=float(one is LOST))[0]
        )
        for one in shown
    ]
    assert [number for number, one in enumerate(said, 1) if one] == [5, 25]
    assert str(said[4]).startswith("no task is ever solved: success 0%, and 100% of the groups")


def test_a_success_that_has_not_risen_since_the_warm_start_is_told():
    lines = [*log(5, success=0.2), *log(5, success=0.4, eval_success=0.3)]
    found = diagnose(Evidence(MADE, play(MIXED), lines, start=0.3))
    assert found.cause == "reinforcement learning has not raised the success in the evaluation"
    assert "30% before it, 30% after 10 steps; in training 20% in the first steps" in found.shown
    assert "more varied, tasks" in found.remedy  # it has risen in training
    flat = [one | {"success": 0.2} for one in lines]
    assert "take more run.steps" in diagnose(Evidence(MADE, play(MIXED), flat, start=0.3)).remedy
    for start in (None, 0.2, 1.0):  # not known, has risen, nothing was left
        assert diagnose(Evidence(MADE, play(MIXED), lines, start)) is None
    assert diagnose(Evidence(MADE, play(MIXED), lines[1:], start=0.3)) is None  # too early
    later = [*lines, *log(5, success=0.4)]  # that evaluation is of an earlier step
    assert diagnose(Evidence(MADE, play(MIXED), later, start=0.3)) is None
    scores = play([(0.0, 0.6), (1.0, 0.2)])
    assert diagnose(Evidence(MADE, scores, lines, start=0.3)) is None


def test_a_run_that_ends_is_judged_with_its_last_evaluation():
    watch = Watch(MADE)
    assert watch.conclude() is None  # no step was taken
    watch.note_evaluation(0.4)
    for values in log(10):
        assert watch.note_step(play(MIXED), values) is None
    watch.note_evaluation(0.35)
    assert watch.conclude().shown.startswith("40% before it, 35% after 10 steps; in training 40%")
    assert watch.conclude() is None  # told once


def test_a_resumed_run_knows_its_start_and_its_steps():
    lines = [
        {"step": 0, "stage": "start", "eval_success": 0.1},
        {"step": 5, "stage": "sft", "eval_success": 0.4},
        *({"step": 6 + at} | one | {"stage": "rl"} for at, one in enumerate(log(10))),
    ]
    watch = Watch(MADE)
    watch.recall(lines, 14)
    assert len(watch.lines) == 9
    assert watch.note_step(play(MIXED), lines[-1]) is None
    watch.note_evaluation(0.35)
    assert watch.conclude().shown.startswith("40% before it, 35% after 10 steps")
