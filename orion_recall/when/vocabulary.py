"""Words of times: days, months, seasons, holidays, units; days and months in six other languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_MONTHS = "january february march april may june july august september october november december".split()
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_SMALL = "one two three four five six seven eight nine ten eleven twelve".split()

MONTHS: Final[Mapping[str, int]] = {
    **{name: number for number, name in enumerate(_MONTHS, 1)},
    **{name[:3]: number for number, name in enumerate(_MONTHS, 1)},
    "sept": 9,
}
WEEKDAYS: Final[Mapping[str, int]] = {
    **{name: number for number, name in enumerate(_WEEKDAYS)},
    **{name: number for number, name in enumerate("mon tue wed thu fri sat sun".split())},
    "tues": 1,
    "thur": 3,
    "thurs": 3,
}
# The month in which each begins in the north: meteorological seasons, three whole months.
SEASONS: Final[Mapping[str, int]] = {
    "spring": 3,
    "springtime": 3,
    "summer": 6,
    "summertime": 6,
    "autumn": 9,
    "fall": 9,
    "winter": 12,
    "wintertime": 12,
}
UNITS: Final[Mapping[str, str]] = {
    form: unit
    for unit in ("minute", "hour", "day", "week", "fortnight", "weekend", "month", "quarter", "year", "decade")
    for form in (unit, f"{unit}s")
} | {"century": "century", "centuries": "century"}
# First and last hour; beyond 24 it is of the next day.
PARTS: Final[Mapping[str, tuple[int, int]]] = {
    "morning": (5, 12),
    "noon": (11, 14),
    "lunchtime": (11, 14),
    "afternoon": (12, 18),
    "evening": (17, 24),
    "night": (18, 30),
}
REPEATED_PARTS: Final = frozenset(f"{part}s" for part in ("morning", "lunchtime", "afternoon", "evening", "night"))
"""Behind a weekday: "Friday mornings" come again and again."""
DAYS: Final[Mapping[str, int]] = {"yesterday": -1, "today": 0, "tomorrow": 1, "tonight": 0}
LAST: Final = frozenset(("last", "previous", "past"))
THIS: Final = frozenset(("this", "current"))
NEXT: Final = frozenset(("next", "coming", "upcoming"))
MODIFIERS: Final = LAST | THIS | NEXT
NUMBERS: Final[Mapping[str, int]] = {
    **{word: number for number, word in enumerate(_SMALL, 1)},
    "a": 1,
    "an": 1,
    "fifteen": 15,
    "eighteen": 18,
    "twenty": 20,
    "thirty": 30,
    "hundred": 100,
}
# Of what is only nearly a number: the least and the most of it.
VAGUE: Final[Mapping[str, tuple[int, int]]] = {"couple": (2, 2), "few": (2, 5), "several": (3, 8)}
ORDINALS: Final[Mapping[str, int]] = {
    **{word: number for number, word in enumerate("first second third fourth fifth".split(), 1)},
    "last": -1,
    "final": -1,
}
DAY_WORDS: Final[Mapping[str, int]] = {
    word: number
    for number, word in enumerate(
        """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
        fifteenth sixteenth seventeenth eighteenth nineteenth twentieth""".split(),
        1,
    )
} | {"thirtieth": 30}
# Which third of a period.
EDGES: Final[Mapping[str, int]] = {
    "early": 0,
    "beginning": 0,
    "start": 0,
    "mid": 1,
    "middle": 1,
    "late": 2,
    "end": 2,
}
DECADES: Final[Mapping[str, int]] = {
    "twenties": 20,
    "thirties": 30,
    "forties": 40,
    "fifties": 50,
    "sixties": 60,
    "seventies": 70,
    "eighties": 80,
    "nineties": 90,
}
# A month and its days (first, last); a month with the nth of a weekday (n < 0: from its end) and
# days after that; or days after Easter Sunday (first, last).
HOLIDAYS: Final[Mapping[tuple[str, ...], tuple[str, int, int, int, int]]] = {
    ("christmas", "eve"): ("fixed", 12, 24, 24, 0),
    ("christmas", "day"): ("fixed", 12, 25, 25, 0),
    ("christmas",): ("fixed", 12, 24, 26, 0),
    ("xmas",): ("fixed", 12, 24, 26, 0),
    ("boxing", "day"): ("fixed", 12, 26, 26, 0),
    ("new", "year's", "eve"): ("fixed", 12, 31, 31, 0),
    ("new", "years", "eve"): ("fixed", 12, 31, 31, 0),
    ("new", "year's", "day"): ("fixed", 1, 1, 1, 0),
    ("new", "years", "day"): ("fixed", 1, 1, 1, 0),
    ("new", "year's"): ("fixed", 12, 31, 32, 0),
    ("valentine's", "day"): ("fixed", 2, 14, 14, 0),
    ("valentines", "day"): ("fixed", 2, 14, 14, 0),
    ("valentine's",): ("fixed", 2, 14, 14, 0),
    ("st", "patrick's", "day"): ("fixed", 3, 17, 17, 0),
    ("women's", "day"): ("fixed", 3, 8, 8, 0),
    ("april", "fools", "day"): ("fixed", 4, 1, 1, 0),
    ("april", "fool's", "day"): ("fixed", 4, 1, 1, 0),
    ("earth", "day"): ("fixed", 4, 22, 22, 0),
    ("may", "day"): ("fixed", 5, 1, 1, 0),
    ("juneteenth",): ("fixed", 6, 19, 19, 0),
    ("independence", "day"): ("fixed", 7, 4, 4, 0),
    ("fourth", "of", "july"): ("fixed", 7, 4, 4, 0),
    ("halloween",): ("fixed", 10, 31, 31, 0),
    ("veterans", "day"): ("fixed", 11, 11, 11, 0),
    ("martin", "luther", "king", "day"): ("weekday", 1, 3, 0, 0),
    ("mother's", "day"): ("weekday", 5, 2, 6, 0),
    ("memorial", "day"): ("weekday", 5, -1, 0, 0),
    ("father's", "day"): ("weekday", 6, 3, 6, 0),
    ("labor", "day"): ("weekday", 9, 1, 0, 0),
    ("thanksgiving", "day"): ("weekday", 11, 4, 3, 0),
    ("thanksgiving",): ("weekday", 11, 4, 3, 0),
    ("black", "friday"): ("weekday", 11, 4, 3, 1),
    ("good", "friday"): ("easter", 0, -2, -2, 0),
    ("easter", "sunday"): ("easter", 0, 0, 0, 0),
    ("easter", "monday"): ("easter", 0, 1, 1, 0),
    ("easter",): ("easter", 0, -2, 1, 0),
}
# By their first words, the longest first.
HOLIDAY_BEGINNINGS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    first: tuple(sorted((name for name in HOLIDAYS if name[0] == first), key=len, reverse=True))
    for first in {name[0] for name in HOLIDAYS}
}
# After these a month, a season, a year or a weekday is one, and not a verb, a name or a number.
LEADS: Final = frozenset(
    """in on during since until till by of from to between and or through throughout before after around over for
    at early mid late last previous past this current next coming upcoming the beginning start middle end every
    following prior about than as recap summarise summarize sum wrap review - , –""".split()
)
# So they do of a weekday alone: "how did Monday go".
WEEKDAY_LEADS: Final = frozenset(("did", "was", "went", "is"))
FUTURE: Final = frozenset("shall won't i'll we'll you'll he'll she'll they'll it'll who'll upcoming".split())
# What is still to be done lies ahead, unless a word says that it is over.
OWED: Final = {
    **dict.fromkeys(("have", "has", "need", "needs", "supposed"), ("to",)),
    "should": ("i", "we", "they", "he", "she", "be"),
}
PAST: Final = frozenset(
    """did didn't was wasn't were weren't had been gone done said happened came went told met saw took made gave
    bought ate spoke wrote brought""".split()
)
# What is told of what is to come.
PLAN_NOUNS: Final = frozenset(
    """plan plans appointment appointments deadline deadlines agenda calendar schedule reminder reminders todo todos
    itinerary reservation reservations""".split()
)
ARRANGED: Final = frozenset("planned scheduled booked arranged lined".split())
# After "do" and "does", and with a time: what will happen.
EVENT_VERBS: Final = frozenset(
    """arrive attend begin bring celebrate close collect come deliver depart do drive end expect expire fetch finish
    fly get give go host interview join launch leave meet move open pay perform pick play present rehearse return
    sail see send ship sing speak start stay submit take travel visit want""".split()
)
# They end as "doing" does.
NO_VERBS: Final = frozenset(
    """anything everything something nothing thing during morning evening spring string sibling ceiling building
    wedding missing existing interesting boring remaining according regarding concerning including following king
    being""".split()
)
# What people do when they say something.
TALK_VERBS: Final = frozenset(
    """say says said saying tell tells told telling talk talks talked talking discuss discussed discussing mention
    mentions mentioned speak spoke spoken speaking ask asks asked asking write writes wrote written chat chatted
    chatting recommend recommended suggest suggested announce announced explain explained advise advised answer
    answered reply replied message messaged remind reminded complain complained""".split()
)
# What a period can begin with, beside figures and "the".
BEGINNINGS: Final = frozenset(
    {
        *MONTHS,
        *WEEKDAYS,
        *SEASONS,
        *UNITS,
        *PARTS,
        *DAYS,
        *(f"{day}'s" for day in DAYS),
        *MODIFIERS,
        *NUMBERS,
        *VAGUE,
        *ORDINALS,
        *DAY_WORDS,
        *EDGES,
        *DECADES,
        *HOLIDAY_BEGINNINGS,
        "holidays",
        "half",
        "earlier",
        "later",
        *(f"q{number}" for number in range(1, 5)),
    }
)
POSSESSIVES: Final = frozenset(
    {*MONTHS, *WEEKDAYS, *SEASONS, *UNITS, *PARTS, *DAYS, "christmas", "easter", "halloween"}
)
# Without one of these, or a digit, a question names no time.
TRIGGERS: Final = frozenset(
    {
        *MONTHS,
        *WEEKDAYS,
        *(f"{day}s" for day in _WEEKDAYS),
        *SEASONS,
        *UNITS,
        *PARTS,
        *DAYS,
        *DECADES,
        *HOLIDAY_BEGINNINGS,
        *(name[0] for name in HOLIDAYS),
        "ago",
        "holidays",
        "session",
        "conversation",
        "chat",
        "talk",
        "time",
    }
)


_ENGLISH_WEEKDAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()
_ENGLISH_MONTHS: Final = (
    "january february march april may june july august september october november december".split()
)


def _names(english: Sequence[str], *languages: str) -> dict[str, str]:
    return {name: said for names in languages for name, said in zip(names.split(), english, strict=True)}


# Written with a capital.
_GERMAN: Final = _names(
    [*_ENGLISH_WEEKDAYS, *_ENGLISH_MONTHS],
    """montag dienstag mittwoch donnerstag freitag samstag sonntag
    januar februar märz april mai juni juli august september oktober november dezember""",
)
# Written without one.
_LOWER_CASE: Final = _names(
    [*_ENGLISH_WEEKDAYS, *_ENGLISH_MONTHS],
    """lundi mardi mercredi jeudi vendredi samedi dimanche
    janvier février mars avril mai juin juillet août septembre octobre novembre décembre""",
    """lunes martes miércoles jueves viernes sábado domingo
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre""",
    """lunedì martedì mercoledì giovedì venerdì sabato domenica
    gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre""",
    """maandag dinsdag woensdag donderdag vrijdag zaterdag zondag
    januari februari maart april mei juni juli augustus september oktober november december""",
    """segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo
    janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro""",
) | {
    "gestern": "yesterday",
    "heute": "today",
    "morgen": "tomorrow",
    "aujourd'hui": "today",
    "demain": "tomorrow",
    "ayer": "yesterday",
    "hoy": "today",
    "mañana": "tomorrow",
    "ieri": "yesterday",
    "oggi": "today",
    "domani": "tomorrow",
    "gisteren": "yesterday",
    "vandaag": "today",
    "ontem": "yesterday",
    "hoje": "today",
    "amanhã": "tomorrow",
}
_IS_FRENCH: Final = frozenset("je j'ai nous vous le la les est une elle il avons chez avec".split())
# Before a day or a month.
_LEADS: Final[Mapping[str, str]] = {
    **dict.fromkeys("am im den dem le el au en il op dia no na em".split(), "on"),
    **dict.fromkeys("bis jusqu'à jusqu'au hasta tot até".split(), "until"),
    **dict.fromkeys("seit depuis desde sinds".split(), "since"),
    **dict.fromkeys("ab dès vom von du del dal vanaf".split(), "from"),
    **dict.fromkeys("zum al".split(), "to"),
    **dict.fromkeys("nächsten nächste nächster kommenden próximo volgende prossimo próxima".split(), "next"),
    **dict.fromkeys("letzten letzte letzter vorige".split(), "last"),
    **dict.fromkeys("diesen diese dieser diesem ce este".split(), "this"),
    **dict.fromkeys("jeden jeder chaque cada los ogni elke iedere".split(), "every"),
}
_AFTER: Final[Mapping[str, str]] = {
    **dict.fromkeys("prochain próximo prossimo".split(), "next"),
    **dict.fromkeys("dernier pasado scorso passado".split(), "last"),
}


def in_english(words: list[str], capitals: Sequence[bool]) -> None:
    """Replaces the words, folded and in order, in their places; `capitals` says which are written with one."""
    found: list[int] = []
    for place, (word, capital) in enumerate(zip(words, capitals, strict=True)):
        if word == "hier" and not _IS_FRENCH.isdisjoint(words):  # "here" in German
            words[place] = "yesterday"
        elif (english := (_GERMAN if capital else _LOWER_CASE).get(word)) is not None and english != word:
            if english in _ENGLISH_MONTHS and not _has_a_day(words, place):
                continue
            words[place] = english
            found.append(place)
    for place in found:
        _translate_around(words, place)


def _has_a_day(words: Sequence[str], place: int) -> bool:
    """ "3. Mai", "3 de mayo": without a number it may be a name, or another word."""
    before = [word for word in words[max(0, place - 2) : place] if word not in (".", "de")]
    return bool(before) and before[-1].isdecimal()


def _translate_around(words: list[str], place: int) -> None:
    """The words beside a day or a month."""
    first = place
    if words[place] in _ENGLISH_MONTHS:
        first = place - 1 if words[place - 1].isdecimal() else place - 2
        if words[place - 1] in (".", "de"):
            words[place - 1] = "of"
        if first > 0 and words[first - 1] in _ENGLISH_WEEKDAYS:
            return
    following = words[place + 1] if place + 1 < len(words) else ""
    if following in _AFTER:
        words[place], words[place + 1] = _AFTER[following], words[place]
    if first > 0 and (lead := _LEADS.get(words[first - 1])) is not None:
        # "Le jeudi" is every Thursday, "le jeudi 24" one of them.
        is_every = words[first - 1] == "le" and words[place] in _ENGLISH_WEEKDAYS and not following.isdecimal()
        words[first - 1] = "every" if is_every else lead
