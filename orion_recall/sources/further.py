"""Sources of other packages: opened as their specs say. Whatever they raise costs their own hits alone."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeVar

from orion_recall.errors import ModelError, SourceError
from orion_recall.interfaces import Source, Unavailable, answers_for
from orion_recall.scoring.parts import refused_parts
from orion_recall.source_specs import SourceSettings, SourceSpec, further_sources, package_of, refused_sources
from orion_recall.tasks import errors_logged, outcomes
from orion_recall.values import Hit, SearchRequest, SourceName

T = TypeVar("T")
log = logging.getLogger("orion_recall.sources")

_OPEN_S = 10.0


class FurtherSource:
    """A source of another package. What it raises that is no error of ours becomes a SourceError of its type.

    The text of such an error may quote a memory, so it is not shown. A hit that is none, or whose score is no
    number, is an error too.
    """

    def __init__(self, spec: SourceSpec, opened: Source) -> None:
        self.name: SourceName = spec.name
        self._spec, self._opened = spec, opened

    def answers_for(self, tenant: str) -> bool:
        """Whether the tenant may have hits; no, where the source fails to say so."""
        with errors_logged(f"the source {self.name} does not say for whom it answers"):
            return bool(answers_for(self._opened, tenant))
        return False

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Its hits, best first, as many as were asked for at most. SourceError for what it raises."""
        return await self._guarded(self._search(request))

    async def check(self) -> str | None:
        """What its spec's `check` says of it; None where there is none. SourceError for what that raises."""
        return None if self._spec.check is None else await self._guarded(self._spec.check(self._opened))

    async def _guarded(self, work: Awaitable[T]) -> T:
        (found,) = await outcomes(f"the source {self.name} failed", work)
        if isinstance(found, SourceError | ModelError):
            raise found
        if isinstance(found, Exception):
            raise SourceError(f"unexpected: {type(found).__name__}") from found
        return found

    async def _search(self, request: SearchRequest) -> Sequence[Hit]:
        hits = [_sound(hit) for hit in await self._opened.search(request)]
        hits.sort(key=lambda hit: (-hit.score, hit.key))
        return hits[: request.limit]


def _sound(hit: object) -> Hit:
    """The hit; TypeError or ValueError for what cannot be fused."""
    if not isinstance(hit, Hit) or not math.isfinite(hit.score):
        raise ValueError("no Hit with a number for its score")
    return hit._replace(key=int(hit.key), score=float(hit.score))


async def open_further(settings: SourceSettings, stack: AsyncExitStack) -> Mapping[SourceName, Source]:
    """The sources of other packages by name, closed with the stack; one that cannot be opened says why.

    What of these packages cannot be used is logged.
    """
    for refused in (*refused_sources(), *refused_parts()):
        log.warning("%s", refused)
    found: dict[SourceName, Source] = {}
    for spec in further_sources():
        try:
            found[spec.name] = await open_one(spec, settings, stack)
        except SourceError as error:
            log.warning("%s", error)
            found[spec.name] = Unavailable(spec.name, str(error))
    return found


async def open_one(spec: SourceSpec, settings: SourceSettings, stack: AsyncExitStack) -> FurtherSource:
    """The open source, closed with the stack. SourceError, which names the package, for whatever it raises."""
    assert spec.open is not None
    try:
        async with asyncio.timeout(_OPEN_S):
            context = spec.open(settings)
            source = await context.__aenter__()
    except TimeoutError as error:
        raise SourceError(_told(spec, f"it was not open within {_OPEN_S:.0f} s")) from error
    except Exception as error:
        # The code of others may raise anything, and must not keep the service from starting.
        raise SourceError(_told(spec, str(error) or type(error).__name__)) from error
    stack.push_async_callback(_close, spec, context)
    return FurtherSource(spec, source)


def _told(spec: SourceSpec, why: str) -> str:
    return f"the source {spec.name} of the package {package_of(spec.name)} cannot be opened: {why}"


async def _close(spec: SourceSpec, context: AbstractAsyncContextManager[Source]) -> None:
    with errors_logged(f"the source {spec.name} could not be closed"):
        await context.__aexit__(None, None, None)
