"""Words that the small world is made of; people, places, songs and firms are all made up."""

from __future__ import annotations


def _words(listed: str) -> list[str]:
    """Words between blanks; an underline in one stands for a blank."""
    return [word.replace("_", " ") for word in listed.split()]


def _names(listed: str) -> list[str]:
    """Names between bars."""
    return listed.replace("\n", "").split("|")


FIRST_NAMES = _words("""
Ada Alan Amara Anna Ben Bruno Carla Chloe Cyril Dana David Elena Eric Fatima Felix Grace Hana
Henry Ines Ivan Jada Jonas Julia Karim Kofi Laura Leo Lina Marco Maya Nadia Nils Olive Omar Paula
Petra Quinn Rosa Ruth Samir Simon Sofia Tara Theo Uma Victor Wanda Yara Yusuf Zoe
""")
LAST_NAMES = _words("""
Abbott Barlow Castillo Dunne Eriksen Fairley Greco Hollis Ivanova Jansen Kessler Lindqvist
Marsh Novak Okafor Petrov Quigley Ramsey Sato Tanner Ueda Varga Whitlock Yilmaz Zeller Brandt
Corrigan Delgado Foster Haddad
""")
CITIES = _words("""
Alderton Brackwell Carrow Dunmere Eastholm Fernley Greywater Hartside Kingsby Larkhill
""")
STREETS = _names("""
Birch Lane|Canal Street|Church Road|Elm Avenue|Harbour Street|Hill Road|Mill Lane|Orchard Way|
Park Street|Station Road
""")
GENRES = _words("""
blues classical electronic folk jazz rock ambient bluegrass country disco funk gospel house latin
metal pop punk reggae soul techno
""")
ARTISTS = _names("""
Amber Parade|Blue Lanterns|Cedar & Clay|Dora Vance|Eleven Rivers|Fennel Street Band|Golden Hours|
Hollow Pines|Iris Calloway|June Tremaine|Kestrel Quartet|Low Harbour|Marble Arcade|Nora Lindgren|
Old Ferry Line|Paper Comets|Quiet Engines|Rosewood Nine|Silver Attic|Tomas Avel|Umber & Ash|
Velvet Orchard|Wren Holloway|Yellow Tram|Zinnia Road|Copper Moon|Distant Cousins|Evening Post|
Felix Amaro|Glass Meridian|Harvest Signal|Ivory Lake
""")
PLAYLISTS = _names("""
On the road|Sunday morning|Rainy days|Long runs|Cooking|Deep focus|Old friends|Night shift|
First coffee|Garden work|Slow evening|Train rides|Winter walk|Moving house|Early birds|
Window seat|Paint the hall|Campfire|City lights|Last dance|Warm up|Cool down|Quiet hours|
Loud hours|Dish washing|Open windows|Lake house|Spring again|Half asleep|New shoes|Ironing|
Back then
""")
SONG_STARTS = _words("""
After Autumn Broken Distant Early Empty Falling Gentle Golden Hidden Last Little Lonely Lost
Midnight Northern Open Paper Quiet Silver Slow Summer Velvet Winter
""")
SONG_ENDS = _words("""
Avenue Bridge Candle Carousel Compass Ferry Garden Harbour Horizon Island Letter Lullaby Meadow
Mirror Orchard Promise Railway River Shadow Signal Sparrow Station Tide Window
""")
ALBUM_WORDS = _words("Atlas Bloom Coastline Daylight Echoes Footprints Gravel Homeward Interlude")
GROCERIES = _words("""
apples bananas basil beans bread butter carrots cheese chickpeas coconut_milk cream cucumbers eggs
flour garlic ginger honey lemons lentils limes milk mushrooms noodles oats olive_oil onions
oranges paprika pasta peppers potatoes rice salmon spinach sugar tofu tomatoes walnuts yeast
yoghurt
""")
RESTAURANTS = _names("""
The Copper Kettle|Casa Miralba|The Drowsy Heron|Saffron Yard|Noodle Lantern|The Old Granary|
Bistro Calder|The Blue Plate|Trattoria Lumo|Pepper & Pine|The Salt Cellar|Villa Andora|
Golden Ladle|The Brass Fork|Kitchen Ostara|Osteria Fiume|The Hungry Mason|Olive Terrace|
Station Grill|The Paper Crane|Chez Marlow|The Corner Oven
""")
SHOPS = _names("""
Brightside Books|Corner Hardware|Fern & Fox Florist|Pedal Works|The Tea Cabinet|Tidewater Sports|
Alder Pharmacy|Button Box|Candle Loft|Daisy Bakery|Echo Records|Falcon Cameras|Granite Kitchens|
Harbour Fish|Inkwell Stationers|Juniper Garden Centre|Kite Toys|Lantern Lighting|Maple Furniture|
Nimbus Computers|Orchard Grocers|Pine Outfitters
""")

NOTES = (
    ("Books to read", "The Salt Path of Orlen, A Year in Carrow, The Clockmaker's Wife", "reading"),
    ("Wifi", "The network at home is called larkspur; the password is on the fridge.", "home"),
    ("Gift ideas", "A chess set, wool socks, a voucher for the climbing hall", "ideas"),
    (
        "Running plan",
        "Tuesday 5 km slow, Thursday intervals, Sunday 12 km along the canal",
        "sport",
    ),
    ("Measurements", "Living room 4.2 by 5.1 metres, window 1.4 metres wide", "home"),
    ("Words to look up", "petrichor, sonder, kenning, palimpsest", "reading"),
    ("Dentist", "Ask about the filling on the upper left, and about a night guard.", "health"),
    ("Balcony", "Water the herbs every second day; the mint needs a bigger pot.", "home"),
    (
        "Film club",
        "Next time it is my turn to choose: something short, not another western.",
        "ideas",
    ),
    ("Bike", "New chain in spring, front light flickers, pump is in the cellar.", "sport"),
    ("Questions for the landlord", "Heating in the bathroom, key for the bike shed", "home"),
    ("Talk on Thursday", "Start with the map, keep it under ten minutes, leave time.", "work"),
)
EVENTS = (
    ("Team meeting", "Room 4", 60),
    ("Yoga", "Studio Lotus", 75),
    ("Call with the bank", "", 30),
    ("Swimming", "City pool", 60),
    ("Choir practice", "St Anne's hall", 120),
    ("Project review", "Room 2", 90),
    ("Coffee with a neighbour", "The Tea Cabinet", 45),
    ("Library: return books", "City library", 30),
)
MAILS = (
    ("Saturday", "Are you around on Saturday? We could go for a walk along the canal."),
    ("Photos", "I put the photos of the weekend into the shared album. You look great in them!"),
    ("Thank you", "Thank you for helping me move the sofa. I owe you one."),
    ("Quick question", "Do you still have the big drill? I would need it for an hour."),
    ("The article", "Here is the article I was talking about. Tell me what you think."),
    ("Keys", "I left your spare keys with the neighbour on the second floor."),
    ("Slides", "The slides are nearly done. Could you look at the last two pages?"),
    ("Weather", "It looks like rain on Sunday, so bring a jacket."),
    ("Recipe", "You asked for the recipe: it is mostly butter, do not tell anybody."),
    ("Garden", "The tomatoes are out of control. Come and take some, please."),
)
NEWSLETTERS = (
    ("gardenweekly", "This week in the garden", "Sow spinach now and prune the roses."),
    ("tidewater", "New in the shop", "Trail shoes are twenty per cent off."),
    ("cityguide", "What is on in town", "Street music, a flea market and a late film."),
    ("longreads", "Three good reads", "On bridges, on bees and on being late."),
    ("kitchennotes", "What to cook", "Leek pie, plum cake and a soup for cold days."),
    ("cyclingclub", "Rides of the month", "Flat on Saturday, hills on Sunday."),
    ("museumfriends", "In the museum", "The map room is open again."),
    ("startalk", "The sky tonight", "Two planets meet above the harbour."),
    ("oldmaps", "A map a week", "An island that was never there."),
    ("quizpost", "The quiz", "Ten questions about rivers."),
    (
        "teamasters",
        "Leaves of the season",
        "A green one from the hills, a smoky one from the coast.",
    ),
    ("boardgames", "On the table", "A game about lighthouses for two."),
    ("railnews", "On the line", "The night train stops in Carrow again."),
    ("woodwork", "From the workshop", "A stool without a single screw."),
    ("birdwatch", "Seen this week", "Swifts are back, and a stork on the chimney."),
    ("runnersworld", "On your feet", "Four weeks to the autumn run."),
    ("chesspost", "The problem", "White to move and win in three."),
    ("slowtravel", "By foot and ferry", "Five islands without a car."),
    ("homelibrary", "Shelf talk", "How to lend books and see them again."),
    ("knitcircle", "Stitches", "A hat in an evening, a scarf in a week."),
)
"""Name of the sender, whose address is news@<name>.example; subject; text."""
SPAM = (
    ("winner@prizes.example", "You have won", "Claim your prize today by sending your details."),
    ("doctor@pills.example", "A better you", "Lose ten kilos in a week without trying."),
    ("agent@fortune.example", "Urgent business", "I have a fortune to share with you."),
)
FILES = (
    ("/documents/cv.txt", "Ten years of planning and building things that last."),
    ("/documents/insurance.txt", "Household contents, policy 7741-20, due every October."),
    ("/documents/lease.txt", "Two rooms, kitchen, bath. Notice: three months."),
    ("/work/roadmap.txt", "Spring: cleanup. Summer: the new planner. Autumn: rest."),
    ("/work/ideas.txt", "A map of all benches. A clock that shows the tide."),
    ("/photos/index.txt", "2021 lake, 2022 mountains, 2023 the city by night"),
)
PURPOSES = ("coffee", "cinema tickets", "lunch", "taxi", "concert", "groceries", "museum", "drinks")
