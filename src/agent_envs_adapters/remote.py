"""A client of a server of `agent-envs serve`, which needs no openenv, only `websockets`.

For a trainer whose packages do not go with openenv's. It has what a `TextEpisode` has, and records
for credit. Left out: asyncio; use a thread for each session.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from agent_envs.net.sessions import Connection
from agent_envs.net.web import ServerError
from credit.rows import TurnRecord


class Remote:
    """One session of a server: an episode at a time.

    Args:
        url: Address of the server, e.g. http://127.0.0.1:8000.
        token: The server's token; "" for none.
        timeout: Seconds to wait for an answer.

    Attributes:
        message: What the model reads next.
        images: Images in `message` as PNG data URLs, in the order of its `<image>` marks.
        task_id, goal: The task.
        done, success, truncated: As in `TextEpisode`.
        outcome: What the environment itself paid in the episode; 0 before the end.
        records: The turn records so far, with those before a fork.

    Raises:
        agent_envs.net.web.ServerError: The server cannot be reached, or refuses; also by methods.
    """

    def __init__(self, url: str, *, token: str = "", timeout: float = 120.0) -> None:
        self.url, self.token, self.timeout = url.rstrip("/"), token, timeout
        self._connection = Connection(url, token, timeout)
        self.message = self.task_id = self.goal = self.session = ""
        self.images: list[str] = []
        self.done = self.success = self.truncated = False
        self.outcome = 0.0
        self.records: list[TurnRecord] = []

    def reset(self, **task: Any) -> str:
        """Start an episode: the first message.

        Args:
            task: `seed`, and `index` or `task_id` in `split`; an item of `tasks` fits.
        """
        self._take("reset", {name: one for name, one in task.items() if one is not None})
        self.records, self.outcome = [], 0.0
        return self.message

    def step(self, reply: str) -> tuple[str, bool]:
        """Step with a model's whole reply: the next message, and whether the episode has ended."""
        record = TurnRecord.of(self._take("step", {"reply": reply})["record"])
        self.records.append(record)
        self.outcome = record.outcome or 0.0
        return self.message, self.done

    def stop(self) -> None:
        """End the episode where it is, as truncated, e.g. because the tokens are used up."""
        if self.done or not self.session:
            return
        record = self._take("step", {"stop": True})["record"]
        if record is not None:
            self.records[-1] = TurnRecord.of(record)
            self.outcome = self.records[-1].outcome or 0.0

    def fork(self) -> Remote:
        """Another session that continues as this one would; neither changes the other."""
        other = Remote(self.url, token=self.token, timeout=self.timeout)
        try:
            other._take("reset", {"fork": self.session})
        except ServerError:
            other.close()
            raise
        other.records = [*self.records]
        return other

    def tasks(self, split: str) -> list[dict[str, Any]]:
        """The tasks of a split, as arguments of `reset`."""
        name = self._connection.read_page("/list_environments")[0]
        listed: list[dict[str, Any]] = self._connection.read_page(
            f"/{name}/tasks", {"split": split}
        )["tasks"]
        return listed

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """The observation that answers a message."""
        answer = self._connection.send(kind, data)
        observation: dict[str, Any] = answer["observation"]
        self.session, self.message = observation["session"], observation["text"]
        for name in ("images", "task_id", "goal", "success", "truncated"):
            setattr(self, name, observation[name])
        self.done = answer["done"]
        return observation
