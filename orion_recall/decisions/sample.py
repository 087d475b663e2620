"""A random sample of decisions with their questions and bundles, for people to judge."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Pool, borrow, sqlstate

_NO_RIGHT = "42501"

# The order of a hash is random and, for one seed, the same. Text that was cut or hashed cannot be judged.
_SAMPLE: LiteralString = """
SELECT d.id, d.tenant, d.profile, d.query, d.created_at, d.scope, d.session_id, d.user_id, d.intent, d.outcome,
       d.understood ->> 'class' AS class, d.selected_ids,
       ARRAY(SELECT concat_ws(': ', m.speaker, m.text)
             FROM jsonb_array_elements_text(d.selected_ids) WITH ORDINALITY AS one (id, place)
             LEFT JOIN memories m ON m.tenant = d.tenant AND m.id = one.id AND m.live
             ORDER BY one.place) AS texts
FROM recall_decisions AS d
WHERE shadow_of IS NULL AND outcome IN ('ok', 'empty', 'degraded') AND query <> '' AND query NOT LIKE 'blake2b:%'
  AND length(query) >= query_chars
  AND ($2::text IS NULL OR profile = $2) AND ($3::timestamptz IS NULL OR created_at >= $3)
  AND ($4::text IS NULL OR tenant = $4)
ORDER BY md5($5 || id::text) LIMIT $1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMemory:
    """A memory of a bundle; `text` is None where it is deleted, or of an external store."""

    id: str
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledDecision:
    """One decision with its question and bundle, best first."""

    decision_id: str
    tenant: str
    profile: str
    query: str
    asked_at: datetime
    outcome: str
    scope: str | None
    session_id: str | None
    user_id: str | None
    intent: str | None
    query_class: str | None
    shown: tuple[ShownMemory, ...]


async def sample_decisions(
    pool: Pool,
    count: int,
    *,
    profile: str | None = None,
    since: datetime | None = None,
    tenant: str | None = None,
    seed: int = 0,
) -> list[SampledDecision]:
    """Up to `count` decisions that meet every condition, in random order; the same ones for the same seed.

    RecordError when Postgres is away, or this login may not read memories.
    """
    try:
        async with borrow(pool, "sampling decisions") as connection:
            rows = await connection.fetch(_SAMPLE, count, profile, since, tenant, str(seed))
    except RecordError as error:
        if error.__cause__ is None or sqlstate(error.__cause__) != _NO_RIGHT:
            raise
        raise RecordError(
            f"{error}: decisions and memories are read by a login with the rights of orion_worker or of the "
            "schema's owner; orion_analyst reads decisions alone. Let ORION_POSTGRES_DSN name such a login"
        ) from error
    return [
        SampledDecision(
            decision_id=str(row["id"]),
            tenant=row["tenant"],
            profile=row["profile"],
            query=row["query"],
            asked_at=row["created_at"],
            outcome=row["outcome"],
            scope=row["scope"],
            session_id=row["session_id"],
            user_id=row["user_id"],
            intent=row["intent"],
            query_class=row["class"],
            shown=tuple(
                ShownMemory(id=name, text=text or None)
                for name, text in zip(row["selected_ids"], row["texts"], strict=True)
            ),
        )
        for row in rows
    ]
