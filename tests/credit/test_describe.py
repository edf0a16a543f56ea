"""What estimators tell of a batch for a log, by hand."""

import credit


def batch(**changes):
    columns = {
        "group": [0, 0], "outcome": [1.0, 0.0], "goal": ["g"] * 2, "trajectory": [0, 0, 1, 1],
        "reward": [0.0] * 4, "valid": [True, True, True, False], "progress": [0.0] * 4,
        "anchor": ["a", "b", "a", "a"], "action": ["x"] * 4,
    }  # fmt: skip
    return credit.Turns(**(columns | changes))


def test_turns_of_a_state():
    assert credit.make("gigpo").describe(batch()) == {"group_size": 2.0}  # a, a, a and b
    assert credit.make("stapo").describe(batch(anchor=list("abcd"))) == {"group_size": 1.0}


def test_the_gate_of_mgr():
    # completion 1/2 and validity 3/4: between the thresholds, 1 - 1.5 / 2
    assert credit.make("mgr").describe(batch()) == {"p_retain": 0.25}
