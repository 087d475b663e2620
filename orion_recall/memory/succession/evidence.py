"""What two texts have in common, and in what they differ: the evidence for a succession."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field

from orion_recall.memory.succession.reading import Reading, Span, families_of, stem
from orion_recall.memory.succession.word_lists import FAMILIES, FAMILY_VALUES, NEED_A_SUBJECT, ONE_VALUED, CueKind

TELLING: frozenset[CueKind] = frozenset(("change", "switch", "amount", "shift", "handover", "end"))
"""Cues that say by themselves that something is new."""
FAMILY_STEMS = {name: frozenset(stem(word) for word in listed.split()) for name, listed in FAMILIES.items()}
TIMED = ("clock", "date", "weekday")
"""The types of values that are times."""
_CHANGES: frozenset[CueKind] = TELLING - {"handover"}
_CLOSE = 0.33
_STRONG = 0.7
_NOTHING: frozenset[str] = frozenset()
_RANKS_FROM = (1, 2, 3, 4, 6, 11)
_RANKS = (0.6, 0.45, 0.2, 0.0, -0.4, -0.9)
_WORD_RANKS = (0.0, 0.0, -0.1, -0.2, -0.3, -0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """How near the older text is among the older memories, where that was looked for.

    `cosine` of the two texts; `rank` of the older one by it, `word_rank` by words, both from 1. `shares` are the
    shares of the memories looked at that have a term, as far as they are known.
    """

    cosine: float | None = None
    rank: int | None = None
    word_rank: int | None = None
    shares: Mapping[str, float] = field(default_factory=dict[str, float])

    def rarity(self, term: str) -> float:
        """1 for a term that hardly any memory looked at has, 0 for one that half of them have."""
        return max(0.0, 1.0 - 2.0 * max(0.0, self.shares.get(term, 0.0) - 0.1))

    @property
    def is_first(self) -> bool:
        """Whether it is one of the two nearest, as far as that was looked for."""
        return self.cosine is None or (self.rank is not None and self.rank <= 2 and self.cosine >= _CLOSE)

    @property
    def weight(self) -> float:
        """What it adds to the evidence."""
        by_words = 0.0 if self.word_rank is None else _WORD_RANKS[bisect(_RANKS_FROM, self.word_rank) - 1]
        if self.cosine is None:
            return by_words
        close = max(-0.6, min(0.9, 3.0 * (self.cosine - 0.35)))
        place = -0.9 if self.rank is None else _RANKS[bisect(_RANKS_FROM, self.rank) - 1]
        return max(close + place, -0.9 if self.word_rank is None else by_words - 0.4)


UNKNOWN = Nearness()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What two spans have in common, and in what they differ.

    `strong` are shared stems that say something; `things` those of them that are no words of a shared family;
    `told` those of these that are no names. `functional` are shared families of one value at a time, `clash` the
    types of values that differ. `cites`: the newer one names the older one's date. `concerned`: whom the older one
    names leaves or takes over.
    """

    cues: frozenset[CueKind]
    subject: float
    likeness: float
    strong: tuple[str, ...]
    told: tuple[str, ...]
    things: tuple[str, ...]
    families: frozenset[str]
    functional: frozenset[str]
    clash: tuple[str, ...]
    cites: bool
    concerned: bool

    @property
    def timed_clash(self) -> bool:
        """Whether they tell different times."""
        return any(kind in self.clash for kind in TIMED)

    @property
    def restates(self) -> bool:
        """Whether the newer one tells another value of what the older one told, in words of the same family."""
        return any(kind in self.clash for family in self.functional for kind in FAMILY_VALUES.get(family, ()))


def evidence_of(new: Span, old: Span, one: Reading, near: Nearness) -> Evidence:
    shared = {
        term: min(weight, old.weights[term]) * near.rarity(term)
        for term, weight in new.weights.items()
        if term in old.weights
    }
    strong = tuple(term for term, weight in shared.items() if weight >= _STRONG)
    families = new.families & old.families
    if "handover" in new.cues:
        families -= {"workspace"}  # "her desk" is her work
    clash = [kind for kind, values in new.values.items() if (had := old.values.get(kind)) and not values <= had]
    if "name" in clash and not any("name" in FAMILY_VALUES.get(family, ()) for family in families & ONE_VALUED):
        clash.remove("name")  # two texts mostly name different people
    if "money" in old.values and not clash and "number" in new.values:
        clash.append("money")
    cues = set(new.cues)
    if not any(kind in old.values for kind in TIMED):
        cues.discard("shift")
    if not {"number", "money"}.intersection(clash) or "price" in new.families - old.families:
        cues.discard("amount")  # whoever raises a price changes nothing where none is told
    if new.renewed.intersection(strong):
        cues.add("present")
    subject = sum(shared.values())
    leaving = new.leaving & old.named
    return Evidence(
        cues=frozenset(cues),
        subject=subject,
        likeness=subject / (min(sum(new.weights.values()), sum(old.weights.values())) or 1.0),
        strong=strong,
        told=tuple(term for term in strong if term not in new.names and not of_families(term, families)),
        things=tuple(term for term in strong if not of_families(term, families)),
        families=families,
        functional=families & ONE_VALUED,
        clash=tuple(clash),
        cites=bool(cues & _CHANGES and new.values.get("date", _NOTHING) & old.values.get("date", _NOTHING)),
        concerned=bool(leaving and ("handover" in cues or leaving - {one.first_name})),
    )


def leaves_another(new: Span, old: Span, seen: Evidence) -> bool:
    """Whether the newer one says what it leaves ("from the gym to climbing"), and the older tells of no such.

    A time that is left is any time. A name or a place is left of the same kind, or of a subject that both tell of.
    """
    if not new.left or any(stem(word) in old.weights for word in new.left):
        return False
    if any(families_of(word) & old.families for word in new.left):
        return False
    if any(word[0].isdigit() for word in new.left):
        return not any(kind in old.values for kind in TIMED) and not seen.clash
    return not seen.told and not seen.functional - NEED_A_SUBJECT


def of_families(term: str, families: frozenset[str]) -> bool:
    """Whether a stem is one of the families' own words."""
    return any(term in FAMILY_STEMS[family] for family in families)
