"""Reading: what a line of a negotiation does - offer, accept, refuse, ask, hedge - or `unclear`.

Rules of English: each clause is read by its predicate, its polarity, its modality and its mood, and
a line by what its clauses do together. What the rules cannot decide is `unclear`. Nothing that is
read here binds by itself (`talk`). Left out: irony, and acceptance that only a story implies.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.sotopia.english import clauses

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_envs.sotopia.english import Clause
    from agent_envs.sotopia.scene import Deal

KINDS = ("offer", "acceptance", "refusal", "hedge", "question", "unclear", "talk")
"""What a line can do; `talk` is everything that is not about the terms."""


class Reading(NamedTuple):
    """What a line does, the terms that it proposes or repeats, and whether it takes some back."""

    kind: str
    terms: Deal | None = None
    withdraws: bool = False


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


# What may stand around the words that matter.
_FILLER = re.compile(
    r"(?:(?:oh|ah|aye|well|so|then|now|hey|look|listen|right|hm+|huh|honestly|frankly|really|and"
    r"|actually|sir|madam|my friend|friend|please|thanks|cheers|in that case|at last|there you go"
    r"|you know what|tell you what|i say|just)\b[\s,]*)+"
)
_AFFIRM = (
    r"(?:yes|yep|yeah|yup|yay|aye|ok|sure(?: thing)?|fine|great|perfect|excellent|wonderful|lovely"
    r"|splendid|brilliant|super|good|cool|awesome|marvellous|certainly|absolutely|definitely"
    r"|of course|by all means|gladly|with pleasure|very well|fair enough|why not|you bet|no problem"
    r"|no worries|go on|go ahead|totally|exactly|naturally|happily|indeed|right you are"
    r"|what the hell|ideal|agreeable|acceptable|reasonable|fair)"
)
_AFFIRMS = re.compile(rf"{_AFFIRM}(?:[\s,]+(?:{_AFFIRM}|then|thanks|it is|to that|with me|by me))*")
_LEADING = re.compile(
    rf"(?:(?:yes|yep|yeah|aye|ok|sure|fine|great|very well|fair enough|go on|right|perfect)\s+)+"
    r"(?=(?:i|you|we|it|that|this|then|let|deal|thanks)\b)"
)

_GOOD = (
    r"(?:fine|good|great|perfect|ok|fair|excellent|wonderful|lovely|splendid|brilliant|ideal|nice"
    r"|reasonable|acceptable|agreeable|delightful|marvellous|fantastic|terrific|super|cool|right"
    r"|generous|decent|alright|grand|beautiful|convenient|doable|a deal|a bargain|a plan|a yes"
    r"|music to my ears|more like it|enough|settled|agreed|a swap|spot on|no trouble|no bother)"
)
_VERY = r"(?:(?:very|so|more than|just|absolutely|perfectly|really|all|quite|totally|entirely|only|pretty|completely|simply|certainly|most|truly|indeed)\s+)*"

# Accepting: performatives and idioms that do it whatever stands around them.
_ACCEPTS = _any(
    r"^(?:it is |that is |that would be |we have (?:got )?(?:ourselves )?|you have (?:got )?(?:yourself )?|done and |then |consider it )?(?:a |an )?(?:done )?(?:deal|agreement)(?: it is| then| done| indeed)?(?: at that| on that| for that)?$",
    r"\b(?:we|you)(?: have|'ve)?(?: got)?(?: ourselves| yourself)? an? (?:deal|agreement|bargain|buyer|taker|donor|helper|date)\b",
    r"^you have got (?:me|us|yourself .*|a (?:deal|buyer|taker))$",
    r"^(?:it is a |that is a )?(?:deal|done|sold|agreed|accepted|settled)(?: (?:then|to you|to that|at that|and done|on all counts|with pleasure|for|at|on)\b.*)?$",
    r"^(?:it is|that is|then it is|consider it|consider that|all) (?:done|sold|agreed|accepted|settled|a deal)\b",
    r"\bi(?: do| hereby| gladly| happily| fully| absolutely| completely| totally| will| would)*(?: agree| accept)(?: (?:to|with|on) (?:that|it|this|your|the|these|those|all|every|\$?\d)\b.*| that| it| this| your (?:offer|terms|proposal|price)\b.*| the (?:offer|terms|proposal|price|deal)\b.*| gladly| happily| fully| completely| then)?$",
    r"\bi am (?:in agreement|agreed|in|game|on board|sold|all for it|all in|up for (?:it|that)|down(?: for (?:it|that))?|with you(?: on that)?)$",
    r"\b(?:count|sign|deal) (?:me|us) (?:in|up)\b",
    r"\b(?:put|write|pencil) (?:me|us) down\b",
    r"\byou(?: can| may) count (?:on|me)\b",
    r"\byou are on\b(?! (?:time|your|the list))",
    r"\byou have (?:got )?(?:my word|convinced me|persuaded me|talked me into it|won me over|sold me|twisted my arm|got me)\b",
    r"\byou (?:win|twist my arm)\b",
    r"\b(?:shake|shaken?) (?:on it|on that|hands|my hand)\b",
    r"\b(?:where do i sign|wrap it up|ring it up|pack it up|load it up|say no more|that is that)\b",
    r"\b(?:let us|we will|i will) (?:do (?:it|that|this)|go (?:with|for) (?:that|it|this)|go ahead|settle on that|leave it at that|call it (?:settled|done|a deal)|shake|swap|seal (?:it|the deal))\b",
    r"^let us$",
    r"\bwe go (?:with|for) (?:it|that)\b",
    r"\bi(?: am (?:going to|happy to|glad to|pleased to|delighted to)| will| can| would)?(?: gladly| happily| certainly| definitely| have to| must)? (?:say|saying) yes\b(?! to more)",
    r"\bi am saying yes\b",
    r"\b(?:i|we)(?: will| can| would| am going to| are going to)?(?: gladly| happily| certainly| definitely| just)*(?: take| have| buy) (?:it|that|them|both|this)(?: (?:then|gladly|for that|at that|for \$?\d+|at \$?\d+|off your hands|with pleasure|off you|now|please|on|too))*$",
    r"\bwe are taking it\b",
    r"\b(?:i|we) (?:will|shall)(?: gladly| happily| certainly| definitely| then)? (?:do it|do that|come|be there|help(?: you)?(?: out| with)?|give (?:that|it|you that)|join|drive you|pay (?:that|it|you that)|be (?:round|over)|go along with (?:it|that|you)|meet you(?: then| there))\b",
    r"\b(?:i|we) can (?:live|work|get along) with\b",
    r"\b(?:i|we) can (?:do|manage|make|get behind|accept|agree to|afford|spare|give|pay|commit to) (?:that|it|this|\$?\d+|\w+day)\b",
    r"\b(?:can|could) (?:not|hardly) (?:say no|refuse|argue|complain|object|ask for more|ask for better|wait|fault|be happier|agree more|resist|turn (?:that|it|this|you) down)\b",
    r"\b(?:will|would|shall) not (?:say no|refuse|argue|complain|object|push you|stand in (?:your|the) way|haggle|hear another word)\b",
    r"\b(?:silly|foolish|crazy|mad|stupid|a fool) (?:to say no|to refuse|not to)\b",
    r"\b(?:no|any|nothing|not a single|not one|without) (?:objections?|complaints?|quarrels?|reasons? to (?:say no|refuse|drag)|arguments?|to add)\b",
    r"\b(?:do|would) not mind (?:that|it|at all|\$?\d+)\b",
    r"\bdo not have to ask (?:me )?twice\b",
    r"\b(?:it|that|the \w+|they|both|all|the rest) (?:is|are)(?: all| now)? yours\b(?! (?:if|when|once|as soon))",
    r"^yours\b(?: for| at| then)?",
    r"\b(?:it|that) is a (?:date|deal|plan|swap|bargain|yes)\b",
    r"\bi am (?:\w+ )?(?:happy|glad|pleased|delighted|content|satisfied|ok|fine|comfortable|cool|good) (?:with (?:that|it|this|the|your|these|those|\$?\d+|how)|to (?:accept|agree|give|do|help|come|take|pay|go along|say yes|sign|join))",
    r"\bi (?:will|would|shall) be (?:\w+ )?(?:happy|glad|pleased|delighted|honoured) (?:with (?:that|it|this)|to)\b",
    r"\b(?:it|that) would be (?:my|a|our) pleasure\b",
    r"\bi would (?:love|like) (?:that|to|it|nothing better|nothing more)(?: very much| a lot)?$",
    r"\bi would love that\b",
    r"\b(?:consider|take) it (?:as )?(?:done|sold|settled|agreed|a deal|yours)\b",
    r"^(?:\w+ )?(?:\$?\d+|\w+day|\w+|\w+ \w+|\w+ at \d+)(?: \w+){0,3} it (?:is|shall be|will be)(?: then)?$",
    r"\bin (?:full |complete |total )?agreement\b",
    r"\bapology accepted\b",
    r"\b(?:see|meet) you (?:then|there|at|on|\w+day|tomorrow|next)\b",
    r"\bi will (?:get|fetch|grab|bring|dig out) (?:my|the) (?:wallet|purse|money|cash|coat|keys)\b",
    r"\blet me get my (?:wallet|purse|coat|keys|money)\b",
    r"\b(?:in|on) my (?:calendar|diary)$",
    r"\bthe pleasure is (?:all )?mine\b",
    r"\bi give in\b",
    r"^(?:take|have) (?:it|them|that|both)(?: (?:then|please|away|with my blessing|and enjoy.*))?$",
    r"\bcan not wait\b",
    r"\bmusic to my ears\b",
)  # fmt: skip
# Accepting: predicates that say that terms suit, with a subject that can be terms.
_TOPIC = (
    r"(?:that|this|which|both|(?:the|your|that|this|my) (?:offer|price|proposal|split|plan|deal|terms|suggestion"
    r"|arrangement|time|day|slot|hour|idea|division|compromise|amount|sum|number|figure|swap|trade|way)"
    r"|\$?\d[\d:.,k]*(?: (?:\w+ ){0,3}\w+)?|\w+days?(?: \w+){0,4}|noon(?: \w+){0,2}|(?:rounding|meeting|splitting|swapping|sharing)(?: \w+){0,3})"
)
_TAIL = r"(?: (?:(?:by|with|for|to) (?:me|us|my \w+|both(?: of us)?|everyone)|then|indeed|thanks|enough|all round|too|really|at \$?\d+|you know|and .*|so .*|in (?:my|our) book))*"
_SUITS = _any(
    rf"^{_TOPIC} (?:is|are|will be|would be|sounds?|seems?|feels?|looks?) {_VERY}(?:a )?{_GOOD}{_TAIL}$",
    rf"^{_TOPIC} (?:will |would |should certainly )?(?:works?|suits?|does|do)(?: it| out| just| very| perfectly| well| fine| nicely| beautifully| great| like a charm| the trick| (?:for |by )?(?:me|us|both of us|everyone|my \w+))*(?: down to the ground| to a t)?$",
    rf"^(?:it |that |this )?(?:is )?{_VERY}(?:{_AFFIRM}|ok|works|suits|all good|{_GOOD}) (?:by|with|for|to) (?:me|us)\b",
    rf"^(?:sounds|seems|looks) {_VERY}(?:{_GOOD}|like a plan|like a deal){_TAIL}$",
    rf"^(?:that|it) (?:sounds|is) like a (?:plan|deal)\b",
    r"^(?:works|suits|does it|will do)(?: for)?(?: me| us)?(?: just fine| fine| nicely| perfectly)?$",
    rf"^i (?:am|would be|will be) {_VERY}(?:happy|glad|pleased|delighted|content|satisfied|ok|fine|comfortable|cool|good) with (?:that|it|this|the (?:rest|others?)|your|these|those|\$?\d)",
    r"\bhad me at\b",
)  # fmt: skip
# Weaker: it may be the thing and not the terms that is praised.
_PRAISES = _any(
    rf"^(?:it|[\w' ]+) (?:is|are|will be|would be|sounds?|seems?|looks?) {_VERY}{_GOOD}{_TAIL}$",
    r"^(?:it|everything) (?:works|suits)\b",
)  # fmt: skip
# Giving what was asked for, taking what was offered: only where it answers an open offer.
_GRANTS = _any(
    r"^you (?:can|may|shall|will|could)(?: absolutely| gladly| certainly| definitely| happily)? (?:have|keep|get|take)\b(?! no| nothing| your)",
    r"^(?:go on,? )?(?:give|hand) me the\b",
    r"^pick me up\b",
    r"^bring (?:the|your|a) \w+",
    r"\bplease sign me up\b",
    r"^i will (?:put|write|mark|note) (?:it|that|you) (?:down|in)\b",
    r"^i have (?:just )?(?:put|written|noted|marked) (?:it|that|you) (?:down|in)\b",
    r"^you shall have (?:it|them|that)\b",
    r"\b(?:you|one) (?:shall|will) have(?: it)?$",
)  # fmt: skip

# Refusing, whatever stands around.
_REFUSES = _any(
    r"^(?:absolutely |definitely |certainly |of course |sorry |thanks but |thanks |hell |oh )*(?:no|nope|nah|never|no way|no thanks|no deal|no chance|no sale|no sir|not a chance|not (?:this|for|at|on|with|in|today|now|\w+day|ever|really|interested|happening|going)\b.*|hard pass|pass|forget it|dream on|hardly|out of the question|impossible|no can do|absolutely not|certainly not|not at all|no dice|unacceptable|rubbish|nonsense)(?: (?:sorry|thanks|sir|madam|way|and once more no|no|never|my friend|from me|deal|then|ever))*$",
    r"\b(?:no|not a|not an?) (?:deal|way|thanks|chance|sale|thank you|dice|use|good|fair|go|offer|bargain)\b(?! (?:to|not))",
    r"\b(?:i|we|must|have to|will|would|am going to|are going to|rather|to|respectfully|firmly|flatly)(?: have to| must| will| would| rather)? (?:refuse|decline|reject|pass|object|disagree|say no|saying no|turn (?:that|it|you|this) down|walk away|be going|look elsewhere|draw the line)\b",
    r"\b(?:am|are) (?:saying no|against|out|booked|busy|away|tied up|unavailable|occupied|done|off|taken|engaged|broke|skint|short of|on holiday|in court|at work|working|fully booked|double-booked|swamped|snowed under)\b",
    r"\b(?:count me out|leave me out|keep (?:it|your|them)|forget (?:it|about it|that)|dream on|nice try|get lost|get real|be serious|think again|try again|over my dead body|in your dreams|that is where i draw the line|find someone else|ask someone else|not in a million|good luck with)\b",
    r"\b(?:too|way too|far too|a bit|rather|pretty|quite|a little|very|awfully|terribly) (?:much|little|low|high|steep|early|late|long|short|few|many|expensive|dear|cheap|far|tight|pricey|soon|hard|heavy|costly|one-sided|stingy|big|small|greedy|mean|rich)\b",
    r"\b(?:beyond|above|over|outside|out of|past|exceeds) (?:of )?(?:my|our|what) (?:budget|means|range|reach|limit|league|price|i can|we can|pocket|power|possibilities|hands)\b",
    r"\b(?:more|less|fewer|lower|higher|later|earlier|worse) than (?:i|we|it|what|that|my|our|twice|half|half of)\b",
    r"\b(?:unacceptable|outrageous|absurd|insulting|an insult|a joke|a rip-?off|robbery|ridiculous|laughable|impossible|unfair|unreasonable|out of the question|off the table|a non-starter|a no(?: from me)?|peanuts|daylight robbery|sacred|useless)\b",
    r"\b(?:i|we) (?:wish (?:i|we) could|would rather|would sooner|would prefer|would lose|would have to be mad|have (?:got )?(?:a|an|another|other) (?:\w+ )?(?:appointment|meeting|commitments?|plans?|engagement|class|shift)|would be giving it away|would be (?:mad|crazy|a fool|robbed|ruined))\b",
    r"\b(?:who do you take me for|are you kidding|you are kidding|you must be (?:joking|kidding|mad)|are you out of your mind|you are joking)\b",
    r"\b(?:clash(?:es)?|conflicts?|overlaps?|interferes?) with\b",
    r"\b(?:asking|want|expect|demand|charging) (?:for )?(?:way |far )?too much\b",
    r"\b(?:hold on to|hang on to|keep looking|shop around|go elsewhere|take my (?:money|business) elsewhere)\b",
    r"\bno (?:use|good|better|interest|garden|desire|intention|room|money|time|need|point|way around)\b",
    r"\bhardly\b",
    r"\bbank account says no\b",
    r"\bi never (?:give|do|have|eat|drink|work|lend|sign|buy|pay|go|take|help)\b",
)  # fmt: skip
_NEGATED = re.compile(
    r"\b(?:not|never|nothing|nobody|none|neither|nor|nowhere|hardly|scarcely|barely|unable"
    r"|far from|anything but)\b"
)
# Negations of the other side's matter, that refuse nothing by themselves.
_NEUTRAL = _any(
    r"\bnot only\b", r"\bwhy not\b", r"\bif not\b", r"\bnot (?:just|least)\b", r"\bor not\b",
    r"\bdo not (?:worry|mention|hesitate|get me wrong|forget|tell|let me|rush|you|we|they)\b",
    r"\bnot (?:a|one) (?:cent|penny|dollar|word)\b", r"\bcan not (?:help|believe)\b",
    r"\bno (?:more|less|fewer|later|earlier) than\b", r"\bnot because\b", r"\bno matter\b",
    r"\bdid not (?:think|expect|know)\b", r"\bnothing is\b", r"\bnothing else\b",
    r"\bis it not\b", r"\bdo you not\b", r"\byou (?:will not|would not|do not have|do not need|need not)\b",
    r"\b(?:i )?thought you would never\b", r"\bnot complaining\b", r"\bnot in the mood to\b",
)  # fmt: skip

_HEDGES = _any(
    r"\b(?:maybe|perhaps|possibly|probably|potentially|conceivably|supposedly|presumably|perchance|theoretically)\b",
    r"\b(?:might|may)\b(?! (?:i|it|we|the)\b)",
    r"\bshould (?:be (?:ok|fine|possible|able|doable|good)|work|suit)|could (?:be|work|suit|do us|imagine|see myself|live|get used|probably|perhaps|possibly|be talked|be persuaded|consider|well|maybe|have been|go either)\b",
    r"\b(?:not|never|hardly) (?:\w+ )?(?:sure|certain|convinced|decided|there yet|ready to (?:say|decide|commit)|know|a yes|saying (?:no|yes)|committing|promise|promising|guarantee|swear|commit|bet|made up|rule|ruling|ruled|out of the question|impossible|unthinkable|unfair|unreasonable|bad|the worst|far|dislike|against|object|opposed|tell|decide|a definite|totally|completely unfair|yet)\b",
    r"\b(?:i|we) (?:guess|suppose|imagine|reckon so|think so|hope so|am hoping|am inclined|am tempted|am thinking|am considering|am leaning|am half|am almost|am nearly|am starting|am close|doubt)\b",
    r"\b(?:am|are|be|feel|is) (?:\w+ ){0,2}(?:tempted|tempting|inclined|torn|undecided|unsure|leaning|considering|hesitant|open to|thinking (?:about|over)|warming|wavering|interested|curious|intrigued|of two minds|in two minds|neither for|skeptical|sceptical|possible|promising|interesting|intriguing)\b",
    r"\b(?:tempted|tempting|two minds|half a mind|half inclined|on the fence|mixed feelings|in principle|in theory|on paper|at first glance|to some extent|more or less|something like that|either way|most likely|quite possible|a possibility|an option|a stretch|within shouting distance|in the ballpark|on to something|food for thought)\b",
    r"\b(?:let me|i will|i would|i have to|i need to|i want to|i must|we will|we have to|we would|i am going to)(?: (?!not\b|never\b|you\b)\w+){0,3} (?:think|consider|mull|ponder|chew|check|ask|see|sleep|discuss|talk (?:to|it|with|about)|consult|confirm|weigh|reflect|look (?:at|into|over|around)|hear (?:what|from|back)|get back|know more|decide|compare|wait|turn it over|read|try|find out|run it by|text you|let you know)\b",
    r"\b(?:i will|let me) (?:see|try|let you know|text you|confirm|consider it|think|ponder)\b",
    r"\bi would (?:probably|need to|have to|want to|be open|be inclined|be tempted|consider|like to (?:know|think|see|hear))\b",
    r"\b(?:think it over|think about|sleep on|mull it|get back to you|let you know|we will (?:have to )?see|it depends|depends on|depending on|(?<!not )ask me (?:again|later)|another time|some day|(?<!the )one day|give me (?:some|a|until|till)(?: \w+)? ?(?:time|while|day|night|week|tomorrow|moment to think)?|need (?:some |more |a little )?time|for now|at the moment|not yet|keep it in mind|bear it in mind|hold me to|make up my mind|made up my mind)\b",
    r"\b(?:getting|you are|we are|it is) (?:warmer|closer|close|nearly there|almost there|getting there|growing on me|near)\b",
    r"\bgrowing on me\b", r"\bcloser to\b", r"\bgetting (?:closer|warmer|there|somewhere|better)\b",
    r"\b(?:an idea|a thought|an interesting|some merit|a decent offer|something to (?:that|think)|something in that|have a point|worth (?:a thought|considering|thinking|discussing))\b",
    r"\b(?:my gut|my heart|part of me|my head) says\b",
    r"\b(?:do not know|can not (?:say(?! no)|tell|promise|decide|commit|guarantee|be sure)|hard to say|who knows|no idea|idk|dunno)\b",
    r"\b(?:much as i would like|would like to help|want to believe|hoping to|hope to|try to|try my best)\b",
    r"\b(?:could|would) be (?:talked|persuaded|convinced|worse|interesting|possible|doable|hard)\b",
    r"\b(?:looks|seems|sounds) (?:possible|tempting|promising|interesting|manageable|doable|intriguing|likely|feasible|good at first)\b",
    r"^h+m+$",
    r"\bunless\b",
    r"\b\w+ish on\b",
    r"\bmore yes than no\b",
    r"\b(?:almost|nearly|not quite|half) (?:ready|there|convinced|sold|persuaded)\b",
)  # fmt: skip
_STALLS = _any(
    r"\b(?:hold on|hang on|wait|one moment|just a (?:moment|second|minute|sec)|bear with me|give me a (?:moment|second|minute|sec)|i am listening|go on|tell me more|let me (?:just )?(?:pull up|look|do the sums|get my|fetch my|find my|calculate|work (?:it|that) out|grab my))\b",
)  # fmt: skip
_CONDITIONS = frozenset(
    "if unless provided assuming once".split()
    + ["provided that", "as long as", "so long as", "only if", "on condition that", "even if"]
)
_VACUOUS = _any(
    r"^(?:you (?:insist|say so|like|want|wish|really want|do not mind|must|ask me|are sure|prefer)"
    r"|i may(?: \w+)*|it is (?:all the same|ok|all right|\$?\d+)|that is (?:really )?(?:your|the|all|ok|what)"
    r"|not|possible|anything|i (?:had|were|was) |i remember|i must|i am honest)"
)

# Proposing.
_FIGURE = re.compile(r"\d|\w+day\b|\bnoon\b|\b(?:an|one|half an?|a) hour\b")
_SUGGESTS = _any(
    r"^(?:how|what) (?:about|if)\b", r"^how bout\b", r"^why (?:do not|not|can not|should not)\b",
    r"^(?:what|how) do you say to\b", r"^how (?:does|do|would|is|are)\b.*\b(?:sound|strike|suit|work|look|feel)\b",
    r"^(?:then )?shall (?:we|i)\b", r"^should we\b", r"^(?:might|may|can|could) i ask (?:you )?for\b",
    r"^(?:would|will|could|can|might|may|do)(?: not)? (?:you|we|i|it)(?: \w+){0,3}? (?:take|accept|agree|settle|up for|open to|willing|happy|interested|go|come|let|give|giving|do|make|manage|meet|say|sell|part|spare|live|offer|help|pay|ask|consider|round|split|share|stretch|trade|swap|leave|get|have|donate|chip|pledge|want|lend|lower|drop|knock|be)\b",
    r"^(?:is|are) (?:\$?\d|\w+day|noon).*\b(?:ok|any good|good|fine|possible|convenient|acceptable|fair|enough|free|an option|doable|better|suitable|of interest|any use)\b",
    r"^(?:would|does|do|will) (?:\$?\d|\w+day|an? |the |it|that|noon).*\b(?:suit|work|be (?:ok|fine|good|any good|enough|fair|acceptable|worth|possible)|do|sound)\b",
    r"^are you (?:free|available|around)\b", r"^is there any chance\b", r"^do you know \w+$", r"^any chance\b",
)  # fmt: skip
# Proposals whatever they are about.
_SUGGESTS_ALL = _any(
    r"^(?:how|what) about (?!you\b|the\b|your\b|that\b|it\b)", r"^how bout\b", r"^what if (?:i|we|you|all|each|both)\b",
    r"^(?:what|how) do you say to\b", r"^why do not (?:we|you|i)\b", r"^(?:then )?shall (?:we|i)\b",
    r"^(?:could|would|can|will) (?:you|we)\b.*\bif (?:i|we)\b",
)  # fmt: skip
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|am|have|has|had|do|does|did|can|could|will|would|shall|should|may|might|must|want|need|know|think|take|give|pay|go|come|get|make|say|said|let|sell|buy|live|like)\b"
)
_PROPOSES = _any(
    r"^let us (?:say|call|make|meet|do it like|settle|agree|split|put|take|try|round|go|compromise|share|trade|swap|start|both|each|have|get|fix|schedule|aim|divide|leave|stay)\b",
    r"^let me (?:suggest|propose|offer|have|pay|take|make it|drop|put it|give|keep|get|buy|treat|help|do)\b",
    r"\blet us say\b", r"\blet me (?:drop|suggest|offer|propose|take you|make it up)\b",
    r"^(?:make|call) (?:it|that)\b", r"^say\b",
    r"^give (?:me|us)\b", r"^(?:knock|take) (?:\$?\d+|this|a )", r"^put me down for\b", r"^come (?:round|by|over)\b",
    r"^split\b", r"^suppose\b", r"^here is (?:my|a|what|the)\b", r"^take (?:the|all|my|both|\$?\d)",
    r"\b(?:i|we)(?: will| would| can| could| am| shall| might| have)?(?: also| only| just| even| gladly| happily| like to| be willing to| be ready to| be happy to| be prepared to| willing to| ready to| prepared to| able to| going to)* (?:offer|offering|propose|proposing|suggest|suggesting|give|pay|go (?:to|up|down|as)|let you have|sell|come (?:down|up)|drop|settle|match|spare|do \$?\d|manage \$?\d|ask (?:you )?for|stretch to|part with|say \$?\d|be happy with|be content with|take \$?\d|meet you|counter|donate|chip in|pledge|trade|swap|help|keep|take the|claim|claiming|fix|move|do)\b",
    r"\bi was thinking\b", r"\bi am thinking (?:of )?(?:\$?\d|\w+day)",
    r"\bmy (?:\w+[ -])?(?:offer|proposal|suggestion|counter-?offer|price|terms|idea|bid|limit|budget|maximum|max|minimum|ask|plan)\b",
    r"\b(?:best|all|most|least|only thing|highest|lowest)(?: that)? i can (?:do|offer|give|go|pay|spare|accept|manage|afford)\b",
    r"\b(?:all|most) i (?:have|want|ask)\b", r"^(?:last|final|best|new|first|another) (?:offer|price|proposal|suggestion)\b",
    r"\bwhat (?:i would like to suggest|it is worth|i can|i suggest|i propose|about)\b",
    r"\b(?:would|will) do it\b", r"\band (?:it is|you have|we have|i am|i will)\b",
    r"^you (?:take|keep|get|drive|tell|give|help|pay|pick|bring|cook|can have|could have|have (?:the|both|all|my|\d))\b",
    r"^i (?:take|keep|get|pay|cook|drive|water|walk|weed|repair)\b(?! along)",
    r"\bi (?:have|want|would like|need) (?:got )?(?:the |both |all )?\$?\d+\b",
    r"\bwould be (?:fair|ok|fine|all right|great|an option|enough|my price|good)\b",
    r"\bone-off\b", r"\btake turns\b", r"\b(?:fifty-fifty|half and half|halves|50-50|50 50)\b",
    r"\bmeet (?:me|you|in the middle|halfway|half way)\b", r"\bsplit the difference\b",
    r"\bcompromise\b", r"\bin (?:return|exchange)\b", r"\b\w+ each$", r"\b(?:go|goes|going) to (?:you|me)\b", r"\bfor you\b",
    r"\bgave \$?\d", r"\bgive one more chance\b",
)  # fmt: skip
_EXCHANGE = re.compile(
    r"\b(?:i|we) (?:will|would|can|could|am happy to|shall)\b|\bi do\b|\blet you\b|\byou (?:can|could|may|will|would|get|have)\b"
)
_LIMIT = _any(
    r"\bnot (?:a|one) (?:cent|penny|dollar)(?: more| less| above| below| over| under)*",
    r"\b(?:no|not) (?:more|less|fewer|later|earlier|higher|lower) than\b",
    r"\bnot (?:\w+ ){0,3}?(?:more|less|above|below|beyond|over|under|past|higher|lower|better|further|for under|for less)(?: than)?\b",
    r"^no (?:more|less|higher|lower|further)\b",
    r"\b(?:up to|at (?:the )?(?:very )?(?:most|least)|as (?:high|low|far) as|tops)\b",
)  # fmt: skip
_REPORTS = _any(
    r"\byou (?:just |only |really |also )?(?:said|say|asked|ask|are asking|want|wanted|offered|offer|proposed|propose|mentioned|named|suggested|told|claimed|think|expect|expected|demand|demanded|charge|quoted|wrote|sold|paid|bought)\b",
    r"\b(?:i|we) (?:just )?(?:paid|bought|sold|spent|saw|found|got|had|wanted|was offered|have seen|earn|make|owe|was told|promised)\b(?! it for you)",
    r"\b(?:he|she|they|someone|somebody|another|others?|people|everyone|everybody|neighbou?rs?|friend|dealer|customer|shop|store|tag|ad|website|last one|market|brother|sister|wife|husband|colleague)(?: \w+){0,2} (?:said|says|asked|asks|offered|offers|paid|pays|wants|wanted|sold|sells|charges?|gave|gives|went|goes|costs?|agreed|accepted|would)\b",
    r"\b(?:cost|costs|costed|worth it|used to|last (?:year|week|month|time)|online|elsewhere|originally|brand new ones?|new ones?|retail|in the shops?|market value|years? ago|yesterday|back then|years? old)\b",
    r"^your \$?\d+", r"\bthan \$?\d+", r"\binstead of\b",
)  # fmt: skip
_REMARKS = re.compile(
    r"(?:\b(?:not|instead of|rather than|down from|up from|compared (?:to|with)|better than|worse than)"
    r" \$?\d[\d,.]*)(?! (?:more|less))"
)
_ABOUT = re.compile(  # questions that name terms only to ask about them
    r"^(?:why|how come|how did|how do|how much|how many|how long|how far|how is|who|whose|where|when"
    r"|which|what (?:does|do|is|are|would|makes|did|was|happens|else|kind|sort|can|will|about the)"
    r"|did|does|has|have|had|was|were)\b"
    r"|\b(?:final|best|lowest|highest|bottom|last|negotiable|firm|serious|joking|kidding|really"
    r"|mean|include|includes|included|everybody|normally|usually|your (?:\w+ )?(?:price|offer))\b"
)
_WITHDRAWS = _any(
    r"\b(?:take (?:that|it|this|my (?:offer|words?)) back|withdraw|i take back|scratch that|never mind"
    r"|changed? my mind|on second thoughts?|forget what i said|ignore (?:that|what i said)|did not mean"
    r"|do not mean|have not agreed|did not agree|not agreed to|no deal yet|i retract|i misspoke"
    r"|that was not (?:a yes|an offer|what i)|off the table|call it off|not what i said)\b"
)
_OPINION = re.compile(
    r"\b(?:i|we|they|he|she|you) (?:\w+ )?agree (?:that|the|it|you|we|with you|about|he|she|there|this is|your"
    r" (?:cause|point|idea))\b|\b(?:he|she|they|wife|husband|boss|everyone) (?:has |have )?(?:agreed|accepted)\b"
    r"|\bagree(?:d)? to (?:disagree|talk|meet halfway)\b|\bgood deal of\b|\bgreat deal of\b"
    r"|\bi (?:had |have )?(?:already )?(?:agreed|accepted) (?:to|on|with|an?)\b"
)
_CLOSING = re.compile(
    r"^(?:thanks?(?: [\w']+)*|many thanks|(?:i )?promise|ty+|see you(?: \w+)*|bye|goodbye|take care|good (?:day|night|luck)|cheers"
    r"|looking forward(?: \w+)*|i am looking forward(?: \w+)*|can not wait|nice (?:doing business|to)(?: \w+)*"
    r"|my friend|sir|madam|then|please|it is|indeed|great|perfect|you know that|by the way|ty+)$"
)


class _Deed(NamedTuple):
    """What one clause does; `strong` for what cannot well mean anything else."""

    kind: str
    strong: bool = False


@lru_cache(maxsize=8192)
def deeds(line: str) -> tuple[tuple[_Deed, Clause], ...]:
    """What each clause of a line does by itself."""
    return tuple((_deed(clause), clause) for clause in clauses(line))


def _deed(clause: Clause) -> _Deed:
    text = clause.text
    if clause.link in ("because", "since", "as") and not clause.question:
        return _Deed("reason")
    lead = _FILLER.match(text)
    core = text[lead.end() :] if lead and lead.end() < len(text) else text
    if clause.question:
        return _asked(core)
    if _AFFIRMS.fullmatch(core):
        return _Deed("affirm")
    if _CLOSING.fullmatch(core):
        return _Deed("close")
    lead = _LEADING.match(core)
    stated = _stated(core[lead.end() :] if lead else core, clause)
    return _Deed("affirm") if lead and stated.kind == "close" else stated


def _asked(core: str) -> _Deed:
    """A clause that asks: it proposes, names something, or wants to know."""
    if _SUGGESTS.search(core) and (_FIGURE.search(core) or _SUGGESTS_ALL.search(core)):
        return _Deed("propose", strong=True)
    if _FIGURE.search(core) and not _VERB.search(core):
        return _Deed("echo")
    return _Deed("ask")


def _stated(core: str, clause: Clause) -> _Deed:
    """A clause that states something."""
    if _OPINION.search(core):
        return _Deed("note")
    if _ACCEPTS.search(core) or _SUITS.search(core):
        rest = _SUITS.sub("", _ACCEPTS.sub("", core))
        if not (_NEGATED.search(rest) or _HEDGES.search(rest) or clause.link in _CONDITIONS):
            return _Deed("accept", strong=True)
    if _LIMIT.search(core) and (_FIGURE.search(core) or _BARE_LIMIT.fullmatch(core)):
        return _Deed("limit")
    if _HEDGES.search(core):
        return _Deed("hedge")
    if _STALLS.search(core):
        return _Deed("stall")
    if _REFUSES.search(core):
        return _Deed("refuse", strong=True)
    if _NEGATED.search(core):
        return _Deed("note") if _NEUTRAL.search(core) else _Deed("refuse", strong=True)
    if _GRANTS.search(core):
        return _Deed("grant")
    if _REPORTS.search(core):
        return _Deed("report")
    if _PROPOSES.search(core):
        return _Deed("propose")
    if _PRAISES.search(core):
        return _Deed("praise")
    if _COMMITS.search(core):
        return _Deed("commit")
    if _FIGURE.search(core) and not _VERB.search(core):
        return _Deed("named")
    return _Deed("note")


_COMMITS = re.compile(r"^(?:then )?(?:i|we)(?: will|ll| am| are| shall)\b")
_BARE_LIMIT = re.compile(
    r"no (?:more|less|higher|lower|further)|not (?:a|one) (?:penny|cent|dollar) (?:more|less)|tops|at most|at least"
)
_TERMS = frozenset(
    {"propose", "limit", "accept", "grant", "affirm", "named", "echo", "praise", "commit", "close"}
)
_YES = frozenset({"accept", "affirm", "grant", "praise"})


def reading(
    line: str,
    terms: Callable[[str], Deal | None],
    offered: Deal | None = None,
    *,
    fresh: bool = True,
    by_asking: bool = False,
) -> Reading:
    """What a line does where `offered` is the other's open offer.

    Args:
        line: what is said.
        terms: The terms in a text, None for none.
        offered: None for no open offer.
        fresh: Whether that offer is what the other just said: else a mere "yes" answers something
            else.
        by_asking: Whether every question proposes what it names.
    """
    done = deeds(line)
    kinds = {deed.kind for deed, _ in done}
    named = set(_TERMS)
    if by_asking:
        named.add("ask")
    if not kinds & {"refuse", "ask", "hedge", "stall"}:
        named.add("note")
    if "refuse" in kinds:
        named -= {"echo", "close", "commit"}
    proposal = ", ".join(_REMARKS.sub("", c.spelt) for d, c in done if d.kind in named)
    found = terms(proposal) if proposal else None
    withdraws = any(_WITHDRAWS.search(clause.text) for _, clause in done)
    if withdraws:
        kind = "offer" if found is not None and found != offered else "refusal"
        return Reading(kind, found, withdraws=True)
    return Reading(_kind(done, found, offered, fresh=fresh), found)


def _kind(
    done: tuple[tuple[_Deed, Clause], ...], found: object, offered: object, *, fresh: bool
) -> str:
    kinds = [deed.kind for deed, _ in done]
    conditional = any(
        c.link in _CONDITIONS and not c.question and not _VACUOUS.search(c.text) for _, c in done
    )
    proposes = any(d.kind == "propose" and d.strong for d, _ in done)
    said = _decided(done)
    if found is not None and found != offered:
        return "hedge" if said == "hedge" and not proposes else "offer"
    if proposes:
        return "question" if found is not None else "offer"
    if said == "acceptance" and conditional:
        return "offer" if "propose" in kinds else "hedge"
    if said in ("acceptance", "hedge", "refusal"):
        return said
    if said and (fresh or found is not None):
        return _backed(done, said, restated=found is not None)
    if conditional and any(_EXCHANGE.search(c.text) or d.kind == "propose" for d, c in done):
        return "offer"
    if found is not None and not {"ask", "echo", "stall"} & set(kinds):
        return "acceptance"
    if {"ask", "stall", "echo"} & set(kinds):
        return "question"
    return "offer" if {"propose", "limit"} & set(kinds) else "talk"


def _decided(done: tuple[tuple[_Deed, Clause], ...]) -> str:
    """Acceptance, refusal or hedge, whichever is said last; a weak yes after a no is unclear."""
    said = ""
    for deed, _ in done:
        if deed.kind in ("refuse", "hedge"):
            said = {"refuse": "refusal", "hedge": "hedge"}[deed.kind]
        elif deed.kind == "accept":
            said = "acceptance"
        elif deed.kind in _YES:
            said = {"refusal": "unclear"}.get(said, said or "weak")
    return said


def _backed(done: tuple[tuple[_Deed, Clause], ...], said: str, *, restated: bool) -> str:
    """A weak yes counts where nothing but what backs it is said with it."""
    kinds = {deed.kind for deed, _ in done}
    if "affirm" in kinds or restated or kinds <= {"grant", "close", "propose", "named"}:
        others = kinds - _YES - {"close", "reason", "named", "commit", "echo"}
        if not others or (restated and others <= {"note", "propose"}):
            return "acceptance" if said == "weak" else "unclear"
    if kinds & {"ask", "stall"}:
        return "question"
    return "unclear" if "affirm" in kinds or "grant" in kinds else "talk"
