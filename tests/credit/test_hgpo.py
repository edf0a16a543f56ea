"""HGPO: levels of history worked by hand, both weightings, and what it equals."""

import pytest
from hypothesis import given

import credit
from tests.credit.batches import batch, batches, rows

# s a d, s b d, s a d; the first succeeds
THREE = batch([3, 3, 3], [1.0, 0.0, 0.0], [0, 0, 0], anchor=[*"sadsbdsad"])
# of three returns 1, 0, 0 with deviation sqrt(2)/3: 1.414, -.707, -.707; of two: 1, -1
TOP, LOW = 2**0.5, -(0.5**0.5)


def test_levels_by_hand():
    # turn 0 has level 0; turn 1 of the first and third both levels, of the second none; turn 2:
    # (2 TOP + 3 + 4) / 9, LOW, (2 LOW - 3 - 4) / 9
    found = credit.HGPO(gamma=1.0)(THREE)
    last = (2 * TOP + 7) / 9, LOW, (2 * LOW - 7) / 9
    expected = [TOP, 1, last[0], LOW, 0, last[1], LOW, -1, last[2]]
    assert found == pytest.approx(expected, abs=1e-5)
    assert found[2] == pytest.approx(1.092, abs=1e-3)


def test_the_weights_of_the_paper():  # (TOP + 2 + 3) / 6
    found = credit.HGPO(gamma=1.0, weights="paper")(THREE)
    assert found[[2, 8]] == pytest.approx([(TOP + 5) / 6, (LOW - 5) / 6], abs=1e-5)


def test_alpha_sharpens_the_weights():  # 4, 9 and 16
    found = credit.HGPO(gamma=1.0, alpha=2.0)(THREE)
    assert found[2] == pytest.approx((4 * TOP + 25) / 29, abs=1e-5)


def test_a_level_of_equal_returns_gives_its_weight_to_the_others():
    # "d" after "a" has returns 1, 1 and after "b" 0: level 0 alone counts, deviation sqrt(2)/3
    turns = batch([2, 2, 2], [1.0, 1.0, 0.0], [0, 0, 0], anchor=[*"adadbd"])
    found = credit.HGPO(gamma=1.0)(turns)
    assert found[[1, 3, 5]] == pytest.approx([-LOW, -LOW, -TOP], abs=1e-5)


def test_means_only():  # 1 - 1/3, and 1 - 1/2 on the levels of two
    found = credit.HGPO(gamma=1.0, mode="mean_norm")(THREE)
    assert found[2] == pytest.approx((2 * 2 / 3 + 3 / 2 + 4 / 2) / 9, abs=1e-6)


def test_the_base_group_counts_turns():  # outcomes 1, 1, 0 of the turns: 1/3 / sqrt(1/3)
    turns = batch([2, 1], [1.0, 0.0], [0, 0])
    found = credit.HGPO(omega=1.0)(turns)
    assert found == pytest.approx([3**-0.5, 3**-0.5, -2 * 3**-0.5], abs=1e-5)


def test_the_history_is_that_of_the_trajectory():
    # a first turn has no state before it, also not the last one of the trajectory above
    states = credit.HGPO().histories(batch([2] * 3, [1.0, 0.0, 1.0], [0] * 3, anchor=[*"ababab"]))
    assert len(set(states[1][[0, 2, 4]].tolist())) == 3
    assert len(set(states[1][[1, 3, 5]].tolist())) == 1


@pytest.mark.slow
@given(batches())
def test_without_history_it_is_the_step_level_of_gigpo(turns):
    alone = [name for name in {*turns.group.tolist()} if (turns.group == name).sum() == 1]
    several = [row for row, name in enumerate(turns.group) if name not in alone]
    if not several:
        return
    kept = rows(turns, several)
    level = credit.HGPO(levels=0, mode="mean_norm")(kept)
    step = credit.GiGPO(mode="mean_norm").step_advantage(kept)
    assert level == pytest.approx(step, rel=1e-5, abs=1e-6)


@pytest.mark.slow
@given(batches())
def test_a_state_that_all_start_in_adds_no_levels_before(turns):
    assert len(credit.HGPO(levels=50).histories(turns)) <= max(turns.position) + 1


def test_returns_that_differ_by_rounding_are_equal():
    """State b after a: the returns are 0.3 and 0.1 + 0.2, so that level does not count."""

    def advantage(first, second):
        turns = credit.Turns(
            group=[0, 0, 0],
            outcome=[0.3, 0.0, 1.0],
            trajectory=[0, 0, 1, 1, 1, 2, 2],
            reward=[0, 0, 0, first, second, 0, 0],
            anchor=["a", "b", "a", "b", "c", "z", "b"],
        )
        return credit.make("hgpo", gamma=1.0)(turns)

    assert (0.1 + 0.2 > 0.3, 0.125 + 0.175 == 0.3) == (True, True)
    rounded, equal = advantage(0.1, 0.2), advantage(0.125, 0.175)
    assert abs(equal[1]) > 0.1
    assert rounded[[1, 3]] == pytest.approx(equal[[1, 3]], abs=1e-6)
