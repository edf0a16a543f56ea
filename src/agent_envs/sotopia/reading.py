"""Reading: what a line of a negotiation does - offer, accept, refuse, ask, hedge - or `unclear`.

Rules of English: each clause is read by its predicate, its polarity, its modality and its mood, and
a line by what its clauses do together. What the rules cannot decide is `unclear`. Nothing that is
read here binds by itself (`talk`). Left out: irony, and acceptance that only a story implies.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.sotopia.english import clauses, written_out

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
    r"|no worries|go on then|go ahead|totally|exactly|naturally|happily|indeed|right you are"
    r"|what the hell|ideal|agreeable|acceptable|reasonable|fair)"
)
_AFFIRMS = re.compile(rf"{_AFFIRM}(?:[\s,]+(?:{_AFFIRM}|then|thanks|it is|to that|with me|by me))*")
_LEADING = re.compile(
    r"(?:(?:yes|yep|yeah|aye|ok|sure|fine|great|very well|fair enough|go on|right|perfect)\s+)+"
    r"(?=(?:i|you|we|it|that|this|then|let|deal|thanks)\b)"
)

_GOOD = (
    r"(?:fine|good|great|perfect|ok|fair|excellent|wonderful|lovely|splendid|brilliant|ideal|nice"
    r"|reasonable|acceptable|agreeable|delightful|marvellous|fantastic|terrific|super|cool|right"
    r"|generous|decent|alright|grand|beautiful|convenient|doable|a deal|a bargain|a plan|a yes"
    r"|music to my ears|more like it|enough|settled|agreed|a swap|spot on|no trouble|no bother)"
)
_VERY = (
    r"(?:(?:very|so|more than|just|absolutely|perfectly|really|all|quite|totally|entirely|only"
    r"|pretty|completely|simply|certainly|most|truly|indeed)\s+)*"
)

# Accepting: performatives and idioms that do it whatever stands around them.
_ACCEPTS = _any(
    r"^(?:it is |that is |that would be |we have (?:got )?(?:ourselves )?|you have (?:got "
    r")?(?:yourself )?|done and |then |consider it )?(?:a |an )?(?:done )?(?:deal"
    r"|agreement)(?: it is| then| done| indeed)?(?: at that| on that| for that)?$",
    r"\b(?:we|you)(?: have|'ve)?(?: got)?(?: ourselves| yourself)? an? (?:deal|agreement"
    r"|bargain|buyer|taker|donor|helper|date)\b",
    r"^you have got (?:me|us|yourself .*|a (?:deal|buyer|taker))$",
    r"^(?:it is a |that is a )?(?:deal|done|sold|agreed|accepted|settled)(?: (?:then|to you"
    r"|to that|at that|and done|on all counts|with pleasure|for|at|on)\b.*)?$",
    r"^(?:it is|that is|then it is|consider it|consider that|all) (?:done|sold|agreed"
    r"|accepted|settled|a deal)\b",
    r"\bi (?:gladly |happily |hereby |do |will |would )?accept (?:your|the|that|this|it"
    r"|these|those|\$?\d)",
    r"\bmy (?:full |complete )?(?:agreement|approval|consent|blessing)\b",
    r"\bi(?: do| hereby| gladly| happily| fully| absolutely| completely| totally| will| "
    r"would)*(?: agree| accept)(?: (?:to|with|on) (?:that|it|this|your|the|these|those|all"
    r"|every|\$?\d)\b.*| that| it| this| your (?:offer|terms|proposal|price)\b.*| the "
    r"(?:offer|terms|proposal|price|deal)\b.*| gladly| happily| fully| completely| then)?$",
    r"\bi am (?:in agreement|agreed|in|game|on board|sold|all for it|all in|up for (?:it"
    r"|that)|down(?: for (?:it|that))?|with you(?: on that)?)$",
    r"\b(?:count|sign|deal) (?:me|us) (?:in|up)\b",
    r"\b(?:put|write|pencil) (?:me|us) down\b",
    r"\byou(?: can| may) count (?:on|me)\b",
    r"\byou are on\b(?! (?:time|your|the list))",
    r"\byou have (?:got )?(?:my word|convinced me|persuaded me|talked me into it|won me "
    r"over|sold me|twisted my arm|got me)\b",
    r"\byou (?:win|twist my arm)\b",
    r"\b(?:shake|shaken?) (?:on it|on that|hands|my hand)\b",
    r"\b(?:where do i sign|wrap it up|ring it up|pack it up|load it up|say no more|that is that)\b",
    r"\b(?:let us|we will|i will) (?:do (?:it|that|this)|go (?:with|for) (?:that|it|this)"
    r"|go ahead|settle on that|leave it at that|call it (?:settled|done|a deal)|shake|swap"
    r"|seal (?:it|the deal))\b",
    r"^let us$",
    r"\bwe go (?:with|for) (?:it|that)\b",
    r"\bi(?: am (?:going to|happy to|glad to|pleased to|delighted to)| will| can| "
    r"would)?(?: gladly| happily| certainly| definitely| have to| must)? (?:say|saying) "
    r"yes\b(?! to more)",
    r"\bi am saying yes\b",
    r"\b(?:i|we)(?: will| can| would| am going to| are going to)?(?: gladly| happily| "
    r"certainly| definitely| just)*(?: take| have| buy) (?:it|that|them|both|this)(?: "
    r"(?:then|gladly|for that|at that|for \$?\d+|at \$?\d+|off your hands|with pleasure|off "
    r"you|now|please|on|too))*$",
    r"\bwe are taking it\b",
    r"\b(?:i|we) (?:will|shall)(?: gladly| happily| certainly| definitely| then)? (?:do it"
    r"|do that|come|be there|help(?: you)?(?: out| with)?|give (?:that|it|you that)|join"
    r"|drive you|pay (?:that|it|you that)|be (?:round|over)|go along with (?:it|that|you)"
    r"|meet you(?: then| there))\b",
    r"\b(?:i|we) can (?:live|work|get along) with\b",
    r"\b(?:i|we) can (?:do|manage|make|get behind|accept|agree to|afford|spare|give|pay"
    r"|commit to) (?:that|it|this|\$?\d+|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b",
    r"\b(?:can|could) (?:not|hardly) (?:say no|refuse|argue|complain|object|ask for more"
    r"|ask for better|wait|fault|be happier|agree more|resist|turn (?:that|it|this|you) "
    r"down)\b",
    r"\b(?:will|would|shall) not (?:say no|refuse|argue|complain|object|push you|stand in "
    r"(?:your|the) way|haggle|hear another word)\b",
    r"\b(?:silly|foolish|crazy|mad|stupid|a fool) (?:to say no|to refuse|not to)\b",
    r"\b(?:no|any|nothing|not a single|not one|without) (?:objections?|complaints?"
    r"|quarrels?|reasons? to (?:say no|refuse|drag)|arguments?|to add)\b",
    r"\b(?:do|would) not mind (?:that|it|at all|\$?\d+)\b",
    r"\bdo not have to ask (?:me )?twice\b",
    r"\b(?:it|that|the \w+|they|both|all|the rest) (?:is|are)(?: all| now)? yours\b(?! "
    r"(?:if|when|once|as soon))",
    r"^yours\b(?: for| at| then)?",
    r"\b(?:it|that) is a (?:date|deal|plan|swap|bargain|yes)\b",
    r"\bi am (?:\w+ )?(?:happy|glad|pleased|delighted|content|satisfied|ok|fine|comfortable"
    r"|cool|good) (?:with (?:that|it|this|the|your|these|those|\$?\d+|how)|to (?:accept"
    r"|agree|give|do|help|come|take|pay|go along|say yes|sign|join))",
    r"\bi (?:will|would|shall) be (?:\w+ )?(?:happy|glad|pleased|delighted|honoured) "
    r"(?:with (?:that|it|this)|to)\b",
    r"\b(?:it|that) would be (?:my|a|our) pleasure\b",
    r"\bi would (?:love|like) (?:that|it|nothing better|nothing more)\b(?: very much| a lot)?",
    r"^i would (?:love|be glad|be happy|be delighted) to$",
    r"\b(?:consider|take) it (?:as )?(?:done|sold|settled|agreed|a deal|yours)\b",
    r"^(?:\w+ )?(?:\$?\d+|(?:mon|tues|wednes|thurs|fri|satur|sun)day|\w+|\w+ \w+|\w+ at "
    r"\d+)(?: \w+){0,3} it (?:is|shall be|will be)(?: then)?$",
    r"\bin (?:full |complete |total )?agreement\b",
    r"\bapology accepted\b",
    r"\b(?:see|meet) you (?:then|there|at|on|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|tomorrow|next)\b",
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
    r"(?:that|this|which|both|(?:the|your|that|this|my) (?:offer|price|proposal|split|plan"
    r"|deal|terms|suggestion"
    r"|arrangement|time|day|slot|hour|idea|division|compromise|amount|sum|number|figure"
    r"|swap|trade|way)"
    r"|\$?\d[\d:.,k]*(?: (?:\w+ ){0,3}\w+)?|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri"
    r"|sat(?:ur)?|sun)(?:days?)?(?: \w+){0,4}|noon(?: \w+){0,2}|(?:rounding|meeting"
    r"|splitting|swapping|sharing)(?: \w+){0,3})"
)
_TAIL = (
    r"(?: (?:(?:by|with|for|to) (?:me|us|my \w+|both(?: of us)?|everyone)|then|indeed|thanks|enough"
    r"|all round|too|really|at \$?\d+|you know|and .*|so .*|in (?:my|our) book))*"
)
_SUITS = _any(
    rf"^{_TOPIC} (?:is|are|will be|would be|sounds?|seems?|feels?|looks?) {_VERY}(?:a "
    rf")?{_GOOD}{_TAIL}$",
    rf"^{_TOPIC} (?:will |would |should certainly )?(?:works?|suits?|does|do)(?: it| out| "
    rf"just| very| perfectly| well| fine| nicely| beautifully| great| like a charm| the "
    rf"trick| (?:for |by )?(?:me|us|both of us|everyone|my \w+))*(?: down to the ground| to "
    rf"a t)?$",
    rf"^(?:it |that |this )?(?:is )?{_VERY}(?:{_AFFIRM}|ok|works|suits|all good|{_GOOD}) "
    rf"(?:by|with|for|to) (?:me|us)\b",
    rf"^(?:sounds|seems|looks) {_VERY}(?:{_GOOD}|like a plan|like a deal){_TAIL}$",
    r"^(?:that|it) (?:sounds|is) like a (?:plan|deal)\b",
    r"^(?:works|suits|does it|will do)(?: for)?(?: me| us)?(?: just fine| fine| nicely| "
    r"perfectly)?$",
    rf"^i (?:am|would be|will be) {_VERY}(?:happy|glad|pleased|delighted|content|satisfied"
    rf"|ok|fine|comfortable|cool|good) with (?:that|it|this|the (?:rest|others?)|your|these"
    rf"|those|\$?\d)",
    r"\bhad me at\b",
)  # fmt: skip
# Weaker: it may be the thing and not the terms that is praised.
_PRAISES = _any(
    rf"^(?:it|[\w' ]+) (?:is|are|will be|would be|sounds?|seems?|looks?) {_VERY}{_GOOD}{_TAIL}$",
    r"^(?:it|everything) (?:works|suits)\b",
)  # fmt: skip
# Giving what was asked for, taking what was offered: only where it answers an open offer.
_GRANTS = _any(
    r"^you (?:can|may|shall|will|could)(?: absolutely| gladly| certainly| definitely| "
    r"happily)? (?:have|keep|get|take)\b(?! no| nothing| your)",
    r"^(?:go on,? )?(?:give|hand) me the\b",
    r"^pick me up\b",
    r"^bring (?:the|your|a) \w+",
    r"\bplease sign me up\b",
    r"^i will (?:put|write|mark|note) (?:it|that|you) (?:down|in)\b",
    r"^i have (?:just )?(?:put|written|noted|marked) (?:it|that|you) (?:down|in)\b",
    r"^you are (?:more than |very )?welcome to\b",
    r"^you shall have (?:it|them|that)\b",
    r"\b(?:you|one) (?:shall|will) have(?: it)?$",
)  # fmt: skip

# Refusing, whatever stands around.
_REFUSES = _any(
    r"^(?:absolutely |definitely |certainly |of course |sorry |thanks but |thanks |hell |oh "
    r")*(?:no|nope|nah|never|no way|no thanks|no deal|no chance|no sale|no sir|not a chance"
    r"|not (?:this|for|at|on|with|in|today|now|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|ever|really|interested|happening|going)\b.*|hard pass|pass|forget it|dream on|hardly"
    r"|out of the question|impossible|no can do|absolutely not|certainly not|not at all|no "
    r"dice|unacceptable|rubbish|nonsense)(?: (?:sorry|thanks|sir|madam|way|and once more no"
    r"|no|never|my friend|from me|deal|then|ever))*$",
    r"\b(?:no|not a|not an?) (?:deal|way|thanks|chance|sale|thank you|dice|use|good|fair|go"
    r"|offer|bargain)\b(?! (?:to|not))",
    r"\b(?:i|we|must|have to|will|would|am going to|are going to|rather|to|respectfully"
    r"|firmly|flatly)(?: have to| must| will| would| rather)? (?:refuse|decline|reject|pass"
    r"|object|disagree|say no|saying no|turn (?:that|it|you|this) down|walk away|be going"
    r"|look elsewhere|draw the line)\b",
    r"\b(?:am|are) (?:saying no|against|out|booked|busy|away|tied up|unavailable|occupied"
    r"|done|off|taken|engaged|broke|skint|short of|on holiday|in court|at work|working"
    r"|fully booked|double-booked|swamped|snowed under)\b",
    r"\b(?:count me out|leave me out|keep (?:it|your|them)|forget (?:it|about it|that)"
    r"|dream on|nice try|get lost|get real|be serious|think again|try again|over my dead "
    r"body|in your dreams|that is where i draw the line|find someone else|ask someone else"
    r"|not in a million|good luck with)\b",
    r"\b(?:too|way too|far too|a bit|rather|pretty|quite|a little|very|awfully|terribly) "
    r"(?:much|little|low|high|steep|early|late|long|short|few|many|expensive|dear|cheap|far"
    r"|tight|pricey|soon|hard|heavy|costly|one-sided|stingy|big|small|greedy|mean|rich)\b",
    r"\b(?:beyond|above|over|outside|out of|past|exceeds) (?:of )?(?:my|our|what) (?:budget"
    r"|means|range|reach|limit|league|price|i can|we can|pocket|power|possibilities"
    r"|hands)\b",
    r"\b(?:more|less|fewer|lower|higher|later|earlier|worse) than (?:i|we|it|what|that|my"
    r"|our|twice|half|half of)\b",
    r"\b(?:unacceptable|outrageous|absurd|insulting|an insult|a joke|a rip-?off|robbery"
    r"|ridiculous|laughable|impossible|unfair|unreasonable|out of the question|off the "
    r"table|a non-starter|a no(?: from me)?|peanuts|daylight robbery|sacred|useless)\b",
    r"\b(?:i|we) (?:wish (?:i|we) could|would rather|would sooner|would prefer|would lose"
    r"|would have to be mad|have (?:got )?(?:a|an|another|other) (?:\w+ )?(?:appointment"
    r"|meeting|commitments?|plans?|engagement|class|shift)|would be giving it away|would be "
    r"(?:mad|crazy|a fool|robbed|ruined))\b",
    r"\b(?:who do you take me for|are you kidding|you are kidding|you must be (?:joking"
    r"|kidding|mad)|are you out of your mind|you are joking)\b",
    r"\b(?:clash(?:es)?|conflicts?|overlaps?|interferes?) with\b",
    r"\b(?:asking|want|expect|demand|charging) (?:for )?(?:way |far )?too much\b",
    r"\b(?:hold on to|hang on to|keep looking|shop around|go elsewhere|take my (?:money"
    r"|business) elsewhere)\b",
    r"\bnothing (?:doing|of the (?:sort|kind)|like that)\b",
    r"\bno (?:use|good|better|interest|garden|desire|intention|room|money|time|need|point"
    r"|way around)\b",
    r"\bhardly\b",
    r"\b(?:account|wallet|purse|budget|conscience|doctor|wife|husband|boss|head) says no\b",
    r"\bi never (?:give|do|have|eat|drink|work|lend|sign|buy|pay|go|take|help)\b",
)  # fmt: skip
_NEGATED = re.compile(
    r"\b(?:not|never|nobody|none|neither|nor|nowhere|hardly|scarcely|barely|unable"
    r"|far from|anything but)\b"
)
# Negations of the other side's matter, that refuse nothing by themselves.
_NEUTRAL = _any(
    r"\bnot only\b", r"\bwhy not\b", r"\bif not\b", r"\bnot (?:just|least)\b", r"\bor not\b",
    r"\bdo not (?:worry|mention|hesitate|get me wrong|forget|tell|let me|rush|you|we|they)\b",
    r"\bnot (?:a|one) (?:cent|penny|dollar|word)\b", r"\bcan not (?:help|believe)\b",
    r"\bno (?:more|less|fewer|later|earlier) than\b", r"\bnot because\b", r"\bno matter\b",
    r"\bdid not (?:think|expect|know)\b", r"\bnothing is\b", r"\bnothing else\b",
    r"\bis it not\b",
    r"\bdo you not\b",
    r"\byou (?:will not|would not|do not have|do not need|need not)\b",
    r"\b(?:i )?thought you would never\b", r"\bnot complaining\b", r"\bnot in the mood to\b",
)  # fmt: skip

_HEDGES = _any(
    r"\b(?:maybe|perhaps|possibly|probably|potentially|conceivably|supposedly|presumably"
    r"|perchance|theoretically|tentatively|provisionally)\b",
    r"\b(?:might|may)\b(?! (?:i|it|we|the)\b)",
    r"\bshould (?:be (?:ok|fine|possible|able|doable|good)|work|suit)|could (?:be|work|suit"
    r"|do us|imagine|see myself|live|get used|probably|perhaps|possibly|be talked|be "
    r"persuaded|consider|well|maybe|have been|go either)\b",
    r"\b(?:not|never|hardly) (?:\w+ )?(?:sure|certain|convinced|decided|there yet|ready to "
    r"(?:say|decide|commit)|know|a yes|saying (?:no|yes)|committing|promise|promising"
    r"|guarantee|swear|commit|bet|made up|rule|ruling|ruled|out of the question|impossible"
    r"|unthinkable|unfair|unreasonable|bad|the worst|far|dislike|against|object|opposed"
    r"|tell|decide|a definite|totally|completely unfair|yet)\b",
    r"\b(?:i|we) (?:guess|suppose|imagine|reckon so|think so|hope so|am hoping|am inclined"
    r"|am tempted|am thinking|am considering|am leaning|am half|am almost|am nearly|am "
    r"starting|am close|doubt)\b",
    r"\b(?:am|are|be|feel|is) (?:\w+ ){0,2}(?:tempted|tempting|inclined|torn|undecided"
    r"|unsure|leaning|considering|hesitant|open to|thinking (?:about|over)|warming|wavering"
    r"|interested|curious|intrigued|(?:of|in) (?:two|\d) minds|neither for|skeptical"
    r"|sceptical|possible|promising|interesting|intriguing)\b",
    r"\b(?:tempted|tempting|(?:two|\d) minds|half a mind|half inclined|on the fence|mixed "
    r"feelings|in principle|in theory|on paper|at first glance|to some extent|more or less"
    r"|something like that|either way|most likely|quite possible|a possibility|an option|a "
    r"stretch|within shouting distance|in the ballpark|on to something|food for thought"
    r"|under consideration|hinges on|part of me|up in the air|touch and go)\b",
    r"\b(?:let me|i will|i would|i have to|i need to|i want to|i must|we will|we have to|we "
    r"would|i am going to)(?: (?!not\b|never\b|you\b)\w+){0,3} (?:think|consider|mull"
    r"|ponder|chew|check|ask|see|sleep|discuss|talk (?:to|it|with|about)|consult|confirm"
    r"|weigh|reflect|look (?:at|into|over|around)|hear (?:what|from|back)|get back|know "
    r"more|decide|compare|wait|turn it over|read|try|find out|run it by|text you|let you "
    r"know)\b",
    r"\b(?:i will|let me) (?:see|try|let you know|text you|confirm|consider it|think|ponder)\b",
    r"\bi would (?:probably|need to|have to|want to|be open|be inclined|be tempted|consider"
    r"|like to (?:know|think|see|hear))\b",
    r"\b(?:think it over|think about|sleep on|mull it|get back to you|let you know|we will "
    r"(?:have to )?see|it depends|depends on|depending on|(?<!not )ask me (?:again|later)"
    r"|another time|some day|(?<!the )one day|give me (?:some|a|a little|more|until"
    r"|till)(?: \w+)? (?:time|while|day|night|week)|give me (?:until|till) \w+|need (?:some "
    r"|more |a little )?time|for now|at the moment|not yet|keep it in mind|bear it in mind"
    r"|hold me to|make up my mind|made up my mind)\b",
    r"\b(?:getting|you are|we are|it is) (?:warmer|closer|close|nearly there|almost there"
    r"|getting there|growing on me|near)\b",
    r"\bgrowing on me\b", r"\bcloser to\b", r"\bgetting (?:closer|warmer|there|somewhere|better)\b",
    r"\b(?<!here is )(?:an idea|a thought|an interesting|some merit|a decent offer"
    r"|something to (?:that|think)|something in that|have a point|worth (?:a thought"
    r"|considering|thinking|discussing))\b",
    r"\b(?:my gut|my heart|part of me|my head) says\b",
    r"\b(?:do not know|can not (?:say(?! (?:no|yes))|tell|promise|decide|commit|guarantee|be sure)"
    r"|hard to say|who knows|no idea|idk|dunno)\b",
    r"\b(?:much as i would like|would like to help|want to believe|hoping to|hope to|try to"
    r"|try my best)\b",
    r"\b(?:could|would) be (?:talked|persuaded|convinced|worse|interesting|possible|doable|hard)\b",
    r"\b(?:looks|seems|sounds) (?:possible|tempting|promising|interesting|manageable|doable"
    r"|intriguing|likely|feasible|good at first)\b",
    r"^h+m+$",
    r"\bunless\b",
    r"\b\w+ish on\b",
    r"\bmore yes than no\b",
    r"\b(?:almost|nearly|not quite|half) (?:ready|there|convinced|sold|persuaded)\b",
)  # fmt: skip
_STALLS = _any(
    r"\b(?:hold on|hang on|wait|one moment|just a (?:moment|second|minute|sec)|bear with me"
    r"|give me a (?:moment|second|minute|sec)|i am listening|go on|tell me more|let me "
    r"(?:just )?(?:pull up|look|do the sums|get my|fetch my|find my|calculate|work (?:it"
    r"|that) out|grab my))\b",
)  # fmt: skip
_CONDITIONS = frozenset({
    "if", "unless", "provided", "provided that", "assuming", "once", "as long as", "so long as",
    "only if", "on condition that", "even if",
})  # fmt: skip
_VACUOUS = _any(
    r"^(?:you (?:insist|say so|like|want|wish|really want|do not mind|must|ask me|are sure|prefer)"
    r"|i may(?: \w+)*|it is (?:all the same|ok|all right|\$?\d+)|that is (?:really "
    r")?(?:your|the|all|ok|what)"
    r"|not|possible|anything|i (?:had|were|was) |i remember|i must|i am honest)"
)

# Proposing.
_FIGURE = re.compile(
    r"\d|\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b|\bnoon\b"
    r"|\b(?:an|one|half an?|a) hour\b"
)
_SUGGESTS = _any(
    r"^(?:how|what) (?:about|if)\b", r"^how bout\b", r"^why (?:do not|not|can not|should not)\b",
    r"^(?:what|how) do you say to\b",
    r"^how (?:does|do|would|is|are)\b.*\b(?:sound|strike|suit|work|look|feel)\b",
    r"^(?:then )?shall (?:we|i)\b",
    r"^should we\b",
    r"^(?:might|may|can|could) i ask (?:you )?for\b",
    r"^(?:would|will|could|can|might|may|do)(?: not)? (?:you|we|i|it)(?: \w+){0,3}? (?:take"
    r"|accept|agree|settle|up for|open to|willing|happy|interested|go|come|let|give|giving"
    r"|do|make|manage|meet|say|sell|part|spare|live|offer|help|pay|ask|consider|round|split"
    r"|share|stretch|trade|swap|leave|get|have|donate|chip|pledge|want|lend|lower|drop"
    r"|knock|be)\b",
    r"^(?:is|are) (?:\$?\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day|noon).*\b(?:ok|any "
    r"good|good|fine|possible|convenient|acceptable|fair|enough|free|an option|doable"
    r"|better|suitable|of interest|any use)\b",
    r"^(?:would|does|do|will) (?:\$?\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day|an? |the "
    r"|it|that|noon).*\b(?:suit|work|be (?:ok|fine|good|any good|enough|fair|acceptable"
    r"|worth|possible)|do|sound)\b",
    r"^are you (?:free|available|around)\b",
    r"^is there any chance\b",
    r"^do you know \w+$",
    r"^any chance\b",
)  # fmt: skip
# Proposals whatever they are about.
_SUGGESTS_ALL = _any(
    r"^(?:how|what) about (?!you\b|the\b|your\b|that\b|it\b)",
    r"^how bout\b",
    r"^what if (?:i|we|you|all|each|both)\b",
    r"^(?:what|how) do you say to\b", r"^why do not (?:we|you|i)\b", r"^(?:then )?shall (?:we|i)\b",
    r"^(?:could|would|can|will) (?:you|we)\b.*\bif (?:i|we)\b",
)  # fmt: skip
_ASKED = re.compile(
    r"(?:what|why|how|when|where|who|whom|whose|which|is|are|was|were|do|does|did|can|could"
    r"|would|will"
    r"|shall|should|has|have|had|may|am|might|must|if|any|not|no|so|you (?:are|do|have|did"
    r"|really))\b"
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|am|have|has|had|do|does|did|can|could|will|would|shall"
    r"|should|may|might|must|want|need|know|think|take|give|pay|go|come|get|make|say|said"
    r"|let|sell|buy|live|like)\b"
)
_PROPOSES = _any(
    r"^let us (?:say|call|make|meet|do it like|settle|agree|split|put|take|try|round|go"
    r"|compromise|share|trade|swap|start|both|each|have|get|fix|schedule|aim|divide|leave"
    r"|stay)\b",
    r"^let me (?:suggest|propose|offer|have|pay|take|make it|drop|put it|give|keep|get|buy"
    r"|treat|help|do)\b",
    r"\blet us say\b", r"\blet me (?:drop|suggest|offer|propose|take you|make it up)\b",
    r"^(?:make|call) (?:it|that)\b", r"^say\b",
    r"^give (?:me|us)\b",
    r"^(?:knock|take) (?:\$?\d+|this|a )",
    r"^put me down for\b",
    r"^come (?:round|by|over)\b",
    r"^split\b", r"^suppose\b", r"^here is (?:my|a|what|the)\b", r"^take (?:the|all|my|both|\$?\d)",
    r"\b(?:i|we)(?: will| would| can| could| am| shall| might| have)?(?: also| only| just| "
    r"even| gladly| happily| like to| be willing to| be ready to| be happy to| be prepared "
    r"to| willing to| ready to| prepared to| able to| going to)* (?:offer|offering|propose"
    r"|proposing|suggest|suggesting|give|pay|go (?:to|up|down|as)|let you have|sell|come "
    r"(?:down|up)|drop|settle|match|spare|do \$?\d|manage \$?\d|ask (?:you )?for|stretch to"
    r"|part with|say \$?\d|be happy with|be content with|take \$?\d|meet you|counter|donate"
    r"|chip in|pledge|trade|swap|help|keep|take the|claim|claiming|fix|move|do)\b",
    r"\bi was thinking\b",
    r"\bi am thinking (?:of )?(?:\$?\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day)",
    r"\bmy (?:\w+[ -])?(?:offer|proposal|suggestion|counter-?offer|price|terms|idea|bid"
    r"|limit|budget|maximum|max|minimum|ask|plan)\b",
    r"\b(?:best|all|most|least|only thing|highest|lowest)(?: that)? i can (?:do|offer|give"
    r"|go|pay|spare|accept|manage|afford)\b",
    r"\b(?:all|most) i (?:have|want|ask)\b",
    r"^(?:last|final|best|new|first|another) (?:offer|price|proposal|suggestion)\b",
    r"\bwhat (?:i would like to suggest|it is worth|i can|i suggest|i propose|about)\b",
    r"^\$?\d+ i can (?:do|manage|afford|spare|live with|give|pay|offer)\b",
    r"^(?:at|for) \$?\d+ (?:you|it|we|i)\b",
    r"\b(?:would|will) do it\b", r"\band (?:it is|you have|we have|i am|i will)\b",
    r"^you (?:take|keep|get|drive|tell|give|help|pay|pick|bring|cook|can have|could have"
    r"|have (?:the|both|all|my|\d))\b",
    r"^i (?:take|keep|get|pay|cook|drive|water|walk|weed|repair)\b(?! along)",
    r"\bi (?:have|want|would like|need) (?:got )?(?:the |both |all )?\$?\d+\b",
    r"\bwould be (?:fair|ok|fine|all right|great|an option|enough|my price|good)\b",
    r"\bone-off\b", r"\btake turns\b", r"\b(?:fifty-fifty|half and half|halves|50-50|50 50)\b",
    r"\bmeet (?:me|you|in the middle|halfway|half way)\b", r"\bsplit the difference\b",
    r"\bcompromise\b",
    r"\bin (?:return|exchange)\b",
    r"\b\w+ each$",
    r"\b(?:go|goes|going) to (?:you|me)\b",
    r"\bfor you\b",
    r"\bgave \$?\d", r"\bgive one more chance\b",
)  # fmt: skip
_EXCHANGE = re.compile(
    r"\b(?:i|we) (?:will|would|can|could|am happy to|shall)\b|\bi do\b|\blet you\b|\byou "
    r"(?:can|could|may|will|would|get|have)\b"
)
_LIMIT = _any(
    r"\bnot (?:a|one) (?:cent|penny|dollar)(?: more| less| above| below| over| under)*",
    r"\b(?:no|not) (?:more|less|fewer|later|earlier|higher|lower) than\b",
    r"\bnot (?:\w+ ){0,3}?(?:more|less|above|below|beyond|over|under|past|higher|lower"
    r"|better|further|for under|for less)(?: than)?\b",
    r"^no (?:more|less|higher|lower|further)\b",
    r"\b(?:up to|at (?:the )?(?:very )?(?:most|least)|as (?:high|low|far) as|tops)\b",
)  # fmt: skip
_REPORTS = _any(
    r"\byou (?:just |only |really |also )?(?:said|say|asked|ask|are asking|want|wanted"
    r"|offered|offer|proposed|propose|mentioned|named|suggested|told|claimed|think|expect"
    r"|expected|demand|demanded|charge|quoted|wrote|sold|paid|bought)\b",
    r"\b(?:i|we) (?:just )?(?:paid|bought|sold|spent|saw|found|got|had|wanted|was offered"
    r"|have seen|earn|make|owe|was told|promised)\b(?! it for you)",
    r"\b(?:he|she|they|someone|somebody|another|others?|people|everyone|everybody"
    r"|neighbou?rs?|friend|dealer|customer|shop|store|tag|ad|website|last one|market"
    r"|brother|sister|wife|husband|colleague)(?: \w+){0,2} (?:said|says|asked|asks|offered"
    r"|offers|paid|pays|wants|wanted|sold|sells|charges?|gave|gives|went|goes|costs?|agreed"
    r"|accepted|would)\b",
    r"\b(?:cost|costs|costed|worth it|used to|last (?:year|week|month|time)|online"
    r"|elsewhere|originally|brand new ones?|new ones?|retail|in the shops?|market value"
    r"|years? ago|yesterday|back then|years? old)\b",
    r"^your \$?\d+", r"\bthan \$?\d+", r"\binstead of\b",
)  # fmt: skip
_REMARKS = re.compile(
    r"(?:\b(?:not|instead of|rather than|down from|up from|compared (?:to|with)|better than"
    r"|worse than)"
    r" \$?\d[\d,.]*)(?! (?:more|less))"
)
_WITHDRAWS = _any(
    r"\b(?:take (?:that|it|this|my (?:offer|words?)) back|withdraw|i take back|scratch that"
    r"|never mind"
    r"|changed? my mind|on second thoughts?|forget what i said|ignore (?:that|what i said)"
    r"|did not mean"
    r"|do not mean|have not agreed|did not agree|not agreed to|no deal yet|i retract|i misspoke"
    r"|that was not (?:a yes|an offer|what i)|off the table|call it off|not what i said)\b"
)
_OPINION = re.compile(
    r"\b(?:i|we|they|he|she|you) (?:\w+ )?agree (?:that|the|it|you|we|with you|about|he|she"
    r"|there|this is|your"
    r" (?:cause|point|idea))\b|\b(?:he|she|they|wife|husband|boss|everyone) (?:has |have "
    r")?(?:agreed|accepted)\b"
    r"|\bagree(?:d)? to (?:disagree|talk|meet halfway)\b|\bgood deal of\b|\bgreat deal of\b"
    r"|\bi (?:had |have )?(?:already )?(?:agreed|accepted) (?:to|on|with|an?)\b"
)
_CLOSING = re.compile(
    r"^(?:thanks?(?: [\w']+)*|many thanks|(?:i )?promise|ty+|see you(?: \w+)*|bye|goodbye"
    r"|take care|good (?:day|night|luck)|cheers"
    r"|looking forward(?: \w+)*|i am looking forward(?: \w+)*|can not wait|nice (?:doing "
    r"business|to)(?: \w+)*"
    r"|my friend|sir|madam|then|please|it is|indeed|great|perfect|you know that|by the way|ty+)$"
)


# The words of a clause that has nothing but terms.
_BARE_WORD = (
    r"(?:\$?\d[\d.,:]*k?|dollars?|bucks?|quid|pounds?|euros?|hours?|one|an?|the|for|at|on|in"
    r"|from|to|till"
    r"|until|me|you|us|it|that|this|my|your|yours|mine|then|and|or|no|not|more|less|fewer|than"
    r"|only|just"
    r"|even|maybe|perhaps|please|cash|max(?:imum)?|tops|each|per|monthly|months?|final|last|best"
    r"|offer"
    r"|price|bid|around|about|o'clock|[ap]\.?m\.?|sharp|morning|afternoon|noon|next|week|of|help"
    r"|with|plus"
    r"|all|both|instead|rather|flat|fair|so|well|ok|oh|ah|sure|sorry|new|first|yes|yeah|aye|dear"
    r"|friend"
    r"|nothing|dinner|garden|dog|computer|guitar|lessons|return|exchange|deal|say|total|altogether"
    r"|between|and|up|down|\w+days?|mon|tues?|wed|thu|thurs|fri|my friend|sir|madam|right|good"
    r"|i (?:say|think|guess)|as|agreed|because)"
)
_BARE_THING = (
    r"(?:for|with|against|of) (?:the|your|my|th(?:is|at|[eo]se)|such an?|an?)(?: \w+){1,2}"
)
_BARE = re.compile(rf"(?:(?:^|[\s,:'-]+)(?:{_BARE_WORD}|{_BARE_THING})(?![\w']))+")
_PUTS = _any(
    r"\b(?:i|we) (?:am|are|would be|will be|could be|can be) (?:\w+ ){0,2}?(?:free|available"
    r"|around|there|in)\b",
    r"\b(?:i|we|you) (?:can|could|would|will|shall) (?:\w+ ){0,2}?(?:come|meet|make|do|be there"
    r"|help|see"
    r"|go|drop by|live|manage|work|fit|squeeze|swing|start)\b",
    r"\b(?:suits?|works?|fits?|is|are|would be|looks?|sounds?) (?:\w+ ){0,2}?(?:me|us|best"
    r"|better|fine"
    r"|good|perfect|ideal|free|open|possible|great|ok)\b(?! (?:for|with|to) (?:my|his|her|their"
    r"|the)\b)",
    r"\bi (?:would )?(?:prefer|rather|favour)\b",
    r"\bi (?:would|should) (?:like|love|say|want|go|have)\b",
    r"\b(?:best|right|good|ideal|perfect) (?:time|day|slot|price|amount|sum)\b",
    r"^(?:it|that|this) (?:is|would be|will be|has to be|must be|comes to) (?:\w+ )?\$?\d",
    r"\bi (?:\w+ ){0,2}?(?:propose|suggest|offer|say|repeat|stay|accept|agree)\b",
    r"^(?:you|we) (?:get|have)\b",
    r"\bis (?:yours|mine)\b",
    r"\bmine is\b",
    r"\blooking for\b",
    r"^\$?\d[\d.,]* (?:is|are) (?:my|what i|all i|the (?:most|least))\b",
    r"^consider\b",
    r"^\$?\d[\d.,]* (?:would|will|could) (?:make|be|do|help|suit|work)\b",
    r"\b(?:better|another|an|one|counter|new) (?:idea|offer|suggestion|proposal|bid)\b",
    r"\b(?:honou?r|pleasure|happy|glad|delighted|willing|ready|prepared) to\b",
)
# What is said of others, of what was or of what always is puts no terms forward.
_PAST = (
    r"\b(?:i|we|you) (?:\w+ly )?(?:gave|paid|earned|spent|lost|won|found|bought|sold|took|kept"
    r"|broke|drank"
    r"|ate|slept|worked|helped|waited|walked|drove|rode|cooked|met|saw|was|were|used to|finished"
    r"|left"
    r"|had(?! better))\b"
)
_OTHERS = _any(
    _PAST,
    r"\b(?:yesterday|ago|in the past|back then|so far|until now|this (?:morning|summer|winter"
    r"|spring)"
    r"|last (?:night|week|month|year|summer|winter|time|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
    r"|the other day|as a child|once)\b",
    r"\b(?:every|each) (?:day|night|morning|evening|year|summer|winter"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b|\bon (?:mon|tues|wednes|thurs|fri|satur"
    r"|sun)days\b",
    r"\b(?:always|usually|normally|often|generally|regularly)\b",
    r"\b(?:give|pay|donate|support|spend|have|own|help)\b.*\balready\b"
    r"|\balready (?:give|pay|donate|support|spend|have|own|help)\b",
    r"\bi (?:pay|spend|give)\b.*\bfor (?:my|our)\b",
    r"\b(?:he|she|they) (?:is|are|was|were|has|have)\b",
    r"\bneed \S+ \w+ to \w",
    r"^you (?:can|could|will|would) (?:not|never|hardly) (?:get|find|buy|see)\b",
    r"\b(?:i|we) (?:am|are|will be|have to be) (?:on|in|at|off|away) (?:an?|my|the \w+|shift"
    r"|holiday|work"
    r"|duty|call)\b",
    r"\bin (?:town|(?:the|any|a|every) (?:shops?|stores?))\b|\bonline\b",
    r"\b(?:except|excluding|other than|apart from|besides|not counting)\b",
    r"^(?:he|she|they|people|someone|somebody|nobody|everyone|everybody|there (?:is|are|was|were)"
    r"|(?:most|many|some|few|other|half|all the) (?:\w+ ){1,3}?(?:\w+s|are|have|give|pay|say))\b",
    r"\b(?:my|our|his|her|their|your) (?:\w+ )?(?:mother|father|mum|mom|dad|parents?|sisters?"
    r"|brothers?"
    r"|sons?|daughters?|kids?|child(?:ren)?|wife|husband|partner|uncle|aunt|cousins?|nephew"
    r"|niece|boss"
    r"|colleagues?|neighbou?rs?|friends?|landlord|doctor|dentist|teacher|grand\w+|family|team"
    r"|club)\b"
    r"(?! (?:and i|says? (?:yes|no)))",
)
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
_FIGURED = re.compile(r"\$?\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day")
_HALF_A_DAY = 12
_YES = frozenset({"accept", "affirm", "grant", "praise"})

Done = tuple[tuple[str, "Clause"], ...]
"""What each clause of a line does.

accept, suit, affirm, grant, praise: from a plain acceptance, in "suit" of figures, to weaker ways
of saying yes. refuse, hedge, stall, ask: as they are called. suggest, propose, limit, named, echo:
terms that are put forward, plainly, perhaps, as a limit, by mere naming, or back as a question.
reason, report, commit, close, note: a because-clause, what others did, what one will do, a
thank-you, and all the rest.
"""


@lru_cache(maxsize=8192)
def deeds(line: str) -> Done:
    """What each clause of a line does by itself."""
    return tuple((_deed(clause.form), clause) for clause in clauses(line))


@lru_cache(maxsize=8192)
def _deed(clause: Clause) -> str:
    text = clause.text
    if clause.link in ("because", "since", "as") and not clause.question:
        return "reason"
    lead = _FILLER.match(text)
    core = text[lead.end() :] if lead and lead.end() < len(text) else text
    if clause.question:
        return _asked(core)
    if _AFFIRMS.fullmatch(core):
        return "affirm"
    if _CLOSING.fullmatch(core):
        return "close"
    lead = _LEADING.match(core)
    stated = _stated(core[lead.end() :] if lead else core, conditional=clause.link in _CONDITIONS)
    return "affirm" if lead and stated == "close" else stated


def _asked(core: str) -> str:
    """A clause that asks: it suggests, names something, or wants to know."""
    if _SUGGESTS.search(core) and (_FIGURE.search(core) or _SUGGESTS_ALL.search(core)):
        return "suggest"
    if _FIGURE.search(core) and not _VERB.search(core):
        return "echo"
    told = _PROPOSES.search(core) and not _ASKED.match(core) and not _REPORTS.search(core)
    return "suggest" if told else "ask"


def _stated(core: str, *, conditional: bool) -> str:
    """A clause that states something."""
    if _OPINION.search(core):
        return "note"
    if not conditional and _accepts(core):
        return "suit" if _FIGURED.match(core) else "accept"
    if _LIMIT.search(core) and (_FIGURE.search(core) or _BARE_LIMIT.fullmatch(core)):
        return "limit"
    first = next((kind for kind, pattern in _BEFORE_NO if pattern.search(core)), "")
    if not first and _NEGATED.search(core):
        first = "note" if _NEUTRAL.search(core) else "refuse"
    rest = "named" if _FIGURE.search(core) and not _VERB.search(core) else "note"
    return first or next((kind for kind, pattern in _AFTER_NO if pattern.search(core)), rest)


def _accepts(core: str) -> bool:
    """Whether a clause accepts and nothing in it denies or doubts that.

    What an idiom such as "can not say no" holds itself denies nothing.
    """
    rest = _ACCEPTS.sub("", core)
    if rest == core:
        rest = core if _SUITS.search(core) else "not"
    return not _NEGATED.search(rest) and not _HEDGES.search(rest)


def reading(
    line: str,
    terms: Callable[[str], Deal | None],
    offered: Deal | None = None,
    *,
    words: str = "",
    fresh: bool = True,
    by_asking: bool = False,
) -> Reading:
    """What a line does where `offered` is the other's open offer.

    Args:
        line: What is said.
        terms: The terms in a text, None for none.
        offered: None for no open offer.
        words: The open offer in words, with the figures that may be said to suit.
        fresh: Whether that offer is what the other just said: else a mere "yes" answers something
            else.
        by_asking: Whether every question proposes what it names.
    """
    done = tuple(
        ((_suiting(clause, words) if kind == "suit" else kind), clause)
        for kind, clause in deeds(line)
    )
    if offered is None:  # nothing is there to be granted, so it is proposed
        done = tuple(("propose" if kind == "grant" else kind, clause) for kind, clause in done)
    found = _named(done, terms, by_asking=by_asking)
    withdraws = any(_WITHDRAWS.search(clause.text) for _, clause in done)
    if withdraws:
        kind = "offer" if found is not None and found != offered else "refusal"
    else:
        kind = _kind(done, found, offered, fresh=fresh)
    return Reading(kind, found if kind in ("offer", "acceptance") else None, withdraws)


def _suiting(clause: Clause, words: str) -> str:
    """Whether the figures that are said to suit are those of the open offer: "ten is fine"."""
    figures = {int(number) for number in re.findall(r"\d+", clause.text)[:1]}
    open_ones = {int(number) for number in re.findall(r"\d+", written_out(words))}
    clock = {number - _HALF_A_DAY for number in open_ones}
    return "accept" if not words or figures <= open_ones | clock else "other"


def _named(done: Done, terms: Callable[[str], Deal | None], *, by_asking: bool) -> Deal | None:
    """The terms in those clauses of a line that may put some forward."""
    kinds = {kind for kind, _ in done}
    naming = set(_NAMING)
    if by_asking:
        naming.add("ask")
    if not kinds & {"refuse", "ask", "hedge", "stall"}:
        naming.add("note")
    if "refuse" in kinds:
        naming -= {"echo", "close", "commit"}
    exchanged = _exchanged(done)
    named, put = [], False
    for place, (kind, clause) in enumerate(done):
        put = by_asking or exchanged or _puts(done, place, follows=put)
        if put and (kind in naming or (kind == "note" and _fragment(clause))):
            named.append(_REMARKS.sub("", clause.spelt))
    return terms(", ".join(named)) if named else None


def _fragment(clause: Clause) -> bool:
    """Whether a clause is a fragment that adds to others, as "for guitar lessons"."""
    return clause.text.startswith("for ") and not _VERB.search(clause.text)


def _puts(done: Done, place: int, *, follows: bool) -> bool:
    """Whether a clause may put terms forward: not what others do, what was, or an exception.

    follows: whether the clause before does.
    """
    kind, clause = done[place]
    before, last = done[place - 1][::-1] if place else (clause, "")
    if clause.link in _EXCEPTS and _EXCEPTED.search(before.text):
        return False
    if kind not in _ABOUT_ONE or clause.link == "if":
        return True
    text = clause.text.removeprefix("please ")
    if kind == "note" and not _PUTS.search(text):
        return not _FIGURE.search(text)  # as "no dinner" beside the hours
    if kind == "named" and not (_BARE.fullmatch(text) or _PUTS.search(text)):
        after = done[place + 1][1].text if place + 1 < len(done) else ""
        return (follows and last in _LISTING) or bool(_EXCHANGE.match(after))
    if kind == "named" and place and _OTHERS.search(before.text):
        return False
    return not _OTHERS.search(text)


def _kind(done: Done, found: Deal | None, offered: Deal | None, *, fresh: bool) -> str:
    """What a line does by what its clauses do and the terms that it names."""
    kinds = {kind for kind, _ in done}
    said = _decided(done)
    suggests = "suggest" in kinds or (said != "acceptance" and _exchanged(done))
    if found is not None and found != offered:
        return "hedge" if said == "hedge" and not suggests else "offer"
    if suggests:
        return "question" if found is not None else "offer"
    conditional = any(
        c.link in _CONDITIONS and not c.question and not _VACUOUS.search(c.text) for _, c in done
    )
    if said == "acceptance" and "propose" in kinds and (conditional or offered is None):
        said = "offer"
    if said in ("offer", "acceptance", "hedge", "refusal"):
        return "hedge" if said == "acceptance" and conditional else said
    if said and (conditional or fresh or found is not None):
        return "hedge" if conditional else _backed(done, said, restated=found is not None)
    if conditional and any(_EXCHANGE.search(c.text) or kind == "propose" for kind, c in done):
        return "offer"
    return _undecided(kinds, restated=found is not None, answered=fresh and offered is not None)


def _undecided(kinds: set[str], *, restated: bool, answered: bool) -> str:
    """What a line does that neither accepts nor refuses nor hedges.

    Repeating the open terms takes them, unless something else is said beside; and who only says
    what it will do may mean to take them.
    """
    if kinds & {"ask", "echo", "stall"}:
        return "question"
    if restated:
        return "unclear" if kinds & {"note", "commit"} else "acceptance"
    if "commit" in kinds and answered:
        return "unclear"
    return "offer" if kinds & {"propose", "limit"} else "talk"


def _exchanged(done: Done) -> bool:
    """Whether one thing is asked or told for another: "take my mother if I take your boys"."""
    kinds = {kind for kind, _ in done}
    mine = any(_MINE.match(clause.text) for kind, clause in done if kind != "refuse")
    yours = any(_YOURS.match(clause.text) for kind, clause in done if kind != "refuse")
    linked = any(clause.link == "if" or clause.joined for _, clause in done)
    return mine and yours and linked and "hedge" not in kinds


def _decided(done: Done) -> str:
    """Acceptance, refusal or hedge, whichever is said last; "weak" for a weaker yes alone.

    A weaker yes after a no is unclear, unless it is the conclusion: "..., so yes".
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


def _backed(done: Done, said: str, *, restated: bool) -> str:
    """A weaker yes counts where nothing but what backs it is said with it."""
    kinds = {kind for kind, _ in done}
    if "affirm" in kinds or restated or kinds <= {"grant", "close", "propose", "named"}:
        others = kinds - _YES - {"close", "reason", "named", "commit", "echo"}
        if not others or (restated and others <= {"note", "propose"}):
            return "acceptance" if said == "weak" else "unclear"
    if kinds & {"ask", "stall"}:
        return "question"
    return "unclear" if kinds & {"affirm", "grant"} else "talk"
