"""Stops the embedded servers from taking more before their disk is full, and lets them go on once there is room."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.engine import Engine
from orion_recall.postgres.errors import POSTGRES_ERRORS

logger = logging.getLogger("orion_recall.engines")

_EVERY_S = 1.0


class HeldServer(Protocol):
    """A server that can be told to take no more."""

    @property
    def space(self) -> DiskSpace: ...

    async def hold(self, *, held: bool) -> None:
        """Take no more (or take it again); what is there can be read. OSError when the server is away."""
        ...


class DiskGuard:
    """Watches the disks of some servers: `run()` until cancelled."""

    def __init__(self, servers: Iterable[tuple[Engine, HeldServer]]) -> None:
        self._servers = tuple(servers)
        # By name: the process that was told, and what. A server that was started again is told again.
        self._told: dict[str, tuple[int | None, bool]] = {}

    async def run(self) -> None:
        """Looks every second."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Tells each server whose disk has become short, or has room again."""
        for engine, server in self._servers:
            if engine.pid is not None:
                try:
                    await self._look_at(engine, server)
                except POSTGRES_ERRORS as error:  # among them OSError; the next look tries again
                    logger.warning("%s cannot be told about its disk: %s", engine.name, error)

    async def _look_at(self, engine: Engine, server: HeldServer) -> None:
        space = server.space
        pid, was_held = self._told.get(engine.name, (None, False))
        is_new = pid != engine.pid
        if space.least_bytes == 0:
            if is_new:  # it may have been told by a start that had a limit
                await server.hold(held=False)
                self._told[engine.name] = (engine.pid, False)
            return
        # A quarter more than the least is asked for before it goes on: else it would change with every message.
        margin = space.least_bytes // 4 if was_held else 0
        why = await asyncio.to_thread(space.shortage, margin)
        if not is_new and (why is not None) == was_held:
            return
        await server.hold(held=why is not None)
        self._told[engine.name] = (engine.pid, why is not None)
        if why is not None:
            logger.error("%s: %s: %s", engine.name, space.effect, why)
        elif was_held:
            logger.warning("%s: there is room again on its disk, and it takes writes", engine.name)
