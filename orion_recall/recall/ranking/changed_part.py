"""Which part of an older memory a newer one has changed, and whether a question asks about that part.

"Wren goes to Beckett Park. She has piano on Mondays" is succeeded by "Wren plays the drums now": for a question
about her instrument, not for one about her school. The words of a question are compared, no vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from orion_recall.memory.told_changes.role_lists import PERSONS
from orion_recall.memory.told_changes.terms import families_of, stem
from orion_recall.memory.told_changes.values import TIMED
from orion_recall.memory.told_changes.wishes import asks_for_wishes
from orion_recall.memory.told_changes.word_families import ONE_VALUED
from orion_recall.memory.told_changes.word_lists import GENERAL_WORDS, ROLES
from orion_recall.recall.ranking.reading import MemoryReading, Said, reading_of
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.text.normal import STOP_WORDS, without_possessive, words
from orion_recall.values import MemoryView

_UNKNOWN = 0.5
"""Where the older memory has no word of the question: it was found by its meaning, or by what is beside it."""
_LEAST, _ENOUGH = 0.4, 0.65
"""Of what the question finds in the older memory, the share that the newer one must change, and that is enough."""
_GENERAL_WEIGHT = 0.5
_MOSTLY = 0.5
_NOBODY: frozenset[str] = frozenset()
_KIN = frozenset(map(stem, PERSONS))
_TIMES = frozenset(TIMED)
_AMOUNTS = frozenset(("money", "number"))
_KINDS: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = (
    (re.compile(r"\b(?:when|what time|what day|which days?|what date|until when|how late)\b"), _TIMES),
    (re.compile(r"\bhow much\b|\bwhat (?:do|does|did) .* (?:cost|pay|earn)"), _AMOUNTS),
    (re.compile(r"\b(?:how many|number)\b"), frozenset(("number",))),
)
_ASKS_PERSON = re.compile(r"\b(?:who|whom|whose|who's|qui|wer|quién)\b")


@dataclass(frozen=True, slots=True)
class Element:
    """A telling word of a question with its families, or the type of value that it asks for."""

    stems: frozenset[str] = _NOBODY
    families: frozenset[str] = _NOBODY
    kinds: frozenset[str] = _NOBODY
    weight: float = 1.0

    def is_in(self, said: Said) -> bool:
        """Whether the text has one of its stems, families or types of values."""
        if self.kinds:
            return not self.kinds.isdisjoint(said.kinds)
        return not (self.stems.isdisjoint(said.stems) and self.families.isdisjoint(said.families))


class _Compared(NamedTuple):
    """A memory's reading, and what it has of the question: the places of its elements, and their stems."""

    reading: MemoryReading
    found: Set[int]
    stems: Set[str]


class _Elements:
    """The elements of a question, and where each stem and family of theirs stands among them."""

    def __init__(self, each: Sequence[Element]) -> None:
        self.each = each
        self._of_stems: dict[str, list[int]] = {}
        self._of_families: dict[str, list[int]] = {}
        for place, one in enumerate(each):
            for stem_of in one.stems:
                self._of_stems.setdefault(stem_of, []).append(place)
            for family in one.families:
                self._of_families.setdefault(family, []).append(place)
        self.stems, self._families = frozenset(self._of_stems), frozenset(self._of_families)
        self._of_kinds = [(place, one.kinds) for place, one in enumerate(each) if one.kinds]

    def of_stems(self, stems: Iterable[str]) -> set[int]:
        """The places of the elements with one of these stems, which are some of theirs."""
        return {place for one in stems for place in self._of_stems[one]}

    def compared(self, reading: MemoryReading) -> _Compared:
        """What a memory has of the elements, as `Element.is_in` says for each."""
        said = reading.whole
        stems = self.stems & said.stems
        found = self.of_stems(stems) if stems else set[int]()
        for family in self._families & said.families:
            found.update(self._of_families[family])
        for place, kinds in self._of_kinds:
            if not kinds.isdisjoint(said.kinds):
                found.add(place)
        return _Compared(reading, found, stems)

    def weight(self, places: Iterable[int]) -> float:
        """What the elements there weigh together."""
        return sum([self.each[place].weight for place in places])


class AskedChanges:
    """How far one question asks for what a newer memory changes in an older one; each pair is compared once."""

    def __init__(self, asked: str) -> None:
        self.asked = asked
        self._elements = _Elements(elements(asked) if asked else ())
        self._asks_wishes = asks_for_wishes(asked)
        self._compared: dict[int, _Compared] = {}
        self._shares: dict[tuple[int, int], float] = {}

    @property
    def asks_person(self) -> bool:
        """Whether it asks for a person."""
        return _asks_for_person(self.asked)

    def is_answered_by(self, older: ScoredCandidate, newer: ScoredCandidate) -> bool:
        """Whether the newer memory tells a value of the type asked for, as the older one does, or a change."""
        one, two = self._of(older).reading.whole, self._of(newer).reading.whole
        kinds = [each for each in self._elements.each if each.kinds]
        return two.decides or all(each.is_in(two) or not each.is_in(one) for each in kinds)

    def share(self, older: ScoredCandidate, newer: ScoredCandidate) -> float:
        """How far what the question finds in the older memory is what the newer one changes, from 0 to 1.

        1 for an empty question. Where somebody takes another's place, that is what the older one tells of him, for
        a question that asks for a person.
        """
        if not self.asked:
            return 1.0
        pair = older.candidate.key, newer.candidate.key
        if (known := self._shares.get(pair)) is None:
            known = self._shares[pair] = self._share(self._of(older), self._of(newer))
        return known

    def carried(self, first: ScoredCandidate, last: ScoredCandidate) -> float:
        """How far the last of a chain of successions changes what the question asks of the first one, from 0 to 1.

        Somebody who takes another's place changes what was said before the other came.
        """
        if not self.asked or self._of(last).reading.whole.hands_over:
            return 1.0
        return self.share(first, last)

    def _of(self, item: ScoredCandidate) -> _Compared:
        key = item.candidate.key
        if (known := self._compared.get(key)) is None:
            known = self._compared[key] = self._elements.compared(reading_of(item.memory))
        return known

    def _share(self, older: _Compared, newer: _Compared) -> float:
        old, new = older.reading, newer.reading
        # Who says the newer one and is named in the question tells of himself there: "I stop, Ana gets my desk".
        teller = self._elements.stems & new.speaker
        if new.whole.hands_over and not self.asks_person and not teller:
            return 0.0
        if self._asks_wishes and old.whole.is_wish and not new.whole.is_wish:
            return 0.0  # what came of it is not what was wished
        # Whom both are about tells nothing, as long as the question asks for something of him.
        about = teller.union(one for one in newer.stems if one in _KIN or one in old.names)
        found = (older.found - self._elements.of_stems(about) if about else older.found) or older.found
        if not found:
            # A question that has none ("where are we going in August?") asks for the one thing that a text tells.
            return 1.0 if not self._elements.each and old.tells_one_thing else _UNKNOWN
        there = newer.found | self._elements.of_stems(teller)
        missing = [self._elements.each[place] for place in found - there]
        share = (
            1.0 - _untouched(missing, old, new, of_person=self.asks_person) / self._elements.weight(found)
            if missing
            else 1.0
        )
        return max(0.0, min(1.0, (share - _LEAST) / (_ENOUGH - _LEAST)))


@lru_cache(maxsize=256)
def elements(question: str) -> tuple[Element, ...]:
    return tuple(_read(question.casefold()))


def _read(folded: str) -> Iterator[Element]:
    said = words(folded)
    for word, following in zip(said, (*said[1:], ""), strict=False):
        bare = without_possessive(word)
        families = families_of(word, following)
        if bare not in STOP_WORDS:
            families |= families_of(bare)
        is_general = bare in STOP_WORDS or bare in GENERAL_WORDS
        if families or not is_general:
            weight = _GENERAL_WEIGHT if is_general else 1.0
            yield Element(stems=frozenset((stem(bare),)), families=families, weight=weight)
    for pattern, kinds in _KINDS:
        if pattern.search(folded):
            yield Element(kinds=kinds)


def shows_changed(older: MemoryView, newer: MemoryView, shown: str) -> bool:
    """Whether a part of the older memory, as it is shown, has what the newer one changes.

    True where it cannot be told. Of a clause that changes the part has the value that changes; where no value does,
    most words, or a word that the newer memory has as well, and no clause that stays.
    """
    old, new = reading_of(older), reading_of(newer)
    changed, sure = _changed(old, new, of_person=True)
    if sure < 1.0:
        return True
    there = Said(shown)
    changed = [clause for clause in changed if not _same_values(clause, new.whole)] or changed
    stays = frozenset[str]().union(*(one.stems for one in old.clauses if one not in changed))
    return any(_shows(there, clause, new.whole, old.names | stays) for clause in changed)


def _same_values(clause: Said, new: Said) -> bool:
    """Whether it tells values of types that the newer text tells as well, and no other ones."""
    kinds = clause.kinds & new.kinds
    return bool(kinds) and all(clause.values[kind] <= new.values[kind] for kind in kinds)


def _shows(shown: Said, clause: Said, new: Said, elsewhere: frozenset[str]) -> bool:
    kinds = clause.kinds & new.kinds
    if any(clause.values[kind] - new.values[kind] for kind in kinds):  # the value is what changes, not who or where
        return any((clause.values[kind] - new.values[kind]) & shown.values.get(kind, frozenset()) for kind in kinds)
    found = clause.stems & shown.stems
    if len(found) >= _MOSTLY * len(clause.stems):
        return True
    if kinds:
        return False
    return bool(found & new.stems - elsewhere)


def _untouched(missing: Sequence[Element], old: MemoryReading, new: MemoryReading, *, of_person: bool) -> float:
    """The weight of those elements, which the newer memory has not, that are in no clause that it changes.

    A clause that has nothing in common with it but general words may be one that it changes: that is half of one.
    """
    changed, share = _changed(old, new, of_person=of_person)
    return sum([one.weight * (1.0 - share * any(one.is_in(part) for part in changed)) for one in missing])


def _changed(old: MemoryReading, new: MemoryReading, *, of_person: bool) -> tuple[Sequence[Said], float]:
    """The clauses of the older memory that the newer one changes, and how sure that is.

    `of_person`: those that tell of whoever leaves count, whatever he was before.
    """
    if new.whole.hands_over:
        names = new.names - new.greeted
        changed = [one for one in old.clauses if one.stems & names]
        return ([old.whole] if not changed or not names.isdisjoint(old.speaker) else changed), 1.0
    if of_person and new.whole.leaves:
        gone = new.entities & old.entities - new.speaker
        if changed := [one for one in old.clauses if one.stems & gone]:
            return changed, 1.0
    return _nearest(old.clauses, new.whole, old.names)


def _nearest(clauses: Sequence[Said], new: Said, about: frozenset[str]) -> tuple[Sequence[Said], float]:
    """The clauses that tell a value of a type that the newer text tells, else those with most in common with it."""
    if new.kinds and (valued := [clause for clause in clauses if clause.kinds & new.kinds]):
        return valued, 1.0
    shared = [_in_common(clause, new, about) for clause in clauses]
    most = max(shared, default=0)
    nearest = [clause for clause, count in zip(clauses, shared, strict=True) if count == most]
    told = any(
        clause.families & new.families & ONE_VALUED or clause.telling & new.telling - about for clause in nearest
    )
    return nearest, 1.0 if told else _UNKNOWN


def _in_common(clause: Said, new: Said, about: frozenset[str]) -> int:
    """How many families of one value, and words other than names, both have."""
    return len(clause.families & new.families & ONE_VALUED) + len(clause.stems & new.stems - about)


@lru_cache(maxsize=256)
def _asks_for_person(question: str) -> bool:
    folded = question.casefold()
    said = words(folded)
    return _ASKS_PERSON.search(folded) is not None or not ROLES.isdisjoint((*said, *(one[:-1] for one in said)))
