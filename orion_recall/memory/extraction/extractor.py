"""The interface of extractors, which find names, statements and times in memories; and light extraction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from orion_recall.foreground import FOREGROUND
from orion_recall.memory.extraction.light import Extraction, extract
from orion_recall.values import Neighbour

_AT_A_TIME = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A memory's text with its context for extraction.

    `known` are names that are given, `at` the memory's own time in epoch seconds, `previous` the turn before it.
    """

    text: str
    speaker: str | None = None
    known: tuple[str, ...] = ()
    at: float | None = None
    previous: Neighbour | None = None


class Extractor(Protocol):
    """Finds what memories say. Every passage is answered, if need be by light extraction with a note why."""

    @property
    def name(self) -> str:
        """As the settings name it."""
        ...

    @property
    def at_once(self) -> int:
        """How many calls may run side by side."""
        ...

    @property
    def batch(self) -> int:
        """How many passages are best given to one call."""
        ...

    @property
    def longest_s(self) -> float:
        """The longest that a call takes, in seconds; a worker that takes longer counts as gone."""
        ...

    async def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """What each passage says, in the order of the passages; each is looked at alone."""
        ...


class LightExtractor:
    """Extraction by rules and word lists (`light`), with the turn before, which is not known when one is stored."""

    name = "light"
    at_once = 1
    batch = 50
    longest_s = 60.0

    async def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """What each passage says."""
        return await asyncio.to_thread(lambda: [light(one) for one in FOREGROUND.throttled(passages, _AT_A_TIME)])


def light(passage: Passage, note: str | None = None) -> Extraction:
    """What light extraction finds; with a note why it was not another one."""
    found = extract(passage.text, passage.speaker, passage.known, at=passage.at, previous=passage.previous)
    return found if note is None else replace(found, note=note[:300])
