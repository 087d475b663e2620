"""Reads the decisions that are to be repeated, with the feedback on them, and sets apart those that cannot be."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import LiteralString
from uuid import UUID

from orion_recall.contracts import RecallDecisionV1, RecallQueryV1
from orion_recall.decisions.comparison import NOT_JUDGED, Answer
from orion_recall.decisions.feedback import Judged, judgements
from orion_recall.decisions.log import DecisionLog
from orion_recall.errors import InvalidMessage
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.recall.report.asked import clock_of, query_of, why_not_again
from orion_recall.values import Outcome

# The service answered these completely; time decided about the others, and nobody can repeat that.
_WHOLE: frozenset[Outcome] = frozenset(("ok", "empty"))
_PAGE = 500
_OF_ANOTHER_VERSION = "this version cannot read what was asked"

OF_NO_RECORD = "the positions that its copies were at are none of this record"
_HEAD: LiteralString = "SELECT coalesce(max(position), 0) FROM outbox"
_WANTED: LiteralString = """
SELECT id FROM recall_decisions
WHERE shadow_of IS NULL
  AND ($1::timestamptz IS NULL OR created_at >= $1) AND ($2::timestamptz IS NULL OR created_at < $2)
  AND ($3::text IS NULL OR tenant = $3) AND ($4::text IS NULL OR understood ->> 'class' = $4)
  AND ($5::text IS NULL OR profile = $5) AND ($6::text[] IS NULL OR id::text = ANY($6) OR corr_id = ANY($6))
ORDER BY created_at, id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which decisions are repeated; None means all. `ids` are those of decisions, or correlation ids.

    Of more than `sample` that many are drawn, by `seed`.
    """

    since: datetime | None = None
    until: datetime | None = None
    tenant: str | None = None
    query_class: str | None = None
    profile: str | None = None
    ids: tuple[str, ...] | None = None
    sample: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedQuery:
    """A query as the log has it, and how it was answered.

    `began` is when it was served, `clock` what it took for now, `read_at` what each copy had applied.
    """

    id: str
    tenant: str
    profile: str
    profile_hash: str
    query_class: str
    query: RecallQueryV1
    clock: float
    began: datetime
    read_at: Mapping[str, int]
    build: Mapping[str, str]
    answer: Answer
    judged: Judged = NOT_JUDGED


@dataclass(slots=True, kw_only=True)
class Chosen:
    """What the choice gave: `queries` can be repeated, in the order in which they were asked.

    `matching` is the number before the sample. `apart` counts those that time decided about, by outcome, and
    `not_replayable` those that the log does not hold whole, by reason.
    """

    matching: int = 0
    queries: list[LoggedQuery] = field(default_factory=list[LoggedQuery])
    apart: Counter[str] = field(default_factory=Counter[str])
    not_replayable: Counter[str] = field(default_factory=Counter[str])


async def read_chosen(pool: Pool, choice: Choice) -> Chosen:
    """The decisions of the choice. RecordError: Postgres is away, or this login may not read."""
    chosen, log = Chosen(), DecisionLog(pool)
    async with borrow(pool, "reading decisions") as connection:
        conditions = (choice.since, choice.until, choice.tenant, choice.query_class, choice.profile)
        ids = None if choice.ids is None else list(choice.ids)
        found: list[UUID] = [row["id"] for row in await connection.fetch(_WANTED, *conditions, ids)]
    chosen.matching, names = len(found), _sampled(found, choice)
    for start in range(0, len(names), _PAGE):
        page = names[start : start + _PAGE]
        judged, decisions = await judgements(pool, page), await log.of_ids(page)
        if len(decisions) < len(page):
            chosen.not_replayable[_OF_ANOTHER_VERSION] += len(page) - len(decisions)
        for decision in decisions:
            _add(decision, judged.get(decision.id, NOT_JUDGED), chosen)
    chosen.queries.sort(key=lambda one: (one.began, one.id))
    return chosen


async def is_of_record(pool: Pool, positions: Iterable[Mapping[str, int]]) -> list[bool]:
    """Whether the record has been at these positions of copies. RecordError."""
    async with borrow(pool, "reading the head of the record") as connection:
        head = int(await connection.fetchval(_HEAD))
    return [all(0 <= at <= head for at in one.values()) for one in positions]


def why_none(chosen: Chosen, choice: Choice) -> str:
    """Why there is no query to ask again, and which options take more."""
    if chosen.matching:
        left_out = [*chosen.apart.items(), *chosen.not_replayable.items()]
        return "no query can be asked again: " + "; ".join(f"{count} {why}" for why, count in left_out)
    told, more = "no decision of the log was chosen", list[str]()
    if choice.profile is not None:
        told += f" under {choice.profile}"
        more.append("--profile-of NAME takes those of another profile, --profile-of any those of all")
    if choice.since is not None:
        more.append("an earlier --since takes older ones")
    return f"{told}: {'; '.join(more)}" if more else told


def _sampled(names: Sequence[UUID], choice: Choice) -> Sequence[UUID]:
    if choice.sample is None or choice.sample >= len(names):
        return names
    # Not for secrets: the same seed has to give the same sample.
    return random.Random(choice.seed).sample(names, choice.sample)  # noqa: S311


def _add(decision: RecallDecisionV1, judged: Judged, chosen: Chosen) -> None:
    if decision.outcome not in _WHOLE:
        chosen.apart[decision.outcome] += 1
    elif decision.cascade is not None and decision.cascade.ended == "deadline":
        chosen.apart["cascade ended by its deadline"] += 1
    elif (why := why_not_again(decision)) is not None:
        chosen.not_replayable[why] += 1
    elif decision.profile_hash is None or decision.tenant is None:
        chosen.not_replayable["the log does not hold its profile and tenant"] += 1
    else:
        try:
            chosen.queries.append(_logged(decision, decision.tenant, decision.profile_hash, judged))
        except (InvalidMessage, ValueError):
            chosen.not_replayable[_OF_ANOTHER_VERSION] += 1


def _logged(decision: RecallDecisionV1, tenant: str, profile_hash: str, judged: Judged) -> LoggedQuery:
    shown = frozenset(decision.selected_ids)
    told = (decision.understood or {}).get("class")
    return LoggedQuery(
        id=decision.id,
        tenant=tenant,
        profile=decision.profile,
        profile_hash=profile_hash,
        query_class=told if isinstance(told, str) else "-",
        query=query_of(decision),
        clock=clock_of(decision),
        began=began_at(decision),
        read_at=decision.read_at or {},
        build=decision.build or {},
        answer=Answer(
            ids=tuple(decision.selected_ids),
            outcome=decision.outcome,
            unsure=decision.unsure,
            tokens=decision.tokens,
            confidence=decision.confidence,
            ms=decision.latency_ms,
            scores={one.id: one.score for one in decision.selected},
        ),
        judged=Judged(used=shown & judged.used, wrong=shown & judged.wrong),
    )


def began_at(decision: RecallDecisionV1) -> datetime:
    """When the recall itself began: what the query waited for before is none of it."""
    took_ms = sum(ms for stage, ms in decision.stage_ms.items() if stage != "total")
    return decision.created_at - timedelta(milliseconds=took_ms)
