"""A client of servers that speak OpenAI's chat completions, with bounded tries and whole answers.

The key comes from an environment variable, is read when it is needed and is kept nowhere else. Left
out: streaming, tools, and proxies of one's own.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from agent_envs.assets import require
from agent_envs.patience import pause, retry_after, tries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openai import OpenAI

Answer = TypeVar("Answer")
_LARGEST = 1 << 20  # bytes of an answer
_TOO_MANY, _SERVER_ERROR = 429, 500


class EndpointError(RuntimeError):
    """An endpoint gave no usable answer; the message names it, the conversation and the reason."""


class _Failure(NamedTuple):
    """Why a try failed, whether another one may fare better, and when the server wants it."""

    why: str
    passing: bool
    wait: float = 0.0


class Endpoint:
    """A model at an address.

    Args:
        model: its name there.
        url: base address, as `http://127.0.0.1:8000/v1`.
        key: environment variable with the key; servers of one's own need none.
        timeout: seconds for a whole answer.
        retries: further tries after failed connections, time-outs, HTTP 408, 409, 429 and 5xx, and
            after answers that are not in the form asked for.

    Raises:
        ImportError: the package of the extra [judge] is not installed.
        ValueError: no model, no such address, or one that holds a password.
    """

    def __init__(
        self,
        model: str,
        url: str,
        *,
        key: str = "OPENAI_API_KEY",
        timeout: float = 60.0,
        retries: int = 3,
    ) -> None:
        parts = urlsplit(url)
        if not model or parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(
                "an endpoint is a model and an address like 'http://127.0.0.1:8000/v1', "
                f"got model {model!r} and an address of scheme {parts.scheme!r}"
            )
        if parts.username or parts.password or parts.query:
            raise ValueError(
                f"the address at {parts.hostname} holds a name, a password or a query, which would "
                f"reach logs; put the key into ${key}"
            )
        if timeout <= 0 or retries < 0:
            raise ValueError(f"timeout is above 0 and retries at least 0, got {timeout}, {retries}")
        require("openai", "judge")
        self.model, self.url, self.key = model, url, key
        self.timeout, self.retries = timeout, retries
        self._client: OpenAI | None = None
        self._process = 0

    def ask(
        self,
        messages: list[dict[str, str]],
        *,
        schema: Mapping[str, Any],
        temperature: float,
        read: Callable[[Any], Answer],
        about: str,
    ) -> Answer:
        """What `read` makes of the JSON that the model answers; `about` names the conversation.

        `read` raises ValueError for what is not in the form asked for.

        Raises:
            EndpointError: no usable answer within the tries.
        """
        for tried in count(1):
            answer = self._try(messages, schema, temperature)
            failure = answer if isinstance(answer, _Failure) else None
            if not isinstance(answer, _Failure):
                try:
                    return read(json.loads(answer))
                except (ValueError, RecursionError) as error:
                    failure = _Failure(f"{error}, answer {answer[:200]!r}", passing=True)
            assert failure is not None  # noqa: S101  only failures come here
            if tried > self.retries or not failure.passing:
                why = self._redacted(failure.why)
                raise EndpointError(f"{self} gave no answer on {about} in {tries(tried)}: {why}")
            pause(tried, failure.wait)
        raise AssertionError

    def close(self) -> None:
        """Close the connections; the next question opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _try(
        self, messages: list[dict[str, str]], schema: Mapping[str, Any], temperature: float
    ) -> str | _Failure:
        """The text of one answer, or why there is none."""
        import openai

        # What openai sends with: httpx until version 2, httpx2 since.
        transport = import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
        asked: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "temperature": temperature,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": schema},
            },
        }
        completions = self._connected().chat.completions.with_streaming_response
        deadline = monotonic() + self.timeout
        try:
            body = b""
            with completions.create(**asked) as response:
                for chunk in response.iter_bytes():
                    body += chunk
                    if monotonic() > deadline or len(body) > _LARGEST:
                        return _Failure("the answer was too slow or too long", passing=True)
            return _content(self._redacted(body.decode(errors="replace")))
        except openai.APIStatusError as error:
            status = error.status_code
            passing = status in {408, 409, _TOO_MANY} or status >= _SERVER_ERROR
            wait = retry_after(error.response.headers.get("retry-after"))
            return _Failure(f"HTTP {status}, {self._redacted(error.message)[:300]}", passing, wait)
        except (openai.APIConnectionError, transport.HTTPError) as error:
            return _Failure(str(error) or type(error).__name__, passing=True)

    def _connected(self) -> OpenAI:
        """The client of this process: two that shared one would read each other's answers."""
        if self._client is None or self._process != os.getpid():
            from openai import OpenAI

            self._client = OpenAI(
                base_url=self.url,
                api_key=os.environ.get(self.key) or "none",
                timeout=self.timeout,
                max_retries=0,
            )
            self._process = os.getpid()
        return self._client

    def _redacted(self, text: str) -> str:
        """A text without the key, which a server may send back; before anything is cut off it."""
        key = os.environ.get(self.key)
        return text.replace(key, "***") if key else text

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def __str__(self) -> str:
        return f"{self.model} at {self.url}"

    def __repr__(self) -> str:
        return (
            f"Endpoint({self.model!r}, {self.url!r}, key={self.key!r}, timeout={self.timeout}, "
            f"retries={self.retries})"
        )


def open_endpoint(spec: str) -> Endpoint:
    """The endpoint that `openai:<model>@<base url>` names.

    Raises:
        ValueError: it names none. ImportError: as for `Endpoint`.
    """
    kind, _, rest = spec.partition(":")
    model, at, address = rest.partition("@http")
    if kind != "openai" or not at:
        raise ValueError(
            "an endpoint is written openai:<model>@<base url>, as "
            f"'openai:qwen@http://127.0.0.1:8000/v1', got one that begins {spec[:20]!r}"
        )
    return Endpoint(model, f"http{address}")


def _content(body: str) -> str | _Failure:
    """The text in a chat completion."""
    try:
        content = json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return _Failure(f"this is no chat completion: {body[:200]!r}", passing=True)
    return content if isinstance(content, str) else _Failure("the answer is empty", passing=True)
