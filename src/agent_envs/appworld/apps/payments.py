"""The payments app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.appworld.apis import (
    Amount,
    Count,
    Day,
    Email,
    PageLimit,
    Refusal,
    Token,
    check_one_of,
)
from agent_envs.appworld.apps.app import App, has_words, only, page

if TYPE_CHECKING:
    from agent_envs.appworld.state import Row

DIRECTIONS = ("all", "sent", "received")
STATUSES = ("pending", "paid", "declined", "cancelled")


class Payments(App):
    """Send money to people, ask them for money, and see what was paid."""

    name = "payments"

    def show_balance(self, access_token: Token) -> dict[str, float]:
        """Show how much money is in the account.

        Gives: balance
        """
        return {"balance": self._balance()}

    def send_money(
        self, access_token: Token, receiver: Email, amount: Amount, note: str = ""
    ) -> dict[str, int]:
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
        access_token: Token,
        direction: str = "all",
        query: str = "",
        first_day: Day | None = None,
        last_day: Day | None = None,
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
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
            for paid in self._state.rows("transactions")
            if direction in ("all", self._direction(paid))
            and has_words(query, paid["note"], paid["sender"], paid["receiver"])
            and (first_day or "") <= paid["paid_at"][:10] <= (last_day or "9")
        ]
        found.sort(key=lambda paid: (paid["paid_at"], paid["id"]), reverse=True)
        return page(found, page_index, page_limit)

    def show_transaction(self, access_token: Token, transaction_id: int) -> dict[str, Any]:
        """Show a payment.

        Gives: id, sender, receiver, amount, note, paid_at

        Args:
            transaction_id: id of the payment
        """
        return dict(self._found("transactions", transaction_id, "transaction"))

    def request_money(
        self, access_token: Token, payer: Email, amount: Amount, note: str = ""
    ) -> dict[str, int]:
        """Ask a person for money.

        Gives: request_id

        Args:
            payer: email address of the person who is to pay
            amount: how much
            note: what it is for
        """
        self._check_other(payer)
        request_id = self._add(
            "requests",
            requester=self._session.email,
            payer=payer,
            amount=amount,
            note=note,
            asked_at=self._now,
            status="pending",
        )
        self._effect("request for money", payer=payer, amount=amount, note=note)
        return {"request_id": request_id}

    def list_requests(
        self,
        access_token: Token,
        direction: str = "received",
        status: str = "pending",
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
        """List requests for money, oldest first.

        Gives: a list of id, requester, payer, amount, note, asked_at, status

        Args:
            direction: "received" from others, or "sent" to them
            status: "pending", "paid", "declined" or "cancelled"
        """
        check_one_of("direction", direction, DIRECTIONS[1:])
        check_one_of("status", status, STATUSES)
        side = "payer" if direction == "received" else "requester"
        found = self._state.rows("requests", status=status, **{side: self._session.email})
        return page((dict(request) for request in found), page_index, page_limit)

    def accept_request(self, access_token: Token, request_id: int) -> dict[str, int]:
        """Pay what a person asked for; the payment has the note of the request.

        Gives: transaction_id

        Args:
            request_id: id of the request
        """
        request = self._pending(request_id, "payer")
        paid = self._pay(request["requester"], request["amount"], request["note"])
        self._state.change("requests", request_id, status="paid")
        return {"transaction_id": paid}

    def decline_request(self, access_token: Token, request_id: int) -> None:
        """Refuse to pay what a person asked for; this is final.

        Args:
            request_id: id of the request
        """
        request = self._pending(request_id, "payer")
        self._state.change("requests", request_id, status="declined")
        self._effect("declined request", **only(request, "requester", "amount", "note"))

    def cancel_request(self, access_token: Token, request_id: int) -> None:
        """Take back a request of your own; this is final.

        Args:
            request_id: id of the request
        """
        request = self._pending(request_id, "requester")
        self._state.change("requests", request_id, status="cancelled")
        self._effect("cancelled request", **only(request, "payer", "amount", "note"))

    def _direction(self, paid: Row) -> str:
        return "sent" if paid["sender"] == self._session.email else "received"

    def _balance(self) -> float:
        signs = {"sent": -1, "received": 1}
        paid = self._state.rows("transactions")
        return round(float(sum(signs[self._direction(row)] * row["amount"] for row in paid)), 2)

    def _check_other(self, email: str) -> None:
        if email == self._session.email:
            raise Refusal(422, "This is your own address; give somebody else's.")

    def _pay(self, receiver: str, amount: float, note: str) -> int:
        if amount > self._balance():
            raise Refusal(409, f"The balance is {self._balance()}, less than {amount}.")
        paid = self._add(
            "transactions",
            sender=self._session.email,
            receiver=receiver,
            amount=amount,
            note=note,
            paid_at=self._now,
        )
        self._effect("payment", receiver=receiver, amount=amount, note=note)
        return paid

    def _pending(self, request_id: int, side: str) -> Row:
        request = self._found("requests", request_id, "request")
        if request[side] != self._session.email or request["status"] != "pending":
            raise Refusal(409, f"Request {request_id} is {request['status']}, or not yours to do.")
        return request
