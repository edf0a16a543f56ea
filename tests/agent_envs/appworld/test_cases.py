"""Cases written by hand that judge the judges: right work passes, near misses and harm do not.

`cases/<family>.toml` holds the cases of one family. One case:

    [[case]]
    task = "tick_off-17"      # <family>-<seed>: 0-11 and 20 on are train, 12-15 val, 16-19 test
    right = true              # whether a careful person would accept what was done
    why = "One line: what this case is about."
    code = '''
    apis.shopping.update_item(access_token=token["shopping"], item_id=129, bought=True)
    apis.supervisor.complete_task()
    '''

Every case has `task`, `right`, `why` (why it is right or wrong) and exactly one of

* `code`: one piece of Python, or a list of pieces that are run as one turn each. They run after
  `PREAMBLE` (below), which logs in to all apps: `token["mail"]` is the mail app's access token,
  `me` the supervisor's profile, `now` the time, `every(api, **given)` all pages of a list.
* `plus`: code that runs just before the shipped solution completes the task. With `right = false`
  it adds harm to right work, with `right = true` something that is allowed.
* `swap`: two pieces of code: the shipped solution with the first replaced by the second.
* `answer`: the shipped solution, which completes the task with this answer.

The worlds of tasks are the same on every machine: look things up by code, or write ids and names as
the world shows them. Code must run without an error, so that a case that is to be refused is not
refused for a typing mistake. `fails = true` says that an error is part of the case.

To run them, all or some families, with the count, precision and recall of each:

    python tests/agent_envs/appworld/test_cases.py [family ...]

A case states what is right by the request and by the rules in `docs/appworld.md` ("Success"),
never by what the checker does today.
"""

# ruff: noqa: T201  it is a command too

from __future__ import annotations

import sys
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
KEYS = {"task", "right", "why", "fails"} | WAYS
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
    """The cases of a family, checked for their form."""
    path = FOLDER / f"{family}.toml"
    if not path.is_file():
        return []
    found = []
    for given in tomllib.loads(path.read_text())["case"]:
        place = f"{path.name}, {given.get('why', given)!r:.80}"
        assert set(given) <= KEYS, f"{place}: known keys are {sorted(KEYS)}"
        assert {"task", "right", "why"} <= set(given), f"{place}: task, right and why are needed"
        assert len(WAYS & set(given)) == 1, f"{place}: one of {sorted(WAYS)}"
        assert tasks.family_of(given["task"]) == family, f"{place}: {given['task']} is not of it"
        code = given.get("code", ())
        given["code"] = (code,) if isinstance(code, str) else tuple(code)
        found.append(Case(**given))
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


class BrokenError(Exception):
    """The code of a case fails, though it should not."""


def accepted(world: MiniWorld, case: Case) -> bool:
    """Whether the task counts as done after a case was played."""
    world.open(case.task)
    for code in turns(world, case):
        output = world.execute(code)
        if "Execution failed" in output and not case.fails:
            raise BrokenError(f"its code fails: {output[-300:]}")
    return world.is_completed() and not world.evaluate().failures


def wrong(world: MiniWorld, family: str) -> tuple[list[str], str]:
    """The cases of a family that are judged wrongly or broken, and a line of figures."""
    missed, judged = [], []
    for case in cases(family):
        try:
            passed = accepted(world, case)
        except BrokenError as error:
            missed.append(f"{case.task}, {case.why} {error}")
            continue
        judged.append((case.right, passed))
        if passed != case.right:
            said = "accepted" if passed else "refused"
            missed.append(f"{case.task}: {said}, though: {case.why}")
    both = sum(right and passed for right, passed in judged)
    right, passed = (sum(column) for column in zip(*judged, strict=True)) if judged else (0, 0)
    precision, recall = both / max(passed, 1), both / max(right, 1)
    return missed, f"{family:30}{len(judged):6}{right:7}{precision:11.3f}{recall:8.3f}"


@pytest.fixture(scope="module")
def world():
    made = MiniWorld()
    yield made
    made.close()


# `make test` has every fourth family; they take a second each.
@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=pytest.mark.long if place % 4 else ())
        for place, name in enumerate(FAMILIES)
    ],
)
def test_the_checker_judges_as_a_careful_person_does(world, family):
    missed, _ = wrong(world, family)
    assert not missed, "\n".join(missed)


def test_every_file_of_cases_is_a_familys():
    assert {path.stem for path in FOLDER.iterdir()} <= set(FAMILIES)


def _run(families: list[str]) -> None:
    world = MiniWorld()
    print(f"{'family':30}{'cases':>6}{'right':>7}{'precision':>11}{'recall':>8}")
    for family in families or FAMILIES:
        missed, figures = wrong(world, family)
        print(figures, *(f"    {line}" for line in missed), sep="\n")
    world.close()


if __name__ == "__main__":
    _run(sys.argv[1:])
