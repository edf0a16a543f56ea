"""OpenEnv: a server of any environment, with sessions, splits, turn records and forks.

A session is a WebSocket connection of OpenEnv's protocol; `GenericEnvClient` of openenv and
`agent_envs_adapters.remote.Remote` play it. Needs no torch. `agent_envs_adapters.gate` has the
checks of messages, `agent_envs.net.connections` runs the server.
"""

from __future__ import annotations

import copy
import logging
from asyncio import wrap_future
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from secrets import token_urlsafe
from threading import Lock
from typing import TYPE_CHECKING, Any

from gymnasium.error import Error, ResetNeeded
from typing_extensions import override

from agent_envs import __version__
from agent_envs.contract import encodable
from agent_envs.machine import explain_error
from agent_envs.panels import nearest
from agent_envs.toolset import CallThread
from agent_envs_adapters import check_call, use_peer
from agent_envs_adapters.episodes import Episodes
from agent_envs_adapters.gate import LIMITS, Gate, Limits

with use_peer("openenv", "0.10"):
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, Response
    from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
    from openenv.core.env_server.types import EnvironmentMetadata
    from pydantic import Field, ValidationError

    EnvironmentMetadata(name="name", description="text", version="1")
    check_call(
        create_fastapi_app,
        *(None, Action, Observation),
        max_concurrent_envs=1,
        env_name="name",
        state_cls=State,
        mode="production",
    )

if TYPE_CHECKING:
    from agent_envs.panels import Panel
    from trainer.play.episode import TextEpisode

_log = logging.getLogger(__name__)


class Reply(Action):
    """A model's whole reply, or the end of the episode."""

    reply: str = Field("", description="The model's whole reply, with its thinking")
    stop: bool = Field(False, description="End the episode here, as truncated, without a turn")


class Told(Observation):
    """What the model reads next, and the record of the turn.

    `reward` is all reward of the turn: that of the record, and on the last turn the outcome.
    """

    session: str = Field(description="Id of the session; reset(fork=...) of another copies it")
    text: str = Field(description="What the model reads next")
    images: list[str] = Field(description="PNG data URLs, in the order of <image> in the text")
    task_id: str
    goal: str
    turn: int = Field(description="Number of turns so far")
    success: bool
    truncated: bool
    record: dict[str, Any] | None = Field(
        description="credit.TurnRecord of the turn; None at first"
    )


class Episode(State):
    """The running episode of a session with all its turn records."""

    session: str = ""
    split: str = ""
    task_id: str = ""
    goal: str = ""
    done: bool = False
    success: bool = False
    truncated: bool = False
    outcome: float = 0.0
    records: list[dict[str, Any]] = Field(default_factory=list)


@dataclass
class Served:
    """What all sessions of a server share.

    Attributes:
        env: Id of the environment.
        episodes: By split, what sessions copy to start episodes of their own.
        panels: The tasks by split; the first split is the default.
        sessions: Sessions with an episode, by their id.
        is_stopping: Whether the server is stopping.
    """

    env: str
    episodes: dict[str, Episodes] = field(default_factory=dict)
    panels: dict[str, Panel] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    is_stopping: Callable[[], bool] = bool

    def panel(self, split: str) -> Panel:
        """The tasks of a split.

        Raises:
            ValueError: It is not served.
        """
        if split not in self.panels:
            raise ValueError(
                f"split {split!r:.60} is not served{nearest(split, self.panels)}; there are "
                f"{', '.join(self.panels)}, and the server adds others with --split"
            )
        return self.panels[split]


class Session(Environment[Reply, Told, Episode]):
    """One client's episodes, one after another.

    OpenEnv makes one for each connection. Resets and steps run in a thread of the session, so that
    a slow one holds up neither other sessions nor the end of the process.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, served: Served) -> None:
        super().__init__()
        self.served, self.id, self.split, self.episode_id = served, token_urlsafe(16), "", ""
        self.episode: TextEpisode | None = None
        self._episodes: dict[str, Episodes] = {}
        self._lock = Lock()  # a fork copies the episode in the thread of another session
        self._closing = False
        self._thread = CallThread()

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **task: Any
    ) -> Told:
        """`reset` in the session's thread."""
        return await wrap_future(self._thread.submit(partial(self.reset, seed, episode_id, **task)))

    @override
    async def step_async(self, action: Reply, timeout_s: float | None = None, **_: Any) -> Told:
        """`step` in the session's thread."""
        return await wrap_future(self._thread.submit(partial(self.step, action)))

    def reset(  # the gate refuses other arguments
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        *,
        split: str | None = None,
        index: int | None = None,
        task_id: str | None = None,
        fork: str | None = None,
    ) -> Told:
        """Start an episode, or continue that of the session `fork`, with its task and seed.

        Raises:
            ValueError: No such split, task or session, or arguments that exclude each other.
            gymnasium.error.ResetNeeded: The episode to fork has ended.
        """
        if fork is not None:
            if any(given is not None for given in (seed, split, index, task_id)):
                raise ValueError("a fork has the task and seed of its session; give fork alone")
            task, (split, copied) = None, self._fork_episode(fork)
        else:
            split = split or next(iter(self.served.panels))
            panel = self.served.panel(split)
            copied, task = None, task_id if index is None else panel.at(index)
            if task_id not in {None, task}:
                raise ValueError(f"task {index} is {task!r}, not {task_id!r}; give one")
            if task is not None:
                panel.find(task)
        with self.lock_episode():
            self._release_episode()
            self.split, self.episode_id = split, episode_id or ""
            with self._report_errors("reset"):
                self.episode = copied or self._open_episodes(split).start(task=task, seed=seed)
                told = self._observe(self.episode, None)
            self.served.sessions[self.id] = self
            return told

    @override
    def step(self, action: Reply, timeout_s: float | None = None, **_: Any) -> Told:
        """Take a turn with a model's reply, or end the episode as truncated.

        Raises:
            gymnasium.error.ResetNeeded: No episode runs.
        """
        with self.lock_episode():
            if self.episode is None:
                raise ResetNeeded("no episode runs; reset first, a new connection is a new session")
            self.episode.require_running()
            if action.stop:
                self.episode.stop()
                return self._observe(self.episode, 0.0)  # the last turn was paid when it was taken
            with self._report_errors("step"):
                self.episode.step(action.reply)
                record = self.episode.records[-1]
                return self._observe(self.episode, record.reward + (record.outcome or 0.0))

    @property
    def state(self) -> Episode:
        """The running episode with its records."""
        if self.episode is None:
            return Episode(episode_id=None, step_count=0, session=self.id)
        played = self.episode
        return Episode(
            episode_id=self.episode_id or None,
            step_count=len(played.records),
            session=self.id,
            split=self.split,
            **{name: getattr(played, name) for name in ("task_id", "goal", "done", "success")},
            truncated=played.truncated,
            outcome=played.outcome,
            records=[record.to_dict() for record in played.records],
        )

    def close(self) -> None:
        """Close the environments of the session; forks of it go on.

        While a step runs, they are closed when it ends.
        """
        self._closing = True
        self._thread.close()
        self._close_free()

    def get_metadata(self) -> EnvironmentMetadata:
        """Name and purpose of the environment."""
        about = f"{self.served.env} of agent-envs, splits {', '.join(self.served.panels)}"
        return EnvironmentMetadata(name=self.served.env, description=about, version=__version__)

    def list_splits(self) -> list[str]:
        """The served splits; the first is the default."""
        return [*self.served.panels]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """All tasks of a split, with the arguments of `reset`."""
        return self.get_task_range(split)

    def num_tasks(self, split: str) -> int:
        """Number of tasks of a split."""
        return len(self.served.panel(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One task of a split."""
        return {"split": split, "index": index, "task_id": self.served.panel(split).at(index)}

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Tasks of a split, as Python slices them."""
        ids = self.served.panel(split).task_ids
        places = range(len(ids))[start:stop]
        return [{"split": split, "index": one, "task_id": ids[one]} for one in places]

    def _fork_episode(self, fork: str) -> tuple[str, TextEpisode]:
        source = self.served.sessions.get(fork)
        with source.lock_episode() if source else nullcontext():
            if source is None or source.episode is None:
                raise ValueError(
                    f"no session {fork!r:.60} has an episode; give the id that its observations "
                    "have, and fork before it is closed"
                )
            try:
                return source.split, source.episode.fork()
            except TypeError as error:
                raise ValueError(f"{self.served.env} cannot be forked: {error}") from error

    def _open_episodes(self, split: str) -> Episodes:
        return self._episodes.setdefault(split, copy.copy(self.served.episodes[split]))

    @contextmanager
    def lock_episode(self) -> Iterator[None]:
        """Use the episode alone."""
        try:
            with self._lock:
                yield
        finally:
            if self._closing:
                self._close_free()

    @contextmanager
    def _report_errors(self, what: str) -> Iterator[None]:
        """Raise errors of the environment with one line of text, which OpenEnv sends."""
        try:
            yield
        except Error:  # of Gymnasium, e.g. a reset that is needed
            raise
        except Exception as error:
            if not (self._closing or self.served.is_stopping()):  # else its processes may be gone
                _log.exception("%s failed", what)
            raise RuntimeError(
                f"{what} failed on the server ({type(error).__name__}: "
                f"{_format_error(error):.500}); reset starts another episode"
            ) from error

    def _close_free(self) -> None:
        """Close the environments, unless another thread uses them, which then does it."""
        if self._lock.acquire(blocking=False):
            try:
                self.served.sessions.pop(self.id, None)
                self._release_episode()
                for episodes in self._episodes.values():
                    episodes.close()
            finally:
                self._lock.release()

    def _release_episode(self) -> None:
        if self.episode is not None:
            self._episodes[self.split].release(self.episode)
            self.episode = None

    def _observe(self, played: TextEpisode, reward: float | None) -> Told:
        return Told(
            session=self.id,
            text=played.message,
            images=[picture.data_url for picture in played.images],
            turn=len(played.records),
            record=played.records[-1].to_dict() if played.records else None,
            reward=reward,
            **{n: getattr(played, n) for n in ("task_id", "goal", "done", "success", "truncated")},
        )


def make_app(
    env: str,
    *,
    splits: Sequence[str] = ("train",),
    limits: Limits = LIMITS,
    token: str = "",
    **options: Any,
) -> Gate:
    """The ASGI application of a server.

    Args:
        env: Environment as in `Episodes`.
        splits: The splits that are served, the default first.
        limits: Limits on sessions, messages and idle time.
        token: Token that callers must send; "" for none.
        options: Further options of `Episodes`, e.g. `max_turns` or `context`.

    Raises:
        ValueError: The environment, a split or an option does not exist or does not fit.
        ValueError: A token that is too short.
    """
    served = Served(env)
    for split in splits:
        episodes = Episodes(env, split=split, **options)
        panel = episodes.panel
        episodes.close()
        served.episodes[panel.split], served.panels[panel.split] = episodes, panel
    app = create_fastapi_app(
        lambda: Session(served),
        Reply,
        Told,
        max_concurrent_envs=limits.sessions,
        env_name=env,
        state_cls=Episode,
        mode="production",  # without POST /reset and /step, whose episodes end with the request
    )
    for kind in (RequestValidationError, ValueError):
        app.add_exception_handler(kind, _answer_invalid)
    gate = Gate(app, env, limits=limits, token=token)
    served.is_stopping = lambda: gate.is_stopping
    return gate


def _format_error(error: Exception) -> str:
    """The text of an error in one line that UTF-8 can hold."""
    if isinstance(error, ValidationError | RequestValidationError):
        said = explain_error(error)
    else:
        said = str(error)
    return encodable(" ".join(said.split()))


async def _answer_invalid(_: Any, error: ValueError) -> Response:
    """Answer a request of a page that does not fit: one line that says why."""
    return JSONResponse({"detail": f"{_format_error(error):.300}"}, 422)
