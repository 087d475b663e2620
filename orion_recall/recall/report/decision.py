"""The decision: one query's row in the decision log, for every outcome, with the candidates that it keeps.

Candidates have ids, numbers and codes, and no text. Memories that may not be seen are counted in `dropped` and not
named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from orion_recall.contracts import CanaryV1, CandidateV1, ConfidenceV1, RecallDecisionV1, RecallQueryV1, SelectedV1
from orion_recall.contracts.decision import SuccessionV1
from orion_recall.profile import Profile
from orion_recall.recall.bundle.lines import DropReason
from orion_recall.recall.pass_result import PassResult
from orion_recall.recall.report.asked import QUERY_CHARS, KeptText, asked, scope_name
from orion_recall.recall.report.figures import (
    backend_counts,
    cascade_json,
    confidence_json,
    no_answer_json,
    source_stats,
    understood,
)
from orion_recall.recall.types import Recalled
from orion_recall.scoring.candidates import Candidate, ScoredCandidate, rounded_parts
from orion_recall.text.normal import number_of
from orion_recall.values import MemoryView, Outcome, SuccessionLink


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Facts of a query that are known before it is answered; `query` is None when it could not be read.

    `candidates` is how many of them its decision keeps.
    """

    decision_id: str
    corr_id: str
    entry_id: str | None = None
    query: RecallQueryV1 | None = None
    raw: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tenant: str | None = None
    profile: str = ""
    profile_requested: str | None = None
    profile_hash: str | None = None
    profile_fallback: bool = False
    unknown_fields: int = 0
    deliveries: int = 1
    reply_to: str | None = None
    trace_id: str | None = None
    worker: str | None = None
    shadow_of: str | None = None
    canary: CanaryV1 | None = None
    build: Mapping[str, str] | None = None
    candidates: int = 0


_FULL_TEXT = KeptText()
_WHOLE = float(1 << 63)
_DIGITS = 6
# Those dropped before the final order get this part of the room, where there are so many.
_ROOM_OF_OTHERS = 3
# Memories dropped for these reasons are not named: not even that they exist may be known.
_UNSEEN: frozenset[DropReason] = frozenset({"filtered", "deleted", "missing"})
LeftOut = tuple[Candidate, MemoryView, ScoredCandidate | None, DropReason, int | None]


def decision(
    facts: RequestFacts,
    *,
    outcome: Outcome,
    latency_ms: float,
    recalled: Recalled | None = None,
    error: str | None = None,
    created_at: datetime | None = None,
    kept_text: KeptText = _FULL_TEXT,
) -> RecallDecisionV1:
    """One decision, of now by default. `latency_ms` is rounded in its own field, exact in `stage_ms` under `total`.

    Of an unreadable query those fields are kept that were text, in the form that `kept_text` gives.
    """
    query, text = facts.query, _fragment(facts)
    fields: dict[str, Any] = {
        "id": facts.decision_id,
        "corr_id": facts.corr_id,
        "session_id": query.session_id if query else _raw_text(facts, "session_id"),
        "node_id": query.node_id if query else _raw_text(facts, "node_id"),
        "verb": query.verb if query else _raw_text(facts, "verb"),
        "intent": kept_text.intent(query.intent) if query else None,
        "query": kept_text.query(text),
        "query_chars": len(text),
        "profile": facts.profile,
        "profile_requested": facts.profile_requested,
        "profile_hash": facts.profile_hash,
        "profile_fallback": facts.profile_fallback,
        "tenant": facts.tenant,
        "user_id": query.options.user if query and query.options else None,
        "latency_ms": latency_ms,
        "created_at": created_at or datetime.now(UTC),
        "outcome": outcome,
        "error": error,
        "unknown_fields": facts.unknown_fields,
        "deliveries": facts.deliveries,
        "entry_id": facts.entry_id,
        "reply_to": facts.reply_to,
        "trace_id": facts.trace_id,
        "worker": facts.worker,
        "shadow_of": facts.shadow_of,
        "canary": facts.canary,
        "build": facts.build,
        "read_at": (recalled.read_at or None) if recalled else None,
        "candidates": candidates_of(recalled, facts.candidates) if recalled and facts.candidates else None,
        **_asked(facts, text, outcome, recalled, kept_text),
    }
    stage_ms = {**(recalled.stage_ms if recalled else {}), "total": latency_ms}
    found = _recall_fields(recalled, kept_text) if recalled else _NOTHING
    return RecallDecisionV1(**fields, stage_ms=stage_ms, **found)


def _asked(
    facts: RequestFacts, text: str, outcome: Outcome, recalled: Recalled | None, kept_text: KeptText
) -> Mapping[str, Any]:
    """What was asked, and why it cannot be asked again."""
    query = facts.query
    told, is_whole = asked(query, recalled, kept_text) if query else (None, False)
    why = None
    if query is None or outcome == "invalid":
        why = "the query could not be read"
    elif not kept_text.is_full:
        why = f"query text is not kept (ORION_QUERY_TEXT={kept_text.mode})"
    elif len(text) > QUERY_CHARS:
        why = f"of the query the first {QUERY_CHARS:,} characters are kept"
    elif not is_whole or not kept_text.keeps(text) or not kept_text.keeps(query.intent):
        why = "words of the query are redacted (ORION_REDACT)"
    return {"asked": told, "not_replayable": why}


_NOTHING: Mapping[str, Any] = {"selected_ids": [], "backend_counts": {}, "dropped": {}}


def _recall_fields(recalled: Recalled, kept_text: KeptText) -> Mapping[str, Any]:
    items, cascade = recalled.selection.items, recalled.cascade
    return {
        "scope": scope_name(recalled.scope),
        "selected_ids": [item.scored.memory.id for item in items],
        "selected": [
            SelectedV1(
                id=item.scored.memory.id,
                source=item.scored.candidate.best_source,
                score=item.scored.score,
                parts=rounded_parts(item.scored.parts),
                ranks={str(source): rank for source, rank in item.scored.candidate.ranks.items()},
                confidence=_confidence(recalled, item.scored.candidate.key),
                layer=cascade.layers[item.scored.candidate.key] if cascade else None,
                succeeds=succession(item.scored.succeeds),
                ended_by=succession(item.scored.ended),
            )
            for item in items
        ],
        "weights": _weights(tuple(item.scored for item in items)),
        "backend_counts": backend_counts(recalled.reports),
        "sources": source_stats(recalled),
        "dropped": dict(recalled.selection.dropped),
        "tokens": recalled.selection.tokens,
        "understood": (
            kept_text.redaction.json(understood(recalled.understood, with_words=kept_text.is_full))
            if recalled.understood
            else None
        ),
        "confidence": recalled.confidence.overall,
        "cascade": cascade_json(cascade, recalled.confidence, recalled.selection) if cascade else None,
        "no_answer": no_answer_json(recalled.withheld) if recalled.withheld else None,
        "answer_probability": recalled.confidence.probability,
        "unsure": recalled.is_unsure,
        "strategy": recalled.strategy,
    }


def _weights(items: Sequence[ScoredCandidate]) -> dict[str, float] | None:
    """The weights by which all items were scored, of the parts that they have; None where there is no such set."""
    if not items or any(item.weights != items[0].weights for item in items[1:]):
        return None
    named = {name for item in items for name in item.parts}
    return {name: round(one, _DIGITS) for name, one in items[0].weights.items() if one > 0 and name in named}


def _confidence(recalled: Recalled, key: int) -> ConfidenceV1 | None:
    sure = recalled.confidence.items.get(key)
    return None if sure is None else confidence_json(sure)


def _fragment(facts: RequestFacts) -> str:
    return facts.query.fragment if facts.query else _raw_text(facts, "fragment") or ""


def _raw_text(facts: RequestFacts, name: str) -> str | None:
    value = facts.raw.get(name)
    return value if isinstance(value, str) else None


def candidates_to_keep(profile: Profile, corr_id: str, *, is_traced: bool) -> int:
    """How many candidates a decision keeps; 0 for most. The correlation id decides, so that all workers agree."""
    kept = profile.decisions
    is_drawn = kept.share > 0 and number_of("candidates", corr_id) < kept.share * _WHOLE
    return kept.candidates if is_traced or is_drawn else 0


def candidates_of(recalled: Recalled, most: int) -> list[CandidateV1]:
    """The best candidates: those of the final order, then those that were dropped before it."""
    result = recalled.result
    if result is None:
        return []
    in_order = tuple(one for item in recalled.ranked for one in (item, *item.same))
    others = left_out(result, {item.candidate.key for item in in_order})
    ranked = in_order[: most - min(len(others), most // _ROOM_OF_OTHERS)]
    told = _ranked(recalled, ranked)
    names = {item.candidate.key: item.memory.id for item in (*result.scored, *in_order)}
    for candidate, memory, item, reason, for_key in others[: most - len(ranked)]:
        made = _of(candidate, memory.id, None if _is_of_other_scale(recalled, item) else item)
        told.append(made.model_copy(update={"dropped": reason, "dropped_for": names.get(for_key or 0)}))
    return told


def _ranked(recalled: Recalled, ranked: tuple[ScoredCandidate, ...]) -> list[CandidateV1]:
    kept = {item.scored.candidate.key for item in recalled.selection.items}
    told: list[CandidateV1] = []
    for place, item in enumerate(ranked, start=1):
        key = item.candidate.key
        of_order = {
            "place": place,
            "kept": key in kept,
            "dropped": recalled.selection.left_out.get(key),
            "layer": recalled.cascade.layers[key] if recalled.cascade else None,
        }
        told.append(_of(item.candidate, item.memory.id, item).model_copy(update=of_order))
    return told


def _is_of_other_scale(recalled: Recalled, item: ScoredCandidate | None) -> bool:
    """Whether it is the score of one layer, where those of several were merged."""
    return item is not None and recalled.cascade is not None and recalled.cascade.is_merged


def _of(candidate: Candidate, name: str, item: ScoredCandidate | None) -> CandidateV1:
    return CandidateV1(
        id=name,
        source=candidate.best_source,
        ranks={str(source): rank for source, rank in candidate.ranks.items()},
        led_by=candidate.led_by,
        fused=round(candidate.fused, _DIGITS),
        score=None if item is None else item.score,
        parts=_weighed(item),
        succeeds=None if item is None else succession(item.succeeds),
        ended_by=None if item is None else succession(item.ended),
        weights={} if item is None else {part: item.weights[part] for part in _weighed(item)},
    )


def _weighed(item: ScoredCandidate | None) -> dict[str, float]:
    """The parts that count: those with a weight."""
    if item is None:
        return {}
    return {name: round(value, _DIGITS) for name, value in item.parts.items() if item.weights.get(name, 0.0) > 0}


def left_out(result: PassResult, ranked: set[int]) -> list[LeftOut]:
    """Candidates dropped before the final order that may be named, best first: by score, then by fused score."""
    scored = {item.candidate.key: item for item in result.scored}
    told: list[LeftOut] = []
    for candidate in result.pool:
        why, item = result.dropped.each.get(candidate.key), scored.get(candidate.key)
        memory = item.memory if item else result.memories.get(candidate.key)
        if candidate.key in ranked or why is None or why.reason in _UNSEEN or memory is None:
            continue
        told.append((candidate, memory, item, why.reason, why.for_key))
    return sorted(told, key=lambda one: (one[2] is None, -(one[2].score if one[2] else one[0].fused)))


def succession(link: SuccessionLink | None) -> SuccessionV1 | None:
    """A succession that moved, marked or dropped an item, as decision and trace have it."""
    if link is None:
        return None
    return SuccessionV1(id=link.id, reason=link.reason, evidence=list(link.evidence))
