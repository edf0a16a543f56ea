"""Corrections of the source tables by hand: wrong, outdated or disputed entries, and spellings.

`tables` leaves out facts on which two tables disagree.
"""

from __future__ import annotations


def _codes(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


LEFT_OUT = _codes(
    # disputed status, hardly inhabited, no longer there, or without facts that can be told apart
    "AN AQ BQ BV CC CK CS CW CX EH GS HM IO MF NF NU PN PS SJ SX TF TK TW UM XK"
)
"""Countries and territories that have no article."""

TERRITORIES = _codes(
    "AI AS AW AX BL BM FK FO GF GG GI GL GP GU HK IM JE KY MO MP MQ MS NC PF PM PR RE SH TC VG VI "
    "WF YT"
)
"""Those that depend on another country."""

NAMES = {
    "AX": "Åland Islands",
    "BL": "Saint Barthélemy",
    "CV": "Cape Verde",
    "NL": "Netherlands",
    "PS": "Palestinian territories",
    "RE": "Réunion",
    "ST": "São Tomé and Príncipe",
    "TL": "Timor-Leste",
    "VA": "Vatican City",
}
"""Names that replace GeoNames'."""

ALIASES = {
    "AE": "UAE|Emirates",
    "AX": "Aland Islands|Åland|Aland",
    "BA": "Bosnia|Bosnia & Herzegovina",
    "BL": "St. Barthélemy|Saint Barts",
    "BN": "Brunei Darussalam",
    "BO": "Plurinational State of Bolivia",
    "CD": "DR Congo|DRC|Congo-Kinshasa|Democratic Republic of Congo",
    "CF": "CAR",
    "CG": "Congo|Congo-Brazzaville|Congo Republic",
    "CI": "Côte d'Ivoire|Cote d'Ivoire",
    "CN": "People's Republic of China|PRC",
    "CV": "Cabo Verde",
    "CZ": "Czech Republic",
    "FM": "Federated States of Micronesia",
    "GB": "UK|Britain|Great Britain",
    "GM": "The Gambia",
    "IE": "Republic of Ireland",
    "IR": "Islamic Republic of Iran",
    "KN": "St. Kitts and Nevis",
    "KP": "Democratic People's Republic of Korea|DPRK",
    "KR": "Republic of Korea|Korea",
    "LA": "Lao People's Democratic Republic|Lao PDR",
    "LC": "St. Lucia",
    "MD": "Republic of Moldova",
    "MK": "Macedonia",
    "MM": "Burma",
    "MO": "Macau",
    "NL": "The Netherlands|Holland",
    "PM": "St. Pierre and Miquelon",
    "RU": "Russian Federation",
    "SH": "St. Helena",
    "SY": "Syrian Arab Republic",
    "SZ": "Swaziland",
    "TL": "East Timor|Timor Leste",
    "TR": "Türkiye|Turkiye",
    "TZ": "United Republic of Tanzania",
    "US": "United States of America|USA|US|America",
    "VA": "Vatican|Holy See",
    "VC": "St. Vincent and the Grenadines",
    "VN": "Viet Nam",
    "VI": "US Virgin Islands|United States Virgin Islands",
}
"""Other names that are right as an answer."""

WITH_ARTICLE = _codes("AE AX BS CD CF CG DO FK FO GB GM IM KM KY MH MP MV NL PH PS SB TC US VG VI")
"""Countries whose names take `the` in a sentence."""

CAPITALS = {
    "GD": "Saint George's",
    "GG": "Saint Peter Port",
    "KZ": "Astana",
    "PW": "Ngerulmud",
    "TC": "Cockburn Town",
    "US": "Washington, D.C.",
}
"""Capitals that GeoNames' table of countries has out of date, short, or not as its cities have."""

CAPITAL_ALIASES = {
    "AG": "Saint John's|St Johns",
    "GD": "St. George's",
    "GG": "St Peter Port|St. Peter Port",
    "GT": "Guatemala",
    "IN": "Delhi",
    "JE": "St Helier|St. Helier",
    "KW": "Kuwait",
    "KZ": "Nur-Sultan",
    "MD": "Chișinău|Kishinev",
    "MV": "Malé",
    "MM": "Naypyidaw|Naypyitaw",
    "MN": "Ulan Bator",
    "MX": "Ciudad de México|Ciudad de Mexico",
    "PA": "Panamá|Panama",
    "TO": "Nukuʻalofa|Nukualofa",
    "UA": "Kiev",
    "US": "Washington|Washington DC",
    "YE": "Sana'a",
}

NO_CAPITAL = _codes(
    # several, none by law, moving, disputed, or a city that is the country itself
    "BO GI GQ HK ID IL LK MC MO MS NR SG SM SZ VA ZA DJ LU KI"
)
NO_CONTINENT = _codes("AM AW AZ CY EG FM GE GL ID KZ RE RU SH TL TR TT YE")
NO_LANGUAGE = _codes(  # no law says so, or there is a second one, or it changed lately
    "AR AU BF BL CL CV ET FM FO GB GG GN JE JP MF ML MX NE TC US UY VI VG ZM"
)
NO_CURRENCY = _codes("BG SL VE ZW GG JE IM GI FK SH")  # in change, or a local issue
NO_CALLING_CODE = _codes("DO PR VA")  # several, or not in use
NO_DOMAIN = _codes("BL")
NO_EURO_YEAR = _codes("SM VA")  # the books have 1999 to 2002
NO_NEIGHBOURS = _codes("AL CA CU DK GB GL RS US")  # depends on what one counts

NO_AREA = _codes("BH KM MO OM RS SA SG")  # GeoNames' figure is out of date, or disputed

NO_CITIES = _codes(  # in disputed places
    "Sevastopol Simferopol Kerch Yalta Donetsk Luhansk Mariupol Jerusalem Srinagar Jammu Leh "
    "Gilgit Skardu Stepanakert Xankandi Khankendi Sukhumi Sokhumi Tskhinvali Tskhinval Hargeysa "
    "Hargeisa Berbera Burao Erigavo Tiraspol"
)

BORDERS = {"BW": "ZM", "ZM": "BW"}
"""Land borders that GeoNames lacks."""

CURRENCIES = {
    "AFN": "Afghan afghani",
    "BMD": "Bermudian dollar",
    "GYD": "Guyanese dollar",
    "KGS": "Kyrgyzstani som",
    "STN": "São Tomé and Príncipe dobra",
    "TTD": "Trinidad and Tobago dollar",
}
"""Names that replace CLDR's."""

CURRENCY_ALIASES = {
    "AED": "United Arab Emirates dirham|Emirati dirham",
    "AFN": "afghani",
    "BAM": "Bosnian convertible mark|convertible mark",
    "BWP": "Botswana pula",
    "CNY": "renminbi|yuan|Chinese renminbi|yuan renminbi",
    "GBP": "pound sterling|sterling",
    "ILS": "Israeli shekel|new shekel",
    "GYD": "Guyana dollar",
    "JPY": "yen",
    "KGS": "Kyrgyz som|Kyrgyzstan som",
    "KZT": "Kazakh tenge",
    "LAK": "Lao kip",
    "MMK": "Burmese kyat",
    "NPR": "Nepali rupee",
    "PLN": "Polish złoty|złoty",
    "PYG": "Paraguayan guaraní|guaraní",
    "RUB": "Russian rouble",
    "BYN": "Belarusian rouble",
    "SZL": "emalangeni",
    "TJS": "Tajik somoni",
    "TMT": "Turkmen manat|Turkmenistan manat",
    "UZS": "Uzbek som|Uzbek soum|Uzbek sum",
    "VND": "Vietnamese đồng|đồng",
    "USD": "United States dollar|U.S. dollar|American dollar",
    "XAF": "Central African franc|CFA franc BEAC",
    "XOF": "West African franc|CFA franc BCEAO",
    "XPF": "Pacific franc",
}

BEFORE_ALIASES = {
    "Dutch guilder": "gulden",
    "German mark": "Deutsche Mark|Deutschmark|D-Mark",
    "Irish pound": "punt",
    "Luxembourgian franc": "Luxembourg franc|Luxembourgish franc",
}
"""Of what the euro replaced."""

PERSON_ALIASES = {
    "Carl Auer von Welsbach": "Auer von Welsbach|Carl Auer",
    "Humphry Davy": "Sir Humphry Davy",
    "Jean Charles Galissard de Marignac": "Jean-Charles Galissard de Marignac|"
    "Galissard de Marignac",
    "Joseph Louis Gay-Lussac": "Joseph-Louis Gay-Lussac",
    "Lord Rayleigh": "John William Strutt|John Strutt",
    "Paul-Émile Lecoq de Boisbaudran": "Paul Émile Lecoq de Boisbaudran|Lecoq de Boisbaudran|"
    "Paul-Émile Lecoq",
    "William Crookes": "Sir William Crookes",
    "William Ramsay": "Sir William Ramsay",
}

ELEMENT_ALIASES = {"Al": "Aluminium", "Cs": "Caesium", "S": "Sulphur"}

LANGUAGE_ALIASES = {
    "Bangla": "Bengali",
    "Burmese": "Myanmar",
    "Chinese": "Mandarin|Standard Chinese",
    "Divehi": "Dhivehi|Maldivian",
    "Kalaallisut": "Greenlandic",
    "Khmer": "Cambodian",
    "Persian": "Farsi",
    "Romanian": "Moldovan",
}

SCRIPT_ALIASES = {
    "bn": "Bengali|Bengali-Assamese",
    "dv": "Tana",
    "fa": "Perso-Arabic|Persian",
    "km": "Cambodian",
    "my": "Burmese|Mon-Burmese",
}
"""Of the scripts of languages, by their codes."""

HAN = _codes("zh ja ko")
"""Languages whose script has several names."""

COMMON_WORDS = _codes("AS AT BE BY DO IN IS IT ME MY NO OR SO TO US")
"""Two-letter codes that a search engine takes for words: no question starts from one."""

CITIES = {"Ulan Bator": "Ulaanbaatar"}
"""Names that replace older ones in GeoNames."""

CLOSED = _codes("EDDT EDDI GOOY GQNN LCEN LKOL LTBA SCRD ZMUB")
"""Airports that are closed, replaced, for gliders, or in disputed places, by ICAO code."""

AIRPORTS = {
    "FVHA": "Robert Gabriel Mugabe International Airport",
    "GVNP": "Nelson Mandela International Airport",
    "SEGU": "José Joaquín de Olmedo International Airport",
    "TGPY": "Maurice Bishop International Airport",
    "TQPF": "Clayton J. Lloyd International Airport",
    "TXKF": "L.F. Wade International Airport",
    "VABB": "Chhatrapati Shivaji Maharaj International Airport",
}
"""Names of airports by ICAO code that replace older or misspelled ones."""

ISOTOPE_YEARS = {(89, 227): 1902}
"""Years of discovery, by atomic and mass number, where the table is in error."""

SHARED = _codes("ANG AUD BND DKK EGP EUR GBP HKD ILS INR JOD MAD NOK NZD RUB SGD TRY USD ZAR")
"""Currencies that circulate in more places than our tables name."""
