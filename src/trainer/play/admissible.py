"""Constrained decoding: the room that the longest reply with an admissible action needs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from agent_envs.contract import ContractError
from agent_envs.replies import read_action
from agent_envs.spaces import ACTION_LENGTH
from trainer.engine import FORM
from trainer.play.environments import reply_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    import gymnasium as gym

    from trainer.model.chat import Chat


def measure_longest(chat: Chat, env: gym.Env[str, str], actions: Sequence[str]) -> int:
    """Tokens of the longest reply that gives one of these actions.

    Raises:
        ContractError: There are none, or a reply cannot give one of them.
    """
    form = reply_form(env) or FORM
    if not actions or form != FORM:
        raise ContractError(
            f'sampling.decode="admissible" samples one of info["admissible_actions"], as {FORM!r}; '
            f"the environment lists {len(actions)} and reads {form!r}. List at least one in every "
            "state, or set sampling.decode=free"
        )
    most = getattr(env.unwrapped, "action_length", ACTION_LENGTH)
    return max(_measure_choice(chat, action, most) for action in actions)


@lru_cache(maxsize=1 << 16)
def _measure_choice(chat: Chat, action: str, most: int) -> int:
    """Tokens of the reply that gives an admissible action of at most so many characters."""
    ids = chat.reply(FORM.format(thought="", action=action))
    if read_action(chat.text(ids)) != action or len(action) > most:
        raise ContractError(
            f"info['admissible_actions'] has {action!r:.60}, but no reply can give it. An action "
            f"is text of 1 to {most} characters that the tokenizer of the policy can write, "
            "without blanks around it and without tags such as <action>; list others, or set "
            "sampling.decode=free"
        )
    return len(ids)
