"""What the tests of adapters share: replies that solve a task, and replies that do not."""

from __future__ import annotations

from agent_envs.experts import expert
from trainer.play.environments import reply_form

FORM = "<think>{thought}</think><action>{action}</action>"
WAIT = FORM.format(thought="I wait.", action="look")


def solution(episodes, **task):
    """The explorer's replies to a task, and the episode that they made."""
    episode, replies = episodes.start(**task), []
    explorer, form = expert(episode.env), reply_form(episode.env) or FORM
    while not episode.done:
        replies.append(form.format(thought="I do it.", action=explorer.act()))
        episode.step(replies[-1])
    episodes.release(episode)
    assert episode.success
    return replies, episode
