"""Words of times in English: days, months, seasons, holidays, units, and the verbs that say what lies ahead."""

from __future__ import annotations

from collections.abc import Mapping
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
    "tues": 1, "thur": 3, "thurs": 3,
}  # fmt: skip
# The month in which each begins in the north: meteorological seasons, three whole months.
SEASONS: Final[Mapping[str, int]] = {
    "spring": 3, "springtime": 3, "summer": 6, "summertime": 6, "autumn": 9, "fall": 9, "winter": 12,
    "wintertime": 12,
}  # fmt: skip
UNITS: Final[Mapping[str, str]] = {
    form: unit
    for unit in ("minute", "hour", "day", "week", "fortnight", "weekend", "month", "quarter", "year", "decade")
    for form in (unit, f"{unit}s")
} | {"century": "century", "centuries": "century"}
# First and last hour; beyond 24 it is of the next day.
PARTS: Final[Mapping[str, tuple[int, int]]] = {
    "morning": (5, 12), "noon": (11, 14), "lunchtime": (11, 14), "afternoon": (12, 18), "evening": (17, 24),
    "night": (18, 30),
}  # fmt: skip
REPEATED_PARTS: Final = frozenset(f"{part}s" for part in PARTS if part != "noon")
"""Behind a weekday: "Friday mornings" come again and again."""
DAYS: Final[Mapping[str, int]] = {"yesterday": -1, "today": 0, "tomorrow": 1, "tonight": 0}
# One before, this one, or the next one.
MODIFIERS: Final[Mapping[str, int]] = {
    "last": -1, "previous": -1, "past": -1, "this": 0, "current": 0, "next": 1, "coming": 1, "upcoming": 1,
}  # fmt: skip
NUMBERS: Final[Mapping[str, int]] = {
    **{word: number for number, word in enumerate(_SMALL, 1)},
    "a": 1, "an": 1, "fifteen": 15, "eighteen": 18, "twenty": 20, "thirty": 30, "hundred": 100,
}  # fmt: skip
# Of what is only nearly a number: the least and the most of it.
VAGUE: Final[Mapping[str, tuple[int, int]]] = {"couple": (2, 2), "few": (2, 5), "several": (3, 8)}
DAY_WORDS: Final[Mapping[str, int]] = {
    word: number
    for number, word in enumerate(
        """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
        fifteenth sixteenth seventeenth eighteenth nineteenth twentieth""".split(),
        1,
    )
} | {"thirtieth": 30}
ORDINALS: Final[Mapping[str, int]] = {
    **{word: number for word, number in DAY_WORDS.items() if number <= 5},
    "last": -1,
    "final": -1,
}
# Which third of a period.
EDGES: Final[Mapping[str, int]] = {
    "early": 0, "beginning": 0, "start": 0, "mid": 1, "middle": 1, "late": 2, "end": 2,
}  # fmt: skip
# A month and its days (first, last); a month with the nth of a weekday (n < 0: from its end) and
# days after that; or days after Easter Sunday (first, last).
_HOLIDAYS: Final = """
christmas eve: fixed 12 24 24; christmas day: fixed 12 25 25; christmas: fixed 12 24 26; xmas: fixed 12 24 26
boxing day: fixed 12 26 26; new year's eve: fixed 12 31 31; new years eve: fixed 12 31 31
new year's day: fixed 1 1 1; new years day: fixed 1 1 1; new year's: fixed 12 31 32
valentine's day: fixed 2 14 14; valentines day: fixed 2 14 14; valentine's: fixed 2 14 14
st patrick's day: fixed 3 17 17; women's day: fixed 3 8 8
april fools day: fixed 4 1 1; april fool's day: fixed 4 1 1; earth day: fixed 4 22 22; may day: fixed 5 1 1
juneteenth: fixed 6 19 19; independence day: fixed 7 4 4; fourth of july: fixed 7 4 4
halloween: fixed 10 31 31; veterans day: fixed 11 11 11
martin luther king day: weekday 1 3 0; mother's day: weekday 5 2 6; memorial day: weekday 5 -1 0
father's day: weekday 6 3 6; labor day: weekday 9 1 0; thanksgiving day: weekday 11 4 3
thanksgiving: weekday 11 4 3; black friday: weekday 11 4 3 1
good friday: easter 0 -2 -2; easter sunday: easter 0 0 0; easter monday: easter 0 1 1; easter: easter 0 -2 1
"""


HOLIDAYS: Final[Mapping[tuple[str, ...], tuple[str, int, int, int, int]]] = {
    tuple(name.split()): (kind, int(month), int(one), int(other), int(later[0]) if later else 0)
    for line in _HOLIDAYS.strip().replace("\n", ";").split(";")
    for name, _, rule in [line.partition(":")]
    for kind, month, one, other, *later in [rule.split()]
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
    (
        *MONTHS, *WEEKDAYS, *SEASONS, *UNITS, *PARTS, *DAYS, *(f"{day}'s" for day in DAYS), *MODIFIERS, *NUMBERS,
        *VAGUE, *ORDINALS, *DAY_WORDS, *EDGES, *HOLIDAY_BEGINNINGS, "holidays", "half", "earlier", "later",
        "q1", "q2", "q3", "q4",
    )
)  # fmt: skip
POSSESSIVES: Final = frozenset(
    (*MONTHS, *WEEKDAYS, *SEASONS, *UNITS, *PARTS, *DAYS, "christmas", "easter", "halloween")
)
# Without one of these, or a digit, a question names no time.
TRIGGERS: Final = frozenset(
    (
        *MONTHS, *WEEKDAYS, *(f"{day}s" for day in _WEEKDAYS), *SEASONS, *UNITS, *PARTS, *DAYS, *HOLIDAY_BEGINNINGS,
        "ago", "holidays", "session", "conversation", "chat", "talk", "time",
    )
)  # fmt: skip
RANGING: Final = frozenset(("to", "until", "till", "through", "-", "–"))
