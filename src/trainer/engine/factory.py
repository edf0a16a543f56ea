"""The engine of a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.engine.own import OwnEngine
from trainer.errors import RecipeError
from trainer.scale import parallel

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.engine import Engine
    from trainer.engine.options import EngineOptions
    from trainer.model.policy import Policy


def make_engine(
    options: EngineOptions, policy: Policy, folder: Path, *, version: int = 0
) -> Engine:
    """The engine of a run in `folder`, with the policy's weights under a version.

    Raises:
        RecipeError: Options contradict each other, or the model does not fit the engine.
        EngineError: vLLM cannot be reached, or does not follow the policy.
    """
    if options.name == "own":
        if options.urls or options.options:
            raise RecipeError(
                'engine.urls and engine.options belong to engine.name="vllm", got name="own"'
            )
        return OwnEngine(policy, version)
    if parallel.size() > 1 and not options.urls:
        raise RecipeError(
            f"vLLM in this process samples for one, but torchrun started {parallel.size()}; start "
            "servers and set engine.urls, or start without torchrun"
        )
    from trainer.engine.vllm import VLLMEngine

    return VLLMEngine(policy, options, folder, version)
