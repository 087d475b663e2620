"""The decision: one query's row in the decision log, for every outcome, with the candidates that it keeps.

Candidates have ids, numbers and codes, and no text. Memories that may not be seen are counted and not named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from orion_recall.contracts import RecallDecisionV1, RecallQueryV1
from orion_recall.contracts.recall import (
    CanaryV1,
    CandidateV1,
    CascadeStepV1,
    CascadeV1,
    ConfidenceV1,
    SelectedV1,
    SourceStats,
    SuccessionV1,
    Trigger,
)
from orion_recall.profile import Profile
from orion_recall.recall.bundle.select import DropReason, SelectedItem
from orion_recall.recall.cascade import CascadeRun
from orion_recall.recall.confidence.answer import Confidence
from orion_recall.recall.pipeline import Recalled
from orion_recall.recall.report.asked import QUERY_CHARS, KeptText, asked, scope_name
from orion_recall.recall.types import ModelReport, PassResult
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate, ScoredCandidate, rounded_parts
from orion_recall.text.normal import number_of
from orion_recall.values import MemoryView, Outcome, SourceReport, SuccessionLink
from orion_recall.when.times import ordinal


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Facts of a query that are known before it is answered; `query` is None when it could not be read.
    `candidates` is how many of them its decision keeps."""

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
_OF_FACTS: Final = """corr_id profile profile_requested profile_hash profile_fallback tenant unknown_fields
deliveries entry_id reply_to trace_id worker shadow_of canary build""".split()
_OF_QUERY: Final = ("session_id", "node_id", "verb")
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
    Of an unreadable query those fields are kept that were text, in the form that `kept_text` gives."""
    query = facts.query
    sent: dict[str, Any] = {name: getattr(query, name) if query else facts.raw.get(name) for name in _OF_QUERY}
    fragment = query.fragment if query else facts.raw.get("fragment")
    text = fragment if isinstance(fragment, str) else ""
    told, is_whole = asked(query, recalled, kept_text) if query else (None, False)
    not_replayable = None
    if query is None or outcome == "invalid":
        not_replayable = "the query could not be read"
    elif not kept_text.is_full:
        not_replayable = f"query text is not kept (ORION_QUERY_TEXT={kept_text.mode})"
    elif len(text) > QUERY_CHARS:
        not_replayable = f"of the query the first {QUERY_CHARS:,} characters are kept"
    elif not is_whole or not kept_text.keeps(text) or not kept_text.keeps(query.intent):
        not_replayable = "words of the query are redacted (ORION_REDACT)"
    found: dict[str, Any] = {"selected_ids": [], "backend_counts": {}, "dropped": {}}
    if recalled:
        found = _of_recall(recalled, kept_text)
    found["latency_ms"] = latency_ms  # rounded by the field
    return RecallDecisionV1(
        id=facts.decision_id,
        **{name: getattr(facts, name) for name in _OF_FACTS},
        **{name: value for name, value in sent.items() if isinstance(value, str)},
        intent=kept_text.intent(query.intent) if query else None,
        query=kept_text.query(text),
        query_chars=len(text),
        user_id=query.options.user if query and query.options else None,
        created_at=created_at or datetime.now(UTC),
        outcome=outcome,
        error=error,
        read_at=(dict(recalled.read_at) or None) if recalled else None,
        candidates=candidates_of(recalled, facts.candidates) if recalled and facts.candidates else None,
        asked=told,
        not_replayable=not_replayable,
        stage_ms={**(recalled.stage_ms if recalled else {}), "total": latency_ms},
        **found,
    )


def figures(recalled: Recalled) -> dict[str, Any]:
    """What reply and decision both have of a recall; under `sources` status, hits and milliseconds of every source,
    of reranking (`rerank`) and late interaction (`late`)."""
    sources = {str(report.source): _stats(report, len(report.hits), report.fallback) for report in recalled.reports}
    models = {"rerank": recalled.reranking, "late": recalled.late_interaction}
    return {
        "backend_counts": backend_counts(recalled.reports),
        "sources": sources
        | {name: _stats(model, model.count) for name, model in models.items() if model is not None},
        "dropped": dict(recalled.selection.dropped),
        "tokens": recalled.selection.tokens,
        "confidence": recalled.confidence.overall,
        "unsure": recalled.is_unsure,
    }


def _of_recall(recalled: Recalled, kept_text: KeptText) -> dict[str, Any]:
    items, known = [item.scored for item in recalled.selection.items], recalled.understood
    known_json = known and kept_text.redaction.json(understood(known, with_words=kept_text.is_full))
    return figures(recalled) | {
        "scope": scope_name(recalled.scope),
        "selected_ids": [item.memory.id for item in items],
        "selected": [_selected(item, recalled) for item in recalled.selection.items],
        "weights": _weights(items),
        "understood": known_json,
        "cascade": cascade_json(recalled),
        "no_answer": recalled.withheld,
        "answer_probability": recalled.confidence.probability,
        "strategy": recalled.strategy,
    }


def _selected(shown: SelectedItem, recalled: Recalled) -> SelectedV1:
    item, cascade = shown.scored, recalled.cascade
    candidate = item.candidate
    sure = recalled.confidence.items.get(candidate.key)
    return SelectedV1(
        id=item.memory.id,
        source=candidate.best_source,
        score=item.score,
        parts=rounded_parts(item.parts),
        ranks={str(source): rank for source, rank in candidate.ranks.items()},
        confidence=None if sure is None else confidence_json(sure),
        layer=cascade.layers[candidate.key] if cascade else None,
        tokens=shown.tokens,
        succeeds=succession(item.succeeds),
        ended_by=succession(item.ended),
    )


def _weights(items: Sequence[ScoredCandidate]) -> dict[str, float] | None:
    if not items or any(item.weights != items[0].weights for item in items[1:]):
        return None
    named = {name for item in items for name in item.parts}
    return {name: round(one, _DIGITS) for name, one in items[0].weights.items() if one > 0 and name in named}


def candidates_to_keep(profile: Profile, corr_id: str, *, is_traced: bool) -> int:
    """How many candidates a decision keeps; 0 for most. The correlation id decides, so that all workers agree."""
    kept = profile.decisions
    is_drawn = kept.share > 0 and number_of("candidates", corr_id) < kept.share * _WHOLE
    return kept.candidates if is_traced or is_drawn else 0


def candidates_of(recalled: Recalled, most: int) -> list[CandidateV1]:
    """The best candidates: those of the final order, then those that were dropped before it."""
    if (result := recalled.result) is None:
        return []
    cascade, selection = recalled.cascade, recalled.selection
    in_order = tuple(one for item in recalled.ranked for one in (item, *item.same))
    others = left_out(result, {item.candidate.key for item in in_order})
    ranked = in_order[: most - min(len(others), most // _ROOM_OF_OTHERS)]
    kept = {item.scored.candidate.key for item in selection.items}
    told: list[CandidateV1] = []
    for place, item in enumerate(ranked, start=1):
        key = item.candidate.key
        fate = {"place": place, "kept": key in kept, "dropped": selection.left_out.get(key)}
        layer = cascade.layers[key] if cascade else None
        told.append(_of(item.candidate, item.memory, item, layer=layer, **fate))
    names = {item.candidate.key: item.memory.id for item in (*result.scored, *in_order)}
    is_of_layers = cascade is not None and cascade.is_merged  # then the score of one layer is of another scale
    for candidate, memory, item, reason, for_key in others[: most - len(ranked)]:
        of_scale = None if is_of_layers else item
        told.append(_of(candidate, memory, of_scale, dropped=reason, dropped_for=names.get(for_key or 0)))
    return told


def _of(candidate: Candidate, memory: MemoryView, item: ScoredCandidate | None, **told: Any) -> CandidateV1:
    of_item: dict[str, Any] = {}
    if item is not None:  # the parts that count: those with a weight
        weights = {part: item.weights[part] for part in item.parts if item.weights.get(part, 0.0) > 0}
        of_item = {
            "score": item.score,
            "parts": {part: round(item.parts[part], _DIGITS) for part in weights},
            "succeeds": succession(item.succeeds),
            "ended_by": succession(item.ended),
            "weights": weights,
        }
    return CandidateV1(
        id=memory.id,
        source=candidate.best_source,
        ranks={str(source): rank for source, rank in candidate.ranks.items()},
        led_by=candidate.led_by,
        fused=round(candidate.fused, _DIGITS),
        **of_item,
        **told,
    )


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
    return link and SuccessionV1(id=link.id, reason=link.reason, evidence=list(link.evidence))


def cascade_json(recalled: Recalled) -> CascadeV1 | None:
    """A cascade's path, and why it went on and ended; None without one."""
    if (run := recalled.cascade) is None:
        return None
    primary, *further = run.path
    asked = [step for step in further if step.not_asked is None]
    layers = Counter(str(run.layers[item.scored.candidate.key]) for item in recalled.selection.items)
    return CascadeV1(
        primary_layer=primary.layer,
        primary_confidence=primary.confidence,
        cascaded_to=[step.layer for step in asked],
        cascade_confidences=[step.confidence for step in asked],
        final_confidence=recalled.confidence.overall,
        threshold=run.limits.cascade.threshold,
        min_relevance=run.limits.cascade.min_relevance,
        depth=max(step.depth for step in run.path if step.not_asked is None or step.depth == 0),
        max_depth=run.limits.cascade.max_depth,
        ended=run.ended,
        trigger=_trigger(primary, run),
        merge_strategy=run.limits.cascade.merge.name if run.is_merged else None,
        combined=dict(layers),
        path=list(run.path),
    )


@lru_cache(maxsize=256)
def confidence_json(confidence: Confidence) -> ConfidenceV1:
    """One item's confidence and factors, rounded to 1e-6: the same model for reply and decision."""
    fields: dict[str, Any] = confidence._asdict()
    return ConfidenceV1(**{name: one if name == "level" else round(one, _DIGITS) for name, one in fields.items()})


def backend_counts(reports: tuple[SourceReport, ...]) -> dict[str, int]:
    """Hits of every source that was asked."""
    return {report.source: len(report.hits) for report in reports if report.status != "off"}


def _stats(of: SourceReport | ModelReport, count: int, fallback: str | None = None) -> SourceStats:
    stood_in = {} if fallback is None else {"stood_in": fallback}
    return SourceStats(status=of.status, count=count, ms=round(of.ms, 3), error=of.error, **stood_in)


def _trigger(primary: CascadeStepV1, run: CascadeRun) -> Trigger:
    if primary.not_asked is not None:
        return "not_asked"
    if primary.confidence is None:
        return "nothing_found"
    if primary.confidence < run.limits.cascade.threshold:
        return "confidence_below_threshold"
    if run.ended == "confident" and len(run.path) == 1:
        return "sure"
    return "relevance_unknown" if primary.relevance is None else "relevance_below_minimum"


def understood(understanding: Understanding, *, with_words: bool = True) -> dict[str, Any]:
    """JSON; `with_words` is False where no text of the query may be kept. An interval's open end is null."""
    time = understanding.question.time
    told: dict[str, Any] = {
        "intervals": [
            {
                "from": _instant(interval.start),
                "until": _instant(interval.end),
                "kind": interval.kind,
                **({"words": interval.words} if with_words else {}),
            }
            for interval in time.intervals
        ],
        "asks_when": time.asks_when,
        "session": None if time.session is None else ordinal(time.session),
        "of": time.of if time.intervals else None,
        "widened": time.widened,
    }
    classified, said = understanding.classified, understanding.said_by
    rest: dict[str, Any] = {"class": classified.query_class, "shape": understanding.shape}
    if with_words:
        rest["class_words"] = list(classified.words)
        rest["people"] = list(understanding.people)
        if understanding.asker is not None:
            rest["asker"] = understanding.asker
        if said is not None:  # `only`: nothing else answers, `then`: of a time as well
            rest["said_by"] = {
                "name": said.name,
                "speakers": list(said.speakers),
                "about": said.topic,
                "only": said.is_strict,
                "then": bool(said.intervals),
            }
        rest["entities"] = [{"name": entity.name, "kind": entity.kind} for entity in understanding.entities]
    return {"time": told, **rest}


def _instant(moment: float | None) -> str | None:
    """As ISO 8601; None for what is open, or beyond the years that a calendar has."""
    if moment is None:
        return None
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None
