"""Language models behind servers that speak OpenAI's chat completions: partners and judges.

All threads of a process ask at the same time, as far as `parallel` allows. An answer reaches the
caller as the model gave it; the key is cut out only of what is raised or logged. Left out:
streaming, tools and images.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from agent_envs import web
from agent_envs.assets import require
from agent_envs.panels import nearest
from agent_envs.retry import delay, retry_after, tries
from agent_envs.web import BadAnswerError, NoAnswerError, ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from urllib.parse import SplitResult

    from agent_envs.web import Process, Reply

Answer = TypeVar("Answer")
Messages = list[dict[str, str]]
ANSWERING = frozenset({"model", "temperature", "max_tokens"})
"""Options that change the answers; the others set the address, the retries and the limits."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")  # of an environment variable
_LONG = 5.0  # seconds that a server may ask for in any case; more is worth a line in the log
_log = logging.getLogger(__name__)
_FORMS = ("json_schema", "json_object", "text")  # of the answer, as servers know them
_VERSION = 1  # of what is sent; part of the cache's keys
_MOST_STARTS = 1000  # places at which JSON is looked for in a text
_OK, _REDIRECTS, _REFUSED, _TOO_MANY, _BROKEN = 200, range(300, 400), 400, 429, 500
_NOT_YET = {408, 409, 425, _TOO_MANY}
_NO_SUCH_FORM = {_REFUSED, 415, 422, 501}
_NO_KEY = {401, 403}
_REMEDIES = {
    "down": "check that the server runs, or raise outage",
    "wrong": "raise retries, or take a model that keeps to the form",
    "refused": "check url, model and options",
}


class EndpointError(ServerError):
    """An endpoint gave no usable answer; the message names it, the conversation and what to do."""


class Usage(NamedTuple):
    """What was used: answered requests, tokens, and their cost in the currency of the prices."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Of prompts and answers."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Endpoint:
    """A model at an address, and how it is asked.

    Equal endpoints of a process are one: they share connections, `parallel` and the budget.
    Copies and pickles hold these options only; the key is read when a request is made.

    Args:
        model: Its name there.
        url: Base address, as `http://127.0.0.1:8000/v1`.
        key: Name of the environment variable with the key; unset sends none.
        timeout: Seconds for a whole answer, from the look-up of the address to the last byte.
        retries: Further tries after an answer that is not in the form asked for. Also after
            a failed connection, a time-out, HTTP 408, 409, 425, 429 and 5xx, before it counts
            as an outage.
        outage: Seconds that such failures of one request are waited out, at least; then it is an
            error. A server's `Retry-After` above 5 s is heeded as far as this goes.
        parallel: Requests of a process at the same time.
        temperature: Of the softmax that answers are drawn from; below 0 leaves it to the server.
        max_tokens: An answer is cut there, 0 leaves it to the server.
        cache: Folder that keeps answers: what was asked before is not asked again. "" for none.
        budget_requests: Requests that a process may send, 0 for no limit.
        budget_tokens: Tokens of prompts and answers that a process may use, 0 for no limit.
        budget_cost: What a process may spend, 0 for no limit.
        prompt_price: Of a million tokens of prompts.
        completion_price: Of a million tokens of answers.

    Raises:
        ValueError: No such address, one that holds a password, or an option out of its range.
        TypeError: An option of another type.
    """

    model: str = ""
    url: str = "https://api.openai.com/v1"
    key: str = "OPENAI_API_KEY"
    timeout: float = 60.0
    retries: int = 3
    outage: float = 300.0
    parallel: int = 32
    temperature: float = 0.0
    max_tokens: int = 0
    cache: str = ""
    budget_requests: int = 0
    budget_tokens: int = 0
    budget_cost: float = 0.0
    prompt_price: float = 0.0
    completion_price: float = 0.0

    def __post_init__(self) -> None:
        for option in fields(self):
            self._check(option.name, type(option.default))
        if self.key and not _NAME.fullmatch(self.key):
            raise ValueError(
                "key is the name of an environment variable, as OPENAI_API_KEY, and not the key "
                "itself; what was given is no such name"
            )
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or not _has_port(parts):
            raise ValueError(
                "an endpoint is a model and an address like 'http://127.0.0.1:8000/v1', "
                f"got an address of scheme {parts.scheme!r} at {parts.netloc.rpartition('@')[2]!r}"
            )
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                f"the address at {parts.hostname} holds a name, a password or a query, which would "
                f"reach logs; put the key into ${self.key}"
            )
        if self.budget_cost and not (self.prompt_price or self.completion_price):
            raise ValueError(
                f"budget_cost={self.budget_cost:g} needs prompt_price and completion_price, what a "
                "million tokens cost"
            )

    def _check(self, name: str, kind: type) -> None:
        given: Any = getattr(self, name)
        fits = isinstance(given, (int, float) if kind is float else kind)
        if not fits or isinstance(given, bool):
            raise TypeError(f"{name} of an endpoint is of type {kind.__name__}, got {given!r:.60}")
        if kind is str:
            return
        if not math.isfinite(given) or (given < 0 and name != "temperature"):
            raise ValueError(f"{name} of an endpoint is finite and at least 0, got {given}")
        if name in {"timeout", "parallel"} and not given:
            raise ValueError(f"{name} of an endpoint is above 0, got {given}")

    def ask(self, messages: Messages, *, about: str) -> str:
        """The text that the model answers; `about` names the conversation in errors.

        Raises:
            EndpointError: No answer within tries, outage and budget, or a broken file in the cache.
            ImportError: The package of the extra [judge] is not installed.
        """
        return self._answer(_Question(messages, None, str, about))

    def ask_json(
        self,
        messages: Messages,
        *,
        schema: Mapping[str, Any],
        read: Callable[[Any], Answer],
        about: str,
    ) -> Answer:
        """What `read` makes of the JSON that the model answers.

        A server that refuses schemas is asked for any JSON object, then for text with the schema in
        the prompt. Thinking before the JSON, a fence and text around it are passed over.

        Args:
            messages: The conversation so far.
            schema: JSON schema of the answer, an object or an array.
            read: Raises ValueError for an answer that is not in the form asked for.
            about: Names the conversation in errors.

        Raises:
            EndpointError, ImportError: As `ask`.
        """
        opening = {"object": "{", "array": "["}[schema["type"]]
        question = _Question(messages, schema, lambda text: read(json_in(text, opening)), about)
        return self._answer(question)

    @property
    def usage(self) -> Usage:
        """What this process has used of it."""
        line = web.kept().get(self)
        return line.usage if isinstance(line, _Line) else Usage()

    def _answer(self, question: _Question[Answer]) -> Answer:
        if not self.model:
            raise ValueError(f"an endpoint needs a model, got none for {self.url}")
        file = self._file(question)
        if file is not None and file.exists():
            return self._kept(file, question)
        here = web.process()
        if file is None:
            return here.run(self._asked(here, question))[1]
        part = file.with_suffix(f".{os.getpid()}-{get_ident()}.part")
        try:  # before it is asked, since answers cost
            file.parent.mkdir(parents=True, exist_ok=True)
            part.touch()
        except OSError as error:
            raise EndpointError(
                f"answers cannot be kept in {self.cache} ({error.strerror}), so that {self} was "
                f"not asked on {question.about}; set cache to a folder that can be written"
            ) from None
        try:
            text, answer = here.run(self._asked(here, question))
            kept = {"model": self.model, "messages": question.messages, "answer": text}
            part.write_text(json.dumps(kept), encoding="utf-8")
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
        return answer

    def _file(self, question: _Question[Any]) -> Path | None:
        if not self.cache:
            return None
        how = [_VERSION, self.url, self.model, float(self.temperature), self.max_tokens]
        asked = json.dumps([*how, question.messages, question.schema], sort_keys=True)
        return Path(self.cache) / f"{sha256(asked.encode()).hexdigest()}.json"

    def _kept(self, file: Path, question: _Question[Answer]) -> Answer:
        try:
            text = json.loads(file.read_text(encoding="utf-8"))["answer"]
            if isinstance(text, str):
                return question.read(text)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        raise EndpointError(
            f"{file} holds no answer on {question.about}; delete it, and it is asked for again"
        )

    async def _asked(self, here: Process, question: _Question[Answer]) -> tuple[str, Answer]:
        """The text of an answer, and what it was read as, in as many tries as it takes."""
        line = here.kept.setdefault(self, _Line(self.parallel))
        started, tried, down, wrong, began, told = monotonic(), 0, 0, 0, math.inf, False
        while True:
            tried += 1
            try:
                text = await self._once(here, line, question, instructed=wrong > 0)
                return text, self._read(text, question)
            except _Failure as failure:
                if failure.kind == "down":
                    down, began = down + 1, min(began, monotonic())
                else:
                    wrong, down, began = wrong + 1, 0, math.inf
                why, waited = self._redacted(failure.why), monotonic() - began
                outage = down > self.retries and waited < self.outage
                if failure.kind == "refused" or (max(down, wrong) > self.retries and not outage):
                    lasted = f" and {monotonic() - started:.0f} s" if down else ""
                    raise EndpointError(
                        f"{self} gave no answer on {question.about} in {tries(tried)}{lasted}: "
                        f"{why}; {failure.remedy}"
                    ) from None
                if outage and not line.down and not told:
                    line.down, told = began, True
                    _log.warning("%s: %s; waiting up to %g s", self, why, self.outage)
                asked = min(failure.wait, max(_LONG, self.outage - waited))
                if asked > _LONG:
                    _log.warning("%s asks to be left alone for %.0f s: %s", self, asked, why)
                await asyncio.sleep(delay(down or wrong, asked))

    async def _once(
        self, here: Process, line: _Line, question: _Question[Any], *, instructed: bool
    ) -> str:
        """The text of one answer, in the first form that the server knows.

        Raises:
            _Failure: There is none.
        """
        refused: _Failure | None = None
        for form in range(line.form, len(_FORMS)) if question.schema else [len(_FORMS) - 1]:
            asked = self._request(question, form, instructed=instructed)
            try:
                async with line.room:
                    text = await self._send(here, line, asked)
            except _Failure as failure:
                if not question.schema or failure.status not in _NO_SUCH_FORM:
                    raise
                refused = refused or failure
                continue
            if question.schema and form > line.form:
                line.form = form
                _log.warning("%s refuses %s; asking it for %s", self, _FORMS[0], _FORMS[form])
            return text
        assert refused is not None  # noqa: S101  the last form was refused, too
        raise refused

    def _request(self, question: _Question[Any], form: int, *, instructed: bool) -> dict[str, Any]:
        asked: dict[str, Any] = {"model": self.model, "messages": question.messages}
        if self.temperature >= 0:
            asked["temperature"] = self.temperature
        if self.max_tokens:
            asked["max_tokens"] = self.max_tokens
        if question.schema is None:
            return asked
        if form == 0:
            named = {"name": "answer", "strict": True, "schema": question.schema}
            asked["response_format"] = {"type": _FORMS[form], "json_schema": named}
        elif _FORMS[form] == "json_object":
            asked["response_format"] = {"type": _FORMS[form]}
        if form or instructed:
            *before, last = question.messages
            told = (
                f"{last['content']}\n\nAnswer with one JSON value of this schema and nothing else:"
                f"\n{json.dumps(question.schema)}"
            )
            asked["messages"] = [*before, {**last, "content": told}]
        return asked

    async def _send(self, here: Process, line: _Line, asked: dict[str, Any]) -> str:
        """The text of the answer to one request."""
        self._check_budget(line.usage)
        url, headers = f"{self.url.rstrip('/')}/chat/completions", self._headers()
        body = json.dumps(asked).encode()
        line.usage = line.usage._replace(requests=line.usage.requests + 1)
        try:
            reply = await here.post(url, body, headers, timeout=self.timeout)
        except NoAnswerError as error:
            line.usage = line.usage._replace(requests=line.usage.requests - 1)
            raise _Failure("down", str(error)) from None
        except BadAnswerError as error:
            raise _Failure("wrong", str(error)) from None
        if reply.status != _OK:
            raise self._failure(reply)
        if line.down:
            _log.warning("%s answers again after %.0f s", self, monotonic() - line.down)
            line.down = 0.0
        try:
            answer = json.loads(reply.data)
            choice = answer["choices"][0]
            content = choice["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            said = self._redacted(reply.data.decode(errors="replace"))
            raise _Failure("wrong", f"the answer is no chat completion: {said[:200]!r}") from None
        self._count(line, answer.get("usage"))
        return _text(content, cut=choice.get("finish_reason") == "length")

    def _read(self, text: str, question: _Question[Answer]) -> Answer:
        try:
            return question.read(text)
        except ValueError as error:
            safe = self._redacted(text)
            why = str(error) if safe == text else "it is not in the form asked for"
            raise _Failure("wrong", f"{why}, answer {safe[:200]!r}") from None

    def _headers(self) -> dict[str, str]:
        key = self._key()
        if not (key.isascii() and key.isprintable()):
            why = f"the key in ${self.key} has characters that no key has"
            raise _Failure("refused", why, remedy="set it anew")
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _key(self) -> str:
        return os.environ.get(self.key, "").strip()

    def _failure(self, reply: Reply) -> _Failure:
        """Why an answer with another status than 200 is none."""
        said = self._redacted(reply.data.decode(errors="replace"))
        why = f"HTTP {reply.status}, {said[:300]!r}"
        if reply.status in _NOT_YET or reply.status >= _BROKEN:
            kind, wait = "down", retry_after(reply.headers.get("retry-after"))
            return _Failure(kind, why, wait=wait, status=reply.status)
        if reply.status in _REDIRECTS:
            where = self._redacted(reply.headers.get("location", "nowhere"))[:200]
            why = f"HTTP {reply.status} to {where}, which is not followed"
        remedy = f"check the key in ${self.key}" if reply.status in _NO_KEY else ""
        return _Failure("refused", why, status=reply.status, remedy=remedy)

    def _check_budget(self, usage: Usage) -> None:
        for name, used, most in (
            ("requests", usage.requests, self.budget_requests),
            ("tokens", usage.tokens, self.budget_tokens),
            ("cost", usage.cost, self.budget_cost),
        ):
            if most and used >= most:
                why = f"the budget is used up, {used:g} of budget_{name}={most:g}"
                raise _Failure("refused", why, remedy="raise it to go on")

    def _count(self, line: _Line, told: Any) -> None:
        """Add the tokens of an answer.

        Raises:
            _Failure: The server does not tell them, and there is a budget of them.
        """
        given: dict[str, Any] = told if isinstance(told, dict) else {}
        counts: list[Any] = [given.get(name) for name in ("prompt_tokens", "completion_tokens")]
        if not all(type(count) is int and count >= 0 for count in counts):
            if self.budget_tokens or self.budget_cost:
                why = "the server does not tell the tokens used, so that they cannot have a budget"
                raise _Failure("refused", why, remedy="set budget_requests instead")
            return
        prompt, answer = counts
        used = line.usage
        line.usage = Usage(
            used.requests,
            used.prompt_tokens + prompt,
            used.completion_tokens + answer,
            used.cost + (prompt * self.prompt_price + answer * self.completion_price) / 1e6,
        )

    def _redacted(self, text: str) -> str:
        """A text for messages, without the key; before anything is cut off it."""
        key = self._key()
        return text.replace(key, "***") if key else text

    def __str__(self) -> str:
        return f"{self.model} at {self.url}"


def open_endpoint(given: str | Mapping[str, Any] | Endpoint, **defaults: Any) -> Endpoint:
    """The endpoint that `openai:<model>@<base url>`, or a table of an endpoint's options, means.

    `defaults` are options that hold where none are given.

    Raises:
        ValueError: It means none, or an option is not one or out of its range.
        TypeError: An option of another type. ImportError: As for `Endpoint.ask`.
    """
    require("httpx2", "judge")
    if isinstance(given, Endpoint):
        made = given
    elif isinstance(given, str):
        kind, _, rest = given.partition(":")
        model, at, address = rest.partition("@http")
        if kind != "openai" or not at:
            raise ValueError(
                "an endpoint is written openai:<model>@<base url>, as "
                f"'openai:qwen@http://127.0.0.1:8000/v1', got one that begins {given[:20]!r}"
            )
        made = Endpoint(**{**defaults, "model": model, "url": f"http{address}"})
    else:
        known = tuple(option.name for option in fields(Endpoint))
        for name in given:
            if name not in known:
                raise ValueError(
                    f"an endpoint has no option {name!r}{nearest(str(name), known)}; it has {known}"
                )
        made = Endpoint(**{**defaults, **given})
    if not made.model:
        raise ValueError(f"an endpoint is a model and an address, got no model for {made.url}")
    return made


def used() -> Usage:
    """What this process has used of all its endpoints."""
    lines = [line.usage for line in [*web.kept().values()] if isinstance(line, _Line)]
    return Usage(*map(sum, zip(*lines, strict=True))) if lines else Usage()


class RepeatedKeyError(ValueError):
    """An object in JSON has a key twice, so that it says two things."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; an `object_pairs_hook` of JSON decoders.

    Raises:
        RepeatedKeyError: A key is there twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise RepeatedKeyError(f"the key {twice!r:.60} is there twice")
    return found


def json_in(text: str, opening: str = "{") -> Any:
    """The JSON in an answer, whatever surrounds it: the last object, or with "[" the last array.

    Raises:
        ValueError: There is none, or one of its objects has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=unique)
    except RepeatedKeyError:
        raise
    except (ValueError, RecursionError):
        pass
    _, closed, answer = text.partition("</think>")
    if not closed:
        answer = "" if text.lstrip().startswith("<think>") else text
    decoder = json.JSONDecoder(object_pairs_hook=unique)
    found, at = None, answer.find(opening)
    for _ in range(_MOST_STARTS):
        if at < 0:
            break
        try:
            found, end = decoder.raw_decode(answer, at)
        except RepeatedKeyError:
            raise
        except (ValueError, RecursionError):
            end = at + 1
        at = answer.find(opening, end)
    if found is None:
        raise ValueError(f"it has no JSON that begins with {opening}")
    return found


def number(given: Any) -> float:
    """A number of an answer, which models also write as a string.

    Raises:
        ValueError: It is none, or not finite.
    """
    odd = isinstance(given, bool) or (isinstance(given, str) and "_" in given)
    try:
        value = math.nan if odd else float(given)
    except (TypeError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{given!r:.60} is no number")
    return value


def _has_port(parts: SplitResult) -> bool:
    """Whether the port of an address, if it names one, is one."""
    try:
        return parts.port != 0
    except ValueError:
        return False


class _Question(NamedTuple, Generic[Answer]):
    """What is asked, in which form, and how an answer is read."""

    messages: Messages
    schema: Mapping[str, Any] | None
    read: Callable[[str], Answer]
    about: str


class _Line:
    """What a process keeps of an endpoint; only its event loop changes it."""

    def __init__(self, parallel: int) -> None:
        self.room = asyncio.Semaphore(parallel)
        self.form = 0  # of `_FORMS`, the first that the server knows
        self.down = 0.0  # since when it is silent, once that was logged
        self.usage = Usage()


class _Failure(Exception):
    """Why a request gave no answer.

    kind: "down": another try may fare better, after `wait` seconds; "wrong": an answer, but not in
        the form asked for; "refused": for good.
    """

    def __init__(
        self, kind: str, why: str, *, wait: float = 0.0, status: int = 0, remedy: str = ""
    ) -> None:
        super().__init__(why)
        self.kind, self.why, self.wait, self.status = kind, why, wait, status
        self.remedy = remedy or _REMEDIES[kind]


def _text(content: Any, *, cut: bool) -> str:
    """The text of a message; what a model thinks beside it is left out."""
    if isinstance(content, list):  # of parts
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "".join(str(part.get("text", "")) for part in parts)
    if not isinstance(content, str) or not content.strip():
        raise _Failure("wrong", "the answer is empty", remedy="raise max_tokens" if cut else "")
    return content
