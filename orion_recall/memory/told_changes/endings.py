"""What a phrase of change is about: what ends, who does not come, what is reached, whether a time is moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from orion_recall.memory.told_changes.values import WEEKDAYS
from orion_recall.memory.told_changes.word_lists import ABSENCES, DEPARTURES, ENDS_AFTER, REACHES, Heard
from orion_recall.text.normal import STOP_WORDS, without_possessive
from orion_recall.when.vocabulary import DAY_WORDS, DAYS, MONTHS, PARTS, UNITS

SPEAKER = ""
"""Whoever says "I" or "we"."""
_HAVE, _WHERE_TO = frozenset(("has", "have")), frozenset("to back off home abroad".split())
_SELF = frozenset("i we i'm we're i've we've i'll we'll".split())
_MOVES = frozenset("move moves moved moving".split())
_SLIPS = frozenset("slip slips slipped slid slides".split())
_ELSEWHEN = frozenset("back to until till by forward out".split())
_UNDER = frozenset("on off down out over in into under away from my his her the a".split())
_OWNERS = frozenset("the our my your his her their this house".split())
_MOVERS = _SELF | frozenset("he she they he's she's they've they're just finally both all and".split())
_WHERE = frozenset("to into in out house home here there away back from over across again today yesterday".split())
_TIMES = frozenset(
    (*WEEKDAYS, *MONTHS, *DAYS, *DAY_WORDS, *PARTS, *UNITS, "next", "noon", "midnight", "half", "later")
)
_NOT = frozenset("can't cannot won't couldn't didn't not".split())
_DETERMINERS = frozenset(
    "a an any some the my our your his her their its this that these those all both taking".split()
)
_BE = frozenset("is are was were be been being got get gets it's that's".split())
_CLAUSE = frozenset("and but so because as since when while if".split())
_SAYING = frozenset("says say said tells told me us that heard hear think thinks".split())
_MOST = 4


def shifts_nothing(said: Sequence[str], place: int, end: int) -> bool:
    """Whether a phrase of another time there means another thing: who moves house, or cannot make it.

    "Our move is on Friday", "we moved to the coast" and "Moved!" are of a house; "it moved to Friday" is not. Nor
    does anything else slip that slips on the stairs.
    """
    first = said[place]
    if first == "make":
        return not _NOT.isdisjoint(said[max(0, place - 2) : place])
    if first == "pushed" and end == place + 1:
        # "Pushed it with three men" is of a van, "pushed your script back" and "was pushed" of a time.
        return _BE.isdisjoint(said[max(0, place - 2) : place]) and _ELSEWHEN.isdisjoint(said[end : end + _MOST + 2])
    if first in _SLIPS:
        return said[end : end + 1] != [] and said[end] in _UNDER
    if first not in _MOVES:
        return False
    before = said[place - 1] if place else ""
    if first == "move" and before in _OWNERS:
        return True
    last = said[end - 1]
    after = said[end : end + 3] if last in _WHERE else said[end + 1 : end + 4]
    following = last if last in _WHERE else said[end] if end < len(said) else ""
    if following in _WHERE:
        return not _is_time(after)
    return first == "moved" and before in ("", *_MOVERS) and not following


def moves_a_time(said: Sequence[str], place: int, end: int) -> bool:
    """Whether the phrase there, and what follows, moves something to another time: "moved the talk to Friday"."""
    return said[place] in _MOVES and said[end - 1] == "to" and _is_time(said[end : end + 3])


def _is_time(after: Sequence[str]) -> bool:
    """Whether the words begin with a time: "the 9th", "next week", "Friday", "half past two"."""
    told = [word for word in after if word not in _DETERMINERS and word != "to"][:1]
    return bool(told) and (told[0] in _TIMES or told[0][:1].isdigit())


def objects_of(said: Sequence[str], phrase: Sequence[str]) -> Sequence[str] | None:
    """What a phrase ends, as words: bus of "no more bus after eight"; None of a phrase with no object after it."""
    end = end_of(said, phrase)
    before, ending = said[end - len(phrase) - 1 : end - len(phrase)], " ".join(phrase)
    # "Bergen is cancelled": its subject stands before it. "There is no more bus" has none there.
    if ending not in ENDS_AFTER or (ending != "no more" and not _BE.isdisjoint(before)):
        return None
    return _named_from(said, end) or None


def absentees_of(said: Sequence[str], phrase: Sequence[str]) -> Sequence[str] | None:
    """Who does not come, as words, `SPEAKER` for the speaker; None of a phrase that says no such thing."""
    if " ".join(phrase) not in ABSENCES:
        return None
    before = said[: end_of(said, phrase) - len(phrase)]
    clause = [*takewhile(lambda word: word not in _CLAUSE, reversed(before))][:_MOST]
    found = [SPEAKER if word in _SELF else word for word in clause if word in _SELF or word not in STOP_WORDS]
    return found or None


def departure_of(said: Sequence[str], phrase: Sequence[str]) -> Sequence[str] | None:
    """Who leaves, and what, as words, `SPEAKER` for the speaker; None of a phrase that says no such thing.

    Empty where neither is named, as in "she is leaving".
    """
    end = end_of(said, phrase)
    if (goes := _goes_somewhere(said, end)) is not None:
        return goes
    if " ".join(phrase) not in DEPARTURES:
        return None
    before = said[: end - len(phrase)]
    clause = [*takewhile(lambda word: word not in _CLAUSE and word not in _SAYING, reversed(before))][:_MOST]
    who = [SPEAKER if word in _SELF else word for word in clause if word in _SELF or word not in STOP_WORDS]
    if phrase[0] == "i'm":
        who.append(SPEAKER)
    return [*who, *takewhile(lambda word: word not in _TIMES, _named_from(said, end))] if who else []


def _goes_somewhere(said: Sequence[str], end: int) -> Sequence[str] | None:
    """Who "has gone to" a place, as one word; None where nobody has who is named right before."""
    if end < 2 or said[end - 1] != "gone" or not _WHERE_TO.intersection(said[end : end + 1]):
        return None
    who = said[end - 3 : end - 2] if said[end - 2] in _HAVE else said[end - 2 : end - 1]
    bare = [without_possessive(word) for word in who if word not in STOP_WORDS]
    return bare if bare and (said[end - 2] in _HAVE or bare != [*who]) else None


def reached_by(said: Sequence[str], phrase: Sequence[str]) -> Sequence[str]:
    """What a phrase of change ends at: "linz" of "we moved to Linz in May" and of "we moved to Linz today"."""
    if " ".join(phrase) not in REACHES:
        return ()
    named = _named_from(said, end_of(said, phrase))
    return [*named[:1], *takewhile(lambda word: word not in _TIMES, named[1:])]


def end_of(said: Sequence[str], phrase: Sequence[str]) -> int:
    """The place behind the phrase, which the words have."""
    length = len(phrase)
    return next(place for place in range(length, len(said) + 1) if [*said[place - length : place]] == [*phrase])


def _named_from(said: Sequence[str], start: int) -> Sequence[str]:
    """The words from there on that name one thing, up to the first small word."""
    return [*_named(said[start : start + _MOST + 1])]


def _named(after: Sequence[str]) -> Iterator[str]:
    begun = False
    for word in after:
        if word in _DETERMINERS and not begun:
            continue
        if word in STOP_WORDS:
            return
        begun = True
        yield word


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """What the phrases of change in a text are about, as folded words.

    `ended` is what is over, where each end has an object; `absent` who does not come, where no other end is told;
    both are empty where that is not known. `departing` is who leaves, and what, where no other end is told and
    each is named. `reached` is what is new.
    """

    ended: frozenset[str]
    absent: frozenset[str]
    departing: frozenset[str]
    reached: frozenset[str]


def aims_of(stated: Sequence[Sequence[str]], phrases: Sequence[Mapping[Heard, str]]) -> Aims:
    """The aims of the sentences, each with its phrases of change by kind."""
    ended, absent, departing, reached = set[str](), set[str](), set[str](), set[str]()
    all_end_after = all_absent = all_depart = True
    for said, found in zip(stated, phrases, strict=True):
        for kind in ("change", "switch"):
            if phrase := found.get(kind):
                reached.update(reached_by(said, phrase.split()))
        if phrase := found.get("end"):
            objects, absentees = objects_of(said, phrase.split()), absentees_of(said, phrase.split())
            departure = departure_of(said, phrase.split())
            ended.update(objects or ())
            absent.update(absentees or ())
            departing.update(departure or ())
            all_depart &= bool(departure)
            all_end_after &= objects is not None
            all_absent &= absentees is not None
    return Aims(
        ended=frozenset(ended if all_end_after else ()),
        absent=frozenset(absent if all_absent else ()),
        departing=frozenset(departing if all_depart else ()),
        reached=frozenset(reached),
    )
