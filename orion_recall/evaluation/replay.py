"""Caches of searches and memories, for trying many profiles over the same queries.

Profiles mostly differ in what happens after the search. So every source keeps its hits by request and is searched
again only for another request; the recall itself runs unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orion_recall.interfaces import MemoryReader, Source
from orion_recall.recall.ranking.late_interaction import Closeness
from orion_recall.recall.types import Sources
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import Hit, MemoryView, SearchRequest, SourceName


class ReplayedSource:
    """A source that caches its hits by request. A failed search is repeated."""

    def __init__(self, source: Source) -> None:
        self.name: SourceName = source.name
        self._source = source
        self._found: dict[SearchRequest, Sequence[Hit]] = {}

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """As the source's own; errors are its own, too."""
        asked = replace(request, timeout_s=0.0)  # the timeout does not change the hits
        found = self._found.get(asked)
        if found is None:
            found = self._found[asked] = await self._source.search(request)
        return found


class ReplayedReader:
    """A reader that reads each memory once."""

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
    """Late interaction that compares a question with each passage once."""

    def __init__(self, closeness: Closeness) -> None:
        self._closeness = closeness
        self._known: dict[str, dict[tuple[int, int], float | None]] = {}

    async def why_off(self) -> str | None:
        """As the comparer's own."""
        return await self._closeness.why_off()

    async def closeness(
        self, text: str, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        """As the comparer's own; the score of a passage does not depend on the others."""
        known = self._known.setdefault(text, {})
        wanted = {key: (key, passages.get(key, 0)) for key in keys}
        missing = [key for key, one in wanted.items() if one not in known]
        if missing:
            found = await self._closeness.closeness(text, missing, passages)
            known |= {wanted[key]: found.get(key) for key in missing}
        return {key: value for key, one in wanted.items() if (value := known[one]) is not None}


def replayed(sources: Sources) -> Sources:
    """The same sources with caches."""
    return replace(
        sources,
        by_name={
            name: source if isinstance(source, ReplayedSource) else ReplayedSource(source)
            for name, source in sources.by_name.items()
        },
        readers=tuple(ReplayedReader(reader) for reader in sources.readers),
        late_interaction=None if sources.late_interaction is None else ReplayedCloseness(sources.late_interaction),
    )
