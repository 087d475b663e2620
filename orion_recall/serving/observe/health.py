"""Health of a service: probe searches of its stores, for its heartbeat, and whether it is ready, for its port.

Recall metrics do not count a probe.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY, group_is_gone
from orion_recall.errors import ModelError, SourceError
from orion_recall.interfaces import GraphStore, Source, Unavailable
from orion_recall.serving.observe.heartbeat_fields import CopyState, Health, StoreState
from orion_recall.serving.observe.metrics import ObservedService
from orion_recall.settings import RECALL_GROUP
from orion_recall.sources.several_stores import SeveralStores
from orion_recall.tasks import cancel, outcomes, sleep
from orion_recall.text.normal import text_hash
from orion_recall.values import Question, Scope, SearchRequest, SourceName

_PROBE = "is anybody there"
_ANYTHING = "SELECT (1 AS ?here) WHERE {}"
_LONGEST_S = 3.0
_FRESH_S = 1.0
_CHECK_S = 1.5
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
        required = _required_sources(self._running)
        sources = self._running.opened.sources.by_name
        states = [
            self._state(name, store, source, required=name in required)
            for name, stores in _stores_by_source(sources).items()
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
        own = _own_tenant(self._running)
        asked: dict[_Place, Coroutine[None, None, str | None]] = {
            (name, store): answers(
                source,
                opened.tenants_of_others.get(store, settings.default_tenant) if store else own,
                graph=None if store else _graph(name, self._running),
                within_s=_LONGEST_S,
            )
            for name, stores in _stores_by_source(opened.sources.by_name).items()
            for store, source in stores.items()
            if not isinstance(source, Unavailable)
        }
        # An unexpected error of a check must not end the worker.
        found = await outcomes("a check of the stores failed", *asked.values())
        return {place: _reason(why) for place, why in zip(asked, found, strict=True)}


def _reason(why: Exception | str | None) -> str | None:
    """Of an error that is not our own only the type: its text may quote a memory."""
    return f"unexpected: {type(why).__name__}" if isinstance(why, Exception) else why


def _required_sources(running: ObservedService) -> tuple[SourceName, ...]:
    """The sources that must answer: those of the settings, else what the default profile searches here."""
    given = running.settings.ready_sources
    if given is not None:
        return given
    searched = running.profiles[running.settings.default_profile].profile.sources_on
    return tuple(name for name in searched if name in running.opened.sources.by_name)


def _stores_by_source(sources: Mapping[SourceName, Source]) -> dict[SourceName, Mapping[str, Source]]:
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


class Readiness:
    """Checks a service, once it is attached: by part, why it is not ready; None where it is."""

    def __init__(self) -> None:
        self._attached: tuple[ObservedService, Redis] | None = None
        self._checking: asyncio.Task[Mapping[str, str | None]] | None = None
        self._checked_at = 0.0

    def attach(self, running: ObservedService, redis: Redis) -> None:
        self._attached = (running, redis)
        if self._checking is not None and self._checking.done():
            self._checking = None

    async def check(self) -> Mapping[str, str | None]:
        """What is found now, or was less than a second ago."""
        if self._attached is None:
            return {"model": "the model and the stores are being opened"}
        over = self._checking is None or self._checking.done()
        if self._checking is None or (over and time.monotonic() - self._checked_at > _FRESH_S):
            self._checking = asyncio.create_task(self._check(*self._attached), name="readiness")
        return await asyncio.shield(self._checking)

    async def close(self) -> None:
        if self._checking is not None:
            await cancel(self._checking)

    async def _check(self, running: ObservedService, redis: Redis) -> Mapping[str, str | None]:
        names = _required_sources(running)
        bus, *sources = await asyncio.gather(_bus(running, redis), *(_source(name, running) for name in names))
        self._checked_at = time.monotonic()
        return {"model": _model(running), "bus": bus, **dict(zip(names, sources, strict=True))}


def _model(running: ObservedService) -> str | None:
    try:
        return None if running.opened.embedder.dimension > 0 else "the model has no dimension"
    except ModelError as error:
        return str(error)


async def _bus(running: ObservedService, redis: Redis) -> str | None:
    stream = running.settings.query_stream
    try:
        async with asyncio.timeout(_CHECK_S):
            groups = await redis.xinfo_groups(stream)
    except TimeoutError:
        return f"the bus did not answer within {_CHECK_S:g} s"
    except RedisError as error:
        if group_is_gone(error) or "no such key" in str(error).lower():
            return f"the stream {stream} is not there"
        return (
            f"the bus: {error}" if not isinstance(error, BUS_AWAY) else f"the bus is away ({type(error).__name__})"
        )
    except OSError as error:
        return f"the bus is away ({type(error).__name__})"
    if not any(group["name"] in (RECALL_GROUP, RECALL_GROUP.encode()) for group in groups):
        return f"the group {RECALL_GROUP} of {stream} is not there"
    return None if running.is_taking else "no queries are taken: starting or stopping"


async def _source(name: SourceName, running: ObservedService) -> str | None:
    source = running.opened.sources.by_name.get(name)
    if source is None:
        return "not configured"
    return await answers(source, _own_tenant(running), graph=_graph(name, running), within_s=_CHECK_S)


def _own_tenant(running: ObservedService) -> str:
    """A table that belongs to one tenant refuses every other one."""
    return running.settings.timeline_tenant or running.settings.default_tenant


def _graph(name: SourceName, running: ObservedService) -> GraphStore | None:
    return running.opened.graph if name == "rdf" else None
