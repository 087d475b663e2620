"""Text forms of a memory: the text that is embedded, and the texts that are indexed by keyword.

Date and speaker belong in both: "what did Ana say in May?" is asked of them as much as of the text. A turn is
often only understood with the one before it ("Yes, on Friday!"), so a second keyword form holds both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache

from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.keyword_weights import KeywordWeights, MeanLengths
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Memory, MemoryView


def dense_head(memory: Memory) -> str:
    """What is embedded before the text, or before each passage of it: who said it and when, and its title."""
    return _head(memory, event_time(memory))


def dense_form_of_view(memory: MemoryView) -> str:
    """The text that is embedded of a memory that no index holds: as of one that is embedded as a whole."""
    return _head(memory, memory.ts) + memory.text


def keyword_form(memory: Memory) -> str:
    """The text whose words are indexed."""
    day = _day(event_time(memory))
    parts = (memory.title, memory.speaker, day, memory.text, " ".join(memory.tags))
    return " ".join(part for part in parts if part)


def context_form(change: Change) -> str:
    """The keyword form of a turn with the texts of its neighbours."""
    beside = [turn.text for turn in (change.previous, change.following) if turn is not None]
    return " ".join((keyword_form(change.memory), *beside))


def event_time(memory: Memory) -> float | None:
    """When it happened, else when it was mentioned: epoch seconds."""
    return memory.occurred_at if memory.occurred_at is not None else memory.mentioned_at


def _head(memory: Memory | MemoryView, moment: float | None) -> str:
    said = ", ".join(part for part in (memory.speaker, _day(moment)) if part)
    return "".join(f"{part}: " for part in (said, memory.title) if part)


@lru_cache(maxsize=1024)
def _day(moment: float | None) -> str | None:
    if moment is None:
        return None
    try:
        when = datetime.fromtimestamp(moment, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{when.day} {when:%B} {when.year}"


@dataclass(slots=True)
class LengthsOfTenants:
    """Counts terms; a memory that comes again counts as it was last, and a deleted one not at all."""

    _sparse: SparseEncoder = field(default_factory=SparseEncoder)
    _counted: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict[str, dict[int, tuple[int, int]]])

    def add(self, changes: Iterable[Change]) -> None:
        """Counts the terms of the changes' memories, and of these with their neighbours."""
        for change in changes:
            tenant, key = change.memory.tenant, memory_key(change.memory.tenant, change.memory.id)
            counted = self._counted.setdefault(tenant, {})
            counted.pop(key, None)
            if change.memory.is_live:
                own, with_beside = keyword_form(change.memory), context_form(change)
                counted[key] = self._sparse.count_terms(own), self._sparse.count_terms(with_beside)

    def means(self) -> Mapping[str, MeanLengths]:
        """The mean lengths of every tenant with memories."""
        return {
            tenant: MeanLengths(
                sum(own for own, _ in counted.values()) / len(counted),
                sum(both for _, both in counted.values()) / len(counted),
            )
            for tenant, counted in sorted(self._counted.items())
            if counted
        }


def with_lengths(weights: KeywordWeights, changes: Iterable[Change]) -> KeywordWeights:
    """The weights with the mean lengths of the changes' memories, where they are to be the corpus' own."""
    if weights.length is not None:
        return weights
    lengths = LengthsOfTenants()
    lengths.add(changes)
    return replace(weights, of_tenants=lengths.means())
