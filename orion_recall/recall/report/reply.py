"""The reply: a recall as the message that its caller gets, with what it asked to be attached.

Attachments are made of the items that the answer shows, and of no other memory: scope and filters hold for them.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from orion_recall.contracts import (
    BundleStats,
    ChunkInfoV1,
    EntityStateV1,
    ErrorInfo,
    Include,
    MemoryBundleV1,
    MemoryItemV1,
    RecallQueryV1,
    RecallReplyV1,
    whole_ms,
)
from orion_recall.errors import ErrorKind
from orion_recall.recall.bundle.lines import SelectedItem, source_ref
from orion_recall.recall.report.decision import backend_counts, confidence_json, figures
from orion_recall.recall.report.explain import explained
from orion_recall.recall.types import Recalled
from orion_recall.scoring.candidates import rounded_parts
from orion_recall.values import SourceReport

# They are given as they are, to be found again.
_IDS = frozenset(("id", "for", "evidence", "source_ref"))


def reply(
    query: RecallQueryV1, recalled: Recalled, *, latency_ms: float, profile: str, decision_id: str
) -> RecallReplyV1:
    """The reply with its bundle; with further fields, an error among them, only when the query had options."""
    extended = query.options is not None
    include = (query.options.include if query.options else None) or Include()
    items = [_item(item, recalled, extended=extended, include=include) for item in recalled.selection.items]
    stats: dict[str, Any] = {"backend_counts": backend_counts(recalled.reports)}
    if extended:
        stats = figures(recalled) | {"outcome": recalled.outcome, "decision_id": decision_id}
    stats |= {"latency_ms": latency_ms if extended else whole_ms(latency_ms), "profile": profile}
    if extended:
        if (probability := recalled.confidence.probability) is not None:
            stats["probability"] = probability
        if recalled.withheld is not None:
            stats["no_answer"] = recalled.withheld
        if include.trace:
            stats["trace"] = recalled.redaction.json(explained(recalled), without=_IDS)
    attached: dict[str, Any] = {"entities": entities_of(recalled)} if include.entities else {}
    if include.chunks:
        attached["chunks"] = chunks_of(recalled)
    if include.layers and recalled.cascade is not None:
        attached["layers"] = _by_layer(recalled)
    bundle = MemoryBundleV1(rendered=recalled.rendered, items=items, stats=BundleStats(**stats), **attached)
    if not extended or recalled.outcome != "failed":
        return RecallReplyV1(bundle=bundle)
    return RecallReplyV1(bundle=bundle, error=ErrorInfo(type="failed", message=why_failed(recalled.reports)))


def error_reply(
    kind: ErrorKind,
    message: str,
    *,
    latency_ms: float,
    profile: str,
    extended: bool,
    retry_after_ms: int | None = None,
) -> bytes:
    """The JSON of an empty bundle with the reason; only the bundle for callers that read no more than V1 fields.

    It is written at once, without the models of a reply: under a flood there are many, and all in it is our own.
    """
    shown_ms = latency_ms if extended else whole_ms(latency_ms)
    stats: dict[str, Any] = {"backend_counts": {}, "latency_ms": shown_ms, "profile": profile}
    told: dict[str, Any] = {"bundle": {"rendered": "", "items": [], "stats": stats}}
    if extended:
        stats["outcome"] = kind
        hint = {} if retry_after_ms is None else {"retry_after_ms": retry_after_ms}
        told["error"] = {"type": kind, "message": message, **hint}
    return to_json(told)


def reply_json(answer: RecallReplyV1) -> bytes:
    """The reply as JSON, holding the fields that were set and no others."""
    return answer.model_dump_json(exclude_unset=True).encode()


def why_failed(reports: tuple[SourceReport, ...]) -> str:
    """The error of every source, when none of them answered."""
    said = [f"{report.source}: {report.error or report.status}" for report in reports if report.status != "off"]
    return "no source answered (" + ("; ".join(said) or "none of the profile's sources is configured") + ")"


def _item(item: SelectedItem, recalled: Recalled, *, extended: bool, include: Include) -> MemoryItemV1:
    memory, candidate, redaction = item.scored.memory, item.scored.candidate, recalled.redaction
    fields: dict[str, Any] = {
        "id": memory.id,
        "source": candidate.best_source,
        "source_ref": source_ref(item.scored),
        "uri": memory.uri,
        "score": item.scored.score,
        "ts": memory.ts,
        "title": redaction.optional(memory.title),
        "snippet": item.snippet,
        "tags": list(memory.tags),
    }
    if not extended:
        return MemoryItemV1(**fields)
    fields |= {
        "kind": memory.guessed_kind or memory.kind,
        "speaker": redaction.optional(memory.speaker),
        "session_id": memory.session_id,
        "score_parts": rounded_parts(item.scored.parts),
        "ranks": dict(candidate.ranks),
    }
    if (confidence := recalled.confidence.items.get(candidate.key)) is not None:
        fields["confidence"] = confidence_json(confidence)
    if recalled.cascade is not None:
        fields["layer"] = recalled.cascade.layers[candidate.key]
    if include.metadata:
        fields["metadata"] = redaction.json(recalled.metadata.get(candidate.key, {}))
    if include.entities:
        fields["entities"] = [redaction.text(name) for name in memory.entities]
    if include.chunks:
        fields["chunk"] = redaction.text(memory.best_text)
    return MemoryItemV1(**fields)


def _by_layer(recalled: Recalled) -> dict[str, list[str]]:
    """The ids of the bundle's items by layer; every layer that was searched is there."""
    assert recalled.cascade is not None
    layers: dict[str, list[str]] = {str(step.layer): [] for step in recalled.cascade.path if step.not_asked is None}
    for item in recalled.selection.items:
        layers[recalled.cascade.layers[item.scored.candidate.key]].append(item.scored.memory.id)
    return layers


def chunks_of(recalled: Recalled) -> dict[str, ChunkInfoV1]:
    """The best passage of each item, by the passage's id: the memory's id, `#` and the passage's number from 0."""
    found: dict[str, ChunkInfoV1] = {}
    for item in recalled.selection.items:
        memory = item.scored.memory
        start, end = memory.best_span
        index = memory.passage if (start, end) != (0, len(memory.text)) else 0
        name, text = f"{memory.id}#{index}", recalled.redaction.text(memory.best_text)
        found[name] = ChunkInfoV1(id=name, memory_id=memory.id, index=index, start=start, end=end, text=text)
    return found


def entities_of(recalled: Recalled) -> dict[str, EntityStateV1]:
    """What the items tell of each entity that they name, by its name, those named first first.

    A name that was merged into another is that other one. `observations` are the items' snippets.
    """
    naming: dict[str, dict[str, str]] = {}
    for item in recalled.selection.items:
        for label in dict.fromkeys(item.scored.memory.entities):
            naming.setdefault(recalled.redaction.text(label), {})[item.scored.memory.id] = item.snippet
    return {
        label: EntityStateV1(
            name=label,
            memory_count=len(snippets),
            memory_ids=list(snippets),
            observations=list(dict.fromkeys(snippets.values())),
        )
        for label, snippets in naming.items()
    }
