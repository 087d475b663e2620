"""The input of the time grammar: a question's words with their positions, and the clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import NamedTuple

from orion_recall.when.calendar import Span
from orion_recall.when.languages import in_english
from orion_recall.when.tense import asks_for_plans, looks_ahead
from orion_recall.when.vocabulary import LEADS, NUMBERS, POSSESSIVES, TRIGGERS, UNITS, VAGUE, WEEKDAY_LEADS

_TOKEN = re.compile(
    r"""\d{4}-\d{1,2}-\d{1,2}(?:[Tt]\d{1,2}:\d\d\S*)?
    | \d{1,4}(?:[./-]\d{1,2}){2}(?!\d) | \d{1,2}(?:[./]\d{1,2}[./]|-\d{1,2}-)\d{2,4}
    | \d{4}[-/]\d{2,4}(?!\d) | \d{1,2}/\d{4}
    | \d+(?:st|nd|rd|th|s)?(?![^\W\d_]) | [^\W\d_]+\d?(?:['’][^\W\d_]+)? | ['’]\d\d?s?(?!\d)
    | [-–,;.?!]""",
    re.VERBOSE,
)
# No question is longer; a text of thousands of words for times would hold up the others for a tenth of a second.
_WORDS_READ = 300
_DIGIT = re.compile(r"\d")


class Period(NamedTuple):
    """A period of local time that words name, and the position after them.

    `grain` is the unit it is told in. `year_told` is False where the year is the policy's choice, not the words'.
    """

    span: Span
    after: int
    grain: str
    kind: str
    year_told: bool = True


class Duration(NamedTuple):
    """A number of units, least and most, and the position after the words."""

    least: int
    most: int
    unit: str
    after: int


@dataclass(slots=True)
class Reading:
    """The input of the rules. `now` is the asker's local time; `names` are words that are people's names here."""

    text: str
    words: Sequence[str]
    places: Sequence[tuple[int, int]]
    now: datetime
    zone: tzinfo
    names: frozenset[str]
    future: bool
    south: bool
    day_first: bool

    def word(self, place: int) -> str:
        """The word there, folded; "" beyond either end."""
        return self.words[place] if 0 <= place < len(self.words) else ""

    def capital(self, place: int) -> bool:
        """Whether it is written with a capital."""
        return 0 <= place < len(self.places) and self.text[self.places[place][0]].isupper()

    def led(self, place: int) -> bool:
        """Whether the word before it makes a time of what could be something else."""
        before = self.word(place - 1)
        if before == "up":  # "sum up July"
            before = self.word(place - 2)
        return before in LEADS or (before in WEEKDAY_LEADS and self.word(0) == "how")

    def said(self, first: int, after: int) -> str:
        """The words as written."""
        return self.text[self.places[first][0] : self.places[after - 1][1]]

    def at(self, now: datetime, *, future: bool) -> Reading:
        """The same words, read at another time."""
        return Reading(
            self.text,
            self.words,
            self.places,
            now,
            self.zone,
            self.names,
            future,
            self.south,
            self.day_first,
        )

    def minutes_ago(self, least: float, most: float) -> Span:
        """By the clock that does not jump: from `most` minutes ago to `least` minutes ago."""
        now = self.now.replace(tzinfo=self.zone).astimezone(UTC)
        start, end = (now - timedelta(minutes=minutes) for minutes in (most, least))
        return Span(
            start.astimezone(self.zone).replace(tzinfo=None), end.astimezone(self.zone).replace(tzinfo=None)
        )


def reading(
    text: str,
    now: datetime,
    *,
    names: frozenset[str] = frozenset(),
    south: bool = False,
    day_first: bool = False,
    translate: bool = False,
) -> Reading | None:
    """The text's words as the rules read them; None when nothing in it can be a time. `now` has a zone.

    `translate`: days and months of other languages are read, too.
    """
    zone = now.tzinfo
    assert zone is not None, "the clock of a question has a zone"
    words: list[str] = []
    places: list[tuple[int, int]] = []
    for match in islice(_TOKEN.finditer(text), _WORDS_READ):
        word = match[0].casefold().replace("’", "'")
        bare = word.removesuffix("'s")
        # "last Tuesday's call", but "New Year's Eve"
        words.append(bare if bare in POSSESSIVES and words[-1:] != ["new"] else word)
        places.append(match.span())
    if translate:
        in_english(words, [text[start].isupper() for start, _ in places])
    if TRIGGERS.isdisjoint(words) and _DIGIT.search(text) is None:
        return None
    return Reading(
        text,
        words,
        places,
        now.replace(tzinfo=None),
        zone,
        names,
        looks_ahead(words, names=names, will_is_a_verb=_has_will(text, words, places)),
        south,
        day_first,
    )


def asks_ahead(text: str, *, names: frozenset[str], asks_when: bool) -> bool:
    """Whether a question that names no time asks when something is to come, or for all that is to come."""
    found = [*islice(_TOKEN.finditer(text), _WORDS_READ)]
    words = [match[0].casefold().replace("’", "'") for match in found]
    if not asks_when and not asks_for_plans(words):
        return False
    places = [match.span() for match in found]
    return looks_ahead(words, names=names, will_is_a_verb=_has_will(text, words, places))


def _has_will(text: str, words: Sequence[str], places: Sequence[tuple[int, int]]) -> bool:
    """Whether it has the verb "will"; with a capital it is a name, unless the question begins with it."""
    return any(
        word == "will" and (place == 0 or not text[places[place][0]].isupper()) for place, word in enumerate(words)
    )


def number(reading: Reading, place: int) -> tuple[int, int, int] | None:
    """The least and the most that a number, or nearly a number, says, and the place after it."""
    word = reading.word(place)
    if word.isdecimal() and len(word) <= 4:
        return int(word), int(word), place + 1
    if word in ("a", "an") and reading.word(place + 1) in VAGUE:
        return number(reading, place + 1)
    if word in VAGUE:
        after = place + 2 if reading.word(place + 1) == "of" else place + 1
        return *VAGUE[word], after
    if word in NUMBERS:
        return NUMBERS[word], NUMBERS[word], place + 1
    return None


def duration(reading: Reading, place: int) -> Duration | None:
    """Words such as "3 weeks", "a couple of months", "half a year", "a year and a half"."""
    if reading.word(place) == "half" and reading.word(place + 1) in ("a", "an"):
        parts = {"year": ("month", 6), "decade": ("year", 5), "hour": ("minute", 30)}
        if (found := parts.get(reading.word(place + 2))) is not None:
            return Duration(found[1], found[1], found[0], place + 3)
        return None
    if (counted := number(reading, place)) is None:
        return None
    least, most, after = counted
    halves = reading.words[after : after + 3] == ["and", "a", "half"]
    after += 3 if halves else 0
    unit = UNITS.get(reading.word(after))
    if unit is None:
        return None
    after += 1
    if reading.words[after : after + 2] == ["or", "so"]:
        after += 2
    if not halves and reading.words[after : after + 3] == ["and", "a", "half"]:
        halves, after = True, after + 3
    if halves and unit == "year":
        return Duration(least * 12 + 6, most * 12 + 6, "month", after)
    return Duration(least, most, unit, after)
