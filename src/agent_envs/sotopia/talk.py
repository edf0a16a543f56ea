"""A talk: the acts of two characters so far, their proposals and their agreement.

Binding: an act with the field `offer` or `accept` is binding for its speaker at once. Words are
binding only after a confirmation: terms that both sides accepted are `pending` until each side that
used words has agreed again, done nothing or left. Newer terms of either side replace them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agent_envs.sotopia.reading import read_line
from agent_envs.sotopia.speech import find_gist
from agent_envs.spaces import ACTION_LENGTH

if TYPE_CHECKING:
    from agent_envs.sotopia.acts import Act
    from agent_envs.sotopia.scene import Deal, Scene

_SILENCES = 2
_SILENT = ["none"] * _SILENCES
_EXCHANGE = 3  # answered lines of a side that make a complete talk
_OTHERWISE = ("refusal", "hedge", "unclear")
"""Classes of lines that withdraw words."""
_NOTICES = {
    True: ("You agreed to this", "withdraw"),
    False: ("Your proposal was accepted", "withdraw it"),
}
"""What a side is told of pending terms, by whether it accepted them."""
_ENDLESS = 1000  # acts that can follow if there is no limit


class Said(NamedTuple):
    """An act and its side."""

    side: int
    act: Act


Meaning = tuple[object, "Deal | None"]
"""The meaning of an act: its content words without numbers ("" if it has none), and its terms.
"""


class Pending(NamedTuple):
    """Terms that both sides accepted, and that some side can still withdraw.

    accepted_by: the side that accepted the other's offer. free: the sides that used words and have
    not confirmed them. asked: whether a free side has made an act that neither confirms nor
    withdraws.
    """

    deal: Deal
    accepted_by: int
    free: tuple[bool, bool]
    asked: bool = False

    def is_replaced(self, side: int, did: str, terms: Deal | None) -> bool:
        """Whether an act of a side, by its class and terms, says something else."""
        newer = terms is not None and terms != self.deal
        return newer or (self.free[side] and did in _OTHERWISE)


class Talk(NamedTuple):
    """The talk so far, immutable; `after` returns the next one.

    said: the acts. meant: the meaning of each.
    standing: the open terms that each side proposed last. firm: whether by a field.
    fresh: whether the latest act proposed, accepted or confirmed terms. did: its class, of
    `reading.KINDS`. pending: terms that both accepted and one can withdraw.
    agreed: the final, binding terms. accepted_by: the side that accepted the other's terms.
    ahead: how many acts can follow.
    """

    scene: Scene
    said: tuple[Said, ...] = ()
    meant: tuple[Meaning, ...] = ()
    standing: tuple[Deal | None, Deal | None] = (None, None)
    firm: tuple[bool, bool] = (False, False)
    fresh: bool = False
    did: str = "talk"
    pending: Pending | None = None
    agreed: Deal | None = None
    accepted_by: int = -1
    ahead: int = _ENDLESS

    @property
    def is_over(self) -> bool:
        """Whether a side left, or both did nothing in a row."""
        kinds = [act.kind for _, act in self.said[-_SILENCES:]]
        return "leave" in kinds or kinds == _SILENT

    @property
    def open(self) -> Pending | None:
        """The pending terms, if all sides that must confirm them still can."""
        if self.pending is None or self.is_over:
            return None
        later = self.pending.free[self.said[-1].side]  # whether the last speaker must confirm, too
        return self.pending if self.ahead > later else None

    @property
    def accepted_terms(self) -> Deal | None:
        """The terms that both accepted, binding or not."""
        return self.pending.deal if self.pending else self.agreed

    @property
    def accepting_side(self) -> int:
        """The side that accepted the other's terms, -1 for none."""
        return self.pending.accepted_by if self.pending else self.accepted_by

    def measure_exchange(self, side: int) -> float:
        """Completed share of a talk for a side: different answered lines / 3, or 1 with a deal.

        Lines that differ only in numbers count once, unless the numbers are terms.
        """
        if self.agreed is not None:
            return 1.0
        answered = {
            meaning
            for one, after, meaning in zip(self.said, self.said[1:], self.meant, strict=False)
            if one.side == side and one.act.kind == "speak" and after.side != side
            and after.act.kind not in ("leave", "none")
        }  # fmt: skip
        return min(1.0, len(answered) / _EXCHANGE)

    def list_meanings(self, side: int) -> list[Meaning]:
        """The meaning of each act of a side."""
        pairs = zip(self.said, self.meant, strict=True)
        return [meaning for (who, _), meaning in pairs if who == side]

    def is_repetition(self, side: int, act: Act) -> bool:
        """Whether `side` made the same act before, verbatim."""
        return bool(act.argument) and Said(side, act) in self.said

    def find_obstacle(self, side: int, act: Act) -> str:
        """Why a side cannot make an act now; "" if it can."""
        if len(act.argument) > ACTION_LENGTH:
            return f"An act has at most {ACTION_LENGTH:,} characters, not {len(act.argument):,}."
        accepts = act.accept and act.offer is None
        if accepts and self.standing[1 - side] is None and self.accepted_terms is None:
            return "There is no open offer that you could accept."
        return ""

    def after(self, side: int, act: Act) -> Talk:
        """The talk after an act.

        A side accepts by an act that accepts, or by proposing the other's terms; other terms are a
        proposal of its own. Leaving ends all proposals.
        """
        over = self.agreed is not None or self.scene.game is None
        leaves = act.kind == "leave"
        did, terms, withdraws = (
            ("talk", None, False) if over or leaves else _classify_act(self, side, act)
        )
        talk = Talk(
            self.scene,
            (*self.said, Said(side, act)),
            (*self.meant, (find_gist(act.argument) or act.argument, _find_terms(self, side, act))),
            self.standing,
            self.firm,
            fresh=False,
            did=did,
            pending=self.pending,
            agreed=self.agreed,
            accepted_by=self.accepted_by,
            ahead=max(0, self.ahead - 1),
        )
        if over:
            return talk
        if leaves:
            return _confirm(talk, side)._replace(standing=(None, None), pending=None)
        pending = self.pending
        if pending is not None:
            if not (withdraws or pending.is_replaced(side, did, terms)):
                confirms = act.kind == "none" or did in ("offer", "acceptance")
                return _confirm(talk, side) if confirms else _mark_asked(talk, side, pending)
            talk = talk._replace(pending=None)
            talk = talk if pending.accepted_by == side else _withdraw(talk, side)
        return _apply_statement(talk, side, terms, withdraws=withdraws, firm=act.has_fields)

    def render_notice(self, viewer: int) -> str:
        """The notice to a side about pending terms that it can still withdraw."""
        pending = self.open
        if pending is None or not pending.free[viewer] or self.scene.game is None:
            return ""
        terms = self.scene.game.wordings[viewer].describe(pending.deal)
        what, withdraw = _NOTICES[pending.accepted_by == viewer]
        if pending.asked:
            return f"{what}: {terms}. It binds you when you agree again, do nothing or leave."
        return f"{what}: {terms}. Say otherwise in your next turn to {withdraw}."

    def list_lines(self, side: int) -> list[str]:
        """The spoken lines of a side."""
        return [a.argument for who, a in self.said if who == side and a.kind == "speak"]

    def render(self, said: Said, viewer: int) -> str:
        """The text of an act for a side, its own as `You said: ...`."""
        side, act = said
        name = "You" if side == viewer else self.scene.name_side(side)
        game = self.scene.game
        if game is None or act.offer is None:
            return act.render(name)
        return act.render(name, game.wordings[side].describe(act.offer))

    def render_script(self, viewer: int) -> list[str]:
        """The texts of all acts for a side, and the notice of pending terms at the end."""
        lines = [self.render(said, viewer) for said in self.said]
        notice = self.render_notice(viewer)
        return [*lines[:-1], f"{lines[-1]}\n{notice}"] if notice else lines


def _mark_asked(talk: Talk, side: int, pending: Pending) -> Talk:
    """The talk after a side's act that says nothing about the pending terms."""
    return talk._replace(pending=pending._replace(asked=pending.asked or pending.free[side]))


def _apply_statement(
    talk: Talk, side: int, terms: Deal | None, *, withdraws: bool, firm: bool
) -> Talk:
    """The talk, without pending terms, after a side has accepted, proposed or withdrawn terms."""
    did, offered = talk.did, talk.standing[1 - side]
    takes = did == "acceptance" or (did == "offer" and terms == offered)
    if takes and offered is not None:
        return _accept(talk, side, offered, firm=firm)
    if did == "offer" and terms is not None:
        return _propose(talk, side, terms, firm=firm)
    return _withdraw(talk, side) if withdraws else talk


def _confirm(talk: Talk, side: int) -> Talk:
    """The talk after a side has confirmed the pending terms."""
    if talk.pending is None:
        return talk
    free = (side == 1 and talk.pending.free[0], side == 0 and talk.pending.free[1])
    if any(free):
        return talk._replace(pending=talk.pending._replace(free=free), fresh=True)
    return _bind(talk, talk.pending.deal, talk.pending.accepted_by)


def _accept(talk: Talk, side: int, deal: Deal, *, firm: bool) -> Talk:
    """The talk after a side has accepted the other's terms."""
    loose = {side: not firm, 1 - side: not talk.firm[1 - side]}
    if any(loose.values()):
        return talk._replace(pending=Pending(deal, side, (loose[0], loose[1])), fresh=True)
    return _bind(talk, deal, side)


def _bind(talk: Talk, deal: Deal, side: int) -> Talk:
    return talk._replace(pending=None, agreed=deal, accepted_by=side)


def _propose(talk: Talk, side: int, deal: Deal, *, firm: bool) -> Talk:
    standing = (deal, talk.standing[1]) if side == 0 else (talk.standing[0], deal)
    made = (firm, talk.firm[1]) if side == 0 else (talk.firm[0], firm)
    return talk._replace(standing=standing, firm=made, fresh=True)


def _withdraw(talk: Talk, side: int) -> Talk:
    """The talk without a side's proposal."""
    standing = (None, talk.standing[1]) if side == 0 else (talk.standing[0], None)
    firm = (False, talk.firm[1]) if side == 0 else (talk.firm[0], False)
    return talk._replace(standing=standing, firm=firm)


def _find_terms(talk: Talk, side: int, act: Act) -> Deal | None:
    """The terms in an act."""
    game = talk.scene.game
    if act.offer is not None or game is None or act.kind != "speak":
        return act.offer
    digits = any(map(str.isdigit, act.argument))
    return game.wordings[side].read_deal(act.argument) if digits else None


def _classify_act(talk: Talk, side: int, act: Act) -> tuple[str, Deal | None, bool]:
    """The class of an act, its terms, and whether it withdraws its side's proposal."""
    if act.offer is not None:
        return "offer", act.offer, False
    if act.accept is not None:
        return "acceptance" if act.accept else "refusal", None, not act.accept
    game = talk.scene.game
    if act.kind != "speak" or game is None:
        return "talk", None, False
    wording = game.wordings[side]
    offered = talk.pending.deal if talk.pending else talk.standing[1 - side]
    heard = read_line(
        act.argument,
        wording.read_deal,
        offered,
        words="" if offered is None else wording.describe(offered),
        fresh=talk.fresh,
        by_asking=game.asks,
    )
    return heard.kind, heard.terms, heard.withdraws
