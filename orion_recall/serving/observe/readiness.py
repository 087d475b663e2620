"""Whether a worker can answer now, and if not, why: the model is warm, the group is there, the sources answer.

It is looked at when somebody asks, at most once a second, and a look is over within two.
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
from orion_recall.serving.observe.look import answers, required_sources
from orion_recall.serving.observe.readings import Running
from orion_recall.settings import RECALL_GROUP
from orion_recall.tasks import cancel
from orion_recall.values import SourceName

_FRESH_S = 1.0
_CHECK_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What stands in the way, by what was looked at; None where nothing does."""

    checks: Mapping[str, str | None]

    @property
    def ready(self) -> bool:
        """Whether nothing stands in the way."""
        return not any(self.checks.values())

    def as_json(self) -> dict[str, object]:
        """For the wire."""
        checks = {
            name: {"ok": True} if why is None else {"ok": False, "reason": why} for name, why in self.checks.items()
        }
        return {"ready": self.ready, "checks": checks}


class Readiness:
    """Looks at a service, once there is one to look at."""

    def __init__(self) -> None:
        self._looks: tuple[Running, Redis] | None = None
        self._looking: asyncio.Task[Found] | None = None
        self._looked_at = 0.0

    def attach(self, running: Running, redis: Redis) -> None:
        """From now on there is."""
        self._looks = (running, redis)

    async def look(self) -> Found:
        """What stands in the way now, or did within the last second."""
        if self._looks is None:
            return Found(checks={"model": "the model and the stores are being opened"})
        over = self._looking is None or self._looking.done()
        if self._looking is None or (over and time.monotonic() - self._looked_at > _FRESH_S):
            self._looking = asyncio.create_task(self._look(*self._looks), name="look whether ready")
        return await asyncio.shield(self._looking)

    async def close(self) -> None:
        """End a look that is under way."""
        if self._looking is not None:
            await cancel(self._looking)

    async def _look(self, running: Running, redis: Redis) -> Found:
        names = required_sources(running)
        bus, *sources = await asyncio.gather(_bus(running, redis), *(_source(name, running) for name in names))
        self._looked_at = time.monotonic()
        return Found(checks={"model": _model(running), "bus": bus, **dict(zip(names, sources, strict=True))})


def _model(running: Running) -> str | None:
    try:
        return None if running.opened.embedder.dimension > 0 else "the model has no dimension"
    except ModelError as error:
        return str(error)


async def _bus(running: Running, redis: Redis) -> str | None:
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


async def _source(name: SourceName, running: Running) -> str | None:
    source = running.opened.sources.by_name.get(name)
    if source is None:
        return "not configured"
    # A table that belongs to one tenant refuses every other one.
    tenant = running.settings.timeline_tenant or running.settings.default_tenant
    graph = running.opened.graph if name == "rdf" else None
    return await answers(source, tenant, graph=graph, within_s=_CHECK_S)
