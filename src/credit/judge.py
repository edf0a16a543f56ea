"""Judge: a language model labels each turn of a trajectory, once; answers are kept on disk."""

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


_MOST_STARTS = 1000  # places at which a list is looked for in an answer
_Job = tuple[str, tuple[str, ...], float]  # goal, texts of the turns, outcome


class JudgeError(ValueError):
    """The judge gave no usable labels, or a cached answer is broken."""


@dataclass(frozen=True)
class Judge:
    """A label in [-1, 1] for each turn, asked of a language model: [N]. HAS §3.2 (LLM-Judge).

    A trajectory is asked about once: its labels are kept in `cache` under a hash of the whole
    prompt and the model. Of an answer the last JSON list counts: thinking, a fence and text around
    it are passed over, and a number may be written as a string.

    Args:
        ask: sends a prompt, returns the answer's text; what it raises is not caught.
        cache: folder of answers, one file each; None asks every time.
        retries: how often a malformed answer is asked for again.
        model: what `ask` asks and how, where `cache` is to keep the answers of several apart.
        prompt: template with {goal}, {outcome}, {turns} and {count}.
        parallel: trajectories asked about at the same time; `ask` is called from threads.

    Raises:
        JudgeError: no well-formed answer after all retries, or a broken file in the cache.
        ValueError: `retries` below 0, `parallel` below 1, or a `prompt` with other fields.
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
                "prompt is a template with {goal}, {outcome}, {turns} and {count}, and other "
                f"braces doubled; got {self.prompt[:80]!r}, which has {error}"
            ) from error

    def __call__(self, turns: Turns) -> Array:
        """Label of each turn."""
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
        different = list(dict.fromkeys(jobs))  # equal trajectories are one question
        told = self._told(different)
        known = dict(zip(different, told, strict=True))
        return np.array([label for job in jobs for label in known[job]], dtype=np.float64)

    def labels(self, goal: str, texts: Sequence[str], outcome: float) -> list[float]:
        """Labels of one trajectory's turns, from the cache or asked for."""
        listed = "\n\n".join(f"Turn {place + 1}\n{text}" for place, text in enumerate(texts))
        prompt = self.prompt.format(goal=goal, outcome=outcome, turns=listed, count=len(texts))
        if self.cache is None:
            return self._asked(prompt, len(texts))
        key = json.dumps([self.model, prompt, len(texts)])
        file = Path(self.cache) / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
        if file.exists():
            where = f"{file} (delete it to ask again)"
            return _labels(file.read_bytes().decode(errors="replace"), len(texts), where)
        labels = self._asked(prompt, len(texts))
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(labels))
        part.replace(file)
        return labels

    def _told(self, jobs: Sequence[_Job]) -> list[list[float]]:
        """Labels of each trajectory, `parallel` at a time; an interrupt does not wait for them."""
        if self.parallel == 1:
            return [self.labels(*job) for job in jobs]
        results: list[Future[list[float]]] = [Future() for _ in jobs]
        left = deque(zip(jobs, results, strict=True))

        def work() -> None:
            while left:
                try:
                    job, result = left.popleft()
                except IndexError:  # another thread was faster
                    return
                try:
                    result.set_result(self.labels(*job))
                except BaseException as error:  # noqa: BLE001  raised below
                    left.clear()
                    result.set_exception(error)

        threads = [Thread(target=work, daemon=True) for _ in range(min(self.parallel, len(jobs)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if result.done():
                result.result()  # raises what failed
        return [result.result() for result in results]

    def _asked(self, prompt: str, count: int) -> list[float]:
        tries = self.retries + 1
        for attempt in range(1, tries):
            try:
                return _labels(self.ask(prompt), count, f"answer {attempt}")
            except JudgeError:
                continue
        return _labels(self.ask(prompt), count, f"the judge's answer {tries} of {tries}")


def _labels(answer: object, count: int, where: str) -> list[float]:
    """The numbers of the last JSON list in a text, all in [-1, 1]."""
    if not isinstance(answer, str):
        raise JudgeError(f"{where} is {answer!r:.80}, and no text; ask must return a text")
    given = _list_in(answer)
    if given is None:
        raise JudgeError(f"{where} is no JSON list of labels: {answer[:80]!r}")
    if len(given) != count:
        raise JudgeError(f"{where} needs a list of {count} labels, got {answer[:80]!r}")
    return [_label(one, where) for one in given]


def _label(given: object, where: str) -> float:
    try:
        label = float(given) if isinstance(given, int | float | str) else float("nan")
    except (ValueError, OverflowError):
        label = float("nan")
    if isinstance(given, bool) or not -1 <= label <= 1:  # nor is NaN
        raise JudgeError(f"{where} has label {given!r:.80}; labels are numbers in [-1, 1]")
    return label


def _list_in(answer: str) -> list[object] | None:
    """The last JSON list of an answer, after a model's thinking."""
    _, closed, said = answer.partition("</think>")
    if not closed:
        said = "" if answer.lstrip().startswith("<think>") else answer
    decoder, found, at = json.JSONDecoder(), None, said.find("[")
    for _ in range(_MOST_STARTS):
        if at < 0:
            break
        try:
            found, end = decoder.raw_decode(said, at)
        except (ValueError, RecursionError):
            end = at + 1
        at = said.find("[", end)
    return found
