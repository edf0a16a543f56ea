"""Judge: a language model labels each turn of a trajectory, once; answers are kept on disk."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from credit.segments import Array
from credit.turns import Turns

VERSION = "1"
PROMPT = """An agent worked on this task: {goal}
Outcome: {outcome:g}.

{turns}

For each of the {count} turns, say how much it helped to reach the goal: 1 decisive, 0 irrelevant, \
-1 harmful. Answer with a JSON list of {count} numbers in [-1, 1] and nothing else."""


class JudgeError(ValueError):
    """The judge gave no usable labels, or a cached answer is broken."""


@dataclass(frozen=True)
class Judge:
    """A label in [-1, 1] for each turn, asked of a language model: [N]. HAS §3.2 (LLM-Judge).

    A trajectory is asked about once: its labels are kept in `cache` under a hash of the prompt's
    version, the goal and the texts of the turns.

    Args:
        ask: sends a prompt, returns the answer's text; what it raises is not caught.
        cache: folder of answers, one file each; None asks every time.
        retries: how often a malformed answer is asked for again.
        version: change it when `prompt` changes.
        prompt: template with {goal}, {outcome}, {turns} and {count}.
        parallel: trajectories asked about at the same time; `ask` is called from threads.

    Raises:
        JudgeError: no well-formed answer after all retries, or a broken file in the cache.
    """

    ask: Callable[[str], str]
    cache: Path | str | None = None
    retries: int = 2
    version: str = VERSION
    prompt: str = PROMPT
    parallel: int = 1

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
        if self.parallel == 1:
            told = [self.labels(*job) for job in different]
        else:
            with ThreadPoolExecutor(self.parallel) as pool:
                told = list(pool.map(lambda job: self.labels(*job), different))
        known = dict(zip(different, told, strict=True))
        return np.array([label for job in jobs for label in known[job]], dtype=np.float64)

    def labels(self, goal: str, texts: Sequence[str], outcome: float) -> list[float]:
        """Labels of one trajectory's turns, from the cache or asked for."""
        key = json.dumps([self.version, goal, outcome, *texts])
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        file = Path(self.cache) / f"{name}.json" if self.cache is not None else None
        if file is not None and file.exists():
            return _parsed(file.read_text(), len(texts), f"{file} (delete it to ask again)")
        labels = self._asked(goal, texts, outcome)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps(labels))
            part.replace(file)
        return labels

    def _asked(self, goal: str, texts: Sequence[str], outcome: float) -> list[float]:
        listed = "\n\n".join(f"Turn {place + 1}\n{text}" for place, text in enumerate(texts))
        prompt = self.prompt.format(goal=goal, outcome=outcome, turns=listed, count=len(texts))
        tries = self.retries + 1
        for attempt in range(1, tries + 1):
            answer = self.ask(prompt)
            try:
                return _parsed(answer, len(texts), f"the judge's answer {attempt} of {tries}")
            except JudgeError:
                if attempt == tries:
                    raise
        raise JudgeError(f"retries must be at least 0, got {self.retries}")


def _parsed(text: str, count: int, where: str) -> list[float]:
    """The numbers of a JSON list, all in [-1, 1]."""
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise JudgeError(f"{where} is no JSON list of labels: {text[:80]!r}") from error
    if not isinstance(given, list) or len(given) != count:
        raise JudgeError(f"{where} needs a list of {count} labels, got {text[:80]!r}")
    for label in given:
        if isinstance(label, bool) or not isinstance(label, int | float) or not -1 <= label <= 1:
            raise JudgeError(f"{where} has label {label!r}; labels are numbers in [-1, 1]")
    return [float(label) for label in given]
