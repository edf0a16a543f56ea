"""Language models behind OpenAI-compatible chat completion servers: partners and judges.

All threads of a process send requests concurrently, up to `parallel`. Answers are returned
unchanged; the key is removed only from error messages and log lines. Not supported: streaming,
tools and images.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from agent_envs.assets import require
from agent_envs.net import web
from agent_envs.net.web import (
    BadAnswerError,
    NoAnswerError,
    ServerError,
    check_url,
    choose_delay,
    count_tries,
    read_retry_after,
)
from agent_envs.options import check_options
from agent_envs.panels import nearest
from agent_envs.replies import split_thoughts

if TYPE_CHECKING:
    from agent_envs.net.web import Process, Reply

Answer = TypeVar("Answer")
Messages = list[dict[str, Any]]
FORMS = ("json_schema", "json_object", "text")
"""Values of `response_format`, the strictest first; a form is given by its place."""
TEXT = len(FORMS) - 1
_MOST_STARTS = 1000  # at most so many positions of a text are tried as the start of JSON
ANSWERING = frozenset({"model", "temperature", "max_tokens"})
"""Options that change the answer; the others set the address, retries, limits and prices."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")  # of an environment variable
_LONG = 5.0  # seconds of `Retry-After` that are always waited; a longer wait is logged
_log = logging.getLogger(__name__)
_VERSION = 1  # of the request format; part of the cache's keys
_OK, _REDIRECTS, _REFUSED, _TOO_MANY, _BROKEN = 200, range(300, 400), 400, 429, 500
_NOT_YET = {408, 409, 425, _TOO_MANY}
_NO_SUCH_FORM = {_REFUSED, 415, 422, 501}
_NO_KEY = {401, 403}
_REMEDIES = {
    "down": "check that the server runs, or raise outage",
    "wrong": "raise retries, or use a model that follows the schema",
    "refused": "check url, model and options",
}


class EndpointError(ServerError):
    """An endpoint gave no usable answer; the message names it, the conversation and a remedy."""


class Usage(NamedTuple):
    """Answered requests, tokens, and their cost in the currency of the prices."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """The tokens of prompts and answers."""
        return self.prompt_tokens + self.completion_tokens


class Question(NamedTuple, Generic[Answer]):
    """The messages of a request, the schema of the answer, and the function that converts it.

    messages: the conversation so far.
    schema: JSON schema of the answer; None for text.
    read: converts the text of an answer.
    about: names the conversation in error messages.
    """

    messages: Messages
    schema: Mapping[str, Any] | None
    read: Callable[[str], Answer]
    about: str

    def add_schema(self) -> Messages:
        """The messages, the last with the schema if there is one."""
        if self.schema is None:
            return self.messages
        *before, last = self.messages
        told = (
            f"{last['content']}\n\nAnswer with one JSON value of this schema and nothing else:"
            f"\n{json.dumps(self.schema)}"
        )
        return [*before, {**last, "content": told}]

    def response_format(self, form: int) -> dict[str, Any]:
        """The option of a request that asks for this form; {} for text."""
        if self.schema is None or form == TEXT:
            return {}
        if form:
            return {"response_format": {"type": FORMS[form]}}
        named = {"name": "answer", "strict": True, "schema": self.schema}
        return {"response_format": {"type": FORMS[form], "json_schema": named}}


@dataclass(frozen=True)
class Endpoint:
    """A model at an address, with the options of its requests.

    Equal endpoints of a process share connections, `parallel` and the budget. Copies and pickles
    contain only these options; the key is read when a request is made.

    Args:
        model: Name of the model on the server.
        url: Base address, such as `http://127.0.0.1:8000/v1`.
        key: Name of the environment variable with the key; if unset, no key is sent.
        timeout: Seconds for a whole answer, from the DNS look-up to the last byte.
        retries: Further tries after an answer in a wrong form. Also after a failed connection, a
            time-out, HTTP 408, 409, 425, 429 and 5xx; after these tries such failures are an
            outage.
        outage: Seconds for which an outage is retried, at least, before it raises. A server's
            `Retry-After` above 5 s is followed up to this limit.
        parallel: Concurrent requests of a process.
        temperature: Sampling temperature; below 0 uses the server's default.
        max_tokens: Length limit of an answer; 0 uses the server's default.
        cache: Folder for a cache of answers, so that no request is sent twice; "" for none.
        budget_requests: Requests that a process may send, 0 for no limit.
        budget_tokens: Tokens of prompts and answers that a process may use, 0 for no limit.
        budget_cost: Cost limit of a process, 0 for no limit.
        prompt_price: Price of a million prompt tokens.
        completion_price: Price of a million completion tokens.

    Raises:
        ValueError: An invalid address, a password in the address, or an option out of range.
        TypeError: An option of a wrong type.
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
        check_options(Endpoint, (), vars(self))
        for name, given in vars(self).items():
            least = -math.inf if name == "temperature" else 0
            above = name in {"timeout", "parallel"}
            if isinstance(given, str) or (least <= given < math.inf and (given or not above)):
                continue
            raise ValueError(
                f"{name} of an endpoint must be finite and {'above' if above else 'at least'} 0, "
                f"got {given}"
            )
        example, advice = "http://127.0.0.1:8000/v1", f"put the key into ${self.key}"
        rule = "an endpoint needs a model and an address"
        check_url(self.url, rule=rule, example=example, advice=advice)
        rules = {
            "key must be the name of an environment variable, such as OPENAI_API_KEY, not the "
            "key itself; the value given is not such a name": (
                self.key and not _NAME.fullmatch(self.key)
            ),
            f"budget_cost={self.budget_cost:g} needs prompt_price and completion_price, the "
            "prices of a million tokens": (
                self.budget_cost and not (self.prompt_price or self.completion_price)
            ),
        }
        if broken := [said for said, is_broken in rules.items() if is_broken]:
            raise ValueError(broken[0])

    def ask(self, messages: Messages, *, about: str) -> str:
        """The model's answer as text; `about` names the conversation in error messages.

        Raises:
            EndpointError: No answer within tries, outage and budget, or a broken cache file.
            ImportError: The package of the extra [judge] is not installed.
        """
        return self._answer(Question(messages, None, str, about))

    def ask_json(
        self,
        messages: Messages,
        *,
        schema: Mapping[str, Any],
        read: Callable[[Any], Answer],
        about: str,
    ) -> Answer:
        """The model's JSON answer, converted by `read`.

        If the server refuses schemas, a JSON object is requested, then text with the schema in the
        prompt. Thinking before the JSON, code fences and text around it are ignored.

        Args:
            messages: The conversation so far.
            schema: JSON schema of the answer, an object or an array.
            read: Converts the parsed JSON; raises ValueError if it does not have the right form.
            about: Names the conversation in error messages.

        Raises:
            EndpointError, ImportError: As `ask`.
        """
        opening = {"object": "{", "array": "["}[schema["type"]]
        question = Question(messages, schema, lambda text: read(read_json(text, opening)), about)
        return self._answer(question)

    @property
    def usage(self) -> Usage:
        """The usage of this endpoint by this process."""
        line = web.read_state().get(self)
        return line.usage if isinstance(line, _Line) else Usage()

    def _answer(self, question: Question[Answer]) -> Answer:
        file = self._find_file(question)
        if file is not None and file.exists():
            return self._read_file(file, question)
        here = web.process()
        if file is None:
            return here.run(self._ask_repeatedly(here, question))[1]
        part = file.with_suffix(f".{os.getpid()}-{get_ident()}.part")
        file.parent.mkdir(parents=True, exist_ok=True)
        part.touch()  # fails before the request, since answers cost money
        try:
            text, answer = here.run(self._ask_repeatedly(here, question))
            kept = {"model": self.model, "messages": question.messages, "answer": text}
            part.write_text(json.dumps(kept), encoding="utf-8")
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
        return answer

    def _find_file(self, question: Question[Any]) -> Path | None:
        if not self.cache:
            return None
        how = [_VERSION, self.url, self.model, float(self.temperature), self.max_tokens]
        asked = json.dumps([*how, question.messages, question.schema], sort_keys=True)
        return Path(self.cache) / f"{sha256(asked.encode()).hexdigest()}.json"

    def _read_file(self, file: Path, question: Question[Answer]) -> Answer:
        try:
            text = json.loads(file.read_text(encoding="utf-8"))["answer"]
            if isinstance(text, str):
                return question.read(text)
        except (ValueError, KeyError, TypeError, RecursionError, RepeatedKeyError):
            pass
        raise EndpointError(
            f"{file} has no valid answer on {question.about}; delete it to request it again"
        )

    async def _ask_repeatedly(
        self, here: Process, question: Question[Answer]
    ) -> tuple[str, Answer]:
        """The text of an answer and its converted value, after as many tries as allowed."""
        line = here.kept.setdefault(self, _Line(self.parallel))
        started, tried, down, wrong, began, told = monotonic(), 0, 0, 0, math.inf, False
        while True:
            tried += 1
            try:
                text = await self._ask_once(here, line, question, instructed=wrong > 0)
                return text, self._read_answer(text, question)
            except _Failure as error:
                failure = error
            if failure.kind == "down":
                down, began = down + 1, min(began, monotonic())
            else:
                wrong, down, began = wrong + 1, 0, math.inf
            why, waited = self._redact(failure.why), monotonic() - began
            outage = down > self.retries and waited < self.outage
            if failure.kind == "refused" or (max(down, wrong) > self.retries and not outage):
                lasted = f" and {monotonic() - started:.0f} s" if down else ""
                raise EndpointError(
                    f"{self} gave no answer on {question.about} in {count_tries(tried)}{lasted}"
                    f": {why}; {failure.remedy}"
                )
            if outage and not line.down and not told:
                line.down, told = began, True
                _log.warning("%s: %s; waiting up to %g s", self, why, self.outage)
            asked = min(failure.wait, max(_LONG, self.outage - waited))
            if asked > _LONG:
                _log.warning("%s requests a wait of %.0f s: %s", self, asked, why)
            await asyncio.sleep(choose_delay(down or wrong, asked))

    async def _ask_once(
        self, here: Process, line: _Line, question: Question[Any], *, instructed: bool
    ) -> str:
        """The text of one answer, in the first form that the server supports.

        Raises:
            _Failure: The request failed.
        """
        refused: _Failure | None = None
        form = line.form if question.schema else TEXT
        while True:
            asked = self._request(question, form, instructed=instructed)
            try:
                async with line.room:
                    text = await self._send(here, line, asked)
            except _Failure as failure:
                if not question.schema or failure.status not in _NO_SUCH_FORM:
                    raise
                refused = refused or failure
                if form == TEXT:
                    raise refused from None
                form += 1
                continue
            if question.schema and form > line.form:
                line.form = form
                _log.warning("%s refuses %s; asking it for %s", self, FORMS[0], FORMS[form])
            return text

    def _request(self, question: Question[Any], form: int, *, instructed: bool) -> dict[str, Any]:
        messages = question.add_schema() if instructed or form else question.messages
        asked: dict[str, Any] = {"model": self.model, "messages": messages}
        if self.temperature >= 0:
            asked["temperature"] = self.temperature
        if self.max_tokens:
            asked["max_tokens"] = self.max_tokens
        return asked | question.response_format(form)

    async def _send(self, here: Process, line: _Line, asked: dict[str, Any]) -> str:
        """The text of the answer to one request."""
        self._check_budget(line.usage)
        url, headers = f"{self.url.rstrip('/')}/chat/completions", self._headers()
        body = json.dumps(asked).encode()
        line.usage = line.usage._replace(requests=line.usage.requests + 1)
        try:
            reply = await here.request("POST", url, body, headers, seconds=self.timeout)
        except NoAnswerError as error:
            line.usage = line.usage._replace(requests=line.usage.requests - 1)
            raise _Failure("down", str(error)) from None
        except BadAnswerError as error:
            raise _Failure("wrong", str(error)) from None
        if reply.status != _OK:
            raise self._explain_status(reply)
        if line.down:
            _log.warning("%s answers again after %.0f s", self, monotonic() - line.down)
            line.down = 0.0
        try:
            answer = json.loads(reply.data)
            choice = answer["choices"][0]
            content = choice["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            said = self._redact(reply.data.decode(errors="replace"))
            raise _Failure("wrong", f"the answer is no chat completion: {said[:200]!r}") from None
        self._count(line, answer.get("usage"))
        return _read_content(content, cut=choice.get("finish_reason") == "length")

    def _read_answer(self, text: str, question: Question[Answer]) -> Answer:
        try:
            return question.read(text)
        except (ValueError, RepeatedKeyError) as error:
            safe = self._redact(text)
            why = str(error) if safe == text else "it is not in the form asked for"
            raise _Failure("wrong", f"{why}, answer {safe[:200]!r}") from None

    def _headers(self) -> dict[str, str]:
        key = self._key()
        if not (key.isascii() and key.isprintable()):
            why = f"the key in ${self.key} has characters that are not printable ASCII"
            raise _Failure("refused", why, remedy="set it again")
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _key(self) -> str:
        return os.environ.get(self.key, "").strip()

    def _explain_status(self, reply: Reply) -> _Failure:
        """The failure that a status other than 200 means."""
        said = self._redact(reply.data.decode(errors="replace"))
        why = f"HTTP {reply.status}, {said[:300]!r}"
        if reply.status in _NOT_YET or reply.status >= _BROKEN:
            kind, wait = "down", read_retry_after(reply.headers.get("retry-after"))
            return _Failure(kind, why, wait=wait, status=reply.status)
        if reply.status in _REDIRECTS:
            where = self._redact(reply.headers.get("location", "nowhere"))[:200]
            why = f"HTTP {reply.status} to {where}, which is not followed"
        remedy = f"check the key in ${self.key}" if reply.status in _NO_KEY else ""
        return _Failure("refused", why, status=reply.status, remedy=remedy)

    def _check_budget(self, usage: Usage) -> None:
        for name in ("requests", "tokens", "cost"):
            used, most = getattr(usage, name), getattr(self, f"budget_{name}")
            if most and used >= most:
                why = f"the budget is used up, {used:g} of budget_{name}={most:g}"
                raise _Failure("refused", why, remedy="raise it to go on")

    def _count(self, line: _Line, told: Any) -> None:
        """Add the tokens of an answer to the usage.

        Raises:
            _Failure: The server does not report tokens, although there is a budget for them.
        """
        given: dict[str, Any] = told if isinstance(told, dict) else {}
        counts: list[Any] = [given.get(name) for name in ("prompt_tokens", "completion_tokens")]
        if not all(type(count) is int and count >= 0 for count in counts):
            if self.budget_tokens or self.budget_cost:
                why = "the server does not report the tokens used, so a budget cannot be kept"
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

    def _redact(self, text: str) -> str:
        """The text without the key, for messages; call it before shortening the text."""
        key = self._key()
        return text.replace(key, "***") if key else text

    def __str__(self) -> str:
        return f"{self.model} at {self.url}"


def open_endpoint(given: str | Mapping[str, Any] | Endpoint, **defaults: Any) -> Endpoint:
    """The endpoint for `openai:<model>@<base url>`, or for a table of an endpoint's options.

    `defaults` are used for options that are not given.

    Raises:
        ValueError: Another form, an unknown option, or an option out of range.
        TypeError: An option of a wrong type.
        ImportError: As for `Endpoint.ask`.
    """
    require("httpx2", "judge")
    if isinstance(given, Endpoint):
        made = given
    elif isinstance(given, str):
        kind, _, rest = given.partition(":")
        model, at, address = rest.partition("@http")
        if kind != "openai" or not at:
            raise ValueError(
                "an endpoint has the form openai:<model>@<base url>, such as "
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
        raise ValueError(f"an endpoint needs a model and an address, got no model for {made.url}")
    return made


def read_usage() -> Usage:
    """The usage of all endpoints by this process."""
    lines = [line.usage for line in [*web.read_state().values()] if isinstance(line, _Line)]
    return Usage(*map(sum, zip(*lines, strict=True))) if lines else Usage()


class _Line:
    """The state of an endpoint in a process; only the event loop changes it."""

    def __init__(self, parallel: int) -> None:
        self.room = asyncio.Semaphore(parallel)
        self.form = 0  # index in `FORMS` of the first form that the server supports
        self.down = 0.0  # start of the outage, once it was logged
        self.usage = Usage()


class _Failure(Exception):
    """Why a request failed.

    kind: "down": temporary, worth another try after `wait` seconds; "wrong": an answer in a wrong
        form; "refused": permanent.
    """

    def __init__(
        self, kind: str, why: str, *, wait: float = 0.0, status: int = 0, remedy: str = ""
    ) -> None:
        super().__init__(why)
        self.kind, self.why, self.wait, self.status = kind, why, wait, status
        self.remedy = remedy or _REMEDIES[kind]


def _read_content(content: Any, *, cut: bool) -> str:
    """The text of a message, without separate parts for thinking."""
    if isinstance(content, list):  # a list of content parts
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "".join(str(part.get("text", "")) for part in parts)
    if not isinstance(content, str) or not content.strip():
        raise _Failure("wrong", "the answer is empty", remedy="raise max_tokens" if cut else "")
    return content


class RepeatedKeyError(Exception):
    """A JSON object has the same key twice."""


def refuse_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; an `object_pairs_hook` of JSON decoders.

    Raises:
        RepeatedKeyError: The same key occurs twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise RepeatedKeyError(f"the key {twice!r:.60} is there twice")
    return found


def read_json(text: str, opening: str = "{") -> Any:
    """The JSON in an answer, ignoring text around it: the last object, or with "[" the last array.

    Raises:
        ValueError: There is no JSON.
        RepeatedKeyError: An object has the same key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=refuse_repetition)
    except (ValueError, RecursionError):
        pass
    answer = split_thoughts(text).said
    decoder = json.JSONDecoder(object_pairs_hook=refuse_repetition)
    found, at = None, answer.find(opening)
    for _ in range(_MOST_STARTS):
        if at < 0:
            break
        try:
            found, end = decoder.raw_decode(answer, at)
        except (ValueError, RecursionError):
            end = at + 1
        at = answer.find(opening, end)
    if found is None:
        raise ValueError(f"it has no JSON that begins with {opening}")
    return found


def read_number(given: Any) -> float:
    """A number in an answer; models also write numbers as strings.

    Raises:
        ValueError: It is not a number, or not finite.
    """
    odd = isinstance(given, bool) or (isinstance(given, str) and "_" in given)
    try:
        value = math.nan if odd else float(given)
    except (TypeError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{given!r:.60} is not a number")
    return value
