"""The apps: documented as they are, strict about what they are given, and doing what they say."""

import json

import pytest

from agent_envs.appworld.apps import APPS
from agent_envs.appworld.session import Effect, Session
from agent_envs.appworld.tasks import make_task
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
    given = {parameter.name: [{}] for parameter in known}
    if given:
        assert read_status(session.call(app, api, given)) in (401, 422)
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
    for app in ("mail", "music"):
        account["password"] = passwords[app]
        tokens[app] = session.call(app, "login", account)["value"]
    assert session.logged_in == {"mail", "music"}
    assert "value" in session.call("mail", "list_mails", tokens["mail"])
    assert read_status(session.call("mail", "list_mails", tokens["music"])) == 401


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
        assert call("music", "search_songs", page_limit=limit) == 422


def test_nothing_works_after_the_end(session):
    for given in ({"answer": [1]}, {"answer": {"a": 1}}, {"status": "done"}):
        assert read_status(session.call("supervisor", "complete_task", given)) == 422
    assert session.ended is None
    session.call("supervisor", "complete_task", {"answer": 3})
    for api, given in (("complete_task", {"answer": 4}), ("show_profile", {})):
        assert read_status(session.call("supervisor", api, given)) == 409
    assert session.ended == (3, "success")


def test_notes(call):
    assert call("notes", "create_note", title=None) == 422
    assert call("notes", "create_note", title="x", text=None) == 422  # its default is ""
    note = call("notes", "create_note", title="One", text="text", tags=None)["note_id"]
    call("notes", "update_note", note_id=note, text="other", tags=["a"])
    call("notes", "pin_note", note_id=note)
    shown = {"id": note, "title": "One", "text": "other", "tags": ["a"], "pinned": True}
    assert call("notes", "show_note", note_id=note) == shown
    assert call("notes", "show_note", note_id=None) == 422
    assert call("notes", "search_notes")[0]["id"] == note
    assert call("notes", "search_notes", tag="a", query="ONE other")[0]["id"] == note
    assert {"tag": "a", "notes": 1} in call("notes", "list_tags")
    call("notes", "delete_note", note_id=note)
    assert call("notes", "show_note", note_id=note) == 404
    assert call("notes", "create_note", title="x")["note_id"] == note + 1  # no id is used twice


def test_calendar(call):
    day = {"start": "2024-05-03T10:00", "end": "2024-05-03T10:00"}
    assert call("calendar", "create_event", title="x", **day) == 422  # an event takes time
    day["end"] = "2024-05-03T10:01"
    event = call("calendar", "create_event", title="x", place="Room 1", **day)["event_id"]
    call("calendar", "update_event", event_id=event, title="Lunch")
    call("calendar", "invite_guest", event_id=event, email="a@b.c")
    assert call("calendar", "invite_guest", event_id=event, email="a@b.c") == 409
    shown = call("calendar", "show_event", event_id=event)
    expected = {"id": event, "title": "Lunch", "place": "Room 1", "guests": ["a@b.c"], **day}
    assert shown == expected
    days = {"first_day": "2024-05-03", "last_day": "2024-05-03", "page_limit": 20}
    assert shown in call("calendar", "list_events", **days)
    call("calendar", "uninvite_guest", event_id=event, email="a@b.c")
    assert call("calendar", "uninvite_guest", event_id=event, email="a@b.c") == 404
    assert call("calendar", "update_event", event_id=event, end="2024-05-03T09:00") == 422
    for wrong_time in ("2024-05-03", "2024-05-03 10:00", "2024-13-03T10:00", "now", 3):
        assert call("calendar", "update_event", event_id=event, start=wrong_time) == 422
    call("calendar", "delete_event", event_id=event)
    assert call("calendar", "search_events", query="Lunch") == []


def test_contacts(call):
    every = call("contacts", "search_contacts", page_limit=20)
    for kind in ("friend", "coworker"):
        found = call("contacts", "search_contacts", relationship=kind, page_limit=20)
        assert {one["relationship"] for one in found} == {kind}
        assert [one for one in every if one["relationship"] == kind] == found
    given = {"name": "Ann Other", "email": "ann@other.example", "relationship": "friend"}
    contact = call("contacts", "add_contact", **given)["contact_id"]
    assert call("contacts", "add_contact", **given) == 409
    call("contacts", "update_contact", contact_id=contact, phone="555", birthday="2000-02-29")
    assert call("contacts", "search_contacts", query="other ann")[0]["phone"] == "555"
    assert call("contacts", "show_contact", contact_id=contact)["birthday"] == "2000-02-29"
    for wrong in ({"birthday": "2001-02-29"}, {"relationship": "foe"}):
        assert call("contacts", "update_contact", contact_id=contact, **wrong) == 422
    call("contacts", "delete_contact", contact_id=contact)
    assert call("contacts", "search_contacts", query="Ann Other") == []


def test_mail(call, session):
    listed = call("mail", "list_mails", page_limit=20)
    times = [mail["sent_at"] for mail in listed]
    assert times == sorted(times, reverse=True) != times[::-1]
    mail = listed[0]
    body = call("mail", "show_mail", mail_id=mail["id"])["body"]
    call("mail", "mark_mail", mail_id=mail["id"], starred=True)
    call("mail", "move_mail", mail_id=mail["id"], folder="archive")
    moved = call("mail", "list_mails", folder="archive")
    assert [(one["id"], one["starred"]) for one in moved] == [(mail["id"], True)]
    reply = call("mail", "reply_to_mail", mail_id=mail["id"], body="Yes")["mail_id"]
    again = call("mail", "reply_to_mail", mail_id=reply, body="No")["mail_id"]
    onward = call("mail", "forward_mail", mail_id=mail["id"], recipients=["a@b.c"])["mail_id"]
    sent = {one["id"]: one for one in call("mail", "list_mails", folder="sent", page_limit=20)}
    assert list(sent)[:3] == [onward, again, reply]  # at the same time: the later one is newer
    assert sent[reply]["recipients"] == [mail["sender"]]
    assert sent[reply]["sender"] == session.email
    assert sent[again]["subject"] == sent[reply]["subject"] == f"Re: {mail['subject']}"
    assert call("mail", "show_mail", mail_id=onward)["body"] == body
    for wrong in (["nobody"], []):
        assert call("mail", "send_mail", recipients=wrong, subject="x") == 422
    assert call("mail", "move_mail", mail_id=mail["id"], folder="bin") == 422
    call("mail", "delete_mail", mail_id=mail["id"])
    assert call("mail", "show_mail", mail_id=mail["id"]) == 404


def test_files(call):
    call("files", "create_file", path="/a/b.txt", text="one")
    call("files", "append_to_file", path="/a/b.txt", text="\ntwo")
    call("files", "copy_file", path="/a/b.txt", new_path="/c.txt")
    call("files", "move_file", path="/a/b.txt", new_path="/a/d/e.txt")
    listed = call("files", "list_files", folder="/a")
    assert [(file["path"], file["size"]) for file in listed] == [("/a/d/e.txt", 7)]
    call("files", "create_file", path="/ab/b.txt")  # a folder is not its neighbour
    assert call("files", "list_files", folder="/a") == listed
    call("files", "write_file", path="/c.txt", text="")
    assert call("files", "show_file", path="/c.txt")["text"] == ""
    assert [f["path"] for f in call("files", "search_files", query="two one")] == ["/a/d/e.txt"]
    for path in ("b.txt", "/a/", "//a", "/c.txt"):
        assert call("files", "create_file", path=path) in (409, 422)
    call("files", "delete_file", path="/c.txt")
    assert call("files", "show_file", path="/c.txt") == 404


def test_payments(call, session):
    before = call("payments", "show_balance")["balance"]
    paid = call("payments", "send_money", receiver="a@b.c", amount=12.25, note="x")
    assert call("payments", "show_balance")["balance"] == pytest.approx(before - 12.25)
    assert call("payments", "show_transaction", **paid)["sender"] == session.email
    first, last = ({key: session.now[:10]} for key in ("first_day", "last_day"))
    for days in ({}, first, last, first | last):
        found = call("payments", "list_transactions", direction="sent", query="x a@b.c", **days)
        assert [one["id"] for one in found] == [paid["transaction_id"]]
    for days in ({"first_day": "2999-01-01"}, {"last_day": "1999-12-31"}):
        assert call("payments", "list_transactions", query="x a@b.c", **days) == []
    for amount in (0, -1, 0.001, float("nan"), float("inf"), True, "1"):
        assert call("payments", "send_money", receiver="a@b.c", amount=amount) == 422
    assert call("payments", "send_money", receiver=session.email, amount=1) == 422
    more = round(before - 12.25 + 0.01, 2)  # all can be spent and no cent more
    assert call("payments", "send_money", receiver="a@b.c", amount=more) == 409
    call("payments", "send_money", receiver="a@b.c", amount=round(before - 12.25, 2))
    assert call("payments", "show_balance") == {"balance": 0.0}


def test_requests_for_money(call, session):
    asked = call("payments", "request_money", payer="a@b.c", amount=3)["request_id"]
    assert call("payments", "accept_request", request_id=asked) == 409
    call("payments", "cancel_request", request_id=asked)
    assert call("payments", "cancel_request", request_id=asked) == 409
    assert call("payments", "list_requests", direction="sent", status="cancelled")[0]["id"] == asked
    fields = {"requester": "a@b.c", "payer": session.email, "amount": 5.5, "note": "bus"}
    asked = session.state.add("requests", **fields, asked_at=session.now, status="pending")
    assert asked in [one["id"] for one in call("payments", "list_requests", page_limit=20)]
    paid = call("payments", "accept_request", request_id=asked)
    shown = call("payments", "show_transaction", **paid)
    assert (shown["receiver"], shown["amount"], shown["note"]) == ("a@b.c", 5.5, "bus")
    assert call("payments", "decline_request", request_id=asked) == 409


def test_shopping(call):
    made = call("shopping", "create_list", title="New")["list_id"]
    item = call("shopping", "add_item", list_id=made, name="tea", quantity=2)["item_id"]
    assert call("shopping", "add_item", list_id=made, name="tea") == 409
    call("shopping", "update_item", item_id=item, quantity=3, bought=True)
    call("shopping", "rename_list", list_id=made, title="Newer")
    items = [{"id": item, "name": "tea", "quantity": 3, "bought": True}]
    shown = call("shopping", "show_list", list_id=made)
    assert shown == {"id": made, "title": "Newer", "items": items}
    call("shopping", "delete_list", list_id=made)
    assert call("shopping", "remove_item", item_id=item) == 404
    assert made not in [one["id"] for one in call("shopping", "show_lists")]


def test_music(call):
    first, second = call("music", "search_songs", page_limit=2)
    made = call("music", "create_playlist", title="Mine")["playlist_id"]
    for song in (second, first):
        call("music", "add_song_to_playlist", playlist_id=made, song_id=song["id"])
    again = call("music", "add_song_to_playlist", playlist_id=made, song_id=first["id"])
    assert again == 409
    call("music", "rename_playlist", playlist_id=made, title="Ours")
    assert call("music", "show_playlist", playlist_id=made)["songs"] == [second, first]
    call("music", "remove_song_from_playlist", playlist_id=made, song_id=second["id"])
    assert call("music", "list_playlists")[-1]["song_ids"] == [first["id"]]
    for liked in (not first["liked"], first["liked"]):
        verb = "like_song" if liked else "unlike_song"
        assert call("music", verb, song_id=first["id"]) is None
        assert call("music", "show_song", song_id=first["id"])["liked"] is liked
        assert call("music", verb, song_id=first["id"]) == 409
    call("music", "rate_song", song_id=first["id"], rating=2)
    assert call("music", "show_song", song_id=first["id"])["rating"] == 2
    assert first["genre"] in call("music", "list_genres")
    liked = call("music", "list_liked_songs", page_limit=20)
    assert all(song["liked"] for song in liked)
    call("music", "delete_playlist", playlist_id=made)
    assert call("music", "show_playlist", playlist_id=made) == 404


def test_docs_are_found_by_words(session):
    found = session.call("api_docs", "search_api_docs", {"query": "send money"})["value"]
    assert {"payments"} == {one["app_name"] for one in found}
    assert "send_money" in {one["api_name"] for one in found}
    names = session.call("api_docs", "show_app_descriptions", {})["value"]
    assert [one["name"] for one in names] == list(APPS)
    for given in ({"app_name": "phone", "api_name": "x"}, {"app_name": "mail", "api_name": "x"}):
        assert read_status(session.call("api_docs", "show_api_doc", given)) == 422


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
