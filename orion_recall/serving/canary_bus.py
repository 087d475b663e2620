"""Canary trials on the bus: the step of each, and why it was taken back, as a hash that all workers read."""

from __future__ import annotations

import logging
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY
from orion_recall.errors import BusUnavailable
from orion_recall.serving.canary_trial import SharedTrial
from orion_recall.settings import Settings
from orion_recall.telemetry import LOG_WORKER

log = logging.getLogger(LOG_WORKER)

# A trial that nobody looks at any more is forgotten; while workers run, each write begins it anew.
_LIFE_S = 400 * 24 * 3600


class TrialsOnBus:
    """Reads and writes shared trials. While the bus is away nothing is written."""

    def __init__(self, redis: Redis, settings: Settings) -> None:
        self._redis, self._settings = redis, settings

    async def read(self, trial_id: str) -> SharedTrial | None:
        """The trial; None when nobody has written it. BusUnavailable when it cannot be read."""
        try:
            raw = await cast("Any", self._redis).hgetall(self._settings.canary_key(trial_id))
            if not raw:
                return None
            return SharedTrial(
                step=int(raw[b"step"]),
                began=float(raw[b"began"]),
                taken_back=raw.get(b"taken_back", b"").decode("utf-8", "replace") or None,
            )
        except (*BUS_AWAY, RedisError, KeyError, ValueError) as error:
            raise BusUnavailable(f"the canary trial {trial_id} cannot be read: {error}") from error

    async def write(self, trial_id: str, shared: SharedTrial) -> None:
        """Write the trial as it is now."""
        key = self._settings.canary_key(trial_id)
        fields: dict[Any, Any] = {"step": shared.step, "began": shared.began}
        if shared.taken_back:
            fields["taken_back"] = shared.taken_back
        try:
            async with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.hset(key, mapping=fields)
                pipeline.expire(key, _LIFE_S)
                await pipeline.execute()
        except (*BUS_AWAY, RedisError) as error:
            log.debug("the canary trial %s is not written: %s", trial_id, error)
