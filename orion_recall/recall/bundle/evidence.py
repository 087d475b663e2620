"""Evidence in a text: where the question's words stand, and what an answer to it is expected to have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from orion_recall.text.normal import without_possessive
from orion_recall.values import AnswerType, Question

_AGAIN: Final = 0.1
"""What a kind of evidence is worth where it is found again, beside 1."""
_OF_ANSWER: Final = 1.0
"""What a number, name or time is worth that is expected: as much as a rare word of the question."""
_READ_CHARS: Final = 20_000
_MOST_KEPT_CHARS: Final = 4_000

_SENTENCE: Final = re.compile(r"""\S[^.!?…]*(?:[.!?…](?!["'”’)]*(?:\s|$))[^.!?…]*)*(?:[.!?…]+["'”’)]*)?""")
_ABBREVIATED: Final = re.compile(
    r"(?:\b(?i:mr|mrs|ms|dr|st|prof|no|nr|vs|etc|e\.g|i\.e|approx|dept|tel)|\b[A-Z])\.$"
)
_NUMBER: Final = re.compile(r"\d[\d.,:/%-]*")
_NUMBER_WORD: Final = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twice|hundred|thousand|million)\b"
)
_CAPITAL: Final = re.compile(r"[A-ZÀ-Þ][\w'’-]+")
_BEFORE_NAME: Final = frozenset(",;:'’\"(“")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedEvidence:
    """What an answer is expected to have besides the question's words."""

    answer: AnswerType
    asks_when: bool = False

    def places(self, text: str) -> list[Place]:
        """Where it stands in the text."""
        if not (self.answer.number or self.answer.name or self.asks_when):
            return []
        read = text[:_READ_CHARS]
        folded = read.lower()
        if len(folded) != len(read):
            folded = read  # places must stay places of the text
        found: list[tuple[int, int, str]] = []
        if self.answer.number:
            numbers = (match.span() for match in _NUMBER.finditer(read))
            found += [(start, end, " number") for start, end in numbers if not read[start - 1 : start].isalpha()]
            found += [(*match.span(), " number") for match in _NUMBER_WORD.finditer(folded)]
        if self.asks_when:
            found += [(*match.span(), " time") for match in _TIME.finditer(folded)]
        if self.answer.name:
            found += [(*match.span(), " name") for match in _CAPITAL.finditer(read) if self._is_name(read, match)]
        return [Place(start, end, what, _OF_ANSWER) for start, end, what in found]

    def _is_name(self, text: str, match: re.Match[str]) -> bool:
        start = match.start()
        if (
            start < 2
            or text[start - 1] != " "
            or not (text[start - 2].isalnum() or text[start - 2] in _BEFORE_NAME)
        ):
            return False
        return without_possessive(match[0].casefold()) not in self.answer.known


NO_EVIDENCE = WantedEvidence(answer=AnswerType())


def wanted_evidence(question: Question) -> WantedEvidence:
    """What an answer to the question is expected to have: of what is to come, when it is."""
    time = question.time
    return WantedEvidence(answer=question.answer_type, asks_when=time.asks_when or time.ahead)


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
