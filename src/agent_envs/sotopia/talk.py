"""A talk: what two characters did so far, what they proposed and what they agreed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agent_envs.sotopia.speech import heard, proposing

if TYPE_CHECKING:
    from agent_envs.sotopia.acts import Act
    from agent_envs.sotopia.scene import Deal, Scene

_SILENCES = 2


class Said(NamedTuple):
    """An act and whose it was."""

    side: int
    act: Act


class Talk(NamedTuple):
    """The talk up to now; `after` makes the next one.

    standing: the terms that each side proposed last, while they hold.
    agreed: the terms both took; they stay. accepted_by: the side that took the other's.
    malformed: how many of each side's replies were no act.
    """

    scene: Scene
    said: tuple[Said, ...] = ()
    standing: tuple[Deal | None, Deal | None] = (None, None)
    agreed: Deal | None = None
    accepted_by: int = -1
    malformed: tuple[int, int] = (0, 0)

    @property
    def ended(self) -> bool:
        """Whether someone left or both did nothing, one after the other."""
        kinds = [one.act.kind for one in self.said[-_SILENCES:]]
        return "leave" in kinds or kinds == ["none"] * _SILENCES

    def repeats(self, side: int, act: Act) -> bool:
        """Whether `side` did the very same before, word by word."""
        return bool(act.argument) and Said(side, act) in self.said

    def spoilt(self, side: int) -> Talk:
        """The talk after a reply that was no act."""
        counts = list(self.malformed)
        counts[side] += 1
        return self._replace(malformed=(counts[0], counts[1]))

    def after(self, side: int, act: Act) -> Talk:
        """The talk after an act.

        Only what is said has terms. A side accepts by saying so, or by proposing the other's terms
        itself; other terms are a proposal of its own. Who leaves takes all proposals along.
        """
        talk = self._replace(said=(*self.said, Said(side, act)))
        if self.agreed is not None or self.scene.game is None:
            return talk
        if act.kind == "leave":
            return talk._replace(standing=(None, None))
        terms = self._terms(side, act)
        offered = self.standing[1 - side]
        accepts = terms is None and self._accepts(side, act)
        if offered is not None and (terms == offered or accepts):
            return talk._replace(agreed=offered, accepted_by=side)
        if terms is None:
            return talk
        return talk._replace(
            standing=(terms, self.standing[1]) if side == 0 else (self.standing[0], terms)
        )

    def _terms(self, side: int, act: Act) -> Deal | None:
        """What a side proposes by an act."""
        if act.kind != "speak" or self.scene.game is None:
            return None
        return self.scene.game.read(proposing(act.argument), side)

    def _accepts(self, side: int, act: Act) -> bool:
        """Whether an act without terms takes the open offer.

        A mere "yes" does if that offer is what the other side said last: else it answers something
        else.
        """
        if act.kind != "speak":
            return False
        line = heard(act.argument)
        if line.accepts or not line.affirms:
            return line.accepts
        return bool(self.said) and self._terms(1 - side, self.said[-1].act) is not None

    def lines(self, side: int) -> list[str]:
        """What a side said."""
        return [a.argument for who, a in self.said if who == side and a.kind == "speak"]

    def deeds(self, side: int) -> list[str]:
        """What a side said, did and showed: an insult or a secret is one in writing too."""
        return [act.argument for who, act in self.said if who == side and act.argument]

    def script(self, viewer: int) -> list[str]:
        """The acts as a side reads them, its own as `You said: ...`."""
        return [
            act.told("You" if side == viewer else self.scene.label(side)) for side, act in self.said
        ]
