"""The speakers in the scopes that were asked for, kept up to date with what is written.

To read all speakers of a scope takes as long as the scope is large. So they are read once. What is written later
adds its speaker; where a memory was changed or deleted, only its former speaker is looked for again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from orion_recall.index.speakers import ByScope
from orion_recall.values import Change, Scope

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
        """Forgets the speakers of all scopes."""
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
