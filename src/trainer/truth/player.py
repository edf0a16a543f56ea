"""Plays what a measurement asks for: the rollouts of groups, and rollouts from their states.

Each call depends on its arguments alone, so calls can be made in any order and process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trainer.build import derive, load_policy, make_rollouts, make_sampler
from trainer.engines import UNBEGUN, Reply
from trainer.engines.own import OwnEngine
from trainer.environments import make_env
from trainer.rollout import Start
from trainer.truth.draws import HALVES, drawn
from trainer.truth.tree import NotReproducible, Tree, described, difference, result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import gymnasium as gym

    from credit.segments import Array
    from trainer.episodes import Episode
    from trainer.recipe import Recipe
    from trainer.rollout import Actor, Task

ROWS = 128
"""Rollouts played at the same time where the recipe does not say."""


class Drawn(NamedTuple):
    """One rollout from a state: half, node, outcome, and the turns that it took."""

    half: int
    node: int
    outcome: float
    turns: int


class Player:
    """A policy and its environment.

    Args:
        recipe: The recipe; its training split, sampling and seed are used.
        source: Folder of the policy's weights, None for the recipe's model.
        plain: As in `trainer.truth.tree.Tree`; copies then get fresh noise.
    """

    def __init__(self, recipe: Recipe, source: Path | None, *, plain: bool = False) -> None:
        self.recipe, self.plain = recipe, plain
        policy = load_policy(recipe.policy, source).freeze()
        self.sampler = make_sampler(recipe, OwnEngine(policy), policy, recipe.sampling.temperature)
        made = make_rollouts(recipe, recipe.env.split)
        self.rollouts = replace(made, rows=recipe.sampling.rows or ROWS)

    def play(self, tasks: Sequence[Task], purpose: str) -> list[Episode]:
        """One episode of each task; the first task's group and the purpose seed the replies."""
        if not tasks:
            return []
        seed = derive(self.recipe.run.seed, tasks[0].group, f"truth, {purpose}")
        return self.rollouts.play(tasks, self.sampler, seed)

    def fresh(self, task: Task, count: int) -> list[float]:
        """Outcomes of so many fresh rollouts of a task."""
        return [episode.outcome for episode in self.play([task] * count, "fresh")]

    def draw(
        self, task: Task, episodes: Sequence[Episode], expected: Sequence[Array], number: int
    ) -> list[Drawn]:
        """Rollouts from the states of a group.

        Args:
            task: The group's task.
            episodes: Its rollouts.
            expected: Of each half the expected number of rollouts at each node, [n].
            number: Number of the round.

        Raises:
            NotReproducible: The environment, or a copy of it, does not continue as recorded.
        """
        tree = Tree(episodes, plain=self.plain)
        seed = derive(self.recipe.run.seed, task.group, f"truth, draws {number}")
        rng = np.random.default_rng(seed)
        actors = self.states(task, tree)
        starts, labels = [], []
        counts = [drawn(expected[half], rng) for half in HALVES]
        for at, node in enumerate(tree.nodes):  # rollouts from one node share their opening
            for half in HALVES:
                count = counts[half][at]
                share = np.array([way.probability for way in node.leaving])
                for way in rng.choice(len(share), count, p=share / share.sum()) if count else ():
                    actor = actors[at]
                    if self.plain:
                        actor = actor.fork()
                        actor.env.unwrapped.np_random = np.random.default_rng(rng.integers(2**63))
                    starts.append(Start(actor, UNBEGUN if self.plain else node.leaving[way].begun))
                    labels.append((half, at))
        played = self.rollouts.resume(starts, self.sampler, seed)
        return [
            Drawn(*label, one.outcome, len(one.steps) - tree.nodes[label[1]].turn)
            for label, one in zip(labels, played, strict=True)
        ]

    def states(self, task: Task, tree: Tree) -> list[Actor]:
        """A running episode in each state; each is a copy of the one before it, taken on.

        Raises:
            NotReproducible: A copy did not do as recorded; the message has the first difference.
        """
        rollouts, policy = self.rollouts, self.sampler.policy
        env = make_env(rollouts.env, rollouts.prompt, split=rollouts.split)
        actors = [rollouts.start(task, policy, env)]
        for node in tree.nodes[1:]:
            actor, step = actors[node.parent].fork(), tree.step(node)
            reply = Reply(step.reply_ids, step.logprobs, step.entropies, step.reply)
            before = _noise(actor.env)
            actor.take(replace(reply, version=step.version), {}, actor.env.step(step.reply))
            if not self.plain:
                recorded, turn = tree.episodes[node.episode], node.turn - 1
                _check(recorded, turn, actor)
                if _noise(actor.env) != before:
                    raise NotReproducible(
                        f"task {recorded.task_id!r}: the environment drew from its np_random in "
                        f"turn {turn}, so its luck would count as the agent's; measure it with "
                        "--plain, which gives copies fresh noise"
                    )
            actors.append(actor)
        return actors


def _noise(env: gym.Env[str, str]) -> Any:
    """State of the environment's generator, None before it has one."""
    rng = getattr(env.unwrapped, "_np_random", None)
    return None if rng is None else rng.bit_generator.state


def _check(recorded: Episode, turn: int, actor: Actor) -> None:
    """Check that a copy did what the rollout did."""
    played, episode = actor.played, actor.episode
    if turn + 1 == len(recorded.steps) and recorded.truncated and not played.done:
        actor.stop()  # its tokens were used up
    prompt = replace(
        episode.steps[turn],
        observation=played.observation,
        prompt_ids=actor.prompt,
        images=played.images,
    )
    now = described(episode.steps[turn], None if played.done else prompt, episode.outcome)
    if found := difference(result(recorded, turn), now):
        raise NotReproducible(
            f"task {recorded.task_id!r}: a copy of the environment gave another result for turn "
            f"{turn} than the rollout: {found}. Mend the environment's copy (copy.deepcopy), or "
            "what it shares between episodes; a world that draws at random needs --plain"
        )
