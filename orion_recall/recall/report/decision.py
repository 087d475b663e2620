"""The decision: one query's row in the decision log, for every outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from orion_recall.contracts import CanaryV1, ConfidenceV1, RecallDecisionV1, RecallQueryV1, SelectedV1
from orion_recall.recall.report.asked import asked, scope_name
from orion_recall.recall.report.candidates import candidates_of
from orion_recall.recall.report.confidence import cascade_json, confidence_json, no_answer_json
from orion_recall.recall.report.explain import succession
from orion_recall.recall.report.query_text import QUERY_CHARS, KeptText
from orion_recall.recall.report.reply import backend_counts, source_stats
from orion_recall.recall.types import Recalled
from orion_recall.recall.understand.summary import understood
from orion_recall.scoring.candidates import rounded_parts
from orion_recall.values import Outcome


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
        "read_at": (recalled.basis.read_at or None) if recalled and recalled.basis else None,
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
        "answer_probability": recalled.confidence.answerable.probability,
        "strategy": recalled.strategy,
    }


def _confidence(recalled: Recalled, key: int) -> ConfidenceV1 | None:
    sure = recalled.confidence.items.get(key)
    return None if sure is None else confidence_json(sure)


def _fragment(facts: RequestFacts) -> str:
    return facts.query.fragment if facts.query else _raw_text(facts, "fragment") or ""


def _raw_text(facts: RequestFacts, name: str) -> str | None:
    value = facts.raw.get(name)
    return value if isinstance(value, str) else None
