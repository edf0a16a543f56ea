"""Players for the audits of AppWorld: actors that revisit states, and non-solvers.

None of them reads the request in order to fulfil it; they see only what an agent sees.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.appworld.env import AppWorld

Actor = Callable[[str, dict[str, Any]], str]

_BLOCK = "<think>{}</think>\n```python\n{}\n```"
_CODE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_ENTER, _LOGIN, _EVERY = _CODE["enter"], _CODE["login"], _CODE["every"]
_UNDONE, _LASTING, _VARIABLES = _CODE["undone"], _CODE["lasting"], _CODE["variables"]
_ENDS = _CODE["ends"]
_ODD = (
    "no code",
    "```python\n```",
    "```python\nprint(1)\n```",
    _BLOCK.format("", "apis.phone.ring()"),
    _BLOCK.format("", "apis.notes.burn()"),
    _BLOCK.format("", "apis.notes.list_tags()"),
    _BLOCK.format("", "apis.notes.login(username=1)"),
    _BLOCK.format("", "import os  # apis."),
    _BLOCK.format("", "apis.("),
    _BLOCK.format("", "print(apis.supervisor.show_active_task())"),
)
_OUTSIDE, _STRANGE, _LAST, _HALF = 0.2, 0.1, 0.02, 0.5  # never logs in; odd reply; the end


def actions(_env: AppWorld, rng: np.random.Generator) -> Actor:
    """The actor of one episode: it repeats a few actions, most of which can be undone."""
    undone = _UNDONE[:3] if rng.random() < _HALF else _UNDONE[3:]
    kinds = [
        [code for codes in undone for code in codes],
        _VARIABLES[rng.integers(len(_VARIABLES))],
        _LASTING[rng.integers(len(_LASTING))],
        [_LOGIN.format(app) for app in ("notes", "music")],
    ]
    shares = [(1, 0, 0, 0), (0.1, 0.9, 0, 0), (0.2, 0.3, 0.4, 0.1)][rng.integers(3)]
    entered = bool(rng.random() < _OUTSIDE)

    def act(_observation: str, _info: dict[str, Any]) -> str:
        nonlocal entered
        if not entered:
            entered = True
            return _BLOCK.format("", _ENTER)
        chance = rng.random()
        if chance < _STRANGE:
            return _ODD[rng.integers(len(_ODD))]
        if chance < _STRANGE + _LAST:
            return _BLOCK.format("", _ENDS[rng.integers(len(_ENDS))])
        kind = kinds[rng.choice(len(kinds), p=shares)]
        return _BLOCK.format("", kind[rng.integers(len(kind))] + "  # apis.")

    return act


_MOST_MINUTES = (60, 90, 120, 150, 180, 210, 240)


def _script(code: str, end: str = "apis.supervisor.complete_task()") -> Actor:
    """A player that logs in, runs one piece of code and ends the task."""
    replies = iter([_BLOCK.format("", f"{_ENTER}\n{_EVERY}\n{code}\n{end}")])

    def act(_observation: str, _info: dict[str, Any]) -> str:
        return next(replies, _BLOCK.format("", end))

    return act


def _at_once(_: np.random.Generator) -> Actor:
    return _script("")


def _copies_the_request(_: np.random.Generator) -> Actor:
    def act(_observation: str, info: dict[str, Any]) -> str:
        return _BLOCK.format("", f"apis.supervisor.complete_task(answer={info['goal']!r})")

    return act


def _does_with_what_is_quoted(_: np.random.Generator) -> Actor:
    def act(observation: str, info: dict[str, Any]) -> str:
        quoted = re.findall('"([^"]+)"', info["goal"])
        people = 'every(apis.contacts.search_contacts, access_token=token["contacts"])'
        head = f"request = {info['goal']!r}\nquoted = {quoted!r}\npeople = {people}\n"
        return _script(head + _CODE["copies"])(observation, info)

    return act


def _a_number(rng: np.random.Generator) -> Actor:
    number = int(rng.choice(_MOST_MINUTES))
    return _script("", f"apis.supervisor.complete_task(answer={number})")


def _nothing(rng: np.random.Generator) -> Actor:
    nothing = ("0", "0.0", "''", "'none'", "'nothing'", "None")[rng.integers(6)]
    return _script("", f"apis.supervisor.complete_task(answer={nothing})")


def _everything(rng: np.random.Generator) -> Actor:
    way = ("accept", "decline")[rng.integers(2)]
    return _script(_CODE["everything"].format(money=way))


def _one(code: str) -> Callable[[np.random.Generator], Actor]:
    end = "apis.supervisor.complete_task(" + ("answer=answer)" if "answer =" in code else ")")
    return lambda _: _script(code, end)


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "ends_at_once": _at_once,
    "answers_with_the_request": _copies_the_request,
    "answers_a_number": _a_number,
    "answers_nothing": _nothing,
    "does_with_what_is_quoted": _does_with_what_is_quoted,
    "does_everything": _everything,
    **{name: _one(code) for name, code in _CODE["one_app"].items()},
}
"""Players that ignore the task; each takes its episode's random generator."""
