"""The reading of a memory's text for ranking: its stems, families, values, clauses and cues, each made once.

Whatever compares memories for being newer reads them here. A part is made when it is first asked for, and the
readings of the last memories are kept from one recall to the next.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from orion_recall.memory.told_changes.clauses import Heard, heard_in, without_absences
from orion_recall.memory.told_changes.posts import hands_a_post_over
from orion_recall.memory.told_changes.terms import FIRST_OF_TWO, families_of, stem
from orion_recall.memory.told_changes.values import TIMED, values_of
from orion_recall.memory.told_changes.wishes import DECISIONS, is_wish, without_wishes
from orion_recall.memory.told_changes.word_families import FAMILIES
from orion_recall.memory.told_changes.word_lists import GENERAL_WORDS, GREETINGS
from orion_recall.text.normal import STOP_WORDS, without_possessive, words
from orion_recall.values import MemoryView

READ_CHARS = 1000
"""Characters of a memory that are read."""
_KEPT, _KEPT_WORDS = 2048, 8192
_BEGINNING = 60
_FEW_WORDS = 35
_EXCLAMATION = 2
_SHORTEST = 3
_NOBODY: frozenset[str] = frozenset()
_HOMES = frozenset(FAMILIES["home"].split()) - {"moved"}
_TIMES = frozenset(TIMED)
_NEWS: frozenset[Heard] = frozenset(("change", "switch", "present", "amount", "shift"))
_DECIDED: frozenset[Heard] = frozenset(("change", "switch", "amount", "shift", "end", "handover"))
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_CLAUSE_END = re.compile(
    r"(?<=[.!?;])\s+|\n+|(?:,|,? (?:and|but|while|so)) (?=(?:I|he|she|we|they|it|you)(?:'\w+)? \w)", re.IGNORECASE
)


class _Word(NamedTuple):
    """A folded word: its stem, "" of a stop word; its families; and whether it may be one word with the next."""

    stem: str
    families: frozenset[str]
    begins_pair: bool


@lru_cache(maxsize=_KEPT_WORDS)
def _read_word(word: str) -> _Word:
    bare = without_possessive(word)
    families = families_of(word) if bare == word else families_of(word) | families_of(bare)
    return _Word("" if bare in STOP_WORDS else stem(bare), families, word in FIRST_OF_TWO)


class Said:
    """What a text, or a part of it, says."""

    def __init__(self, text: str) -> None:
        self._folded = text.casefold().replace("’", "'")
        self._words = words(self._folded)
        stems, families = set[str](), set[str]()
        for place, (stemmed, of_word, begins_pair) in enumerate(map(_read_word, self._words), start=1):
            stems.add(stemmed)
            if of_word:
                families |= of_word
            if begins_pair and place < len(self._words):
                families |= families_of(self._words[place - 1], self._words[place])
        stems.discard("")
        is_moved = "home" in families and "moved" in self._words and _HOMES.isdisjoint(self._words)
        if is_moved and self.kinds & _TIMES and "shift" in self._heard:
            families.discard("home")  # a class that moved to Thursdays is nobody's flat
        self.stems, self.families = frozenset(stems), frozenset(families)

    @cached_property
    def values(self) -> Mapping[str, frozenset[str]]:
        """Its values by type."""
        return values_of(self._folded, self._words, _NOBODY)

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The types of its values."""
        return frozenset(self.values)

    @cached_property
    def telling(self) -> frozenset[str]:
        """The stems of the words that tell what it is about: no numbers, no general words."""
        bare = map(without_possessive, self._words)
        return frozenset(
            stem(one)
            for one in bare
            if len(one) >= _SHORTEST and one not in STOP_WORDS and one not in GENERAL_WORDS and not one.isdigit()
        )

    @cached_property
    def is_new(self) -> bool:
        """Whether it says that something is so now, has moved or has changed."""
        return not _NEWS.isdisjoint(self._heard)

    @cached_property
    def hands_over(self) -> bool:
        """Whether it says that somebody takes the place of another."""
        by_phrase = "handover" in self._heard and "change" not in self._heard
        return by_phrase or hands_a_post_over(self._words)

    @property
    def leaves(self) -> bool:
        """Whether it says that somebody leaves."""
        return "leaves" in self._heard

    @cached_property
    def is_wish(self) -> bool:
        """Whether it tells a wish, and no change beside it."""
        return is_wish(self._folded) and _DECIDED.isdisjoint(self._heard)

    @property
    def decides(self) -> bool:
        """Whether it tells a change or a decision."""
        return not (_DECIDED.isdisjoint(self._heard) and DECISIONS.isdisjoint(self._words))

    @cached_property
    def _heard(self) -> frozenset[Heard]:
        return heard_in(words(without_absences(without_wishes(self._folded))))

    def __len__(self) -> int:
        """How many words it has."""
        return len(self._words)

    @property
    def is_short(self) -> bool:
        """Whether it states one thing."""
        return len(self) <= _FEW_WORDS


class MemoryReading:
    """One memory, read."""

    def __init__(self, text: str, speaker: str, entities: tuple[str, ...]) -> None:
        self._text, self._speaker, self._entities = text, speaker, entities

    @cached_property
    def whole(self) -> Said:
        """The text."""
        return Said(self._text)

    @cached_property
    def clauses(self) -> tuple[Said, ...]:
        """Its clauses that have a subject of their own."""
        return self._parts(_CLAUSE_END)

    @property
    def tells_one_thing(self) -> bool:
        """Whether one of its clauses alone is more than an exclamation."""
        return sum(len(one) > _EXCLAMATION for one in self.clauses) == 1

    @cached_property
    def statements(self) -> tuple[Said, ...]:
        """Its sentences; a short text is one."""
        return (self.whole,) if self.whole.is_short else self._parts(_SENTENCE_END)

    @cached_property
    def speaker(self) -> frozenset[str]:
        """The stems of its speaker's name."""
        return frozenset(map(stem, words(self._speaker)))

    @cached_property
    def entities(self) -> frozenset[str]:
        """The stems of the names of its entities."""
        return frozenset(stem(word) for name in self._entities for word in words(name))

    @cached_property
    def names(self) -> frozenset[str]:
        """The stems of whom it names and of who says it."""
        return self.entities | self.speaker

    @cached_property
    def greeted(self) -> frozenset[str]:
        """Whom it greets at its beginning: "Dear Oda", "Hi Per"."""
        said = words(self._text[:_BEGINNING])
        return frozenset(stem(one) for word, one in pairwise(said[:5]) if word in GREETINGS)

    def _parts(self, end: re.Pattern[str]) -> tuple[Said, ...]:
        parts = [one for one in end.split(self._text) if one.strip()]
        return (self.whole,) if len(parts) == 1 else tuple(map(Said, parts))


def reading_of(memory: MemoryView) -> MemoryReading:
    """The memory's reading: of a long text that of the beginning."""
    return _reading(memory.text[:READ_CHARS], memory.speaker or "", memory.entities)


@lru_cache(maxsize=_KEPT)
def _reading(text: str, speaker: str, entities: tuple[str, ...]) -> MemoryReading:
    return MemoryReading(text, speaker, entities)
