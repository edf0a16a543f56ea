"""The apps of the generated world, each a class whose public methods are its documented APIs.

Nothing is ever deleted: a cancelled event, a declined request and a sent mail stay as rows. So
what code has done is the difference between the tables before and after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.appworld.api import (
    Amount,
    Answer,
    Api,
    App,
    Day,
    Email,
    Page,
    Text,
    check_one_of,
    document_api,
    has_words,
    is_day,
    only,
    read_docstring,
)
from agent_envs.appworld.session import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_envs.appworld.session import Row


class ApiDocs(App):
    """Look up the apps, what they can do, and how to call it."""

    name = "api_docs"
    open = True

    def show_app_descriptions(self) -> list[dict[str, str]]:
        """Show all apps, each with what it is for.

        Gives: a list of name, description
        """
        return [
            {"name": name, "description": read_docstring(app)}
            for name, app in self._session.apps.items()
        ]

    def show_api_descriptions(self, app_name: Text) -> list[dict[str, str]]:
        """Show all APIs of an app, each with what it does.

        Gives: a list of name, description

        Args:
            app_name: name of the app
        """
        found = self._find_apis(app_name).values()
        return [{"name": api.name, "description": api.description} for api in found]

    def show_api_doc(self, app_name: Text, api_name: Text) -> dict[str, Any]:
        """Show how to call an API: its parameters and what it gives.

        Gives: app_name, api_name, description, parameters, response

        Args:
            app_name: name of the app
            api_name: name of the API
        """
        found = self._find_apis(app_name).get(api_name)
        if found is None:
            raise Refusal(422, f"The {app_name} app has no API {api_name!r}.")
        return document_api(app_name, found)

    def search_api_docs(self, query: Text) -> list[dict[str, str]]:
        """Find APIs of all apps by words of their names and descriptions.

        Gives: a list of app_name, api_name, description

        Args:
            query: words that the name and description must have, all of them
        """
        return [
            {"app_name": app, "api_name": api.name, "description": api.description}
            for app, kind in self._session.apps.items()
            for api in kind.apis.values()
            if has_words(query, app, api.name.replace("_", " "), api.description)
        ]

    def _find_apis(self, app_name: str) -> Mapping[str, Api]:
        kind = self._session.apps.get(app_name)
        if kind is None:
            raise Refusal(422, f"No app {app_name!r}; apps are {', '.join(self._session.apps)}.")
        apis: Mapping[str, Api] = kind.apis
        return apis


STATUSES = ("success", "fail")
ANSWERS = {
    "": "nothing: leave the answer out",
    "number": "a number like 12.5",
    "name": "a text: the bare name",
    "date": "a day like '2024-05-31'",
    "list": "a list of names, in any order",
}
"""The types of answers, and how each is written."""


def read_answer(kind: str, answer: Any) -> Any:
    """An answer of a declared type, in a form to compare.

    Args:
        kind: One of `ANSWERS`.
        answer: What code gave; a number may also be a text in digits.

    Raises:
        Refusal: It is of another type.
    """
    if kind == "number" and not isinstance(answer, bool):
        try:
            return round(float(answer), 2)
        except (TypeError, ValueError, OverflowError):
            pass
    elif kind == "date" and is_day(answer):
        return answer
    elif kind == "name" and isinstance(answer, str) and answer.strip():
        return " ".join(answer.casefold().split())
    elif kind == "list" and isinstance(answer, list) and all(isinstance(a, str) for a in answer):
        return sorted(" ".join(one.casefold().split()) for one in answer)
    elif not kind and answer is None:
        return None
    raise Refusal(422, f"The answer must be {ANSWERS[kind]}, got {answer!r:.60}.")


class Supervisor(App):
    """Who asks for the task, their accounts, and how to end the task."""

    name = "supervisor"
    open = True

    def show_profile(self) -> dict[str, Any]:
        """Show the name and email address of your supervisor.

        Gives: first_name, last_name, email
        """
        return dict(self._session.person)

    def show_account_passwords(self) -> list[dict[str, str]]:
        """Show the passwords of your supervisor's accounts; the usernames are the email address.

        Gives: a list of account_name, password
        """
        return [{"account_name": a, "password": p} for a, p in self._session.passwords.items()]

    def show_active_task(self) -> dict[str, str]:
        """Show what your supervisor asked for, how to answer, and the present day and time.

        Gives: instruction, answer, now
        """
        session = self._session
        answer = ANSWERS[session.answer_type]
        return {"instruction": session.instruction, "answer": answer, "now": session.now}

    def complete_task(self, answer: Answer = None, status: str = "success") -> dict[str, str]:
        """End the task; nothing can be done after it.

        Gives: message

        Args:
            answer: the answer, of the type that the task declares; None where it asks for none
            status: "success", or "fail" if something that the task needs is not there
        """
        check_one_of("status", status, STATUSES)
        kind = self._session.answer_type if status == "success" else ""
        self._session.ended = (read_answer(kind, answer), status)
        return {"message": "The task is marked as completed."}


class Calendar(App):
    """Keep appointments, with their days, places and guests."""

    name = "calendar"

    def list_events(self, first_day: Day | None = None, last_day: Day | None = None) -> Page:
        """List the events of some days, cancelled ones too, in no order.

        Gives: a list of id, title, day, place, host, guests, cancelled

        Args:
            first_day: only events from this day on
            last_day: only events up to this day
        """
        return [
            dict(event)
            for event in self._state.find_rows("events")
            if (first_day or "") <= event["day"] <= (last_day or "9")
        ]

    def search_events(self, query: Text) -> Page:
        """Find events by words of their title or place.

        Gives: a list of id, title, day, place, host, guests, cancelled

        Args:
            query: words that title or place must have, all of them
        """
        events = self._state.find_rows("events")
        return [dict(e) for e in events if has_words(query, e["title"], e["place"] or "")]

    def update_event(
        self, event_id: int, day: Day | None = None, place: Text | None = None
    ) -> None:
        """Change the day or the place of an event; what is not given stays.

        Args:
            event_id: id of the event
            day: the new day
            place: the new place
        """
        self._set_fields("events", self._find_open(event_id)["id"], day=day, place=place)

    def cancel_event(self, event_id: int) -> None:
        """Cancel an event; its guests are told, and this is final.

        Args:
            event_id: id of the event
        """
        self._set_fields("events", self._find_open(event_id)["id"], cancelled=True)

    def invite_guest(self, event_id: int, email: Email) -> None:
        """Invite somebody to an event; they get an invitation, and this is final.

        Args:
            event_id: id of the event
            email: email address of the guest
        """
        guests = self._find_open(event_id)["guests"]
        if email in guests:
            raise Refusal(409, f"{email} is already invited.")
        self._set_fields("events", event_id, guests=[*guests, email])

    def _find_open(self, event_id: int) -> Row:
        event = self._find_row("events", event_id)
        if event["cancelled"]:
            raise Refusal(409, f"Event {event_id} is cancelled.")
        return event


class Contacts(App):
    """Keep the people you know, how to reach them and how you know them."""

    name = "contacts"

    def search_contacts(self, query: str = "", relationship: str = "") -> Page:
        """Find contacts by name or email address, and by relationship; without either, list all.

        Gives: a list of id, name, email, relationship

        Args:
            query: words that name or email address must have, all of them
            relationship: only these: "friend", "coworker", "neighbour" or "cousin"
        """
        return [
            only(contact, "id", "name", "email", "relationship")
            for contact in self._state.find_rows("contacts")
            if has_words(query, contact["name"], contact["email"])
            and relationship in ("", contact["relationship"])
        ]

    def show_contact(self, contact_id: int) -> dict[str, Any]:
        """Show all that is known of a contact; partner, manager and emergency are email addresses.

        Gives: id, name, email, relationship, birthday, city, partner, manager, emergency, label

        Args:
            contact_id: id of the contact
        """
        return dict(self._find_row("contacts", contact_id))

    def update_contact(
        self, contact_id: int, label: Text | None = None, city: Text | None = None
    ) -> None:
        """Change the label or the city of a contact; what is not given stays.

        Args:
            contact_id: id of the contact
            label: the new label
            city: where they live
        """
        self._set_fields("contacts", contact_id, label=label, city=city)


FOLDERS = ("inbox", "archive", "sent")


class Mail(App):
    """Read, write and file emails."""

    name = "mail"

    def list_mails(self, folder: str = "inbox") -> Page:
        """List the mails of a folder without their bodies, in no order.

        Gives: a list of id, sender, recipient, subject, sent_at, starred

        Args:
            folder: "inbox", "archive" or "sent"
        """
        return self._find_mails(folder, "")

    def search_mails(self, query: Text, folder: str = "inbox") -> Page:
        """Find mails of a folder by words of sender and subject.

        Gives: a list of id, sender, recipient, subject, sent_at, starred

        Args:
            query: words that sender or subject must have, all of them
            folder: "inbox", "archive" or "sent"
        """
        return self._find_mails(folder, query)

    def show_mail(self, mail_id: int) -> dict[str, Any]:
        """Show a mail with its body.

        Gives: id, folder, sender, recipient, subject, body, sent_at, starred

        Args:
            mail_id: id of the mail
        """
        return dict(self._find_row("mails", mail_id))

    def send_mail(self, recipient: Email, subject: Text, body: str = "") -> dict[str, int]:
        """Send a mail; this is final.

        Gives: mail_id

        Args:
            recipient: email address
            subject: its subject
            body: its text
        """
        mail_id = self._add_row(
            "mails",
            folder="sent",
            sender=self._session.email,
            recipient=recipient,
            subject=subject,
            body=body,
            sent_at=self._session.now,
            starred=False,
        )
        return {"mail_id": mail_id}

    def mark_mail(self, mail_id: int, starred: bool) -> None:
        """Put a star on a mail, or remove it.

        Args:
            mail_id: id of the mail
            starred: whether it has a star
        """
        self._set_fields("mails", mail_id, starred=starred)

    def move_mail(self, mail_id: int, folder: Text) -> None:
        """Move a mail between inbox and archive.

        Args:
            mail_id: id of the mail
            folder: "inbox" or "archive"
        """
        check_one_of("folder", folder, FOLDERS[:2])
        if self._find_row("mails", mail_id)["folder"] == "sent":
            raise Refusal(409, f"Mail {mail_id} was sent by you and stays where it is.")
        self._set_fields("mails", mail_id, folder=folder)

    def _find_mails(self, folder: str, query: str) -> list[dict[str, Any]]:
        check_one_of("folder", folder, FOLDERS)
        return [
            only(mail, "id", "sender", "recipient", "subject", "sent_at", "starred")
            for mail in self._state.find_rows("mails", folder=folder)
            if has_words(query, mail["sender"], mail["subject"])
        ]


class Payments(App):
    """Send money to people, ask them for money, and see what was paid."""

    name = "payments"

    def send_money(self, receiver: Email, amount: Amount, note: str = "") -> dict[str, int]:
        """Send money to a person; this is final.

        Gives: transaction_id

        Args:
            receiver: email address of the person
            amount: how much
            note: what it is for
        """
        return {"transaction_id": self._pay(receiver, amount, note)}

    def list_transactions(self) -> Page:
        """List payments that you sent or received, in no order.

        Gives: a list of id, sender, receiver, amount, note, day
        """
        return [dict(paid) for paid in self._state.find_rows("transactions")]

    def request_money(self, payer: Email, amount: Amount, note: str = "") -> dict[str, int]:
        """Ask a person for money; this is final.

        Gives: request_id

        Args:
            payer: email address of the person who is to pay
            amount: how much
            note: what it is for
        """
        request = {"requester": self._session.email, "payer": payer, "amount": float(amount)}
        day = self._session.now[:10]
        asked = self._add_row("requests", **request, note=note, day=day, status="pending")
        return {"request_id": asked}

    def list_requests(self) -> Page:
        """List requests for money, yours and those to you, in no order.

        Gives: a list of id, requester, payer, amount, note, day, status ("pending", "paid" or
            "declined")
        """
        return [dict(request) for request in self._state.find_rows("requests")]

    def accept_request(self, request_id: int) -> dict[str, int]:
        """Pay what a person asked for, with the note of the request; this is final.

        Gives: transaction_id

        Args:
            request_id: id of the request
        """
        request = self._find_pending(request_id)
        self._set_fields("requests", request_id, status="paid")
        paid = self._pay(request["requester"], request["amount"], request["note"])
        return {"transaction_id": paid}

    def decline_request(self, request_id: int) -> None:
        """Refuse to pay what a person asked for; this is final.

        Args:
            request_id: id of the request
        """
        self._set_fields("requests", self._find_pending(request_id)["id"], status="declined")

    def _pay(self, receiver: str, amount: float, note: str) -> int:
        paid = {"sender": self._session.email, "receiver": receiver, "amount": float(amount)}
        return self._add_row("transactions", **paid, note=note, day=self._session.now[:10])

    def _find_pending(self, request_id: int) -> Row:
        request = self._find_row("requests", request_id)
        if request["payer"] != self._session.email or request["status"] != "pending":
            raise Refusal(409, f"Request {request_id} is {request['status']}, or yours.")
        return request


_ORDER = (ApiDocs, Supervisor, Calendar, Contacts, Mail, Payments)
APPS: dict[str, type[App]] = {app.name: app for app in _ORDER}
