"""The record's own tables, which a backup contains. A test compares the list with the schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import LiteralString


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that is backed up, in the order of its key; `serial` is the column that a sequence numbers.

    `refilled`: every worker fills it again, so that its rows are no reason against a restore, and give way to it.
    """

    name: LiteralString
    order: LiteralString
    serial: LiteralString | None = None
    refilled: bool = False


KEPT: tuple[Table, ...] = (
    Table(name="memories", order="seq", serial="seq"),
    Table(name="memory_history", order="id", serial="id"),
    Table(name="memory_requests", order="tenant, idempotency_key"),
    Table(name="memory_access", order="tenant, id"),
    Table(name="recall_feedback", order="id", serial="id"),
    Table(name="memory_extractions", order="tenant, memory_id", serial="ticket"),
    Table(name="entity_merges", order="id", serial="id"),
    Table(name="memory_successions", order="tenant, newer, older"),
    Table(name="memory_succession_history", order="id", serial="id"),
    Table(name="memory_forgets", order="id", serial="id"),
    Table(name="memory_forget_ids", order="forget, memory_id"),
    Table(name="outbox", order="position", serial="position"),
)
DECISIONS: tuple[Table, ...] = (
    Table(name="recall_decisions", order="created_at, id"),
    Table(name="recall_profiles", order="hash", refilled=True),
)

LEFT_OUT: Mapping[str, str] = {
    "orion_migrations": "the schema is made by the one who restores; the manifest says which it was",
    "projections": "copies say themselves how far they have come",
    "keyword_lengths": "`memory rebuild index` measures them again",
    "write_locks": "locks, of which nothing is read",
    "copy_requests": "nobody waits for the answers any more",
}
