"""Requests (check, repair, rewrite, take, compact, recall) from a command to a copy's worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, LiteralString, cast

from orion_recall.errors import RecordError, SourceError
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.values import JsonValue

Task = Literal["check", "repair", "rewrite", "take", "compact", "recall"]

# A worker polls every second, and gives a heartbeat every five while it works on a request.
HEARTBEAT_EVERY_S = 5.0
_SILENT_S = 20.0
_POLL_S = 0.2

_ASK: LiteralString = "INSERT INTO copy_requests (copy, kind, task, given) VALUES ($1, $2, $3, $4) RETURNING id"
# Requests whose command was killed stay, and the answer to a recall repeats the words of its decision. Who waits
# for an answer takes it within a second.
_TIDY: LiteralString = """
DELETE FROM copy_requests WHERE ended_at < now() - interval '1 minute' OR asked_at < now() - interval '1 day'
"""
_STATE: LiteralString = """
SELECT done, total, ended_at IS NOT NULL AS ended, result, error,
    extract(epoch FROM clock_timestamp() - coalesce(seen_at, asked_at))::float8 AS silent_s
FROM copy_requests WHERE id = $1
"""
_WITHDRAW: LiteralString = "DELETE FROM copy_requests WHERE id = $1"
# One that a worker began and left is claimed by the next.
_CLAIM: LiteralString = """
UPDATE copy_requests SET seen_at = now() WHERE id = (
    SELECT id FROM copy_requests
    WHERE copy = $1 AND kind = $2 AND ended_at IS NULL AND asked_at > now() - interval '10 minutes'
      AND (seen_at IS NULL OR seen_at < now() - make_interval(secs => $3))
    ORDER BY id LIMIT 1
    FOR UPDATE SKIP LOCKED
) RETURNING id, task, given
"""
_HEARTBEAT: LiteralString = "UPDATE copy_requests SET seen_at = now(), done = $2, total = $3 WHERE id = $1"
_END: LiteralString = "UPDATE copy_requests SET ended_at = now(), result = $2, error = $3 WHERE id = $1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest:
    """One request, claimed by the worker that answers it. `given` is what its task is about, if anything."""

    id: int
    task: Task
    given: Mapping[str, JsonValue] | None = None


class CopyRequests:
    """The table of requests. RecordError while Postgres is away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def claim(self, copy: str, kind: str) -> CopyRequest | None:
        """Claims the next request for a copy. Answers that nobody has taken for a minute are deleted."""
        async with borrow(self._pool, "looking for requests") as connection:
            await connection.execute(_TIDY)
            row = await connection.fetchrow(_CLAIM, copy, kind, _SILENT_S)
        if row is None:
            return None
        return CopyRequest(id=row["id"], task=cast("Task", row["task"]), given=row["given"])

    async def heartbeat(self, request: CopyRequest, done: int, total: int) -> None:
        async with borrow(self._pool, "working on a request") as connection:
            await connection.execute(_HEARTBEAT, request.id, done, total)

    async def end(
        self, request: CopyRequest, *, result: Mapping[str, JsonValue] | None = None, error: str | None = None
    ) -> None:
        async with borrow(self._pool, "answering a request") as connection:
            await connection.execute(_END, request.id, result, error)

    async def answered(
        self,
        copy: str,
        kind: str,
        task: Task,
        *,
        given: Mapping[str, JsonValue] | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Mapping[str, JsonValue]:
        """Asks, and waits for the answer; `progress` gets how many are done, and of how many.

        SourceError with the reason when it fails, or when no worker gave a heartbeat for twenty seconds.
        """
        async with borrow(self._pool, "asking a worker") as connection:
            await connection.execute(_TIDY)
            request = await connection.fetchval(_ASK, copy, kind, task, given)
        try:
            while True:
                async with borrow(self._pool, "waiting for a worker") as connection:
                    row = await connection.fetchrow(_STATE, request)
                if row is None:
                    raise SourceError(
                        f"the request to the {kind} of {copy} was deleted before its answer: try again"
                    )
                if row["ended"]:
                    if row["error"] is not None:
                        raise SourceError(f"the {kind} of {copy}: {row['error']}")
                    return row["result"]
                if row["silent_s"] > _SILENT_S:
                    raise SourceError(
                        f"no worker answers for the {kind} of {copy}: it may have ended, or cannot use it "
                        "(`orion-recall status` says more)"
                    )
                progress(row["done"], row["total"])
                await asyncio.sleep(_POLL_S)
        finally:
            with contextlib.suppress(RecordError):
                async with borrow(self._pool, "taking a request away") as connection:
                    await connection.execute(_WITHDRAW, request)
