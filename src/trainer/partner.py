"""Self-chat: a policy that does not learn plays the other side of a conversation.

Before the environments of a rollout take their replies, each is rehearsed on a copy up to the
partner's turn, so that the partner answers all of them in one batch. Left out: a partner that
learns, too; train one side, then the other against it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from agent_envs.parse import action_in
from agent_envs.prompt import unmarked
from agent_envs.sotopia.acts import Act, read
from agent_envs.sotopia.prompt import TEMPLATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import gymnasium as gym

    from agent_envs.sotopia.scene import Scene
    from agent_envs.sotopia.talk import Talk
    from trainer.sampling import Sampler

_TAGS = ("think", "action")


class PolicyPartner:
    """A partner of `Sotopia-v0` whose acts a sampler draws, with the prompts of Sotopia.

    A reply that is no act does nothing. What it draws derives from the episode's generator and
    from the episodes that are played beside it, so that a run repeats itself.
    """

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    def check(self, scene: Scene) -> None:
        """It plays every scene."""

    def begin(self, scene: Scene, side: int, rng: np.random.Generator) -> Speaking:  # noqa: ARG002
        """The policy as that side."""
        return Speaking(self, side, int(rng.integers(2**62)))

    def listen(self, envs: Sequence[gym.Env[str, str]], replies: Sequence[str]) -> None:
        """Prepare what is said to each of `replies`, of those that the partner will answer."""
        heard = [_heard(env, reply) for env, reply in zip(envs, replies, strict=True)]
        asked = [
            (env.unwrapped.speaker, talk)  # type: ignore[attr-defined]
            for env, talk in zip(envs, heard, strict=True)
            if talk is not None
        ]
        acts = self.acts([talk for _, talk in asked], [speaker for speaker, _ in asked])
        for (speaker, _), act in zip(asked, acts, strict=True):
            speaker.prepared = act

    def acts(self, talks: Sequence[Talk], speakers: Sequence[Speaking]) -> list[Act]:
        """The next act of each speaker in its talk, drawn in one batch.

        Raises:
            ValueError: a talk leaves no room for a reply.
        """
        if not talks:
            return []
        chat = self.sampler.policy.chat
        asked = [
            chat.opening(unmarked(prompt(talk, speaker.side)))
            for talk, speaker in zip(talks, speakers, strict=True)
        ]
        session = self.sampler.session(len(talks))
        longest = max(map(len, asked)) + self.sampler.decoding.max_reply_tokens
        if longest > session.limit:
            raise ValueError(
                f"the partner needs {longest} tokens and its model has {session.limit}; lower "
                "partner.max_reply_tokens or env.max_turns, or take another partner.model"
            )
        seeds = [n for s, t in zip(speakers, talks, strict=True) for n in (s.seed, len(t.said))]
        seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
        rng = torch.Generator().manual_seed(seed)
        replies = session.reply(range(len(talks)), asked, rng)
        return [
            _act(reply.text, talk, speaker.side)
            for reply, talk, speaker in zip(replies, talks, speakers, strict=True)
        ]


class Speaking:
    """The policy in one episode; `prepared` is its next act where that is known already."""

    state = ""

    def __init__(self, partner: PolicyPartner, side: int, seed: int) -> None:
        self.partner, self.side, self.seed = partner, side, seed
        self.prepared: Act | None = None

    def reply(self, talk: Talk) -> Act:
        """Its next act."""
        act, self.prepared = self.prepared, None
        return act or self.partner.acts([talk], [self])[0]


def prompt(talk: Talk, side: int) -> str:
    """What the policy reads before an act of `side`."""
    script = talk.script(side)
    return (TEMPLATE.full if script else TEMPLATE.first).format(
        first_observation=talk.scene.background(side),
        action_history="\n".join(script),
        current_observation=script[-1] if script else "",
        current_step=sum(who == side for who, _ in talk.said) + 1,
    )


def _act(reply: str, talk: Talk, side: int) -> Act:
    try:
        return read(action_in(reply, _TAGS) or "", talk.scene.game, side)
    except ValueError:
        return Act("none")


class _Asked(Exception):
    """The partner's turn has come."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk


class _Listening:
    """Stands for the partner in a rehearsal."""

    state = ""

    def reply(self, talk: Talk) -> Act:
        raise _Asked(talk)


def _heard(env: gym.Env[str, str], reply: str) -> Talk | None:
    """The talk that the partner will have to answer after a reply; None where it will not."""
    inner: Any = env.unwrapped
    shared = (inner.partner, inner.judge, inner.panel, inner.published, inner.talk.scene)
    rehearsal: Any = copy.deepcopy(env, {id(one): one for one in shared})
    rehearsal.unwrapped.speaker, rehearsal.unwrapped.judge = _Listening(), None
    try:
        rehearsal.step(reply)
    except _Asked as asked:
        return asked.talk
    return None
