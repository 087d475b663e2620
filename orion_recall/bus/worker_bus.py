"""The bus connections of one worker, with the readers and committers of its streams."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from redis.asyncio import Redis

from orion_recall.bus.commit import Committer
from orion_recall.bus.connect import BUS_AWAY, connect, without_secrets
from orion_recall.bus.group_reader import BusClock, GroupReader
from orion_recall.bus.signing.callers import Callers
from orion_recall.bus.signing.keys import KeyRing
from orion_recall.errors import SettingsError
from orion_recall.settings import RECALL_GROUP, Settings
from orion_recall.tasks import Backoff

log = logging.getLogger("orion_recall.service")
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0


class WorkerBus:
    """Connections of one worker: `redis`, and one each to read queries, changes of memories, and decisions."""

    def __init__(
        self, settings: Settings, redis: Redis, *, queries: Redis, changes: Redis, decisions: Redis
    ) -> None:
        self.redis, self.queries, self.changes, self.decisions = redis, queries, changes, decisions
        self.clock = BusClock()
        self._settings = settings
        self._ring = KeyRing(settings.keys_file) if settings.keys_file is not None else None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncGenerator[WorkerBus]:
        """The connections, which are made when first used; SettingsError when no bus is configured."""
        url = settings.bus_url
        if url is None:
            raise SettingsError("ORION_REDIS_URL is not set: a worker needs a bus (or use `orion-recall up`)")
        async with (
            connect(url) as redis,
            connect(url, blocking=True) as queries,
            connect(url, blocking=True) as changes,
            connect(url, blocking=True) as decisions,
        ):
            yield cls(settings, redis, queries=queries, changes=changes, decisions=decisions)

    def reader(self, stream: str) -> GroupReader:
        """A reader of the stream, as this worker's consumer."""
        blocking = self.queries if stream == self._settings.query_stream else self.changes
        own = {"group": RECALL_GROUP, "consumer": self._settings.instance}
        return GroupReader(self.redis, blocking, stream=stream, **own, clock=self.clock)

    def committer(self, stream: str) -> Committer:
        return Committer(self.redis, self._settings, stream)

    def callers(self, kind: str) -> Callers | None:
        """Who may send messages of the kind; None where they need not be signed."""
        if self._ring is None:
            return None
        return Callers(self._ring, self.redis, self._settings, kind, now=self.clock.now)

    async def create_groups(self, stop: asyncio.Event) -> None:
        """Create the group of every intake stream; waits while the bus is away, until `stop` is set."""
        backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
        while not stop.is_set():
            try:
                for stream in self._settings.intake_streams.values():
                    await self.reader(stream).create_group()
                return
            except BUS_AWAY as error:
                if backoff.is_first:
                    url = without_secrets(self._settings.bus_url or "")
                    log.warning("waiting for the bus at %s: %s", url, error)
                await backoff.wait(stop)
