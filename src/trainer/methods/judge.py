"""HAS with a language model as judge, which labels the turns of each trajectory once.

The endpoint is any server of OpenAI's chat completions (`agent_envs.net.endpoint`). If it fails for
good, the run stops; `--resume` continues it with the labels so far.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from agent_envs.net.endpoint import Endpoint, open_endpoint
from credit import HAS, Judge
from trainer.errors import RecipeError
from trainer.methods.method import Method
from trainer.options import STRICT

if TYPE_CHECKING:
    from trainer.model.policy import Policy
    from trainer.recipe import Recipe


@dataclass(frozen=True, config=STRICT)
class JudgeOptions(Endpoint):
    """The endpoint of the judge; valid labels are cached in the run folder, or in `cache`."""


class WithJudge(Method):
    """HAS whose decomposer is a judge behind an endpoint."""

    fits = (HAS,)

    def __init__(self, options: dict[str, Any], recipe: Recipe) -> None:
        super().__init__(options, recipe)
        self.given = self.read_options(JudgeOptions, "judge")
        without_key = not os.environ.get(self.given.key, "").strip()
        if not self.given.model or (self.given.url == Endpoint.url and without_key):
            raise RecipeError(
                "credit.model=judge needs credit.models.judge.model, and either "
                "credit.models.judge.url of a server or a key for OpenAI's in the environment "
                f"variable {self.given.key or 'of credit.models.judge.key'}"
            )
        # The judge caches valid labels, so the endpoint need not cache answers.
        self.endpoint = open_endpoint(replace(self.given, cache=""))

    def begin(self, policy: Policy, folder: Path) -> None:
        """Make the judge; its labels are cached in the run folder, or in `cache`."""
        super().begin(policy, folder)
        endpoint = self.endpoint
        judge = Judge(
            self.ask,
            cache=self.given.cache or folder / "judge",
            retries=endpoint.retries,
            model=f"{endpoint}, temperature {endpoint.temperature:g}, "
            f"max_tokens {endpoint.max_tokens}",
            parallel=endpoint.parallel,
        )
        self.estimator = replace(self.estimator, decomposer=judge)

    def ask(self, prompt: str) -> str:
        """Text of the model's answer to a prompt.

        Raises:
            EndpointError: The endpoint gave no answer.
        """
        about = f"the trajectory of {prompt.partition(chr(10))[0][:100]!r}"
        return self.endpoint.ask([{"role": "user", "content": prompt}], about=about)
