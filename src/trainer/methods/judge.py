"""HAS with a language model as judge: each trajectory's turns are labelled once, answers are kept.

The endpoint is any that speaks OpenAI's chat completions (`agent_envs.endpoint`). What fails for
good stops the run, which `--resume` continues with the answers so far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent_envs.endpoint import open_endpoint
from credit import Judge
from trainer.methods.method import Method
from trainer.recipes import RecipeError

if TYPE_CHECKING:
    from pathlib import Path

    from agent_envs.endpoint import Endpoint
    from credit import HAS
    from trainer.policy import Policy


class WithJudge(Method):
    """HAS whose decomposer asks an endpoint."""

    def __init__(self, estimator: HAS, endpoint: Endpoint) -> None:
        if not endpoint.model:
            raise RecipeError(
                'credit.options.decomposer="judge" needs judge.model, and judge.url where it is '
                "not OpenAI's"
            )
        self.has, self.cache = estimator, endpoint.cache
        # Labels are kept, and only good ones; so answers need not be.
        self.endpoint = open_endpoint(replace(endpoint, cache=""))

    def begin(self, policy: Policy, folder: Path) -> None:
        """Answers are kept in the run's folder, or in judge.cache."""
        super().begin(policy, folder)
        asked = self.endpoint
        judge = Judge(
            self.ask,
            cache=self.cache or folder / "judge",
            retries=asked.retries,
            model=f"{asked}, temperature {asked.temperature:g}, max_tokens {asked.max_tokens}",
            parallel=asked.parallel,
        )
        self.estimator = replace(self.has, decomposer=judge)

    def ask(self, prompt: str) -> str:
        """The answer's text.

        Raises:
            EndpointError: There is none.
        """
        about = f"the trajectory of {prompt.partition(chr(10))[0][:100]!r}"
        return self.endpoint.ask([{"role": "user", "content": prompt}], about=about)
