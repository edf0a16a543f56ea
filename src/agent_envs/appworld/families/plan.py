"""What a task family says of one task: the request, what must change, a solution in code."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.appworld.state import Changes, Row, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_envs.appworld.people import Draft

HALF_A_CENT = 0.005
NO_CHANGES = Changes({}, {}, {})
_LOOK = """
# See who I work for, what the time is, and log in to the apps that this needs.
me = apis.supervisor.show_profile()
now = apis.supervisor.show_active_task()["now"]
passwords = {a["account_name"]: a["password"] for a in apis.supervisor.show_account_passwords()}
$logins
def every(api, **given):
    found, page = [], 0
    while len(found) == 20 * page:
        found += api(page_index=page, page_limit=20, **given)
        page += 1
    return found

print(me["first_name"], now)
"""
_LOGIN = (
    '{0}_token = apis.{0}.login(username=me["email"], password=passwords["{0}"])["access_token"]\n'
)


class Has(NamedTuple):
    """A text with these words in it, in any case, and none of those."""

    words: tuple[str, ...]
    none_of: tuple[str, ...] = ()


class IdOf(NamedTuple):
    """The id of a row of a table, as things are, that has these fields."""

    table: str
    fields: dict[str, Any]


class Added(NamedTuple):
    """A row that must be new, with these fields; its other fields are free."""

    table: str
    fields: dict[str, Any]


class Changed(NamedTuple):
    """The row that had the fields `where` must now have `fields`, its others as they were."""

    table: str
    where: dict[str, Any]
    fields: dict[str, Any]


class Removed(NamedTuple):
    """The row that had the fields `where` must be gone."""

    table: str
    where: dict[str, Any]


_Change = Added | Changed | Removed


@dataclass(frozen=True)
class Plan:
    """One task of a family.

    Args:
        requests: ways to ask for it, with {names} of what is given.
        given: what the request and the solution name.
        solution: the code of each turn after the first, with $names of what is given.
        changes: all that must change.
        answer: the answer, a number or a text; a tuple of texts in any order; None for none.
    """

    requests: tuple[str, ...]
    given: Mapping[str, Any]
    solution: tuple[str, ...]
    changes: tuple[_Change, ...] = ()
    answer: Any = None


class Family(NamedTuple):
    """Tasks of one kind: how to plan one in a world being made, how hard it is, which apps."""

    plan: Callable[[Draft], Plan]
    difficulty: int
    apps: tuple[str, ...]

    @property
    def name(self) -> str:
        """What its task ids begin with."""
        return self.plan.__name__

    def solution(self, plan: Plan) -> tuple[str, ...]:
        """The code of each turn."""
        logins = "".join(_LOGIN.format(app) for app in self.apps)
        given = {"logins": logins} | {name: repr(value) for name, value in plan.given.items()}
        return tuple(Template(code).substitute(given).strip() for code in (_LOOK, *plan.solution))


@dataclass
class Verdict:
    """Names of a task's tests that pass, and of those that fail."""

    passes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def note(self, name: str, passed: bool) -> None:
        """Add the outcome of a test."""
        (self.passes if passed else self.failures).append(name)

    @property
    def success(self) -> bool:
        """Whether all pass."""
        return not self.failures


def verdict(plan: Plan, before: State, now: State, ended: tuple[Any, str] | None) -> Verdict:
    """The outcome of the tests: each change, the answer, nothing else changed, the end."""
    told = Verdict()
    found = now.since(before)
    explained: set[tuple[str, str, int]] = set()
    for number, change in enumerate(plan.changes, 1):
        place = _explaining(_settled(change, now), before, found, explained)
        told.note(f"change {number} of {len(plan.changes)} in {change.table} is made", bool(place))
        explained |= {place} if place else set()
    others = {
        (table, kind, row_id)
        for table, changes in found.items()
        for kind, rows in changes._asdict().items()
        for row_id in rows
    }
    told.note("nothing else is changed", others <= explained)
    told.note("the task is completed", ended is not None and ended[1] == "success")
    told.note("the answer is right", ended is not None and same_answer(ended[0], plan.answer))
    return told


def _settled(change: _Change, now: State) -> _Change:
    """A change with ids in the place of what says whose they are; 0 where there is no such row."""
    if not isinstance(change, Added):
        return change
    fields = {
        name: next((row["id"] for row in now.rows(wanted.table, **wanted.fields)), 0)
        if isinstance(wanted, IdOf)
        else wanted
        for name, wanted in change.fields.items()
    }
    return Added(change.table, fields)


def _explaining(
    change: _Change,
    before: State,
    found: Mapping[str, Changes],
    taken: set[tuple[str, str, int]],
) -> tuple[str, str, int] | None:
    """Which of the changes found is this one."""
    changes = found.get(change.table, NO_CHANGES)
    if isinstance(change, Added):
        for row_id, row in changes.added.items():
            place = (change.table, "added", row_id)
            if place not in taken and _fits(row, change.fields):
                return place
        return None
    (row,) = (row for row in before.rows(change.table) if _fits(row, change.where))
    row_id = row["id"]
    if isinstance(change, Removed):
        return (change.table, "removed", row_id) if row_id in changes.removed else None
    fields = changes.changed.get(row_id, {})
    made = set(fields) == set(change.fields) and _fits(fields, change.fields)
    return (change.table, "changed", row_id) if made else None


def _fits(row: Row, fields: Mapping[str, Any]) -> bool:
    return all(_equal(row[name], wanted) for name, wanted in fields.items())


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Has):
        text = value.lower()
        return all(word.lower() in text for word in wanted.words) and not any(
            word.lower() in text for word in wanted.none_of
        )
    if isinstance(wanted, frozenset):
        return len(value) == len(wanted) and set(value) == wanted
    return bool(value == wanted)


def same_answer(given: Any, wanted: Any) -> bool:
    """Whether an answer is the wanted one: numbers by value, texts in any case or order."""
    if wanted is None or given is None:
        return wanted is None and (given is None or str(given).strip() == "")
    if isinstance(wanted, tuple):
        return sorted(map(_plain, str(given).split(","))) == sorted(map(_plain, wanted))
    if isinstance(wanted, (int, float)):
        try:
            return abs(float(str(given).replace(",", "").strip(" $€£")) - wanted) < HALF_A_CENT
        except ValueError:
            return False
    return _plain(str(given)) == _plain(wanted)


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .\"'")
