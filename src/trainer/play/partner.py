"""Self-chat: a policy that is not trained plays the other side of a conversation.

Before the environments of a rollout are stepped, a copy of each is stepped up to the partner's
turn, so that the partner answers all of them in one batch. Left out: training both sides at once;
train one side, then the other against it.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic.dataclasses import dataclass

from agent_envs.prompt import escape_marks
from agent_envs.replies import read_action
from agent_envs.sotopia.acts import Act, parse_act
from agent_envs.sotopia.prompt import TEMPLATE
from trainer.engine import Decoding, Prompt
from trainer.engine.own import Gather
from trainer.options import STRICT, NonNegative, Positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    import gymnasium as gym
    import numpy as np

    from agent_envs.sotopia.scene import Scene
    from agent_envs.sotopia.talk import Talk
    from trainer.engine.own import OwnEngine


Listening: TypeAlias = "Gather[tuple[gym.Env[str, str], str], None]"
"""Episodes that ask with their environment and reply, and go on once the answer is prepared."""


@dataclass(frozen=True, config=STRICT)
class PartnerOptions:
    """A policy that plays the other side of Sotopia-v0 and is not trained.

    Dtype and device are those of `policy`.

    Attributes:
        model: As `policy.model`; "" for the partner set by env.options.partner.
    """

    temperature: NonNegative = 0.7
    max_reply_tokens: Positive = 512
    model: str = ""


class PolicyPartner:
    """A partner in `Sotopia-v0` that samples its acts with the prompts of Sotopia.

    A reply that is not an act does nothing. The random numbers of a reply derive from the generator
    of its episode, so runs are reproducible.
    """

    def __init__(self, engine: OwnEngine, decoding: Decoding) -> None:
        self.engine, self.decoding = engine, decoding

    def begin(self, _scene: Scene, side: int, rng: np.random.Generator) -> Speaking:
        """The policy as `side` in one episode."""
        return Speaking(self, side, int(rng.integers(2**62)))

    def listening(self, episodes: int) -> Listening:
        """What prepares the partner's acts of episodes that are played at the same time."""
        return Gather(range(episodes), self._listen)

    def _listen(self, said: dict[int, tuple[gym.Env[str, str], str]]) -> dict[int, None]:
        """Prepare the acts that answer replies, where it is the partner's turn next."""
        heard = [(env, _rehearse_reply(env, reply)) for env, reply in said.values()]
        due = [(_speaker(env), talk) for env, talk in heard if talk is not None]
        acts = self.acts([talk for _, talk in due], [speaker for speaker, _ in due])
        for (speaker, _), act in zip(due, acts, strict=True):
            speaker.prepared = act
        return dict.fromkeys(said)

    def acts(self, talks: Sequence[Talk], speakers: Sequence[Speaking]) -> list[Act]:
        """The next act of each speaker in its talk, drawn in one batch."""
        if not talks:
            return []
        chat = self.engine.policy.chat
        prompts = [
            chat.opening(escape_marks(prompt(talk, speaker.side)))
            for talk, speaker in zip(talks, speakers, strict=True)
        ]
        batch = self.engine.batch(len(talks), self.decoding)
        seeds = [[s.seed, len(t.said)] for s, t in zip(speakers, talks, strict=True)]
        replies = batch.reply(range(len(talks)), list(map(Prompt, prompts)), seeds)
        return [
            _act(reply.text, talk, speaker.side)
            for reply, talk, speaker in zip(replies, talks, speakers, strict=True)
        ]


class Speaking:
    """The policy in one episode; `prepared` is its next act if that is already known."""

    state = ""

    def __init__(self, partner: PolicyPartner, side: int, seed: int) -> None:
        self.partner, self.side, self.seed = partner, side, seed
        self.prepared: Act | None = None

    def reply(self, talk: Talk) -> Act:
        """The next act."""
        act, self.prepared = self.prepared, None
        return act or self.partner.acts([talk], [self])[0]


def prompt(talk: Talk, side: int) -> str:
    """Prompt of the policy before an act of `side`."""
    script = talk.render_script(side)
    return (TEMPLATE.full if script else TEMPLATE.first).format(
        first_observation=talk.scene.render_background(side),
        action_history="\n".join(script),
        current_observation=script[-1] if script else "",
        current_step=sum(who == side for who, _ in talk.said) + 1,
    )


def _act(reply: str, talk: Talk, side: int) -> Act:
    try:
        return parse_act(read_action(reply) or "", talk.scene.game, side)
    except ValueError:
        return Act("none")


def _speaker(env: gym.Env[str, str]) -> Speaking:
    """The partner's side in an environment."""
    inner: Any = env.unwrapped
    speaker: Speaking = inner.speaker
    return speaker


class _PartnersTurn(Exception):
    """The partner's turn, with the talk so far."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk


class _Listening:
    """Takes the place of the partner in a copied environment and stops at its turn."""

    state = ""

    def reply(self, talk: Talk) -> Act:
        raise _PartnersTurn(talk)


def _rehearse_reply(env: gym.Env[str, str], reply: str) -> Talk | None:
    """The talk that the partner has to answer after a reply; None if it is not its turn."""
    inner: Any = env.unwrapped
    shared = (inner.partner, inner.judge, inner.panel, inner.published, inner.talk.scene)

    # Any other error is raised by the step itself, too, and loses its episode only.
    with suppress(Exception):
        rehearsal: Any = copy.deepcopy(env, {id(one): one for one in shared})
        rehearsal.unwrapped.speaker, rehearsal.unwrapped.judge = _Listening(), None
        try:
            rehearsal.step(reply)
        except _PartnersTurn as turn:
            return turn.talk
    return None
