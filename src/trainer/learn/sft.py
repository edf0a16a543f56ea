"""The warm start: demonstrations of an expert, and cross-entropy on their replies.

As in reinforcement learning, only reply tokens are trained on. Left out: mixing in other data.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from agent_envs.experts import expert as expert_of
from agent_envs.experts import expert_class
from agent_envs.imports import describe_error
from agent_envs.vector import waits
from trainer.engine import FORM
from trainer.options import STRICT, Count, NonNegative, Positive
from trainer.play import failures
from trainer.play.actor import expanded
from trainer.play.environments import form_of
from trainer.play.episode import opening, shown
from trainer.play.failures import CAUGHT, Failure, check_reported
from trainer.play.raised import guarded
from trainer.play.records import CONTEXTS, Episode, Step
from trainer.play.rollout import reset, together
from trainer.recipes import RecipeError
from trainer.scale.workers import applied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gymnasium as gym
    from torch import Tensor

    from trainer.learn.batch import Batch, Row
    from trainer.learn.learner import Learner
    from trainer.model.chat import Chat
    from trainer.model.policy import Policy
    from trainer.model.vision import Picture
    from trainer.play.actor import Task
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
        RecipeError: It has none; the message lists those it has.
    """
    (env,) = rollouts.envs(1)
    applied(env, _check_expert, name, rollouts.partner is None)


def _check_expert(env: gym.Env[str, str], name: str, alone: bool) -> None:
    """Check an expert's name, and make one of a user's own if that asks nobody."""
    try:
        expert_class(env, name)
    except (TypeError, ValueError) as error:
        raise RecipeError(f"sft.expert: {error}; sft.steps=0 needs no expert") from error
    if ":" in name and alone and not waits(env):
        env.reset(seed=0, options={"task": 0})
        _told(name, partial(expert_of, env, name))


def _told(name: str, call: Callable[[], Any]) -> Any:
    """The result of a call of an expert; the error of one of a user's own names the option."""
    try:
        return guarded(call)
    except Exception as error:
        if ":" not in name:
            raise
        raise RecipeError(f"sft.expert={name!r}: {describe_error(error)}") from error


def demonstrate(
    rollouts: Rollouts, tasks: Sequence[Task], policy: Policy, expert: str = "explorer"
) -> list[Episode]:
    """Episodes of an expert, without those that it did not solve; see `attempt`.

    Raises:
        Exception: An environment failed: its error, after all others have played.
    """
    return failures.episodes(attempt(rollouts, tasks, policy, expert))


def attempt(
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
    parts = parallel.gathered(partial(_shown, rollouts, mine, expert))
    played = [one for part in parts for one in part]
    failed = sum(isinstance(one, Failure) for one in played)
    shown = [one for one in played if isinstance(one, Failure) or one.info["success"]]
    if len(shown) == failed < len(tasks):
        raise ValueError(
            f"the expert {expert!r} solved none of {len(tasks)} tasks in "
            f"{rollouts.env.max_turns} turns; raise env.max_turns or sft.episodes, or use another "
            "sft.expert"
        )
    form = form_of(rollouts.envs(1)[0]) or FORM
    return [
        one if isinstance(one, Failure) else _encoded(one, policy, form, thoughts) for one in shown
    ]


def _shown(rollouts: Rollouts, tasks: Sequence[Task], expert: str) -> list[_Played | Failure]:
    """The expert's episodes, at the same time if the environments wait for servers."""
    (first,) = rollouts.envs(1)
    envs = rollouts.envs(len(tasks)) if waits(first) else []

    def play(number: int) -> _Played | Failure:
        env = envs[number] if envs else rollouts.envs(1)[0]  # a new one after a failure
        task, context = tasks[number], rollouts.prompt.context
        try:
            played = guarded(partial(applied, env, _play, task, expert, context, task=task.task_id))
        except CAUGHT as error:  # of its worker process
            played = failures.failed(error, task=(task.task_id, task.group, task.seed))
        if isinstance(played, Failure):
            rollouts.discard(env)
        return played

    return together(envs, [partial(play, number) for number in range(len(tasks))])


@dataclasses.dataclass
class _Played:
    """Observations, actions, thoughts and images of an expert's episode, and the last info."""

    context: str
    info: dict[str, Any]
    turns: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    thoughts: list[str] = dataclasses.field(default_factory=list)
    images: list[list[Picture]] = dataclasses.field(default_factory=list)


def _play(env: gym.Env[str, str], task: Task, name: str, context: str) -> _Played | Failure:
    """Play one task with an expert."""
    form = form_of(env) or FORM
    played: _Played | None = None

    def failed(error: Exception) -> Failure:
        turns = played.turns if played else []
        said = [(seen, form.format(thought="", action=action)) for seen, action in turns]
        where = task.task_id, task.group, task.seed
        return failures.failed(error, task=where, turn=max(0, len(turns) - 1), transcript=said)

    try:
        observation, info = reset(env, task)
        check_reported(observation, info)
    except CAUGHT as error:
        return failed(error)
    expert = _told(name, partial(expert_of, env, name))
    played = _Played(context, info)
    done = False
    while not done:
        action = _told(name, expert.act)
        first = context == "history" and not played.turns
        text, seen = shown(env, observation, info["goal"] if first else "")
        played.turns.append((opening(env, text) if first else text, action))
        played.images.append(seen)
        thought = _told(name, expert.think)
        if not (isinstance(action, str) and isinstance(thought, str)):
            raise RecipeError(
                f"sft.expert={name!r}: act() and think() must return text, got {action!r:.60} and "
                f"{thought!r:.60}"
            )
        played.thoughts.append(thought)
        reply = form.format(thought="", action=action)
        try:
            step = guarded(partial(env.step, reply))
            observation, _, terminated, truncated, played.info = step
            check_reported(observation, played.info)
        except CAUGHT as error:
            return failed(error)
        done = terminated or truncated
    return played


def _encoded(played: _Played, policy: Policy, form: str, thoughts: bool) -> Episode:
    """The episode with its tokens, with the expert's thoughts or with empty ones."""
    made = demonstration(
        policy.chat,
        played.turns,
        thoughts=played.thoughts if thoughts else (),
        form=form,
        context=played.context,
        task_id=played.info["task_id"],
        goal=played.info["goal"],
    )
    for step, seen in zip(made.steps, played.images, strict=True):
        step.images, step.prompt_ids = seen, expanded(policy, step.prompt_ids, seen)
    return made


def demonstration(
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
