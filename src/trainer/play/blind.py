"""Blind prompts: the prompt of a turn without goal, history, both or observation.

Methods that compare what a reply is worth with and without a part (STAPO, IGPO) score it after
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.prompt import escape_marks
from agent_envs.template import leave_out_goal, says_goal
from trainer.play.episode import render_opening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_envs.spaces import Picture
    from trainer.play.tokens import TokenEpisode


def render_blind(episode: TokenEpisode, what: str) -> list[int]:
    """Tokens of the prompt of the next turn without a part, with the instruction of the form."""
    if episode.context == "turn":
        images = [] if what == "observation" else episode.images
        return episode.encode(episode.env.blind(what), images)  # type: ignore[attr-defined]
    seen, goal = episode.observation, escape_marks(episode.goal)
    past = episode.past().ids
    if what == "goal":
        length = len(episode.steps[0].prompt_ids if episode.steps else episode.prompt)
        first, images = episode.first
        aimless = _open(episode, leave_out_goal(first, goal), images)
        return [*aimless, *[*past, *episode.prompt][length:]]
    if what == "observation":
        chat = episode.policy.chat
        ending = chat.after(episode.steps[-1].reply_ids, "...") if episode.steps else []
        return [*past, *ending] or _open(episode, goal, [])
    if what == "both":
        seen = leave_out_goal(seen, goal)
    elif not says_goal(seen, goal):
        seen = f"{goal}\n\n{seen}"
    return _open(episode, seen, episode.images)


def _open(episode: TokenEpisode, text: str, images: Sequence[Picture]) -> list[int]:
    return episode.encode(render_opening(episode.env, text), images)
