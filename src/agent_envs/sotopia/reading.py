"""Reading: classifies a line of a negotiation: offer, accept, refuse, ask, hedge or `unclear`.

By rules of English: each clause is classified by its predicate, polarity, modality and mood, and a
line by the combination of its clauses. If the rules cannot decide, it is `unclear`. Words that are
read here are not binding by themselves (`talk`). Not detected: irony, and implied acceptance.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.sotopia.english import Lexicon, normalize_clauses, split_clauses, write_out

if TYPE_CHECKING:
    from agent_envs.sotopia.english import Clause
    from agent_envs.sotopia.scene import Deal

KINDS = ("offer", "acceptance", "refusal", "hedge", "question", "unclear", "talk")
"""The classes of lines; `talk` is everything that is not about the terms."""


class Reading(NamedTuple):
    """The class of a line, the terms that it proposes or repeats, and whether it withdraws."""

    kind: str
    terms: Deal | None = None
    withdraws: bool = False


_LEXICON = Lexicon("reading")
_FILLER = _LEXICON.pattern("filler")
_AFFIRMS = _LEXICON.pattern("affirms")
_LEADING = _LEXICON.pattern("leading")


_ACCEPTS = _LEXICON.pattern("accepts")
_SUITS = _LEXICON.pattern("suits")
_PRAISES = _LEXICON.pattern("praises")
_GRANTS = _LEXICON.pattern("grants")

_REFUSES = _LEXICON.pattern("refuses")
_NEGATED = _LEXICON.pattern("negated")
_NEUTRAL = _LEXICON.pattern("neutral")

_HEDGES = _LEXICON.pattern("hedges")
_STALLS = _LEXICON.pattern("stalls")
_CONDITIONS = frozenset({
    "if", "unless", "provided", "provided that", "assuming", "once", "as long as", "so long as",
    "only if", "on condition that", "even if",
})  # fmt: skip
_VACUOUS = _LEXICON.pattern("vacuous")

_FIGURE = _LEXICON.pattern("figure")
_SUGGESTS = _LEXICON.pattern("suggests")
_SUGGESTS_ALL = _LEXICON.pattern("suggests_all")
_ASKED = _LEXICON.pattern("asked")
_VERB = _LEXICON.pattern("verb")
_PROPOSES = _LEXICON.pattern("proposes")
_EXCHANGE = _LEXICON.pattern("exchange")
_LIMIT = _LEXICON.pattern("limit")
_REPORTS = _LEXICON.pattern("reports")
_REMARKS = _LEXICON.pattern("remarks")
_WITHDRAWS = _LEXICON.pattern("withdraws")
_OPINION = _LEXICON.pattern("opinion")
_CLOSING = _LEXICON.pattern("closing")


_BARE = _LEXICON.pattern("bare")
_PUTS = _LEXICON.pattern("puts")
_OTHERS = _LEXICON.pattern("others")
_EXCEPTS = frozenset({"but", "except", "except that"})
_EXCEPTED = re.compile(
    r"\b(?:any|every|all|each|no|whole|anything|nothing|whenever|always|anytime|everything)\b"
    r"(?: \w+){0,3}$"
)
_LISTING = frozenset({"propose", "grant", "accept", "suggest", "named"})
_ABOUT_ONE = frozenset({"propose", "limit", "accept", "praise", "grant", "commit", "named", "note"})


_DONE = (
    "take|give|pay|cook|walk|help|teach|drive|do|bring|mind|lend|get|keep|leave|clean|fix|repair"
    "|weed|water|stop|buy|share|lose|wash|paint|carry|look|let|stay|come|tell|cover|throw|drop"
)
_MINE = re.compile(rf"(?:then )?i (?:(?:will|would|can|could)(?! be\b)|{_DONE})\b")
_YOURS = re.compile(
    rf"(?:then )?(?:you (?:can|could|will|would|{_DONE})|(?:can|could|would|will) you"
    rf"|(?:{_DONE}) )\b"
)
_COMMITS = re.compile(r"^(?:then )?(?:i|we)(?: will|ll| am| are| shall)\b")
_BARE_LIMIT = re.compile(
    r"no (?:more|less|higher|lower|further)|tops|at most|at least"
    r"|not (?:a|one) (?:penny|cent|dollar) (?:more|less)"
)
_DECIDES = re.compile(
    r"(?:yes|yep|aye|certainly|of course|absolutely|gladly|definitely|by all means|sure)\b"
)
_BEFORE_NO = (("hedge", _HEDGES), ("stall", _STALLS), ("refuse", _REFUSES))
_AFTER_NO = (
    ("grant", _GRANTS), ("report", _REPORTS), ("propose", _PROPOSES), ("praise", _PRAISES),
    ("commit", _COMMITS),
)  # fmt: skip
_NAMING = frozenset(
    "propose suggest limit accept grant affirm named echo praise commit close".split()  # noqa: SIM905
)
_SAID = {"refuse": "refusal", "hedge": "hedge", "accept": "acceptance", "other": "unclear"}
_UNDER_CONDITION = {"refusal": "refusal"} | dict.fromkeys(
    ("hedge", "acceptance", "unclear", "weak"), "hedge"
)
_FIGURED = re.compile(r"\$?\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day")
_HALF_A_DAY = 12
_YES = frozenset({"accept", "affirm", "grant", "praise"})

Done = tuple[tuple[str, "Clause"], ...]
"""The classes of a line's clauses.

accept, suit, affirm, grant, praise: acceptance, from plain to weak ("suit": figures are fine).
refuse, hedge, stall, ask: as named. suggest, propose, limit, named, echo: terms, as a suggestion, a
proposal, a limit, a mere name, or repeated as a question. reason, report, commit, close, note: a
because-clause, others' deeds, one's own plans, a thank-you, and everything else.
"""


@lru_cache(maxsize=8192)
def classify_clauses(line: str) -> Done:
    """The clauses of a line with the class of each."""
    return tuple(
        zip(map(_classify_clause, normalize_clauses(line)), split_clauses(line), strict=True)
    )


@lru_cache(maxsize=8192)
def _classify_clause(clause: Clause) -> str:
    text = clause.text
    if clause.link in ("because", "since", "as") and not clause.question:
        return "reason"
    lead = _FILLER.match(text)
    core = text[lead.end() :] if lead and lead.end() < len(text) else text
    if clause.question:
        return _classify_question(core)
    if _AFFIRMS.fullmatch(core):
        return "affirm"
    if _CLOSING.fullmatch(core):
        return "close"
    lead = _LEADING.match(core)
    stated = _classify_statement(
        core[lead.end() :] if lead else core, conditional=clause.link in _CONDITIONS
    )
    return "affirm" if lead and stated == "close" else stated


def _classify_question(core: str) -> str:
    """The class of a question: it suggests, names something, or asks."""
    if _SUGGESTS.search(core) and (_FIGURE.search(core) or _SUGGESTS_ALL.search(core)):
        return "suggest"
    if _FIGURE.search(core) and not _VERB.search(core):
        return "echo"
    told = not _ASKED.match(core) and _PROPOSES.search(core)
    return "suggest" if told and not _REPORTS.search(core) else "ask"


def _classify_statement(core: str, *, conditional: bool) -> str:
    """The class of a statement."""
    if _OPINION.search(core):
        return "note"
    if not conditional and _is_acceptance(core):
        return "suit" if _FIGURED.match(core) else "accept"
    if _LIMIT.search(core) and (_FIGURE.search(core) or _BARE_LIMIT.fullmatch(core)):
        return "limit"
    for kind, phrases in _BEFORE_NO:
        if phrases.search(core):
            return kind
    if _NEGATED.search(core):
        return "note" if _NEUTRAL.search(core) else "refuse"
    return _classify_affirmation(core)


def _classify_affirmation(core: str) -> str:
    """The class of a statement without an opinion, an acceptance, a limit or a negation."""
    for kind, phrases in _AFTER_NO:
        if phrases.search(core):
            return kind
    return "named" if _FIGURE.search(core) and not _VERB.search(core) else "note"


def _is_acceptance(core: str) -> bool:
    """Whether a clause accepts, without a denial or doubt.

    A negation inside an idiom such as "can not say no" does not count.
    """
    if _ACCEPTS.search(core):
        rest = _ACCEPTS.sub("", core)
    elif _SUITS.search(core):
        rest = core
    else:
        return False
    return not _NEGATED.search(rest) and not _HEDGES.search(rest)


def read_line(
    line: str,
    terms: Callable[[str], Deal | None],
    offered: Deal | None = None,
    *,
    words: str = "",
    fresh: bool = True,
    by_asking: bool = False,
) -> Reading:
    """Classify a line, given the other's open offer `offered`.

    Args:
        line: The line.
        terms: Extracts the terms in a text, None for none.
        offered: None for no open offer.
        words: The open offer in words, with the figures that a line may accept.
        fresh: Whether the other has just made that offer; otherwise a single "yes" answers
            something else.
        by_asking: Whether every question proposes the terms in it.
    """
    done = tuple(
        ((_compare_figures(clause, words) if kind == "suit" else kind), clause)
        for kind, clause in classify_clauses(line)
    )
    if offered is None:  # nothing can be granted, so it is a proposal
        done = tuple(("propose" if kind == "grant" else kind, clause) for kind, clause in done)
    exchanged = _has_exchange(done)
    found = _find_terms(done, terms, puts=by_asking or exchanged, asks=by_asking)
    withdraws = any(_WITHDRAWS.search(clause.text) for _, clause in done)
    if withdraws:
        kind = "offer" if found is not None and found != offered else "refusal"
    else:
        kind = _classify_line(done, found, offered, fresh=fresh, exchanged=exchanged)
    return Reading(kind, found if kind in ("offer", "acceptance") else None, withdraws)


def _compare_figures(clause: Clause, words: str) -> str:
    """Whether the accepted figures are those of the open offer: "ten is fine"."""
    figures = {int(number) for number in re.findall(r"\d+", clause.text)[:1]}
    open_ones = {int(number) for number in re.findall(r"\d+", write_out(words))}
    clock = {number - _HALF_A_DAY for number in open_ones}
    return "accept" if not words or figures <= open_ones | clock else "other"


def _find_terms(
    done: Done, terms: Callable[[str], Deal | None], *, puts: bool, asks: bool
) -> Deal | None:
    """The terms in the clauses of a line that may propose.

    puts: whether all clauses may; asks: whether questions may, too.
    """
    kinds = {kind for kind, _ in done}
    naming = set(_NAMING)
    if asks:
        naming.add("ask")
    if not kinds & {"refuse", "ask", "hedge", "stall"}:
        naming.add("note")
    if "refuse" in kinds:
        naming -= {"echo", "close", "commit"}
    named, put = [], False
    for place, (kind, clause) in enumerate(done):
        put = puts or _can_propose(done, place, follows=put)
        if put and (kind in naming or (kind == "note" and _is_fragment(clause))):
            named.append(_REMARKS.sub("", clause.spelt))
    return terms(", ".join(named)) if named else None


def _is_fragment(clause: Clause) -> bool:
    """Whether a clause is a fragment that adds to others, such as "for guitar lessons"."""
    return clause.text.startswith("for ") and not _VERB.search(clause.text)


def _can_propose(done: Done, place: int, *, follows: bool) -> bool:
    """Whether a clause may propose terms: not others' deeds, the past, or an exception.

    follows: whether the previous clause proposes.
    """
    kind, clause = done[place]
    if place and clause.link in _EXCEPTS and _EXCEPTED.search(done[place - 1][1].text):
        return False
    if kind not in _ABOUT_ONE or clause.link == "if":
        return True
    text = clause.text.removeprefix("please ")
    if kind == "note" and not _PUTS.search(text):
        return not _FIGURE.search(text)  # such as "no dinner" beside the hours
    if kind == "named":
        return _is_named_proposal(done, place, text, follows=follows)
    return not _OTHERS.search(text)


def _is_named_proposal(done: Done, place: int, text: str, *, follows: bool) -> bool:
    """Whether a clause that only names terms proposes them.

    It does by its own words, as the next of a list, or with what either side does then in the next
    clause: "3 hours, and I cook".
    """
    last, before = done[place - 1] if place else ("", None)
    if _BARE.fullmatch(text) or _PUTS.search(text):
        others = before is not None and _OTHERS.search(before.text)
        return not (others or _OTHERS.search(text))
    after = done[place + 1][1].text if place + 1 < len(done) else ""
    return (follows and last in _LISTING) or bool(_EXCHANGE.match(after))


def _classify_line(
    done: Done, found: Deal | None, offered: Deal | None, *, fresh: bool, exchanged: bool
) -> str:
    """The class of a line by the classes of its clauses and its terms."""
    kinds = {kind for kind, _ in done}
    said, restated = _find_decision(done), found is not None
    suggests = "suggest" in kinds or (said != "acceptance" and exchanged)
    if restated and found != offered:
        return "hedge" if said == "hedge" and not suggests else "offer"
    if suggests:
        return "question" if restated else "offer"
    if any(_is_conditional(clause) for _, clause in done):
        answer = _answer_on_condition(done, kinds, said)
    else:
        answer = _find_answer(kinds, said, offered, fresh=fresh, restated=restated)
    return answer or _classify_undecided(
        kinds, restated=restated, answered=fresh and offered is not None
    )


def _is_conditional(clause: Clause) -> bool:
    """Whether a clause states a condition, other than an empty one such as "if you like"."""
    states = clause.link in _CONDITIONS and not clause.question
    return states and not _VACUOUS.search(clause.text)


def _answer_on_condition(done: Done, kinds: set[str], said: str) -> str:
    """The class of a line with a condition: never an acceptance; "" for one without an answer."""
    if said:
        offers = said == "acceptance" and "propose" in kinds
        return "offer" if offers else _UNDER_CONDITION[said]
    trades = "propose" in kinds or any(_EXCHANGE.search(clause.text) for _, clause in done)
    return "offer" if trades else ""


def _find_answer(
    kinds: set[str], said: str, offered: Deal | None, *, fresh: bool, restated: bool
) -> str:
    """The answer in a line without a condition; "" for none, and for a weak one to another act."""
    if said == "acceptance" and offered is None and "propose" in kinds:
        return "offer"
    if said in ("acceptance", "refusal", "hedge"):
        return said
    return _weigh_yes(kinds, said, restated=restated) if said and (fresh or restated) else ""


def _classify_undecided(kinds: set[str], *, restated: bool, answered: bool) -> str:
    """The class of a line that neither accepts nor refuses nor hedges.

    Repeating the open terms accepts them, unless something else is said, too. A line with only
    one's own plans may be an acceptance.
    """
    if kinds & {"ask", "echo", "stall"}:
        return "question"
    if restated:
        return "unclear" if kinds & {"note", "commit"} else "acceptance"
    if "commit" in kinds and answered:
        return "unclear"
    return "offer" if kinds & {"propose", "limit"} else "talk"


def _has_exchange(done: Done) -> bool:
    """Whether a line proposes an exchange: "take my mother if I take your boys"."""
    if not any(clause.link == "if" or clause.joined for _, clause in done):
        return False
    if any(kind == "hedge" for kind, _ in done):
        return False
    texts = [clause.text for kind, clause in done if kind != "refuse"]
    return any(map(_MINE.match, texts)) and any(map(_YOURS.match, texts))


def _find_decision(done: Done) -> str:
    """The last acceptance, refusal or hedge; "weak" if there is only a weak yes.

    A weak yes after a no is unclear, unless it is the conclusion: "..., so yes".
    """
    said = ""
    for kind, clause in done:
        if kind in _SAID:
            said = _SAID[kind]
        elif kind in _YES:
            concludes = clause is done[-1][1] or clause.joined == "so" or clause.link == "but"
            if kind == "affirm" and concludes and _DECIDES.match(clause.text) and len(done) > 1:
                said = "hedge" if said == "hedge" else "acceptance"
            else:
                said = "unclear" if said == "refusal" else said or "weak"
    return said


def _weigh_yes(kinds: set[str], said: str, *, restated: bool) -> str:
    """Whether a weak yes counts: only if all other clauses support it."""
    if "affirm" in kinds or restated or kinds <= {"grant", "close", "propose", "named"}:
        others = kinds - _YES - {"close", "reason", "named", "commit", "echo"}
        if not others or (restated and others <= {"note", "propose"}):
            return "acceptance" if said == "weak" else "unclear"
    if kinds & {"ask", "stall"}:
        return "question"
    return "unclear" if kinds & {"affirm", "grant"} else "talk"
