"""Caches of an index: memories that were read, and the speakers in a scope, whose names a query may know."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from orion_recall.errors import SourceError
from orion_recall.interfaces import in_scope
from orion_recall.values import Change, Memory, MemoryView, Scope

MOST_SCOPES = 4_000
"""Scopes whose speakers are kept; with one more the cache begins anew."""


def speaker_scope(scope: Scope) -> Scope:
    """The scope in which names are known: whose memories a query may see at all.

    Tenant, session, user, agent, run, tags (a visibility lane may be a tag) and `as_of` count. Kinds and times do
    not: who asks for facts, or for last week, may still name somebody who spoke before.
    """
    return replace(scope, kinds=(), since=None, until=None, speakers=(), told=())


@dataclass(slots=True)
class _Speakers:
    names: frozenset[str]
    until: float


class SpeakerCache:
    """The speakers in each `speaker_scope`, as written. Call it on the event loop.

    `fresh_s`: how long an answer is taken for what the index still says, where others write to it, too.
    """

    def __init__(self, fresh_s: float = math.inf) -> None:
        # By tenant: a write looks at its own tenant's scopes only.
        self._of: dict[str, dict[Scope, _Speakers]] = {}
        self._fresh_s, self._count, self._writes = fresh_s, 0, 0

    async def names(self, scope: Scope, read: Callable[[Scope], Awaitable[frozenset[str]]]) -> frozenset[str]:
        """The scope's speakers. `read` reads those of a `speaker_scope` that are not known, or too old."""
        scope, now, before = speaker_scope(scope), time.monotonic(), self._writes
        known = self._of.get(scope.tenant, {}).get(scope)
        if known is not None:
            if now < known.until:
                return known.names
            known.until = now + self._fresh_s  # one asks, the others go on with what was known
        try:
            names = await read(scope)
        except SourceError:
            if known is None:
                raise
            return known.names
        # Else a write in between may have added one, which an answer for a moment may lack.
        if self._writes == before or self._fresh_s < math.inf:
            if self._count >= MOST_SCOPES:
                self.clear()
            of_tenant = self._of.setdefault(scope.tenant, {})
            self._count += scope not in of_tenant
            of_tenant[scope] = _Speakers(names, now + self._fresh_s)
        return names

    def clear(self) -> None:
        self._of, self._count, self._writes = {}, 0, self._writes + 1

    @contextmanager
    def written(self) -> Generator[None]:
        """What is written in the block is noted after it; where it fails, some of it may be there."""
        try:
            yield
        except BaseException:
            self.clear()
            raise

    def note(self, changes: Iterable[Change], former: Iterable[tuple[str, str]] = ()) -> None:
        """What was written; `former` are tenant and speaker of what was changed or deleted: they are read anew."""
        self._writes += 1
        latest = {(change.memory.tenant, change.memory.id): change.memory for change in changes}
        spoken = defaultdict[tuple[str, str], list[Memory]](list)
        for memory in latest.values():
            if memory.is_live and memory.speaker:
                spoken[memory.tenant, memory.speaker].append(memory)
        for tenant, speaker in former:
            of_tenant, still = self._of.get(tenant, {}), spoken.get((tenant, speaker), ())
            for scope in [scope for scope, known in of_tenant.items() if speaker in known.names]:
                if not any(in_scope(memory, scope) for memory in still):
                    del of_tenant[scope]
                    self._count -= 1
        for (tenant, speaker), memories in spoken.items():
            for scope, known in self._of.get(tenant, {}).items():
                if speaker not in known.names and any(in_scope(memory, scope) for memory in memories):
                    known.names |= {speaker}


_MOST = 8192
_MOST_CHARS = 4000


class KeptViews:
    """The memories that were asked for last. A longer text is not kept, so that what they take has a bound."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, MemoryView] = OrderedDict()
        self._writing = self._writes = 0

    async def fetched(
        self, keys: Sequence[int], read: Callable[[Sequence[int]], Awaitable[Mapping[int, MemoryView]]]
    ) -> Mapping[int, MemoryView]:
        """The memories of these keys, in their order; `read` reads those that are not kept."""
        kept = self._kept.get
        views = {key: view for key in keys if (view := kept(key)) is not None}
        for key in views:
            self._kept.move_to_end(key)
        if len(views) == len(keys) or not (missing := [key for key in keys if key not in views]):
            return views
        before = self._writes
        read_now = await read(missing)
        if not self._writing and before == self._writes:
            self._kept.update((key, view) for key, view in read_now.items() if len(view.text) <= _MOST_CHARS)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return {key: view for key in keys if (view := views.get(key) or read_now.get(key)) is not None}

    def may_have_passages(self, keys: Sequence[int]) -> list[int]:
        """The keys without those of memories that are known to have no passages."""
        kept = self._kept.get
        return [key for key in keys if (view := kept(key)) is None or view.passages]

    @contextmanager
    def written(self, keys: Iterable[int]) -> Generator[None]:
        """These are written while the block runs: whoever asks for them reads them anew."""
        self._writing += 1
        self._forget(keys := tuple(keys))
        try:
            yield
        finally:
            self._writing -= 1
            self._forget(keys)

    def clear(self) -> None:
        self._writes += 1
        self._kept.clear()

    def _forget(self, keys: Sequence[int]) -> None:
        self._writes += 1
        for key in keys:
            self._kept.pop(key, None)
