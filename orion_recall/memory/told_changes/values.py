"""The values that a text tells, by type: money, times, dates, months, weekdays, addresses, names, numbers.

A time of day is one of twelve hours ("at 7", "19:00" and "seven pm" are one), a date the day of a month.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from orion_recall.text.normal import without_possessive, words
from orion_recall.when.vocabulary import DAY_WORDS

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
TIMED = ("clock", "date", "month", "weekday")
"""The types of values that are times."""
_NUMBER_WORDS = {
    name: str(number)
    for number, name in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
}
_MONTHS = "january february march april may june july august september october november december".split()
_CLOCK = re.compile(
    r"\b(?P<hour>[01]?\d|2[0-4])(?:[:.h](?P<minute>[0-5]\d)\b|\s?(?:am|pm|o'clock|h|uhr)\b)"
    r"|\b(?:(?:at|until|till) |(?=half past ))(?P<half>half past )?(?P<bare>[1-9]|1\d|2[0-4]|"
    + "|".join(_NUMBER_WORDS)
    + r"|noon)\b(?! (?:euro|pound|dollar))"
)
_CURRENCIES = (
    r"euros?|cents?|pence|eur|dollars?|usd|pounds?|quid|francs?|chf|rupees?|lari|kron(?:er|or|ur|e|a)|crowns?|yen|pesos?|reais|zlot(?:y|ys)"
    r"|rands?|shekels?|dirhams?|liras?|roubles?|rubles?|shillings?|won|yuan|baht|forints?|hryvnias?"
)
_MONEY = re.compile(
    rf"(?:[€$£¥₹]\s?(?P<first>\d[\d.,]*))|(?<![\d.,])(?P<last>\d[\d.,]*)\s?(?:[€$£¥₹]|(?:{_CURRENCIES})\b)"
)
# What somebody pays for where he lives is his rent, whatever it is called.
_HOME_PRICE = re.compile(
    r"\b(?:pay|pays|paying|costs?|give) (?:\w+ ){0,2}?[€$£]?\s?\d[\d.,]*\s?(?:\S+ ){0,4}?for (?:the|our|my|this) "
    r"(?:flat|apartment|house|room)\b"
)
_MONTH = "|".join((*_MONTHS, *(f"{name[:3]}" for name in _MONTHS), "sept"))
_DAY = "|".join(DAY_WORDS)
_DATE = re.compile(
    rf"\b(?P<day>[0-3]?\d)(?:st|nd|rd|th)?(?: of)? (?P<month>{_MONTH})\b"
    rf"|\b(?P<month_first>{_MONTH}) (?P<day_last>[0-3]?\d)(?:st|nd|rd|th)?\b(?![:.]?\d)"
    rf"|\b(?P<named>{_DAY}) of (?P<month_named>{_MONTH})\b"
    r"|\b(?:the|on|by|to) (?:the )?(?P<alone>[0-3]?\d)(?:st|nd|rd|th)\b"
)
# "May" is another word as well, and April may be a person. "Since March" tells for how long, and not when.
_AMBIGUOUS = "april|august|june|march|may"
_MONTH_ALONE = re.compile(
    rf"(?<!since )\b(?P<month>{'|'.join(name for name in _MONTHS if name not in _AMBIGUOUS.split('|'))})\b"
    rf"|\b(?:in|by|until|till|from|of|next|all|during) (?:mid[ -]|early |late )?(?P<other>{_AMBIGUOUS})\b"
    rf"|\b(?:early|mid|late|end of)[ -](?P<part>{_AMBIGUOUS})\b"
)
_VERSION = re.compile(
    r"(?<![\d.,€$£])\d{1,2}\.\d(?:\.\d+)?(?![\d.]|\s?(?:%|€|\$|£|euro|pound|dollar|k?m\b|kg|hour|year))"
)
_STREETS = "street|st|road|rd|lane|avenue|ave|square|quay|terrace|close|drive|court|gardens|boulevard|row|wharf"
_ADDRESS = re.compile(
    rf"\b\d{{1,4}}[a-z]?,? (?:(?:[^\W\d_]+ ){{1,2}}(?:{_STREETS})\b"
    r"|(?:rue|avenue|boulevard|quai|via|calle) \w+(?: \w+)?)"
)
_CORRECTED = re.compile(r"(?:[,;(–—]\s*|\band |\bbut )not (?P<old>[^.,;:!?()]{1,30})(?=[.,;:!?)]|$)")
_MOST_CORRECTED = 4
_NO_NAMES: frozenset[str] = frozenset()
_NUMBER = re.compile(r"\b\d[\d.,]*\b")
_DIGIT = re.compile(r"\d")
_SITTERS = frozenset("i we he she they you it who and just that".split())
# "17.50" may be a time of day, and a price.
_DECIMAL = re.compile(r"(?<![\d.,:])\d{1,4}\.\d\d(?![\d.,:]|\s?(?:am|pm|h\b|uhr|o'clock))")
# A dose is told in words as often as in figures.
_DOSE = re.compile(rf"\b(?P<number>{'|'.join(_NUMBER_WORDS)}) (?:tablet|pill|capsule|drop|puff|spoonful|dose)s?\b")


def values_of(folded: str, said: Sequence[str], names: frozenset[str]) -> dict[str, frozenset[str]]:
    """The values that a text tells, by their type."""
    found = (
        _numbers_of(folded) if _DIGIT.search(folded) else {"clock": _clock_of(folded), "date": _dates_of(folded)}
    )
    if doses := {_NUMBER_WORDS[one["number"]] for one in _DOSE.finditer(folded)}:
        found["number"] = found.get("number", set()) | doses
    found["month"] = _months_of(folded)
    found["weekday"] = {WEEKDAYS[word] for word in said if word in WEEKDAYS}
    if "sat" in said and not _has_saturday(said):
        found["weekday"].discard("saturday")
    found["name"] = set(names.intersection(map(without_possessive, said))) if names else set()
    return {kind: frozenset(values) for kind, values in found.items() if values}


def may_tell_price(folded: str) -> bool:
    """Whether a number with two decimals, which says no currency, may be a price."""
    return _DECIMAL.search(folded) is not None


def _has_saturday(said: Sequence[str]) -> bool:
    """Whether Saturday is named, and not only that somebody sat."""
    if any(WEEKDAYS.get(word) == "saturday" for word in said if word != "sat"):
        return True
    return any(word == "sat" and before not in _SITTERS for before, word in pairwise(("", *said)))


def families_by_form(folded: str) -> set[str]:
    """The families of words that the form of what a text tells is of: price, version, rent."""
    found = {"price"} if _MONEY.search(folded) else set[str]()
    if _VERSION.search(folded):
        found.add("version")
    if _HOME_PRICE.search(folded):
        found.add("rent")
    return found


def corrected_in(sentences: Iterable[str]) -> dict[str, frozenset[str]]:
    """The times that folded sentences say another stands for, by type: Tuesday of "Wednesdays, not Tuesdays"."""
    found: dict[str, frozenset[str]] = {}
    for sentence in sentences:
        for one in _CORRECTED.finditer(sentence):
            said, before = words(one["old"]), sentence[: one.start()]
            if len(said) > _MOST_CORRECTED:
                continue
            told, had = values_of(before, words(before), _NO_NAMES), values_of(one["old"], said, _NO_NAMES)
            found |= {
                kind: had[kind]
                for kind in TIMED
                if kind in told and kind in had and told[kind].isdisjoint(had[kind])
            }
    return found


def clock_value(hour: str, minute: str = "00") -> str:
    """A time of day as one of twelve hours: `7:00` for 7, 19 and seven."""
    return f"{int(_NUMBER_WORDS.get(hour, hour)) % 12}:{minute}"


_YEAR = re.compile(r"\b(?:in|since|from|until|till|of|by|before|after) (?:19|20)\d\d\b(?![.,]?\d)")
"""A year is no amount."""


def _numbers_of(folded: str) -> dict[str, set[str]]:
    """The values that are told in figures."""
    unpriced = _MONEY.sub(" ", folded)  # "£8.50" is no time of day
    rest = _YEAR.sub(" ", _DATE.sub(" ", _CLOCK.sub(" ", _ADDRESS.sub(" ", unpriced))))
    return {
        "address": set(_ADDRESS.findall(folded)),
        "money": {(one["first"] or one["last"]).rstrip(".,") for one in _MONEY.finditer(folded)},
        "clock": _clock_of(unpriced),
        "date": _dates_of(folded),
        "number": {one.rstrip(".,") for one in _NUMBER.findall(rest)},
    }


def _clock_of(folded: str) -> set[str]:
    return {
        clock_value(
            (one["hour"] or one["bare"]).replace("noon", "12"), one["minute"] or ("30" if one["half"] else "00")
        )
        for one in _CLOCK.finditer(folded)
    }


def _dates_of(folded: str) -> set[str]:
    """The days of months."""
    days = (
        one["day"] or one["day_last"] or one["alone"] or str(DAY_WORDS[one["named"]])
        for one in _DATE.finditer(folded)
    )
    return {day.lstrip("0") for day in days}


def _months_of(folded: str) -> set[str]:
    """The first three letters of the months, with a day or without."""
    dated = (one["month"] or one["month_first"] or one["month_named"] for one in _DATE.finditer(folded))
    alone = (one["month"] or one["other"] or one["part"] for one in _MONTH_ALONE.finditer(folded))
    return {month[:3] for month in (*dated, *alone) if month}
