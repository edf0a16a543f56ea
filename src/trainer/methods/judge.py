"""HAS with a language model as judge: each trajectory's turns are labelled once, answers are kept.

The endpoint is any that speaks OpenAI's chat completions. Requests go out side by side and are sent
again after time-outs, rate limits and server errors; what fails for good stops the run, which
`--resume` continues with the answers so far.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from credit import Judge
from trainer.methods.base import Method
from trainer.recipe import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from credit import HAS
    from trainer.policy import Policy
    from trainer.recipe import Judge as Options
    from trainer.recipe import Recipe


class JudgeUnreachableError(OSError):
    """The endpoint gave no answer; the message names it."""


class WithJudge(Method):
    """HAS whose decomposer asks an endpoint."""

    def __init__(self, estimator: HAS, recipe: Recipe) -> None:
        self.has, self.options = estimator, recipe.judge
        if not self.options.model:
            raise RecipeError(
                'credit.options.decomposer="judge" needs judge.model, and judge.url where it is '
                "not OpenAI's"
            )
        self.ask = client(self.options)

    def begin(self, policy: Policy, folder: Path) -> None:
        """Answers are kept in the run's folder."""
        super().begin(policy, folder)
        judge = Judge(
            self.ask,
            cache=folder / "judge",
            retries=self.options.retries,
            parallel=self.options.parallel,
        )
        self.estimator = replace(self.has, decomposer=judge)


def client(options: Options) -> Callable[[str], str]:
    """A function that sends a prompt to the endpoint and returns the answer's text.

    Raises:
        RecipeError: The package openai is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise RecipeError('the judge needs a client: pip install "agent-envs[judge]"') from error
    where = options.url or "https://api.openai.com/v1"
    endpoint = openai.OpenAI(
        base_url=where,
        api_key=os.environ.get(options.key) or "none",
        timeout=options.timeout,
        max_retries=options.retries,
    )

    def ask(prompt: str) -> str:
        try:
            answer = endpoint.chat.completions.create(
                model=options.model,
                messages=[{"role": "user", "content": prompt}],
                temperature=0,
            )
            return answer.choices[0].message.content or ""
        except (openai.OpenAIError, IndexError, ValueError, AttributeError, TypeError) as error:
            key = os.environ.get(options.key)
            why = str(error).replace(key, "***") if key else str(error)
            raise JudgeUnreachableError(
                f"the judge {options.model!r} at {where} gave no answer after "
                f"{options.retries + 1} tries: {why}. Answers so far are kept; check judge.url "
                f"and ${options.key}, then continue with --resume"
            ) from None  # what it was raised from may hold the key

    return ask
