"""The prompt of each turn, whole and blind, and rows that score a reply after another prompt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from trainer.learn.rows import Row

if TYPE_CHECKING:
    from agent_envs.spaces import Picture
    from trainer.play.records import Episode, Step


class PromptTokens(NamedTuple):
    """The prompt of a reply: its tokens, and the images that some of them stand for."""

    ids: list[int]
    images: list[Picture]


def prompts(episode: Episode) -> Iterator[dict[str, PromptTokens]]:
    """Prompts of each turn: the whole one under "", and the recorded blind ones by what they omit.

    Without history a prompt keeps the turn's own images; without observation, the earlier ones.
    """
    ids: list[int] = []
    past: list[Picture] = []
    for step in episode.steps:
        everything = [*past, *step.images]
        kept = {"goal": everything, "observation": past}
        yield {"": PromptTokens([*ids, *step.prompt_ids], everything)} | {
            what: PromptTokens(blind, kept.get(what, step.images))
            for what, blind in step.blind_ids.items()
        }
        if episode.context == "history":
            ids += [*step.prompt_ids, *step.reply_ids]
            past += step.images


def make_end_row(episode: Episode) -> Row:
    """Row of one token in the place of the reply that a limit has cut off."""
    after = replace(cast("Step", episode.after), reply_ids=[0])
    *_, prompt = prompts(replace(episode, steps=[*episode.steps, after]))
    return make_scored_row(prompt[""], after, 0)


def make_scored_row(prompt: PromptTokens, step: Step, turn: int) -> Row:
    """Row that scores the reply of one turn after a prompt."""
    size = len(step.reply_ids)
    return Row(
        ids=[*prompt.ids, *step.reply_ids],
        at=list(range(len(prompt.ids), len(prompt.ids) + size)),
        turn=[turn] * size,
        logprobs=step.logprobs or [0.0] * size,
        allowed=step.allowed,
        images=tuple(prompt.images),
    )
