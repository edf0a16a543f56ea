"""The mail app."""

from __future__ import annotations

from typing import Any

from agent_envs.appworld.apis import (
    LONGEST_LINE,
    Body,
    Count,
    Emails,
    PageLimit,
    Refusal,
    Text,
    Token,
    Written,
    check_one_of,
)
from agent_envs.appworld.apps.app import App, has_words, only, page

FOLDERS = ("inbox", "archive", "sent", "spam")
_LISTED = ("id", "sender", "recipients", "subject", "sent_at", "read", "starred")


class Mail(App):
    """Read, write, answer and file emails."""

    name = "mail"

    def list_mails(
        self,
        access_token: Token,
        folder: str = "inbox",
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
        """List the mails of a folder without their bodies, newest first.

        Gives: a list of id, sender, recipients, subject, sent_at, read, starred

        Args:
            folder: "inbox", "archive", "sent" or "spam"
        """
        return page(self._newest(folder, ""), page_index, page_limit)

    def search_mails(
        self,
        access_token: Token,
        query: Text,
        folder: str = "inbox",
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
        """Find mails of a folder by words of sender, subject and body, newest first.

        Gives: a list of id, sender, recipients, subject, sent_at, read, starred

        Args:
            query: words that sender, subject or body must have, all of them
            folder: "inbox", "archive", "sent" or "spam"
        """
        return page(self._newest(folder, query), page_index, page_limit)

    def show_mail(self, access_token: Token, mail_id: int) -> dict[str, Any]:
        """Show a mail with its body; it stays unread until it is marked.

        Gives: id, folder, sender, recipients, subject, body, sent_at, read, starred

        Args:
            mail_id: id of the mail
        """
        return dict(self._found("mails", mail_id, "mail"))

    def send_mail(
        self, access_token: Token, recipients: Emails, subject: Text, body: Body = ""
    ) -> dict[str, int]:
        """Send a mail.

        Gives: mail_id

        Args:
            recipients: email addresses
            subject: its subject
            body: its text
        """
        return {"mail_id": self._send(recipients, subject, body)}

    def reply_to_mail(self, access_token: Token, mail_id: int, body: Written) -> dict[str, int]:
        """Answer the sender of a mail; the subject is that of the mail after "Re: ".

        Gives: mail_id

        Args:
            mail_id: id of the mail to answer
            body: text of the answer
        """
        mail = self._found("mails", mail_id, "mail")
        subject = (
            mail["subject"] if mail["subject"].startswith("Re: ") else f"Re: {mail['subject']}"
        )
        return {"mail_id": self._send([mail["sender"]], subject, body)}

    def forward_mail(self, access_token: Token, mail_id: int, recipients: Emails) -> dict[str, int]:
        """Send a mail on with the same body; the subject is that of the mail after "Fwd: ".

        Gives: mail_id

        Args:
            mail_id: id of the mail
            recipients: email addresses
        """
        mail = self._found("mails", mail_id, "mail")
        return {"mail_id": self._send(recipients, f"Fwd: {mail['subject']}", mail["body"])}

    def mark_mail(
        self,
        access_token: Token,
        mail_id: int,
        read: bool | None = None,
        starred: bool | None = None,
    ) -> None:
        """Mark a mail as read or unread, starred or not; what is not given stays.

        Args:
            mail_id: id of the mail
            read: whether it counts as read
            starred: whether it has a star
        """
        self._give("mails", mail_id, "mail", read=read, starred=starred)

    def move_mail(self, access_token: Token, mail_id: int, folder: Text) -> None:
        """Put a mail into another folder.

        Args:
            mail_id: id of the mail
            folder: "inbox", "archive", "sent" or "spam"
        """
        check_one_of("folder", folder, FOLDERS)
        self._give("mails", mail_id, "mail", folder=folder)

    def delete_mail(self, access_token: Token, mail_id: int) -> None:
        """Delete a mail for good.

        Args:
            mail_id: id of the mail
        """
        self._found("mails", mail_id, "mail")
        self._remove("mails", mail_id)

    def _newest(self, folder: str, query: str) -> list[dict[str, Any]]:
        check_one_of("folder", folder, FOLDERS)
        found = [
            only(mail, *_LISTED)
            for mail in self._state.rows("mails", folder=folder)
            if has_words(query, mail["sender"], mail["subject"], mail["body"])
        ]
        return sorted(found, key=lambda mail: (mail["sent_at"], mail["id"]), reverse=True)

    def _send(self, recipients: list[str], subject: str, body: str) -> int:
        if not recipients:
            raise Refusal(422, "A mail needs at least one recipient.")
        if len(subject) > LONGEST_LINE:
            raise Refusal(409, f"The subject would be longer than {LONGEST_LINE} characters.")
        recipients = list(dict.fromkeys(recipients))
        mail_id = self._add(
            "mails",
            folder="sent",
            sender=self._session.email,
            recipients=recipients,
            subject=subject,
            body=body,
            sent_at=self._now,
            read=True,
            starred=False,
        )
        self._effect("mail", recipients=recipients, subject=subject, body=body)
        return mail_id
