"""Constrained decoding: the room that the longest reply with an admissible action needs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from agent_envs.contract import ContractError
from agent_envs.replies import FORM
from agent_envs.spaces import ACTION_LENGTH
from trainer.play.environments import find_form

if TYPE_CHECKING:
    import gymnasium as gym

    from trainer.model.chat import Chat


def measure_longest(chat: Chat, env: gym.Env[str, str], actions: Sequence[str]) -> int:
    """Tokens of the longest reply that gives one of these actions.

    Raises:
        ContractError: There are none, or a reply cannot give one of them.
    """
    form, most = find_form(env), getattr(env.unwrapped, "action_length", ACTION_LENGTH)
    lengths = {action: _measure_choice(chat, action, most) for action in actions}
    impossible = [action for action, length in lengths.items() if not length]
    if impossible or not actions or form != FORM:
        raise ContractError(
            f'sampling.decode samples one of info["admissible_actions"], as {FORM.text!r}; '
            f"the environment reads {form.text!r} and lists {len(actions)}, of which no reply can "
            f"give {impossible[:1]!r:.60}. An action is text of 1 to {most} characters that the "
            "tokenizer of the policy can write, without blanks around it and without tags such as "
            "<action>. List at least one in every state, or set sampling.decode=free"
        )
    return max(lengths.values())


@lru_cache(maxsize=1 << 16)
def _measure_choice(chat: Chat, action: str, most: int) -> int:
    """Tokens of the reply that gives an action of at most so many characters; 0 if none does."""
    ids = chat.reply(FORM.write(action))
    return len(ids) if FORM.read(chat.text(ids)) == action and len(action) <= most else 0
