"""Searches and memories kept while many profiles are tried over the same queries.

What differs between two profiles is mostly what happens after the search. So every arm keeps what it found for a
request, and is asked again only for another one: the recall itself runs as it is, with nothing worked out twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orion_recall.interfaces import MemoryReader, Source
from orion_recall.recall.ranking.late_interaction import Closeness
from orion_recall.recall.types import Sources
from orion_recall.values import Hit, MemoryView, SearchRequest, SourceName


class ReplayedSource:
    """A source that answers a request it has answered before from memory. What failed is tried again."""

    def __init__(self, source: Source) -> None:
        self.name: SourceName = source.name
        self._source = source
        self._found: dict[SearchRequest, Sequence[Hit]] = {}

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """As the source's own; errors are its own, too."""
        asked = replace(request, timeout_s=0.0)  # how long it may take is nothing that it asks for
        found = self._found.get(asked)
        if found is None:
            found = self._found[asked] = await self._source.search(request)
        return found


class ReplayedReader:
    """A reader that reads a memory once."""

    def __init__(self, reader: MemoryReader) -> None:
        self._reader = reader
        self._read: dict[int, MemoryView | None] = {}

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        """As the reader's own."""
        missing = [key for key in keys if key not in self._read]
        if missing:
            self._read |= dict.fromkeys(missing) | dict(await self._reader.fetch(missing))
        return {key: memory for key in keys if (memory := self._read[key]) is not None}


class ReplayedCloseness:
    """Late interaction that compares a question with a memory once."""

    def __init__(self, closeness: Closeness) -> None:
        self._closeness = closeness
        self._known: dict[str, dict[int, float | None]] = {}

    async def why_off(self) -> str | None:
        """As the comparer's own."""
        return await self._closeness.why_off()

    async def closeness(self, text: str, keys: Sequence[int]) -> Mapping[int, float]:
        """As the comparer's own: what one memory gets does not depend on the others."""
        known = self._known.setdefault(text, {})
        missing = [key for key in keys if key not in known]
        if missing:
            found = await self._closeness.closeness(text, missing)
            known |= {key: found.get(key) for key in missing}
        return {key: value for key in keys if (value := known[key]) is not None}


def replayed(sources: Sources) -> Sources:
    """The same sources, none of which does anything twice."""
    return replace(
        sources,
        by_name={
            name: arm if isinstance(arm, ReplayedSource) else ReplayedSource(arm)
            for name, arm in sources.by_name.items()
        },
        readers=tuple(ReplayedReader(reader) for reader in sources.readers),
        late=None if sources.late is None else ReplayedCloseness(sources.late),
    )
