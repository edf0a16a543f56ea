"""Tasks of reasoning-gym, named as `reasoning_gym:leg_counting`: a question, a reply, a score.

Left out: "composite", which mixes tasks that have their own names here, and curricula.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Literal

from agent_envs.assets import require
from agent_envs.panels import nearest
from agent_envs.signals import TASKS, Signals
from agent_envs.signals.state import keep_chance

EVALUATED = (
    "binary_matrix", "countdown", "intermediate_integration", "n_queens",
    "polynomial_multiplication", "puzzle24",
    "simple_integration", "spiral_matrix", "string_insertion",
)  # fmt: skip
"""Tasks of reasoning-gym 0.1.25 whose verifier runs the reply as Python code in this process."""


class Question(Signals):
    """A question of reasoning-gym, whose verifier scores the reply.

    Description:
        Generated questions of about a hundred kinds: arithmetic, algebra, logic, algorithms,
        graphs, games. The goal is the question.

    Observation:
        The question, then the score of the answer.

    Action:
        The answer, in the form that the question asks for.

    Validity:
        Every answer is valid but one that makes the verifier raise, with the reason "error".

    Progress:
        The score.

    Anchor:
        Digest of the question, and whether it was answered.

    Reward:
        The score, in [0, 1]. With `reward="success"` 1 for success, else 0.

    Ends:
        After one answer, a success if its score is at least `success_score`.

    Tasks and splits:
        `seed-N` is item N of the data set with seed 0, and the splits are those of `Signals`.
        Kinds with few questions repeat them.

    Data:
        None; the package generates the questions.

    Source:
        Stojanovski et al., Reasoning Gym, arXiv 2505.24760.

    Args:
        name: name of the task in reasoning-gym.
        split: "train", "val" or "test".
        max_turns: at least 1; an episode has one turn in any case.
        reward: "own" or "success".
        success_score: least score of a success, in (0, 1].
        run_code: allow the tasks in `EVALUATED`; only for replies that you trust.
        config: fields of the task's configuration, such as {"max_animals": 5}.
        render_mode: None or "ansi".

    Raises:
        ImportError: reasoning-gym is not installed.
        ValueError: there is no such task, it runs code, or an option or its config is refused.
    """

    def __init__(
        self,
        name: str,
        *,
        split: str = "train",
        max_turns: int = 1,
        reward: Literal["own", "success"] = "own",
        success_score: float = 1.0,
        run_code: bool = False,
        config: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        if not 0 < success_score <= 1:
            raise ValueError(f"success_score must lie in (0, 1], got {success_score}")
        if name in EVALUATED and not run_code:
            raise ValueError(
                f"the verifier of reasoning_gym:{name} runs the reply as Python code in this "
                "process; give run_code=True if you trust the replies or isolate the process"
            )
        super().__init__(
            _World(name, json.dumps(dict(config or {}), sort_keys=True)),
            progress="score",
            success_reward=success_score,
            split=split,
            reward=reward,
            max_turns=min(max_turns, 1),
            render_mode=render_mode,
        )


make = Question


class _World:
    """A question and whether it was answered; all worlds of a process share the data sets."""

    def __init__(self, name: str, config: str) -> None:
        _load(name, config)
        self.name, self.config = name, config
        self.spec = SimpleNamespace(id=f"reasoning_gym:{name} {config}".removesuffix(" {}"))
        self.entry: dict[str, Any] = {}
        self.answered = False

    def reset(self, *, seed: int) -> tuple[str, dict[str, Any]]:
        self.entry = _load(self.name, self.config)[seed]
        self.answered = False
        return self.entry["question"], {"score": 0.0}

    def step(self, answer: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what parsers think of the answer
            score = float(_load(self.name, self.config).score_answer(answer, self.entry))
        self.answered = True
        score = min(1.0, max(0.0, score))
        return f"The score is {score:g}.", score, True, False, {"score": score}


@lru_cache(maxsize=32)
def _load(name: str, config: str) -> Any:
    """The data set of a task, with a question for each seed."""
    with keep_chance(0, None):
        package = require("reasoning_gym", "reasoning-gym")
        known = package.factory.DATASETS
        if name not in known:
            raise ValueError(f"reasoning-gym has no task {name!r}{nearest(name, known)}")
        size = sum(TASKS.values())
        try:
            return package.create_dataset(name, **{"seed": 0, "size": size, **json.loads(config)})
        except (AssertionError, TypeError) as error:
            raise ValueError(f"reasoning-gym refuses the config of {name}: {error}") from error
