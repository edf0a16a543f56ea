"""HAS with a language model as judge, which labels the turns of each trajectory once.

The endpoint is any server of OpenAI's chat completions (`agent_envs.endpoint`). If it fails for
good, the run stops; `--resume` continues it with the labels so far.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_envs.endpoint import Endpoint, open_endpoint
from credit import Judge
from trainer.errors import RecipeError
from trainer.methods.method import Method

if TYPE_CHECKING:
    from pathlib import Path

    from credit import HAS
    from trainer.model.policy import Policy


class WithJudge(Method):
    """HAS whose decomposer is a judge behind an endpoint."""

    def __init__(self, estimator: HAS, endpoint: Endpoint) -> None:
        if not endpoint.model:
            raise RecipeError(
                'credit.options.decomposer="judge" needs judge.model, and judge.url for a server '
                "other than OpenAI's"
            )
        if endpoint.url == Endpoint.url and not os.environ.get(endpoint.key, "").strip():
            raise RecipeError(
                f"the judge at {endpoint.url} needs a key, but the environment variable "
                f"{endpoint.key or 'judge.key'} is not set; set it, or set judge.url for another "
                "server"
            )
        self.has, self.cache = estimator, endpoint.cache
        # The judge caches valid labels, so the endpoint need not cache answers.
        self.endpoint = open_endpoint(replace(endpoint, cache=""))

    def begin(self, policy: Policy, folder: Path) -> None:
        """Make the judge; its labels are cached in the run folder, or in judge.cache."""
        super().begin(policy, folder)
        endpoint = self.endpoint
        judge = Judge(
            self.ask,
            cache=self.cache or folder / "judge",
            retries=endpoint.retries,
            model=f"{endpoint}, temperature {endpoint.temperature:g}, "
            f"max_tokens {endpoint.max_tokens}",
            parallel=endpoint.parallel,
        )
        self.estimator = replace(self.has, decomposer=judge)

    def ask(self, prompt: str) -> str:
        """Text of the model's answer to a prompt.

        Raises:
            EndpointError: The endpoint gave no answer.
        """
        about = f"the trajectory of {prompt.partition(chr(10))[0][:100]!r}"
        return self.endpoint.ask([{"role": "user", "content": prompt}], about=about)
