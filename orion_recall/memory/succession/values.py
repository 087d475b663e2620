"""The values that a text tells, by their type: amounts of money, times of day, dates, weekdays, names, numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orion_recall.text.normal import without_possessive

WEEKDAYS: dict[str, str] = {
    word: day
    for day, listed in {
        "monday": "monday mondays mon lundi montag lunes",
        "tuesday": "tuesday tuesdays tue tues mardi dienstag martes",
        "wednesday": "wednesday wednesdays wed mercredi mittwoch miércoles",
        "thursday": "thursday thursdays thu thur thurs jeudi donnerstag jueves",
        "friday": "friday fridays fri vendredi freitag viernes",
        "saturday": "saturday saturdays sat samedi samstag sonnabend sábado",
        "sunday": "sunday sundays sun dimanche sonntag domingo",
    }.items()
    for word in listed.split()
}
"""The days of the week in four languages, by word."""
_NUMBER_WORDS = {
    name: str(number)
    for number, name in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
}
_MONTHS = "january february march april may june july august september october november december".split()
_CLOCK = re.compile(
    r"\b(?P<hour>[01]?\d|2[0-4])(?:[:.h](?P<minute>[0-5]\d)\b|\s?(?:am|pm|o'clock|h|uhr)\b)"
    r"|\b(?:at|until|till) (?:half past )?(?P<bare>[1-9]|1\d|2[0-4]|"
    + "|".join(_NUMBER_WORDS)
    + r"|noon)\b(?! (?:euro|pound|dollar))"
)
MONEY = re.compile(
    r"(?:[€$£]\s?(?P<first>\d[\d.,]*))|(?P<last>\d[\d.,]*)\s?(?:€|\$|£|euros?\b|eur\b|dollars?\b|usd\b|pounds?\b|francs?\b|quid\b)"
)
_DATE = re.compile(
    r"\b(?P<day>[0-3]?\d)(?:st|nd|rd|th)?(?: of)? (?P<month>" + "|".join(_MONTHS) + r")\b"
    r"|\b(?P<month_first>" + "|".join(_MONTHS) + r") (?P<day_last>[0-3]?\d)(?:st|nd|rd|th)?\b"
    r"|\b(?:the|on|by|to) (?:the )?(?P<alone>[0-3]?\d)(?:st|nd|rd|th)\b"
)
VERSION = re.compile(
    r"(?<![\d.,€$£])\d{1,2}\.\d(?:\.\d+)?(?![\d.]|\s?(?:%|€|\$|£|euro|pound|dollar|k?m\b|kg|hour|year))"
)
_NUMBER = re.compile(r"\b\d[\d.,]*\b")
_DIGIT = re.compile(r"\d")


def values_of(folded: str, said: Sequence[str], names: frozenset[str]) -> dict[str, frozenset[str]]:
    """The values that a text tells, by their type."""
    found = _numbers_of(folded) if _DIGIT.search(folded) else {"clock": _clock_of(folded)}
    found["weekday"] = {WEEKDAYS[word] for word in said if word in WEEKDAYS}
    found["name"] = set(names.intersection(map(without_possessive, said))) if names else set()
    return {kind: frozenset(values) for kind, values in found.items() if values}


def _numbers_of(folded: str) -> dict[str, set[str]]:
    """The values that are told in figures."""
    rest = MONEY.sub(" ", _DATE.sub(" ", _CLOCK.sub(" ", folded)))
    return {
        "money": {(one["first"] or one["last"]).rstrip(".,") for one in MONEY.finditer(folded)},
        "clock": _clock_of(folded),
        "date": {f"{one['day'] or one['day_last'] or one['alone']}" for one in _DATE.finditer(folded)},
        "number": {one.rstrip(".,") for one in _NUMBER.findall(rest)},
    }


def _clock_of(folded: str) -> set[str]:
    return {
        _NUMBER_WORDS.get(one[0].removeprefix("at "), one[0].removeprefix("at ")) for one in _CLOCK.finditer(folded)
    }
