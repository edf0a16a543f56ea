"""The audits of anchors, rewards and checkers, on environments whose faults are known."""

import itertools
import json
import random
import re
import sys
import time
from math import sqrt
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import lamp
import numpy as np
import pytest
from hallway import Hallway, state

from agent_envs import AgentEnv, FreeText
from agent_envs.testing import say_words
from agent_envs.testing.episodes import Budget
from agent_envs_lab.audits import (
    Case,
    Share,
    audit,
    audit_anchors,
    audit_checker,
    audit_rewards,
    evidence,
    follow_script,
)
from agent_envs_lab.audits.contract import check_contract
from agent_envs_lab.audits.episodes import draw_starts

pytestmark = pytest.mark.slow


class Lever(Hallway):
    """A lever at the left end has to be pulled before the door opens; `shows` it in the anchor."""

    shows = False

    def begin(self, task_id):
        self.pulled = False
        return super().begin(task_id)

    def act(self, action):
        if action == "pull" and self.cell == 0:
            self.pulled = True
            return self.told("Click.")
        if action == "open" and self.cell == self.length and not self.pulled:
            return self.told("It does not move.", valid=False, invalid_reason="refused")
        return super().act(action)

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        listed = [*turn.admissible_actions, *["pull"] * (self.cell == 0)]
        listed = [action for action in listed if action != "open" or self.pulled or not self.shows]
        anchor = f"{turn.anchor} {self.pulled}" if self.shows else turn.anchor
        return turn._replace(anchor=anchor, admissible_actions=listed)


class ShownLever(Lever):
    shows = True


class Fine(Hallway):
    """The anchor also has the cells in the order of the first visits."""

    def begin(self, task_id):
        self.seen = []
        return super().begin(task_id)

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        self.seen += [] if self.cell in self.seen else [self.cell]
        return turn._replace(anchor=f"{turn.anchor} {self.seen}")


class Lurching(Hallway):
    """Walks two cells with a chance of a half, drawn from the generator of the environment."""

    generator = "own"

    def act(self, action):
        draw = self.np_random.random() if self.generator == "own" else random.random()
        if action == "right" and draw < 0.5 and self.cell < self.length:
            self.cell += 1
        return super().act(action)


class GloballyLurching(Lurching):
    generator = "python"


def test_a_key_of_the_state_passes_and_shows_what_the_text_would_hide():
    found = audit_anchors(ShownLever(max_turns=30), tasks=4, episodes=40)
    assert found.passed
    assert found.anchor.diverging == 0
    assert found.anchor.revisited > 100
    assert found.observation.diverging > 0  # "Cell 3." says nothing of the lever
    assert found.witness is None
    assert found.unrepeatable == 0
    assert found.turns > 1000
    assert "anchor" in str(found)


def test_what_an_anchor_hides_is_shown_by_the_shortest_two_ways():
    found = audit_anchors(Lever(max_turns=60), tasks=2, episodes=80, seed=3)
    witness = found.witness
    assert found.anchor.diverging > 0
    assert not found.passed
    assert (witness.action, witness.field) == ("open", "valid")
    env = Lever()
    outcomes = []
    for way in (witness.first, witness.second):
        start = next(s for s in draw_starts(env, 2, 3) if str(s) == witness.start)
        env.reset(seed=start.seed, options=start.options)
        for action in way:
            *_, info = env.step(action)
        assert info["anchor"] == witness.anchor
        outcomes.append(env.step("open")[4]["valid"])
    assert outcomes == [witness.one, witness.other]
    # from a cell, to the lever, back to the door; and straight to the door
    assert sum("pull" in way for way in (witness.first, witness.second)) == 1
    longer = max(witness.first, witness.second, key=len)
    env.reset(seed=start.seed, options=start.options)
    assert len(longer) == env.cell + 1 + env.length
    assert len(min(witness.first, witness.second, key=len)) == env.length - env.cell
    assert "'pull'" in str(found)


@pytest.mark.parametrize("kind", [Fine, type("Chancy", (Fine, Lurching), {})])
def test_anchors_with_an_order_are_told_as_too_fine_and_break_no_rule(kind):
    found = audit_anchors(kind(max_turns=30), tasks=4, episodes=40)
    assert found.passed
    assert found.twins.same == found.twins.compared == 10
    assert "too fine?   10 of 10 pairs" in str(found)
    env, ways = Fine(max_turns=30), (found.twins.one, found.twins.other)
    if kind is Fine:  # without chance the ways can be gone again
        ends = [go(env, start, actions)["anchor"].partition(" ") for start, *actions in ways]
        assert ends[0][0] == ends[1][0]
        assert ends[0][2] != ends[1][2]


def test_pairs_of_anchors_that_there_was_no_time_for_are_told(monkeypatch):
    tick(monkeypatch)  # 200 turns a second, and more than ten turns for a pair
    monkeypatch.setattr(evidence, "EXPLAINING", 1)
    found = audit_anchors(Fine(max_turns=30), tasks=4, episodes=40)
    assert found.passed
    assert found.twins.cut
    assert found.twins.compared < 10
    assert "had equal turns after them, its time was over" in str(found)


def go(env, start, actions):
    env.reset(seed=start.seed, options=start.options)
    return [env.step(action) for action in actions][-1][4]


def test_anchors_of_states_that_lead_apart_are_not_told_as_too_fine():
    found = audit_anchors(ShownLever(max_turns=30), tasks=4, episodes=40)
    assert found.twins.compared == 10
    assert found.twins.same <= 1  # two ways that no continuation happened to tell apart
    assert "keeps GiGPO" not in str(found)


def test_where_nothing_valid_can_be_done_no_anchors_are_told_as_equal():
    class Stuck(Fine):
        def act(self, action):
            self.seen.append(action)
            return self.told("?", valid=False, invalid_reason="unknown")

    assert audit_anchors(Stuck(max_turns=30), tasks=2, episodes=20).twins.compared == 0


@pytest.mark.parametrize("made", [Lurching, GloballyLurching])
def test_chance_is_no_difference(made):
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    found = audit_anchors(made(), tasks=5, episodes=40)
    assert found.passed
    assert found.anchor.revisited > 50
    after = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert before == after


def test_what_no_seed_decides_is_unrepeatable():
    moody = state(lambda *_: {"reward": random.SystemRandom().random()})
    found = audit_anchors(moody, tasks=2, episodes=20)
    assert found.unrepeatable > 0
    assert not found.passed
    assert "when the same is done again" in str(found)


def test_the_turn_limit_is_no_difference():
    closing = state(lambda env, _: {"reward": float(env.turn + 1 >= env.max_turns)})
    closing.max_turns = 5
    assert audit_anchors(closing, tasks=4, episodes=60).passed


def test_the_same_seed_gives_the_same_audit():
    found = [audit_anchors(Lever(), tasks=3, episodes=20, seed=s) for s in (5, 5, 6)]
    assert found[0] == found[1] != found[2]


class Count(gym.Env[str, str]):
    """Someone else's environment: text, no keys of ours, a fault in what it shows."""

    action_space = FreeText(20)
    observation_space = FreeText(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number, self.said = int(self.np_random.integers(1, 9)), 0
        return "Say more or less.", {}

    def step(self, action):
        self.said += action == "more"
        ended = self.said == self.number
        return "Done." if ended else "Go on.", float(ended), ended, False, {}


def test_environments_of_others_are_audited_by_what_they_show():
    found = audit(Count(), actions=say_words(["more", "less"]), tasks=4, episodes=20, players=5)
    assert found.anchors.anchor is None
    assert found.anchors.observation.diverging > 0
    assert "anchor" in found.missing
    assert not found.passed
    assert found.rewards is None
    assert "panel must be a Panel" in found.violation
    assert "info has no 'anchor'" in str(found)
    assert found.anchors.witness.action == "more"  # said often enough, it ends the game
    assert found.json()["anchors"]["anchor"] is None


def test_wilsons_interval_by_hand():
    # z = 1.96, 3 of 10: centre (3 + 1.92) / 13.84, half 1.96 sqrt(3 * 7 / 10 + 0.96) / 13.84
    z = 1.959964
    centre, half = (3 + z**2 / 2) / (10 + z**2), z * sqrt(2.1 + z**2 / 4) / (10 + z**2)
    share = Share(3, 10)
    assert (share.low, share.high) == pytest.approx((centre - half, centre + half), abs=1e-6)
    assert (Share(0, 9).low, Share(9, 9).high) == (0.0, 1.0)
    assert str(share) == "30.0% [10.8%, 60.3%]"


class Generous(Hallway):
    """Any answer opens the door in short hallways."""

    def act(self, action):
        if self.length < 5 and "door" in action:
            return self.told("Open.", reward=1.0, success=True)
        return super().act(action)


def test_players_that_read_nothing_are_told_apart():
    players = {"left": follow_script(["left"]), "two": follow_script(["right", "left"])}
    players["copies"] = lambda rng: lambda observation, info: info["goal"]
    env = Generous(max_turns=4)
    found = audit_rewards(env, players, tasks=6)
    assert list(found.players) == ["random", "left", "two", "copies"]
    copied = found.players["copies"]
    assert (copied.success.count, copied.success.total) == (3, 6)  # lengths 2, 3 and 4 of 2 to 7
    assert copied.mean == pytest.approx(0.5)
    # standard deviation of 1, 1, 1, 0, 0, 0 is sqrt(0.3); 1.96 of it by sqrt(6)
    assert copied.error == pytest.approx(1.959964 * sqrt(0.3 / 6), abs=1e-6)
    assert found.players["left"].success.count == 0
    assert found.too_good == ["copies"]
    above, shown = (audit_rewards(env, players, tasks=6, limit=limit) for limit in (0.3, 0.5))
    assert (found.passed, above.passed, shown.passed) == (False, False, True)
    assert above.too_good == []  # 3 of 6 may be 0.3
    assert "above 10%" in str(found)


def test_a_module_of_players_may_have_the_limit_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "guessed", SimpleNamespace(LIMIT=0.7))
    monkeypatch.setattr(lamp.Lamp, "audits", "guessed", raising=False)
    assert audit_rewards(lamp.Lamp(), tasks=2).limit == 0.7
    assert audit_anchors(lamp.Lamp(), tasks=1, episodes=4).violation == ""


@pytest.mark.parametrize("audited", [audit_anchors, audit_rewards])
def test_the_turns_of_audits_are_held_against_the_rules(audited):
    found = audited(lamp.ListsRefused())
    assert not found.passed
    assert re.match(
        r"step 2 \('leave'\): the action is in info\['admissible_actions'\] and is refused.*"
        r"shown by reset\(seed=\d+, options={'task': 3}\), then 'press', 'leave'$",
        found.violation,
        re.DOTALL,
    )
    assert "not as the contract requires" in str(found)
    assert audited(lamp.Lamp(), tasks=2).violation == ""


def test_what_differs_when_it_is_done_again_is_shown_with_the_episodes():
    found = audit_anchors(lamp.Leftover(), tasks=1, episodes=10)
    assert found.unrepeatable > 0
    assert re.search(r"then ('right', )*'press', reset\(seed=0, options=.*\)$", found.unrepeated)
    assert found.unrepeated in str(found)


def test_what_the_seed_drew_has_to_be_in_the_anchor():
    found = audit_anchors(lamp.HidesDrawUnlisted(), tasks=4, episodes=12, seeds=3)
    assert found.witness.start != found.witness.other_start
    assert audit_anchors(lamp.HidesDrawUnlisted(), tasks=4, episodes=12).passed  # one seed a task
    assert audit_anchors(lamp.Wind(), tasks=4, episodes=12, seeds=3).passed


# Commands with a list, replies without one, pictures.
@pytest.mark.parametrize(
    "env_id",
    ["AlfWorld-v0", "SearchQA-v1", pytest.param("VisualSokoban-v0", marks=pytest.mark.long)],
)
def test_one_turn_is_a_turn_limit_like_any(env_id):
    found = audit(gym.make(env_id, max_turns=1), tasks=2, episodes=4, players=2)
    assert found.violation == ""
    assert (found.verdict, found.anchors.verdict) == ("not shown", "not shown")
    assert "no turns compared" in str(found)
    assert "anchors: not shown (0 revisited pairs, at least 20 are needed)" in str(found)
    assert "info has no 'anchor'" not in str(found)


def tick(monkeypatch):
    """A turn takes 5 ms on any machine."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 200)
    monkeypatch.setattr("agent_envs.testing.episodes.time", clock)
    monkeypatch.setattr("agent_envs_lab.audits.every.time", clock)


@pytest.mark.parametrize(
    ("seconds", "verdicts"),
    [
        (0.0, {"not shown"}),  # nothing was played
        (0.2, {"not shown"}),  # each was cut short
        (300, {"shown"}),
    ],
)
def test_an_audit_keeps_its_time_and_shows_nothing_without_evidence(seconds, verdicts, monkeypatch):
    told = []
    tick(monkeypatch)
    sizes = {"tasks": 3, "episodes": 20, "players": 20 if seconds > 1 else 10_000}
    found = audit(gym.make("EZPoints-v0"), **sizes, seed=1, seconds=seconds, tell=told.append)
    assert set(found.verdicts.values()) == verdicts
    assert found.passed == (found.verdict == "shown")
    assert [one.split(",")[0] for one in told] == ["anchors", "contract", "rewards"]
    assert ("its time was over" in str(found)) == (seconds < 1)


class Failing(Hallway):
    """Fails when it `begin`s, or in its second turn."""

    def __init__(self, fault, begins):
        self.fault, self.begins, self.acts = fault, begins, 0
        super().__init__()

    def begin(self, task_id):
        self.acts = 0
        if self.begins:
            raise self.fault
        return super().begin(task_id)

    def act(self, action):
        self.acts += 1
        if self.acts == 2 and isinstance(self.fault, BaseException):
            raise self.fault
        turn = super().act(action)
        return turn._replace(reward=self.fault) if self.acts == 2 else turn


@pytest.mark.parametrize(
    ("fault", "begins", "says"),
    [
        (KeyError("odd"), False, "KeyError: 'odd'"),
        (KeyError("odd"), True, "KeyError: 'odd'"),
        (UnicodeError("odd"), False, "UnicodeError: odd"),  # a ValueError, as of a wrong option
        (SystemExit(0), False, "RuntimeError: the environment ends the process: SystemExit(0)"),
        (SystemExit(0), True, "RuntimeError: the environment ends the process: SystemExit(0)"),
        (float("nan"), False, "the reward is NaN"),
    ],
)
def test_an_error_of_the_environment_refutes_the_contract(fault, begins, says):
    found = audit(Failing(fault, begins), tasks=2, episodes=4, players=2)
    assert found.verdicts["contract"] == found.verdict == "refuted"
    assert says in found.violation
    assert "shown by reset(" in found.violation
    assert "contract: refuted (" in str(found)
    assert json.dumps(found.json(), default=str)


def test_what_was_refuted_before_the_time_was_over_stays_refuted(monkeypatch):
    tick(monkeypatch)
    with Budget(0.5) as played:
        found = audit_anchors(Hallway(), anchor=lambda *_: "any", tasks=3, episodes=100_000)
    assert (found.cut, found.verdict) == (True, "refuted")
    assert found.witness is not None
    assert played.turns >= found.turns > 0


def test_precision_and_recall_by_family():
    # "yes" family: right ones accepted 3 of 4, wrong ones accepted 1 of 2
    cases = [
        *(Case("yes", text, right=True) for text in ("yes", "yes!", "yes sir", "sure")),
        *(Case("yes", text, right=False) for text in ("no", "yes, never")),
        Case("no", "no", right=False),
    ]
    found = audit_checker(lambda text: text.startswith("yes"), cases)
    yes = found.families["yes"]
    assert (yes.accepted, yes.refused, yes.let_through, yes.turned_away) == (3, 1, 1, 1)
    assert (yes.precision, yes.recall) == (Share(3, 4), Share(3, 4))
    assert (found.families["no"].precision, found.families["no"].recall) == (None, None)
    assert [case.given for case in found.wrong] == ["sure", "yes, never"]
    assert (found.judge(), found.judge(0.75)) == ("refuted", "not shown")  # "no" has no right case
    only = audit_checker(lambda text: text.startswith("yes"), cases[:6])
    assert (only.passes(), only.passes(0.75)) == (False, True)
    refused = [Case("no", "yes", right=True), Case("no", "no", right=False)]
    assert audit_checker(lambda _: False, refused).judge() == "refuted"  # nothing was accepted
    assert "right, but refused: 'sure'" in str(found)
    assert "wrong, but accepted: 'yes, never'" in str(found)


PAGE = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("block", [block for block in BLOCKS if "print(" in block])
def test_what_the_page_shows_is_printed(block, capsys):
    exec(block, {})  # noqa: S102  our own page
    shown = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == shown


def test_the_page_has_every_id():
    table = PAGE.partition("`python benchmarks/audit.py`")[2].partition("\n\n## ")[0]
    for env_id, spec in gym.registry.items():
        if str(spec.entry_point).startswith("agent_envs."):
            assert f"| `{env_id}`" in table


@pytest.mark.parametrize(
    "env_id",
    [
        "EZPoints-v0",
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in ("AlfWorld-v0", "Sokoban-v0", "VisualSokoban-v0")
        ),
    ],
)
def test_the_environments_audits_pass(env_id):
    env = gym.make(env_id)
    assert isinstance(env, AgentEnv)
    found = audit_anchors(env, tasks=4, episodes=20)
    assert found.passed
    assert found.anchor.revisited > 40
    rewards = audit_rewards(env)
    assert rewards.passed
    assert len(rewards.players) >= 5


class Plain(gym.Wrapper):
    def __init__(self, env, calls):
        super().__init__(env)  # it does not record its arguments
        self.calls = calls

    def step(self, action):
        self.calls -= 1
        while not self.calls:
            time.sleep(0.1)
        return self.env.step(action)


def test_a_step_that_hangs_is_ended_and_named(monkeypatch):
    monkeypatch.setattr(evidence, "GRACE", 0.1)
    found = audit(Plain(gym.make("EZPoints-v0"), 99), seconds=6)
    assert "TimeoutError: Plain.step hangs" in found.violation


def test_a_wrapper_that_keeps_no_arguments_is_judged():
    check_contract(Plain(gym.make("EZPoints-v0"), -1), turns=20)
