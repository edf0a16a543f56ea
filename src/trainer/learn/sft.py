"""The warm start: demonstrations of an expert, and cross-entropy on their replies.

As in reinforcement learning, only reply tokens are trained on. Left out: mixing in other data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from agent_envs.experts import expert as make_expert
from agent_envs.vector import call_concurrently, waits
from agent_envs.workers import apply_to
from trainer.engine import Decoding, list_allowed, make_trie
from trainer.learn.rows import join_values
from trainer.options import STRICT, Count, NonNegative, Positive, Section, Share
from trainer.play.environments import PromptOptions, find_form
from trainer.play.episode import TextEpisode
from trainer.play.failures import EpisodeError, Failure, lose_episode
from trainer.play.records import Episode, Task
from trainer.play.tokens import expand_images

if TYPE_CHECKING:
    import gymnasium as gym
    from torch import Tensor

    from agent_envs.panels import Panel
    from trainer.learn.batch import Batch
    from trainer.learn.learner import Learner
    from trainer.learn.rows import Row
    from trainer.model.policy import Policy
    from trainer.play.rollout import Rollouts


FREELY = Decoding()
"""Replies that are no choice among listed actions."""
_HELD_OUT = 16  # tasks whose demonstrations tell how well a policy imitates, a fifth at most
CHECK = 10
"""Steps between measurements of it."""
_SURE = 3  # measurements whose mean has to reach what is wanted
_PATIENCE = 10  # measurements whose mean has to be above that of those before
REMEDY = (
    "If that is too little, raise sft.steps, or tell in the goal or the observations all that the "
    "expert goes by"
)


@dataclass(frozen=True, config=STRICT)
class Sft(Section):
    """Warm start from an expert's demonstrations.

    Attributes:
        steps: Supervised steps before reinforcement learning, 0 for none.
        until: The steps end sooner, once the policy gives this share of the expert's replies on
            training tasks that are left out of them, in the mean of three measurements, one every
            10 steps; 0 takes all steps.
        expert: Who demonstrates: "explorer", which knows only what it was shown, "oracle", which
            reads the solution, or a class "package.module:Name" of your own. "auto": the explorer
            of the environment; if it has none, there is no warm start.
        episodes: Demonstrations of a step.
        learning_rate: Peak learning rate of the warm start.
        warmup: Steps of linear warm-up.
    """

    unread: ClassVar[dict[str, str]] = {"steps=0": "until expert episodes learning_rate warmup"}

    steps: Count = 0
    until: Share = 0.0
    expert: str = "explorer"
    episodes: Positive = 16
    learning_rate: NonNegative = 1e-4
    warmup: Count = 0


def attempt_demonstrations(
    rollouts: Rollouts,
    tasks: Sequence[Task],
    policy: Policy,
    expert: str = "explorer",
    decoding: Decoding = FREELY,
    *,
    solved: bool = True,
) -> list[Episode | Failure]:
    """Episodes of an expert; the processes divide the tasks.

    Some environments may fail. Observations are the messages that a policy would read.

    Args:
        rollouts: Rollouts whose environments are played.
        tasks: Tasks to play.
        policy: Policy whose tokenizer encodes the episodes.
        expert: Name of the expert, see `agent_envs.expert`.
        decoding: How the policy replies. Where it chooses among the admissible actions, a
            demonstration is such a choice, too, without the expert's thoughts.
        solved: Leave out the episodes that the expert did not solve.

    Raises:
        ValueError: There is no episode then.
    """
    from trainer.scale import parallel

    mine = [tasks[number] for number in parallel.share(len(tasks))]
    parts = parallel.gather(partial(_play_tasks, rollouts, mine, expert, decoding))
    played = [one for part in parts for one in part]
    failed = sum(isinstance(one, Failure) for one in played)
    shown = [one for one in played if isinstance(one, Failure) or one.success or not solved]
    if len(shown) == failed < len(tasks):
        raise ValueError(
            f"the expert {expert!r} solved none of {len(tasks)} tasks in "
            f"{rollouts.max_turns} turns; raise env.max_turns or sft.episodes, or use another "
            "sft.expert"
        )
    return [one if isinstance(one, Failure) else _try_to_encode(one, policy) for one in shown]


def _try_to_encode(shown: Episode, policy: Policy) -> Episode | Failure:
    """The demonstration with its tokens, or why the chat template cannot write it."""
    try:
        with lose_episode(Task(shown.task_id, shown.group, shown.seed), shown.steps):
            encode_demonstration(shown, policy)
    except EpisodeError as error:
        return error.failure
    return shown


def _play_tasks(
    rollouts: Rollouts, tasks: Sequence[Task], expert: str, decoding: Decoding
) -> list[Episode | Failure]:
    """The expert's episodes, at the same time if the environments wait for servers."""
    (first,) = rollouts.envs(1)
    envs = rollouts.envs(len(tasks)) if waits(first) else []

    def play(number: int) -> Episode | Failure:
        env = envs[number] if envs else rollouts.envs(1)[0]  # a new one after a failure
        task = tasks[number]
        try:
            with lose_episode(task):  # also if its worker process ends
                return apply_to(env, _play, task, expert, rollouts.prompt, decoding)
        except EpisodeError as error:
            rollouts.discard(env)
            return error.failure

    calls = [partial(play, number) for number in range(len(tasks))]
    return call_concurrently(calls) if envs else [call() for call in calls]


def _play(
    env: gym.Env[str, str], task: Task, name: str, prompt: PromptOptions, decoding: Decoding
) -> Episode:
    """Play one task with an expert; the steps have no tokens yet.

    Raises:
        EpisodeError: The environment or the expert failed.
    """
    form = find_form(env)
    with lose_episode(task):
        start = env.reset(seed=task.seed, options={"task_id": task.task_id})
        episode = TextEpisode(env, start, prompt)
        expert: Any = make_expert(env, name)
    shown = []
    while not episode.done:
        with lose_episode(task, episode.steps):
            action, thought = expert.act(), expert.think()
        listed = list(episode.info["admissible_actions"])
        chooses = action in listed and decoding.constrains(listed, form)
        message, reply = episode.message, form.write(action)
        with lose_episode(task, episode.steps, (episode.observation, reply)):
            episode.step(reply)
        said = form.write(action, "" if chooses else thought)
        step = replace(episode.steps[-1], observation=message, reply=said, action=action)
        step.admissible = listed if chooses else None
        shown.append(step)
    return Episode(
        task.task_id,
        episode.goal,
        task.group,
        task.seed,
        prompt.context,
        steps=shown,
        success=episode.success,
    )


def encode_demonstration(episode: Episode, policy: Policy) -> None:
    """Give each step of an episode of texts the tokens that sampling would have given it."""
    chat, past = policy.chat, None
    for step in episode.steps:
        if past is None or episode.context == "turn":
            ids: Sequence[int] = chat.opening(step.observation)
        else:
            ids = chat.after(past.reply_ids, step.observation)
        step.prompt_ids = expand_images(policy, ids, step.images)
        step.reply_ids, past = list(chat.reply(step.reply)), step
        if step.admissible is not None:
            step.allowed = list(list_allowed(make_trie(chat, step.admissible), step.reply_ids))


def measure_replies(played: Sequence[Episode]) -> int:
    """Tokens of the longest reply that is no choice among listed actions; 0 if there is none."""
    steps = [step for episode in played for step in episode.steps]
    return max((len(step.reply_ids) for step in steps if step.admissible is None), default=0)


def imitate(learner: Learner[Policy], rows: Sequence[Row]) -> dict[str, float]:
    """One optimiser step of cross-entropy on the replies of `rows`; `loss` is in nats per token.

    Raises:
        ValueError: There are no rows.
        NotFiniteError: The loss or the gradient is NaN or infinite.
    """
    if not rows:
        raise ValueError(
            "imitation needs at least one row; the demonstrations are longer than "
            "sampling.max_tokens"
        )
    from trainer.learn.update import token_logprobs_and_entropies  # torch: workers do without

    def measure_likelihood(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        logprobs, entropies = token_logprobs_and_entropies(learner.model, batch)
        return logprobs, {"entropy": entropies}

    return learner.step(rows, measure_likelihood)


def split_tasks(tasks: Panel) -> tuple[Panel, Panel]:
    """The tasks of a warm start, and those that are left out to measure it; all for few tasks."""
    held_out = tasks.choose_part(max(1, min(_HELD_OUT, len(tasks) // 5)))
    rest = [one for one in tasks.task_ids if one not in set(held_out.task_ids)]
    return (replace(tasks, task_ids=tuple(rest)), held_out) if rest else (tasks, held_out)


def measure_imitation(policy: Policy, rows: Sequence[Row], *, tokens: int) -> float:
    """Share of the expert's replies in `rows` that the policy would give, if it was greedy."""
    from trainer.learn.batch import annotate_rows  # torch: workers do without
    from trainer.learn.update import evaluate_replies
    from trainer.model.logprobs import are_likeliest

    find_hits = partial(evaluate_replies, policy, value=are_likeliest, temperature=1.0)
    with policy.computing():
        hits = annotate_rows(rows, find_hits, tokens=tokens, device=policy.device)
    _, firsts = np.unique(join_values(rows, "turn"), return_index=True)
    return float(np.minimum.reduceat(hits, firsts).mean())


def has_reached(measured: Sequence[float], wanted: float) -> bool:
    """Whether the last measurements reach what is wanted.

    A single one has an error of some hundredths, so their mean does.
    """
    return len(measured) >= _SURE and float(np.mean(measured[-_SURE:])) >= wanted


def find_end(measured: Sequence[float], wanted: float) -> str:
    """Why a warm start ends after these measurements, "" if it goes on."""
    if has_reached(measured, wanted):
        return f"the mean of {_SURE} measurements has reached sft.until={wanted:g}"
    before, last = measured[-2 * _PATIENCE : -_PATIENCE], measured[-_PATIENCE:]
    if len(before) == _PATIENCE and sum(last) <= sum(before):
        return f"it has not risen for {2 * _PATIENCE} measurements"
    return ""
