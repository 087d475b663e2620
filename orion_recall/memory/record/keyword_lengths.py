"""Mean lengths of documents in the record: what every copy of the index makes its keyword weights with.

All tenants are measured together, and nothing else changes a mean: a memory that is stored later gets the weights
that it would have got before, in every copy. An index keeps the time of its measurement, and is refused under
another one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString

from orion_recall.errors import RecordError
from orion_recall.index.text_forms import LengthsOfTenants
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Pool, borrow, close_connection, open_connection, translate
from orion_recall.text.keyword_weights import KeywordWeights, MeanLengths

log = logging.getLogger("orion_recall.memory")

KEPT_FILE = "keyword-lengths.json"
"""In the data folder: the lengths as last read, for a start while Postgres is away."""
_AT_ONCE = 200
_TIMEOUT_MS = 2_000
_READ: LiteralString = "SELECT tenant, text_terms, context_terms, measured_at FROM keyword_lengths"
_WRITE: LiteralString = """
INSERT INTO keyword_lengths (tenant, text_terms, context_terms, measured_at) VALUES ($1, $2, $3, $4)
"""


async def measure_lengths(
    record: Record, pool: Pool, *, again: bool = False, advanced: Callable[[int, int], None] = lambda at, head: None
) -> bool:
    """Measures the tenants' mean lengths and writes them, if they never were or with `again`; whether it did."""
    if not again:
        async with borrow(pool, "reading keyword lengths") as connection:
            if await connection.fetchval("SELECT EXISTS (SELECT FROM keyword_lengths)"):
                return False
    lengths, position, head = LengthsOfTenants(), 0, await record.head()
    while changes := await record.changes(position, _AT_ONCE):
        lengths.add(changes)
        position = changes[-1].position
        advanced(position, head)
    now = datetime.now(UTC)
    rows = [(tenant, mean.text, mean.context, now) for tenant, mean in lengths.means().items()]
    async with borrow(pool, "writing keyword lengths") as connection, connection.transaction():
        await connection.execute("DELETE FROM keyword_lengths")
        await connection.executemany(_WRITE, rows)
    return True


async def measured_weights(weights: KeywordWeights, dsn: str | None, data_dir: Path) -> KeywordWeights:
    """The weights with the record's lengths, where each tenant has its own mean; as they are elsewhere."""
    if weights.length is not None or dsn is None:
        return weights
    try:
        values = await _read(dsn)
    except (RecordError, TimeoutError) as error:
        log.warning("the mean lengths of documents are those last seen: %s", error)
        values = _kept(data_dir)
    else:
        with suppress(OSError):
            data_dir.mkdir(parents=True, exist_ok=True)
            (data_dir / KEPT_FILE).write_text(json.dumps(values), "utf-8")
    of_tenants = {tenant: MeanLengths(*means) for tenant, means in values.get("tenants", {}).items()}
    return replace(weights, of_tenants=of_tenants, measured=str(values.get("measured", "")))


async def _read(dsn: str) -> Mapping[str, Any]:
    connection = await open_connection(dsn, name="lengths", statement_timeout_ms=_TIMEOUT_MS)
    try:
        with translate("reading keyword lengths"):
            rows = await connection.fetch(_READ)
    finally:
        await close_connection(connection)
    measured = max((row["measured_at"] for row in rows), default=None)
    return {
        "measured": "" if measured is None else measured.isoformat(timespec="milliseconds"),
        "tenants": {row["tenant"]: (row["text_terms"], row["context_terms"]) for row in rows},
    }


def _kept(data_dir: Path) -> Mapping[str, Any]:
    try:
        return json.loads((data_dir / KEPT_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
