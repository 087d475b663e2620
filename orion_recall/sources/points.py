"""Memories as points of an index and back, whichever engine holds them: keys, vectors, payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.sources.forms import context_form, dense_form, event_time, keyword_form
from orion_recall.text import memory_key, number_of
from orion_recall.values import Change, MemoryView

KEYWORD_FIELDS = ("tenant", "session", "user", "kind", "tags", "entities", "speaker")
SPARSE_VECTORS = ("text", "context", "entity")
_ENTITY = "entity\x1f"


class IndexPoint(NamedTuple):
    """One point: `dense` is a unit vector, absent for an entity; `sparse` are terms by the vector's name."""

    key: int
    dense: Sequence[float] | None
    sparse: Mapping[str, SparseTerms]
    payload: dict[str, Any]


async def memories_as_points(
    changes: Sequence[Change], embedder: Embedder, sparse: SparseEncoder
) -> list[IndexPoint]:
    """One point a memory, with its dense, text and context vectors."""
    vectors = await embedder.embed_documents([dense_form(change.memory) for change in changes])
    return [
        IndexPoint(
            key=memory_key(change.memory.tenant, change.memory.id),
            dense=vector.tolist(),
            sparse={
                "text": sparse.encode_document(keyword_form(change.memory)),
                "context": sparse.encode_document(context_form(change)),
            },
            payload=_payload(change),
        )
        for change, vector in zip(changes, vectors, strict=True)
    ]


def entities_as_points(changes: Sequence[Change], sparse: SparseEncoder) -> list[IndexPoint]:
    """One point for every entity named, found by the words of its name."""
    named = {(change.memory.tenant, entity) for change in changes for entity in change.memory.entities}
    return [
        IndexPoint(
            key=number_of(_ENTITY + tenant, entity.casefold()),
            dense=None,
            sparse={"entity": sparse.encode_document(entity)},
            payload={"tenant": tenant, "label": entity},
        )
        for tenant, entity in sorted(named)
    ]


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
        until=of("until"),
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
        "until": memory.occurred_until if memory.occurred_at is not None else None,
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
