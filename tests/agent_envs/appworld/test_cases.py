"""Cases written by hand that judge the judges: right work passes, near misses and harm do not.

`cases/<family>.toml` holds the cases of one family. One case:

    [[case]]
    task = "tick_off-17"
    right = true              # whether a careful person would accept what was done
    why = "One line: what this case is about."
    code = "apis.supervisor.complete_task()"

Every case has `task`, `right`, `why` and one of

* `code`: a piece of Python, or a list of pieces, one a turn. They run after `PREAMBLE`, which gives
  `token["mail"]` and so on, `me` (the profile) and `every(api, **given)` (all pages of a list).
* `plus`: code that runs just before the shipped solution completes the task.
* `swap`: two pieces of code: the shipped solution with the first replaced by the second.
* `answer`: the shipped solution, which completes the task with this answer.

Code must run without an error unless `fails = true`.

A case follows the request and the rules in `docs/appworld.md`, not what the checker does today.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_envs.appworld import tasks
from agent_envs.appworld.families import FAMILIES
from agent_envs.appworld.mini import MiniWorld

FOLDER = Path(__file__).parent / "cases"
PREAMBLE = """
me = apis.supervisor.show_profile()
now = apis.supervisor.show_active_task()["now"]
token = {}
for account in apis.supervisor.show_account_passwords():
    token[account["account_name"]] = getattr(apis, account["account_name"]).login(
        username=me["email"], password=account["password"]
    )["access_token"]

def every(api, **given):
    found, page = [], 0
    while len(found) == 20 * page:
        found += api(page_index=page, page_limit=20, **given)
        page += 1
    return found
"""
WAYS = {"code", "plus", "swap", "answer"}
END = "apis.supervisor.complete_task("


class Case(NamedTuple):
    """A case as it is in its file."""

    task: str
    right: bool
    why: str
    code: tuple[str, ...] = ()
    plus: str = ""
    swap: tuple[str, ...] = ()
    answer: object = None
    fails: bool = False


def cases(family: str) -> list[Case]:
    """The cases of a family."""
    path, found = FOLDER / f"{family}.toml", []
    if not path.is_file():
        return []
    for given in tomllib.loads(path.read_text())["case"]:
        assert len(WAYS & set(given)) == 1, f"{path.name}, {given['why']}: one of {sorted(WAYS)}"
        assert tasks.family_of(given["task"]) == family, f"{path.name}, {given['why']}: {family}"
        code = given.get("code", ())
        found.append(Case(**given | {"code": (code,) if isinstance(code, str) else tuple(code)}))
    return found


def turns(world: MiniWorld, case: Case) -> list[str]:
    """The code of each turn."""
    if case.code:
        return [PREAMBLE, *case.code]
    *before, last = world.solution
    if case.swap:
        old, new = case.swap
        steps = [*before, last]
        assert any(old in step for step in steps), f"{case.task}: {old!r} is not in the solution"
        return [step.replace(old, new) for step in steps]
    assert last.count(END) == 1, "a solution completes the task once, in its last turn"
    head, _, tail = last.partition(END)
    if case.plus:
        return [PREAMBLE, *before, f"{head}\n{case.plus}\n{END}{tail}"]
    return [*before, f"{head}{END}answer={case.answer!r})"]


def judge_case(world: MiniWorld, case: Case) -> str:
    """How a case was judged wrongly, or broken; "" if neither."""
    world.open(case.task)
    for code in turns(world, case):
        output = world.execute(code)
        if "Execution failed" in output and not case.fails:
            return f"{case.task}, {case.why} its code fails: {output[-300:]}"
    passed = world.is_completed() and not world.evaluate().failures
    said = "accepted" if passed else "refused"
    return "" if passed == case.right else f"{case.task}: {said}, though: {case.why}"


@pytest.fixture(scope="module")
def world():
    made = MiniWorld()
    yield made
    made.close()


# `make test` has every eighth family; they take seconds each.
@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=pytest.mark.long if place % 8 else ())
        for place, name in enumerate(FAMILIES)
    ],
)
def test_the_checker_judges_as_a_careful_person_does(world, family):
    missed = [found for case in cases(family) if (found := judge_case(world, case))]
    assert not missed, "\n".join(missed)


def test_every_file_of_cases_is_a_familys():
    assert {path.stem for path in FOLDER.iterdir()} <= set(FAMILIES)
