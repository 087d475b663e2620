"""Disk watch: the free space on the disks of a worker's folders, for status, metrics and the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orion_recall.engines.disk_space import DiskSpace

log = logging.getLogger("orion_recall.service")

_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskState:
    """The disk of one folder, as last seen. `why` is set while it is short, with what follows from that."""

    name: str
    folder: str
    free_bytes: int
    least_bytes: int
    why: str | None = None


class DiskWatch:
    """Looks at the disks of some folders: `run()` until cancelled; `changed` hears of one that has become short."""

    def __init__(self, spaces: Iterable[DiskSpace], changed: Callable[[], None] = lambda: None) -> None:
        self._spaces = tuple(one for one in spaces if one.least_bytes)
        self._changed = changed
        self.states: Sequence[DiskState] = ()

    async def run(self) -> None:
        """Look every two seconds, in a thread: a network disk may hang."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Look once."""
        before = {one.name for one in self.states if one.why is not None}
        self.states = await asyncio.to_thread(lambda: [_seen(space) for space in self._spaces])
        short = {one.name: one for one in self.states if one.why is not None}
        for name, one in short.items():
            if name not in before:
                log.error("disk of %s: %s", name, one.why)
        for name in before - short.keys():
            log.warning("disk of %s: there is room again", name)
        if before != short.keys():
            self._changed()


def _seen(space: DiskSpace) -> DiskState:
    try:
        free, shortage = space.free_bytes, space.shortage()
    except OSError as error:  # the disk is gone: whatever uses the folder says so itself
        free, shortage = 0, f"{space.folder} cannot be looked at: {error.strerror}"
    return DiskState(
        name=space.name,
        folder=str(space.folder),
        free_bytes=free,
        least_bytes=space.least_bytes,
        why=shortage and f"{space.effect}: {shortage}",
    )
