"""The speakers in scopes on a server, kept for a few seconds."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from orion_recall.errors import SourceError
from orion_recall.index.speakers import ByScope
from orion_recall.values import Memory, Scope

KNOWN_S = 5.0
"""How long an answer of the server is taken for what it still says, in seconds."""
MOST_TENANTS = 10_000


@dataclass(slots=True)
class _Speakers:
    names: frozenset[str]
    until: float


class KnownSpeakers:
    """The speakers in each scope, as written."""

    def __init__(self) -> None:
        self._of = ByScope[_Speakers]()

    async def names(self, scope: Scope, ask: Callable[[], Awaitable[frozenset[str]]]) -> frozenset[str]:
        """The scope's speakers. The server is asked when what it said is too old; its first error is raised."""
        now = time.monotonic()
        known = self._of.get(scope)
        if known is not None and now < known.until:
            return known.names
        if known is not None:
            known.until = now + KNOWN_S  # one asks, the others go on with what was known
        try:
            names = await ask()
        except SourceError:
            if known is None:
                raise
            return known.names
        self._of.put(scope, _Speakers(names, now + KNOWN_S))
        return names

    def heard(self, memories: Iterable[Memory]) -> None:
        """Adds the speakers of memories that this process has just written."""
        self._of.heard(memories)
