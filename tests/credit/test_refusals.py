"""Every refusal of the package in one table: a call, and the words that its error must have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import credit
from credit import rewards, stats
from credit.methods import has, stapo
from credit.rows import TurnRecord, rows_of, spans_of, token_advantages
from tests.credit.batches import GOOD, batch

TWO = {"uid": [0, 0], "trajectory": ["x", "x"], "step": [0, 1], "outcome": [1.0, 1.0]}
RECORD = {"task_id": "t", "goal": "g", "step": 0, "action": "go", "anchor": "s0", "valid": True}
TURNS = batch([2, 1], [1.0, 0.0], [0, 0])


def turns(**changed):
    return lambda: credit.Turns(**GOOD | changed)


def rows(**changed):
    return lambda: credit.rows(**TWO | changed)


def scatter(mask, spans=None, advantage=(1.0, 2.0)):
    return lambda: credit.rows(**TWO).scatter(advantage, mask, spans)


def record(**changed):
    return lambda: TurnRecord.of(RECORD | changed)


def episodes(*steps, uid="a", **changed):
    """Records of steps, the last with an outcome, of one episode."""
    made = [TurnRecord(**RECORD | {"step": step}) for step in steps]
    return lambda: rows_of([[*made[:-1], replace(made[-1], **{"outcome": 1.0} | changed)]], [uid])


def method(name, given=TURNS, **options):
    return lambda: credit.make(name, **options)(given)


def estimate(estimator, given=TURNS):
    return lambda: credit.estimate(estimator, given)


def pay(verifier):
    """Reward of a turn by a verifier of one's own."""
    return lambda: rewards.score_turn(
        "mine:v", verifier, rewards.Exchange("<answer>go</answer>", "", {})
    )


class Bare(gym.Env[int, int]):
    """An environment without the info contract."""

    observation_space = action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}


def takes_two(one, two):
    return 0.0


END = TurnRecord(**RECORD, outcome=1.0, span=(0, 1))
MASKED = np.ma.array([1.0, 0.0], mask=[False, True])
REFUSED: dict[str, tuple[Any, str]] = {
    "masked": (turns(outcome=MASKED), "^outcome row 1 is masked; give a number in every row"),
    # Turns
    "turns, lengths of trajectories": (turns(outcome=[1.0]), "outcome has 1 rows, group has 2"),
    "turns, lengths of turns": (turns(entropy=[0.1]), "entropy has 1 rows, trajectory has 3"),
    "turns, order": (turns(trajectory=[0, 1, 0]), "trajectory row 2 is 0; number the 2"),
    "turns, a gap": (turns(trajectory=[0, 0, 0]), "group has 2 rows, but 1 trajectories have"),
    "turns, too many": (turns(trajectory=[0, 1, 2]), "trajectory row 2 is 2; number the 2"),
    "turns, from one": (turns(trajectory=[1, 1, 2]), "trajectory row 0 is 1"),
    "turns, NaN": (turns(reward=[0.0, np.nan, 0.0]), "reward row 1 is nan"),
    "turns, infinite": (turns(outcome=[np.inf, 0.0]), "outcome row 0 is inf; give finite"),
    "turns, too large": (turns(outcome=[1e100, 0.0]), "row 0 is 1e[+]100; .* below 1e[+]100"),
    "turns, progress": (turns(progress=[0, 1.5, 0]), r"progress row 1 is 1.5; .* in \[0, 1\]"),
    "turns, entropy": (turns(entropy=[0.1, -0.1, 0]), "entropy row 1 is -0.1; .* at least 0 nats"),
    "turns, log-probability": (
        turns(gold_logprob=[-0.1, 0.1, 0]), "gold_logprob row 1 is 0.1; .* at most 0 nats",
    ),
    "turns, NaN as a group": (turns(group=[0.0, np.nan]), "group row 1 is nan; .*np.unique"),
    "turns, half a trajectory": (turns(trajectory=[0, 0.5, 1]), "trajectory row 1 is 0.5"),
    "turns, half valid": (turns(valid=[1, 0.5, 1]), "valid row 1 is 0.5; give True or False"),
    "turns, None": (turns(outcome=[1.0, None]), "outcome row 1 is None; give a number"),
    "turns, texts as numbers": (turns(reward=["1", "2", "3"]), "reward row 0 is '1'"),
    "turns, complex": (turns(reward=[0.0, 1j, 0.0]), "reward row 1 is 1j"),
    "turns, a table": (turns(reward=[[0.0]] * 3), r"reward must be \[N\], got shape \(3, 1\)"),
    "turns, an array as a key": (turns(anchor=[np.zeros(2)] * 3), "anchor row 0 is .*sha256"),
    "turns, keys of two types": (turns(anchor=[1, "1", 1]), "anchor row 0 is 1; .*all integers"),
    "turns, bytes": (turns(action=[b"a", b"b", b"c"]), "action row 0 is b'a'"),
    "turns, a text as column": (turns(goal="ab"), "goal must be a list of values in order"),
    "turns, names": (turns(turn_reward=[[1.0]] * 3), r"shape \(3, 1\) and the names \(\)"),
    "turns, equal names": (
        turns(turn_reward=[[1, 2]] * 3, turn_reward_names=("a", "a")), "R different names",
    ),
    "turns, rewards of verifiers": (
        turns(turn_reward=np.zeros((4, 1)), turn_reward_names=("a",)), "turn_reward has 4 rows",
    ),
    "turns, an unknown column": (turns(rewards=[0.0] * 3), "unexpected keyword argument 'rewards'"),
    "turns, no reward": (turns(reward=None, outcome_in_reward=True), "'reward'; give it, or zeros"),
    # methods
    "make, a name": (lambda: credit.make("grop"), "method 'grop'; did you mean 'grpo'.*credit.est"),
    "make, an option": (method("mgr", bata=0.1), "mgr has no option 'bata'; did you mean 'beta'"),
    "mgr, thresholds": (method("mgr", theta_c1=0.7), "theta_c1 must be at most .*0.7"),
    "mgr, no generator": (method("mgr"), "needs rng, got None; make np.random.default_rng"),
    "mgr, a seed": (lambda: credit.MGR()(TURNS, 0), "needs rng, got 0"),
    "mgr, an outcome": (method("mgr", batch([1, 1], [1.0, 0.5], [0, 0])), "0 or 1 .* 0.5 in row 1"),
    "prime, an outcome": (method("prime", batch([1], [0.5], [0])), "0 or 1 because PRIME"),
    "has, a decomposer": (method("has", decomposer="judge"), "credit.Judge.* got 'judge'"),
    "has, credit": (method("has", decomposer=lambda _: [0, np.nan, 0]), "decomposer row 1 is nan"),
    "has, a short credit": (method("has", decomposer=lambda _: [0.0]), r"shapes \(1,\) and \(3,\)"),
    "signal, a share": (method("signal", kappa=1.5), r"kappa must lie in \[0, 1\] because"),
    "signal, a prior": (method("signal", prior=-1.0), "prior must lie in .* it counts outcomes"),
    "istar, no rewards": (method("istar"), "reads a turn_reward named 'implicit'; known: none"),
    "mt_grpo, no rewards": (method("mt_grpo"), "column turn_reward; record it by"),
    "empg, no entropy": (method("empg"), "this method reads the column entropy; record"),
    "igpo, no answer": (method("igpo"), "this method reads the column gold_logprob"),
    "judge, a prompt": (lambda: credit.Judge(str, prompt="{goal} {x}"), "must have the fields"),
    "judge, tries": (lambda: credit.Judge(str, retries=-1), "retries must lie in"),
    "judge, threads": (lambda: credit.Judge(str, parallel=0), "parallel must be positive"),
    "estimate, a name": (estimate("grpo"), r"callable as \(turns\) or .*credit.make.* got 'grpo'"),
    "estimate, a class": (estimate(credit.GRPO), r"callable as \(turns\) or .* got <class"),
    "estimate, arguments": (estimate(lambda: 0), r"callable as \(turns\) or \(turns, rng\)"),
    "estimate, no turns": (estimate(credit.GRPO(), {}), r"credit.Turns or credit.rows.* got \{\}"),
    "estimate, a length": (estimate(lambda _: [0.0]), r"return \[3\] finite .*shape \[1\]"),
    "estimate, texts": (estimate(lambda _: ["a"] * 3), r"return \[3\] finite numbers"),
    "estimate, NaN": (estimate(lambda _: [0.0, np.nan, 0.0]), "advantage row 1 is nan"),
    "stats, lengths": (lambda: stats.center([1.0], [0, 0]), r"got shapes \(1,\) and \(2,\)"),
    "stats, infinite": (lambda: stats.standardize([0, np.inf], [0, 0]), "x row 1 is inf"),
    "project, NaN": (lambda: has.project([0, 0, np.nan], TURNS), "values row 2 is nan"),
    "fences, infinite": (lambda: stapo.fences([np.inf]), "x row 0 is inf"),
    # rows of a trainer
    "rows, a column": (rows(anchors=["a", "b"]), "unknown column 'anchors'.*'anchor'"),
    "rows, a length": (rows(anchor=["a"]), "anchor has 1 rows, uid has 2"),
    "rows, a text": (rows(uid="task"), r"uid must be a list of values in order, got 'task' \(str"),
    "rows, a set": (rows(uid={"a", "b"}), "uid must be a list of values in order, got {.*set"),
    "rows, no step 1": (rows(step=[0, 2]), "'x' has no step 1, but step 2 in row 1; give every"),
    "rows, steps from 1": (rows(step=[1, 2]), "'x' has no step 0, but step 1 in row 0"),
    "rows, a negative step": (rows(step=[0, -1]), "'x' has no step 0, but step -1 in row 1"),
    "rows, half a step": (rows(step=[0, 0.5]), "step row 1 is 0.5; give whole numbers"),
    "rows, two groups": (rows(uid=["a", "b"]), "0 and 1 are of one trajectory, but uid is 'a' and"),
    "rows, two outcomes": (rows(outcome=[1.0, 0.0]), "one trajectory, but outcome is 1.0 and 0.0"),
    "rows, two goals": (rows(goal=["a", "b"]), "one trajectory, but goal is 'a' and 'b'"),
    "rows, two actions": (rows(step=[0, 0], action=["a", "b"]), "one turn, but action is 'a' and"),
    "rows, two rewards": (
        rows(step=[0, 0], reward=[0.0, 1.0], turn_reward={"reward": [5.0, 5.0]}),
        "one turn, but reward is 0.0 and 1.0",
    ),
    "rows, paid twice": (
        rows(step=[0, 0], turn_reward={"exact": [0.0, 1.0]}), "but turn_reward 'exact' is 0.0",
    ),
    "rows, other verifiers": (
        rows(turn_reward=[{"exact": 1.0}, {"exact": 1.0, "b": 1.0}]), "row 1 is {.*same verifiers",
    ),
    "rows, no verifiers": (rows(turn_reward=np.zeros((2, 1))), "turn_reward row 0 is .*same verif"),
    "rows, NaN": (rows(outcome=[np.nan] * 2), "outcome row 0 is nan"),
    "rows, the given row": (
        rows(uid=[0] * 3, trajectory=["x"] * 3, step=[2, 1, 0], outcome=[1.0] * 3,
             progress=[0.5, 0.5, -0.5]), "progress row 2 is -0.5",
    ),
    "mask, no table": (scatter([1, 1]), r"mask must be \[R, T\], .*got shape \(2,\)"),
    "mask, a half": (scatter([[1.0, 0.5], [1.0, 1.0]]), "1 at tokens of replies and else 0"),
    "mask, rows": (scatter([[1, 1]]), "mask has 1 rows, not 2; .*pass spans"),
    "spans, rows": (scatter([[1, 1]], [(0, 0, 1)]), "spans has 1 rows, the list of turns has 2"),
    "spans, a row": (scatter([[1, 1]], [(0, 0, 1), (1, 1, 2)]), r"spans row 1 is \[1 1 2\]"),
    "spans, an end": (scatter([[1, 1]], [(0, 0, 1), (0, 1, 3)]), r"spans row 1 is \[0 1 3\]"),
    "spans, negative": (scatter([[1, 1]], [(0, -1, 1), (0, 1, 2)]), r"spans row 0 is \[ ?0 -1"),
    "spans, backwards": (scatter([[1, 1]], [(0, 0, 1), (0, 2, 1)]), r"spans row 1 is \[0 2 1\]"),
    "spans, in common": (scatter([[1] * 3], [(0, 0, 2), (0, 1, 3)]), "0 and 1 have tokens of row"),
    "spans, equal": (scatter([[1, 1]], [(0, 0, 2), (0, 0, 2)]), "0 and 1 have tokens of row 0"),
    "spans, uncovered": (scatter([[1] * 3], [(0, 0, 1), (0, 1, 2)]), "token 2 .* is in no span"),
    "spans, outside": (scatter([[1, 0, 1]], [(0, 0, 1), (0, 1, 3)]), "token 1 of row 0 is in span"),
    "advantage, a length": (scatter([[1], [1]], None, [1.0]), "advantage has 1 rows, .* has 2"),
    "advantage, NaN": (scatter([[1], [1]], None, [1.0, np.nan]), "advantage row 1 is nan"),
    # records
    "record, a version": (record(version=2, goal=None, tokens=[1]), "version 2, this is version 1"),
    "record, a key": (record(anchors="s"), "turn record has no 'anchors'.*did you mean 'anchor'"),
    "record, no goal": (lambda: TurnRecord.of({"step": 0}), "missing .* 'goal'"),
    "record, a text": (lambda: TurnRecord.of("go"), "a turn record is a mapping, got 'go'"),
    "record, valid": (record(valid=1), "valid of a turn record must be bool, got 1"),
    "record, step": (record(step=True), "step of a turn record must be int, got True"),
    "record, outcome": (record(outcome="1"), "must be int or float or None, got"),
    "record, anchor": (record(anchor=3), "anchor of a turn record must be str, got 3"),
    "record, a verifier": (record(turn_reward={"e": "1"}), r"turn_reward\['e'\] of a turn record"),
    "record, its name": (record(turn_reward={0: 1.0}), "a name in turn_reward of a turn record"),
    "record, NaN": (record(reward=float("nan")), "reward of a turn record must lie in"),
    "record, a paid NaN": (record(turn_reward={"e": float("nan")}), "of a turn record must lie in"),
    "record, too large": (record(outcome=10**400), "outcome of a turn record must lie in"),
    "record, progress": (record(progress=1.5), r"progress of a turn record must lie in \[0, 1\]"),
    "record, a surrogate": (record(goal="a \ud800"), "surrogates not allowed"),
    "record, a span": (record(span=(3, 2)), r"span of a turn record is .* got \(3, 2\)"),
    "record, half a token": (record(span=(0.0, 1.0)), "span of a turn record is"),
    "episodes, no outcome": (episodes(0, 1, outcome=None), "episode 0 has no outcome: give"),
    "episodes, a missing turn": (episodes(0, 2), "trajectory 0 has no step 1, but step 2"),
    "episodes, two tasks": (episodes(0, 1, task_id="u"), "uid 'a' has the tasks 't' and 'u'"),
    "episodes, two outcomes": (
        lambda: rows_of([[replace(END, outcome=0.5), replace(END, step=1)]], ["a"]),
        "episode 0 has two outcomes, 0.5 at step 0 and 1.0 at 1",
    ),
    "episodes, two ends": (
        lambda: rows_of([[END, replace(END, outcome=0.0)]], ["a"]), "episode 0 has two outcomes",
    ),
    "episodes, two groups": (
        lambda: rows_of([[END], [END]], ["a", "b"], trajectory=["e", "e"]), "uid is 'a' and 'b'",
    ),
    "episodes, uids": (lambda: rows_of([[END]], ["a", "b"]), "uid has 2 rows, episodes has 1"),
    "episodes, turns": (lambda: rows_of([END], [0]), "episode 0 must be a list of values in order"),
    "spans_of, none": (lambda: spans_of([[TurnRecord(**RECORD)]]), "turn 0 of row 0 has no token"),
    "tokens, a part": (
        lambda: token_advantages(credit.GRPO(), [[END]], ["a"], [[1]], first=1), "from first=1",
    ),
    # rewards
    "verifier, name": (lambda: rewards.find_verifier("xml"), "'xml'; did you mean 'xml_"),
    "verifier, a module": (lambda: rewards.find_verifier("no_such:f"), "no_such:f: No module"),
    "verifier, arguments": (
        lambda: rewards.find_verifier(f"{__name__}:takes_two"), "must take one argument, the turn",
    ),
    "verifier, above 1": (pay(lambda _: 1.1), r"mine:v must lie in \[0, 1\] .* got 1.1"),
    "verifier, NaN": (pay(lambda _: np.nan), "mine:v must lie in .* got nan"),
    "verifier, no answers": (pay(rewards.exact), r"answers must be in info\['answers'\]"),
    "weight": (lambda: rewards.TurnVerifier(Bare(), {"exact": np.nan}), "weight of exact is nan"),
    "wrapper, no info": (lambda: rewards.InvalidPenalty(Bare()).reset(), r"reads info\['valid'\]"),
    "penalty": (lambda: rewards.InvalidPenalty(Bare(), 0.1), "penalty must lie in .*got 0.1"),
    "count": (lambda: rewards.RepetitionPenalty(Bare(), q=-1), "q must lie in"),
    "scale": (lambda: rewards.ValiditySignal(Bare(), scale=np.inf), "scale must lie in"),
    "discount": (lambda: rewards.ProgressReward(Bare(), gamma=1.1), r"gamma must lie in \[0, 1\]"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_the_error_names_what_was_given_and_what_is_allowed(what):
    call, words = REFUSED[what]
    with pytest.raises((ValueError, TypeError, KeyError), match=words):
        call()


@pytest.mark.parametrize("value", [np.nan, -1.0, "1", None, [1.0], True])
@pytest.mark.parametrize("name", credit.names())
def test_every_option_is_checked_when_it_is_given(name, value):
    for option, default in vars(credit.make(name)).items():
        if option == "column" or (option in {"eps", "prior"} and default is value):
            continue
        with pytest.raises((ValueError, TypeError), match=option):
            credit.make(name, **{option: value})


def test_paid_turns_that_a_method_does_not_read_are_told():
    """0.1 for the first trajectory, and off the second; an environment's own pay cancels out."""
    paid = batch([2, 2], [1.0, 0.5], [0, 0], reward=[0.1, 0.0, -0.1, 0.0])
    told = "^GRPO reads outcomes, and turns were paid beside them: leave out what pays"
    with pytest.warns(UserWarning, match=told):
        credit.estimate(credit.GRPO(), paid)
    for reward in ([0.3, -0.3, 0.2, -0.2], [0.0] * 4):
        credit.estimate(credit.GRPO(), batch([2, 2], [1.0, 0.5], [0, 0], reward=reward))
    credit.estimate(credit.GRPO(), batch([], [], []))
    credit.estimate(credit.GiGPO(), paid)
    credit.estimate(lambda turns: turns.reward, paid)
    credit.estimate(credit.HAS(decomposer=lambda turns: turns.reward), paid)
