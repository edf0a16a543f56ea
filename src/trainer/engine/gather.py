"""Concurrent requests: batches whose members do not depend on who was faster, and where to run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agent_envs.vector import call_in_thread
from trainer.run.completed import Completed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


class Gather(Generic[_Asked, _Answer]):
    """Answers one request of each member in one call, when every member has asked or left.

    All methods are called from one event loop.

    Args:
        members: Who will ask.
        answer: Requests by member, in increasing order -> an answer for each. It blocks the loop,
            in which nothing else is due.
    """

    def __init__(
        self,
        members: Iterable[int],
        answer: Callable[[dict[int, _Asked]], dict[int, _Answer]],
    ) -> None:
        self._members = set(members)
        self._answer = answer
        self._asked: dict[int, tuple[_Asked, asyncio.Future[_Answer]]] = {}

    async def ask(self, member: int, request: _Asked) -> _Answer:
        """The answer to a request, with those of all other members.

        Raises:
            ValueError: The member has left, or waits for an answer already.
        """
        if member not in self._members or member in self._asked:
            raise ValueError(
                f"conversation {member} cannot ask: it "
                + ("waits for a reply already" if member in self._asked else "was left")
            )
        answered: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._asked[member] = request, answered
        self._go()
        return await answered

    @property
    def over(self) -> bool:
        """Whether every member has left."""
        return not self._members

    def leave(self, member: int) -> None:
        """Stop waiting for a member; leaving twice is allowed."""
        self._members.discard(member)
        self._go()

    def _go(self) -> None:
        if not self._members or self._asked.keys() != self._members:
            return
        asked, self._asked = dict(sorted(self._asked.items())), {}
        requests = {member: request for member, (request, _) in asked.items()}
        answers = Completed.of(lambda: self._answer(requests))
        for member, (_, answered) in asked.items():
            if answered.cancelled():
                continue
            if answers.error is None:
                answered.set_result(answers.result()[member])
            else:
                answered.set_exception(answers.error)


def run(coroutine: Coroutine[Any, Any, _Answer]) -> _Answer:
    """The result of a coroutine, also where a loop is running already, as in a notebook."""
    running = True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        running = False
    if running:
        return call_in_thread(lambda: asyncio.run(coroutine)).result()
    return asyncio.run(coroutine)  # outside of the handler: its errors have no other cause
