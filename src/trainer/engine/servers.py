"""vLLM on servers that `vllm serve` started."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

from agent_envs.net import web
from agent_envs.net.web import BadAnswerError, NoAnswerError, choose_delay
from trainer.engine import KEY, EngineError
from trainer.engine.worker import WORKER
from trainer.scale import parallel

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.engine import EngineOptions
    from trainer.model.policy import Policy

_Read = TypeVar("_Read")
SECONDS = 600.0
"""Time limit of a request."""
RESTART = 1.0
"""Seconds in which no server can be restarted."""
SCORE = {"max_tokens": 1, "prompt_logprobs": 0}
"""What a request for the log-probabilities of a prompt has besides."""
_LARGEST = 1 << 28  # bytes of an answer
_NOT_NOW = (429, 502, 503, 504)  # starting or overloaded
_OK = 200


class Servers:
    """Servers of one model started by `vllm serve`; each conversation stays with one of them.

    A request that got no answer is sent again, to the next server, for as long as
    `engine.patience`. A server with other weights, such as one that was restarted, gets the newest
    first.

    Attributes:
        sent: Folder of the weights that the servers are to have; its name is their label.
        limit: Most tokens of prompt and reply.
    """

    sent: Path

    def __init__(self, options: EngineOptions, folder: Path) -> None:
        self._patience, self._folder = options.patience, folder.resolve()  # servers run elsewhere
        self._urls = [url.rstrip("/").removesuffix("/v1") for url in options.urls]
        self._locks = {url: asyncio.Lock() for url in self._urls}
        self._checked: dict[str, float] = {}  # when a server had the newest weights
        here = web.process()
        try:
            cards = [here.run(_request("GET", url, "/v1/models")) for url in self._urls]
            models = {(c["data"][0]["id"], int(c["data"][0]["max_model_len"])) for c in cards}
        except (NoAnswerError, KeyError, IndexError, TypeError, ValueError) as error:
            raise EngineError(
                f"no server of vLLM ({error!r}); start it with VLLM_SERVER_DEV_MODE=1 vllm serve "
                f"MODEL --logprobs-mode processed_logprobs --worker-extension-cls {WORKER}"
            ) from error
        if len(models) > 1:
            raise EngineError(f"engine.urls must serve one model, got {sorted(models)}")
        ((self._model, self.limit),) = models

    async def answer(
        self, conversation: int, ids: list[int], options: dict[str, Any]
    ) -> tuple[list[int], list[float]]:
        """Tokens and log-probabilities of the reply to a prompt.

        Raises:
            EngineError: A server refuses the request, or none answers.
        """

        def read(choice: Any) -> tuple[list[int], list[float]]:
            return list(choice["token_ids"]), list(choice["logprobs"]["token_logprobs"])

        return await self._read(
            conversation, {"prompt": ids, "return_token_ids": True, **options}, read
        )

    async def score(self, conversation: int, ids: list[int]) -> list[float]:
        """Log-probability of each token of a prompt after the first.

        Raises:
            EngineError: As `answer`.
        """

        def read(choice: Any) -> list[float]:
            told = choice["prompt_logprobs"][1:]
            return [at[str(token)]["logprob"] for token, at in zip(ids[1:], told, strict=True)]

        return await self._read(conversation, {"prompt": ids, **SCORE}, read)

    async def _read(
        self, conversation: int, body: dict[str, Any], read: Callable[[Any], _Read]
    ) -> _Read:
        call = web.process().start(self._complete(conversation, {"model": self._model, **body}))
        answer = await asyncio.wrap_future(call)
        try:
            (choice,) = answer["choices"]
            return read(choice)
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError(
                f"a server gave no tokens with log-probabilities ({error!r}): "
                f"{json.dumps(answer)[:300]}; vLLM 0.32 does"
            ) from error

    async def _complete(self, conversation: int, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request, of the conversation's server or the next ones."""
        end = time.monotonic() + self._patience
        tried = 0
        while True:
            url = self._urls[(conversation + tried) % len(self._urls)]
            try:
                await self._has_newest(url)
                answer = await _request("POST", url, "/v1/completions", body)
                if await self._has_newest(url):  # and so had them all the time
                    return answer
            except NoAnswerError as error:
                self._checked.pop(url, None)
                if time.monotonic() > end:
                    raise EngineError(
                        f"no answer for {self._patience:g} s (engine.patience), at last {error}; "
                        f"start the servers ({', '.join(self._urls)}); continue with --resume"
                    ) from None
            tried += 1
            if tried % len(self._urls) == 0:
                await asyncio.sleep(choose_delay(tried // len(self._urls)))

    def take(self, policy: Policy, version: int) -> None:
        """Write the policy's weights to the folder; a server loads them before its next answer."""
        from safetensors.torch import save_file

        weights = {
            name: weight.to(policy.dtype).cpu().contiguous()
            for name, weight in policy.export_weights()
            if parallel.rank() == 0
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
        """Delete the weights on their way."""
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
            told = await _request("GET", url, "/weight_info")
            if not (newest := told.get("weight_version") == label):
                load = {"method": "take_folder", "kwargs": {"folder": str(self.sent)}}
                await _request("POST", url, "/collective_rpc", load)
                await _request("POST", url, "/reset_prefix_cache")
                await _request("POST", url, "/update_weight_version", {"new_version": label})
            self._checked[url] = time.monotonic()
            return newest


async def _request(method: str, url: str, path: str, body: Any = None) -> dict[str, Any]:
    """The JSON of an answer.

    Raises:
        NoAnswerError: None in time, or the server is starting or overloaded.
        EngineError: The server refuses the request.
    """
    sent = None if body is None else json.dumps(body).encode()
    key = os.environ.get(KEY, "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        status, _, data = await web.process().request(
            method, url + path, sent, headers, seconds=SECONDS, largest=_LARGEST
        )
    except NoAnswerError as error:
        raise NoAnswerError(f"{url}{path}: {error}") from None
    except BadAnswerError as error:
        raise EngineError(f"{url}{path}: {error}") from error
    said = " ".join(data[:2000].decode(errors="replace").split())[:300]
    if status in _NOT_NOW:
        raise NoAnswerError(f"{url}{path}: HTTP {status} {said}")
    if status != _OK:
        raise EngineError(
            f"{url}{path} refuses, HTTP {status}: {said}. Is it vLLM of this model, "
            f"started with VLLM_SERVER_DEV_MODE=1 and --worker-extension-cls {WORKER}?"
        )
    try:
        found: dict[str, Any] = json.loads(data or b"{}")
    except ValueError as error:
        raise EngineError(f"{url}{path} answers no JSON but {said!r}") from error
    return found
