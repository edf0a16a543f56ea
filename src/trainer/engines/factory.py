"""The engine of a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer import parallel
from trainer.engines.own import OwnEngine
from trainer.recipes import RecipeError

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.engines import Engine
    from trainer.engines.options import EngineOptions
    from trainer.policy import Policy


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
    if parallel.size() > 1:
        raise RecipeError(
            f'engine.name="vllm" samples for one process, but torchrun started {parallel.size()}; '
            'use engine.name="own", or start without torchrun'
        )
    from trainer.engines.vllm import VLLMEngine

    return VLLMEngine(policy, options, folder, version)
