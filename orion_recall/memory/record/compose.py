"""Composes the stored form of a memory from a message's form: hashes, names and statements; and patches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import ValidationError

from orion_recall.contracts import MemoryV1, MemoryVerdictV1, describe
from orion_recall.errors import InvalidMessage
from orion_recall.memory.extraction.kinds import infer_kind
from orion_recall.memory.extraction.light import extract
from orion_recall.text.normal import one_line, storable, storable_json, text_hash
from orion_recall.values import LAST_S, JsonValue, Memory

_NAMES = ("session_id", "node_id", "user_id", "agent_id", "run_id", "source", "uri")
# A longer title is a sentence, and no name of anything.
_MAX_TITLE_WORDS = 8
# Also of a hash: a guess may become another. It never hides a memory, which is found as this one, too.
KIND_WHEN_NONE_IS_GIVEN = "experience"


def compose(message: MemoryV1, default_tenant: str) -> Memory:
    """The memory with its hashes, entities and statements; every text in it can be stored. InvalidMessage."""
    try:
        hashed = content_hash(message)
    except ValueError as error:
        raise InvalidMessage("metadata: NaN and infinity are no JSON numbers") from error
    text = storable(message.text)
    if not one_line(text):
        raise InvalidMessage("text: there is nothing to be seen in it")
    if message.id in message.supersedes:
        raise InvalidMessage("supersedes: a memory cannot take its own place")
    if message.occurred_at and message.occurred_until and message.occurred_until < message.occurred_at:
        raise InvalidMessage("occurred_until: it ends before it begins (occurred_at)")
    title = _text(message.title)
    speaker = _text(message.speaker)
    given = unique_names(map(storable, message.entities))
    occurred_at, mentioned_at = _seconds(message.occurred_at), _seconds(message.mentioned_at)
    at = mentioned_at if occurred_at is None else occurred_at
    found = extract(text, speaker, known_names(given, title), at=at)
    names: dict[str, Any] = {name: _text(getattr(message, name)) for name in _NAMES}
    guess = None
    if message.kind is None:
        guess = infer_kind(text, title=title, is_talk=speaker is not None and message.session_id is not None)
    return Memory(
        tenant=storable(message.tenant or default_tenant),
        id=storable(message.id),
        text=text,
        kind=message.kind or KIND_WHEN_NONE_IS_GIVEN,
        guessed_kind=guess.kind if guess and guess.kind != KIND_WHEN_NONE_IS_GIVEN else None,
        kind_confidence=guess.confidence if guess else None,
        text_hash=text_hash(text),
        content_hash=hashed,
        title=title,
        speaker=speaker,
        occurred_at=occurred_at,
        occurred_until=_seconds(message.occurred_until),
        mentioned_at=mentioned_at,
        tags=unique_names(map(storable, message.tags)),
        entities=unique_names([*found.entities, *given]),
        statements=found.statements,
        times=found.times,
        metadata=cast("dict[str, JsonValue]", storable_json(message.metadata)),
        confidence=message.confidence,
        given_entities=given,
        supersedes=unique_names(map(storable, message.supersedes)),
        lacks_context=found.lacks_context and message.session_id is not None,
        **names,
    )


def known_names(given: Sequence[str], title: str | None) -> list[str]:
    """What is recognised in a text in lower case too: the entities that were given, and a title that is a name."""
    return [*given, title] if title is not None and len(title.split()) <= _MAX_TITLE_WORDS else [*given]


def as_message(memory: Memory) -> MemoryV1:
    """The memory as it would be sent to be stored: composed again it says the same."""
    values: dict[str, Any] = {name: getattr(memory, name) for name in MemoryV1.model_fields}
    values |= {name: _moment(values[name]) for name in ("occurred_at", "occurred_until", "mentioned_at")}
    values |= {"entities": memory.given_entities, "metadata": dict(memory.metadata)}
    if memory.kind_confidence is not None:
        values["kind"] = None
    return MemoryV1(**values)


def content_hash(message: MemoryV1) -> str:
    """SHA-256 over all that the sender gave but id and tenant, in one canonical form."""
    content = message.model_dump(mode="json", exclude={"id", "tenant"})
    content["kind"] = content["kind"] or KIND_WHEN_NONE_IS_GIVEN
    canonical = json.dumps(storable_json(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _text(value: str | None) -> str | None:
    return None if value is None else storable(value)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else min(moment.timestamp(), LAST_S)  # its fractions do not survive as a float


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names without repetitions that differ in case only, and without empty ones."""
    return tuple({name.casefold(): name for name in reversed([*names]) if name.strip()}.values())[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch of one memory: fields of `MemoryV1` by name, None for those to be cleared."""

    id: str
    changes: Mapping[str, Any]
    expected_version: int | None = None


def judged(patch: Patch, memory: Memory | None) -> Memory | MemoryVerdictV1:
    """The memory with the patch's fields changed, composed again; or the verdict why it stays. CPU-bound."""
    if memory is None:
        return MemoryVerdictV1(id=patch.id, status="missing", reason="no memory has this id")
    if memory.deleted_at is not None:
        return MemoryVerdictV1(id=patch.id, status="missing", reason="it was deleted")
    if memory.superseded_by is not None:
        return conflict(patch.id, f"{memory.superseded_by!r} supersedes it: change that one")
    if patch.expected_version is not None and patch.expected_version != memory.version:
        return conflict(patch.id, f"it is at version {memory.version}, not {patch.expected_version}: read it again")
    given, fields = as_message(memory), MemoryV1.model_fields
    whole = {name: getattr(given, name) for name in fields}
    for name, value in patch.changes.items():
        whole[name] = fields[name].get_default(call_default_factory=True) if value is None else value
    try:
        changed = compose(MemoryV1.model_validate(whole), memory.tenant)
    except (ValidationError, InvalidMessage) as error:
        why = describe(error) if isinstance(error, ValidationError) else str(error)
        return MemoryVerdictV1(id=patch.id, status="rejected", reason=why)
    # The stored hash is of the message as it was sent: tags that repeat, and what it superseded, are not kept.
    if changed.content_hash in (memory.content_hash, content_hash(given)):
        return MemoryVerdictV1(id=patch.id, status="unchanged")
    return changed


def conflict(name: str, why: str) -> MemoryVerdictV1:
    return MemoryVerdictV1(id=name, status="conflict", reason=why)
