"""Text forms of a memory: the text that is embedded, and the texts that are indexed by keyword.

Date and speaker belong in both: "what did Ana say in May?" is asked of them as much as of the text. A turn is
often only understood with the one before it ("Yes, on Friday!"), so a second keyword form holds both.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

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
