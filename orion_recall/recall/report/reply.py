"""The reply: a recall as the message that its caller gets, with what it asked to be attached, and its trace.

Attachments are made of the items that the answer shows, and of no other memory: scope and filters hold for them.
The trace has codes, ids and numbers, of which `sentences` makes words for people. It is made on request
(`options.include.trace`) from the recall, or later from the decision that kept its candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from orion_recall.contracts.fields import ErrorInfo, whole_ms
from orion_recall.contracts.recall import (
    BundleStats,
    CandidateV1,
    ChunkInfoV1,
    EntityStateV1,
    Include,
    MemoryBundleV1,
    MemoryItemV1,
    RecallDecisionV1,
    RecallQueryV1,
    RecallReplyV1,
    SelectedV1,
)
from orion_recall.errors import ErrorKind
from orion_recall.recall.bundle.select import SelectedItem, source_ref
from orion_recall.recall.candidates.fuse import rrf_score
from orion_recall.recall.pipeline import Recalled
from orion_recall.recall.report.decision import (
    backend_counts,
    candidates_of,
    cascade_json,
    confidence_json,
    figures,
    left_out,
    understood,
)
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
    """The JSON of an empty bundle with the reason; only the bundle for callers that read no more than V1 fields. It
    is written without the models of a reply: under a flood there are many."""
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
    """What the items tell of each entity that they name, by its name, those named first first. `observations` are
    the items' snippets."""
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


Json = Mapping[str, Any]

MOST_CANDIDATES = 60
_TEXT_CHARS = 200
_STATEMENTS = 5
_OF_MEMORY = ("kind", "speaker", "session_id", "ts", "chatter")
_OF_ANSWER = (
    "backend_counts", "latency_ms", "profile", "outcome", "tokens", "dropped", "sources", "confidence", "unsure",
    "no_answer",
)  # fmt: skip
_DIGITS = 6


def score_shares(candidate: CandidateV1) -> list[dict[str, Any]]:
    """The parts of a candidate's score, the largest share first; the shares add up to the score exactly."""
    whole = sum(candidate.weights.values())
    if candidate.score is None or whole <= 0:
        return []
    weighted = [(name, value, candidate.weights.get(name, 0.0)) for name, value in candidate.parts.items()]
    shares = apportioned([value * weight / whole for _, value, weight in weighted], candidate.score, _DIGITS)
    made = [
        {"part": name, "value": value, "weight": weight, "share": share}
        for (name, value, weight), share in zip(weighted, shares, strict=True)
    ]
    return sorted(made, key=lambda part: (-part["share"], -part["weight"], part["part"]))


def apportioned(values: Sequence[float], total: float, digits: int) -> list[float]:
    """The values rounded to so many digits so that they add up to the total, their sum: the largest remainders are
    rounded up."""
    unit = 10**digits
    units = [math.floor(value * unit) for value in values]
    left = round(round(total, digits) * unit) - sum(units)  # as the total is printed
    by_remainder = sorted(range(len(values)), key=lambda place: units[place] - values[place] * unit)
    for place in by_remainder[: max(left, 0)]:
        units[place] += 1
    for place in reversed(by_remainder[left:] if left < 0 else ()):
        units[place] -= 1
    return [round(whole / unit, digits) for whole in units]


def explained(recalled: Recalled) -> dict[str, Any]:
    """The trace of a recall, with the beginnings of its candidates' texts."""
    cascade = cascade_json(recalled)
    figures: dict[str, Any] = {
        "stage_ms": dict(recalled.stage_ms),
        "ranked": len(recalled.ranked),
        "answer_signals": dict(recalled.confidence.signals) or None,
        "strategy": recalled.strategy,
        "render": None if recalled.render is None else recalled.render.model_dump(mode="json"),
        "cascade": None if cascade is None else cascade.model_dump(mode="json"),
    }
    if (known := recalled.understood) is not None:
        figures["understood"] = understood(known)
        figures["zone"] = known.zone
        figures["searched"] = {
            "by_meaning": known.question.dense_text,
            "by_words": known.question.keyword_text,
            "named_speaker": known.named_speaker,
        }
    if recalled.result is None:
        return _trace(figures, None, {})
    in_order = [one for item in recalled.ranked for one in (item, *item.same)]
    others = left_out(recalled.result, {item.candidate.key for item in in_order})
    figures["not_listed"] = max(len(in_order) + len(others) - MOST_CANDIDATES, 0)
    return _trace(figures, candidates_of(recalled, MOST_CANDIDATES), _of_memories(recalled))


def explained_decision(decision: RecallDecisionV1) -> dict[str, Any]:
    """The trace of a decision, of which texts of memories are no part: with the candidates that it kept, else with
    the items that it handed over."""
    figures: dict[str, Any] = {
        "stage_ms": dict(decision.stage_ms),
        "understood": None if decision.understood is None else dict(decision.understood),
        "zone": (decision.asked or {}).get("zone"),
        "strategy": decision.strategy,
        "cascade": None if decision.cascade is None else decision.cascade.model_dump(mode="json"),
    }
    sure = [(one.id, one.confidence) for one in decision.selected if one.confidence]
    known = {name: {"confidence": confidence.model_dump(mode="json")} for name, confidence in sure}
    candidates = [_kept(*one, decision.weights or {}) for one in enumerate(decision.selected, start=1)]
    return _trace(figures, candidates if decision.candidates is None else decision.candidates, known)


def _kept(place: int, item: SelectedV1, weights: Mapping[str, float]) -> CandidateV1:
    same = item.model_dump(include={"id", "source", "ranks", "score", "parts", "layer", "succeeds", "ended_by"})
    fused = item.parts.get("fusion", 0.0)
    return CandidateV1(**same, fused=fused, place=place, kept=True, weights=dict(weights))


def stats_of(decision: RecallDecisionV1) -> BundleStats:
    """The figures of the answer, as its reply had them."""
    same = {name: getattr(decision, name) for name in _OF_ANSWER}
    return BundleStats(decision_id=decision.id, probability=decision.answer_probability, **same)


def _trace(figures: Json, candidates: Sequence[CandidateV1] | None, known: Mapping[str, Json]) -> dict[str, Any]:
    trace = {name: value for name, value in figures.items() if value is not None}
    if candidates is not None:
        trace["candidates"] = [_candidate(one, known.get(one.id, {})) for one in candidates]
    return trace


def _candidate(one: CandidateV1, known: Json) -> dict[str, Any]:
    links: dict[str, Any] = one.model_dump(mode="json", include={"succeeds", "ended_by"}, exclude_none=True)
    scores = known.get("source_scores", {})
    return {
        **one.model_dump(include={"id", "place", "kept", "fused", "led_by", "score", "layer"}),
        "parts": score_shares(one),
        "dropped": {"reason": one.dropped, "for": one.dropped_for} if one.dropped else None,
        "confidence": None,
        **links,
        **{name: value for name, value in known.items() if name != "source_scores"},
        # Ranks, and the sources' own scores where they are known.
        "sources": {name: {"rank": rank, **scores.get(name, {})} for name, rank in one.ranks.items()},
    }


def _of_memories(recalled: Recalled) -> Mapping[str, Json]:
    assert recalled.result is not None
    confidences = recalled.cascade.confidences if recalled.cascade else recalled.confidence.items
    judged = recalled.reranking.judged if recalled.reranking else frozenset[int]()
    result, items = recalled.result, (*recalled.result.scored, *recalled.ranked)
    told: dict[str, dict[str, Any]] = {}
    pairs = [(one, result.memories.get(one.key)) for one in result.pool]
    for candidate, memory in [*pairs, *((item.candidate, item.memory) for item in items)]:
        if memory is None:
            continue
        scores = {str(source): {"score": round(score, _DIGITS)} for source, score in candidate.scores.items()}
        told[memory.id] = more = {
            **{name: getattr(memory, name) for name in _OF_MEMORY},
            "text": memory.best_text[:_TEXT_CHARS],
            "statements": list(candidate.statements[:_STATEMENTS]),
            "source_scores": scores,
        }
        if result.fusing is not None:
            more["rrf_score"] = round(rrf_score(candidate, result.fusing), _DIGITS)
    for item in items:
        key, more = item.candidate.key, told[item.memory.id]
        if key in judged and "rerank" in item.parts:
            more["cross_encoder_score"] = round(item.parts["rerank"], _DIGITS)
        if (sure := confidences.get(key)) is not None:
            more["confidence"] = confidence_json(sure).model_dump(mode="json")
    return told
