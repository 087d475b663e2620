"""Changes of memories straight in the record, in transactions of their own, as handlers of messages make them."""

from __future__ import annotations

from collections.abc import Sequence

from orion_recall.contracts import MemoryVerdictV1
from orion_recall.memory.record import sql
from orion_recall.memory.record.compose import Patch
from orion_recall.memory.record.record import HistoryStep, delete, history, update
from orion_recall.postgres.pool import Pool, borrow


class MemoryChanges:
    """Changes memories, and reads their history. `extractor` is the background extraction of changed ones."""

    def __init__(self, pool: Pool, *, extractor: str = "light") -> None:
        self._pool, self._extractor = pool, extractor

    async def update(
        self, tenant: str, patches: Sequence[Patch], *, actor: str | None = None
    ) -> list[MemoryVerdictV1]:
        async with borrow(self._pool, "changing memories") as connection, connection.transaction():
            await connection.execute(sql.LOCK_OUTBOX)
            return (await update(connection, tenant, patches, actor=actor, extractor=self._extractor))[0]

    async def delete(
        self,
        tenant: str,
        ids: Sequence[str],
        *,
        actor: str | None = None,
        why: str | None = None,
        erase: bool = False,
    ) -> list[MemoryVerdictV1]:
        async with borrow(self._pool, "deleting memories") as connection, connection.transaction():
            await connection.execute(sql.LOCK_OUTBOX)
            return (await delete(connection, tenant, ids, actor=actor, why=why, erase=erase))[0]

    async def history(self, tenant: str, memory_id: str) -> list[HistoryStep]:
        return await history(self._pool, tenant, memory_id)
