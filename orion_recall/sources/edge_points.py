"""Memories as points of the index and back: vectors, payload, filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import qdrant_edge as qe

from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.sources.forms import context_form, dense_form, event_time, keyword_form
from orion_recall.text import memory_key, number_of
from orion_recall.values import Change, MemoryView, Scope

KEYWORD_FIELDS = ("tenant", "session", "user", "kind", "tags", "entities", "speaker")
_ENTITY = "entity\x1f"


async def memory_points(changes: Sequence[Change], embedder: Embedder, sparse: SparseEncoder) -> list[qe.Point]:
    """One point a memory, with its dense, text and context vectors."""
    vectors = await embedder.embed_documents([dense_form(change.memory) for change in changes])
    return [
        qe.Point(
            memory_key(change.memory.tenant, change.memory.id),
            {
                "dense": [float(number) for number in vector],
                "text": _sparse(sparse.encode_document(keyword_form(change.memory))),
                "context": _sparse(sparse.encode_document(context_form(change))),
            },
            _payload(change),
        )
        for change, vector in zip(changes, vectors, strict=True)
    ]


def entity_points(changes: Sequence[Change], sparse: SparseEncoder) -> list[qe.Point]:
    """One point for every entity named, found by the words of its name."""
    named = {(change.memory.tenant, entity) for change in changes for entity in change.memory.entities}
    return [
        qe.Point(
            number_of(_ENTITY + tenant, entity.casefold()),
            {"entity": _sparse(sparse.encode_document(entity))},
            {"tenant": tenant, "label": entity},
        )
        for tenant, entity in sorted(named)
    ]


def scope_filter(scope: Scope) -> qe.Filter:
    """The scope as conditions that must all hold."""
    conditions: list[qe.ConditionType] = [_is("tenant", scope.tenant)]
    if scope.session_id is not None:
        conditions.append(_is("session", scope.session_id))
    if scope.user_id is not None:
        conditions.append(_is("user", scope.user_id))
    if scope.kinds:
        conditions.append(qe.FieldCondition("kind", match=qe.MatchAny(list(scope.kinds))))
    if scope.tags:
        conditions.append(qe.FieldCondition("tags", match=qe.MatchAny(list(scope.tags))))
    if scope.since is not None or scope.until is not None:
        conditions.append(qe.FieldCondition("ts", range=qe.RangeFloat(gte=scope.since, lt=scope.until)))
    return qe.Filter(must=conditions)


def memory_view(payload: Mapping[str, Any]) -> MemoryView:
    """A point's payload as a memory."""
    of = payload.get  # looked up once: a recall reads a few dozen
    return MemoryView(
        id=payload["id"],
        text=payload["text"],
        text_hash=payload["hash"],
        simhash=payload["simhash"],
        kind=of("kind"),
        title=of("title"),
        speaker=of("speaker"),
        session_id=of("session"),
        user_id=of("user"),
        ts=of("ts"),
        uri=of("uri"),
        source_ref=of("source"),
        tags=tuple(of("tags", ())),
        entities=tuple(of("entities", ())),
        beside=tuple(of("beside", ())),
    )


def _payload(change: Change) -> dict[str, Any]:
    memory = change.memory
    fields: dict[str, Any] = {
        "tenant": memory.tenant,
        "id": memory.id,
        "text": memory.text,
        "hash": memory.text_hash,
        "simhash": memory.simhash,
        "kind": memory.kind,
        "title": memory.title,
        "speaker": memory.speaker,
        "session": memory.session_id,
        "user": memory.user_id,
        "ts": event_time(memory),
        "uri": memory.uri,
        "source": memory.source,
        "tags": list(memory.tags) or None,
        "entities": list(memory.entities) or None,
        "beside": _beside(change) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _beside(change: Change) -> list[int]:
    turns = (change.previous, change.following)
    return [memory_key(change.memory.tenant, turn.id) for turn in turns if turn is not None]


def _is(key: str, value: str) -> qe.FieldCondition:
    return qe.FieldCondition(key, match=qe.MatchValue(value))


def _sparse(terms: SparseTerms) -> qe.SparseVector:
    return qe.SparseVector(list(terms.indices), list(terms.values))
