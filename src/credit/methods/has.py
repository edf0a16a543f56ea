"""HAS, hybrid advantage shaping: a blend of the trajectory's advantage and that of each turn.

A decomposer is any callable from `Turns` to one credit per turn, [N]. `Judge` is one that asks a
language model, `credit.methods.turnrd.TurnRDDecomposer` one that uses a trained model.
"""

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
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from credit import stats
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Epsilon, Options, as_finite, counting, positive, within

Decomposer: TypeAlias = Callable[[Turns], ArrayLike]


@dataclass(frozen=True)
class Progressive:
    """Progress made by the turn.

    credit_t = progress_t - progress_{t-1}; before the first turn it is 0 unless it was recorded

    Source: HAS §3.2 (Progressive).
    """

    def __call__(self, turns: Turns) -> Array:
        """Credit of each turn: [N]."""
        return turns.read_gain()


def project(values: ArrayLike, turns: Turns, *, clip: float = 2.0) -> Array:
    """Clip values and shift them by one amount per trajectory to sum to its outcome: [N] -> [N].

    credit_t = clip(V_t, -c, c) - (Σ_s clip(V_s, -c, c) - R) / T, for a trajectory of T turns

    Source: HAS Eq. 5.

    Args:
        values: [N] value V of each turn.
        turns: The batch, with outcomes R.
        clip: Bound c > 0.

    Returns:
        [N] credit.

    Raises:
        ValueError: A value is not finite.
    """
    bounded = np.clip(as_finite("values", values), -clip, clip)
    count = len(turns.group)
    excess = np.bincount(turns.trajectory, bounded, count) - turns.outcome
    length = np.bincount(turns.trajectory, minlength=count)
    return bounded - (excess / np.maximum(length, 1))[turns.trajectory]


def measure_drift(credit: ArrayLike, turns: Turns) -> float:
    """Largest distance of a trajectory's sum of credits from its outcome: [N] -> scalar.

    max |Σ_t credit_t - R|; 0 for an empty batch

    Source: HAS §3.3 (Anchoring and conservation).
    """
    total = np.bincount(turns.trajectory, as_finite("credit", credit), len(turns.group))
    return float(np.abs(total - turns.outcome).max(initial=0.0))


PROMPT = """An agent worked on this task: {goal}
Outcome: {outcome:g}.

{turns}

For each of the {count} turns, say how much it helped to reach the goal: 1 decisive, 0 irrelevant, \
-1 harmful. Answer with a JSON list of {count} numbers in [-1, 1] and nothing else."""


_THREADS = "it counts threads"
_MAX_STARTS = 1000  # positions in an answer from which a list is parsed
_Job = tuple[str, tuple[str, ...], float]  # goal, texts of the turns, outcome


class JudgeError(ValueError):
    """The judge's answer has no valid labels, or a file in the cache is damaged."""


@dataclass(frozen=True)
class Judge(Options):
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

    reads_reward: ClassVar[bool] = False

    ask: Callable[[str], str]
    cache: Path | str | None = None
    retries: Annotated[int, counting("it counts more tries")] = 2
    model: str = ""
    prompt: str = PROMPT
    parallel: Annotated[int, counting(_THREADS), positive(_THREADS)] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            self.prompt.format(goal="", outcome=0.0, turns="", count=0)
        except (LookupError, ValueError) as error:
            known = "{goal}, {outcome}, {turns} and {count}, with other braces doubled"
            raise ValueError(f"prompt must have the fields {known}, got {error!r}") from error

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
    given = _last_list(answer) if isinstance(answer, str) else None
    if given is None:
        raise JudgeError(f"{where} has no JSON list of labels: {answer!r:.80}")
    if len(given) != count:
        raise JudgeError(f"{where} must have a list of {count} labels, got {answer!r:.80}")
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


@dataclass(frozen=True)
class HAS(Options):
    """HAS: a convex blend of trajectory-level and turn-level advantage.

    A_t = α A_traj + (1 - α) A_turn,t. A_traj is the outcome, standardized over the group. A_turn is
    the decomposer's credit, standardized over a set of turns that `normalize` chooses. The blend is
    not standardized again. With α = 1 this equals `GRPO` bit for bit, and the decomposer is not
    called.

    Bias: A_traj has that of `GRPO`. A_turn has no credit for what later turns bring, and is
    relative to the turns that exist at the position (or in the state, or the group), so that
    constant credit gives 0. Progress that is lost counts against a turn even if it is made good
    later.

    Source: HAS Eq. 1-2.

    Args:
        alpha: α in [0, 1].
        decomposer: Callable from `Turns` to [N] credit, or the name "progressive".
        normalize: Compare the credit of turns at the same "position" in the trajectories of the
            group that are long enough, in the same "anchor" state, or of the whole "group".
        eps: Added to standard deviations.

    Raises:
        ValueError: An option out of range. At the call: credit of another length, or not finite.
    """

    unread: ClassVar[dict[str, str]] = {"alpha=1": "normalize"}
    alpha: Annotated[float, within(0, 1, "it blends two advantages")] = 0.5
    decomposer: Decomposer | str = "progressive"
    normalize: Literal["position", "anchor", "group"] = "position"
    eps: Epsilon = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decomposer != "progressive" and not callable(self.decomposer):
            how = '"progressive", or callable as credit.Judge(ask) or turnrd.TurnRDDecomposer(...)'
            raise ValueError(f"decomposer must be {how}, got {self.decomposer!r:.60}")

    @property
    def reads_reward(self) -> bool:
        """Whether it reads the rewards of turns, as a decomposer of one's own may."""
        return callable(self.decomposer) and getattr(self.decomposer, "reads_reward", True)

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        whole = stats.standardize(turns.outcome, turns.group, eps=self.eps)[turns.trajectory]
        if self.alpha == 1:
            return whole
        return self.alpha * whole + (1 - self.alpha) * self.turn_advantage(turns)

    def turn_advantage(self, turns: Turns) -> Array:
        """A_turn of each turn: [N]."""
        decomposer = self.decomposer if callable(self.decomposer) else Progressive()
        credit = as_finite("credit of the decomposer", decomposer(turns))
        return stats.standardize(credit, turns.segment_ids(self.normalize), eps=self.eps)
