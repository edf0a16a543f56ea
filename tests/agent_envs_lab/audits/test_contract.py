from __future__ import annotations

import math
import os
import random
import re
import subprocess
import sys
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import hallway
import lamp
import numpy as np
import pytest
from hallway import PANEL, Hallway

from agent_envs import AgentEnv, FreeText, Panel, ParseReply, Prompt, Turn
from agent_envs.testing import ContractError, say_words
from agent_envs.testing.episodes import Start
from agent_envs_lab.audits import check_contract
from agent_envs_lab.audits.comparisons import compare_beside
from agent_envs_lab.audits.episodes import Other
from agent_envs_lab.audits.violations import Shown, explain, make_fresh

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [
        Hallway(),
        Hallway(max_turns=2),
        gym.make("Hallway-v0"),
        ParseReply(gym.make("Hallway-v0")),
        Prompt(ParseReply(gym.make("Hallway-v0"), on_malformed="attempt")),
    ],
    ids=["by hand", "two turns", "made", "parsing", "prompting"],
)
def test_good_environments_pass(env):
    check_contract(env)


class Hasty(hallway.Walker):
    def act(self):
        return "open"


def test_oracle_that_solves_passes_and_one_that_does_not_is_told():
    check_contract(Hallway(), oracle=hallway.Walker)
    with pytest.raises(ContractError, match="oracle did not solve 'toy/train/2' in 12 turns"):
        check_contract(Hallway(), oracle=Hasty)


class NoHeadings(Hallway):
    """A hallway.

    Description
        Whatever.
    """


class WrongHash:
    split, source = PANEL.split, PANEL.source
    task_ids = PANEL.task_ids
    hash = "0" * 64


class TwiceListed:
    split, source = "train", "embedded"
    task_ids = ("toy/train/2", "toy/train/2")
    hash = ""


class Told(Hallway):
    """Tells one thing differently, from the first step on."""

    __doc__ = Hallway.__doc__
    change: Mapping[str, Any] = MappingProxyType({})

    def act(self, action: str) -> Turn:
        return super().act(action)._replace(**self.change)


class Info(Hallway):
    __doc__ = Hallway.__doc__

    def altered(self, info: dict[str, Any]) -> None:
        raise NotImplementedError

    def step(self, action: str):
        *rest, info = super().step(action)
        self.altered(info)
        return *rest, info


def told(**change: Any) -> Hallway:
    return type("Told", (Told,), {"change": change, "__doc__": Hallway.__doc__})()


def info(altered) -> Hallway:
    return type("Info", (Info,), {"altered": altered, "__doc__": Hallway.__doc__})()


class Shared(Info):
    __doc__ = Hallway.__doc__
    cells: ClassVar[list[int]] = [1, 2]

    def altered(self, info: dict[str, Any]) -> None:
        info["cells"] = self.cells


class Growing(Info):
    __doc__ = Hallway.__doc__

    def begin(self, task_id: str):
        self.path: list[int] = []
        return super().begin(task_id)

    def altered(self, info: dict[str, Any]) -> None:
        self.path.append(self.cell)
        info["cells"] = (self.path,)


class Redrawn(Hallway):
    """Draws every picture on the same canvas."""

    __doc__ = Hallway.__doc__

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(-1, 9, (1,), np.int64)
        self.canvas = np.zeros(1, np.int64)

    def drawn(self, told: tuple[Any, ...]) -> tuple[Any, ...]:
        self.canvas[0] = self.cell
        return self.canvas, *told[1:]

    def reset(self, **given: Any):
        return self.drawn(super().reset(**given))

    def step(self, action: str):
        return self.drawn(super().step(action))


class GlobalRandom(Hallway):
    __doc__ = Hallway.__doc__

    def begin(self, task_id: str):
        random.random()
        return super().begin(task_id)


class Forgetful(Hallway):
    """The number of episodes shows: the seed does not decide alone."""

    __doc__ = Hallway.__doc__
    episodes = 0

    def begin(self, task_id: str):
        Forgetful.episodes += 1
        goal, turn = super().begin(task_id)
        return goal, turn._replace(anchor=f"{turn.anchor} {Forgetful.episodes}")


class Uncopyable(Hallway):
    __doc__ = Hallway.__doc__

    def __init__(self) -> None:
        super().__init__()
        self.parser = lambda text: text


class SharedWorld(Hallway):
    """Copies walk in the original's hallway."""

    __doc__ = Hallway.__doc__
    world: ClassVar[dict[str, int]] = {"steps": 0}

    def begin(self, task_id: str):
        self.world["steps"] = 0
        return super().begin(task_id)

    def act(self, action: str) -> Turn:
        turn = super().act(action)
        self.world["steps"] += turn.valid
        return turn

    def told(self, text: str, **rest: Any) -> Turn:
        turn = super().told(text, **rest)
        return turn._replace(extra={**turn.extra, "steps": self.world["steps"]})


class NoLimit(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action: str):
        observation, reward, terminated, _, info = super().step("right")
        self._live = True
        return observation, reward, terminated, False, info


class NeverOver(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action: str):
        self._live = True
        return super().step(action)


class AnyOption(Hallway):
    __doc__ = Hallway.__doc__

    def reset(self, *, seed=None, options=None):
        options = {k: v for k, v in (options or {}).items() if k in ("task", "task_id")}
        return super().reset(seed=seed, options=options)


class Deaf(Hallway):
    __doc__ = Hallway.__doc__

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options={"task": 0})


class DrawsLess(Hallway):
    """Where the task is named, the seed decides another episode than where it is drawn."""

    __doc__ = Hallway.__doc__

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        return (observation, info) if not options else super().reset(options=options)


class Lenient(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action):
        return super().step(action if isinstance(action, str) else "right")


class Unlimited(Hallway):
    __doc__ = Hallway.__doc__
    action_length = 2_000_000
    observation_length = 2_000_000


class ShortObservations(Hallway):
    __doc__ = Hallway.__doc__
    observation_length = 5


class Fragile(Hallway):
    __doc__ = Hallway.__doc__

    def act(self, action: str) -> Turn:
        assert "\x00" not in action, "cannot happen"
        return super().act(action)


class Planted(Hallway):
    """A hallway with one fault; `wrong` tells it, in the words of the check."""

    __doc__ = Hallway.__doc__
    wrong = ""


class ConstantAnchor(Planted):
    wrong = "the anchor came before, but 'open' was not listed both times"

    def told(self, text, **rest):
        return super().told(text, **rest)._replace(anchor="here")


class ObservationAnchor(Planted):
    wrong = r"info\['anchor'\] is the observation"

    def told(self, text, **rest):
        return super().told(text, **rest)._replace(anchor=text)


class DigestedObservation(Planted):
    wrong = r"an invalid turn \('unknown'\) changes anchor"

    def told(self, text, **rest):
        return super().told(text, **rest)._replace(anchor=text[::-1])


class CountingAnchor(Planted):
    wrong = r"an invalid turn \('\w+'\) changes anchor from '(.*)0' to '\1\d'"

    def begin(self, task_id):
        self.done = -1
        return super().begin(task_id)

    def told(self, text, **rest):
        self.done += 1
        turn = super().told(text, **rest)
        return turn._replace(anchor=f"{turn.anchor}/{self.done}")


class AddressAnchor(Planted):
    wrong = "the same seed and actions give another episode: info differs: 'anchor'"

    def begin(self, task_id):
        self.kept = [*getattr(self, "kept", []), object()]
        return super().begin(task_id)

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        return turn._replace(anchor=f"{turn.anchor} {id(self.kept[-1])}")


class AlwaysRefused(Planted):
    wrong = r"step 1 \('dance'\): the action is in info\['admissible_actions'\] and is refused"

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        return turn._replace(admissible_actions=[*turn.admissible_actions, "dance"])


class ListedTwice(Planted):
    wrong = "admissible action 'left' is listed 2 times"

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        return turn._replace(admissible_actions=[*turn.admissible_actions, "left"])


class ListedTooLong(Planted):
    wrong = r"admissible action 'xxx\w+ is not in FreeText"

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        return turn._replace(admissible_actions=[*turn.admissible_actions, "x" * 5000])


class ListsByTurn(Planted):
    wrong = "the anchor came before, but 'left' was not listed both times"

    def begin(self, task_id):
        self.done = -1
        return super().begin(task_id)

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        self.done += turn.valid
        return turn._replace(admissible_actions=turn.admissible_actions[self.done > 3 :])


class InvalidMoves(Planted):
    wrong = r"an invalid turn \('unknown'\) changes anchor"

    def act(self, action):
        turn = super().act(action)
        if turn.invalid_reason == "unknown":
            self.cell = min(self.cell + 1, self.length)
            turn = self.told(turn.observation, valid=False, invalid_reason="unknown")
        return turn


class InvalidMovesUnseen(Planted):
    """The signals are those of before the turn."""

    wrong = "an invalid turn .* changes anchor|gives another (anchor|valid|progress)"

    def act(self, action):
        turn = super().act(action)
        if turn.invalid_reason == "unknown" and self.cell < self.length - 1:
            self.cell += 1
        return turn


class Jams(Planted):
    """The door pays less once something was said that is no action; no signal tells."""

    wrong = r"after the invalid turn .* the action 'open' pays 0.5 instead of 1.0"

    def begin(self, task_id):
        self.jammed = False
        return super().begin(task_id)

    def act(self, action):
        turn = super().act(action)
        self.jammed |= turn.invalid_reason == "unknown"
        return turn._replace(reward=0.5) if turn.success and self.jammed else turn


class InvalidProgress(Planted):
    wrong = r"an invalid turn \('unknown'\) changes progress"

    def act(self, action):
        turn = super().act(action)
        return turn._replace(progress=0.99) if turn.invalid_reason == "unknown" else turn


class AllValid(Planted):
    wrong = "nonsense is valid although"

    def act(self, action):
        return super().act(action)._replace(valid=True, invalid_reason="")


class PaysForNonsense(Planted):
    wrong = r"a reward of 0.5 for an invalid turn \('unknown'\)"

    def act(self, action):
        turn = super().act(action)
        return turn._replace(reward=0.5) if turn.invalid_reason == "unknown" else turn


class FullProgress(Planted):
    wrong = r"info\['progress'\] is 1 without success"

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        return turn._replace(progress=max(turn.progress, float(self.cell == self.length)))


class SuccessWithoutProgress(Planted):
    wrong = "reports success with progress 0"

    def told(self, text, **rest):
        return super().told(text, **rest)._replace(progress=0.0)


class NoRewardAtAll(Planted):
    wrong = "the reward is NaN"

    def act(self, action):
        return super().act(action)._replace(reward=math.nan)


class InfiniteReward(Planted):
    wrong = "the reward is inf"

    def act(self, action):
        return super().act(action)._replace(reward=math.inf)


class Clock(Planted):
    wrong = r"info\['now'\] = \d+ is the time of day"

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        return turn._replace(extra={**turn.extra, "now": int(time.time()) // 60 * 60})


class Dated(Planted):
    wrong = r"info\['at'\] has today's date"

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        return turn._replace(extra={**turn.extra, "at": time.strftime("on %Y-%m-%d")})


class NewGoal(Planted):
    wrong = "the goal was 'open the door . steps away', now 'open any door'"

    def act(self, action):
        self.goal = "open any door"
        return super().act(action)


class OtherTask(Planted):
    wrong = "the task was 'toy/train/.', now 'toy/train/2'"

    def act(self, action):
        self.task_id = PANEL.task_ids[0 if self.task_id != PANEL.task_ids[0] else 1]
        return super().act(action)


class HiddenKey(Planted):
    """The door pays more to those who went left before; the anchor does not hold it."""

    wrong = r"the same anchor and action have different outcomes(?s:.)*'open' gives\n  reward"

    def begin(self, task_id):
        self.key = False
        return super().begin(task_id)

    def act(self, action):
        self.key |= action == "left"
        turn = super().act(action)
        return turn._replace(reward=2.0) if turn.success and self.key else turn


class FirstVisitPays(Planted):
    wrong = (
        r"the same anchor and action have different outcomes(?s:.)*reward (0\.0 or 0\.1|0\.1 or)"
    )

    def begin(self, task_id):
        self.been = {-1}
        return super().begin(task_id)

    def act(self, action):
        turn = super().act(action)
        new = turn.valid and self.cell not in self.been
        self.been.add(self.cell)
        return turn._replace(reward=turn.reward + 0.1 * new)


class Leaking(Planted):
    """The cell of the last episode stays where the same task comes again."""

    wrong = r"the same seed and actions give another episode(?s:.)*shown by .*, reset\("

    def begin(self, task_id):
        before = getattr(self, "cell", None)
        goal, turn = super().begin(task_id)
        if before is not None and 0 < before < self.length:
            self.cell = before
            turn = self.told(turn.observation)
        return goal, turn


class OneTask(Planted):
    wrong = "20 seeds draw the same task, 'toy/train/2', of 6"

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options or {"task": 0})


class Entropy(Planted):
    wrong = r"reset\(seed=7\), then reset\(\)(, reset\(\))*: .* the second time"  # by chance

    def reset(self, *, seed=None, options=None):
        if seed is None and not options:
            seed = random.SystemRandom().randrange(10**6)
        return super().reset(seed=seed, options=options)


class UsesWhatItGave(Planted):
    wrong = "after the caller emptied the lists of each info"

    def told(self, text, **rest):
        return super().told(text, **rest)._replace(extra=None)

    def step(self, action):
        if action == "right" and not self.mine:
            action = "left"
        *rest, info = super().step(action)
        self.mine = info["cells"] = [1]
        return *rest, info

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        self.mine = info["cells"] = [1]
        return observation, info


class CopiesOnce(Planted):
    """A copy made later than at the reset starts from the left end."""

    wrong = "a deep copy made at turn 1, step 2"

    def __deepcopy__(self, memo):
        twin = type(self)()
        twin.reset(seed=7)
        if self.turn == 0:
            twin.cell, twin.length = self.cell, self.length
        else:
            twin.turn, twin.cell = self.turn, 0
        return twin


class PanelChanges(Planted):
    wrong = "the panel changed during an episode"

    def act(self, action):
        self.panel = Panel("tried", PANEL.task_ids)
        return super().act(action)


class EndsEarly(Planted):
    wrong = "truncated before the turn limit of 12"

    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, not terminated, info


class NumpyFlags(Planted):
    wrong = "terminated must be a bool, got np.(True|False)_"

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, np.bool_(terminated), truncated, info


class Silent(Planted):
    """A hallway.

    Description
        Walk.
    Observation
        Where you are.
    Action
    Validity
        Unknown words are.
    Progress
        Share.
    Anchor
        The cell.
    Reward
        1.
    Ends
        The door.
    Tasks and splits
        Six.
    Data
        None.
    Source
        Ours.
    """

    wrong = "lacks the headings Action, or has nothing under them"


class Sourceless(Planted):
    wrong = "panel.source must name the origin of the tasks, got ''"

    def __init__(self):
        super().__init__(Panel("train", PANEL.task_ids, ""))


FAULTS = [fault for fault in Planted.__subclasses__() if fault.wrong]
BY_ACTIONS = {  # found in the class, the panel, or by comparing resets, not by what is done
    "Silent",
    "Sourceless",
    "OneTask",
    "Entropy",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_planted_faults_are_found_and_shown(fault):
    fault.__doc__ = fault.__doc__ if fault is Silent else Hallway.__doc__
    with pytest.raises(ContractError, match=fault.wrong) as found:
        check_contract(fault(), oracle=hallway.Walker)
    if fault.__name__ not in BY_ACTIONS:
        assert "reset(seed=" in str(found.value)


@pytest.mark.slow
@pytest.mark.parametrize("made", lamp.CORRECT, ids=lambda made: made.__name__)
def test_chance_patience_and_short_episodes_are_no_faults(made):
    check_contract(gym.make(f"{made.__name__}-v0"), processes=False)


@pytest.mark.slow
def test_a_lamp_with_its_oracle_passes():
    check_contract(gym.make("Lamp-v0"), oracle=lamp.Lighter)


@pytest.mark.slow
@pytest.mark.parametrize("led", [True, False], ids=["oracle", "alone"])
@pytest.mark.parametrize("fault", lamp.FAULTS, ids=lambda fault: fault.__name__)
def test_faults_of_late_states_other_seeds_times_and_episodes_are_shown(fault, led):
    oracle = lamp.Lighter if led and fault is not lamp.HalfASuccess else None
    with pytest.raises(ContractError, match=f"(?s){fault.wrong}") as found:
        check_contract(gym.make(f"{fault.__name__}-v0"), oracle=oracle)
    assert re.search(fault.shown, str(found.value), re.DOTALL)


def test_what_another_instance_does_is_shown_with_its_steps():
    class Wired(lamp.Lamp):
        """All lamps hang on one wire."""

        wire: ClassVar[list[bool]] = [False]

        def prepare(self):
            self.wire[0] = False

        def press(self):
            self.wire[0] = self.lit = not self.wire[0]

    noise = ["wait", "xyzzy"] * 4
    start = Start(7, 0)
    env = Wired()
    env.reset(seed=start.seed, options=start.options)
    way = ["right"] * env.lamp
    steps = [start, Other(start), *way, *(Other(one) for one in [*noise, *way, "press"])]
    found = compare_beside(env, [*steps, *noise, "press", *noise])
    assert found is not None
    shown = Shown(found.wrong, found.steps, compare_beside)
    told = explain(make_fresh(env), shown)
    other = [f"in the other instance {step!r}" for step in [*way, "press"]]
    assert len(told.steps) == 2 + len(way) + len(other) + 1
    assert f"in the other instance {start}" in str(told)
    assert all(step in str(told) for step in other)


def test_words_are_what_the_check_plays_with_where_none_are_listed():
    class Refusing(lamp.Unlisted):
        __doc__ = lamp.Lamp.__doc__

        def press(self):
            raise KeyError("press")

    check_contract(Refusing(), copies=False)  # finds no word
    words = say_words(["wait", "left", "right", "press"])
    with pytest.raises(KeyError) as found:
        check_contract(Refusing(), copies=False, actions=words)
    (note,) = found.value.__notes__
    assert re.search(r"shown by reset\(seed=\d.*\), then ('right', )*'press'$", note)


@pytest.mark.slow
def test_a_module_that_checks_itself_when_it_is_imported_is_told(tmp_path):
    (tmp_path / "selfish.py").write_text(
        "import gymnasium as gym, lamp\n"
        "from agent_envs_lab.audits import check_contract\n"
        "class Mine(lamp.Lamp):\n"
        "    __doc__ = lamp.Lamp.__doc__\n"
        "gym.register('Mine-v0', entry_point='selfish:Mine', order_enforce=False,\n"
        "             disable_env_checker=True)\n"
        "check_contract(gym.make('Mine-v0'))\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    child = subprocess.run(
        [sys.executable, "selfish.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert child.returncode == 1
    last = child.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: check_contract is called while a module is imported")
    assert '`if __name__ == "__main__":`' in last


def test_a_violation_is_shown_with_few_actions():
    class Trap(Hallway):
        __doc__ = Hallway.__doc__

        def told(self, text, **rest):
            paid = -math.inf if self.cell == self.length - 1 and self.length > 3 else 0.0
            return super().told(text, **rest)._replace(reward=paid)

    with pytest.raises(ContractError, match="the reward is -inf") as found:
        check_contract(Trap(max_turns=200))
    start, *actions = found.value.steps
    env = Hallway()
    env.reset(seed=start.seed, options=start.options)
    assert actions == ["right"] * max(1, env.length - 1 - env.cell)


class NumpyReward(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action: str):
        observation, _, *rest = super().step(action)
        return observation, 0, *rest


class UnequalEnds(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action: str):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, terminated or truncated, info


class Surrogate(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action: str):
        _, *rest = super().step(action)
        return "\udcff", *rest


def turn_from_one(self, info):
    info["turn"] += 1


def whole_progress(self, info):
    info["progress"] = 1


def valid_one(self, info):
    info["valid"] = 1


def drop_goal(self, info):
    del info["goal"]


def more_at_steps(self, info):
    info["more"] = 1


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (NoHeadings(), "NoHeadings lacks the headings Observation, Action, Validity"),
        (Hallway(WrongHash()), "panel.hash must be [0-9a-f]{64}, got '0000"),
        (Hallway(TwiceListed()), "is not a valid panel: task 'toy/train/2' is twice"),
        (Hallway(()), "panel must have 'split'"),
        (told(progress=1.3), r"info\['progress'\] must lie in \[0, 1\], got 1.3"),
        (told(progress=float("nan")), r"must lie in \[0, 1\], got nan"),
        (info(whole_progress), r"info\['progress'\] must be a float, got 1"),
        (told(invalid_reason="typo", valid=False), "must be one of .*, got 'typo'"),
        (told(valid=False, invalid_reason=""), r"info\['valid'\] is False with .* = ''"),
        (told(valid=True, invalid_reason="unknown"), r"info\['valid'\] is True with .*'unknown'"),
        (info(valid_one), r"info\['valid'\] must be a bool, got 1"),
        (told(anchor=""), r"info\['anchor'\] is empty"),
        (told(admissible_actions=[3]), "admissible action 3 is not a str"),
        (told(extra={"cells": {1}}), r"info\['cells'\] must be of builtin types, got set"),
        (told(extra={"cells": ["\ud800"]}), r"info\['cells'\]\[0\] has an unpaired surrogate"),
        (told(extra={}), r"info has \['cells'\] only at some turns"),
        (info(turn_from_one), r"info\['turn'\] must be 1, got 2"),
        (info(drop_goal), "info lacks 'goal'"),
        (info(more_at_steps), r"info has \['more'\] only at some turns"),
        (Shared(), "shares a list or dict with the turn before"),
        (Growing(), "changed the turn before"),
        (Redrawn(), "changed the turn before it: observation differs"),
        (GlobalRandom(), "Python's or NumPy's global generator"),
        (Forgetful(), "another episode: info differs: 'anchor': .* at reset\n  shown by reset"),
        (Uncopyable(), "cannot be copied and pickled"),
        (
            SharedWorld(),
            "after a deep copy made at reset had played on, step 1 .*: 'steps': 0 and 1",
        ),
        (NoLimit(), r"no end after max_turns = 12 steps"),
        (NeverOver(), r"step\(\) after the end at turn \d+ must raise .*ResetNeeded"),
        (AnyOption(), r"reset\(options={'tusk': 0}\) must raise ValueError"),
        (Deaf(), r"reset\(options={'task': 5}\) must start 'toy/train/7', got 'toy/train/2'"),
        (DrawsLess(), "again with its task named"),
        (Lenient(), r"step\(None\) must raise TypeError"),
        (Unlimited(), "must be 'format', got 'unknown'"),
        (ShortObservations(), "not .*in.* space"),
        (NumpyReward(), "the reward must be a float, got 0"),
        (UnequalEnds(), "both terminated and truncated"),
        (Surrogate(), "the observation has an unpaired surrogate"),
    ],
)
def test_planted_violations_are_found(env: AgentEnv, message: str):
    with pytest.raises(ContractError, match=f"(?s){message}"):
        check_contract(env)


def test_an_environment_that_breaks_on_an_odd_action_is_not_excused():
    with pytest.raises(AssertionError, match="cannot happen"):
        check_contract(Fragile())


def test_step_before_reset_is_tried_on_a_fresh_one():
    class Eager(Hallway):
        __doc__ = Hallway.__doc__

        def __init__(self, render_mode: str | None = None) -> None:
            super().__init__(render_mode=render_mode)
            self.begin("toy/train/3")
            self._live = True

    gym.register("Eager-v0", entry_point=Eager, order_enforce=False, disable_env_checker=True)
    with pytest.raises(ContractError, match=r"step\(\) before the first reset must raise"):
        check_contract(gym.make("Eager-v0"))
    del gym.registry["Eager-v0"]


@pytest.mark.slow
def test_what_a_process_decides_is_found_in_another(monkeypatch, tmp_path):
    # The order of a set of strings differs between hash seeds, within a process it never does.
    (tmp_path / "scattered.py").write_text(
        "from hallway import Hallway\n"
        "class Scattered(Hallway):\n"
        "    __doc__ = Hallway.__doc__\n"
        "    def told(self, text, **rest):\n"
        "        words = ' '.join({f'word{i}' for i in range(20)})\n"
        "        return super().told(text, **rest)._replace(observation=words)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    gym.register(
        "Scattered-v0",
        entry_point="scattered:Scattered",
        order_enforce=False,
        disable_env_checker=True,
    )
    check_contract(gym.make("Scattered-v0"), processes=False)
    with pytest.raises(ContractError, match="process with another hash seed"):
        check_contract(gym.make("Scattered-v0"))
    del gym.registry["Scattered-v0"]


def test_what_is_asked_for_can_be_left_out():
    check_contract(Uncopyable(), copies=False)


def test_discrete_actions_and_other_observations_are_welcome():
    class Numbered(gym.Env[int, int]):
        __doc__ = Hallway.__doc__
        metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
        action_space = gym.spaces.Discrete(2)
        observation_space = FreeText(100)
        panel = Panel("train", ("a", "b"))
        max_turns = 3

        def reset(self, *, seed=None, options=None):
            for name in options or {}:
                if name not in ("task", "task_id"):
                    raise ValueError(name)
            chosen = dict(options or {})
            super().reset(seed=seed)
            drawn = int(self.np_random.integers(2))
            if len(chosen) > 1 or chosen.get("task", 0) not in (0, 1):
                raise ValueError(chosen)
            if "task_id" in chosen:
                chosen["task"] = self.panel.task_ids.index(chosen["task_id"])
            self.task = chosen.get("task", drawn)
            self.turn = 0
            return "here", self.info()

        def info(self):
            return {
                "goal": "wait",
                "valid": True,
                "invalid_reason": "",
                "progress": self.turn / 4,
                "anchor": str(self.turn),
                "success": False,
                "admissible_actions": [],
                "task_id": self.panel.task_ids[self.task],
                "turn": self.turn,
            }

        def step(self, action):
            if not 0 <= getattr(self, "turn", 3) < 3:
                raise gym.error.ResetNeeded("reset")
            self.turn += 1
            return "here", 0.0, False, self.turn == 3, self.info()

    check_contract(Numbered(), copies=False)  # a class inside a function does not pickle
