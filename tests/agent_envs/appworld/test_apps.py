"""The apps: documented as they are, strict about what they are given, and doing what they say."""

import json

import pytest

from agent_envs.appworld.apps import ANSWERS, APPS, read_answer
from agent_envs.appworld.session import Refusal, Session
from agent_envs.appworld.world import make_task
from tests.agent_envs.appworld.conftest import read_status

pytestmark = pytest.mark.slow

ALL = [(app, api) for app, kind in APPS.items() for api in kind.apis]


@pytest.mark.parametrize(("app", "api"), ALL)
def test_each_is_documented(session, app, api):
    doc = session.call("api_docs", "show_api_doc", {"app_name": app, "api_name": api})["value"]
    assert json.loads(json.dumps(doc)) == doc
    assert doc["description"].endswith(".")
    listed = session.call("api_docs", "show_api_descriptions", {"app_name": app})["value"]
    assert {"name": api, "description": doc["description"]} in listed
    for parameter in doc["parameters"]:
        assert parameter["description"]
        assert parameter["required"] == (parameter["default"] is None) or not parameter["required"]
        assert parameter["type"][0].islower()  # Python's name of it, not ours
    names = [parameter["name"] for parameter in doc["parameters"]]
    assert ("access_token" in names) == (not APPS[app].open and api != "login")
    assert ("page_index" in names) == ("page_limit" in names)


@pytest.mark.parametrize(("app", "api"), ALL)
def test_each_checks_its_arguments(session, app, api):
    reply = session.call(app, api, {"nonsense": 1})
    assert read_status(reply) == 422
    assert "has no parameter 'nonsense'" in reply["error"]
    known = APPS[app].apis[api].parameters
    if any(parameter.name == "access_token" for parameter in known):
        assert read_status(session.call(app, api, {})) == 401
        assert read_status(session.call(app, api, {"access_token": "guess"})) in (401, 422)
        assert session.logged_in == set()
    for value, names in (([{}], known), (None, [one for one in known if one.required])):
        given = {parameter.name: value for parameter in names}
        assert not given or read_status(session.call(app, api, given)) in (401, 422)
    assert session.state.list_changes(session.before) == []


def test_unknown_names_have_the_documented_texts(session):
    assert session.call("phone", "ring", {}) == {"error": "No app named 'phone' found."}
    assert session.call("mail", "burn", {}) == {
        "error": "No API named 'burn' found in the mail app."
    }
    for private in ("_find_row", "__init__", "name", "apis"):
        assert "No API named" in session.call("mail", private, {})["error"]
    assert session.call("supervisor", "login", {})["error"].startswith("No API named 'login'")


def test_log_in(session):
    accounts = session.call("supervisor", "show_account_passwords", {})["value"]
    passwords = {one["account_name"]: one["password"] for one in accounts}
    assert set(passwords) == {name for name, app in APPS.items() if not app.open}
    assert len(set(passwords.values())) == len(passwords)
    account = {"username": session.email, "password": "wrong"}
    assert read_status(session.call("mail", "login", account)) == 401
    early = {"access_token": session.make_token("mail")}
    assert read_status(session.call("mail", "list_mails", early)) == 401
    assert session.logged_in == set()
    tokens = {}
    for app in ("mail", "calendar"):
        account["password"] = passwords[app]
        tokens[app] = session.call(app, "login", account)["value"]
    assert session.logged_in == {"mail", "calendar"}
    assert "value" in session.call("mail", "list_mails", tokens["mail"])
    assert read_status(session.call("mail", "list_mails", tokens["calendar"])) == 401


def test_pages(call):
    mails = [
        mail
        for index in range(3)
        for mail in call("mail", "list_mails", page_index=index, page_limit=20)
    ]
    assert len(mails) == len({mail["id"] for mail in mails}) > 20
    assert call("mail", "list_mails") == mails[:5]
    assert call("mail", "list_mails", page_index=1, page_limit=3) == mails[3:6]
    assert call("mail", "list_mails", page_index=99) == []
    for limit in (0, 21, 2.0, True, "5"):
        assert call("mail", "list_mails", page_limit=limit) == 422


def test_nothing_works_after_the_end(session):
    session.answer_type = "number"
    for given in ({"answer": {"a": 1}}, {"status": "done"}, {}, {"answer": "three"}):
        assert read_status(session.call("supervisor", "complete_task", given)) == 422
    assert session.ended is None
    session.call("supervisor", "complete_task", {"answer": 3})
    for api, given in (("complete_task", {"answer": 4}), ("show_profile", {})):
        assert read_status(session.call("supervisor", api, given)) == 409
    assert session.ended == (3.0, "success")


@pytest.mark.parametrize(
    ("kind", "answer", "read"),
    [
        ("number", 12.5, 12.5),
        ("number", " 12.50 ", 12.5),
        ("number", 7, 7.0),
        ("name", "  Ada  MOSS ", "ada moss"),
        ("date", "2024-05-31", "2024-05-31"),
        ("list", ["Ben Ash", "ada Moss"], ["ada moss", "ben ash"]),
        ("", None, None),
    ],
)
def test_an_answer_is_read_as_its_type(kind, answer, read):
    assert read_answer(kind, answer) == read


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        *[("number", wrong) for wrong in ("12,50 euros", True, None, [12.5], 10**400, "")],
        *[("name", wrong) for wrong in (3, None, ["Ada Moss"], " ")],
        *[("date", wrong) for wrong in ("31 May 2024", "2024-02-30", 20240531, None)],
        *[("list", wrong) for wrong in ("Ada Moss, Ben Ash", [1], None)],
        *[("", wrong) for wrong in ("done", 0, [])],
    ],
)
def test_an_answer_of_another_type_is_refused(kind, answer):
    with pytest.raises(Refusal) as refused:
        read_answer(kind, answer)
    status, told = refused.value.args
    assert status == 422
    assert ANSWERS[kind] in told
    assert "\n" not in told


def test_calendar(call):
    first = call("calendar", "list_events")[0]
    days = {"first_day": first["day"], "last_day": first["day"], "page_limit": 20}
    assert first in call("calendar", "list_events", **days)
    for new in ({"day": "2030-01-02"}, {"place": "Attic"}):
        call("calendar", "update_event", event_id=first["id"], **new)
    call("calendar", "invite_guest", event_id=first["id"], email="a@b.c")
    assert call("calendar", "invite_guest", event_id=first["id"], email="a@b.c") == 409
    (found,) = call("calendar", "search_events", query="attic")
    changed = {"day": "2030-01-02", "place": "Attic", "guests": [*first["guests"], "a@b.c"]}
    assert found == first | changed
    for wrong in ("2024-13-03", "tomorrow", 3):
        assert call("calendar", "update_event", event_id=first["id"], day=wrong) == 422
    call("calendar", "cancel_event", event_id=first["id"])
    for api, given in (("cancel_event", {}), ("update_event", {"place": "x"})):
        assert call("calendar", api, event_id=first["id"], **given) == 409
    assert call("calendar", "search_events", query="attic")[0]["cancelled"] is True


def test_contacts(call):
    every = call("contacts", "search_contacts", page_limit=20)
    for kind in ("friend", "cousin"):
        found = call("contacts", "search_contacts", relationship=kind, page_limit=20)
        assert {one["relationship"] for one in found} == {kind}
        assert [one for one in every if one["relationship"] == kind] == found
    one = every[3]
    call("contacts", "update_contact", contact_id=one["id"], label="chess", city="Oslo")
    shown = call("contacts", "show_contact", contact_id=one["id"])
    assert (shown["label"], shown["city"], shown["name"]) == ("chess", "Oslo", one["name"])
    assert call("contacts", "search_contacts", query=one["email"])[0] == one
    assert call("contacts", "show_contact", contact_id=1) == 404


def test_mail(call, session):
    mail = call("mail", "list_mails")[0]
    call("mail", "mark_mail", mail_id=mail["id"], starred=True)
    call("mail", "move_mail", mail_id=mail["id"], folder="archive")
    moved = {one["id"]: one for one in call("mail", "list_mails", folder="archive", page_limit=20)}
    assert moved[mail["id"]] == mail | {"starred": True}
    sent = call("mail", "send_mail", recipient="a@b.c", subject="Hello", body="Yes")["mail_id"]
    assert [one["id"] for one in call("mail", "list_mails", folder="sent")] == [sent]
    shown = call("mail", "show_mail", mail_id=sent)
    assert (shown["sender"], shown["recipient"], shown["body"]) == (session.email, "a@b.c", "Yes")
    assert [m["id"] for m in call("mail", "search_mails", query="HELLO", folder="sent")] == [sent]
    assert call("mail", "send_mail", recipient="nobody", subject="x") == 422
    assert call("mail", "move_mail", mail_id=mail["id"], folder="sent") == 422
    assert call("mail", "move_mail", mail_id=sent, folder="archive") == 409


def test_payments(call, session):
    paid = call("payments", "send_money", receiver="a@b.c", amount=12, note="x")["transaction_id"]
    index = (paid - 101) // 20
    last = call("payments", "list_transactions", page_index=index, page_limit=20)[-1]
    assert (last["id"], last["sender"], last["amount"]) == (paid, session.email, 12.0)
    for amount in (0, -1, 0.001, float("nan"), float("inf"), True, "1"):
        assert call("payments", "send_money", receiver="a@b.c", amount=amount) == 422


def test_requests_for_money(call, session):
    mine = call("payments", "request_money", payer="a@b.c", amount=3)["request_id"]
    assert call("payments", "accept_request", request_id=mine) == 409
    fields = {"requester": "a@b.c", "payer": session.email, "amount": 5.5, "note": "bus"}
    asked = session.state.add("requests", **fields, day="2024-05-03", status="pending")
    paid = call("payments", "accept_request", request_id=asked)["transaction_id"]
    row = session.state.get("transactions", paid)
    assert (row["receiver"], row["amount"], row["note"]) == ("a@b.c", 5.5, "bus")
    assert session.state.get("requests", asked)["status"] == "paid"
    assert call("payments", "decline_request", request_id=asked) == 409


def test_docs_are_found_by_words(session):
    found = session.call("api_docs", "search_api_docs", {"query": "send money"})["value"]
    assert {"payments"} == {one["app_name"] for one in found}
    assert "send_money" in {one["api_name"] for one in found}
    names = session.call("api_docs", "show_app_descriptions", {})["value"]
    assert [one["name"] for one in names] == list(APPS)
    for given in ({"app_name": "phone", "api_name": "x"}, {"app_name": "mail", "api_name": "x"}):
        assert read_status(session.call("api_docs", "show_api_doc", given)) == 422


KEYED = {
    "the state": lambda session: session.state.change("mails", 101, starred="yes"),
    "a log-in": lambda session: session.logged_in.add("mail"),
    "the answer": lambda session: setattr(session, "ended", ("5", "success")),
    "the status": lambda session: setattr(session, "ended", (None, "fail")),
    "the end": lambda session: setattr(session, "ended", (None, "success")),
}


def test_the_key_of_a_session_has_each_part_by_itself():
    household, keys = make_task("train-event+host+label-0").household, []
    for change in (None, *KEYED.values()):
        session = Session(household, APPS)
        if change is not None:
            change(session)
        keys.append(session.key)
    assert len(set(map(repr, keys))) == len(KEYED) + 1


def test_a_turn_has_500_calls_and_an_app_300_rows(call, session):
    rows = len(session.state.tables["mails"])
    for _ in range(300 - rows):
        call("mail", "send_mail", recipient="a@b.c", subject="x")
    assert call("mail", "send_mail", recipient="a@b.c", subject="x") == 409
    session.begin()
    for _ in range(500):
        assert "value" in session.call("supervisor", "show_profile", {})
    assert read_status(session.call("supervisor", "show_profile", {})) == 429
    session.begin()
    assert "value" in session.call("supervisor", "show_profile", {})
