"""How long rows are kept, in days, for all tenants or for one; old ones are deleted in bounded batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import LiteralString

from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Pool, Row, borrow, is_connection_lost

# Of a statement that deletes old rows: the tenant ($3; null: every one but those in $4).
OF_TENANT: LiteralString = """(($3::text IS NULL AND NOT coalesce(tenant, '') = ANY($4::text[])) OR tenant = $3)"""
BATCH_ROWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The days of one tenant, or of all others (`tenant` None) than `but`: the arguments of `OF_TENANT`."""

    days: int
    tenant: str | None = None
    but: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """`days` of all tenants that are not in `by_tenant`; None: kept."""

    days: int | None
    by_tenant: Mapping[str, int | None] = field(default_factory=dict[str, int | None])

    @property
    def each(self) -> list[Period]:
        others = [] if self.days is None else [Period(days=self.days, but=tuple(self.by_tenant))]
        return [*others, *(Period(days=days, tenant=name) for name, days in self.by_tenant.items() if days)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRows:
    """Rows that are deleted when they are old: the name of their lock, and the statement that deletes a batch.

    It takes the time before which they are old, the most at a time, and the arguments of `OF_TENANT`; it gives one
    row with their count and whatever else is told of them.
    """

    what: str
    lock: LiteralString
    delete: LiteralString
    log: logging.Logger


async def deleted_batches(
    pool: Pool, rows: OldRows, before: datetime, *, batch_rows: int, of: Period | None = None
) -> AsyncGenerator[Row]:
    """Every batch that was deleted, until none is left; with `of` also until somebody else deletes.

    `of` tells whose they are, else they are of all. One at a time deletes: locks on rows would need the right to
    update them, which a worker does not have.
    """
    lock = f"SELECT {'take' if of is None else 'try'}_write_lock($1)"
    tenant, but = (None, ()) if of is None else (of.tenant, of.but)
    while True:
        async with borrow(pool, f"deleting old {rows.what}") as connection, connection.transaction():
            # Held to the end of the transaction, which also works behind a transaction pooler.
            if await connection.fetchval(lock, rows.lock) is False:
                return
            (batch,) = await connection.fetch(rows.delete, before, batch_rows, tenant, but)
        yield batch
        if batch["count"] < batch_rows:
            return


class Retention:
    """Deletes rows that are older than their tenants' days: `run()` it until cancelled.

    Every worker may run one: while one deletes a batch, the others skip theirs.
    """

    every_s, batch_rows, pause_s = 600.0, BATCH_ROWS, 0.2

    def __init__(self, pool: Pool, periods: Periods, rows: OldRows) -> None:
        self.deleted = 0
        self._pool, self._periods, self._rows = pool, periods, rows

    async def run(self) -> None:
        """Delete every ten minutes, with pauses between batches, so that writes are not held up."""
        while True:
            try:
                for period in self._periods.each:
                    await self._round(period)
            except RecordError as error:
                if not is_connection_lost(error):
                    self._rows.log.error("old %s are not deleted: %s", self._rows.what, error)  # noqa: TRY400 (it says it all)
            await asyncio.sleep(self.every_s)

    async def _round(self, period: Period) -> None:
        async with borrow(self._pool, f"deleting old {self._rows.what}") as connection:
            # The clock of the database: with a worker's, which may be days ahead, too much would go.
            before = await connection.fetchval("SELECT now()") - timedelta(days=period.days)
        deleted, newest = 0, None
        try:
            async for batch in deleted_batches(
                self._pool, self._rows, before, batch_rows=self.batch_rows, of=period
            ):
                deleted, newest = deleted + batch["count"], batch.get("newest") or newest
                await asyncio.sleep(self.pause_s)
        finally:
            self.deleted += deleted
            if deleted:
                until = f", up to {newest}" if newest is not None else ""
                what = self._rows.what
                self._rows.log.info("%d %s older than %d days are deleted%s", deleted, what, period.days, until)
