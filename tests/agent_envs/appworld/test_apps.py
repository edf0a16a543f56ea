"""The apps: documented as they are, strict about what they are given, and doing what they say."""

from __future__ import annotations

import json

import pytest

from agent_envs.appworld.apps import APPS
from agent_envs.appworld.apps.app import MOST_ROWS
from agent_envs.appworld.session import Effect, Session
from agent_envs.appworld.tasks import make_task

pytestmark = pytest.mark.slow

ALL = [(app, api) for app, kind in APPS.items() for api in kind.apis]


@pytest.fixture
def session():
    opened = make_task("split_the_dinner-0")
    return Session(opened.household, opened.instruction, APPS)


@pytest.fixture
def call(session):
    """Calls an API of an app that needs log-in, with its token."""
    tokens = {}

    def called(app, api, **given):
        if app not in tokens:
            account = {"username": session.email, "password": session.passwords[app]}
            tokens[app] = session.call(app, "login", account)["value"]["access_token"]
        reply = session.call(app, api, {"access_token": tokens[app], **given})
        return reply["value"] if "value" in reply else reply["error"]

    return called


def status(error):
    return int(error.partition("status code is ")[2][:3])


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
    assert status(reply["error"]) == 422
    assert "has no parameter 'nonsense'" in reply["error"]
    known = APPS[app].apis[api].parameters
    if any(parameter.name == "access_token" for parameter in known):
        assert status(session.call(app, api, {})["error"]) == 401
        assert status(session.call(app, api, {"access_token": "guess"})["error"]) in (401, 422)
        assert session.logged_in == set()
    given = {parameter.name: [{}] for parameter in known}
    if given:
        assert status(session.call(app, api, given)["error"]) in (401, 422)
    assert session.state.find_changes(session.before) == {}


def test_unknown_names_have_the_documented_texts(session):
    assert session.call("phone", "ring", {}) == {"error": "No app named 'phone' found."}
    assert session.call("notes", "burn", {}) == {
        "error": "No API named 'burn' found in the notes app."
    }
    for private in ("_find_row", "__init__", "name", "apis"):
        assert "No API named" in session.call("notes", private, {})["error"]
    assert session.call("supervisor", "login", {})["error"].startswith("No API named 'login'")


def test_log_in(session):
    account = {"username": session.email, "password": "wrong"}
    assert status(session.call("mail", "login", account)["error"]) == 401
    assert session.logged_in == set()
    account["password"] = session.passwords["mail"]
    token = session.call("mail", "login", account)["value"]["access_token"]
    assert session.logged_in == {"mail"}
    assert "value" in session.call("mail", "list_mails", {"access_token": token})


def test_a_token_is_of_no_use_before_log_in(session):
    token = session.make_token("notes")
    assert status(session.call("notes", "list_tags", {"access_token": token})["error"]) == 401


def test_passwords_are_those_of_the_accounts(session):
    told = session.call("supervisor", "show_account_passwords", {})["value"]
    assert {one["account_name"] for one in told} == {n for n, app in APPS.items() if not app.open}
    assert len({one["password"] for one in told}) == len(told)


def test_pages(call):
    songs = [
        song
        for index in range(4)
        for song in call("music", "search_songs", page_index=index, page_limit=20)
    ]
    assert len(songs) == len({song["id"] for song in songs}) == 48
    assert call("music", "search_songs") == songs[:5]
    assert call("music", "search_songs", page_index=1, page_limit=3) == songs[3:6]
    assert call("music", "search_songs", page_index=99) == []
    for limit in (0, 21, 2.0, True, "5"):
        assert status(call("music", "search_songs", page_limit=limit)) == 422


def test_nothing_works_after_the_end(session):
    session.call("supervisor", "complete_task", {"answer": 3})
    assert session.ended == (3, "success")
    assert status(session.call("supervisor", "complete_task", {"answer": 4})["error"]) == 409
    assert session.ended == (3, "success")
    assert status(session.call("supervisor", "show_profile", {})["error"]) == 409


def test_an_answer_and_a_status_of_the_wrong_kind(session):
    for given in ({"answer": [1]}, {"answer": {"a": 1}}, {"status": "done"}):
        assert status(session.call("supervisor", "complete_task", given)["error"]) == 422
    assert session.ended is None


def test_notes(call):
    note = call("notes", "create_note", title="One", text="text", tags=["a"])["note_id"]
    call("notes", "update_note", note_id=note, text="other")
    call("notes", "pin_note", note_id=note)
    assert call("notes", "show_note", note_id=note) == {
        "id": note,
        "title": "One",
        "text": "other",
        "tags": ["a"],
        "pinned": True,
    }
    assert call("notes", "search_notes")[0]["id"] == note
    assert call("notes", "search_notes", tag="a", query="ONE other")[0]["id"] == note
    assert {"tag": "a", "notes": 1} in call("notes", "list_tags")
    call("notes", "delete_note", note_id=note)
    assert status(call("notes", "show_note", note_id=note)) == 404


def test_calendar(call):
    times = {"start": "2024-05-03T10:00", "end": "2024-05-03T11:00:30"}
    event = call("calendar", "create_event", title="Lunch", **times)["event_id"]
    call("calendar", "invite_guest", event_id=event, email="a@b.c")
    assert status(call("calendar", "invite_guest", event_id=event, email="a@b.c")) == 409
    call("calendar", "update_event", event_id=event, end="2024-05-03T12:00")
    shown = call("calendar", "show_event", event_id=event)
    assert (shown["end"], shown["guests"]) == ("2024-05-03T12:00", ["a@b.c"])
    days = {"first_day": "2024-05-03", "last_day": "2024-05-03", "page_limit": 20}
    assert shown in call("calendar", "list_events", **days)
    call("calendar", "uninvite_guest", event_id=event, email="a@b.c")
    assert status(call("calendar", "uninvite_guest", event_id=event, email="a@b.c")) == 404
    assert status(call("calendar", "update_event", event_id=event, end="2024-05-03T09:00")) == 422
    for wrong_time in ("2024-05-03", "2024-05-03 10:00", "2024-13-03T10:00", "now", 3):
        assert status(call("calendar", "update_event", event_id=event, start=wrong_time)) == 422
    call("calendar", "delete_event", event_id=event)
    assert call("calendar", "search_events", query="Lunch") == []


def test_contacts(call):
    given = {"name": "Ann Other", "email": "ann@other.example", "relationship": "friend"}
    contact = call("contacts", "add_contact", **given)["contact_id"]
    assert status(call("contacts", "add_contact", **given)) == 409
    call("contacts", "update_contact", contact_id=contact, phone="555", birthday="2000-02-29")
    assert call("contacts", "search_contacts", query="other ann")[0]["phone"] == "555"
    assert call("contacts", "show_contact", contact_id=contact)["birthday"] == "2000-02-29"
    assert (
        status(call("contacts", "update_contact", contact_id=contact, birthday="2001-02-29")) == 422
    )
    assert status(call("contacts", "update_contact", contact_id=contact, relationship="foe")) == 422
    call("contacts", "delete_contact", contact_id=contact)
    assert call("contacts", "search_contacts", query="Ann Other") == []


def test_mail(call, session):
    mail = call("mail", "list_mails")[0]
    body = call("mail", "show_mail", mail_id=mail["id"])["body"]
    call("mail", "mark_mail", mail_id=mail["id"], starred=True)
    call("mail", "move_mail", mail_id=mail["id"], folder="archive")
    moved = call("mail", "list_mails", folder="archive")
    assert [(one["id"], one["starred"]) for one in moved] == [(mail["id"], True)]
    reply = call("mail", "reply_to_mail", mail_id=mail["id"], body="Yes")["mail_id"]
    again = call("mail", "reply_to_mail", mail_id=reply, body="No")["mail_id"]
    onward = call("mail", "forward_mail", mail_id=mail["id"], recipients=["a@b.c"])["mail_id"]
    sent = {one["id"]: one for one in call("mail", "list_mails", folder="sent")}
    assert sent[reply]["recipients"] == [mail["sender"]]
    assert sent[reply]["sender"] == session.email
    assert sent[again]["subject"] == sent[reply]["subject"] == f"Re: {mail['subject']}"
    assert call("mail", "show_mail", mail_id=onward)["body"] == body
    assert status(call("mail", "send_mail", recipients=["nobody"], subject="x")) == 422
    assert status(call("mail", "move_mail", mail_id=mail["id"], folder="bin")) == 422
    call("mail", "delete_mail", mail_id=mail["id"])
    assert status(call("mail", "show_mail", mail_id=mail["id"])) == 404


def test_files(call):
    call("files", "create_file", path="/a/b.txt", text="one")
    call("files", "append_to_file", path="/a/b.txt", text="\ntwo")
    call("files", "copy_file", path="/a/b.txt", new_path="/c.txt")
    call("files", "move_file", path="/a/b.txt", new_path="/a/d/e.txt")
    listed = call("files", "list_files", folder="/a")
    assert [(file["path"], file["size"]) for file in listed] == [("/a/d/e.txt", 7)]
    call("files", "write_file", path="/c.txt", text="")
    assert call("files", "show_file", path="/c.txt")["text"] == ""
    assert [f["path"] for f in call("files", "search_files", query="two one")] == ["/a/d/e.txt"]
    for path in ("b.txt", "/a/", "//a", "/c.txt"):
        assert status(call("files", "create_file", path=path)) in (409, 422)
    call("files", "delete_file", path="/c.txt")
    assert status(call("files", "show_file", path="/c.txt")) == 404


def test_payments(call, session):
    before = call("payments", "show_balance")["balance"]
    paid = call("payments", "send_money", receiver="a@b.c", amount=12.25, note="x")
    assert call("payments", "show_balance")["balance"] == pytest.approx(before - 12.25)
    assert call("payments", "show_transaction", **paid)["sender"] == session.email
    newest = call("payments", "list_transactions", direction="sent", query="x a@b.c")
    assert [one["id"] for one in newest] == [paid["transaction_id"]]
    asked = call("payments", "request_money", payer="a@b.c", amount=3)["request_id"]
    assert status(call("payments", "accept_request", request_id=asked)) == 409
    call("payments", "cancel_request", request_id=asked)
    assert status(call("payments", "cancel_request", request_id=asked)) == 409
    assert call("payments", "list_requests", direction="sent", status="cancelled")[0]["id"] == asked
    assert status(call("payments", "send_money", receiver=session.email, amount=1)) == 422
    assert status(call("payments", "send_money", receiver="a@b.c", amount=90_000)) == 409
    for amount in (0, -1, 0.001, float("nan"), float("inf"), True, "1"):
        assert status(call("payments", "send_money", receiver="a@b.c", amount=amount)) == 422


def test_a_request_is_paid_with_its_note(call, session):
    fields = {"requester": "a@b.c", "payer": session.email, "amount": 5.5, "note": "bus"}
    asked = session.state.add("requests", **fields, asked_at=session.now, status="pending")
    assert call("payments", "list_requests")[0]["id"] == asked
    paid = call("payments", "accept_request", request_id=asked)
    shown = call("payments", "show_transaction", **paid)
    assert (shown["receiver"], shown["amount"], shown["note"]) == ("a@b.c", 5.5, "bus")
    assert status(call("payments", "decline_request", request_id=asked)) == 409


def test_shopping(call):
    made = call("shopping", "create_list", title="New")["list_id"]
    item = call("shopping", "add_item", list_id=made, name="tea", quantity=2)["item_id"]
    assert status(call("shopping", "add_item", list_id=made, name="tea")) == 409
    call("shopping", "update_item", item_id=item, quantity=3, bought=True)
    call("shopping", "rename_list", list_id=made, title="Newer")
    assert call("shopping", "show_list", list_id=made) == {
        "id": made,
        "title": "Newer",
        "items": [{"id": item, "name": "tea", "quantity": 3, "bought": True}],
    }
    call("shopping", "delete_list", list_id=made)
    assert status(call("shopping", "remove_item", item_id=item)) == 404
    assert made not in [one["id"] for one in call("shopping", "show_lists")]


def test_music(call):
    first, second = call("music", "search_songs", page_limit=2)
    made = call("music", "create_playlist", title="Mine")["playlist_id"]
    for song in (second, first):
        call("music", "add_song_to_playlist", playlist_id=made, song_id=song["id"])
    again = call("music", "add_song_to_playlist", playlist_id=made, song_id=first["id"])
    assert status(again) == 409
    call("music", "rename_playlist", playlist_id=made, title="Ours")
    assert call("music", "show_playlist", playlist_id=made)["songs"] == [second, first]
    call("music", "remove_song_from_playlist", playlist_id=made, song_id=second["id"])
    assert call("music", "list_playlists")[-1]["song_ids"] == [first["id"]]
    call("music", "unlike_song" if first["liked"] else "like_song", song_id=first["id"])
    assert call("music", "show_song", song_id=first["id"])["liked"] is not first["liked"]
    call("music", "rate_song", song_id=first["id"], rating=2)
    assert call("music", "show_song", song_id=first["id"])["rating"] == 2
    assert first["genre"] in call("music", "list_genres")
    liked = call("music", "list_liked_songs", page_limit=20)
    assert all(song["liked"] for song in liked)
    call("music", "delete_playlist", playlist_id=made)
    assert status(call("music", "show_playlist", playlist_id=made)) == 404


def test_docs_are_found_by_words(session):
    found = session.call("api_docs", "search_api_docs", {"query": "send money"})["value"]
    assert {"payments"} == {one["app_name"] for one in found}
    assert "send_money" in {one["api_name"] for one in found}
    names = session.call("api_docs", "show_app_descriptions", {})["value"]
    assert [one["name"] for one in names] == list(APPS)
    for given in ({"app_name": "phone", "api_name": "x"}, {"app_name": "mail", "api_name": "x"}):
        assert status(session.call("api_docs", "show_api_doc", given)["error"]) == 422


def test_a_mail_has_recipients_and_the_newest_comes_first(call):
    assert status(call("mail", "send_mail", recipients=[], subject="x")) == 422
    for subject in ("one", "two"):  # at the same time: the later one is newer
        call("mail", "send_mail", recipients=["a@b.c"], subject=subject)
    sent = call("mail", "list_mails", folder="sent", page_limit=20)
    assert [mail["subject"] for mail in sent[:2]] == ["two", "one"]
    times = [mail["sent_at"] for mail in call("mail", "list_mails", page_limit=20)]
    assert len(set(times)) > 1
    assert times == sorted(times, reverse=True)


def test_all_of_the_balance_can_be_spent_and_no_cent_more(call):
    balance = call("payments", "show_balance")["balance"]
    more = round(balance + 0.01, 2)
    assert status(call("payments", "send_money", receiver="a@b.c", amount=more)) == 409
    call("payments", "send_money", receiver="a@b.c", amount=balance)
    assert call("payments", "show_balance") == {"balance": 0.0}


def test_payments_of_some_days_include_the_first_and_the_last(call, session):
    call("payments", "send_money", receiver="a@b.c", amount=1, note="today")
    today = session.now[:10]
    for days in (
        {"first_day": today},
        {"last_day": today},
        {"first_day": today, "last_day": today},
    ):
        found = call("payments", "list_transactions", query="today", **days)
        assert [paid["note"] for paid in found] == ["today"]
    for days in ({"first_day": "2999-01-01"}, {"last_day": "1999-12-31"}):
        assert call("payments", "list_transactions", query="today", **days) == []


def test_an_event_takes_time_and_what_is_not_given_stays(call):
    day = {"start": "2030-01-02T10:00", "end": "2030-01-02T10:00"}
    assert status(call("calendar", "create_event", title="x", **day)) == 422
    day["end"] = "2030-01-02T10:01"
    event = call("calendar", "create_event", title="x", place="Room 1", **day)["event_id"]
    call("calendar", "update_event", event_id=event, title="y")
    shown = call("calendar", "show_event", event_id=event)
    assert shown == {"id": event, "title": "y", "place": "Room 1", "guests": [], **day}


def test_an_app_keeps_so_many_rows(call, session):
    room = MOST_ROWS - len(session.state.tables["notes"])
    assert room > 0
    for number in range(room):
        session.begin()
        call("notes", "create_note", title=f"{number}")
    session.begin()
    assert status(call("notes", "create_note", title="one too many")) == 409


def test_a_folder_is_not_its_neighbour(call):
    call("files", "create_file", path="/box/a.txt")
    call("files", "create_file", path="/boxes/b.txt")
    assert [file["path"] for file in call("files", "list_files", folder="/box")] == ["/box/a.txt"]


def test_a_song_is_liked_once(call):
    song = call("music", "search_songs")[0]["id"]
    first, then = ("unlike", "like") if song in liked(call) else ("like", "unlike")
    for verb in (first, then):
        assert call("music", f"{verb}_song", song_id=song) is None
        assert status(call("music", f"{verb}_song", song_id=song)) == 409


def liked(call):
    return [song["id"] for song in call("music", "list_liked_songs", page_limit=20)]


def test_contacts_of_a_relationship(call):
    every = call("contacts", "search_contacts", page_limit=20)
    for kind in ("family", "friend", "coworker", "neighbour", "other"):
        found = call("contacts", "search_contacts", relationship=kind, page_limit=20)
        assert [one for one in found if one in every] == [
            one for one in every if one["relationship"] == kind
        ]
    assert {one["relationship"] for one in every} >= {"friend", "coworker"}


def test_none_is_no_value_of_what_is_required(call):
    assert status(call("notes", "create_note", title=None)) == 422
    assert status(call("notes", "show_note", note_id=None)) == 422
    assert status(call("notes", "create_note", title="x", text=None)) == 422  # its default is ""
    assert "note_id" in call("notes", "create_note", title="x", tags=None)


def test_a_token_opens_its_own_app_alone(session):
    account = {"username": session.email}
    tokens = {}
    for app in ("notes", "music"):
        given = {**account, "password": session.passwords[app]}
        tokens[app] = session.call(app, "login", given)["value"]["access_token"]
    assert "value" in session.call("notes", "list_tags", {"access_token": tokens["notes"]})
    assert (
        status(session.call("notes", "list_tags", {"access_token": tokens["music"]})["error"])
        == 401
    )


KEYED = {
    "the state": lambda session: session.state.change("songs", 101, rating=1),
    "the ids of new rows": lambda session: session.state.remove(
        "notes", session.state.add("notes", title="x")
    ),
    "a log-in": lambda session: session.logged_in.add("notes"),
    "what was asked for and done": lambda session: session.ledger.add("payment", amount=5.0),
    "harm": lambda session: session.ledger.add("payment", amount=7.0),
    "the answer": lambda session: setattr(session, "ended", ("5", "success")),
    "the status": lambda session: setattr(session, "ended", (None, "fail")),
    "the end": lambda session: setattr(session, "ended", (None, "success")),
}


def test_the_key_of_a_session_has_each_part_by_itself():
    opened, keys = make_task("split_the_dinner-0"), []
    for change in (None, *KEYED.values()):
        wanted = [Effect("payment", {"amount": 5.0})]
        session = Session(opened.household, opened.instruction, APPS, wanted)
        if change is not None:
            change(session)
        keys.append(session.key)
    assert len(set(map(repr, keys))) == len(KEYED) + 1


def test_an_id_is_used_once(call):
    first = call("notes", "create_note", title="x")["note_id"]
    call("notes", "delete_note", note_id=first)
    assert call("notes", "create_note", title="x")["note_id"] == first + 1
