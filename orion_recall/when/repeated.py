"""Repeated weekdays: "every Tuesday", "on Mondays and Thursdays", "Friday mornings"."""

from __future__ import annotations

from typing import Final

from orion_recall.when.reading import Reading
from orion_recall.when.vocabulary import MODIFIERS, NUMBERS, REPEATED_PARTS, VAGUE, WEEKDAYS

_EVERY: Final = frozenset(("every", "each"))
_BETWEEN: Final = frozenset(("other", "second", "single"))
_PLURALS: Final = {f"{name}s": number for name, number in WEEKDAYS.items() if len(name) > 5}
_NAMES: Final = {**WEEKDAYS, **_PLURALS}
_WEEKDAYS: Final = ("weekday", "weekdays", "workday", "workdays")
_NOT_BEFORE: Final = NUMBERS.keys() | VAGUE.keys() | MODIFIERS | {"all", "many"}
# "Mondays should be forbidden" is about Mondays, and happens on none.
_SAYS_NO_TIME: Final = frozenset("are is were was should would could can must will feel never suck".split())
_JOINED: Final = frozenset(("and", "or", "&", ",", "the"))


def repeated_weekdays(read: Reading, place: int) -> tuple[tuple[int, ...], int] | None:
    """The weekdays that come again and again, and the place after their words."""
    word, at = read.word(place), place
    if word in _EVERY:
        at += 2 if read.word(place + 1) in _BETWEEN else 1
        if read.word(at) == "week" and read.word(at + 1) == "on":
            at += 2
        if read.word(at) in _WEEKDAYS:
            return (0, 1, 2, 3, 4), at + 1
        names = _NAMES
    elif word in _PLURALS and read.word(place - 1) not in _NOT_BEFORE and not read.word(place - 1).isdecimal():
        names = _PLURALS
    elif word in WEEKDAYS and read.word(place + 1) in REPEATED_PARTS:
        return (WEEKDAYS[word],), place + 2
    else:
        return None
    found: list[int] = []
    after = at
    while (weekday := names.get(read.word(at))) is not None and len(found) < 7:
        found.append(weekday)
        after = at + 1
        at = after
        while read.word(at) in _JOINED:
            at += 1
    if not found or (place == 0 and word in _PLURALS and read.word(after) in _SAYS_NO_TIME):
        return None
    return tuple(dict.fromkeys(found)), after
