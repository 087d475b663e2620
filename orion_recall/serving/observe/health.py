"""Health of a service: probe searches of its stores, for its heartbeat, and whether it is ready, for its port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY, group_is_gone
from orion_recall.errors import ModelError, SourceError
from orion_recall.interfaces import Source, Unavailable, answers_for
from orion_recall.serving.observe.heartbeat_fields import CopyState, Health, StoreState
from orion_recall.serving.observe.metrics import ObservedService
from orion_recall.settings import RECALL_GROUP
from orion_recall.sources.several_stores import SeveralStores
from orion_recall.tasks import cancel, in_time, outcomes, sleep
from orion_recall.text.normal import text_hash
from orion_recall.values import Question, Scope, SearchRequest, SourceName

_PROBE = "is anybody there"
_ANYTHING = "SELECT (1 AS ?here) WHERE {}"
_LONGEST_S = 3.0
_FRESH_S = 1.0
_CHECK_S = 1.5


class SourceChecks:
    """The last results of the checks of a service's stores; `run()` repeats the checks."""

    def __init__(self, running: ObservedService, changed: Callable[[], None]) -> None:
        self._running, self._changed = running, changed
        self._answers: dict[tuple[SourceName, str], str | None] = {}
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
        states: list[StoreState] = []
        for name, store, source in _stores(self._running):
            health, why = self._state(name, store, source)
            states.append(StoreState(arm=name, store=store, health=health, required=name in required, why=why))
        return states + [
            StoreState(arm=name, store="", health="broken", required=True, why="not configured")
            for name in required
            if name not in self._running.opened.sources.by_name
        ]

    @property
    def copies(self) -> list[CopyState]:
        """Index and graph: the lag of the copy that this worker keeps, or why it cannot be used."""
        kept = [
            CopyState(kind=one.kind, copy=one.copy, behind=one.lag, error=one.error or one.projection.damage)
            for one in self._running.background.projectors
        ]
        broken = self._running.opened.broken.items()
        return kept + [CopyState(kind=kind, copy=None, behind=None, error=why) for kind, why in broken]

    def _state(self, name: SourceName, store: str, source: Source) -> tuple[Health, str | None]:
        if isinstance(source, Unavailable):
            return "broken", source.reason
        if (name, store) in self._answers:
            why = self._answers[name, store]
            return "ok" if why is None else "failing", why
        # Not probed yet, or never: what recalls have met is known all the same.
        sources = self._running.opened.sources
        several = sources.by_name.get(name)
        breakers = several.breakers if isinstance(several, SeveralStores) else {}
        breaker = breakers.get(store) or sources.breakers[name]
        return ("failing", breaker.last_error) if breaker.is_open else ("unknown", None)

    async def _probe(self) -> dict[tuple[SourceName, str], str | None]:
        asked: dict[tuple[SourceName, str], Coroutine[None, None, str | None]] = {
            (name, store): _answers(self._running, name, source, store=store, within_s=_LONGEST_S)
            for name, store, source in _stores(self._running)
            if not isinstance(source, Unavailable)
        }
        # An unexpected error of a check must not end the worker; its text may quote a memory.
        found = await outcomes("a check of the stores failed", *asked.values())
        return {
            place: f"unexpected: {type(why).__name__}" if isinstance(why, Exception) else why
            for place, why in zip(asked, found, strict=True)
        }


def _required_sources(running: ObservedService) -> tuple[SourceName, ...]:
    """The sources that must answer: those of the settings, else what the default profile searches here."""
    if (given := running.settings.ready_sources) is not None:
        return given
    searched = running.profiles[running.settings.default_profile].profile.sources_on
    return tuple(name for name in searched if name in running.opened.sources.by_name)


def _stores(running: ObservedService) -> list[tuple[SourceName, str, Source]]:
    """Every store of every source; our own has the name \"\"."""
    return [
        (name, store, source)
        for name, one in running.opened.sources.by_name.items()
        for store, source in (one.stores if isinstance(one, SeveralStores) else {"": one}).items()
    ]


async def _answers(
    running: ObservedService, name: SourceName, source: Source, *, store: str = "", within_s: float
) -> str | None:
    """None when the source answers a search in time, else why it does not.

    A query without known names does not reach the graph, so that is queried as well.
    """
    settings, graph, now = running.settings, running.opened.graph, time.time()
    # A table that belongs to one tenant refuses every other one.
    tenant = settings.default_tenant if store else settings.timeline_tenant or settings.default_tenant
    tenant = running.opened.tenants_of_others.get(store, tenant)
    # A source may be there for some tenants alone.
    tenant = next((one for one in (tenant, *settings.tenants) if answers_for(source, one)), tenant)
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
            if name == "rdf" and not store and graph is not None:
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
        by_name = running.opened.sources.by_name
        names = _required_sources(running)
        known: list[SourceName] = [name for name in names if name in by_name]
        bus, *found = await asyncio.gather(
            _bus(running, redis), *(_answers(running, name, by_name[name], within_s=_CHECK_S) for name in known)
        )
        self._checked_at = time.monotonic()
        answers = dict(zip(known, found, strict=True))
        return {"model": _model(running), "bus": bus, **{one: answers.get(one, "not configured") for one in names}}


def _model(running: ObservedService) -> str | None:
    try:
        return None if running.opened.embedder.dimension > 0 else "the model has no dimension"
    except ModelError as error:
        return str(error)


async def _bus(running: ObservedService, redis: Redis) -> str | None:
    stream = running.settings.query_stream
    try:
        groups = await in_time(redis.xinfo_groups(stream), _CHECK_S)
    except TimeoutError:
        return f"the bus did not answer within {_CHECK_S:g} s"
    except BUS_AWAY as error:
        return f"the bus is away ({type(error).__name__})"
    except RedisError as error:
        is_gone = group_is_gone(error) or "no such key" in str(error).lower()
        return f"the stream {stream} is not there" if is_gone else f"the bus: {error}"
    if not any(group["name"] in (RECALL_GROUP, RECALL_GROUP.encode()) for group in groups):
        return f"the group {RECALL_GROUP} of {stream} is not there"
    return None if running.is_taking else "no queries are taken: starting or stopping"
