"""Judge: a decomposer that asks a language model for a label of each turn and caches answers."""

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Thread

import numpy as np

from credit.segments import Array
from credit.turns import Turns

PROMPT = """An agent worked on this task: {goal}
Outcome: {outcome:g}.

{turns}

For each of the {count} turns, say how much it helped to reach the goal: 1 decisive, 0 irrelevant, \
-1 harmful. Answer with a JSON list of {count} numbers in [-1, 1] and nothing else."""


_MAX_STARTS = 1000  # positions in an answer from which a list is parsed
_Job = tuple[str, tuple[str, ...], float]  # goal, texts of the turns, outcome


class JudgeError(ValueError):
    """The judge's answer has no valid labels, or a file in the cache is damaged."""


@dataclass(frozen=True)
class Judge:
    """LLM judge: a label in [-1, 1] for each turn, from a language model.

    The model is asked about each different trajectory once. The last JSON list of its answer is
    read; thinking, a code fence and text around the list are ignored, and a number may be quoted.
    With a cache, labels are stored in a file named by a hash of prompt and `model`.

    Source: HAS §3.2 (LLM-Judge).

    Args:
        ask: Sends a prompt to the model and returns the text of its answer. Its exceptions are not
            caught.
        cache: Folder of stored labels, one file for each trajectory; None stores nothing.
        retries: How often to ask again after an answer without valid labels.
        model: Name and settings of the model, part of the cache key.
        prompt: Template with the fields {goal}, {outcome}, {turns} and {count}.
        parallel: Number of trajectories to ask about at the same time; `ask` is then called from
            threads.

    Raises:
        ValueError: `retries` below 0, `parallel` below 1, or a `prompt` with other fields.
        JudgeError: At the call, if the last answer has no valid labels, or a file in the cache is
            damaged.
    """

    ask: Callable[[str], str]
    cache: Path | str | None = None
    retries: int = 2
    model: str = ""
    prompt: str = PROMPT
    parallel: int = 1

    def __post_init__(self) -> None:
        if self.retries < 0 or self.parallel < 1:
            raise ValueError(
                "retries must be at least 0 and parallel at least 1, "
                f"got {self.retries} and {self.parallel}"
            )
        try:
            self.prompt.format(goal="", outcome=0.0, turns="", count=0)
        except (LookupError, ValueError) as error:
            raise ValueError(
                "prompt must be a template with {goal}, {outcome}, {turns} and {count}, and other "
                f"braces doubled; got {self.prompt[:80]!r}, which fails with {error!r}"
            ) from error

    def __call__(self, turns: Turns) -> Array:
        """Label of each turn: [N]."""
        starts = np.flatnonzero(turns.position == 0).tolist()
        jobs = [
            (
                turns.goal[owner],
                tuple(
                    f"state: {turns.anchor[row]}\naction: {turns.action[row]}"
                    + ("" if turns.valid[row] else "\n(refused)")
                    for row in range(start, end)
                ),
                float(turns.outcome[owner]),
            )
            for owner, (start, end) in enumerate(pairwise([*starts, len(turns)]))
        ]
        different = list(dict.fromkeys(jobs))  # equal trajectories are asked about once
        known = dict(zip(different, self._labels_of(different), strict=True))
        return np.array([label for job in jobs for label in known[job]], dtype=np.float64)

    def labels(self, goal: str, texts: Sequence[str], outcome: float) -> list[float]:
        """Labels of the turns of one trajectory, from the cache or from the model.

        Args:
            goal: Goal text.
            texts: Text of each turn.
            outcome: Outcome of the trajectory.

        Returns:
            One label in [-1, 1] for each turn.

        Raises:
            JudgeError: The last answer has no valid labels, or the file in the cache is damaged.
        """
        listed = "\n\n".join(f"Turn {index + 1}\n{text}" for index, text in enumerate(texts))
        prompt = self.prompt.format(goal=goal, outcome=outcome, turns=listed, count=len(texts))
        if self.cache is None:
            return self._ask(prompt, len(texts))
        key = json.dumps([self.model, prompt, len(texts)])
        file = Path(self.cache) / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
        if file.exists():
            where = f"{file} (delete it to ask again)"
            return _parse(file.read_bytes().decode(errors="replace"), len(texts), where)
        labels = self._ask(prompt, len(texts))
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(labels))
        part.replace(file)
        return labels

    def _labels_of(self, jobs: Sequence[_Job]) -> list[list[float]]:
        """Labels of each trajectory, `parallel` at a time.

        The threads are daemons, so that an interrupt does not wait for open requests.
        """
        if self.parallel == 1:
            return [self.labels(*job) for job in jobs]
        results: list[Future[list[float]]] = [Future() for _ in jobs]
        queue = deque(zip(jobs, results, strict=True))

        def work() -> None:
            while queue:
                try:
                    job, result = queue.popleft()
                except IndexError:  # another thread took the last job
                    return
                try:
                    result.set_result(self.labels(*job))
                except BaseException as error:  # noqa: BLE001  raised in the caller's thread
                    queue.clear()
                    result.set_exception(error)

        threads = [Thread(target=work, daemon=True) for _ in range(min(self.parallel, len(jobs)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if result.done():
                result.result()  # raises the exception of a failed job
        return [result.result() for result in results]

    def _ask(self, prompt: str, count: int) -> list[float]:
        tries = self.retries + 1
        for attempt in range(1, tries):
            try:
                return _parse(self.ask(prompt), count, f"answer {attempt}")
            except JudgeError:
                continue
        return _parse(self.ask(prompt), count, f"the judge's answer {tries} of {tries}")


def _parse(answer: object, count: int, where: str) -> list[float]:
    """Labels in the last JSON list of an answer: `count` numbers in [-1, 1]."""
    if not isinstance(answer, str):
        raise JudgeError(f"{where} is {answer!r:.80}; ask must return a text")
    given = _last_list(answer)
    if given is None:
        raise JudgeError(f"{where} has no JSON list of labels: {answer[:80]!r}")
    if len(given) != count:
        raise JudgeError(f"{where} must have a list of {count} labels, got {answer[:80]!r}")
    return [_label(one, where) for one in given]


def _label(given: object, where: str) -> float:
    try:
        label = float(given) if isinstance(given, int | float | str) else float("nan")
    except (ValueError, OverflowError):
        label = float("nan")
    if isinstance(given, bool) or not -1 <= label <= 1:  # NaN fails too
        raise JudgeError(f"{where} has label {given!r:.80}; labels must be numbers in [-1, 1]")
    return label


def _last_list(answer: str) -> list[object] | None:
    """The last JSON list of an answer, after the model's thinking."""
    _, closed, text = answer.partition("</think>")
    if not closed:
        text = "" if answer.lstrip().startswith("<think>") else answer
    decoder, found, at = json.JSONDecoder(), None, text.find("[")
    for _ in range(_MAX_STARTS):
        if at < 0:
            break
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        at = text.find("[", end)
    return found
