"""Self-chat: a policy that is not trained plays the other side of a conversation.

The environments of a rollout are stepped in threads, which wait at the partner's turn until all of
them are answered in one batch. Left out: training both sides at once; train one side, then the
other against it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic.dataclasses import dataclass

from agent_envs.prompt import escape_marks
from agent_envs.replies import FORM
from agent_envs.sotopia.prompt import SHORT, TEMPLATE
from agent_envs.sotopia.talk import Act, parse_act
from agent_envs.vector import call_in_thread
from trainer.engine import Decoding, Prompt
from trainer.engine.own import Gather
from trainer.options import STRICT, NonNegative, Positive, Section

if TYPE_CHECKING:
    import gymnasium as gym
    import numpy as np

    from agent_envs.sotopia.scene import Scene
    from agent_envs.sotopia.talk import Talk
    from trainer.engine.own import OwnEngine


_Stepped = TypeVar("_Stepped")


@dataclass(frozen=True, config=STRICT)
class PartnerOptions(Section):
    """A policy that plays the other side of Sotopia and is not trained.

    Dtype and device are those of `policy`.

    Attributes:
        model: As `policy.model`; "" for the partner set by env.options.partner.
    """

    unread: ClassVar[dict[str, str]] = {"model=": "temperature max_reply_tokens"}

    temperature: NonNegative = 0.7
    max_reply_tokens: Positive = 512
    model: str = ""


class PolicyPartner:
    """A partner in Sotopia that samples its acts with the prompts of the environment.

    A reply that is not an act does nothing. The random numbers of a reply derive from the generator
    of its episode, so runs are reproducible.
    """

    def __init__(self, engine: OwnEngine, decoding: Decoding) -> None:
        self.engine, self.decoding = engine, decoding

    def begin(self, _scene: Scene, side: int, rng: np.random.Generator) -> Speaking:
        """The policy as `side` in one episode."""
        return Speaking(self, side, int(rng.integers(2**62)))

    def acts(self, due: Sequence[tuple[Speaking, Talk]]) -> list[Act]:
        """The next act of each speaker in its talk, drawn in one batch."""
        if not due:
            return []
        chat = self.engine.policy.chat
        prompts = [chat.opening(escape_marks(prompt(talk, one.side))) for one, talk in due]
        batch = self.engine.batch(len(due), self.decoding)
        seeds = [[speaker.seed, len(talk.said)] for speaker, talk in due]
        replies = batch.reply(range(len(due)), list(map(Prompt, prompts)), seeds)
        return [
            _read_act(reply.text, talk, speaker.side)
            for reply, (speaker, talk) in zip(replies, due, strict=True)
        ]


class Speaking:
    """The policy in one episode."""

    state = ""

    def __init__(self, partner: PolicyPartner, side: int, seed: int) -> None:
        self.partner, self.side, self.seed = partner, side, seed
        self.heard: Future[Talk | None] | None = None  # of the running step
        self.answer: Future[Any] = Future()

    def reply(self, talk: Talk) -> Act:
        """The next act; that of a step comes from `Listening`."""
        if self.heard is None:
            return self.partner.acts([(self, talk)])[0]
        self.heard.set_result(talk)
        act: Act = self.answer.result()
        return act


class Listening:
    """The partner of episodes that are played at the same time: it answers a turn of all at once.

    Args:
        partner: The partner.
        episodes: Number of episodes.
    """

    def __init__(self, partner: PolicyPartner, episodes: int) -> None:
        self.partner = partner
        self._gather: Gather[tuple[Speaking, Talk] | None, Act | None] = Gather(
            range(episodes), self._answer
        )
        self.leave = self._gather.leave

    async def begin_step(
        self, row: int, env: gym.Env[str, str], step: Callable[[], _Stepped]
    ) -> partial[_Stepped]:
        """Step an environment in a thread up to the partner's answer: -> what waits for the end."""
        inner: Any = env.unwrapped
        speaker: Speaking = inner.speaker
        heard: Future[Talk | None] = Future()
        speaker.heard, speaker.answer = heard, Future()
        stepped = call_in_thread(step)
        stepped.add_done_callback(lambda _: None if heard.done() else heard.set_result(None))
        talk = await asyncio.wrap_future(heard)
        try:
            speaker.answer.set_result(await self._gather.ask(row, talk and (speaker, talk)))
        finally:
            speaker.answer.cancel()  # after an error of the engine the thread ends, too
        return partial(stepped.result)

    def _answer(self, said: dict[int, tuple[Speaking, Talk] | None]) -> dict[int, Act | None]:
        """The acts of the rows in which it is the partner's turn, None in the others."""
        due = {row: heard for row, heard in said.items() if heard is not None}
        acts = self.partner.acts(list(due.values()))
        return dict.fromkeys(said) | dict(zip(due, acts, strict=True))


def prompt(talk: Talk, side: int) -> str:
    """Prompt of the policy before an act of `side`."""
    script, template = talk.render_script(side), SHORT if talk.scene.game else TEMPLATE
    return (template.full if script else template.first).format(
        first_observation=talk.scene.render_background(side),
        action_history="\n".join(script),
        current_observation=script[-1] if script else "",
        current_step=sum(who == side for who, _ in talk.said) + 1,
        agent=talk.scene.characters[side].name,
    )


def _read_act(reply: str, talk: Talk, side: int) -> Act:
    try:
        act = parse_act(FORM.read(reply) or "", talk.scene.game)
    except ValueError:
        act = Act("none")
    return Act("none") if talk.find_obstacle(side, act) else act
