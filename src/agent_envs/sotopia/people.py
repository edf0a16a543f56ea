"""The characters of generated scenes: people of our own, drawn by the scene's generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.sotopia.scene import Character

if TYPE_CHECKING:
    from random import Random

_FIRST = (
    *((name, "she/her") for name in (
        "Adele", "Beatriz", "Chiara", "Dorothea", "Esi", "Freya", "Gulnara", "Hanako",
    )),
    *((name, "he/him") for name in (
        "Alun", "Bastien", "Cormac", "Dmitri", "Emeka", "Farid", "Gustav", "Hiroshi",
    )),
    *((name, "they/them") for name in ("Indigo", "Jules", "Kit", "Lior")),
)  # fmt: skip
_LAST = (
    "Abernathy", "Bianchi", "Castellan", "Dragomir", "Eriksen", "Fontaine", "Galloway",
    "Halvorsen", "Iwasaki", "Jankowski", "Kettering", "Lindqvist", "Mbeki", "Nakagawa",
    "Okonkwo", "Pemberton", "Quintero", "Rasmussen", "Sandoval", "Tremblay",
)  # fmt: skip
_LIVES = (
    ("baker", "Opens the shop at five and sings while the bread rises."),
    ("tram driver", "Knows every stop of the city and photographs them in winter."),
    ("primary school teacher", "Runs the chess club and never skips a field trip."),
    ("carpenter", "Builds boats in a garage that is too small for them."),
    ("nurse", "Works nights and grows tomatoes on the balcony."),
    ("librarian", "Keeps bees on the library roof."),
    ("accountant", "Plays the accordion in a street band on Sundays."),
    ("gardener", "Tends the roses of the city park and reads poems to them."),
    ("software tester", "Repairs old radios and gives them away."),
    ("physiotherapist", "Swims in the lake every morning, ice or no ice."),
    ("translator", "Is learning a seventh language from crime novels."),
    ("tailor", "Sews costumes for the amateur theatre."),
    ("geologist", "Collects sand from beaches in labelled jars."),
    ("cook", "Is writing a book about forgotten soups."),
    ("postal worker", "Has walked every street of the town twice."),
    ("piano tuner", "Raises rescued greyhounds."),
)
SECRETS = (  # and by which words each of its parts is known, whoever tells it
    (
        "Failed the driving test six times and drives without a licence.",
        ("licence|license|permit|driving test|driver's test|driving exam|road test",
         "without|no|never|not|do not have|unlicensed|fail|flunk|six times|6 times",
         "drive|driving|behind the wheel|car|road"),
    ),
    (
        "Wrote the anonymous letters that closed the corner pub.",
        ("anonymous|unsigned|poison pen|secret|without my name|without a name|no signature",
         "letter|note|mail|wrote|write|message|penned",
         "pub|bar|tavern|inn|drinking place|local"),
    ),
    (
        "Spent the holiday savings on lottery tickets.",
        ("holiday|vacation|travel|trip|summer|nest egg|savings|saved|rainy day|fund|money",
         "spent|spend|blew|blow|wasted|gone|lost|used up|bought|squandered|went on|put into|threw",
         "lottery|lotto|scratch card|scratchcard|raffle ticket|jackpot|draw ticket"),
    ),
    (
        "Copied a final thesis from a cousin.",
        ("thesis|dissertation|final paper|degree paper|graduation paper|final work",
         ("copied|copy|plagiari|stole|stolen|not mine|lifted|cribbed|not write"
          "|someone else|borrowed"
         "|not my own|word for word"),
         "cousin|relative|family|someone else|not mine|not write|plagiari|not my own"),
    ),
    (
        "Was expelled from boarding school for setting off fireworks.",
        ("expel|thrown out|kicked out|sent down|sent home|dismissed|threw me out|kicked me out",
         "school|boarding|dormitory|headmaster|academy",
         "firework|rocket|firecracker|cracker|pyrotechnic|bang|boarding"),
    ),
    (
        "Reads the neighbour's post before handing it over.",
        ("neighbour|neighbor|next door|across the hall|upstairs|downstairs|other people",
         "post|mail|letter|envelope|parcel|postcard",
         ("read|open|peek|steam|look at|look into|snoop|go through|before i hand|before i give"
         "|before handing")),
    ),
    (
        "Has been writing romantic verses to a married colleague.",
        ("romantic|love|passionate|tender|heart|crush|infatuat|adore|in love",
         "verse|poem|poetry|sonnet|rhyme|letter|write|wrote|writing",
         "colleague|co-worker|coworker|at work|from work|office|married|husband|wife|workmate"),
    ),
    (
        "Inherited a vineyard and tells nobody about the money.",
        ("inherit|left me|heir|was left|bequeath|passed to me|came into|will of",
         "vineyard|winery|vines|wine estate|grapes|wine-growing|wine farm"),
    ),
    (
        "Broke the museum's oldest vase and glued it overnight.",
        ("museum|gallery|exhibit|collection|oldest",
         "vase|urn|pot|pottery|amphora|antique",
         ("broke|break|broken|smash|shatter|knock|dropped|crack|glue|repair|mended|stuck"
         "|put it back")),
    ),
    (
        "Left a first marriage without a word to the family.",
        (("left|walked out|ran away|abandon|deserted|run off|walked away|disappeared|vanished|fled"
         "|never said|secret|nobody knows|do not know|never told|hid|without a word"),
         "marriage|married|husband|wife|spouse|ex|wedding|divorce",
         ("first|before|once|earlier|previous|family|parents|another|already|used to"
         "|without a word")),
    ),
    (
        "Earns extra cash as a wrestler under a masked name.",
        ("wrestl|grappl|in the ring|ring fighter|lucha",
         ("mask|masked|stage name|under another name|secret name|false name|extra|cash|money|paid"
         "|on the side|nights|weekends|earn|moonlight|pays|second job|alias|fight")),
    ),
    (
        "Sold a grandmother's wedding ring to pay gambling debts.",
        ("grandmother|grandma|gran|granny|nana|heirloom|family",
         "ring|jewel|wedding band|jewellery|jewelry",
         "sold|sell|pawn|gambl|bet|casino|poker|debt|roulette|owed|hock"),
    ),
    (
        "Pretends to have a university degree.",
        ("university|college|degree|diploma|graduate|graduated|bachelor|academic",
         ("pretend|fake|faked|forged|lie|lied|made it up|made that up|made up|never finished|no"
          "|never got|never went|never had|not have|never graduated|never studied|bogus|false"
          "|invented|never set foot|dropped out")),
    ),
    (
        "Poisoned the champion pumpkin of a rival gardener.",
        ("pumpkin|gourd|squash",
         ("poison|kill|sabotag|weedkiller|weed killer|destroyed|ruined|sprayed|vinegar|murder"
         "|toxic|bleach")),
    ),
    (
        "Was a child actor in a famous soap commercial.",
        ("child|kid|little|small|boy|girl|young|years old|childhood|tiny|baby",
         "commercial|advert|ad|television|tv|spot",
         "soap|actor|acted|acting|star|starred|played|famous|face"),
    ),
    (
        "Still lives off an allowance from wealthy parents.",
        ("parent|mother|father|mum|dad|mom|folks",
         ("allowance|pay my|pays my|pay all my|pay for everything|pocket money|send me|sends me"
         "|support me|my bills|finance me|wire me|give me money|cheque|living off|live off|live on"
         "|keep me afloat|bankroll|subsidi|fund me|cover my"),
         ("still|every month|monthly|live off|living off|wealthy|rich|allowance|rely"
          "|at my age|grown"
         "|pay my|pays my|pocket money|send me|bankroll|subsidi")),
    ),
)  # fmt: skip
_VALUES = ("care", "fairness", "loyalty", "liberty", "honesty", "tradition", "adventure", "calm")
_TEMPERS = {
    "stubborn": ("low agreeableness, high conscientiousness", "slowly, and stays with it"),
    "generous": ("high agreeableness, high openness", "by what pleases both"),
    "impatient": ("high neuroticism, low conscientiousness", "fast, and hates to wait"),
    "fair": ("middling in all, rather agreeable", "by give and take"),
}


def pair(rng: Random, temper: tuple[str, str]) -> tuple[Character, Character]:
    """Two people with nothing in common, of these tempers."""
    first, last = rng.sample(_FIRST, 2), rng.sample(_LAST, 2)
    lives, secrets = rng.sample(_LIVES, 2), rng.sample(SECRETS, 2)

    def person(side: int) -> Character:
        name, pronoun = first[side]
        occupation, public = lives[side]
        personality, decides = _TEMPERS[temper[side]]
        values = tuple(rng.sample(_VALUES, 2))
        return Character(
            name, last[side], rng.randint(21, 67), occupation, pronoun,
            public, personality, values, decides, *secrets[side],
        )  # fmt: skip

    return person(0), person(1)
