"""What messages of credit advise is done here."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

import credit
from credit import rewards
from credit.methods.turnrd import TurnRD
from credit.rows import rows_of, spans_of
from tests.credit.batches import GOOD, batch
from tests.remedies import ROOT, follow, start_python

RECORD = {"task_id": "t", "goal": "g", "step": 0, "action": "go", "anchor": "s0", "valid": True}
RECORD |= {"outcome": 1.0}


def use(method, **columns):
    """A method of credit on a good batch with other columns."""
    credit.make(method)(credit.Turns(**GOOD | columns))


def turns(**columns):
    credit.Turns(**GOOD | columns)


def steps(listed, **columns):
    """Rows of one trajectory's steps."""
    same = {
        "uid": [0] * len(listed),
        "trajectory": ["x"] * len(listed),
        "outcome": [1.0] * len(listed),
    }
    return credit.rows(step=listed, **same | columns)


def label(cache, spoil):
    """Ask a judge for labels, whose file is spoiled, or deleted if it was."""
    judge = credit.Judge(lambda _: "[1]", cache=Path(cache))
    for file in Path(cache).glob("*.json"):
        file.unlink()
    for _ in range(2):
        judge.labels("goal", ["go"], 1.0)
        for file in Path(cache).glob("*.json") if spoil else ():
            file.write_text("no labels")


FIND = "from credit import rewards; rewards.find_verifier('mine:pay')"
IMAGE = np.zeros((2, 2))
REMEDIES = {
    "; did you mean {}? known: {}": (credit.make, {"name": "grop"},
        lambda found, at: {"name": found[1].strip("'")}),
    "give it{}": (use, {"method": "gigpo", "reward": None}, {"reward": [0.0] * 3}),
    "record the mean token entropy of each action at sampling": (use, {"method": "empg"},
        {"entropy": [0.5, 0.2, 0.9]}),
    "give the mean log-probability of the right answer's tokens before each turn": (use,
        {"method": "igpo"}, {"gold_logprob": [-0.5, -0.2, -0.9]}),
    "record it by rewards.TurnVerifier": (use, {"method": "mt_grpo"},
        {"turn_reward": [[1.0]] * 3, "turn_reward_names": ("exact",)}),
    "pass success (Sokoban and EZPoints: reward='success')": (use, {"method": "prime",
        "outcome": [0.4, 1.0], "turn_reward": [[0.1]] * 3, "turn_reward_names": ("implicit",)},
        {"outcome": [0.0, 1.0]}),
    "in the order of their turns": (turns, {"trajectory": [1, 1, 2]}, {"trajectory": [0, 0, 1]}),
    "give whole numbers, as by np.unique(ids, return_inverse=True)[1]": (turns,
        {"group": [0.0, np.nan]}, {"group": np.unique(["a", "b"], return_inverse=True)[1]}),
    "give True or False, or 1 or 0": (turns, {"valid": [1, 0.5, 1]}, {"valid": [True, False, True]},
        {"valid": [1, 0, 1]}),
    "give finite numbers below {}": (turns, {"outcome": [1e100, 0.0]},
        lambda found, at: {"outcome": [float(found[1].replace("+", "")) / 2, 0.0]}),
    "give a number in every row": (turns, {"outcome": [1.0, None]}, {"outcome": [1.0, 0.0]}),
    "give [N, R] numbers and R different names": (turns,
        {"turn_reward": [[1.0, 0.0]] * 3, "turn_reward_names": ("a", "a")},
        {"turn_reward_names": ("a", "b")}),
    "{} row {} is {}; give {}": (turns, {"anchor": [IMAGE] * 3},
        {"anchor": [hashlib.sha256(IMAGE.tobytes()).hexdigest()] * 3}, {"anchor": [1, 2, 3]}),
    "give each turn the same verifiers": (steps,
        {"listed": [0, 1], "turn_reward": [{"a": 1.0}, {"b": 1.0}]},
        {"turn_reward": [{"a": 1.0, "b": 0.0}] * 2}),
    "give every turn, from 0 on": (steps, {"listed": [1, 2]}, {"listed": [0, 1]}),
    "give (row of mask, first token, end) inside the mask of shape {}": (
        lambda spans: steps([0, 1]).scatter([1.0, 2.0], [[1, 1]], spans),
        {"spans": [(0, 0, 1), (1, 1, 2)]}, {"spans": [(0, 0, 1), (0, 1, 2)]}),
    "pass spans=[(row, first token, end), ...]": (
        lambda **more: steps([0, 1]).scatter([1.0, 2.0], [[1, 1]], **more), {},
        {"spans": [(0, 0, 1), (0, 1, 2)]}),
    "give its last turn; a cut-off episode ends with TextEpisode.stop()": (
        lambda played: rows_of([played], ["a"]), {"played": [RECORD | {"outcome": None}]},
        {"played": [RECORD | {"outcome": None}, RECORD | {"step": 1}]}),
    "record the span of each reply": (lambda **more: spans_of([[RECORD | more]]), {},
        {"span": (0, 1)}),
    "callable as (turns) or (turns, rng), as credit.make(name)": (
        lambda estimator: credit.estimate(estimator, batch([2], [1.0], [0])), {"estimator": "grpo"},
        {"estimator": credit.make("grpo")}, {"estimator": lambda turns: np.zeros(len(turns))}),
    "give finite numbers": (lambda estimator: credit.estimate(estimator, batch([1], [1.0], [0])),
        {"estimator": lambda _: [np.nan]}, {"estimator": lambda _: [0.0]}),
    "leave out what pays (but LastReward), or choose a method that reads it, e.g. GiGPO": (
        lambda name, **paid: credit.estimate(credit.make(name), batch([1], [1.0], [0], **paid)),
        {"name": "grpo", "reward": [-0.1]}, {"reward": [0.0]}, {"name": "gigpo"}),
    "make np.random.default_rng(seed) once and pass it at every step, mgr(turns, rng)": (
        lambda *rng, **more: credit.MGR()(batch([2, 1], [1.0, 0.0], [0, 0]), *more.values()), {},
        {"rng": np.random.default_rng(0)}),
    "make it with goal_width above 0": (
        lambda width: TurnRD(4, goal_width=width).modulation(torch.zeros(1, 3)), {"width": 0},
        {"width": 3}),
    "(delete it to ask again)": (label, {"cache": "{at}", "spoil": True}, {"spoil": False}),
    "give your own as package.module:function": (rewards.find_verifier, {"name": "mine"},
        {"name": "credit.rewards:exact"}),
    "install it, or put its folder on PYTHONPATH": (start_python,
        {"code": FIND, "/mine.py": "def pay(turn): return 0.0", "$PYTHONPATH": f"{ROOT}/src"},
        {"$PYTHONPATH": f"{ROOT}/src:{{at}}"}),
}  # fmt: skip


@pytest.mark.parametrize("advice", REMEDIES)
def test_advice(advice, tmp_path, monkeypatch):
    follow(advice, REMEDIES[advice], tmp_path, monkeypatch)
