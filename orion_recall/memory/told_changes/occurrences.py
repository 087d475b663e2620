"""What comes again: how often, whether that is another or over, and one time of it, which ends nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from orion_recall.memory.told_changes.terms import families_of, stem
from orion_recall.memory.told_changes.word_lists import GENERAL_WORDS, Heard
from orion_recall.text.normal import STOP_WORDS, without_possessive, words

_DAYS: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTHS: Final = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_COMES_AGAIN: Final = re.compile(
    rf"\b(?:every|each|weekly|monthly|daily|{_DAYS}s|{_DAYS} (?:mornings|afternoons|evenings|nights)"
    r"|of the month|(?:once|twice|three times) a|as (?:always|usual|ever))\b"
)
_ONE_TIME: Final = re.compile(
    rf"\b(?:(?:this|next|last) (?:week|month|time|{_DAYS}|evening|morning|afternoon)|(?:the|this) {_MONTHS}(?! \d)"
    rf"|tonight|today|today's|tomorrow|on the \d+(?:st|nd|rd|th)|on \d+ {_MONTHS})\b"
)
_OF_WHAT: Final = frozenset("for about of".split())
_MET: Final = frozenset(("meeting", "training"))
KINDS_OF_NAMES: Final = frozenset("project team doctor dr mr mrs ms miss professor".split())
_MOST_OF_NAME: Final = 4
_FOR_GOOD: Final = re.compile(
    rf"\b(?:for good|any ?more|now|from (?:now|next|this|tomorrow|{_DAYS}|{_MONTHS}|\d+))\b"
)


_ONE_DAY: Final = re.compile(
    rf"\b(?:(?:this|next) {_DAYS}|this (?:mon|tues?|wed|thurs?|fri|sat|sun)|tonight|today|just this once)\b"
)


def named_after(said: Sequence[str], names: frozenset[str]) -> Mapping[str, frozenset[str]]:
    """What things are of, by their stems: meeting and acme of "the meeting with Acme" and "Acme's meeting"."""
    found: dict[str, set[str]] = {}
    for place, word in enumerate(said):
        if word in STOP_WORDS or word in names:
            continue
        before, following = said[place - 1] if place else "", said[place + 1] if place + 1 < len(said) else ""
        whose = {without_possessive(before)} if before != without_possessive(before) else set[str]()
        if following in _OF_WHAT or (following == "with" and families_of(word) & _MET):
            after = [without_possessive(one) for one in said[place + 2 : place + 2 + _MOST_OF_NAME] if one != "the"]
            whose.update(takewhile(names.__contains__, after))
        if whose := (whose & names) - KINDS_OF_NAMES:
            found.setdefault(stem(word), set()).update(whose)
    return {thing: frozenset(whose) for thing, whose in found.items()}


_NUMBERS: Final = {
    word: number for number, word in enumerate("two three four five six seven eight nine ten".split(), 2)
}
_UNIT: Final = "(?P<{}>day|week|month|year)"
_PARTS: Final = "morning|evening|night|afternoon|noon"
_OFTEN: Final = re.compile(
    rf"""\b(?:
      (?:every|each)[ ](?P<other>other|second)[ ]
        (?:{_UNIT.format("other_unit")}|(?P<other_day>{_DAYS})|(?:{_PARTS}))
    | every[ ](?P<number>\d\d?|{"|".join(_NUMBERS)})[ ]{_UNIT.format("units")}s
    | (?:every|each)(?:[ ]single)?[ ](?:{_UNIT.format("unit")}|(?P<weekday>{_DAYS})|(?P<part>{_PARTS}))
    | (?P<times>once|twice|(?:\d\d?|{"|".join(_NUMBERS)})[ ]times)[ ](?:a|an|every|each|per)[ ]{_UNIT.format("of")}
    | (?P<word>daily|weekly|monthly|quarterly|yearly|annually|fortnightly|biweekly|bi-weekly)
    | (?P<weekdays>{_DAYS}s)
    )\b""",
    re.VERBOSE,
)
_BY_WORD: Final = {
    "daily": "1 day",
    "weekly": "1 week",
    "monthly": "1 month",
    "quarterly": "3 month",
    "yearly": "1 year",
    "annually": "1 year",
    "fortnightly": "2 week",
    "biweekly": "2 week",
    "bi-weekly": "2 week",
}
# With these it is not over, or not for good.
_FOR_A_TIME: Final = frozenset(
    "until till while today tonight yesterday tomorrow when if unless before after for during".split()
)
_OVER: Final[frozenset[Heard]] = frozenset(("change", "end"))
_IS_OVER: Final = re.compile(
    r"\b(?:any ?more|any longer|no longer|no more|stop(?:ped)?|quit|gave up|given up|giving up|dropped)\b"
)
_NEWS: Final[frozenset[Heard]] = frozenset(("present", "change", "switch"))
_BEFORE_OBJECTS: Final = frozenset("the a an my our his her their some".split())
# Words beside a change that say nothing of what changes.
_BESIDE: Final = frozenset(
    "now finally sadly altogether completely entirely only instead nowadays days these".split()
)


class Recurrence(NamedTuple):
    """What a text tells of what comes again: that it does, that one time or one day of it is meant, and habits."""

    comes_again: bool
    one_time: bool
    one_day: bool
    habits: tuple[Habit, ...]

    def is_other_habit(self, old: Recurrence) -> bool:
        """Whether it ends or changes a habit that the older text tells."""
        return any(_is_other_habit(one, other) for one in self.habits for other in old.habits)


def comes_again(folded: str) -> bool:
    """Whether a folded text tells of what is every week, month or so."""
    return _COMES_AGAIN.search(folded) is not None


def recurrence_in(
    folded: str, stated: Iterable[Sequence[str]], phrases: Iterable[Mapping[Heard, str]]
) -> Recurrence:
    """The recurrence of a folded text, whose statements are given as their words with their phrases of change."""
    return Recurrence(
        comes_again=comes_again(folded),
        one_time=_ONE_TIME.search(folded) is not None and _FOR_GOOD.search(folded) is None,
        one_day=_ONE_DAY.search(folded) is not None,
        habits=_habits_in(stated, phrases),
    )


class Habit(NamedTuple):
    """What a sentence tells of what comes again: how often ("1 week", "2 times a month"), and the stems of what.

    `often` is "" where it is said to be over; `is_news`: the sentence says that it is so from now on. `objects` are
    pairs of stems, the second of which stands right behind the first: walk and dog of "I walk the dog".
    """

    often: str
    stems: frozenset[str]
    is_news: bool
    objects: frozenset[tuple[str, str]] = frozenset()


def _habits_in(stated: Iterable[Sequence[str]], phrases: Iterable[Mapping[Heard, str]]) -> tuple[Habit, ...]:
    """The habits of the sentences, each as its folded words, with its phrases of change by kind."""
    found = (_habit(said, heard) for said, heard in zip(stated, phrases, strict=True))
    return tuple(one for one in found if one is not None)


def _is_other_habit(new: Habit, old: Habit) -> bool:
    """Whether the newer one says that the older one's habit is over, or comes at another pace now.

    It must tell of nothing else: "the paper is emptied every other week now" says nothing of the bins, and "I don't
    walk any more" nothing of the dog.
    """
    if not old.often or not new.is_news or new.often == old.often:
        return False
    if any(first in new.stems and second not in new.stems for first, second in old.objects):
        return False
    return bool(new.stems) and new.stems <= old.stems


def _habit(said: Sequence[str], heard: Mapping[Heard, str]) -> Habit | None:
    text = " ".join(said)
    told = [*_OFTEN.finditer(text)]
    is_over = not _OVER.isdisjoint(heard) and _IS_OVER.search(text) is not None
    if is_over and not _FOR_A_TIME.isdisjoint(said):
        return None
    paces = {_pace(one) for one in told}
    if len(paces) != 1 and not (is_over and not paces):
        return None
    phrase_words = {word for phrase in heard.values() for word in phrase.split()} if is_over else set[str]()
    rest = words(_OFTEN.sub(" ", text))
    about = frozenset(
        stem(without_possessive(word))
        for word in rest
        if len(word) > 1 and word not in STOP_WORDS and word not in _BESIDE and word not in phrase_words
    )
    is_news = is_over or not _NEWS.isdisjoint(heard)
    objects = _objects([word for word in rest if word not in _BEFORE_OBJECTS and word not in GENERAL_WORDS], about)
    return Habit("" if is_over else paces.pop(), about, is_news, objects)


def _objects(said: Sequence[str], about: frozenset[str]) -> frozenset[tuple[str, str]]:
    stems = [stem(without_possessive(word)) for word in said]
    return frozenset(pair for pair in pairwise(stems) if about.issuperset(pair))


def _pace(told: re.Match[str]) -> str:
    """How often as one text for equal paces: "every other Tuesday" and "every two weeks" are "2 week"."""
    if told["word"]:
        return _BY_WORD[told["word"]]
    if told["weekday"] or told["weekdays"]:
        return "1 week"
    if told["part"]:
        return "1 day"
    if told["other"]:
        return f"2 {told['other_unit'] or ('week' if told['other_day'] else 'day')}"
    if told["number"]:
        return f"{_NUMBERS.get(told['number'], told['number'])} {told['units']}"
    if told["times"] and told["times"] != "once":
        return f"{told['times']} a {told['of']}"
    return f"1 {told['unit'] or told['of']}"
