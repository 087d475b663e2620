"""Protocols: sources (defined beside their specs), readers, finders, and the copies of the record."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from orion_recall.errors import SourceError
from orion_recall.models.sparse import SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.scoring.intervals import tells_of
from orion_recall.source_specs import Source
from orion_recall.values import Change, Hit, Memory, MemoryView, Scope, SearchRequest, SourceName, TimedKey

# Here, so that commands that name it do not load the graph.
StatementWeights = Callable[[str, Sequence[int]], Coroutine[Any, Any, Mapping[int, float]]]
"""`sources.graph.statement_weights` of one graph."""


def answers_for(source: Source, tenant: str) -> bool:
    """Whether the tenant may have hits in the source; else it gets neither a search nor the errors of the source.

    A source that does not say by a method `answers_for(tenant)` serves all tenants.
    """
    # Not by a Protocol: to ask each source of each recall whether it is an instance took as long as to fuse.
    says: Callable[[str], bool] | None = getattr(source, "answers_for", None)
    return says is None or says(tenant)


@runtime_checkable
class MemoryReader(Protocol):
    """Reads whole memories by key, in one batch. Keys that are not there are left out."""

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]: ...


class EntityFinder(Protocol):
    """Finds the entities that a text names: (label, score), best first."""

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]: ...


class TitleFinder(Protocol):
    """Finds the memories of a scope by their titles (see `text.names`).

    Their names by key, `limit` memories at most; which of more than that is the index's choice.
    """

    async def titled(self, names: Sequence[str], scope: Scope, limit: int) -> Mapping[int, Sequence[str]]: ...

    async def has_titles(self, tenant: str) -> bool:
        """False only if no memory of the tenant has a title, so that none need be looked for."""
        ...


class ChronologicalIndex(Protocol):
    """Lists the memories of a scope by their time, whatever they say."""

    async def in_time_order(
        self, scope: Scope, limit: int, *, newest_first: bool = False, without_sessions: Sequence[str] = ()
    ) -> Sequence[TimedKey]:
        """The dated memories of the scope, at most `limit`, the oldest first unless `newest_first`.

        Those of `without_sessions` are left out; those of one time are in the order of their keys.
        """
        ...


class Lexicon(Protocol):
    """Gives the names of the speakers in the memories of a scope, as written.

    Of the scope tenant, session, user, agent, run and tags count (`index.caches`): nobody is named to a query
    that may see no memory of theirs.
    """

    async def speakers(self, scope: Scope) -> frozenset[str]: ...


class Copy(Protocol):
    """A copy of the record; while it is damaged or stalled its hits count, and the answer is degraded."""

    damage: str | None
    """What the copy is known to lack, or to have wrong, of the record; None while nothing is known."""
    stalled: str | None
    """Why the copy is not written now though the record has more; None while it is."""

    @property
    def kind(self) -> str: ...


class Projection(Copy, Protocol):
    """A copy of the record in another shape, with its position in the outbox and the identity of its database."""

    @property
    def shared(self) -> bool:
        """Whether several workers search and write this one copy; only one of them may write at a time."""
        ...

    @property
    def copy(self) -> str | None:
        """The name the copy is registered under; None: that of the node and its data folder."""
        ...

    @property
    def position(self) -> int: ...

    @property
    def database_identity(self) -> str | None:
        """The identity of the database that it is a copy of; None when it is new."""
        ...

    def expect(self, identity: str) -> None:
        """The identity of the database that it must be a copy of; with another one it is AnotherRecordsCopy."""
        ...

    async def check(self) -> None:
        """AnotherRecordsCopy when it was filled from another database; SourceError when it cannot be read."""
        ...

    async def adopt(self) -> None:
        """Gives a new copy the expected identity."""
        ...

    async def open(self) -> None:
        """Ready to search and to write; again is harmless for a shared copy, and reads its position anew.

        SourceError when it cannot be used, EngineError when another holds it. After TransientSourceError it is not
        there now: it opens by itself with the first call that finds it.
        """
        ...

    async def close(self) -> None: ...

    async def apply(self, changes: Sequence[Change]) -> None:
        """Put changes in, in order, and move the position. Again is harmless.

        Of a memory that is not live, and of what a changed one said before, nothing stays.
        """
        ...

    async def held(self) -> Mapping[int, int]:
        """The version of every memory that the copy holds, by key."""
        ...

    async def remove(self, keys: Sequence[int]) -> None:
        """Take memories out that the record knows nothing of; the position stays."""
        ...


@runtime_checkable
class RewrittenCopy(Protocol):
    """A copy that can rewrite a memory without reusing anything that it holds of it."""

    async def apply_anew(self, changes: Sequence[Change]) -> None:
        """As `apply`, with everything computed anew."""
        ...


@runtime_checkable
class SwappedCopy(Protocol):
    """A copy in a folder that a rebuild can replace while searches go on."""

    def staged_rebuild(self) -> Projection | None:
        """The complete rebuild that waits to be swapped in, not opened; None when there is none."""
        ...

    async def swap_in(self, built: Projection) -> None:
        """Replaces this copy, which is open, by the rebuild that `staged_rebuild` gave and the caller opened."""
        ...

    async def compact(self) -> tuple[int, list[str]]:
        """Writes its files anew; how many unused builds were deleted, and the names of those that are in use."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A projection that can prepare the next changes while it writes the current ones."""

    async def prepare(self, changes: Sequence[Change]) -> None:
        """Writes nothing. Errors as those of `apply`."""
        ...


class TextIndex(Copy, Protocol):
    """The index of the vector and lexical sources: (key, score) pairs, best first; keys by `memory_key`."""

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]: ...

    async def search_sparse(
        self, terms: SparseTerms, scope: Scope, limit: int
    ) -> list[list[tuple[int, float]]]: ...

    async def names_sharing_words(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
        """The entities whose names share words with the text, best first: each with all its names."""
        ...


class MemoryIndex(
    Projection, TextIndex, MemoryReader, EntityFinder, TitleFinder, ChronologicalIndex, Lexicon, Protocol
):
    """The vector and keyword index, embedded or on a server."""

    async def vectors(self, keys: Sequence[int]) -> Mapping[int, Sequence[float]]:
        """The vectors of memories, by key: of a long one that of its first passage. Keys not there are left out."""
        ...

    async def names_near(self, vector: Sequence[float], tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        """Entities by the vectors of their names: (label, cosine), best first."""
        ...

    async def nearest_passages(
        self, vector: Sequence[float], tenant: str, keys: Sequence[int]
    ) -> Mapping[int, int]:
        """Of each memory of the keys whose nearest passage is not its first one, the number of that passage.

        The memories are the tenant's. Passages of a memory are numbered from 0; most memories have only that one.
        """
        ...

    async def without_tokens(self) -> str | None:
        """Why `max_sim` cannot be called; None when it can."""
        ...

    async def max_sim(
        self, tokens: Tokens, keys: Sequence[int], passages: Mapping[int, int]
    ) -> Mapping[int, float]:
        """For each memory of the keys the sum of the tokens' best dot products with its own tokens.

        Of a memory in `passages` its tokens are those of the passage of that number, else of its first one.
        `tokens` are the embedder's `query_tokens`, shape (tokens, width). Keys that are not there are left out.
        """
        ...


class GraphStore(Protocol):
    """A graph that can be queried."""

    async def select(self, query: str) -> Sequence[Mapping[str, str]]:
        """The rows of a SPARQL SELECT, values as text; unbound ones are absent."""
        ...


class OwnGraph(GraphStore, Copy, Protocol):
    """The service's own graph, as the graph source uses it."""

    @property
    def writes(self) -> int | None:
        """The number of writes so far; None where others may write to it, and nothing read may be kept."""
        ...

    async def check(self) -> None:
        """SourceError when the graph is known not to answer, or may not; no query is sent."""
        ...


class MemoryGraph(Projection, MemoryReader, OwnGraph, Protocol):
    """The graph, embedded or on a server."""


class Unavailable:
    """A source that could not be opened; each search raises the reason, or what is `told` in its place."""

    def __init__(self, name: SourceName, reason: str, *, told: str | None = None) -> None:
        self.name: SourceName = name
        self.reason, self._told = reason, told

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """SourceError, always."""
        raise SourceError(self.reason if self._told is None else self._told)


def in_scope(memory: Memory | MemoryView, scope: Scope) -> bool:
    """Whether a memory is in the scope. A field that the memory does not have does not match."""
    return (
        (scope.session_id is None or memory.session_id == scope.session_id)
        and (scope.user_id is None or memory.user_id == scope.user_id)
        and (scope.agent_id is None or memory.agent_id == scope.agent_id)
        and (scope.run_id is None or memory.run_id == scope.run_id)
        and (not scope.kinds or memory.kind in scope.kinds or memory.guessed_kind in scope.kinds)
        and (not scope.speakers or memory.speaker in scope.speakers)
        and (not scope.tags or not set(scope.tags).isdisjoint(memory.tags))
        and (scope.since is None or (memory.ts is not None and memory.ts >= scope.since))
        and (scope.until is None or (memory.ts is not None and memory.ts < scope.until))
        and (scope.as_of is None or memory.ts is None or memory.ts <= scope.as_of)
        and (not scope.told or tells_of(memory.told, scope.told))
    )
