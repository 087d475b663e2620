"""Caches of an index: memories that were read, and the speakers in a scope, whose names a query may know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

from orion_recall.values import Change, Memory, MemoryView, Scope

MOST_SCOPES = 4_000
"""Scopes whose speakers are kept; with one more the cache begins anew."""


def speaker_scope(scope: Scope) -> Scope:
    """The scope in which names are known: whose memories a query may see at all.

    Tenant, session, user, agent, run and tags (a visibility lane may be a tag) count. Kinds and times do not: who
    asks for facts, or for last week, may still name somebody who spoke before.
    """
    return replace(scope, kinds=(), since=None, until=None, speakers=(), told=())


def speaks_in(memory: Memory, scope: Scope) -> bool:
    """Whether a memory is one of those whose speakers are known in a `speaker_scope`."""
    return (
        memory.tenant == scope.tenant
        and (scope.session_id is None or memory.session_id == scope.session_id)
        and (scope.user_id is None or memory.user_id == scope.user_id)
        and (scope.agent_id is None or memory.agent_id == scope.agent_id)
        and (scope.run_id is None or memory.run_id == scope.run_id)
        and (not scope.tags or not set(scope.tags).isdisjoint(memory.tags))
    )


class HasNames(Protocol):
    """What is cached of a scope, with the names in it."""

    names: frozenset[str]


T = TypeVar("T", bound=HasNames)


class ByScope(Generic[T]):
    """What is known of scopes, by tenant, so that a write looks at its own tenant's scopes only."""

    def __init__(self) -> None:
        self._of: dict[str, dict[Scope, T]] = {}
        self._count = 0

    def get(self, scope: Scope) -> T | None:
        return self._of.get(scope.tenant, {}).get(scope)

    def put(self, scope: Scope, known: T) -> None:
        """Keeps what is known of the scope."""
        if self._count >= MOST_SCOPES:
            self.clear()
        of_tenant = self._of.setdefault(scope.tenant, {})
        self._count += scope not in of_tenant
        of_tenant[scope] = known

    def clear(self) -> None:
        self._of.clear()
        self._count = 0

    def heard(self, memories: Iterable[Memory]) -> None:
        """Adds the speakers of memories that were just written to the scopes that they are in."""
        for memory in memories:
            speaker = memory.speaker
            if not speaker:
                continue
            for scope, known in self._of.get(memory.tenant, {}).items():
                if speaker not in known.names and speaks_in(memory, scope):
                    known.names |= {speaker}

    def of_tenant(self, tenant: str) -> Iterable[T]:
        return self._of.get(tenant, {}).values()


_MOST_DOUBTFUL = 64
"""Names that are looked for one by one; with one more all are read."""

ReadSpeakers = Callable[[Scope, Collection[str] | None], Awaitable[frozenset[str]]]
"""The speakers in a scope, all or those among some names."""


class FormerSpeaker(NamedTuple):
    """Who spoke a memory before it was changed or deleted."""

    tenant: str
    speaker: str


@dataclass(slots=True)
class _Speakers:
    """`doubtful` are names that a memory in the scope may no longer have."""

    names: frozenset[str]
    doubtful: frozenset[str] = frozenset()


class SpeakerCache:
    """The speakers by scope. Call it on the event loop."""

    def __init__(self) -> None:
        self._of = ByScope[_Speakers]()
        self._notes = 0

    async def names(self, scope: Scope, read: ReadSpeakers) -> frozenset[str]:
        """The speakers in the scope, as written; `read` reads what is not known."""
        known, before = self._of.get(scope), self._notes
        if known is None or len(known.doubtful) > _MOST_DOUBTFUL:
            names = await read(scope, None)
        elif known.doubtful:
            names = (known.names - known.doubtful) | await read(scope, known.doubtful)
        else:
            return known.names
        if self._notes == before:  # else a write in between may have added one
            self._of.put(scope, _Speakers(names))
        return names

    def clear(self) -> None:
        self._of.clear()
        self._notes += 1

    @contextmanager
    def written(self) -> Generator[None]:
        """What is written in the block is noted after it; where it fails, some of it may be there."""
        try:
            yield
        except BaseException:
            self.clear()
            raise

    def note(self, changes: Sequence[Change], former: Iterable[FormerSpeaker]) -> None:
        """What was written, and who spoke before what was changed or deleted by that."""
        self._notes += 1
        for tenant, speaker in former:
            for known in self._of.of_tenant(tenant):
                if speaker in known.names:
                    known.doubtful |= {speaker}
        latest = {(change.memory.tenant, change.memory.id): change.memory for change in changes}
        self._of.heard(memory for memory in latest.values() if memory.is_live)


_MOST = 4096
_MOST_CHARS = 4000


class KeptViews:
    """The memories that were read or asked for last: `most` of them at least, and at most twice as many.

    With `most` 0 none is kept. A longer text is not kept, so that there is a bound to the memory that they take.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        # Two generations are a cheap least-recently-used cache: what is asked for moves to the younger one.
        self._young: dict[int, MemoryView] = {}
        self._old: dict[int, MemoryView] = {}
        self._writing = 0
        self._writes = 0

    async def fetched(
        self, keys: Sequence[int], read: Callable[[Sequence[int]], Awaitable[Mapping[int, MemoryView]]]
    ) -> Mapping[int, MemoryView]:
        """The memories of these keys, in their order; `read` reads those that are not kept."""
        young = self._young.get
        views = {key: view for key in keys if (view := young(key)) is not None}
        if len(views) == len(keys):
            return views
        views = {key: view for key in keys if (view := self._get(key)) is not None}
        if not (missing := [key for key in keys if key not in views]):
            return views
        before = self._writes
        read_now = await read(missing)
        if self._most and not self._writing and before == self._writes:
            self._keep(read_now)
        return {key: view for key in keys if (view := views.get(key) or read_now.get(key)) is not None}

    def may_have_passages(self, keys: Sequence[int]) -> list[int]:
        """The keys without those of memories that are known to have no passages."""
        young, old = self._young.get, self._old.get
        return [key for key in keys if (view := young(key) or old(key)) is None or view.passages]

    @contextmanager
    def written(self, keys: Iterable[int]) -> Generator[None]:
        """These are written while the block runs: whoever asks for them reads them anew."""
        self._writing += 1
        self._writes += 1
        self._forget(keys := tuple(keys))
        try:
            yield
        finally:
            self._writing -= 1
            self._writes += 1
            self._forget(keys)

    def clear(self) -> None:
        self._writes += 1
        self._young, self._old = {}, {}

    def _get(self, key: int) -> MemoryView | None:
        if (view := self._young.get(key)) is None and (view := self._old.get(key)) is not None:
            self._add(key, view)
        return view

    def _keep(self, views: Mapping[int, MemoryView]) -> None:
        for key, view in views.items():
            if len(view.text) <= _MOST_CHARS:
                self._add(key, view)

    def _add(self, key: int, view: MemoryView) -> None:
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[key] = view

    def _forget(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._young.pop(key, None)
            self._old.pop(key, None)
