"""Many synthetic memories made of few: five thousand are composed, all others repeat them with a tail of their own.

To compose and to encode a million memories would take most of an hour of a core. A repeated memory has another id,
session and time, and a sentence of its own: a place, a thing and its number. So no two are near-duplicates, every
one has a word that no other one has, and people are named the more often the more memories there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from orion_recall.contracts import MemoryV1
from orion_recall.evaluation.fill import changes
from orion_recall.memory.record.compose import compose
from orion_recall.text.normal import memory_key
from orion_recall.values import Change
from tests.bench import corpus_words as lists
from tests.bench.corpus import corpus

SMALL, LARGE = "small", "large"
"""The tenants: one of a thousand memories, and one of all others."""
SMALL_SIZE = 1_000
BASE = 5_000
"""How many memories of the large tenant are composed."""
SHIFT_S = 7.0
"""Each repetition happened so much earlier than the one before it."""
_PLACE_STEP, _THING_STEP = 7_919, 104_729


@dataclass(frozen=True, slots=True)
class Tail:
    """The sentence that a repetition has of its own: the places of its words in the lists, and its number."""

    place: int
    thing: int
    number: int

    @classmethod
    def of(cls, number: int) -> Tail:
        """The tail of the memory with that number; SQL of `record` makes the same."""
        place = number * _PLACE_STEP % len(lists.PLACES)
        return cls(place, number * _THING_STEP % len(lists.OBJECTS), number)

    @property
    def words(self) -> str:
        """The sentence without its number."""
        return f"Ask {lists.PLACES[self.place]} about the {lists.OBJECTS[self.thing]}, note"

    @property
    def text(self) -> str:
        """A blank and the sentence."""
        return f" {self.words} {self.number}."


@dataclass(frozen=True)
class TenantMemories:
    """A tenant's memories: number N is `base[N % len(base)]`, in repetition N // len(base)."""

    tenant: str
    size: int
    base: Sequence[Change]
    sessions: Sequence[str]

    @classmethod
    def of(cls, tenant: str, size: int, *, now: float) -> TenantMemories:
        """So many, told up to `now` (epoch seconds)."""
        told = corpus(min(size, BASE), now=now, seed=7 if tenant == LARGE else 8)
        for one in told.memories:
            one["id"] = memory_id(_number(one["id"]))
            one["session_id"] = session_id(_number(one["session_id"]))
        base = changes([compose(MemoryV1(**one), tenant) for one in told.memories])
        return cls(tenant, size, base, [session_id(_number(name)) for name in told.recent_sessions])

    @property
    def repetitions(self) -> int:
        """How often the base stands in it, the last time perhaps in part."""
        return -(-self.size // len(self.base))

    def numbers(self, repetition: int) -> range:
        """The numbers of a repetition."""
        first = repetition * len(self.base)
        return range(first, min(first + len(self.base), self.size))

    @cached_property
    def session_of(self) -> list[int]:
        """The number of each base memory's session."""
        return [_number(change.memory.session_id or "") for change in self.base]

    def beside(self, number: int) -> list[int]:
        """The keys of the turns before and after a memory."""
        step = self.base[number % len(self.base)]
        shift = number - number % len(self.base)
        found = [shift + _number(turn.id) for turn in (step.previous, step.following) if turn is not None]
        return [self.key(other) for other in found if other < self.size]

    def key(self, number: int) -> int:
        """The key of a memory in index and graph."""
        return memory_key(self.tenant, memory_id(number))


def tenants(size: int, *, now: float) -> tuple[TenantMemories, TenantMemories]:
    """The small and the large tenant of a collection of that size."""
    small = min(SMALL_SIZE, size // 2)
    return TenantMemories.of(SMALL, small, now=now), TenantMemories.of(LARGE, size - small, now=now)


def memory_id(number: int) -> str:
    """The id of a memory."""
    return f"m-{number:07d}"


def session_id(number: int) -> str:
    """The id of a session, which has the number of its first memory."""
    return f"s-{number:07d}"


def _number(name: str) -> int:
    return int(name[2:])
