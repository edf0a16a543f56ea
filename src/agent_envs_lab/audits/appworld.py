"""Players for the audits of AppWorld: actors that revisit states, and non-solvers.

None of them looks up what the request is about; they see only what an agent sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_envs.appworld.experts import EVERY

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.appworld.env import AppWorld

Actor = Callable[[str, dict[str, Any]], str]

_BLOCK = "<think></think>\n```python\n{}\n```"
_ENTER = """
me = apis.supervisor.show_profile()
token = {}
for account in apis.supervisor.show_account_passwords():
    app = account["account_name"]
    login = getattr(apis, app).login(username=me["email"], password=account["password"])
    token[app] = login["access_token"]
"""
_LOGIN = """
word = [a["password"] for a in apis.supervisor.show_account_passwords()
        if a["account_name"] == "{0}"][0]
login = apis.{0}.login(username=apis.supervisor.show_profile()["email"], password=word)
token = {{"{0}": login["access_token"]}}
del word, login"""
_UNDONE = [
    f'apis.mail.mark_mail(access_token=token["mail"], mail_id=101, starred={on})'
    for on in (True, False)
] + [
    f'apis.contacts.update_contact(access_token=token["contacts"], contact_id=101, {change})'
    for change in ('label="chess"', 'label="choir"', 'city="Oslo"')
]
_LASTING = [
    'apis.mail.send_mail(access_token=token["mail"], recipient="a@b.example", subject="s")',
    'apis.mail.list_mails(access_token=token["mail"], folder="sent")[0]["id"]',
    'apis.payments.send_money(access_token=token["payments"], receiver="a@b.c", amount=9)',
    'apis.payments.accept_request(access_token=token["payments"], request_id=103)',
    'apis.calendar.cancel_event(access_token=token["calendar"], event_id=101)',
    'apis.calendar.invite_guest(access_token=token["calendar"], event_id=102, email="a@b.c")',
]
_VARIABLES = [
    ["x = [1, 2]", "x.append(3)", "y = x", "y = [1, 2]", "print(1 / (len(y) - 3))", "del x, y"],
    ["x = 1", "x = x + 1", "print(1 / (x - 3))", "del x"],
    ["import random", "random.seed(1)", "assert random.random() < 0.5", "del random"],
    ["def x(a=1): return a", "def x(a=2): return a", "assert x() == 1", "del x"],
    ["x = iter([1, 2])", "next(x)", "del x"],
    ['open("a", "w").close()', 'open("a", "x").close()', 'open("a")'],
    ["from datetime import datetime as x", "x = {1: {2}, 'a': (1,)}", "x[1].add(3)", "x.now()"],
    ["y = apis.mail", 'y.list_mails(access_token=token["mail"])', "y = apis.calendar", "del y"],
    ["import json as x", "x.loads.y = 1", "x.loads.y", "del x"],
    ["del token", "apis = 1", "print(token)"],
]
_ENDS = [f"apis.supervisor.complete_task({given})" for given in ("", "answer=60", 'status="fail"')]
_ODD = ["no code", "```python\n```", "```python\nprint(1)\n```"] + [
    _BLOCK.format(code)
    for code in (
        "apis.phone.ring()",
        "apis.mail.burn()",
        "apis.mail.list_mails()",
        "apis.mail.login(username=1)",
        "import os  # apis.",
        "apis.(",
        "print(apis.supervisor.show_active_task())",
    )
]
_OUTSIDE, _STRANGE, _LAST = 0.2, 0.1, 0.02  # never logs in; odd reply; the end


def actions(_env: AppWorld, rng: np.random.Generator) -> Actor:
    """The actor of one episode: it repeats a few actions, most of which can be undone."""
    logins = [_LOGIN.format(app) for app in ("mail", "calendar")]
    kinds = [_UNDONE, _VARIABLES[rng.integers(len(_VARIABLES))], _LASTING, logins]
    shares = [(1, 0, 0, 0), (0.1, 0.9, 0, 0), (0.2, 0.3, 0.4, 0.1)][rng.integers(3)]
    entered = bool(rng.random() < _OUTSIDE)

    def act(_observation: str, _info: dict[str, Any]) -> str:
        nonlocal entered
        if not entered:
            entered = True
            return _BLOCK.format(_ENTER)
        chance = rng.random()
        if chance < _STRANGE:
            return _ODD[rng.integers(len(_ODD))]
        if chance < _STRANGE + _LAST:
            return _BLOCK.format(_ENDS[rng.integers(len(_ENDS))])
        kind = kinds[rng.choice(len(kinds), p=shares)]
        return _BLOCK.format(kind[rng.integers(len(kind))] + "  # apis.")

    return act


_READ = """
people = every(apis.contacts.search_contacts, access_token=token["contacts"])
events = every(apis.calendar.list_events, access_token=token["calendar"])
mails = every(apis.mail.list_mails, access_token=token["mail"])
requests = every(apis.payments.list_requests, access_token=token["payments"])
asked = [r for r in requests if r["payer"] == me["email"] and r["status"] == "pending"]
task = apis.supervisor.show_active_task()
now, words = task["now"][:10], task["instruction"]
"""
_DOERS = {
    "answers_with_the_request": "answer = words[:200]",
    "answers_a_name": 'answer = people[pick % len(people)]["name"]',
    "answers_a_place": 'answer = events[pick % len(events)]["place"]',
    "answers_a_day": 'answer = max(e["day"] for e in events[pick % 9:])',
    "answers_a_sum": 'answer = asked[pick % len(asked)]["amount"] if asked else 20',
    "answers_the_guests_of_the_next_event": """
coming = min((e for e in events if e["day"] > now), key=lambda e: e["day"])
answer = [p["name"] for p in people if p["email"] in coming["guests"]]""",
    "stars_the_newest_mail": """
newest = max(mails, key=lambda m: m["sent_at"])
apis.mail.mark_mail(access_token=token["mail"], mail_id=newest["id"], starred=True)""",
    "archives_the_newest_mail": """
newest = max(mails, key=lambda m: m["sent_at"])
apis.mail.move_mail(access_token=token["mail"], mail_id=newest["id"], folder="archive")""",
    "cancels_the_next_event": """
coming = min((e for e in events if e["day"] > now), key=lambda e: e["day"])
apis.calendar.cancel_event(access_token=token["calendar"], event_id=coming["id"])""",
    "pays_the_largest_request": """
top = max(asked, key=lambda r: r["amount"])
apis.payments.accept_request(access_token=token["payments"], request_id=top["id"])""",
    "declines_every_request": """
for one in asked:
    apis.payments.decline_request(access_token=token["payments"], request_id=one["id"])""",
    "writes_what_is_quoted_to_somebody": """
quoted = [*words.split('"')[1::2], "", ""]
apis.mail.send_mail(access_token=token["mail"], recipient=people[pick % len(people)]["email"],
                    subject=quoted[0] or "x", body=quoted[1])""",
    "labels_somebody_with_what_is_quoted": """
quoted = [*words.split('"')[1::2], "x"]
apis.contacts.update_contact(access_token=token["contacts"], label=quoted[0],
                             contact_id=people[pick % len(people)]["id"])""",
}


def _do(code: str, end: str = "") -> Callable[[np.random.Generator], Actor]:
    """A player that logs in, reads, runs a piece of code and ends the task."""

    def make_actor(rng: np.random.Generator) -> Actor:
        given = "answer=answer" if "answer =" in code else end
        pick = f"pick = {int(rng.integers(1000))}\n"
        last = f"apis.supervisor.complete_task({given})"
        replies = iter([f"{_ENTER}{EVERY}{_READ}{pick}{code}\n{last}" if code else last, last])
        return lambda _observation, _info: _BLOCK.format(next(replies, _ENDS[2]))

    return make_actor


NON_SOLVERS: dict[str, Callable[[np.random.Generator], Actor]] = {
    "ends_at_once": _do(""),
    "says_that_it_is_not_there": _do("", 'status="fail"'),
    **{name: _do(code) for name, code in _DOERS.items()},
}
"""Players that ignore the task; each takes its episode's random generator."""
