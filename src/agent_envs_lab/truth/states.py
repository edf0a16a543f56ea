"""Running episodes in the states of a tree, and rollouts that go on from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agent_envs_lab.truth.tree import (
    CAUSES,
    NotReproducible,
    check_start,
    describe_result,
    difference,
    opening,
    result,
)
from trainer.engine import UNBEGUN, Reply
from trainer.errors import RecipeError
from trainer.play.failures import Failure
from trainer.play.rollout import Start

if TYPE_CHECKING:
    import gymnasium as gym

    from agent_envs_lab.truth.tree import Tree
    from trainer.engine import Sampler
    from trainer.model.policy import Policy
    from trainer.play.records import Episode, Step, Task
    from trainer.play.rollout import Rollouts
    from trainer.play.tokens import TokenEpisode
    from trainer.recipe import Recipe


class Drawn(NamedTuple):
    """One rollout from a state: the state's node, the outcome, and the turns that it took."""

    node: int
    outcome: float
    turns: int


def states(
    rollouts: Rollouts, policy: Policy, task: Task, tree: Tree, counts: Sequence[int] | None = None
) -> list[TokenEpisode]:
    """A running episode in each state of a tree; each is a copy of the one before it, taken on.

    None of them is in the pool of `rollouts`, which can be used while they are kept.

    Args:
        rollouts: Plays them.
        policy: The policy that gave the replies of the tree.
        task: The task of the tree.
        tree: The tree.
        counts: [n] number of rollouts from each node; where there are none, the episode itself may
            be taken on instead of a copy, and is then that of a later state.

    Raises:
        NotReproducible: A copy did not do as recorded; the message has the first difference.
    """
    actors = [rollouts.start(task, policy, rollouts.envs(1)[0]).fork()]
    recorded = tree.episodes[0]
    check_start(recorded, opening(_now(actors[0], recorded.steps[0])), "a copy")
    for at, node in enumerate(tree.nodes[1:], 1):
        kept = counts is None or counts[node.parent] or tree.nodes[node.parent].children[-1] != at
        actor = actors[node.parent].fork() if kept else actors[node.parent]
        step = tree.step(node)
        reply = Reply(step.reply_ids, step.logprobs, step.entropies, step.reply, step.allowed)
        before = _noise(actor.env)
        actor.take_reply(replace(reply, version=step.version), {}, actor.env.step(step.reply))
        if not tree.plain:
            recorded, turn = tree.episodes[node.episode], node.turn - 1
            _check(recorded, turn, actor)
            if _noise(actor.env) != before:
                raise NotReproducible(
                    f"task {recorded.task_id!r}: the environment drew from its np_random in "
                    f"turn {turn}, so its luck would count as the agent's; measure it with "
                    "--plain, which gives copies fresh noise, and another --out"
                )
        actors.append(actor)
    return actors


def draw(
    rollouts: Rollouts,
    sampler: Sampler,
    actors: Sequence[TokenEpisode],
    tree: Tree,
    counts: Sequence[int],
    *,
    seed: int,
) -> tuple[list[Drawn], list[Failure]]:
    """So many rollouts from each state that begin with a reply that is not in the tree.

    Those whose environment failed are left out and returned beside them.

    Args:
        rollouts: Plays them.
        sampler: The policy that gave the replies of the tree.
        actors: The running episodes of `states`.
        tree: The tree.
        counts: [n] number of rollouts from each node.
        seed: Seed of all of them.
    """
    nodes, starts = leaving(actors, tree, counts, np.random.default_rng(seed))
    played = rollouts.attempt_from(starts, sampler, seed)
    failed = [one for one in played if isinstance(one, Failure)]
    drawn = [
        Drawn(at, one.outcome, len(one.steps) - tree.nodes[at].turn)
        for at, one in zip(nodes, played, strict=True)
        if not isinstance(one, Failure)
    ]
    return drawn, failed


def leaving(
    actors: Sequence[TokenEpisode], tree: Tree, counts: Sequence[int], rng: np.random.Generator
) -> tuple[list[int], list[Start]]:
    """The node and the start of each rollout, so many from each node; see `draw`."""
    starts, nodes = [], []
    for at, (node, count) in enumerate(zip(tree.nodes, counts, strict=True)):
        share = np.array([way.probability for way in node.leaving])
        for way in rng.choice(len(share), count, p=share / share.sum()) if count else ():
            actor = actors[at]
            if tree.plain:
                actor = actor.fork()
                actor.env.unwrapped.np_random = np.random.default_rng(rng.integers(2**63))
            starts.append(Start(actor, UNBEGUN if tree.plain else node.leaving[way].begun))
            nodes.append(at)
    return nodes, starts


def _noise(env: gym.Env[str, str]) -> Any:
    """State of the environment's generator, None before it has one."""
    rng = getattr(env.unwrapped, "_np_random", None)
    return None if rng is None else rng.bit_generator.state


def _now(actor: TokenEpisode, turn: Step) -> Step:
    """A turn with what the policy is told now in place of what it was told then."""
    constrained = turn.allowed is not None
    return replace(
        turn,
        observation=actor.observation,
        images=actor.images,
        admissible=list(actor.info["admissible_actions"]) if constrained else None,
        prompt_ids=actor.prompt,
    )


def _check(recorded: Episode, turn: int, actor: TokenEpisode) -> None:
    """Check that a copy did what the rollout did."""
    if turn + 1 == len(recorded.steps) and recorded.truncated and not actor.done:
        actor.stop()  # its tokens were used up
    then = None if actor.done else _now(actor, actor.steps[turn])
    now = describe_result(actor.steps[turn], then, actor.outcome)
    if found := difference(result(recorded, turn), now):
        raise NotReproducible(
            f"task {recorded.task_id!r}: a copy of the environment gave another result for turn "
            f"{turn} than the rollout: {found}. {CAUSES}"
        )


def check_continued(recipe: Recipe, what: str) -> None:
    """Check that episodes can be continued from copies of their environments.

    Raises:
        RecipeError: They are in other processes, or sampled by another engine; names `what`.
    """
    for option, given, wanted in (
        ("engine.name", recipe.engine.name, "own"),
        ("env.processes", recipe.env.processes, 0),
        ("sampling.actors", recipe.sampling.actors, 0),
        ("partner.model", recipe.partner.model, ""),
    ):
        if given != wanted:
            raise RecipeError(
                f"{what} continues copies of environments in this process by the own sampler, but "
                f"{option}={given!r}; set it to {wanted!r}"
            )
