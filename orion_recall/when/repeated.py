"""Repeated weekdays: "every Tuesday", "on Mondays and Thursdays", "Friday and Sunday mornings", "at weekends"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from orion_recall.when.direction import direction, is_over
from orion_recall.when.reading import Reading
from orion_recall.when.vocabulary import MODIFIERS, NUMBERS, PARTS, REPEATED_PARTS, VAGUE, WEEKDAYS

_EVERY: Final = frozenset(("every", "each"))
_BETWEEN: Final = frozenset(("other", "second", "single"))
_PLURALS: Final = {f"{name}s": number for name, number in WEEKDAYS.items() if len(name) > 5}
_NAMES: Final = {**WEEKDAYS, **_PLURALS}
_GROUPS: Final = {
    **dict.fromkeys(("weekday", "weekdays", "workday", "workdays"), (0, 1, 2, 3, 4)),
    **dict.fromkeys(("weekend", "weekends"), (5, 6)),
}
_LEADS: Final = frozenset(("at", "on"))
_NOT_BEFORE: Final = NUMBERS.keys() | VAGUE.keys() | MODIFIERS | {"all", "many"}
# "Mondays should be forbidden" is about Mondays, and happens on none.
_SAYS_NO_TIME: Final = frozenset("are is were was should would could can must will feel never suck".split())
_MOVED: Final = frozenset("gone moved switched changed shifted swapped".split())
_JOINED: Final = frozenset(("and", "or", "&", ",", "the"))


class Repeated(NamedTuple):
    """Weekdays that come again and again, Monday is 0; the part of the day, if one is told; the place after them.

    `is_over`: they did, and do no more.
    """

    weekdays: tuple[int, ...]
    part: str | None
    after: int
    is_over: bool = False


def repeated_weekdays(read: Reading, place: int) -> Repeated | None:
    """The weekdays that come again and again from this place on; None where none do."""
    found = _weekdays(read, place)
    if found is None:
        return None
    after = found.after
    # "Has gone to Mondays", "switched to Thursdays": they are what is new.
    is_moved = read.word(place - 1) == "to" and not _MOVED.isdisjoint(read.words[max(0, place - 4) : place])
    is_past = not is_moved and direction(read.words, place, after) == "past"
    over = is_past or is_over(read.words, place, after)
    return found._replace(is_over=over)


def _weekdays(read: Reading, place: int) -> Repeated | None:
    word, at = read.word(place), place
    if word in _EVERY:
        at += 2 if read.word(place + 1) in _BETWEEN else 1
        if read.word(at) == "week" and read.word(at + 1) == "on":
            at += 2
        if (days := _GROUPS.get(read.word(at))) is not None:
            return _with_part(read, days, at + 1)
        names = _NAMES
    elif read.word(place - 1) in _NOT_BEFORE or read.word(place - 1).isdecimal():
        return None
    elif word in _GROUPS:
        is_repeated = read.word(place + 1) in REPEATED_PARTS or (word[-1] == "s" and read.word(place - 1) in _LEADS)
        return _with_part(read, _GROUPS[word], place + 1) if is_repeated else None
    elif word in _PLURALS:
        names = _PLURALS
    elif (
        word in WEEKDAYS
        and (ends := _listed(read, place, WEEKDAYS))
        and (read.word(ends[1]) in REPEATED_PARTS or (_is_pattern(ends[0]) and read.word(ends[1]) not in MODIFIERS))
    ):
        return _with_part(read, *ends)
    else:
        return None
    found, after = _listed(read, at, names)
    if not found or (place == 0 and word in _PLURALS and read.word(after) in _SAYS_NO_TIME):
        return None
    return _with_part(read, found, after)


def _is_pattern(weekdays: Sequence[int]) -> bool:
    """Whether three weekdays or more are listed with a gap: the plan of every week, and no few days in a row."""
    gaps = {(later - earlier) % 7 for earlier, later in pairwise(weekdays)}
    return len(weekdays) > 2 and gaps != {1}


def _listed(read: Reading, place: int, names: Mapping[str, int]) -> tuple[tuple[int, ...], int]:
    """The weekdays that are listed from there on, each once, and the place after them."""
    found: list[int] = []
    at = after = place
    while (weekday := names.get(read.word(at))) is not None and len(found) < 7:
        found.append(weekday)
        after = at + 1
        at = after
        while read.word(at) in _JOINED:
            at += 1
    return tuple(dict.fromkeys(found)), after


def _with_part(read: Reading, weekdays: tuple[int, ...], after: int) -> Repeated:
    """The weekdays with the part of the day that stands behind them: "every Friday morning"."""
    word = read.word(after)
    part = word.removesuffix("s") if word in REPEATED_PARTS else word
    return Repeated(weekdays, part, after + 1) if part in PARTS else Repeated(weekdays, None, after)
