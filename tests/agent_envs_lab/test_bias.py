"""The exact bias of estimators, against closed forms, and the enumeration itself."""

import math
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import credit
from agent_envs_lab.bias import END, WORLDS, Move, World, measure

few = pytest.mark.parametrize("rollouts", [2, 3])
every = pytest.mark.parametrize("name", list(WORLDS))


def error(estimator, name, rollouts, **how):
    """Largest error of the expected gradient."""
    found = measure(estimator, WORLDS[name], rollouts, **how)
    return abs(found.expected - WORLDS[name].gradient()).max()


def pairs(name, array):
    world = WORLDS[name]
    return {pair: array[index] for pair, index in world.parameters.items()}


@every
def test_the_gradient_is_that_of_the_value(name):
    world, size = WORLDS[name], 1e-6

    def value(changed, by):  # of the world whose policy has one logit changed
        state, action = changed
        before = world.states[state]
        odds = {a: m.probability * math.exp(by * (a == action)) for a, m in before.items()}
        total = sum(odds.values())
        moves = {a: m._replace(probability=odds[a] / total) for a, m in before.items()}
        other = replace(world, states={**world.states, state: moves})
        return sum(map(other.value, other.tasks)) / len(other.tasks)

    slope = [(value(pair, size) - value(pair, -size)) / (2 * size) for pair in world.parameters]
    assert world.gradient() == pytest.approx(slope, abs=1e-8)


def test_stopping_is_worked_by_hand():
    # c = 0.6 continues, a turn pays 1: the value is 1 + c + c^2, and its slope c (1 - c) (1 + c)
    # in the first logit, c c (1 - c) in the second; a shared logit has c (1 - c) (1 + 2 c) = 0.528
    world = WORLDS["stop"]
    assert world.value("start") == pytest.approx(1.96)
    slope = pairs("stop", world.gradient())
    assert slope["start", "go"] == pytest.approx(0.384)
    assert slope["turn 2", "go"] == pytest.approx(0.144)
    assert slope["turn 3", "end"] == 0


@every
@few
def test_every_group_is_enumerated_once(name, rollouts):
    seen = []
    world = WORLDS[name]

    def one_for_first_turns(turns):  # the mean score is 0 only if every group counts as it should
        seen.append(len(turns.group))
        return (turns.position == 0).astype(float)

    assert measure(one_for_first_turns, world, rollouts).expected == pytest.approx(0, abs=1e-12)
    paths = [len(list(world.paths(task))) for task in world.tasks]
    assert len(seen) == math.prod(math.comb(count + rollouts - 1, rollouts) for count in paths)
    assert set(seen) == {rollouts * len(world.tasks)}


@every
@few
def test_turn_rloo_is_unbiased(name, rollouts):
    assert error(credit.TurnRLOO(), name, rollouts) < 1e-12


@every
@few
@pytest.mark.parametrize("method", [credit.Reinforce(), credit.RLOO()])
def test_rloo_and_reinforce_are_unbiased(method, name, rollouts):
    assert error(method, name, rollouts, split=False) < 1e-12


@every
@few
def test_dr_grpo_is_short_by_one_part_in_k(name, rollouts):  # its mean includes the trajectory
    expected = measure(credit.DrGRPO(), WORLDS[name], rollouts, split=False).expected
    assert expected == pytest.approx((1 - 1 / rollouts) * WORLDS[name].gradient(), abs=1e-12)


@every
@few
def test_the_signal_critic_points_along_the_gradient(name, rollouts):
    assert measure(credit.SignalCritic(), WORLDS[name], rollouts, split=False).cosine > 0.9


@few
def test_the_signal_critic_of_one_state_without_a_prior_is_dr_grpo(rollouts):
    plain = credit.SignalCritic(c=0.0, rho=0.0, kappa=0.0, prior=0.0)
    found, expected = (measure(one, WORLDS["dead"], rollouts) for one in (plain, credit.DrGRPO()))
    assert found.expected == pytest.approx(expected.expected, abs=1e-12)


def test_grpo_of_two_and_three_outcomes():
    # K = 2: the group differs with probability 2 p (1 - p); then Σ A score = 1/sqrt(2), since
    # A = ±1/sqrt(2) and the scores of success and failure are 1 - p and -p. Over K: p (1 - p) /
    # sqrt(2). K = 3: one of three is 2/sqrt(3) above the mean or below; 3 p (1 - p) of the groups
    # differ, and Σ A score = 2/sqrt(3). The true slope is p (1 - p), halved as there are two tasks.
    for rollouts, factor in ((2, 0.5**0.5), (3, 2 / 3**0.5)):
        found = pairs("dead", measure(credit.GRPO(), WORLDS["dead"], rollouts).expected)
        assert found["hard", "right"] == pytest.approx(factor * 0.25 / 2, rel=1e-5)
        assert found["easy", "right"] == pytest.approx(factor * 0.0475 / 2, rel=1e-5)


PER_TURN = {
    "mt_grpo": credit.MTGRPO(),
    "mt_rloo": credit.MTRLOO(),
    "mt_grpo by anchor": credit.MTGRPO(normalize="anchor"),
    "mt_rloo by anchor": credit.MTRLOO(normalize="anchor"),
    "has on rewards": credit.HAS(alpha=0.0, decomposer=lambda turns: turns.reward),
}


@few
@pytest.mark.parametrize("method", PER_TURN.values(), ids=PER_TURN)
def test_constant_pay_gives_no_gradient_by_position_or_state(method, rollouts):
    found = measure(method, WORLDS["stop"], rollouts)
    assert abs(found.expected).max() == 0
    assert (found.relative, found.cosine, found.noise) == (1, 0, np.inf)


@few
def test_pay_per_turn_is_lost_against_a_falling_outcome(rollouts):
    # to go on pays 0.25 and costs 0.2: the true slope is 0.05 x; only -0.2 x, -4 times it, is left
    truth = WORLDS["falling"].gradient()
    found = measure(credit.MTRLOO(), WORLDS["falling"], rollouts)
    assert found.expected == pytest.approx(-4 * truth)
    assert (found.relative, found.cosine) == (pytest.approx(5), pytest.approx(-1))


@pytest.mark.slow
@pytest.mark.long
def test_the_table_of_the_page_is_what_the_benchmark_measures():
    root = Path(__file__).parents[2]
    program = runpy.run_path(str(root / "benchmarks" / "bias.py"))
    page = (root / "docs" / "credit.md").read_text(encoding="utf-8")
    head, _, *lines = page[page.index("| method | stop |") :].partition("\n\n")[0].splitlines()
    assert head == f"| method | {' | '.join(WORLDS)} |"
    rows = program["make_rows"]()
    for line, (name, row) in zip(lines, rows.items(), strict=True):
        cells = [
            program["format_bias"](program["measure_row"](row, one, 8)) for one in WORLDS.values()
        ]
        assert line == f"| `{name}` | {' | '.join(cells)} |"


FLAT = {"start": {"a": Move(0.5, END, outcome=1.0), "b": Move(0.5, END, outcome=1.0)}}


@pytest.mark.parametrize(
    ("states", "rollouts", "message"),
    [
        ({"start": {"a": Move(0.5), "b": Move(0.4)}}, 2, "'start' must be above 0 and sum to 1"),
        ({"start": {"a": Move(1.0), "b": Move(0.0)}}, 2, "'start' must be above 0 and sum to 1"),
        ({"start": {"a": Move(1.0, "there")}}, 2, "unknown state 'there'.*known: start"),
        ({"begin": {"a": Move(1.0)}}, 2, "unknown state 'start'; known: begin"),
        ({"start": {"a": Move(1.0, "start")}}, 2, "'start' leads back to itself"),
        (FLAT, 2, "true gradient is 0"),
        (FLAT, 0, "rollouts must be positive"),
    ],
)
def test_what_cannot_be_measured(states, rollouts, message):
    with pytest.raises((TypeError, ValueError), match=message):
        measure(credit.RLOO(), World(states), rollouts)
