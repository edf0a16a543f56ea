"""vLLM on servers that `vllm serve` started."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from contextlib import ExitStack
from itertools import count
from secrets import token_hex
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from agent_envs.assets import require
from trainer.engine import EngineError
from trainer.engine.worker import WORKER
from trainer.scale import parallel

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from trainer.engine import EngineOptions
    from trainer.model.policy import Policy

_Result = TypeVar("_Result")
SECONDS = 600.0
"""Time limit of a request."""
RESTART = 1.0
"""Seconds in which no server can be restarted."""
_NOT_NOW = (429, 502, 503, 504)  # starting or overloaded
_OK = 200


class Servers:
    """Servers of one model started by `vllm serve`; each conversation stays with one of them.

    Requests are made in an event loop of their own. One that got no answer is sent again, to the
    next server, for as long as `engine.patience`. A server with other weights, such as one that was
    restarted, gets the newest first.

    Attributes:
        sent: Folder of the weights that the servers are to have; its name is their label.
        limit: Most tokens of prompt and reply.
    """

    sent: Path

    def __init__(self, options: EngineOptions, folder: Path) -> None:
        self._httpx = require("httpx2", "judge")
        self._patience, self._folder = options.patience, folder.resolve()  # servers run elsewhere
        self._urls = [url.rstrip("/").removesuffix("/v1") for url in options.urls]
        self._checked: dict[str, float] = {}  # when a server had the newest weights
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._drive, name="vllm servers", daemon=True)
        self._thread.start()
        unlimited = self._httpx.Limits(max_connections=None, max_keepalive_connections=None)
        here = {f"all://{name}": None for name in ("localhost", "127.0.0.1")}  # without a proxy
        self._client = self._httpx.AsyncClient(limits=unlimited, mounts=here)
        with ExitStack() as failing:
            failing.callback(self.close)
            self._run(self._find_model())
            failing.pop_all()

    def _drive(self) -> None:
        """Run the event loop until `close`."""
        self._loop.run_forever()
        self._loop.close()

    async def _find_model(self) -> None:
        """Ask the servers for their model."""
        self._locks = {url: asyncio.Lock() for url in self._urls}
        try:
            cards = [await self._request("GET", url, "/v1/models") for url in self._urls]
            models = {(c["data"][0]["id"], int(c["data"][0]["max_model_len"])) for c in cards}
        except (_NoAnswer, KeyError, IndexError, TypeError, ValueError) as error:
            raise EngineError(
                f"no server of vLLM ({error!r}); start it with VLLM_SERVER_DEV_MODE=1 vllm serve "
                f"MODEL --logprobs-mode processed_logprobs --worker-extension-cls {WORKER}"
            ) from error
        if len(models) > 1:
            raise EngineError(f"engine.urls must serve one model, got {sorted(models)}")
        ((self._model, self.limit),) = models

    def _run(self, call: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    async def answer(
        self, conversation: int, ids: list[int], options: dict[str, Any]
    ) -> tuple[list[int], list[float]]:
        """Tokens and log-probabilities of the reply to a prompt.

        Raises:
            EngineError: A server refuses the request, or none answers.
        """
        body = {"model": self._model, "prompt": ids, "return_token_ids": True, **options}
        call = asyncio.run_coroutine_threadsafe(self._complete(conversation, body), self._loop)
        answer = await asyncio.wrap_future(call)
        try:
            (choice,) = answer["choices"]
            drawn, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
            pairs = list(zip(drawn, logprobs, strict=True))
            return [token for token, _ in pairs], [logprob for _, logprob in pairs]
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError(
                f"a server gave no tokens with log-probabilities ({error!r}): "
                f"{json.dumps(answer)[:300]}; vLLM 0.32 does"
            ) from error

    async def _complete(self, conversation: int, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request, of the conversation's server or the next ones."""
        end = time.monotonic() + self._patience
        for tried in count():
            url = self._urls[(conversation + tried) % len(self._urls)]
            try:
                await self._has_newest(url)
                answer = await self._request("POST", url, "/v1/completions", body)
                if await self._has_newest(url):  # and so had them all the time
                    return answer
            except _NoAnswer as error:
                self._checked.pop(url, None)
                if time.monotonic() > end:
                    raise EngineError(
                        f"no answer for {self._patience:g} s (engine.patience), at last {error}; "
                        f"start the servers ({', '.join(self._urls)}); continue with --resume"
                    ) from None
            if (tried + 1) % len(self._urls) == 0:
                await asyncio.sleep(min(0.5 * 2.0 ** (tried // len(self._urls)), 30.0))
        raise AssertionError

    def take(self, policy: Policy, version: int) -> None:
        """Write the policy's weights to the folder; a server loads them before its next answer."""
        from safetensors.torch import save_file

        mine = parallel.rank() == 0
        weights = {
            name: weight.to(policy.dtype).cpu().contiguous()
            for name, weight in policy.export_weights()
            if mine
        }

        def write() -> Path:
            for old in self._folder.glob("[0-9]*-[0-9]*-????????"):  # also what a run before left
                shutil.rmtree(old, ignore_errors=True)
            folder = self._folder / f"{version}-{os.getpid()}-{token_hex(4)}"
            folder.mkdir(parents=True)
            policy.model.config.save_pretrained(folder)
            save_file(weights, folder / "model.safetensors")
            return folder

        self.require_weights(parallel.run_on_first(write))

    def require_weights(self, folder: Path) -> None:
        """From now on the servers are to have the weights of this folder."""
        self.sent = folder
        self._checked = {}

    def close(self) -> None:
        """Close the connections, and delete the weights on their way."""
        self._run(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        if parallel.rank() == 0:
            shutil.rmtree(getattr(self, "sent", ""), ignore_errors=True)

    async def _has_newest(self, url: str) -> bool:
        """Whether a server has the newest weights; if not, it gets them.

        One that had them a moment ago cannot have been restarted since.
        """
        async with self._locks[url]:
            if time.monotonic() - self._checked.get(url, -RESTART) <= RESTART:
                return True
            label = self.sent.name
            told = await self._request("GET", url, "/weight_info")
            if not (newest := told.get("weight_version") == label):
                load = {"method": "take_folder", "kwargs": {"folder": str(self.sent)}}
                await self._request("POST", url, "/collective_rpc", load)
                await self._request("POST", url, "/reset_prefix_cache")
                await self._request("POST", url, "/update_weight_version", {"new_version": label})
            self._checked[url] = time.monotonic()
            return newest

    async def _request(self, method: str, url: str, path: str, body: Any = None) -> dict[str, Any]:
        """The JSON of an answer.

        Raises:
            _NoAnswer: None in time, or the server is starting or overloaded.
            EngineError: The server refuses the request.
        """
        try:
            reply = await self._client.request(method, url + path, json=body, timeout=SECONDS)
        except self._httpx.TransportError as error:
            raise _NoAnswer(f"{url}: {type(error).__name__} {error}") from None
        said = " ".join(reply.text[:2000].split())[:300]
        if reply.status_code in _NOT_NOW:
            raise _NoAnswer(f"{url}{path}: HTTP {reply.status_code} {said}")
        if reply.status_code != _OK:
            raise EngineError(
                f"{url}{path} refuses, HTTP {reply.status_code}: {said}. Is it vLLM of this model, "
                f"started with VLLM_SERVER_DEV_MODE=1 and --worker-extension-cls {WORKER}?"
            )
        try:
            found: dict[str, Any] = json.loads(reply.content or b"{}")
        except ValueError as error:
            raise EngineError(f"{url}{path} answers no JSON but {said!r}") from error
        return found


class _NoAnswer(Exception):
    """A server gave no answer; another try may succeed."""
