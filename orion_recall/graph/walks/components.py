"""Connected components of the entities, and their degrees, computed from a stream of edges.

Union by size with path halving (Tarjan and van Leeuwen, 1984): memory for each entity, none for edges.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence


class Components:
    """Grows edge by edge. Entities without an edge are in no component."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._parents = array("q")
        self._sizes = array("q")
        self._degrees = array("q")
        self.edges = 0

    def add(self, edges: Iterable[tuple[str, str]]) -> None:
        """Adds edges, each by its two ends. An edge from an entity to itself counts once."""
        for one, other in edges:
            self.edges += 1
            left, right = self._place(one), self._place(other)
            self._degrees[left] += 1
            if left != right:
                self._degrees[right] += 1
            left, right = self._root(left), self._root(right)
            if left == right:
                continue
            if self._sizes[left] < self._sizes[right]:
                left, right = right, left
            self._parents[right] = left
            self._sizes[left] += self._sizes[right]

    @property
    def entities(self) -> int:
        """The number of entities that have an edge."""
        return len(self._places)

    def degree(self, entity: str) -> int:
        """The number of an entity's edges."""
        place = self._places.get(entity)
        return 0 if place is None else self._degrees[place]

    def together(self, one: str, other: str) -> bool:
        """Whether a path connects the two."""
        if one == other:
            return True
        places = self._places.get(one), self._places.get(other)
        return None not in places and self._root(self._places[one]) == self._root(self._places[other])

    def sizes(self) -> list[int]:
        """The number of entities in each component, largest first."""
        roots = (place for place, parent in enumerate(self._parents) if place == parent)
        return sorted((self._sizes[root] for root in roots), reverse=True)

    def hubs(self, count: int) -> Sequence[tuple[str, int]]:
        """The entities with most edges, with their degrees."""
        ranked = sorted(self._places, key=lambda entity: (-self._degrees[self._places[entity]], entity))
        return [(entity, self.degree(entity)) for entity in ranked[:count]]

    def _place(self, entity: str) -> int:
        place = self._places.setdefault(entity, len(self._parents))
        if place == len(self._parents):
            self._parents.append(place)
            self._sizes.append(1)
            self._degrees.append(0)
        return place

    def _root(self, place: int) -> int:
        parents = self._parents
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place
