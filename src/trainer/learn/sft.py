"""The warm start: demonstrations of an expert, and cross-entropy on their replies.

As in reinforcement learning, only reply tokens are trained on. Left out: mixing in other data.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from agent_envs.experts import expert as make_expert
from agent_envs.experts import expert_class
from agent_envs.imports import describe_error
from agent_envs.vector import call_concurrently, waits
from trainer.engine import FORM
from trainer.errors import RecipeError
from trainer.options import STRICT, Count, NonNegative, Positive
from trainer.play.environments import reply_form
from trainer.play.episode import TextEpisode
from trainer.play.failures import Failure, require_episodes
from trainer.play.records import CONTEXTS, Episode, Step
from trainer.play.rollout import expand_images
from trainer.scale.workers import apply_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    import gymnasium as gym
    from torch import Tensor

    from trainer.learn.batch import Batch, Row
    from trainer.learn.learner import Learner
    from trainer.model.chat import Chat
    from trainer.model.policy import Policy
    from trainer.model.vision import Picture
    from trainer.play.rollout import Rollouts, Task


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
        RecipeError: It has none; the message lists those it has.
    """
    apply_to(rollouts.envs(1)[0], _check_expert, name)


def _check_expert(env: gym.Env[str, str], name: str) -> None:
    try:
        expert_class(env, name)
    except (TypeError, ValueError) as error:
        raise RecipeError(f"sft.expert: {error}; sft.steps=0 needs no expert") from error


def demonstrate(
    rollouts: Rollouts, tasks: Sequence[Task], policy: Policy, expert: str = "explorer"
) -> list[Episode]:
    """Episodes of an expert, without those that it did not solve; see `attempt_demonstrations`.

    Raises:
        Exception: An environment failed: its error, after all others have played.
    """
    return require_episodes(attempt_demonstrations(rollouts, tasks, policy, expert))


def attempt_demonstrations(
    rollouts: Rollouts,
    tasks: Sequence[Task],
    policy: Policy,
    expert: str = "explorer",
    *,
    thoughts: bool = True,
) -> list[Episode | Failure]:
    """Episodes of an expert; the processes divide the tasks.

    Those that the expert did not solve are left out. Some environments may fail.

    Args:
        rollouts: Rollouts whose environments are played.
        tasks: Tasks to play.
        policy: Policy whose tokenizer encodes the episodes.
        expert: Name of the expert, see `agent_envs.expert`.
        thoughts: Whether replies have the expert's thoughts. False where sampling leaves them
            empty, as with `decode="admissible"`: the policy would learn what it cannot say.

    Raises:
        ValueError: There is no such expert, or it solved none of the tasks.
    """
    from trainer.scale import parallel

    mine = [tasks[number] for number in parallel.share(len(tasks))]
    parts = parallel.gather(partial(_play_tasks, rollouts, mine, expert))
    played = [one for part in parts for one in part]
    failed = sum(isinstance(one, Failure) for one in played)
    solved = [one for one in played if isinstance(one, Failure) or one.info["success"]]
    if len(solved) == failed < len(tasks):
        raise ValueError(
            f"the expert {expert!r} solved none of {len(tasks)} tasks in "
            f"{rollouts.env.max_turns} turns; raise env.max_turns or sft.episodes, or use another "
            "sft.expert"
        )
    form = reply_form(rollouts.envs(1)[0]) or FORM
    return [
        one if isinstance(one, Failure) else _encode(one, policy, form, thoughts) for one in solved
    ]


def _play_tasks(rollouts: Rollouts, tasks: Sequence[Task], expert: str) -> list[_Played | Failure]:
    """The expert's episodes, at the same time if the environments wait for servers."""
    (first,) = rollouts.envs(1)
    envs = rollouts.envs(len(tasks)) if waits(first) else []

    def play(number: int) -> _Played | Failure:
        env = envs[number] if envs else rollouts.envs(1)[0]  # a new one after a failure
        task, context = tasks[number], rollouts.prompt.context
        try:
            played = apply_to(env, _play, task, expert, context, task=task.task_id)
        except Exception as error:  # noqa: BLE001 - of its worker process, or Failure.of raises
            played = Failure.of(error, task=(task.task_id, task.group, task.seed))
        if isinstance(played, Failure):
            rollouts.discard(env)
        return played

    calls = [partial(play, number) for number in range(len(tasks))]
    return call_concurrently(calls) if envs else [call() for call in calls]


@dataclasses.dataclass
class _Played:
    """Messages and actions, thoughts and images of an expert's episode, and the last info."""

    context: str
    info: dict[str, Any]
    turns: list[tuple[str, str]]
    thoughts: list[str]
    images: list[list[Picture]]


def _play(env: gym.Env[str, str], task: Task, name: str, context: str) -> _Played | Failure:
    """Play one task with an expert.

    Raises:
        RecipeError: The expert failed.
    """
    where = task.task_id, task.group, task.seed
    form = reply_form(env) or FORM
    try:
        start = env.reset(seed=task.seed, options={"task_id": task.task_id})
        episode = TextEpisode(env, start, context=context)
    except Exception as error:  # noqa: BLE001 - the episode is lost, or Failure.of raises
        return Failure.of(error, task=where)
    turns: list[tuple[str, str]] = []
    thoughts: list[str] = []
    expert: Any = None
    while not episode.done:
        try:
            expert = expert or make_expert(env, name)
            action = expert.act()
            thoughts.append(expert.think())
            reply = form.format(thought="", action=action)
        except Exception as error:
            raise RecipeError(
                f"sft.expert={name!r}, task {task.task_id!r}: {describe_error(error)}"
            ) from error
        turns.append((episode.message, action))
        try:
            episode.step(reply)
        except Exception as error:  # noqa: BLE001 - as above
            return Failure.of(
                error, task=where, steps=episode.steps, now=(episode.observation, reply)
            )
    images = [step.images for step in episode.steps]
    return _Played(context, episode.info, turns, thoughts, images)


def _encode(played: _Played, policy: Policy, form: str, thoughts: bool) -> Episode:
    """The episode with its tokens, with the expert's thoughts or with empty ones."""
    made = encode_demonstration(
        policy.chat,
        played.turns,
        thoughts=played.thoughts if thoughts else (),
        form=form,
        context=played.context,
        task_id=played.info["task_id"],
        goal=played.info["goal"],
    )
    for step, seen in zip(made.steps, played.images, strict=True):
        step.images, step.prompt_ids = seen, expand_images(policy, step.prompt_ids, seen)
    return made


def encode_demonstration(
    chat: Chat,
    turns: Sequence[tuple[str, str]],
    *,
    context: str = "history",
    thoughts: Sequence[str] = (),
    form: str = FORM,
    task_id: str = "",
    goal: str = "",
) -> Episode:
    """Episode with tokens from (observation, action) pairs.

    With context "history" the first text is the whole opening message and the others are the
    environment's messages. With "turn" each is the whole prompt of its turn. `form` is filled with
    the action and the expert's thoughts, if there are any.

    Raises:
        ValueError: There is no turn, or the context is unknown.
    """
    if context not in CONTEXTS:
        raise ValueError(f"context is one of {', '.join(CONTEXTS)}, got {context!r}")
    if not turns:
        raise ValueError(f"the demonstration of {task_id!r} has no turn; leave it out")
    thoughts = thoughts or [""] * len(turns)
    replies = [
        (observation, form.format(thought=thought, action=action))
        for (observation, action), thought in zip(turns, thoughts, strict=True)
    ]
    pieces = (
        chat.conversation(replies)
        if context == "history"
        else [piece for turn in replies for piece in chat.conversation([turn])]
    )
    steps = [
        Step(seen, reply, action, prompt_ids, reply_ids)
        for (seen, reply), (_, action), (prompt_ids, reply_ids) in zip(
            replies, turns, pieces, strict=True
        )
    ]
    return Episode(task_id, goal, group=0, seed=0, context=context, steps=steps, success=True)


def imitate(
    learner: Learner[Policy], rows: Sequence[Row], *, aggregate: str = "token-mean"
) -> dict[str, float]:
    """One optimiser step of cross-entropy on the replies of `rows`; `loss` is in nats per token.

    Raises:
        ValueError: There are no rows.
        NotFiniteError: The loss or the gradient is NaN or infinite.
    """
    if not rows:
        raise ValueError(
            "imitation needs at least one row, got 0; are all turns masked or too long?"
        )
    return learner.step(rows, partial(_likelihood, learner.model), aggregate=aggregate)


def _likelihood(policy: Policy, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    from trainer.learn.update import token_logprobs_and_entropies  # torch: workers do without

    logprobs, entropies = token_logprobs_and_entropies(policy, batch)
    return logprobs, {"entropy": entropies}
