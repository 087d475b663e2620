"""Readiness: whether a worker can answer now, and if not, why. It checks model, group and required sources.

A check is made on request, at most once a second, and is over within two.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY, group_is_gone
from orion_recall.errors import ModelError
from orion_recall.serving.observe.readings import ObservedService
from orion_recall.serving.observe.source_checks import answers, required_sources
from orion_recall.settings import RECALL_GROUP
from orion_recall.tasks import cancel
from orion_recall.values import SourceName

_FRESH_S = 1.0
_CHECK_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessReport:
    """The reason why each checked part is not ready; None where it is."""

    checks: Mapping[str, str | None]

    @property
    def ready(self) -> bool:
        """Whether all parts are ready."""
        return not any(self.checks.values())

    def as_json(self) -> dict[str, object]:
        """For the wire."""
        checks = {
            name: {"ok": True} if why is None else {"ok": False, "reason": why} for name, why in self.checks.items()
        }
        return {"ready": self.ready, "checks": checks}


class Readiness:
    """Checks a service, once it is attached."""

    def __init__(self) -> None:
        self._attached: tuple[ObservedService, Redis] | None = None
        self._checking: asyncio.Task[ReadinessReport] | None = None
        self._checked_at = 0.0

    def attach(self, running: ObservedService, redis: Redis) -> None:
        """Check this service from now on. What was found before is no report of it."""
        self._attached = (running, redis)
        if self._checking is not None and self._checking.done():
            self._checking = None

    async def check(self) -> ReadinessReport:
        """The report of now, or of less than a second ago."""
        if self._attached is None:
            return ReadinessReport(checks={"model": "the model and the stores are being opened"})
        over = self._checking is None or self._checking.done()
        if self._checking is None or (over and time.monotonic() - self._checked_at > _FRESH_S):
            self._checking = asyncio.create_task(self._check(*self._attached), name="readiness")
        return await asyncio.shield(self._checking)

    async def close(self) -> None:
        """End a check that is running."""
        if self._checking is not None:
            await cancel(self._checking)

    async def _check(self, running: ObservedService, redis: Redis) -> ReadinessReport:
        names = required_sources(running)
        bus, *sources = await asyncio.gather(_bus(running, redis), *(_source(name, running) for name in names))
        self._checked_at = time.monotonic()
        checks = {"model": _model(running), "bus": bus, **dict(zip(names, sources, strict=True))}
        return ReadinessReport(checks=checks)


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
    # A table that belongs to one tenant refuses every other one.
    tenant = running.settings.timeline_tenant or running.settings.default_tenant
    graph = running.opened.graph if name == "rdf" else None
    return await answers(source, tenant, graph=graph, within_s=_CHECK_S)
