"""The apps that reach other people: calendar, contacts, mail, payments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.appworld.apps.app import (
    LONGEST_LINE,
    LONGEST_LIST,
    Amount,
    App,
    Body,
    Day,
    Email,
    Emails,
    Moment,
    Page,
    Text,
    Written,
    check_one_of,
    drop_repeats,
    has_words,
    only,
)
from agent_envs.appworld.session import Refusal

if TYPE_CHECKING:
    from agent_envs.appworld.session import Row


_TOLD = ("title", "start", "end", "place")


class Calendar(App):
    """Keep appointments, with their times, places and guests."""

    name = "calendar"

    def list_events(self, first_day: Day, last_day: Day) -> Page:
        """List the events that start on some days, in the order of their times.

        Gives: a list of id, title, start, end, place, guests

        Args:
            first_day: the first day to list
            last_day: the last day to list
        """
        return [e for e in self._sort_events() if first_day <= e["start"][:10] <= last_day]

    def search_events(self, query: Text) -> Page:
        """Find events by words of their title or place, in the order of their times.

        Gives: a list of id, title, start, end, place, guests

        Args:
            query: words that title or place must have, all of them
        """
        return [e for e in self._sort_events() if has_words(query, e["title"], e["place"])]

    def show_event(self, event_id: int) -> dict[str, Any]:
        """Show an event.

        Gives: id, title, start, end, place, guests

        Args:
            event_id: id of the event
        """
        return dict(self._find_row("events", event_id))

    def create_event(
        self, title: Text, start: Moment, end: Moment, place: str = "", guests: Emails | None = None
    ) -> dict[str, int]:
        """Put an event into the calendar.

        Gives: event_id

        Args:
            title: what it is
            start: when it starts
            end: when it ends
            place: where it is
            guests: email addresses of those invited, who get an invitation
        """
        start, end = _cut_seconds(start, end)
        invited = drop_repeats(guests or [])
        event_id = self._add_row(
            "events", title=title, start=start, end=end, place=place, guests=invited
        )
        for guest in invited:
            self._invite(event_id, guest)
        return {"event_id": event_id}

    def update_event(
        self,
        event_id: int,
        title: Text | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        place: str | None = None,
    ) -> None:
        """Change title, times or place of an event; what is not given stays, guests are not told.

        Args:
            event_id: id of the event
            title: what it is
            start: when it starts
            end: when it ends
            place: where it is
        """
        event = self._find_row("events", event_id)
        start, end = _cut_seconds(start or event["start"], end or event["end"])
        self._set_fields("events", event_id, title=title, place=place, start=start, end=end)

    def delete_event(self, event_id: int) -> None:
        """Delete an event for good; its guests are not told.

        Args:
            event_id: id of the event
        """
        self._remove_row("events", event_id)

    def invite_guest(self, event_id: int, email: Email) -> None:
        """Invite somebody to an event; they get an invitation.

        Args:
            event_id: id of the event
            email: email address of the guest
        """
        guests = self._find_row("events", event_id)["guests"]
        if email in guests:
            raise Refusal(409, f"{email} is already invited.")
        if len(guests) >= LONGEST_LIST:
            raise Refusal(409, f"An event has at most {LONGEST_LIST} guests.")
        self._state.change("events", event_id, guests=[*guests, email])
        self._invite(event_id, email)

    def uninvite_guest(self, event_id: int, email: Email) -> None:
        """Take a guest off an event; they are not told.

        Args:
            event_id: id of the event
            email: email address of the guest
        """
        guests = self._find_row("events", event_id)["guests"]
        if email not in guests:
            raise Refusal(404, f"{email} is not invited.")
        before = self._session.before.get("events", event_id)
        if before is not None and email in before["guests"]:
            self._record_effect("uninvited guest", guest=email, **only(before, *_TOLD))
        self._state.change("events", event_id, guests=[g for g in guests if g != email])

    def _invite(self, event_id: int, guest: str) -> None:
        """Write an invitation into the ledger: what the guest reads."""
        event = self._find_row("events", event_id)
        self._record_effect("invitation", guest=guest, **only(event, *_TOLD))

    def _sort_events(self) -> list[dict[str, Any]]:
        events = [dict(event) for event in self._state.find_rows("events")]
        return sorted(events, key=lambda event: (event["start"], event["id"]))


def _cut_seconds(start: str, end: str) -> tuple[str, str]:
    """Both to the minute."""
    start, end = start[:16], end[:16]
    if end <= start:
        raise Refusal(422, f"An event must end after it starts, got {start} to {end}.")
    return start, end


RELATIONSHIPS = ("family", "friend", "coworker", "neighbour", "other")


class Contacts(App):
    """Keep the people you know, how to reach them and how you know them."""

    name = "contacts"

    def search_contacts(self, query: str = "", relationship: str = "") -> Page:
        """Find contacts by name, email address or phone number, and by relationship.

        Gives: a list of id, name, email, phone, relationship

        Args:
            query: words that name, email address or phone number must have, all of them
            relationship: only these: "family", "friend", "coworker", "neighbour" or "other"
        """
        return [
            only(contact, "id", "name", "email", "phone", "relationship")
            for contact in self._state.find_rows("contacts")
            if has_words(query, contact["name"], contact["email"], contact["phone"])
            and (not relationship or contact["relationship"] == relationship)
        ]

    def show_contact(self, contact_id: int) -> dict[str, Any]:
        """Show all that is known of a contact.

        Gives: id, name, email, phone, relationship, birthday, city

        Args:
            contact_id: id of the contact
        """
        return dict(self._find_row("contacts", contact_id))

    def add_contact(
        self,
        name: Text,
        email: Email,
        phone: str = "",
        relationship: str = "other",
        birthday: Day | None = None,
        city: str = "",
    ) -> dict[str, int]:
        """Add a contact.

        Gives: contact_id

        Args:
            name: first and last name
            email: email address
            phone: phone number
            relationship: "family", "friend", "coworker", "neighbour" or "other"
            birthday: day of birth
            city: where they live
        """
        check_one_of("relationship", relationship, RELATIONSHIPS)
        if self._state.find_rows("contacts", email=email):
            raise Refusal(409, f"There is already a contact with the address {email}.")
        contact_id = self._add_row(
            "contacts",
            name=name,
            email=email,
            phone=phone,
            relationship=relationship,
            birthday=birthday,
            city=city,
        )
        return {"contact_id": contact_id}

    def update_contact(
        self,
        contact_id: int,
        name: Text | None = None,
        email: Email | None = None,
        phone: str | None = None,
        relationship: Text | None = None,
        birthday: Day | None = None,
        city: str | None = None,
    ) -> None:
        """Change what is known of a contact; what is not given stays.

        Args:
            contact_id: id of the contact
            name: first and last name
            email: email address
            phone: phone number
            relationship: "family", "friend", "coworker", "neighbour" or "other"
            birthday: day of birth
            city: where they live
        """
        if relationship is not None:
            check_one_of("relationship", relationship, RELATIONSHIPS)
        self._set_fields(
            "contacts",
            contact_id,
            name=name,
            email=email,
            phone=phone,
            relationship=relationship,
            birthday=birthday,
            city=city,
        )

    def delete_contact(self, contact_id: int) -> None:
        """Delete a contact for good.

        Args:
            contact_id: id of the contact
        """
        self._remove_row("contacts", contact_id)


FOLDERS = ("inbox", "archive", "sent", "spam")
_LISTED = ("id", "sender", "recipients", "subject", "sent_at", "read", "starred")


class Mail(App):
    """Read, write, answer and file emails."""

    name = "mail"

    def list_mails(self, folder: str = "inbox") -> Page:
        """List the mails of a folder without their bodies, newest first.

        Gives: a list of id, sender, recipients, subject, sent_at, read, starred

        Args:
            folder: "inbox", "archive", "sent" or "spam"
        """
        return self._find_mails(folder, "")

    def search_mails(self, query: Text, folder: str = "inbox") -> Page:
        """Find mails of a folder by words of sender, subject and body, newest first.

        Gives: a list of id, sender, recipients, subject, sent_at, read, starred

        Args:
            query: words that sender, subject or body must have, all of them
            folder: "inbox", "archive", "sent" or "spam"
        """
        return self._find_mails(folder, query)

    def show_mail(self, mail_id: int) -> dict[str, Any]:
        """Show a mail with its body; it stays unread until it is marked.

        Gives: id, folder, sender, recipients, subject, body, sent_at, read, starred

        Args:
            mail_id: id of the mail
        """
        return dict(self._find_row("mails", mail_id))

    def send_mail(self, recipients: Emails, subject: Text, body: Body = "") -> dict[str, int]:
        """Send a mail.

        Gives: mail_id

        Args:
            recipients: email addresses
            subject: its subject
            body: its text
        """
        return {"mail_id": self._send(recipients, subject, body)}

    def reply_to_mail(self, mail_id: int, body: Written) -> dict[str, int]:
        """Answer the sender of a mail; the subject is that of the mail after "Re: ".

        Gives: mail_id

        Args:
            mail_id: id of the mail to answer
            body: text of the answer
        """
        mail = self._find_row("mails", mail_id)
        subject = (
            mail["subject"] if mail["subject"].startswith("Re: ") else f"Re: {mail['subject']}"
        )
        return {"mail_id": self._send([mail["sender"]], subject, body)}

    def forward_mail(self, mail_id: int, recipients: Emails) -> dict[str, int]:
        """Send a mail on with the same body; the subject is that of the mail after "Fwd: ".

        Gives: mail_id

        Args:
            mail_id: id of the mail
            recipients: email addresses
        """
        mail = self._find_row("mails", mail_id)
        return {"mail_id": self._send(recipients, f"Fwd: {mail['subject']}", mail["body"])}

    def mark_mail(
        self, mail_id: int, read: bool | None = None, starred: bool | None = None
    ) -> None:
        """Mark a mail as read or unread, starred or not; what is not given stays.

        Args:
            mail_id: id of the mail
            read: whether it counts as read
            starred: whether it has a star
        """
        self._set_fields("mails", mail_id, read=read, starred=starred)

    def move_mail(self, mail_id: int, folder: Text) -> None:
        """Put a mail into another folder.

        Args:
            mail_id: id of the mail
            folder: "inbox", "archive", "sent" or "spam"
        """
        check_one_of("folder", folder, FOLDERS)
        self._set_fields("mails", mail_id, folder=folder)

    def delete_mail(self, mail_id: int) -> None:
        """Delete a mail for good.

        Args:
            mail_id: id of the mail
        """
        self._remove_row("mails", mail_id)

    def _find_mails(self, folder: str, query: str) -> list[dict[str, Any]]:
        check_one_of("folder", folder, FOLDERS)
        found = [
            only(mail, *_LISTED)
            for mail in self._state.find_rows("mails", folder=folder)
            if has_words(query, mail["sender"], mail["subject"], mail["body"])
        ]
        return sorted(found, key=lambda mail: (mail["sent_at"], mail["id"]), reverse=True)

    def _send(self, recipients: list[str], subject: str, body: str) -> int:
        if not recipients:
            raise Refusal(422, "A mail needs at least one recipient.")
        if len(subject) > LONGEST_LINE:
            raise Refusal(409, f"The subject would be longer than {LONGEST_LINE} characters.")
        recipients = drop_repeats(recipients)
        mail_id = self._add_row(
            "mails",
            folder="sent",
            sender=self._session.email,
            recipients=recipients,
            subject=subject,
            body=body,
            sent_at=self._session.now,
            read=True,
            starred=False,
        )
        self._record_effect("mail", recipients=recipients, subject=subject, body=body)
        return mail_id


DIRECTIONS = ("all", "sent", "received")
STATUSES = ("pending", "paid", "declined", "cancelled")


class Payments(App):
    """Send money to people, ask them for money, and see what was paid."""

    name = "payments"

    def show_balance(self) -> dict[str, float]:
        """Show how much money is in the account.

        Gives: balance
        """
        return {"balance": self._compute_balance()}

    def send_money(self, receiver: Email, amount: Amount, note: str = "") -> dict[str, int]:
        """Send money to a person.

        Gives: transaction_id

        Args:
            receiver: email address of the person
            amount: how much
            note: what it is for
        """
        self._check_other(receiver)
        return {"transaction_id": self._pay(receiver, amount, note)}

    def list_transactions(
        self,
        direction: str = "all",
        query: str = "",
        first_day: Day | None = None,
        last_day: Day | None = None,
    ) -> Page:
        """List payments, newest first.

        Gives: a list of id, sender, receiver, amount, note, paid_at

        Args:
            direction: "all", "sent" or "received"
            query: words that note, sender or receiver must have, all of them
            first_day: only payments from this day on
            last_day: only payments up to this day
        """
        check_one_of("direction", direction, DIRECTIONS)
        found = [
            dict(paid)
            for paid in self._state.find_rows("transactions")
            if direction in ("all", self._name_direction(paid))
            and has_words(query, paid["note"], paid["sender"], paid["receiver"])
            and (first_day or "") <= paid["paid_at"][:10] <= (last_day or "9")
        ]
        found.sort(key=lambda paid: (paid["paid_at"], paid["id"]), reverse=True)
        return found

    def show_transaction(self, transaction_id: int) -> dict[str, Any]:
        """Show a payment.

        Gives: id, sender, receiver, amount, note, paid_at

        Args:
            transaction_id: id of the payment
        """
        return dict(self._find_row("transactions", transaction_id))

    def request_money(self, payer: Email, amount: Amount, note: str = "") -> dict[str, int]:
        """Ask a person for money.

        Gives: request_id

        Args:
            payer: email address of the person who is to pay
            amount: how much
            note: what it is for
        """
        self._check_other(payer)
        request_id = self._add_row(
            "requests",
            requester=self._session.email,
            payer=payer,
            amount=amount,
            note=note,
            asked_at=self._session.now,
            status="pending",
        )
        self._record_effect("request for money", payer=payer, amount=amount, note=note)
        return {"request_id": request_id}

    def list_requests(self, direction: str = "received", status: str = "pending") -> Page:
        """List requests for money, oldest first.

        Gives: a list of id, requester, payer, amount, note, asked_at, status

        Args:
            direction: "received" from others, or "sent" to them
            status: "pending", "paid", "declined" or "cancelled"
        """
        check_one_of("direction", direction, DIRECTIONS[1:])
        check_one_of("status", status, STATUSES)
        side = "payer" if direction == "received" else "requester"
        found = self._state.find_rows("requests", status=status, **{side: self._session.email})
        return [dict(request) for request in found]

    def accept_request(self, request_id: int) -> dict[str, int]:
        """Pay what a person asked for; the payment has the note of the request.

        Gives: transaction_id

        Args:
            request_id: id of the request
        """
        request = self._find_pending(request_id, "payer")
        paid = self._pay(request["requester"], request["amount"], request["note"])
        self._state.change("requests", request_id, status="paid")
        return {"transaction_id": paid}

    def decline_request(self, request_id: int) -> None:
        """Refuse to pay what a person asked for; this is final.

        Args:
            request_id: id of the request
        """
        request = self._find_pending(request_id, "payer")
        self._state.change("requests", request_id, status="declined")
        self._record_effect("declined request", **only(request, "requester", "amount", "note"))

    def cancel_request(self, request_id: int) -> None:
        """Take back a request of your own; this is final.

        Args:
            request_id: id of the request
        """
        request = self._find_pending(request_id, "requester")
        self._state.change("requests", request_id, status="cancelled")
        self._record_effect("cancelled request", **only(request, "payer", "amount", "note"))

    def _name_direction(self, paid: Row) -> str:
        return "sent" if paid["sender"] == self._session.email else "received"

    def _compute_balance(self) -> float:
        signs = {"sent": -1, "received": 1}
        paid = self._state.find_rows("transactions")
        return round(
            float(sum(signs[self._name_direction(row)] * row["amount"] for row in paid)), 2
        )

    def _check_other(self, email: str) -> None:
        if email == self._session.email:
            raise Refusal(422, "This is your own address; give somebody else's.")

    def _pay(self, receiver: str, amount: float, note: str) -> int:
        if amount > self._compute_balance():
            raise Refusal(409, f"The balance is {self._compute_balance()}, less than {amount}.")
        paid = self._add_row(
            "transactions",
            sender=self._session.email,
            receiver=receiver,
            amount=amount,
            note=note,
            paid_at=self._session.now,
        )
        self._record_effect("payment", receiver=receiver, amount=amount, note=note)
        return paid

    def _find_pending(self, request_id: int, side: str) -> Row:
        request = self._find_row("requests", request_id)
        if request[side] != self._session.email or request["status"] != "pending":
            raise Refusal(409, f"Request {request_id} is {request['status']}, or not yours to do.")
        return request
