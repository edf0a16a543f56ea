"""The apps without log-in: the documentation of all apps, and the supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.appworld.apps.app import Answer, Api, App, Refusal, Text, check_one_of, has_words

if TYPE_CHECKING:
    from collections.abc import Mapping


class ApiDocs(App):
    """Look up the apps, what they can do, and how to call it."""

    name = "api_docs"
    open = True

    def show_app_descriptions(self) -> list[dict[str, str]]:
        """Show all apps, each with what it is for.

        Gives: a list of name, description
        """
        return [
            {"name": name, "description": app.__doc__ or ""}
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
        return _document_api(app_name, found)

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
        return kind.apis


def _document_api(app_name: str, api: Api) -> dict[str, Any]:
    return {
        "app_name": app_name,
        "api_name": api.name,
        "description": api.description,
        "parameters": [
            {
                "name": parameter.name,
                "type": _name_type(parameter.kind),
                "required": parameter.required,
                "description": parameter.description,
                "default": parameter.default,
            }
            for parameter in api.parameters
        ],
        "response": api.response or "None",
    }


def _name_type(kind: str) -> str:
    """A kind of value in Python's words."""
    bare = kind.removesuffix(" | None")
    return _TYPES.get(bare, bare) + (", or None" if bare != kind else "")


_TYPES = {
    "Amount": "float, a sum of money",
    "Answer": "str | int | float | bool | None",
    "Body": "str",
    "Count": "int, from 0",
    "Day": "str, a day like '2024-05-31'",
    "Email": "str, an email address",
    "Emails": "list[str], email addresses",
    "Moment": "str, a time like '2024-05-31T18:30'",
    "PageLimit": "int, from 1 to 20",
    "Rating": "int, from 1 to 5",
    "Text": "str, not empty",
    "Words": "list[str]",
    "Written": "str, not empty",
    "Token": "str",
}


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
