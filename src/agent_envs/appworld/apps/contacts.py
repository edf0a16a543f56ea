"""The contacts app."""

from __future__ import annotations

from typing import Any

from agent_envs.appworld.apis import (
    Count,
    Day,
    Email,
    PageLimit,
    Refusal,
    Text,
    Token,
    check_one_of,
)
from agent_envs.appworld.apps.app import App, has_words, only, page

RELATIONSHIPS = ("family", "friend", "coworker", "neighbour", "other")


class Contacts(App):
    """Keep the people you know, how to reach them and how you know them."""

    name = "contacts"

    def search_contacts(
        self,
        access_token: Token,
        query: str = "",
        relationship: str = "",
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
        """Find contacts by name, email address or phone number, and by relationship.

        Gives: a list of id, name, email, phone, relationship

        Args:
            query: words that name, email address or phone number must have, all of them
            relationship: only these: "family", "friend", "coworker", "neighbour" or "other"
        """
        found = [
            only(contact, "id", "name", "email", "phone", "relationship")
            for contact in self._state.rows("contacts")
            if has_words(query, contact["name"], contact["email"], contact["phone"])
            and (not relationship or contact["relationship"] == relationship)
        ]
        return page(found, page_index, page_limit)

    def show_contact(self, access_token: Token, contact_id: int) -> dict[str, Any]:
        """Show all that is known of a contact.

        Gives: id, name, email, phone, relationship, birthday, city

        Args:
            contact_id: id of the contact
        """
        return dict(self._found("contacts", contact_id, "contact"))

    def add_contact(
        self,
        access_token: Token,
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
        if self._state.rows("contacts", email=email):
            raise Refusal(409, f"There is already a contact with the address {email}.")
        contact_id = self._add(
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
        access_token: Token,
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
        self._give(
            "contacts",
            contact_id,
            "contact",
            name=name,
            email=email,
            phone=phone,
            relationship=relationship,
            birthday=birthday,
            city=city,
        )

    def delete_contact(self, access_token: Token, contact_id: int) -> None:
        """Delete a contact for good.

        Args:
            contact_id: id of the contact
        """
        self._found("contacts", contact_id, "contact")
        self._remove("contacts", contact_id)
