"""The expert of AppWorld: it reads the request and writes the code for its family.

It knows the wordings of the families and the code for their tasks. Names, amounts and dates come
only from the request, and everything else from the apps. No task needs more, so there is no Oracle.
It does not support the requests of the real benchmark.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from random import Random
from string import Formatter
from typing import TYPE_CHECKING, Any

from agent_envs.appworld.env import AppWorld
from agent_envs.appworld.families import FAMILIES
from agent_envs.appworld.people import Draft
from agent_envs.experts import playing

if TYPE_CHECKING:
    import gymnasium as gym

    from agent_envs.appworld.families.plan import Family, Plan


class Explorer:
    """Runs the code of the request's family, one piece per turn; repeats the last piece at the end.

    Raises:
        ValueError: the request is not one of the embedded families'.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, AppWorld)
        self._code = solve(self._env.goal)

    def act(self) -> str:
        """The code of the next reply; it is not executed."""
        return self.plan()[0]

    def think(self) -> str:
        """The comment at the beginning of the next code."""
        return self.act().partition("\n")[0].removeprefix("# ").removesuffix(".")

    def plan(self) -> list[str]:
        """The code that was not run yet."""
        left = list(self._code)
        for code, _ in self._env.transcript:
            if len(left) > 1 and code == left[0]:
                del left[0]
        return left


def solve(request: str) -> tuple[str, ...]:
    """The code of each turn for a request.

    Raises:
        ValueError: no family has a request with this wording.
    """
    for wording, family, plan in _list_wordings():
        if found := wording.fullmatch(request):
            given = {name: type(plan.given[name])(text) for name, text in found.groupdict().items()}
            return family.write_solution(replace(plan, given=given))
    raise ValueError(
        f"the Explorer of AppWorld only reads requests of backend='mini', got {request!r:.200}"
    )


@cache
def _list_wordings() -> list[tuple[re.Pattern[str], Family, Plan]]:
    """Every wording of a request, with its family and a plan of that family for another person.

    All plans of a family have the same wordings and code.
    """
    plans = [(family, family.plan(Draft(Random(0), 0))) for family in FAMILIES.values()]
    return [
        (_make_pattern(text), family, plan)
        for family, plan in plans
        for text in family.texts.requests
    ]


def _make_pattern(wording: str) -> re.Pattern[str]:
    """The pattern of a wording with {names}; each name becomes a group."""
    pattern, known = "", set[str]()
    for text, name, _, _ in Formatter().parse(wording):
        pattern += re.escape(text)
        if name is not None:
            pattern += f"(?P={name})" if name in known else f"(?P<{name}>.+?)"
            known.add(name)
    return re.compile(pattern)
