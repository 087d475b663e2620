"""Database identity of a copy: a copy of another database is refused."""

from __future__ import annotations

from collections.abc import Mapping

from orion_recall.errors import AnotherRecordsCopy
from orion_recall.values import Memory, MemoryView


def refuse_another(what: str, found: str | None, expected: str | None, *, advice: str) -> None:
    """AnotherRecordsCopy when both identities are known and differ."""
    if found is not None and expected is not None and found != expected:
        raise AnotherRecordsCopy(
            f"{what} belongs to another record (the one made at {found}; this one was made at {expected}): {advice}"
        )


def refuse_without(what: str, newest: Memory, held: Mapping[int, MemoryView], *, advice: str) -> None:
    """AnotherRecordsCopy unless `newest`, the record's memory at the copy's position, is held."""
    if not any((one.id, one.text) == (newest.id, newest.text) for one in held.values()):
        raise AnotherRecordsCopy(
            f"{what} has no database identity, and does not hold what this record has at its position: {advice}"
        )
