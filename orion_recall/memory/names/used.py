"""Names used in memories: their counts, their spellings, and the memories that give them."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence


class NamesUsed:
    """Names, case folded, with the memories that give them, by number: a million of them stay small."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._spellings: dict[str, Counter[str]] = defaultdict(Counter)
        self._given_in: dict[str, array[int]] = {}

    def add(self, memory_id: str, names: Iterable[str]) -> None:
        """One more memory, and the names that it gives."""
        place = len(self._ids)
        self._ids.append(memory_id)
        for folded, label in {name.casefold(): name for name in names}.items():
            self._spellings[folded][label] += 1
            self._given_in.setdefault(folded, array("L")).append(place)

    def __len__(self) -> int:
        return len(self._given_in)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._given_in))

    def label(self, folded: str) -> str:
        """The spelling that most memories have, the first by alphabet of several."""
        return min(self._spellings[folded].items(), key=lambda one: (-one[1], one[0]))[0]

    def count(self, folded: str) -> int:
        """How many memories give the name."""
        return len(self._given_in[folded])

    def examples(self, folded: str, limit: int = 3) -> Sequence[str]:
        """The ids of the first memories that give it."""
        return tuple(self._ids[place] for place in self._given_in[folded][:limit])

    def are_together(self, one: str, other: str) -> bool:
        """Whether one memory gives both."""
        fewer, more = sorted((self._given_in[one], self._given_in[other]), key=len)
        return not set(fewer).isdisjoint(more)
