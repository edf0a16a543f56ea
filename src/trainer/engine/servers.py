"""vLLM on servers that `vllm serve` started."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from contextlib import ExitStack, suppress
from itertools import count, cycle
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

from agent_envs import web
from agent_envs.web import choose_delay
from trainer.engine import EngineError
from trainer.engine.gather import run
from trainer.engine.request import WORKER, Answer, Request, parameters
from trainer.scale import parallel

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path

    from trainer.engine.options import EngineOptions
    from trainer.model.policy import Policy

Result = TypeVar("Result")
_LARGEST = 1 << 26  # bytes of an answer
RESTART = 1.0
"""Seconds in which no server can be restarted."""
_OK, _TOO_MANY, _STARTING = 200, 429, (502, 503, 504)


class Servers:
    """Servers of one model started by `vllm serve`; each conversation stays with one of them.

    A request that got no answer is sent again, to the next server, for as long as
    `engine.patience`. A server that was restarted gets the weights again first.

    Attributes:
        sent: Folder of the weights that the servers were given; its name is their label.
    """

    def __init__(self, options: EngineOptions, folder: Path) -> None:
        self._options, self._folder = options, folder.resolve()  # servers run elsewhere
        self._urls = [url.rstrip("/").removesuffix("/v1") for url in options.urls]
        self.sent: Path | None = None
        self._doubted: set[str] = set()  # servers that may have other weights
        self._seen: dict[str, float] = {}  # when they had the newest weights
        self._locks: dict[str, asyncio.Lock] = {}
        cards = [self._do(self._card(url)) for url in self._urls]
        try:
            models = {(c["data"][0]["id"], int(c["data"][0]["max_model_len"])) for c in cards}
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise EngineError(f"{self._urls[0]} is no server of vLLM: {cards[0]}") from error
        if len(models) > 1:
            raise EngineError(f"engine.urls must serve one model, got {sorted(models)}")
        ((self._model, self.limit),) = models

    def prepare(self) -> None:
        """Give the weights again to servers that were restarted; those that are away come later."""

        async def checked() -> None:
            await asyncio.gather(*map(self._check, self._urls), return_exceptions=True)

        self._renew()
        run(checked())
        self._locks = {url: asyncio.Lock() for url in self._urls}  # of the next loop

    def _renew(self) -> None:
        """Doubt all servers."""
        self._doubted = set(self._urls)
        self._locks = {url: asyncio.Lock() for url in self._urls}

    async def answer(self, request: Request) -> Answer:
        """The reply to a request."""
        body = {
            "model": self._model,
            "prompt": request.ids,
            "return_token_ids": True,
            **parameters(request),
        }
        loop = asyncio.get_running_loop()
        end, servers = loop.time() + self._options.patience, self._of(request.conversation)
        for tried, url in enumerate(servers, start=1):
            try:
                await self._check(url)
                given = await self._json("POST", url, "/v1/completions", body)
                if await self._same(url):
                    return _answer(url, given)
            except _NoAnswer as error:
                self._doubted.add(url)
                if loop.time() > end:
                    raise EngineError(
                        f"no answer for {self._options.patience:g} s (engine.patience) from "
                        f"{', '.join(self._urls)}, at last {error}; start the servers, and "
                        "continue with --resume"
                    ) from None
            if tried % len(self._urls) == 0:
                await asyncio.sleep(choose_delay(tried // len(self._urls)))
        raise AssertionError

    def take(self, policy: Policy, version: int) -> None:
        """Write the policy's weights to the folder and have all servers load them."""
        from safetensors.torch import save_file

        mine = parallel.rank() == 0
        weights = {
            name: weight.to(policy.dtype).cpu().contiguous()
            for name, weight in policy.merged()
            if mine
        }

        def write() -> Path:
            for old in self._folder.glob("[0-9]*-[0-9]*-????????"):  # also what a run before left
                shutil.rmtree(old, ignore_errors=True)
            made = self._folder / f"{version}-{os.getpid()}-{token_hex(4)}"
            made.mkdir(parents=True)
            policy.model.config.save_pretrained(made)
            save_file(weights, made / "model.safetensors")
            return made

        self.sent = parallel.first(write)
        self._renew()
        with ExitStack() as failing:
            failing.callback(self.close)
            parallel.first(lambda: self._do(self._taken()))
            failing.pop_all()

    def close(self) -> None:
        """Delete the weights on their way."""
        if self.sent is not None and parallel.rank() == 0:
            shutil.rmtree(self.sent, ignore_errors=True)

    def _of(self, conversation: int) -> Iterator[str]:
        """The servers in turn, beginning with that of the conversation."""
        first = conversation % len(self._urls)
        return cycle([*self._urls[first:], *self._urls[:first]])

    def _label(self) -> str:
        """What a server calls the newest weights."""
        return "default" if self.sent is None else self.sent.name

    async def _taken(self) -> None:
        """Have all servers load the weights; those that are away, when they are asked again."""
        end = time.monotonic() + self._options.patience
        for tried in count(1):
            loads = await asyncio.gather(*map(self._check, self._urls), return_exceptions=True)
            failed = [error for error in loads if isinstance(error, BaseException)]
            for error in failed:
                if not isinstance(error, _NoAnswer) or time.monotonic() > end:
                    raise error
            if len(failed) < len(self._urls):
                return
            await asyncio.sleep(choose_delay(tried))

    async def _same(self, url: str) -> bool:
        """Whether a server that answered has the newest weights, and so had them all the time.

        One that did a moment ago cannot have been restarted since.
        """
        if time.monotonic() - self._seen.get(url, 0.0) > RESTART:
            known = await self._json("GET", url, "/weight_info")
            if known.get("weight_version") != self._label():
                self._doubted.add(url)
                return False
            self._seen[url] = time.monotonic()
        return True

    async def _check(self, url: str) -> None:
        """Send the newest weights to a server that may have others, if it has."""
        async with self._locks[url]:
            if url not in self._doubted:
                return
            known = await self._json("GET", url, "/weight_info")
            if known.get("weight_version") != self._label():
                await self._load(url)
            self._seen[url] = time.monotonic()
            self._doubted.discard(url)

    async def _load(self, url: str) -> None:
        folder = {"folder": str(self.sent)}
        await self._json(
            "POST", url, "/collective_rpc", {"method": "take_folder", "kwargs": folder}
        )
        await self._json("POST", url, "/reset_prefix_cache")
        await self._json("POST", url, "/update_weight_version", {"new_version": self._label()})

    def _do(self, call: Coroutine[Any, Any, Result]) -> Result:
        """The result of a call outside of a rollout."""
        try:
            return run(call)
        except _NoAnswer as error:
            raise EngineError(
                f"{error}; start it with VLLM_SERVER_DEV_MODE=1 vllm serve MODEL "
                f"--logprobs-mode processed_logprobs --worker-extension-cls {WORKER}"
            ) from None

    async def _card(self, url: str) -> dict[str, Any]:
        """What a server says of its model; asked twice, as a kept connection may be a dead one."""
        with suppress(_NoAnswer):
            return await self._json("GET", url, "/v1/models")
        return await self._json("GET", url, "/v1/models")

    async def _json(self, method: str, url: str, path: str, body: Any = None) -> dict[str, Any]:
        """The JSON of an answer.

        Raises:
            _NoAnswer: None in time, or the server is starting or overloaded.
            EngineError: The server refuses the request.
        """
        here = web.process()
        sent = None if body is None else json.dumps(body).encode()
        call = here.request(method, url + path, sent, {}, seconds=self._options.seconds,
                            largest=_LARGEST)  # fmt: skip
        try:
            reply = await asyncio.wrap_future(here.start(call))
        except web.NoAnswerError as error:
            raise _NoAnswer(f"{url}: {error}") from None
        except web.BadAnswerError as error:
            raise EngineError(f"{url}: {error}") from error
        said = " ".join(reply.data[:2000].decode(errors="replace").split())[:300]
        if reply.status == _TOO_MANY or reply.status in _STARTING:
            raise _NoAnswer(f"{url}{path}: HTTP {reply.status} {said}")
        if reply.status != _OK:
            raise EngineError(
                f"{url}{path} refuses, HTTP {reply.status}: {said}. Is it vLLM of the policy's "
                f"model, started with VLLM_SERVER_DEV_MODE=1 and --worker-extension-cls {WORKER}?"
            )
        try:
            found: dict[str, Any] = json.loads(reply.data or b"{}")
        except ValueError as error:
            raise EngineError(f"{url}{path} answers no JSON but {said!r}") from error
        return found


class _NoAnswer(Exception):
    """A server gave no answer; another try may succeed."""


def _answer(url: str, given: dict[str, Any]) -> Answer:
    """Tokens and log-probabilities in an answer of `/v1/completions`."""
    try:
        (choice,) = given["choices"]
        drawn = zip(choice["token_ids"], choice["logprobs"]["token_logprobs"], strict=True)
        return Answer(*(list(column) for column in zip(*drawn, strict=True)))
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(
            f"{url} gave no tokens with log-probabilities ({error!r}): {json.dumps(given)[:300]}; "
            "vLLM 0.32 does"
        ) from error
