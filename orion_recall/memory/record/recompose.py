"""Patches of memories: checked against the stored memory, and composed again with names, statements and hashes.

Composing takes about a millisecond a memory, so it is done before the transaction that writes it, as a draft. A
draft counts only for the content that it was made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from orion_recall.contracts import MemoryV1, describe
from orion_recall.errors import InvalidMessage
from orion_recall.memory.record.compose import as_message, compose, content_hash
from orion_recall.values import Memory

ChangeStatus = Literal["updated", "deleted", "unchanged", "missing", "conflict", "rejected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch of one memory: fields of `MemoryV1` by name, None for those to be cleared.

    With `expected_version` it is changed only if it is still at that version.
    """

    id: str
    changes: Mapping[str, Any]
    expected_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeVerdict:
    """The verdict on one memory; `position` is its outbox entry."""

    id: str
    status: ChangeStatus
    reason: str | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A patched memory made from the content with the hash `of`, or the error of the patch.

    `is_same`: the patch changes nothing.
    """

    of: str
    result: Memory | InvalidMessage
    is_same: bool = False


def drafts(patches: Iterable[Patch], held: Mapping[str, Memory]) -> dict[str, Draft]:
    """The drafts of the patches by id, where the memory may be changed. CPU-bound: for a thread."""
    return {
        patch.id: _draft(held[patch.id], patch.changes)
        for patch in patches
        if stays(patch, held.get(patch.id)) is None
    }


def _draft(memory: Memory, changes: Mapping[str, Any]) -> Draft:
    try:
        given = as_message(memory)
        result = recompose(memory, given, changes)
    except InvalidMessage as error:
        return Draft(of=memory.content_hash, result=error)
    # The stored hash is of the message as it was sent: tags that repeat, and what it superseded, are not kept.
    is_same = result.content_hash in (memory.content_hash, content_hash(given))
    return Draft(of=memory.content_hash, result=result, is_same=is_same)


def is_of(draft: Draft | None, memory: Memory) -> bool:
    """Whether the draft was made from the memory's present content."""
    return draft is not None and draft.of == memory.content_hash


def judged(patch: Patch, memory: Memory | None, draft: Draft | None) -> Memory | ChangeVerdict:
    """The changed memory, or the verdict why it stays. A memory that may change needs a current draft."""
    if (verdict := stays(patch, memory)) is not None:
        return verdict
    assert memory is not None  # else it stays
    assert draft is not None
    assert draft.of == memory.content_hash
    if isinstance(draft.result, InvalidMessage):
        return ChangeVerdict(id=patch.id, status="rejected", reason=str(draft.result))
    if draft.is_same:
        return ChangeVerdict(id=patch.id, status="unchanged")
    return draft.result


def stays(patch: Patch, memory: Memory | None) -> ChangeVerdict | None:
    """The verdict why the memory may not be changed; None when it may."""
    if memory is None:
        return ChangeVerdict(id=patch.id, status="missing", reason="no memory has this id")
    if memory.deleted_at is not None:
        return ChangeVerdict(id=patch.id, status="missing", reason="it was deleted")
    if memory.superseded_by is not None:
        return conflict(patch.id, f"{memory.superseded_by!r} supersedes it: change that one")
    if patch.expected_version is not None and patch.expected_version != memory.version:
        return conflict(patch.id, f"it is at version {memory.version}, not {patch.expected_version}: read it again")
    return None


def conflict(name: str, why: str) -> ChangeVerdict:
    """The verdict `conflict`, with its reason."""
    return ChangeVerdict(id=name, status="conflict", reason=why)


def recompose(memory: Memory, given: MemoryV1, changes: Mapping[str, Any]) -> Memory:
    """The memory, as it is `given`, with some fields of its message changed, composed again.

    InvalidMessage names the fields that cannot be so.
    """
    whole = {name: getattr(given, name) for name in MemoryV1.model_fields}
    defaults = MemoryV1.model_fields
    for name, value in changes.items():
        whole[name] = defaults[name].get_default(call_default_factory=True) if value is None else value
    try:
        message = MemoryV1.model_validate(whole)
    except ValidationError as error:
        raise InvalidMessage(describe(error), without_values=describe(error, with_values=False)) from error
    return compose(message, memory.tenant)
