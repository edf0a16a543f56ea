"""The experts of AppWorld-v1: both write the code of the families, part by part.

The Explorer knows the wordings of the families and reads the request; what it needs else it looks
up in the apps. The Oracle knows the programme, its values, and whether something is missing.
"""

from __future__ import annotations

import re
from functools import cache
from string import Formatter
from typing import TYPE_CHECKING, Any

from agent_envs.appworld.env import AppWorld
from agent_envs.appworld.world import FAMILIES, list_apps
from agent_envs.experts import playing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import gymnasium as gym

    from agent_envs.appworld.world import Family

    Parts = list[tuple[Family, dict[str, Any]]]

FAIL = 'apis.supervisor.complete_task(status="fail")'
_LOOK = """
me = apis.supervisor.show_profile()
today = apis.supervisor.show_active_task()["now"][:10]
passwords = {a["account_name"]: a["password"] for a in apis.supervisor.show_account_passwords()}
"""
_LOGIN = (
    '{0}_token = apis.{0}.login(username=me["email"], password=passwords["{0}"])["access_token"]\n'
)
EVERY = """
def every(api, **given):
    found, page = [], 0
    while len(found) == 20 * page:
        found += api(page_index=page, page_limit=20, **given)
        page += 1
    return found
"""
_ONE = """
def one(found):
    (row,) = found or [None]
    return row
"""
_SHOW = """
def show(row):
    return apis.contacts.show_contact(access_token=contacts_token, contact_id=row["id"])
"""
_PERSON = """
def person(email):
    known = every(apis.contacts.search_contacts, access_token=contacts_token)
    row = one([c for c in known if c["email"] == email])
    return show(row) if row else None
"""
_TABLES = {
    "contacts": "[show(c) for c in every(apis.contacts.search_contacts, "
    "access_token=contacts_token)]",
    "events": "every(apis.calendar.list_events, access_token=calendar_token)",
    "mails": "every(apis.mail.list_mails, access_token=mail_token)",
    "transactions": "every(apis.payments.list_transactions, access_token=payments_token)",
    "requests": "every(apis.payments.list_requests, access_token=payments_token)",
}
_END = """
if answer is None:
    apis.supervisor.complete_task(status="fail")
else:
    apis.supervisor.complete_task(answer=answer)"""


class Oracle:
    """Knows the programme of the task, and whether something that it needs is missing."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, AppWorld)
        task = self._env.world.task
        parts = [(FAMILIES[n], v) for n, v in zip(task.programme, task.given, strict=True)]
        self._code = [FAIL] if task.missing else write_solution(parts)

    def act(self) -> str:
        """The code of the next reply; it is not executed."""
        return self.plan()[0]

    def think(self) -> str:
        """What the next code does, in a few words."""
        return f"{len(self.plan())} to go." if self.plan()[0] in self._code else "It is not there."

    def plan(self) -> list[str]:
        """The code that was not run yet, the last piece at least."""
        left = list(self._code)
        for code, _ in self._env.transcript:
            if len(left) > 1 and code == left[0]:
                del left[0]
        return left


class Explorer(Oracle):
    """Reads the request, looks each part up, and says so if something is not there.

    Raises:
        ValueError: the request is not one of the families'.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, AppWorld)
        self._code = write_solution(read_request(self._env.goal))

    def plan(self) -> list[str]:
        """The code that was not run yet; the end with status "fail" if a look-up found nothing."""
        past = self._env.transcript
        if past and past[-1][1].strip() == "None":
            return [FAIL]
        return super().plan()


def write_solution(parts: Parts) -> list[str]:
    """The code of each turn: look and log in, each part, the end."""
    apps = list_apps(family.name for family, _ in parts)
    code = "".join(family.code for family, _ in parts)
    head = _LOOK + "".join(map(_LOGIN.format, apps)) + EVERY
    head += _ONE if "one(" in code or "person(" in code else ""
    head += _SHOW if "in contacts" in code or "person(" in code else ""
    codes = [(head + (_PERSON if "person(" in code else "")).strip()]
    for family, values in parts:
        given = [f"{name} = {value!r}\n" for name, value in values.items()]
        rows = [f"{name} = {_TABLES[name]}\n" for name in family.tables]
        end = "" if family.is_act else _END if family.is_question else "\nprint(it)"
        codes.append("".join([*given, *rows, family.code, end]))
    return codes if parts[-1][0].is_question else [*codes, "apis.supervisor.complete_task()"]


def read_request(text: str) -> Parts:
    """The programme of a request, and the values of each part.

    Raises:
        ValueError: no family has a part of it.
    """
    reader = _Reader()
    sentences = []
    for sentence in re.split(r"(?<=[.?]) (?=[A-Z0-9])", text):
        if defined := re.fullmatch(r"([A-D]) is (.+)\.", sentence):
            reader.meant[defined[1]] = defined[2]
        else:
            thing = re.fullmatch(r"Look up (.+)\.", sentence)
            sentences.append(thing[1] if thing else sentence)
    for sentence in sentences:
        if reader.read(sentence) is None:
            raise ValueError(f"no family of AppWorld-v1 has the wording of {sentence!r:.200}")
    return reader.parts


class _Reader:
    """Reads texts of parts; `meant` has what letters mean, `kinds` of what kind they are."""

    def __init__(self) -> None:
        self.parts: Parts = []
        self.meant: dict[str, str] = {}
        self.kinds: dict[str, str] = {}

    def read(self, text: str) -> str | None:
        """Add the parts of a text that are not known yet; what they find, None if unclear."""
        if text in self.kinds:
            return self.kinds[text]
        if text in self.meant:
            kind = self.read(self.meant[text])
            if kind is not None:
                self.kinds[text] = kind
            return kind
        if text.startswith("that ") and text.count(" ") == 1:
            return text.removeprefix("that ")
        for wording, family in _list_wordings():
            if not (found := wording.fullmatch(text)):
                continue
            values: dict[str, Any] = found.groupdict()
            it, known = values.pop("it", ""), len(self.parts)
            if (self.read(it) if it else "") == family.takes:
                if "amount" in values:
                    values["amount"] = float(values["amount"])
                self.parts.append((family, values))
                return family.finds
            del self.parts[known:]
        return None


@cache
def _list_wordings() -> Sequence[tuple[re.Pattern[str], Family]]:
    """The pattern of every wording, with its family."""
    return [(_make_pattern(said), one) for one in FAMILIES.values() for said in one.said]


def _make_pattern(wording: str) -> re.Pattern[str]:
    """The pattern of a wording with {names}; each name becomes a group."""
    pattern = ""
    for text, name, _, _ in Formatter().parse(wording):
        pattern += re.escape(text)
        if name is not None:
            quoted = text.endswith('"')
            form = ".+" if name == "it" else '[^"]+' if quoted else r"[\w.-]+(?: [A-Z]\w+)?"
            pattern += f"(?P<{name}>{form})"
    return re.compile(pattern)
