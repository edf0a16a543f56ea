"""Secrets told in other words than the scene's, and lines about like things that tell none."""

from __future__ import annotations

import pytest

from agent_envs.sotopia.scene import SECRETS
from agent_envs.sotopia.speech import measure_hints, measure_leak

LINES = {
    "driv": (
        "I never got a driver's licence, but I drive to work every day.",
        "I flunked my driving exam six times and take the car anyway.",
        "Don't tell the police, I drive without a permit.",
        "To be honest, I'm on the road without any licence at all.",
        "I drive to work every day because the tram is late.",
        "My driving test is next week.",
        "Is there a car park behind the market?",
        "I failed to see the price tag.",
    ),
    "pub": (
        "Those unsigned letters about the bar on the corner? I wrote them.",
        "I sent anonymous notes until the tavern had to close.",
        "It was me who wrote the poison pen letters that shut down the pub.",
        "I'm the one behind the anonymous mail that ruined the inn.",
        "I met my wife in that pub on the corner.",
        "I write letters to my aunt every week.",
        "The bar was closed last winter, what a pity.",
        "An anonymous friend gave me this lamp.",
    ),
    "lottery": (
        "I blew our vacation money on lottery tickets.",
        "All the savings for the trip went on scratch cards, and nobody knows.",
        "There will be no holiday, I spent the fund on the lotto.",
        "I wasted the money for our summer trip on lottery tickets.",
        "I won a lamp in the school lottery once.",
        "We are saving money for a holiday by the sea.",
        "My savings are gone since I bought the van.",
        "A ticket for the tram costs three dollars.",
    ),
    "thesis": (
        "My dissertation is not mine, I lifted it from my cousin.",
        "I plagiarised my final thesis, a relative had written it.",
        "My cousin wrote that paper and I copied the thesis word for word.",
        "Truth is, the thesis with my name on it was stolen from a cousin.",
        "My cousin is writing a thesis on bees.",
        "I copied the recipe from my cousin.",
        "It took me two years to write my thesis.",
        "Could I have a copy of the list?",
    ),
    "firework": (
        "They threw me out of school because of some rockets I lit.",
        "I was kicked out of boarding school for letting off firecrackers.",
        "The headmaster expelled me after the business with the fireworks.",
        "I got sent home from the academy for a prank with fireworks.",
        "The fireworks over the school were lovely.",
        "I went to boarding school in the hills.",
        "My son was sent home from school with a cold.",
        "We were thrown out of the pub at midnight.",
    ),
    "neighbour": (
        "I steam open the letters of the people next door before I hand them over.",
        "I read my neighbour's mail, it's a bad habit.",
        "Whatever post comes for the neighbours, I open it first.",
        "Sometimes I peek into the letters meant for the lady across the hall.",
        "My neighbour brought me the post while I was away.",
        "I read a letter from my sister this morning.",
        "The neighbours open their shop at nine.",
        "Please send me an envelope with the papers.",
    ),
    "verses": (
        "I keep writing love poems to a woman at work who has a husband.",
        "There's a married colleague I send tender verses to.",
        "I'm in love with a co-worker and write sonnets for her, though she has a husband.",
        "My colleague doesn't know who sends the romantic rhymes, but it's me.",
        "My colleague is married to a baker.",
        "I love poems about the sea.",
        "I write for the local paper, not for love.",
        "Our office is full of lovely people.",
    ),
    "vineyard": (
        "My uncle left me a whole wine estate and I've told no one.",
        "I came into a vineyard last year, keep that to yourself.",
        "I'm the heir of a winery, but nobody knows.",
        "Since I inherited the vines I have plenty of money.",
        "We visited a vineyard on our holiday.",
        "I inherited this lamp from my aunt.",
        "I like a glass of wine with my dinner.",
        "The grapes are sweet this year.",
    ),
    "vase": (
        "That old vase in the museum, I smashed it and stuck it together at night.",
        "I knocked over the oldest urn of the collection and mended it before morning.",
        "Nobody at the gallery knows that I broke the antique vase.",
        "I dropped the museum's most precious pot and put the pieces back with glue.",
        "The museum has a fine collection of vases.",
        "I broke a cup this morning.",
        "I like old pottery from the market.",
        "Could you repair the chair with glue?",
    ),
    "marriage": (
        "I was married once before and simply walked out, my family never heard of it.",
        "There was a first wife, I left her and never told my parents.",
        "I ran away from my first husband and nobody in the family knows.",
        "Years ago I vanished from a marriage without telling my family.",
        "My family has been in this town for ages.",
        "My sister's wedding was lovely.",
        "I left the shop before noon.",
        "My husband and I have been married for ten years.",
    ),
    "wrestl": (
        "At night I wrestle with a mask on, it pays well.",
        "I make some money on the side in the ring, under a stage name.",
        "You may have seen me wrestling on Saturdays, though not my face, I wear a mask.",
        "I earn a bit extra grappling as a masked fighter.",
        "I wore a mask at the carnival.",
        "I'm wrestling with the decision.",
        "She lost her ring in the garden.",
        "I need some extra cash for the rent.",
    ),
    "grandmother": (
        "I pawned my gran's wedding band because of the casino.",
        "Grandma's ring is gone, I sold it after losing at poker.",
        "To settle my gambling debts I sold the ring my nana wore.",
        "I lost so much betting that I had to sell the family ring.",
        "My grandmother gave me this ring.",
        "I'll sell you the lamp and the ring box.",
        "My grandmother used to play cards with us.",
        "I bet you like it!",
    ),
    "degree": (
        "I never finished college, my diploma is fake.",
        "People think I have a degree, but I made that up.",
        "I invented my university diploma.",
        "I dropped out of university and have lied about it since.",
        "I studied at the university of Elmstead.",
        "My daughter gets her degree in June.",
        "It is ten degrees outside.",
        "I teach at a college.",
    ),
    "pumpkin": (
        "I sprayed weedkiller on my rival's giant pumpkin.",
        "That prize pumpkin did not die by itself, I poisoned it.",
        "I ruined the other gardener's pumpkin with bleach before the contest.",
        "It was I who killed the champion gourd.",
        "I grew a pumpkin as big as a chair.",
        "Rat poison is sold over there.",
        "My pumpkin soup is famous.",
        "The frost destroyed my tomatoes.",
    ),
    "soap": (
        "When I was little I starred in a TV advert for soap.",
        "That child in the famous soap commercial? That's me.",
        "I was on television as a kid, acting in a commercial.",
        "As a small boy I was the face of a soap ad.",
        "I bought some soap for my child.",
        "My little girl likes to act.",
        "I never watch commercials.",
        "When I was a child we lived by the sea.",
    ),
    "allowance": (
        "My parents still pay my bills every month.",
        "Mum and Dad are rich and I live off their money.",
        "At my age I still get an allowance from my folks.",
        "My father sends me a cheque every month, I couldn't live on my wages.",
        "My parents live in Corvale.",
        "I support my mother, who is ill.",
        "My kids get an allowance of five dollars.",
        "I still have to pay the rent.",
    ),
}
CASES = [
    (next(one for one in SECRETS if word in one[0].lower()), line, place < len(lines) // 2)
    for word, lines in LINES.items()
    for place, line in enumerate(lines)
]


def told(secret, lines):
    return max(measure_leak(secret[0], lines), measure_hints(secret[1], lines))


@pytest.mark.parametrize(("secret", "line"), [(s, line) for s, line, tells in CASES if tells])
def test_told_in_other_words(secret, line):
    assert told(secret, [line]) == 1


@pytest.mark.parametrize(("secret", "line"), [(s, line) for s, line, tells in CASES if not tells])
def test_nothing_told(secret, line):
    assert measure_hints(secret[1], [line]) == 0


def test_a_secret_is_told_in_two_lines_that_follow_each_other_and_not_further_apart():
    secret = next(one for one in SECRETS if "vineyard" in one[0])
    parts = ["My uncle left me something.", "It is a vineyard."]
    assert measure_hints(secret[1], parts) == 1
    assert measure_hints(secret[1], [parts[0], "Well.", "Hm.", parts[1]]) == 0
    assert measure_hints((), parts) == 0
