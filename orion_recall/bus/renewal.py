"""Streams with an id far ahead of the bus's clock are made anew, so that entries can be added again.

Whoever may add entries may choose their ids. After the last id that there is the server takes no further entry,
also when that one has long been answered: without this, one entry would end an intake for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY
from orion_recall.bus.group_reader import decoded
from orion_recall.settings import Settings

log = logging.getLogger("orion_recall.bus")

AHEAD_MS = 3_600_000
"""So far an id may be ahead: clocks of a server and its replica differ."""
_EVERY_S = 1.0
_SCRIPT = files("orion_recall.bus").joinpath("renewal.lua").read_text("utf-8")


class StreamRenewal:
    """Looks after the streams of these settings: `run()` until cancelled. `counts` has the streams made anew."""

    def __init__(self, redis: Redis, settings: Settings) -> None:
        intakes = (*settings.intake_streams.values(), settings.decision_stream)
        self._streams = (*intakes, *(f"{one}:dead" for one in intakes))
        self._streams += (settings.reply_stream, settings.tombstone_stream)
        self._script = redis.register_script(_SCRIPT)
        self._refused = ""
        self.counts = Counter[str]()

    async def run(self) -> None:
        while True:
            try:
                await self.renew()
            except BUS_AWAY as error:
                log.debug("looking at the ids of streams: %s", error)
            except RedisError as error:
                if str(error) != self._refused:
                    self._refused = str(error)
                    log.error("streams cannot be looked at, or made anew: the bus refused: %s", error)  # noqa: TRY400
            await asyncio.sleep(_EVERY_S)

    async def renew(self) -> None:
        """Look once. RedisError: the bus is away, or refuses."""
        found: list[Any] = await self._script(keys=self._streams, args=[AHEAD_MS])
        for stream, entries in zip(found[::2], found[1::2], strict=True):
            name = decoded(stream)
            self.counts[name] += 1
            log.error(
                "%s was made anew, with its %d entries: somebody had sent one with an id far ahead of the clock, "
                "after which none could be added. Find out who may add entries to it (access list, passwords)",
                *(name, entries),
            )
