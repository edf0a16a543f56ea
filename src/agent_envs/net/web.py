"""HTTP requests of all threads of a process in one event loop, with limits of time and size.

The loop has its own thread, starts with the first request and ends with the process. A forked
process starts its own loop. `check_url` says which addresses are allowed, `find_proxy` which way a
request takes: none to this machine goes through a proxy. A redirect is followed on the same server
alone, cookies are not kept. Callers retry, after `choose_delay` seconds. Not supported: streaming.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import sys
import zlib
from collections.abc import Coroutine, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.util import find_spec
from ipaddress import ip_address
from random import Random
from threading import Lock, Thread
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from agent_envs.assets import require

if TYPE_CHECKING:
    from concurrent.futures import Future

    from httpx2 import AsyncClient, Response

Result = TypeVar("Result")
LARGEST = 1 << 20  # bytes of an answer, after decompression
BACKOFF = 0.5  # seconds before the second try, doubled before each further one
LONGEST = 30.0  # longest wait in seconds, even if a server asks for more
_KEPT = 128  # idle connections
_MOVED, _HOPS = (307, 308), 3
_PROXIES = ("http", "https", "socks5", "socks5h")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


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


def check_url(url: str, *, rule: str, example: str, advice: str) -> SplitResult:
    """The parts of a server's address, which is stored, logged and printed.

    Args:
        url: The address.
        rule: What the error says before the example, such as "url must be".
        example: An address that is allowed.
        advice: Where a key or password belongs instead.

    Raises:
        ValueError: It is none, or has a user name, password, query or fragment; no part that could
            be secret is in the message.
    """
    try:
        parts = urlsplit(url)
        port: int | None = parts.port
    except ValueError as error:  # "... value as 'x'": x may be a password
        raise ValueError(f"{rule} like {example!r}: {str(error).partition(' as ')[0]}") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        where = f"{parts.hostname or ''}{'' if port is None else f':{port}'}"
        raise ValueError(
            f"{rule} like {example!r}, got an address of scheme {parts.scheme!r} at {where!r}"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"the address at {parts.hostname} contains a user name, password or query, which "
            f"would appear in logs; {advice}"
        )
    return parts


def find_proxy(url: str) -> str:
    """The proxy that the environment has for an address; "" for none, as for this machine.

    Raises:
        ServerError: One that is not supported.
    """
    parts = urlsplit(url)
    where = f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all", "")
    if not proxy or is_local(parts.hostname or "") or proxy_bypass(where):
        return ""
    scheme = proxy.partition("://")[0] if "://" in proxy else "http"
    if scheme not in _PROXIES:
        raise ServerError(
            f"the environment has a proxy of the kind {scheme}:// for {where}; set "
            f"{parts.scheme}_proxy to one of {', '.join(_PROXIES)}, or add the host to no_proxy"
        )
    if scheme.startswith("socks") and find_spec("socksio") is None:
        raise ServerError(f"the {scheme} proxy for {where} needs a package: pip install socksio")
    return proxy if "://" in proxy else f"http://{proxy}"


@cache
def is_local(host: str) -> bool:
    """Whether a host is this machine: one of its own addresses or names. Asks no name server."""
    host, own = host.lower().rstrip("."), socket.gethostname().lower()
    if host in {"localhost", own, own.partition(".")[0]} or host.endswith(".localhost"):
        return True
    try:
        family, *_, address = socket.getaddrinfo(host, 0, flags=socket.AI_NUMERICHOST)[0]
    except (OSError, UnicodeError):  # a name
        short = host.partition(".")[0] == own.partition(".")[0]
        return short and host == socket.getfqdn().lower()
    number = ip_address(address[0])
    number = getattr(number, "ipv4_mapped", None) or number
    if number.is_loopback or number.is_unspecified:
        return True
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind(address)  # only to an address of this machine
    except OSError:
        return False
    return True


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
        self._httpx = httpx
        self._clients: dict[tuple[str, bool], AsyncClient] = {}
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
        proxy = find_proxy(url)
        through = f", through the proxy {proxy.rpartition('@')[2]}" if proxy else ""
        client = self._open_client(proxy, encrypted="https://" in f"{url[:8].lower()} {proxy}")
        try:
            async with asyncio.timeout(seconds):
                for _ in range(_HOPS):
                    async with client.stream(method, url, content=body, headers=sent) as got:
                        data = await _read_body(got, largest)
                    moved = urljoin(url, got.headers.get("location", url))
                    if got.status_code not in _MOVED or urlsplit(moved)[:2] != urlsplit(url)[:2]:
                        break  # it stays on its scheme and server
                    url = moved
                return Reply(got.status_code, got.headers, data)
        except TimeoutError:
            late = f"timed out: no whole answer within {seconds:g} s{through}"
            raise NoAnswerError(late) from None
        except HTTPError as error:
            raise NoAnswerError(f"{_name_cause(error)}{through}") from None
        except (InvalidURL, UnicodeError) as error:
            raise BadAnswerError(f"this is not a valid address: {error}") from None

    def _open_client(self, proxy: str, *, encrypted: bool) -> AsyncClient:
        """The client of a proxy or none, with certificates if it is for encrypted connections.

        Raises:
            ServerError: The environment names certificates that are not there.
        """
        found = self._clients.get((proxy, encrypted))
        if found is None:
            for name in _CERTIFICATES if encrypted else ():
                if (path := os.environ.get(name)) and not os.path.exists(path):
                    raise ServerError(f"${name} names {path}, which is not there; set or unset it")
            found = self._clients[proxy, encrypted] = self._httpx.AsyncClient(
                timeout=None,
                limits=self._httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT),
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                follow_redirects=False,
                trust_env=False,
                proxy=proxy or None,
                verify=encrypted and self._httpx.create_ssl_context(),
            )
        return found

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
        for client in self._clients.values():
            await client.aclose()


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
