"""vLLM in this process."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Future
from itertools import count
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any

from agent_envs.assets import require
from trainer.engine import EngineError
from trainer.engine.request import WORKER, Answer, Request, parameters
from trainer.run.completed import Completed

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.engine.options import EngineOptions
    from trainer.model.policy import Policy


class InProcess:
    """vLLM in this process, driven by one thread of its own."""

    def __init__(self, policy: Policy, options: EngineOptions) -> None:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        vllm = require("vllm", "vllm")
        config, on_cpu = policy.model.config, policy.device.type == "cpu"
        positions = int(getattr(config.get_text_config(), "max_position_embeddings", 0))
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._waiting: dict[str, Callable[[Any], None]] = {}
        self._names = map(str, count())
        self._failed: EngineError | None = None
        self._params: Any = vllm.SamplingParams
        try:
            with TemporaryDirectory() as folder:  # weights come from the policy
                config.save_pretrained(folder)
                self._llm: Any = vllm.LLM(
                    folder,
                    load_format="dummy",
                    skip_tokenizer_init=True,
                    dtype=str(policy.dtype).removeprefix("torch."),
                    logprobs_mode="processed_logprobs",
                    worker_extension_cls=WORKER,
                    max_model_len=options.max_model_len or positions or None,
                    gpu_memory_utilization=options.memory,
                    enforce_eager=on_cpu,
                    enable_chunked_prefill=not on_cpu,  # with seeds, it fails there
                    enable_prefix_caching=True,
                    disable_log_stats=True,
                    **options.options,
                )
        except Exception as error:
            raise EngineError(
                f"vLLM does not start in this process ({type(error).__name__}: {error}); look at "
                "engine.memory, engine.max_model_len and engine.options, or start it as a server "
                "and set engine.urls"
            ) from error
        self._engine = self._llm.llm_engine
        self.limit = int(self._engine.model_config.max_model_len)
        self._thread = Thread(target=self._drive, name="vllm", daemon=True)
        self._thread.start()

    def prepare(self) -> None:
        """Nothing is due."""

    async def answer(self, request: Request) -> Answer:
        """The reply to a request, drawn with all others that wait."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def tell(output: Any) -> None:
            loop.call_soon_threadsafe(settle, output)

        def settle(output: Any) -> None:
            if not done.done():
                done.set_exception(output) if isinstance(output, Exception) else done.set_result(
                    output
                )

        def add() -> None:
            name = next(self._names)
            if self._failed is not None:
                tell(self._failed)
                return
            added = Completed.of(lambda: self._add(name, request))
            if added.error is None:
                self._waiting[name] = tell
            else:
                tell(added.error)

        self._calls.put(add)
        output = (await done).outputs[0]
        ids = list(output.token_ids)
        logprobs = [at[token].logprob for token, at in zip(ids, output.logprobs, strict=True)]
        return Answer(ids, logprobs)

    def _add(self, name: str, request: Request) -> None:
        params = self._params(**parameters(request), detokenize=False)
        self._engine.add_request(name, {"prompt_token_ids": request.ids}, params)

    def take(self, policy: Policy, version: int) -> None:
        """Load the policy's weights and forget what the old ones encoded."""
        weights = list(policy.merged())

        def load() -> None:
            self._engine.collective_rpc("take_weights", args=(weights,))
            self._engine.reset_prefix_cache()
            self._engine.set_weight_version(str(version))

        self._call(load)

    def close(self) -> None:
        """End the thread and free the engine."""
        self._calls.put(None)
        self._thread.join()
        del self._engine, self._llm

    def _call(self, call: Callable[[], None]) -> None:
        """Run a call in the engine's thread."""
        done: Future[Completed[None]] = Future()

        def work() -> None:
            failed = self._failed
            done.set_result(Completed.of(call) if failed is None else Completed(error=failed))

        self._calls.put(work)
        done.result().result()

    def _drive(self) -> None:
        """Add requests and step while there are any; ends at None."""
        while True:
            while self._calls.qsize() or not self._engine.has_unfinished_requests():
                if (call := self._calls.get()) is None:
                    return
                call()
            stepped = Completed.of(self._engine.step)
            if stepped.error is not None:
                self._fail(stepped.error)
                return
            for output in stepped.result():
                if output.finished:
                    self._waiting.pop(output.request_id)(output)

    def _fail(self, error: Exception) -> None:
        """Answer everything with an error from now on."""
        failed = EngineError(
            f"vLLM failed in this process: {type(error).__name__}: {error}; continue with --resume"
        )
        waiting, self._waiting = self._waiting, {}
        for tell in waiting.values():
            tell(failed)
        self._failed = failed
        while (call := self._calls.get()) is not None:
            call()
