"""HTTP requests of all threads of a process in one event loop, with limits of time and size.

The loop has its own thread, starts with the first request and ends with the process. A forked
process starts its own loop. Redirects are not followed, cookies are not kept, and proxies are
taken from environment variables. Callers retry, after `choose_delay` seconds. Not supported:
streaming.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import zlib
from collections.abc import Coroutine, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from random import Random
from threading import Lock, Thread
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agent_envs.assets import require

if TYPE_CHECKING:
    from concurrent.futures import Future

    from httpx2 import AsyncClient, Response

Result = TypeVar("Result")
LARGEST = 1 << 20  # bytes of an answer, after decompression
BACKOFF = 0.5  # seconds before the second try, doubled before each further one
LONGEST = 30.0  # longest wait in seconds, even if a server asks for more
_KEPT = 128  # idle connections
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class ServerError(RuntimeError):
    """A required server gave no usable answer; the message names it and a remedy."""


class NoAnswerError(Exception):
    """No connection, or no whole answer in time; another try may succeed."""


class BadAnswerError(Exception):
    """An answer that cannot be used: too long, or broken."""


class Reply(NamedTuple):
    """An HTTP answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class Process:
    """The event loop and the connections of this process.

    Attributes:
        kept: State that callers keep per process, by its owner; empty in a forked process.
    """

    def __init__(self) -> None:
        httpx = require("httpx2", "judge")
        self.kept: dict[Hashable, Any] = {}
        self._loop = asyncio.new_event_loop()
        self._lookups = ThreadPoolExecutor(8, "agent_envs names")
        self._loop.set_default_executor(self._lookups)
        self._client: AsyncClient = httpx.AsyncClient(
            timeout=None,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
            mounts={f"all://{here}": None for here in _LOOPBACK},  # no proxy for this machine
        )
        self._thread = Thread(target=self._loop.run_forever, name="agent_envs web", daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run the coroutine in the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run the coroutine in the loop and return its result; an interrupt cancels it."""
        future = self.start(coroutine)
        try:
            return future.result()
        finally:
            future.cancel()  # has no effect on one that is done

    async def request(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        seconds: float,
        largest: int = LARGEST,
    ) -> Reply:
        """The answer to a request with a body of JSON or none, whatever its status.

        Args:
            method: "GET" or "POST".
            url: The address.
            body: The JSON to send, if any.
            headers: Further headers.
            seconds: Time limit of the whole request, from the DNS look-up to the last byte.
            largest: Size limit of the body in bytes, after decompression.

        Raises:
            NoAnswerError: No connection, or no whole answer in time.
            BadAnswerError: The body is too long or broken, or the address is invalid.
        """
        from httpx2 import HTTPError, InvalidURL

        sent = {"Content-Type": "application/json", "Accept-Encoding": "identity", **headers}
        try:
            async with (
                asyncio.timeout(seconds),
                self._client.stream(method, url, content=body, headers=sent) as response,
            ):
                data = await _read_body(response, largest)
                return Reply(response.status_code, response.headers, data)
        except TimeoutError:
            raise NoAnswerError(f"timed out: no whole answer within {seconds:g} s") from None
        except HTTPError as error:
            raise NoAnswerError(_name_cause(error)) from None
        except (InvalidURL, UnicodeError) as error:
            raise BadAnswerError(f"this is not a valid address: {error}") from None

    def close(self) -> None:
        """Cancel running requests, close the connections and end the thread."""
        self.run(self._close_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._lookups.shutdown(wait=False, cancel_futures=True)

    async def _close_all(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self._client.aclose()


def process() -> Process:
    """The `Process` of this process, started on the first call.

    Raises:
        ImportError: The package of the extra [judge] is not installed.
    """
    global _current  # noqa: PLW0603  one a process
    with _lock:
        if _current is None:
            _current = Process()
        return _current


def read_state() -> Mapping[Hashable, Any]:
    """The state that callers keep for this process; empty before the first request."""
    return _current.kept if _current is not None else {}


def close() -> None:
    """Close this process's connections and end its thread; the next request starts a new one."""
    global _current
    with _lock:
        ending, _current = _current, None
    if ending is not None:
        ending.close()


def choose_delay(tried: int, asked: float = 0.0) -> float:
    """Seconds to wait after `tried` tries: doubled each time, with random jitter, at least `asked`.

    It uses a generator of its own and leaves the global random state as it is.
    """
    longest = min(BACKOFF * 2.0 ** min(tried - 1, 10), LONGEST)
    return max(asked, longest * Random().uniform(0.5, 1.0))


def pause(tried: int, asked: float = 0.0) -> float:
    """Sleep for `choose_delay(tried, asked)` seconds, and return them."""
    seconds = choose_delay(tried, asked)
    sleep(seconds)
    return seconds


def read_retry_after(header: str | None) -> float:
    """Seconds of a `Retry-After` header, a number or a date; 0 without a valid one."""
    if not header:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        seconds = _count_seconds(header)
    return min(seconds, LONGEST) if seconds > 0 else 0.0  # NaN gives 0, too


def count_tries(count: int) -> str:
    """`1 try`, `3 tries`."""
    return "1 try" if count == 1 else f"{count} tries"


def _count_seconds(date: str) -> float:
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return 0.0
    return (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


async def _read_body(response: Response, largest: int) -> bytes:
    """The body of an answer.

    Requests ask for no compression. If the server compresses nevertheless, at most `largest` bytes
    are decompressed.
    """
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in {"identity", "gzip", "deflate"}:
        raise BadAnswerError(f"the answer is compressed as {coding!r}, which was not asked for")
    unpacker = None if coding == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)
    data = bytearray()
    async for part in response.aiter_raw():
        room = largest + 1 - len(data)
        try:
            data += part[:room] if unpacker is None else unpacker.decompress(part, room)
        except zlib.error as error:
            raise BadAnswerError(
                f"the answer's header says {coding}, but its content is not: {error}"
            ) from None
        if len(data) > largest:
            raise BadAnswerError(f"the answer has more than {largest:,} bytes")
    return bytes(data)


def _name_cause(error: BaseException) -> str:
    """The operating system's error text if there is one, else that of the innermost error."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__


def _forget() -> None:
    """In a forked process: keep the parent's `Process` alive, but never use it."""
    global _current  # noqa: PLW0603
    if _current is not None:
        _inherited.append(_current)
        _current = None
    _lock.release()


_lock = Lock()
_current: Process | None = None
_inherited: list[Process] = []
if sys.platform != "win32":
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget)
atexit.register(close)
