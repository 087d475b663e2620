"""Source checks: probe searches of every store of every source, which recall metrics do not count."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping

from orion_recall.errors import ModelError, SourceError
from orion_recall.interfaces import GraphStore, Source, Unavailable
from orion_recall.serving.observe.heartbeat_fields import CopyState, Health, StoreState
from orion_recall.serving.observe.metrics import ObservedService
from orion_recall.sources.several_stores import SeveralStores
from orion_recall.tasks import outcomes, sleep
from orion_recall.text.normal import text_hash
from orion_recall.values import Question, Scope, SearchRequest, SourceName

_PROBE = "is anybody there"
_ANYTHING = "SELECT (1 AS ?here) WHERE {}"
_LONGEST_S = 3.0
_Place = tuple[SourceName, str]


class SourceChecks:
    """The last results of the checks of a service's stores; `run()` repeats the checks."""

    def __init__(self, running: ObservedService, changed: Callable[[], None]) -> None:
        self._running, self._changed = running, changed
        self._answers: dict[_Place, str | None] = {}
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Probe now: a store may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Probe every ORION_LOOK_EVERY_S seconds, and when woken; never when that is 0."""
        every_s = self._running.settings.look_every_s
        while every_s > 0:
            self._wake.clear()
            before, self._answers = self._answers, await self._probe()
            if self._answers != before:
                self._changed()
            await sleep(every_s, self._wake)
        await asyncio.Event().wait()

    @property
    def stores(self) -> list[StoreState]:
        """Every store of every source, as last seen."""
        required = required_sources(self._running)
        sources = self._running.opened.sources.by_name
        states = [
            self._state(name, store, source, required=name in required)
            for name, stores in stores_by_source(sources).items()
            for store, source in stores.items()
        ]
        return states + [
            StoreState(arm=name, store="", health="broken", required=True, why="not configured")
            for name in required
            if name not in sources
        ]

    @property
    def copies(self) -> list[CopyState]:
        """Index and graph: the lag of the copy that this worker keeps, or why it cannot be used."""
        broken = self._running.opened.broken
        kept = [
            CopyState(kind=one.kind, copy=one.copy, behind=one.lag, error=one.error or one.projection.damage)
            for one in self._running.background.projectors
        ]
        return kept + [CopyState(kind=kind, copy=None, behind=None, error=why) for kind, why in broken.items()]

    def _state(self, name: SourceName, store: str, source: Source, *, required: bool) -> StoreState:
        health: Health
        if isinstance(source, Unavailable):
            health, why = "broken", source.reason
        elif (name, store) in self._answers:
            why = self._answers[name, store]
            health = "ok" if why is None else "failing"
        else:
            # Not probed yet, or never: what recalls have met is known all the same.
            sources = self._running.opened.sources
            several = sources.by_name.get(name)
            breaker = (several.breakers if isinstance(several, SeveralStores) else {}).get(store)
            breaker = breaker or sources.breakers[name]
            health = "failing" if breaker.is_open else "unknown"
            why = breaker.last_error if breaker.is_open else None
        return StoreState(arm=name, store=store, health=health, required=required, why=why)

    async def _probe(self) -> dict[_Place, str | None]:
        opened, settings = self._running.opened, self._running.settings
        own = settings.timeline_tenant or settings.default_tenant
        asked: dict[_Place, Coroutine[None, None, str | None]] = {
            (name, store): answers(
                source,
                opened.tenants_of_others.get(store, settings.default_tenant) if store else own,
                graph=opened.graph if name == "rdf" and not store else None,
                within_s=_LONGEST_S,
            )
            for name, stores in stores_by_source(opened.sources.by_name).items()
            for store, source in stores.items()
            if not isinstance(source, Unavailable)
        }
        # An unexpected error of a check must not end the worker.
        found = await outcomes("a check of the stores failed", *asked.values())
        return {place: _reason(why) for place, why in zip(asked, found, strict=True)}


def _reason(why: Exception | str | None) -> str | None:
    """Of an error that is not our own only the type: its text may quote a memory."""
    return f"unexpected: {type(why).__name__}" if isinstance(why, Exception) else why


def required_sources(running: ObservedService) -> tuple[SourceName, ...]:
    """The sources that must answer: those of the settings, else what the default profile searches here."""
    given = running.settings.ready_sources
    if given is not None:
        return given
    searched = running.profiles[running.settings.default_profile].profile.sources_on
    return tuple(name for name in searched if name in running.opened.sources.by_name)


def stores_by_source(sources: Mapping[SourceName, Source]) -> dict[SourceName, Mapping[str, Source]]:
    """The stores of every source by name; our own is \"\"."""
    return {name: one.stores if isinstance(one, SeveralStores) else {"": one} for name, one in sources.items()}


async def answers(source: Source, tenant: str, *, graph: GraphStore | None = None, within_s: float) -> str | None:
    """None when the source answers a search of the tenant in time, else why it does not.

    A query without known names does not reach the graph, so the `graph` of the source is queried as well.
    """
    now = time.time()
    question = Question(
        text=_PROBE,
        dense_text=f"{_PROBE} {now:.0f}",  # a new text: a cached vector would hide a server that is away
        keyword_text=_PROBE,
        terms=frozenset(_PROBE.split()),
        now=now,
        text_hash=text_hash(_PROBE),
    )
    request = SearchRequest(question=question, scope=Scope(tenant=tenant), limit=1, window_minutes=1)
    try:
        async with asyncio.timeout(within_s):
            await source.search(request)
            if graph is not None:
                await graph.select(_ANYTHING)
    except TimeoutError:
        return f"no answer within {within_s:g} s"
    except (SourceError, ModelError) as error:
        return str(error)
    return None
