"""Why a memory is not in an answer: the first stage of the recall that lost it, its code, and by how much.

What the decision kept decides; the rest is found out by asking again. `sentences.why_not_sentence` has the words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, cast

from orion_recall.contracts import RecallDecisionV1
from orion_recall.contracts.recall import CandidateV1, SourceStats
from orion_recall.decisions.memories import MemoryFacts
from orion_recall.recall.report.asked import Limits, asked_part, options_of
from orion_recall.values import JsonValue

Stage = Literal[
    "kept", "kept_now", "not_searched", "not_stored", "deleted", "not_indexed", "scope", "filter", "time", "source",
    "never_found", "rank_pool", "near_duplicate", "superseded", "score", "cap", "budget", "unknown",
]  # fmt: skip
"""`kept`: it is in the answer. `kept_now`: it was not, and would be now. `unknown`: it cannot be known any more."""
Unit = Literal["places", "score", "tokens", "seconds", "changes"]
_STAGES: Mapping[str, Stage] = {
    **dict.fromkeys(
        ("excluded", "own_turn", "not_said_by", "other_people", "instructs_reader", "filtered"), "filter"
    ),
    **dict.fromkeys(
        ("source_top_k", "max_per_source", "repetition", "max_total_items", "over_fetch", "unsure"), "cap"
    ),
    **dict.fromkeys(("below_min_score", "no_answer"), "score"),
    "near_duplicate": "near_duplicate",
    "superseded": "superseded",
    "token_budget": "budget",
    "other_time": "time",
}
"""The stages of the reasons for which candidates are dropped."""
_IDS = ("session_id", "user_id", "agent_id", "run_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """The first stage that lost a memory, by how much (None where that is no number), and the detail.

    `code` is the stage's detail, `facts` its numbers and ids. `notes` say what it was found out from.
    """

    stage: Stage
    code: str
    by_how_much: float | None = None
    unit: Unit | None = None
    facts: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one memory in a recall, beside what its candidates say.

    `deep_ranks` are its ranks in longer lists, of the length `deepest`. `pool_place` is its place after the fusion,
    `reason` why it is no named candidate, `tokens` what its shortest line would take, where there was no room for
    it.
    """

    ranks: Mapping[str, int] = field(default_factory=dict[str, int])
    deep_ranks: Mapping[str, int] = field(default_factory=dict[str, int])
    deepest: int = 0
    pool_place: int | None = None
    reason: str | None = None
    tokens: int | None = None


def lost_as_candidate(
    decision: RecallDecisionV1, memory_id: str, limits: Limits | None, fate: Fate | None = None
) -> WhyNot | None:
    """What the decision's own candidates say of the memory; None where they do not name it."""
    candidates = decision.candidates or []
    if memory_id in decision.selected_ids:
        return WhyNot(stage="kept", code="kept", facts={"place": decision.selected_ids.index(memory_id) + 1})
    one = next((each for each in candidates if each.id == memory_id), None)
    if one is None:
        return None
    code = one.dropped or "no_reason"
    lost = WhyNot(stage=_STAGES.get(code, "unknown"), code=code)
    if lost.stage in ("near_duplicate", "superseded"):
        other = next((each.score for each in candidates if each.id == one.dropped_for), None)
        return _by_score(lost, one.score, other, {"for": one.dropped_for})
    if code == "no_answer":
        facts = decision.no_answer.model_dump(mode="json", exclude={"near_misses"}) if decision.no_answer else {}
        return _by_score(lost, facts.get("value"), facts.get("minimum"), facts)
    if lost.stage == "score":
        least = limits and limits.min_score
        return _by_score(lost, one.score, least, {"score": one.score, "minimum": least})
    if lost.stage == "cap":
        return _capped(lost, one, candidates)
    if lost.stage != "budget":
        return lost
    if limits is None:
        return replace(lost, facts={"place": one.place})
    left = max(limits.budget_tokens - decision.tokens, 0)
    by = None if fate is None or fate.tokens is None or fate.tokens <= left else float(fate.tokens - left)
    facts = {"place": one.place, "budget": limits.budget_tokens, "left": left}
    return replace(lost, facts=facts, by_how_much=by, unit="tokens" if by else None)


def lost_in_search(
    decision: RecallDecisionV1, again: RecallDecisionV1, memory_id: str, limits: Limits, fate: Fate, *, data: str
) -> WhyNot | None:
    """What asking again, on this `data`, says of a memory that the decision does not name; None where no list has
    it."""
    silent, still = _silent(decision.sources), _silent(again.sources)
    found_by = sorted(fate.ranks or fate.deep_ranks)
    named = lost_as_candidate(again, memory_id, limits, fate)
    if (found_by and set(found_by) <= set(silent)) or (not found_by and named is None and still):
        facts: dict[str, JsonValue] = {"found_by": [*found_by], "silent": silent or still}
        return WhyNot(stage="source", code="silent", facts=facts)
    if not found_by and named is None and silent:
        return None
    if named is not None and named.stage != "kept":
        return named
    if named is not None:
        return WhyNot(stage="kept_now", code="kept_now", facts={**named.facts, "data": data})
    if fate.reason == "deleted":
        return WhyNot(stage="not_indexed", code="changed_just_then")
    if fate.reason is not None:
        return WhyNot(stage="filter", code=fate.reason)
    if fate.ranks:
        place = fate.pool_place
        lost = WhyNot(stage="rank_pool", code="rank_pool", facts={"ranks": {**fate.ranks}, "place": place})
        return lost if place is None else _by_places(lost, place - limits.rank_pool)
    if fate.deep_ranks and min(fate.deep_ranks.values()) <= limits.source_limit:
        return _narrowed(again)
    if not fate.deep_ranks:
        return None
    rank, best = min((rank, name) for name, rank in fate.deep_ranks.items())
    facts = {"source": best, "place": rank, "limit": limits.source_limit}
    return _by_places(WhyNot(stage="rank_pool", code="beyond_lists", facts=facts), rank - limits.source_limit)


def never_found(fate: Fate) -> WhyNot:
    """No list has it, however long."""
    return WhyNot(stage="never_found", code="never_found", facts={"deepest": fate.deepest})


def _by_places(lost: WhyNot, places: int) -> WhyNot:
    return replace(lost, by_how_much=float(max(places, 1)), unit="places")


def _by_score(lost: WhyNot, own: float | None, wanted: float | None, facts: Mapping[str, JsonValue]) -> WhyNot:
    by = None if own is None or wanted is None else round(wanted - own, 6)
    return replace(lost, by_how_much=by, unit=None if by is None else "score", facts=facts)


def _silent(sources: Mapping[str, SourceStats]) -> dict[str, JsonValue]:
    return {
        name: {"status": one.status, "error": one.error}
        for name, one in sources.items()
        if one.status in ("failed", "late")
    }


def _capped(lost: WhyNot, one: CandidateV1, candidates: Sequence[CandidateV1]) -> WhyNot:
    """By how many places it missed the last that was kept; of those of its source, where that had its share."""
    of_source = lost.code in ("source_top_k", "max_per_source")
    order = [each for each in candidates if each.place and (not of_source or each.source == one.source)]
    kept = [each.place or 0 for each in order if each.kept]
    lost = replace(lost, facts={"source": one.source, "place": one.place, "kept": len(kept)})
    if one.place is None or not kept or lost.code == "repetition":
        return lost
    beyond = sum(max(kept) < (each.place or 0) <= one.place for each in order)
    return _by_places(lost, beyond if of_source else one.place - max(kept))


def _narrowed(again: RecallDecisionV1) -> WhyNot:
    """It would be found, were the search as wide as scope and options are: the question itself narrows it."""
    understood = again.understood or {}
    time = understood.get("time")
    if isinstance(time, dict) and time.get("intervals"):
        return WhyNot(stage="time", code="other_time")
    if understood.get("said_by"):
        return WhyNot(stage="filter", code="not_said_by")
    return WhyNot(stage="rank_pool", code="end_of_lists")


def lost_by_record(decision: RecallDecisionV1, memory: MemoryFacts) -> WhyNot | None:
    """The stage before any search that lost it; None where it could have been found."""
    asked_at = decision.created_at
    if memory.recorded_at > asked_at:
        return _by_seconds(WhyNot(stage="not_stored", code="stored_later"), asked_at, memory.recorded_at)
    if memory.gone_at is not None and memory.gone_at <= asked_at:
        return _gone(memory, memory.gone_at, asked_at)
    read = (decision.read_at or {}).get("index")
    if read is not None and memory.unread is not None and memory.unread_at and memory.unread_at <= asked_at:
        return WhyNot(stage="not_indexed", code="behind", by_how_much=float(memory.unread - read), unit="changes")
    return _not_asked_for(decision, memory)


def lost_since(decision: RecallDecisionV1, memory: MemoryFacts) -> WhyNot | None:
    """That a memory was deleted after the decision, so that asking again says nothing of it."""
    return None if memory.gone_at is None else _gone(memory, memory.gone_at, decision.created_at)


def time_of(decision: RecallDecisionV1, memory: MemoryFacts, lost: WhyNot) -> WhyNot:
    """A memory lost by the question's time, with how far it is from the nearest interval."""
    if (at := memory.at) is None:
        return replace(lost, facts={**lost.facts, "undated": True})
    time = (decision.understood or {}).get("time")
    intervals = cast("Mapping[str, Any]", time).get("intervals", ()) if isinstance(time, Mapping) else ()
    ends = [
        [datetime.fromisoformat(told) if told else at for told in (one["from"], one["until"])] for one in intervals
    ]
    gaps = [max((start - at).total_seconds(), (at - end).total_seconds(), 0.0) for start, end in ends]
    return replace(lost, by_how_much=round(min(gaps), 3), unit="seconds") if gaps else lost


def _by_seconds(lost: WhyNot, one: datetime, other: datetime) -> WhyNot:
    return replace(lost, by_how_much=round(abs((one - other).total_seconds()), 3), unit="seconds")


def _gone(memory: MemoryFacts, gone_at: datetime, asked_at: datetime) -> WhyNot:
    facts: dict[str, JsonValue] = {"when": "before" if gone_at <= asked_at else "after", "by": memory.superseded_by}
    code = "replaced" if memory.superseded_by else "deleted"
    return _by_seconds(WhyNot(stage="deleted", code=code, facts=facts), gone_at, asked_at)


def _not_asked_for(decision: RecallDecisionV1, memory: MemoryFacts) -> WhyNot | None:
    scope, options = asked_part(decision, "scope"), options_of(decision)
    for name in _IDS:
        if (wanted := scope.get(name)) is not None and (own := getattr(memory, name)) != wanted:
            facts: dict[str, JsonValue] = {"what": name.removesuffix("_id"), "wanted": str(wanted), "own": own}
            return WhyNot(stage="scope", code="other_scope", facts=facts)
    kinds, tags = scope.get("kinds") or (), scope.get("tags") or ()
    if kinds and not {memory.kind, memory.guessed_kind}.intersection(kinds):
        return WhyNot(stage="filter", code="other_kind", facts={"wanted": [*kinds], "own": memory.kind})
    if tags and not set(memory.tags).intersection(tags):
        return WhyNot(stage="filter", code="other_tag", facts={"wanted": [*tags]})
    if memory.id in options.exclude:
        return WhyNot(stage="filter", code="excluded")
    at, since, until = memory.at, options.since, options.until
    if at is None:
        return WhyNot(stage="time", code="undated") if since or until else None
    if options.as_of is not None and at > options.as_of:
        return _by_seconds(WhyNot(stage="time", code="after_as_of"), at, options.as_of)
    if until is not None and at >= until:
        return _by_seconds(WhyNot(stage="time", code="after_until"), at, until)
    if since is not None and at < since:
        return _by_seconds(WhyNot(stage="time", code="before_since"), at, since)
    return None
