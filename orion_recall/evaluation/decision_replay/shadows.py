"""Shadow profiles beside those that answered, by the measures of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString

from orion_recall.evaluation.decision_replay.logged import Answer, Judged
from orion_recall.evaluation.decision_replay.summary import AnswerPair, Compared, compared
from orion_recall.postgres.pool import Pool, Row, borrow

MOST_QUERIES = 10_000

_PAIRS: LiteralString = """
SELECT first.profile, shadow.profile AS shadow_profile,
    first.selected_ids, first.outcome, first.tokens, first.confidence, first.latency_ms,
    shadow.selected_ids AS shadow_selected_ids, shadow.outcome AS shadow_outcome, shadow.tokens AS shadow_tokens,
    shadow.confidence AS shadow_confidence, shadow.latency_ms AS shadow_latency_ms
FROM recall_decisions AS shadow JOIN recall_decisions AS first ON first.id = shadow.shadow_of
WHERE shadow.shadow_of IS NOT NULL AND ($1::text IS NULL OR first.profile = $1)
  AND ($2::timestamptz IS NULL OR first.created_at >= $2)
ORDER BY shadow.created_at DESC, shadow.id LIMIT $3
"""


async def measured_shadows(
    pool: Pool, *, profile: str | None = None, since: datetime | None = None, k: int = 5
) -> Mapping[tuple[str, str], Compared]:
    """The comparison of each profile with each of its shadow profiles, by both names, of the newest 10,000 queries.

    RecordError when Postgres is away.
    """
    async with borrow(pool, "comparing shadow profiles") as connection:
        rows = await connection.fetch(_PAIRS, profile, since, MOST_QUERIES)
    pairs: dict[tuple[str, str], list[AnswerPair]] = {}
    for row in rows:
        pair = AnswerPair.of(_answer(row, ""), _answer(row, "shadow_"), k, Judged())
        pairs.setdefault((row["profile"], row["shadow_profile"]), []).append(pair)
    return {names: compared(found) for names, found in sorted(pairs.items())}


def _answer(row: Row, prefix: str) -> Answer:
    return Answer(
        ids=tuple(row[f"{prefix}selected_ids"]),
        outcome=row[f"{prefix}outcome"],
        tokens=row[f"{prefix}tokens"],
        confidence=row[f"{prefix}confidence"],
        ms=row[f"{prefix}latency_ms"],
    )
