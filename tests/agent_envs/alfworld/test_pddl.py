"""Problem: what a PDDL problem says, and where it says something wrong."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_envs import BadAsset
from agent_envs.alfworld.pddl import Problem

TEXT = """(define (problem p) ; two words (and a comment)
(:domain alfred)
(:objects agent1 - agent
  Mug_1 Mug_2 - object Shelf_1 - receptacle MugType - otype ShelfType - rtype l1 - location)
(:init (atLocation agent1 l1)
  (inReceptacle Mug_1 Shelf_1) (inReceptacle  mug_1
  shelf_1)
  (= (total-cost) 0)
  (objectType Mug_1 MugType))
(:goal (and (exists (?r - receptacle) (and (receptacleType ?r ShelfType)
  (exists (?a - object ?b - object) (and (not (= ?b ?a)) (inReceptacle ?a ?r))))))))"""


def test_symbols_are_lower_cased_and_facts_said_twice_are_one():
    problem = Problem(TEXT, "p")
    assert problem.symbols["mug_2"] == "object"
    assert problem.facts["inreceptacle"] == [("mug_1", "shelf_1")]
    assert problem.facts["opened"] == []


def test_the_goal_is_its_atoms_with_variables_told_apart_by_where_they_are_bound():
    atoms = Problem(TEXT, "p").goal
    (_, place, kind), (_, *pair), (_, thing, inside) = atoms
    assert [atom[0] for atom in atoms] == ["receptacletype", "differ", "inreceptacle"]
    assert kind == "shelftype"
    assert inside == place
    assert thing in pair
    assert place not in pair


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("(define", "define", r"line 11, column \d+", "closes nothing"),
        ("(define", "(design", "line 1, column 1", r"expected one '\(define"),
        (
            "(:domain alfred)",
            "(:domain alfred",
            "line 2, column 1|line 1, column 1",
            "never closed",
        ),
        ("(:domain alfred)", "domain", "line 1, column 1", "expected a list"),
        ("(:goal", "(:gaol", "line 1, column 1", "no section 'goal'"),
        ("Shelf_1 - receptacle", "Shelf_1 - shelf", "line 3, column 1", "of type 'shelf'"),
        ("l1 - location)", "l1)", "line 3, column 1", r"\['l1'\] have no type"),
        ("l1 - location)", "l1 - location (x))", "line 4", "a list among the objects"),
        ("(objectType Mug_1", "(objectTyp Mug_1", "line 9, column 3", "predicate 'objecttyp'"),
        ("(objectType Mug_1 M", "(objectType Mug_3 M", "line 9, column 3", "mug_3"),
        ("(objectType Mug_1 MugType)", "(objectType Mug_1)", "line 9, column 3", "object, otype"),
        ("(objectType Mug_1 MugType)", "(objectType MugType Mug_1)", "line 9", "object, otype"),
        ("(objectType Mug_1 MugType)", "(objectType (x) MugType)", "line 9", "object, otype"),
        ("(objectType Mug_1 MugType)", "objectType", "line 5, column 1", "expected facts"),
        ("(objectType Mug_1 MugType)", "()", "line 5, column 1", "expected facts"),
        ("(:goal (and", "(:goal and (and", "line 10, column 1", "a goal is one formula"),
        ("(not (= ?b ?a))", "(not (isOn ?a))", "line 11", "not a formula"),
        ("(not (= ?b ?a))", "(forall (?a - object) (isOn ?a))", "line 11", "not a formula"),
        ("(not (= ?b ?a))", "something", "line 11", "not a formula"),
        ("(not (= ?b ?a))", "(=)", "line 11", "unknown predicate '='"),
        ("(not (= ?b ?a))", "(isUn ?a)", "line 11", "unknown predicate 'isun'"),
        ("(not (= ?b ?a))", "(isOn ?a ?b)", "line 11", "ison takes declared names of"),
    ],
)
def test_what_is_wrong_is_named_with_source_line_and_column(old, new, where, what):
    assert old in TEXT
    with pytest.raises(BadAsset, match=rf"^p: key 'pddl_problem', ({where}).*{what}"):
        Problem(TEXT.replace(old, new), "p")


@given(st.integers(0, len(TEXT) - 1))
def test_a_text_cut_short_is_refused(length):
    with pytest.raises(BadAsset, match=r"^p: key 'pddl_problem', line \d+, column \d+"):
        Problem(TEXT[:length], "p")


@given(st.text(alphabet="()-?= ab\n;", max_size=60))
@example("(=))")
@example("(a b))")
def test_no_text_breaks_the_parser_in_another_way(text):
    with pytest.raises(BadAsset):
        Problem(f"(define (problem p) (:objects) (:init) (:goal {text})", "p")
