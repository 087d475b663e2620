"""Attachments of a bundle, on request: the passages that its items come from, and what they tell of entities.

Both are made of the items that the answer shows, and of no other memory, so that scope and filters hold for them.
"""

from __future__ import annotations

from orion_recall.contracts import ChunkInfoV1, EntityStateV1
from orion_recall.recall.types import Recalled
from orion_recall.values import MemoryView


def chunks_of(recalled: Recalled) -> dict[str, ChunkInfoV1]:
    """The best passage of each item, by the passage's id: the memory's id, `#` and the passage's number from 0."""
    found: dict[str, ChunkInfoV1] = {}
    for item in recalled.selection.items:
        memory = item.scored.memory
        start, end = memory.best_span
        name = f"{memory.id}#{_index(memory)}"
        found[name] = ChunkInfoV1(
            id=name,
            memory_id=memory.id,
            index=_index(memory),
            start=start,
            end=end,
            text=recalled.redaction.text(memory.best_text),
        )
    return found


def entities_of(recalled: Recalled) -> dict[str, EntityStateV1]:
    """What the items tell of each entity that they name, by its name, those named first first.

    A name that was merged into another is that other one. `observations` are the items' snippets.
    """
    naming: dict[str, dict[str, str]] = {}
    for item in recalled.selection.items:
        for label in dict.fromkeys(item.scored.memory.entities):
            naming.setdefault(recalled.redaction.text(label), {})[item.scored.memory.id] = item.snippet
    return {
        label: EntityStateV1(
            name=label,
            memory_count=len(snippets),
            memory_ids=list(snippets),
            observations=list(dict.fromkeys(snippets.values())),
        )
        for label, snippets in naming.items()
    }


def _index(memory: MemoryView) -> int:
    """The number of the best passage; 0 where the text is one passage."""
    return memory.passage if memory.best_span != (0, len(memory.text)) else 0
