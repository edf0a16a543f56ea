"""The warm start: demonstrations of an expert, and cross-entropy on their replies.

As in reinforcement learning, only reply tokens are trained on. Left out: mixing in other data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from agent_envs.experts import expert as make_expert
from agent_envs.experts import expert_class
from agent_envs.vector import call_concurrently, waits
from agent_envs.workers import apply_to
from trainer.engine import FORM
from trainer.options import STRICT, Count, NonNegative, Positive
from trainer.play.environments import reply_form
from trainer.play.episode import TextEpisode
from trainer.play.failures import EpisodeError, Failure, lose_episode
from trainer.play.records import Episode, Task
from trainer.play.tokens import expand_images

if TYPE_CHECKING:
    import gymnasium as gym
    from torch import Tensor

    from trainer.learn.batch import Batch
    from trainer.learn.learner import Learner
    from trainer.learn.rows import Row
    from trainer.model.policy import Policy
    from trainer.play.rollout import Rollouts


@dataclass(frozen=True, config=STRICT)
class Sft:
    """Warm start from an expert's demonstrations.

    Attributes:
        steps: Supervised steps before reinforcement learning, 0 for none.
        expert: Who demonstrates: "explorer", which knows only what it was shown, "oracle", which
            reads the solution, or a class "package.module:Name" of your own.
        episodes: Demonstrations of a step.
        learning_rate: Peak learning rate of the warm start.
        warmup: Steps of linear warm-up.
    """

    steps: Count = 0
    expert: str = "explorer"
    episodes: Positive = 16
    learning_rate: NonNegative = 1e-4
    warmup: Count = 0


def require_expert(rollouts: Rollouts, name: str) -> None:
    """Check that the environment of the rollouts has an expert of this name.

    Raises:
        ValueError: It has none; the message lists those it has.
    """
    apply_to(rollouts.envs(1)[0], expert_class, name)


def attempt_demonstrations(
    rollouts: Rollouts,
    tasks: Sequence[Task],
    policy: Policy,
    expert: str = "explorer",
    *,
    thoughts: bool = True,
) -> list[Episode | Failure]:
    """Episodes of an expert; the processes divide the tasks.

    Those that the expert did not solve are left out. Some environments may fail. Observations are
    the messages that a policy would read.

    Args:
        rollouts: Rollouts whose environments are played.
        tasks: Tasks to play.
        policy: Policy whose tokenizer encodes the episodes.
        expert: Name of the expert, see `agent_envs.expert`.
        thoughts: Whether replies have the expert's thoughts. False where sampling leaves them
            empty, as with `decode="admissible"`: the policy would learn what it cannot say.

    Raises:
        ValueError: The expert solved none of the tasks.
    """
    from trainer.scale import parallel

    mine = [tasks[number] for number in parallel.share(len(tasks))]
    parts = parallel.gather(partial(_play_tasks, rollouts, mine, expert, thoughts))
    played = [one for part in parts for one in part]
    failed = sum(isinstance(one, Failure) for one in played)
    solved = [one for one in played if isinstance(one, Failure) or one.success]
    if len(solved) == failed < len(tasks):
        raise ValueError(
            f"the expert {expert!r} solved none of {len(tasks)} tasks in "
            f"{rollouts.env.max_turns} turns; raise env.max_turns or sft.episodes, or use another "
            "sft.expert"
        )
    return [one if isinstance(one, Failure) else _try_to_encode(one, policy) for one in solved]


def _try_to_encode(shown: Episode, policy: Policy) -> Episode | Failure:
    """The demonstration with its tokens, or why the chat template cannot write it."""
    try:
        with lose_episode(Task(shown.task_id, shown.group, shown.seed), shown.steps):
            encode_demonstration(shown, policy)
    except EpisodeError as error:
        return error.failure
    return shown


def _play_tasks(
    rollouts: Rollouts, tasks: Sequence[Task], expert: str, thoughts: bool
) -> list[Episode | Failure]:
    """The expert's episodes, at the same time if the environments wait for servers."""
    (first,) = rollouts.envs(1)
    envs = rollouts.envs(len(tasks)) if waits(first) else []

    def play(number: int) -> Episode | Failure:
        env = envs[number] if envs else rollouts.envs(1)[0]  # a new one after a failure
        task, context = tasks[number], rollouts.prompt.context
        try:
            with lose_episode(task):  # also if its worker process ends
                return apply_to(env, _play, task, expert, context, thoughts)
        except EpisodeError as error:
            rollouts.discard(env)
            return error.failure

    calls = [partial(play, number) for number in range(len(tasks))]
    return call_concurrently(calls) if envs else [call() for call in calls]


def _play(env: gym.Env[str, str], task: Task, name: str, context: str, thoughts: bool) -> Episode:
    """Play one task with an expert; the steps have no tokens yet.

    Raises:
        EpisodeError: The environment or the expert failed.
    """
    form = reply_form(env) or FORM
    with lose_episode(task):
        start = env.reset(seed=task.seed, options={"task_id": task.task_id})
        episode = TextEpisode(env, start, context=context)
        expert: Any = make_expert(env, name)
    shown = []
    while not episode.done:
        with lose_episode(task, episode.steps):
            action, thought = expert.act(), expert.think()
        message, reply = episode.message, form.format(thought="", action=action)
        with lose_episode(task, episode.steps, (episode.observation, reply)):
            episode.step(reply)
        said = form.format(thought=thought if thoughts else "", action=action)
        shown.append(replace(episode.steps[-1], observation=message, reply=said, action=action))
    return Episode(
        task.task_id,
        episode.goal,
        task.group,
        task.seed,
        context,
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
