"""Players for the audits of AppWorld: actors that revisit states, and non-solvers.

None of them reads the request in order to fulfil it; they see only what an agent sees.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.appworld.env import AppWorld

Actor = Callable[[str, dict[str, Any]], str]

_BLOCK = "<think>{}</think>\n```python\n{}\n```"
_ENTER = """\
me = apis.supervisor.show_profile()
token = {}
for account in apis.supervisor.show_account_passwords():
    app = account["account_name"]
    login = getattr(apis, app).login(username=me["email"], password=account["password"])
    token[app] = login["access_token"]"""
_LOGIN = """\
word = [a["password"] for a in apis.supervisor.show_account_passwords()
        if a["account_name"] == "{0}"][0]
login = apis.{0}.login(username=apis.supervisor.show_profile()["email"], password=word)
token = {{"{0}": login["access_token"]}}
del word, login"""
_UNDONE = (  # pairs that undo each other; ids from 101 on exist in every world
    (
        'apis.notes.pin_note(access_token=token["notes"], note_id=101)',
        'apis.notes.pin_note(access_token=token["notes"], note_id=101, pinned=False)',
    ),
    (
        'apis.music.like_song(access_token=token["music"], song_id=101)',
        'apis.music.unlike_song(access_token=token["music"], song_id=101)',
    ),
    (
        'apis.shopping.update_item(access_token=token["shopping"], item_id=101, bought=True)',
        'apis.shopping.update_item(access_token=token["shopping"], item_id=101, bought=False)',
    ),
    (
        'apis.mail.mark_mail(access_token=token["mail"], mail_id=101, read=True)',
        'apis.mail.mark_mail(access_token=token["mail"], mail_id=101, read=False)',
        'apis.mail.move_mail(access_token=token["mail"], mail_id=101, folder="archive")',
        'apis.mail.move_mail(access_token=token["mail"], mail_id=101, folder="inbox")',
    ),
    (
        'apis.calendar.update_event(access_token=token["calendar"], event_id=101, place="X")',
        'apis.calendar.update_event(access_token=token["calendar"], event_id=101, place="")',
    ),
)
_LASTING = (  # irreversible actions, or actions that change later ids
    (
        'n = apis.notes.create_note(access_token=token["notes"], title="n")["note_id"]',
        'apis.notes.delete_note(access_token=token["notes"], note_id=n)',
        'apis.notes.delete_note(access_token=token["notes"], note_id=112)',
    ),
    (
        'apis.mail.send_mail(access_token=token["mail"], recipients=["a@b.example"], subject="s")',
        'apis.mail.list_mails(access_token=token["mail"], folder="sent")[0]["id"]',
        'apis.mail.delete_mail(access_token=token["mail"], mail_id=101)',
    ),
    (
        'apis.payments.send_money(access_token=token["payments"], receiver="a@b.c", amount=9000)',
        'apis.payments.request_money(access_token=token["payments"], payer="a@b.c", amount=1)',
        'apis.payments.cancel_request(access_token=token["payments"], request_id=103)',
    ),
    (
        'apis.files.create_file(access_token=token["files"], path="/a.txt", text="a")',
        'apis.files.append_to_file(access_token=token["files"], path="/a.txt", text="a" * 3000)',
        'apis.files.delete_file(access_token=token["files"], path="/a.txt")',
    ),
)
_VARIABLES = (
    ("x = [1, 2]", "x.append(3)", "y = x", "y = [1, 2]", "print(1 / (len(y) - 3))", "del x, y"),
    ("x = 1", "x = x + 1", "print(1 / (x - 3))", "del x"),
    ("import random", "random.seed(1)", "assert random.random() < 0.5", "del random"),
    ("def x(a=1):\n    return a", "def x(a=2):\n    return a", "assert x() == 1", "del x"),
    ("x = iter([1, 2])", "next(x)", "del x"),
    ('open("a", "w").close()', 'open("a", "x").close()', 'open("a")'),
    ("from datetime import datetime as x", "x = {1: {2}, 'a': (1,)}", "x[1].add(3)", "x.now()"),
    ("y = apis.music", 'y.list_genres(access_token=token["music"])', "y = apis.notes", "del y"),
    ("import json as x", "x.loads.y = 1", "x.loads.y", "del x"),
    ("del token", "apis = 1", "print(token)"),
)
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
_ENDS = (
    "apis.supervisor.complete_task()",
    "apis.supervisor.complete_task(answer=60)",
    'apis.supervisor.complete_task(status="fail")',
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


_EVERY = """
def every(api, **given):
    found, page = [], 0
    while len(found) == 20 * page:
        found += api(page_index=page, page_limit=20, **given)
        page += 1
    return found
"""
_EVERYTHING = """
t = token
for request in every(apis.payments.list_requests, access_token=t["payments"]):
    apis.payments.{money}_request(access_token=t["payments"], request_id=request["id"])
for song in every(apis.music.search_songs, access_token=t["music"]):
    if not song["liked"]:
        apis.music.like_song(access_token=t["music"], song_id=song["id"])
for mail in every(apis.mail.list_mails, access_token=t["mail"], folder="spam"):
    apis.mail.delete_mail(access_token=t["mail"], mail_id=mail["id"])
for found in every(apis.shopping.show_lists, access_token=t["shopping"]):
    for item in apis.shopping.show_list(access_token=t["shopping"], list_id=found["id"])["items"]:
        apis.shopping.update_item(access_token=t["shopping"], item_id=item["id"], bought=True)
"""
_ONE_APP = {
    "declines_all_requests": """
for request in every(apis.payments.list_requests, access_token=token["payments"]):
    apis.payments.decline_request(access_token=token["payments"], request_id=request["id"])
""",
    "pays_all_requests": """
for request in every(apis.payments.list_requests, access_token=token["payments"]):
    apis.payments.accept_request(access_token=token["payments"], request_id=request["id"])
""",
    "likes_all_songs": """
for song in every(apis.music.search_songs, access_token=token["music"]):
    if not song["liked"]:
        apis.music.like_song(access_token=token["music"], song_id=song["id"])
""",
    "rates_all_unrated_songs": """
for song in every(apis.music.search_songs, access_token=token["music"]):
    if song["rating"] == 0:
        apis.music.rate_song(access_token=token["music"], song_id=song["id"], rating=5)
""",
    "empties_the_spam": """
for mail in every(apis.mail.list_mails, access_token=token["mail"], folder="spam"):
    apis.mail.delete_mail(access_token=token["mail"], mail_id=mail["id"])
""",
    "archives_the_inbox": """
for mail in every(apis.mail.list_mails, access_token=token["mail"]):
    apis.mail.move_mail(access_token=token["mail"], mail_id=mail["id"], folder="archive")
""",
    "ticks_off_all_lists": """
for found in every(apis.shopping.show_lists, access_token=token["shopping"]):
    for item in apis.shopping.show_list(
        access_token=token["shopping"], list_id=found["id"]
    )["items"]:
        apis.shopping.update_item(
            access_token=token["shopping"], item_id=item["id"], bought=True
        )
""",
    "deletes_all_coming_events": """
for event in every(
    apis.calendar.list_events, access_token=token["calendar"], first_day="2024-01-01",
    last_day="2025-12-31",
):
    apis.calendar.delete_event(access_token=token["calendar"], event_id=event["id"])
""",
    "names_the_longest_song": """
songs = every(apis.music.search_songs, access_token=token["music"])
answer = max(songs, key=lambda song: song["seconds"])["title"]
""",
    "adds_up_all_payments": """
paid = every(apis.payments.list_transactions, access_token=token["payments"], direction="sent")
answer = round(sum(one["amount"] for one in paid), 2)
""",
}
_COPIES = """
for title in quoted:
    apis.notes.create_note(access_token=token["notes"], title=title, text=request)
    apis.music.create_playlist(access_token=token["music"], title=title)
    for person in people:
        apis.mail.send_mail(
            access_token=token["mail"], recipients=[person["email"]], subject=title, body=request
        )
"""
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
        return _script(head + _COPIES)(observation, info)

    return act


def _a_number(rng: np.random.Generator) -> Actor:
    number = int(rng.choice(_MOST_MINUTES))
    return _script("", f"apis.supervisor.complete_task(answer={number})")


def _nothing(rng: np.random.Generator) -> Actor:
    nothing = ("0", "0.0", "''", "'none'", "'nothing'", "None")[rng.integers(6)]
    return _script("", f"apis.supervisor.complete_task(answer={nothing})")


def _everything(rng: np.random.Generator) -> Actor:
    way = ("accept", "decline")[rng.integers(2)]
    return _script(_EVERYTHING.format(money=way))


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
    **{name: _one(code) for name, code in _ONE_APP.items()},
}
"""Players that ignore the task; each takes its episode's random generator."""
