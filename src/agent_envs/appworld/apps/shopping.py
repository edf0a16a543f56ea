"""The app of shopping lists."""

from __future__ import annotations

from typing import Any

from agent_envs.appworld.apis import Count, PageLimit, Refusal, Text, Token
from agent_envs.appworld.apps.app import App, page


class Shopping(App):
    """Keep shopping lists, and tick off what is bought."""

    name = "shopping"

    def show_lists(
        self, access_token: Token, page_index: Count = 0, page_limit: PageLimit = 5
    ) -> list[dict[str, Any]]:
        """Show all shopping lists.

        Gives: a list of id, title, items (how many)
        """
        lists = [
            {"id": row["id"], "title": row["title"], "items": len(self._items(row["id"]))}
            for row in self._state.rows("lists")
        ]
        return page(lists, page_index, page_limit)

    def show_list(self, access_token: Token, list_id: int) -> dict[str, Any]:
        """Show a shopping list with its items.

        Gives: id, title, items: a list of id, name, quantity, bought

        Args:
            list_id: id of the list
        """
        row = self._found("lists", list_id, "list")
        items = [
            {key: value for key, value in item.items() if key != "list_id"}
            for item in self._items(list_id)
        ]
        return {"id": row["id"], "title": row["title"], "items": items}

    def create_list(self, access_token: Token, title: Text) -> dict[str, int]:
        """Start a shopping list.

        Gives: list_id

        Args:
            title: title of the list
        """
        if self._state.rows("lists", title=title):
            raise Refusal(409, f"There is already a list {title!r}.")
        return {"list_id": self._add("lists", title=title)}

    def rename_list(self, access_token: Token, list_id: int, title: Text) -> None:
        """Give a shopping list another title.

        Args:
            list_id: id of the list
            title: the new title
        """
        self._give("lists", list_id, "list", title=title)

    def delete_list(self, access_token: Token, list_id: int) -> None:
        """Delete a shopping list with all its items for good.

        Args:
            list_id: id of the list
        """
        self._found("lists", list_id, "list")
        for item in self._items(list_id):
            self._remove("items", item["id"])
        self._remove("lists", list_id)

    def add_item(
        self, access_token: Token, list_id: int, name: Text, quantity: Count = 1
    ) -> dict[str, int]:
        """Put an item on a shopping list.

        Gives: item_id

        Args:
            list_id: id of the list
            name: what to buy
            quantity: how many
        """
        self._found("lists", list_id, "list")
        if any(item["name"] == name for item in self._items(list_id)):
            raise Refusal(409, f"{name!r} is already on the list; use update_item.")
        item_id = self._add("items", list_id=list_id, name=name, quantity=quantity, bought=False)
        return {"item_id": item_id}

    def update_item(
        self,
        access_token: Token,
        item_id: int,
        quantity: Count | None = None,
        bought: bool | None = None,
    ) -> None:
        """Change how many of an item to buy, or whether it is bought; what is not given stays.

        Args:
            item_id: id of the item
            quantity: how many
            bought: whether it is bought
        """
        self._give("items", item_id, "item", quantity=quantity, bought=bought)

    def remove_item(self, access_token: Token, item_id: int) -> None:
        """Remove an item from its shopping list for good.

        Args:
            item_id: id of the item
        """
        self._found("items", item_id, "item")
        self._remove("items", item_id)

    def _items(self, list_id: int) -> list[dict[str, Any]]:
        return [dict(item) for item in self._state.rows("items", list_id=list_id)]
