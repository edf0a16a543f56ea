"""audit_checker: precision and recall of a checker of free text or code, on hand-written cases.

A checker accepts or refuses. The cases of a family are right answers in many wordings, which it
should accept, and near misses and harmful actions, which it should refuse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs_lab.audits.rewards import Share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Case(NamedTuple):
    """One case: its family, the text or code to judge, and whether it is right."""

    family: str
    given: Any
    right: bool


@dataclass(frozen=True)
class FamilyCounts:
    """The confusion counts of a family.

    accepted, refused: right cases that were accepted or refused.
    let_through, turned_away: wrong cases that were accepted or refused.
    """

    accepted: int
    refused: int
    let_through: int
    turned_away: int

    @property
    def precision(self) -> Share | None:
        """Share of right cases among the accepted; None if nothing was accepted."""
        return _share(self.accepted, self.accepted + self.let_through)

    @property
    def recall(self) -> Share | None:
        """Share of accepted cases among the right; None if no case is right."""
        return _share(self.accepted, self.accepted + self.refused)

    @property
    def cases(self) -> int:
        """Number of cases."""
        return self.accepted + self.refused + self.let_through + self.turned_away


@dataclass(frozen=True)
class CheckerAudit:
    """The result of `audit_checker`; it prints as a table and a list of wrongly judged cases.

    families: the counts of each family. wrong: the cases that were judged wrongly.
    """

    families: dict[str, FamilyCounts]
    wrong: tuple[Case, ...]

    def passed(self, least: float = 0.98) -> bool:
        """Whether precision and recall of every family are at least `least`."""
        shares = [s for j in self.families.values() for s in (j.precision, j.recall)]
        return all(share is None or share.share >= least for share in shares)

    def __str__(self) -> str:
        width = max(map(len, [*self.families, "family"]))
        lines = [f"{'family':<{width}}{'cases':>7}  {'precision [95%]':<24}recall [95%]"]
        for family, judged in self.families.items():
            shares = [str(share or "none") for share in (judged.precision, judged.recall)]
            lines.append(f"{family:<{width}}{judged.cases:>7}  {shares[0]:<24}{shares[1]}")
        for case in self.wrong:
            told = "right, but refused" if case.right else "wrong, but accepted"
            lines.append(f"  {case.family}: {told}: {case.given!r:.200}")
        return "\n".join(lines)


def audit_checker(judge: Callable[[Any], bool], cases: Iterable[Case]) -> CheckerAudit:
    """Judge every case and count by family.

    Args:
        judge: the checker: maps a case's text or code to whether it is accepted.
        cases: the cases, at least one.

    Raises:
        ValueError: no cases.
        TypeError: the judge returns something other than True or False.
    """
    counts: dict[str, dict[tuple[bool, bool], int]] = {}
    wrong = []
    for case in cases:
        found = judge(case.given)
        if not isinstance(found, bool):
            raise TypeError(f"a judge must return a bool, got {found!r:.80} for {case!r:.200}")
        counts.setdefault(case.family, dict.fromkeys(_ORDER, 0))[case.right, found] += 1
        if found != case.right:
            wrong.append(case)
    if not counts:
        raise ValueError("no cases: give at least one of each family")
    families = {family: FamilyCounts(*(n[key] for key in _ORDER)) for family, n in counts.items()}
    return CheckerAudit(families, tuple(wrong))


_ORDER = ((True, True), (True, False), (False, True), (False, False))


def _share(count: int, total: int) -> Share | None:
    return Share(count, total) if total else None
