"""Memories as the recognition of successions reads them."""

from __future__ import annotations

from orion_recall.memory.extraction.light import extract
from orion_recall.memory.succession.reading import read
from orion_recall.memory.succession.span import Reading
from orion_recall.text.normal import text_hash
from orion_recall.values import Memory

DAY = 86_400.0


def reading(
    text: str, *, at: float | None = 0.0, speaker: str = "Ida", name: str = "", tenant: str = "t"
) -> Reading:
    return read(
        Memory(
            tenant=tenant,
            id=name or text,
            text=text,
            kind="experience",
            text_hash=text_hash(text),
            content_hash=text,
            speaker=speaker,
            occurred_at=at,
            entities=extract(text, speaker).entities,
        )
    )
