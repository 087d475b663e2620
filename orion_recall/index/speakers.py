"""The speakers in a scope: what of a scope decides whose names a query may know, and what is cached of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

from orion_recall.values import Change, Memory, Scope

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
