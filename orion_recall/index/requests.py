"""Searches and reads of an index as every engine takes them: conditions, requests, and what an engine does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

from orion_recall.index.points import DAY_S, TOLD, IndexPoint, weekday
from orion_recall.index.texts import tenants_of
from orion_recall.models.sparse import SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.values import Scope, TimeRange

KEPT_FILTERS = 256
"""So many filters are kept of each form: that of a scope, and what an engine makes of it."""


class Is(NamedTuple):
    """The field has the value."""

    field: str
    value: str


class AnyOf(NamedTuple):
    """The field has one of the values."""

    field: str
    values: tuple[str, ...] | tuple[int, ...]


class Within(NamedTuple):
    """The field's number is in a range."""

    field: str
    at_least: float | None = None
    above: float | None = None
    below: float | None = None


class Keys(NamedTuple):
    """The point has one of the keys."""

    keys: tuple[int, ...]


class OneToldTime(NamedTuple):
    """All conditions hold for one and the same told time of the memory."""

    conditions: tuple[Within | AnyOf, ...]


class Filter(NamedTuple):
    """Conditions that must all hold, of which one must hold where there are some, and that may not hold.

    It has a hash, as every condition has: an engine keeps what it makes of one.
    """

    must: tuple[Condition, ...] = ()
    should: tuple[Condition, ...] = ()
    must_not: tuple[Condition, ...] = ()


Condition = Is | AnyOf | Within | Keys | OneToldTime | Filter


class Search(NamedTuple):
    """Points nearest by one of their vectors.

    `query` is a vector, terms of the tenant's words, or the vectors of a question's tokens. `among_all`: among all
    memories of a scope, where an approximate engine must look far enough.
    """

    query: Sequence[float] | SparseTerms | Tokens
    using: str
    where: Filter
    limit: int
    tenant: str = ""
    min_score: float | None = None
    payload: Sequence[str] = ()
    among_all: bool = False


class Page(NamedTuple):
    """A page of points that meet conditions, by their times where `newest_first` is given."""

    where: Filter
    limit: int
    payload: Sequence[str] = ()
    newest_first: bool | None = None
    offset: Any = None


Fields = bool | Sequence[str]
"""What is read of payloads: all of it or nothing, or these fields."""


class Record(Protocol):
    """A point as an engine gives it."""

    @property
    def id(self) -> Any: ...
    @property
    def payload(self) -> Any: ...
    @property
    def vector(self) -> Any: ...


class Scored(Record, Protocol):
    """A point that a search found."""

    @property
    def score(self) -> float: ...


Patience = Literal["full", "well", "aside"]
"""How a server is waited for: fully; not at all for a while after a failure; and besides only shortly."""


class Engine(Protocol):
    """The points of an index. Writes are idempotent."""

    async def search(self, requests: Sequence[Search], patience: Patience = "full") -> Sequence[Sequence[Scored]]:
        """The points of each request, best first."""
        ...

    async def retrieve(
        self, keys: Sequence[int], payload: Fields, vectors: Sequence[str] = (), patience: Patience = "full"
    ) -> Sequence[Record]:
        """The points of the keys that are there; with vectors, as they were written last."""
        ...

    async def scroll(self, page: Page, patience: Patience = "full") -> tuple[Sequence[Record], Any]:
        """The points of a page, and the next page's offset."""
        ...

    async def delete(self, keys: Sequence[int]) -> None: ...
    async def upsert(self, points: Sequence[IndexPoint]) -> None: ...


def scope_filter(
    scope: Scope, *, titles: Sequence[str] = (), with_passages: bool = False, told_roughly: bool = False
) -> Filter:
    """The scope, and one of the titles if any are given, as conditions that must all hold.

    Further passages of memories are in the scope only `with_passages`. With `told_roughly` a memory is let through,
    too, of which one told time begins early enough and another one ends late enough: engines have indexes for that.
    """
    where = _scope_filter(scope, with_passages, told_roughly)
    return where._replace(must=(*where.must, AnyOf("titles", tuple(titles)))) if titles else where


# A recall searches several times in the same scope.
@lru_cache(maxsize=KEPT_FILTERS)
def _scope_filter(scope: Scope, with_passages: bool, told_roughly: bool) -> Filter:
    conditions: list[Condition] = [of_tenant(scope.tenant) if with_passages else Is("tenant", scope.tenant)]
    conditions += [Is(*each) for each in ids_of(scope)]
    listed = (("kind", scope.kinds), ("tags", scope.tags), ("speaker", scope.speakers))
    conditions += [AnyOf(field, wanted) for field, wanted in listed if wanted]
    if scope.since is not None or scope.until is not None:
        conditions.append(Within("ts", at_least=scope.since, below=scope.until))
    if scope.as_of is not None:
        conditions.append(Filter(must_not=(Within("ts", above=scope.as_of),)))
    if scope.told:
        told = [_told(since, until, weekdays, told_roughly) for since, until, weekdays in _told_ranges(scope.told)]
        conditions.append(Filter(should=tuple(told)))
    return Filter(must=tuple(conditions))


def of_tenant(tenant: str) -> AnyOf:
    """The tenant's points, with the further passages of its memories."""
    return AnyOf("tenant", tenants_of(tenant))


def ids_of(scope: Scope) -> list[tuple[str, str]]:
    """The ids that a memory in the scope must have, with the payload's field of each."""
    fields = (
        ("session", scope.session_id), ("user", scope.user_id), ("agent", scope.agent_id), ("run", scope.run_id)
    )  # fmt: skip
    return [(field, wanted) for field, wanted in fields if wanted is not None]


def _told(since: float | None, until: float | None, weekdays: tuple[int, ...], roughly: bool) -> Condition:
    """A told time begins before `until`, ends after `since`, and comes every week on one of the weekdays."""
    prefix = f"{TOLD}[]." if roughly else ""
    conditions = [Within(f"{prefix}since", below=until)] if until is not None else []
    conditions += [Within(f"{prefix}until", above=since)] if since is not None else []
    listed = [AnyOf(f"{prefix}weekday", weekdays)] if weekdays else []
    return Filter(must=(*conditions, *listed)) if roughly else OneToldTime((*conditions, *listed))


def _told_ranges(ranges: Sequence[TimeRange]) -> Iterator[tuple[float | None, float | None, tuple[int, ...]]]:
    """Intervals of which a told time must overlap one: itself, or as one that comes every week (0 is Monday)."""
    for since, until in ranges:
        yield since, until, ()
        weekdays = tuple(range(7))
        if since is not None and until is not None and until - since < 7 * DAY_S:
            # What begins late in the evening may end on the next day.
            days = range(int(since // DAY_S) - 1, int((until - 1) // DAY_S) + 1)
            weekdays = tuple(dict.fromkeys(weekday(day * DAY_S) for day in days))
        yield None, until, weekdays


def payload_of(record: Record) -> Mapping[str, Any]:
    return record.payload or {}
