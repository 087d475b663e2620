"""Evidence in a text: where the question's words stand, and what an answer to it is expected to have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from orion_recall.values import Question

_AGAIN: Final = 0.1
"""What a kind of evidence is worth where it is found again, beside 1."""
_OF_ANSWER: Final = 1.0
"""What a time is worth that is asked for: as much as a rare word of the question."""
_READ_CHARS: Final = 20_000
_MOST_KEPT_CHARS: Final = 4_000

_SENTENCE: Final = re.compile(r"""\S[^.!?…]*(?:[.!?…](?!["'”’)]*(?:\s|$))[^.!?…]*)*(?:[.!?…]+["'”’)]*)?""")
_ABBREVIATED: Final = re.compile(
    r"(?:\b(?i:mr|mrs|ms|dr|st|prof|no|nr|vs|etc|e\.g|i\.e|approx|dept|tel)|\b[A-Z])\.$"
)
_MONTH: Final = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
# A day and its month are one piece: cut between them, neither tells a date.
_TIME: Final = re.compile(
    rf"""\b(?=[abdefijlmnostuwy\d])(?:yesterday|today|tonight|tomorrow|ago|noon|midnight|(?:mon|tues|wednes|thurs|fri|satur
      |sun)days?|weekends?|(?:{_MONTH})\.?\s(?:the\s)?\d{{1,2}}(?:st|nd|rd|th)?
      |\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?(?:{_MONTH})|(?:on|by|until|from)\sthe\s\d{{1,2}}(?:st|nd|rd|th)(?!\s(?:of\s)?(?:{_MONTH}))
      |january|february|march|april|june|july|august|september|october|november|december|spring
      |summer|autumn|winter|(?:last|next|this|in|every)\s(?:\w+\s)?(?:week|month|year|night|morning|days|weeks|months
      |years)|\d{{1,2}}[:h.]\d\d|\d{{1,2}}\s?(?:am|pm)|(?:19|20)\d\d)\b""",
    re.VERBOSE,
)


class Place(NamedTuple):
    """One piece of evidence in a text: from `start` up to `end`, what it is, and what it is worth."""

    start: int
    end: int
    what: str
    worth: float


class Tally:
    """What the pieces of evidence in a span are worth together: of one kind the first counts most.

    Pieces of one kind are worth the same.
    """

    __slots__ = ("_counts", "value")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.value = 0.0

    def add(self, place: Place) -> None:
        """Takes up a piece."""
        count = self._counts.get(place.what, 0)
        self._counts[place.what] = count + 1
        self.value += place.worth * (_AGAIN if count else 1.0)

    def remove(self, place: Place) -> None:
        """Takes a piece away that was taken up."""
        count = self._counts[place.what] = self._counts[place.what] - 1
        self.value -= place.worth * (_AGAIN if count else 1.0)


def worth(places: Sequence[Place], begin: int, end: int) -> float:
    """What the pieces of evidence inside a span are worth together."""
    tally = Tally()
    for place in places:
        if place.start >= begin and place.end <= end:
            tally.add(place)
    return tally.value


def times_in(text: str) -> list[Place]:
    """Where the text tells a time, for a question that asks when."""
    read = text[:_READ_CHARS]
    folded = read.lower()
    if len(folded) != len(read):
        folded = read  # places must stay places of the text
    return [Place(*match.span(), " time", _OF_ANSWER) for match in _TIME.finditer(folded)]


def asks_for_time(question: Question) -> bool:
    """Whether an answer to the question tells a time: of what is to come, when it is."""
    return question.time.asks_when or question.time.ahead


def sentences(text: str) -> Sequence[tuple[int, int]]:
    """From where to where each sentence goes; a full stop inside a number or after a short form ends none.

    The first 20,000 characters are read."""
    return _kept_sentences(text) if len(text) <= _MOST_KEPT_CHARS else _sentences(text)


def _sentences(text: str) -> Sequence[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for match in _SENTENCE.finditer(text[:_READ_CHARS]):
        start, end = match.span()
        if found and _ABBREVIATED.search(text, max(0, found[-1][1] - 8), found[-1][1]):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


# The same memories are cut in many bundles: 4 MB of texts at worst, and about as much for the places.
_kept_sentences = lru_cache(maxsize=1024)(_sentences)
