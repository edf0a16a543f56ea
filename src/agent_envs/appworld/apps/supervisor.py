"""The app of the person whom the agent works for: who they are, and the end of the task."""

from __future__ import annotations

from typing import Any

from agent_envs.appworld.apis import check_one_of
from agent_envs.appworld.apps.app import App

STATUSES = ("success", "fail")


class Supervisor(App):
    """Who asks for the task, their accounts, and how to end the task."""

    name = "supervisor"
    open = True

    def show_profile(self) -> dict[str, Any]:
        """Show the name, email address, phone number and birthday of your supervisor.

        Gives: first_name, last_name, email, phone, birthday
        """
        return dict(self._session.person)

    def show_addresses(self) -> list[dict[str, str]]:
        """Show where your supervisor lives and works.

        Gives: a list of name ("home" or "work"), street, city
        """
        return [dict(address) for address in self._session.addresses]

    def show_account_passwords(self) -> list[dict[str, str]]:
        """Show the passwords of your supervisor's accounts; the usernames are the email address.

        Gives: a list of account_name, password
        """
        return [{"account_name": a, "password": p} for a, p in self._session.passwords.items()]

    def show_active_task(self) -> dict[str, str]:
        """Show what your supervisor asked for, and the present day and time.

        Gives: instruction, now
        """
        return {"instruction": self._session.instruction, "now": self._session.now}

    def complete_task(self, answer: Answer = None, status: str = "success") -> dict[str, str]:
        """End the task; nothing can be done after it.

        Gives: message

        Args:
            answer: the answer where the task asks for one, as short as possible; otherwise None
            status: "success", or "fail" if the task cannot be done
        """
        check_one_of("status", status, STATUSES)
        self._session.ended = (answer, status)
        return {"message": "The task is marked as completed."}


Answer = str | int | float | bool | None
