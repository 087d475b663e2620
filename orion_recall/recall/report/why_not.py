"""Why a memory is not in an answer: the first stage of the recall that lost it, its code, and by how much.

A memory is lost by the record (deleted, not stored or not indexed yet), by what was asked (scope, filter, time),
by the search (a source that was silent, a list that was too short, no list at all), or by the ranking (a
near-duplicate, its score, a cap, the budget of tokens). What the decision kept decides; the rest is found out by
asking again. `sentences.why_not_sentence` has the words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from orion_recall.contracts import CandidateV1, RecallDecisionV1, SourceStats
from orion_recall.recall.report.asked import Limits
from orion_recall.values import JsonValue

Stage = Literal[
    "kept", "kept_now", "not_searched", "not_stored", "deleted", "not_indexed", "scope", "filter", "time", "source",
    "never_found", "rank_pool", "near_duplicate", "superseded", "score", "cap", "budget", "unknown",
]  # fmt: skip
"""`kept`: it is in the answer. `kept_now`: it was not, and would be now. `unknown`: it cannot be known any more."""
Unit = Literal["places", "score", "tokens", "seconds", "changes"]
FILTERS = frozenset({"excluded", "own_turn", "not_said_by", "other_people", "instructs_reader", "filtered"})
CAPS = frozenset({"source_top_k", "max_per_source", "repetition", "max_total_items", "over_fetch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """The first stage that lost a memory, by how much (None where that is no number), and the detail.

    `by_how_much` is in `unit`: places of a list, points of the score, tokens, seconds, or changes of the record.
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

    `ranks` are its ranks in the lists that were searched, `deep_ranks` those in longer lists, `deepest` the length
    of these. `pool_place` is its place after the fusion, `reason` why it is no named candidate, `tokens` what its
    shortest line would take, where there was no room for it.
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
    reason = one.dropped or "no_reason"
    if reason in ("near_duplicate", "superseded"):
        return _for_another(one, candidates)
    if reason in ("below_min_score", "no_answer"):
        return _too_low(decision, one, limits)
    if reason == "unsure":
        most = sum(each.kept for each in candidates)
        by = None if one.place is None else float(max(one.place - most, 1))
        return WhyNot(stage="cap", code=reason, by_how_much=by, unit="places" if by else None, facts={"kept": most})
    if reason in CAPS:
        return _beyond_source(one, limits, candidates) or _capped(one, reason, candidates)
    if reason == "token_budget":
        return _no_tokens(decision, one, limits, fate)
    if reason == "other_time":
        return WhyNot(stage="time", code=reason)
    return WhyNot(stage="filter" if reason in FILTERS else "unknown", code=reason)


def lost_in_search(
    decision: RecallDecisionV1, again: RecallDecisionV1, memory_id: str, limits: Limits, fate: Fate, *, data: str
) -> WhyNot | None:
    """What asking again says of a memory that the decision does not name; None where no list has it at all.

    `data` names the data on which it was asked again.
    """
    silent, still = _silent(decision.sources), _silent(again.sources)
    found_by = sorted(fate.ranks or fate.deep_ranks)
    named = lost_as_candidate(again, memory_id, limits, fate)
    if found_by and set(found_by) <= set(silent):
        return WhyNot(stage="source", code="silent", facts={"found_by": [*found_by], "silent": {**silent}})
    if not found_by and named is None and still:
        return WhyNot(stage="source", code="silent_again", facts={"silent": {**(silent or still)}})
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
        return _beyond_pool(limits, fate)
    if fate.deep_ranks and min(fate.deep_ranks.values()) <= limits.source_limit:
        return _narrowed(again)
    return _beyond_lists(limits, fate) if fate.deep_ranks else None


def never_found(fate: Fate) -> WhyNot:
    """No list has it, however long."""
    return WhyNot(stage="never_found", code="never_found", facts={"deepest": fate.deepest})


def _silent(sources: Mapping[str, SourceStats]) -> dict[str, JsonValue]:
    return {
        name: {"status": one.status, "error": one.error}
        for name, one in sources.items()
        if one.status in ("failed", "late")
    }


def _for_another(one: CandidateV1, candidates: Sequence[CandidateV1]) -> WhyNot:
    other = next((each for each in candidates if each.id == one.dropped_for), None)
    by = None if other is None or other.score is None or one.score is None else round(other.score - one.score, 6)
    stage: Stage = "near_duplicate" if one.dropped == "near_duplicate" else "superseded"
    unit: Unit | None = None if by is None else "score"
    return WhyNot(stage=stage, code=stage, by_how_much=by, unit=unit, facts={"for": one.dropped_for})


def _too_low(decision: RecallDecisionV1, one: CandidateV1, limits: Limits | None) -> WhyNot:
    if one.dropped == "no_answer":
        why = decision.no_answer
        facts: dict[str, JsonValue] = {} if why is None else why.model_dump(mode="json", exclude={"near_misses"})
        by = None if why is None or why.value is None or why.minimum is None else round(why.minimum - why.value, 6)
        return WhyNot(
            stage="score", code="no_answer", by_how_much=by, unit=None if by is None else "score", facts=facts
        )
    if limits is None or one.score is None:
        return WhyNot(stage="score", code="below_min_score")
    return WhyNot(
        stage="score",
        code="below_min_score",
        by_how_much=round(limits.min_score - one.score, 6),
        unit="score",
        facts={"score": one.score, "minimum": limits.min_score},
    )


def _beyond_source(one: CandidateV1, limits: Limits | None, candidates: Sequence[CandidateV1]) -> WhyNot | None:
    """By how many places it missed what its source may bring; None where that is not known."""
    if one.dropped != "source_top_k" or one.place is None or limits is None:
        return None
    # The cap counts all of the source in the order, whether they were handed over or not.
    place = 1 + sum(each.source == one.source and 0 < (each.place or 0) < one.place for each in candidates)
    cap = limits.source_caps[one.source]
    if place <= cap.most:
        return None
    facts: dict[str, JsonValue] = {
        "source": one.source, "place": place, "most": cap.most, "key": cap.key, "value": cap.value
    }  # fmt: skip
    by = float(place - cap.most)
    return WhyNot(stage="cap", code="beyond_source_top_k", by_how_much=by, unit="places", facts=facts)


def _capped(one: CandidateV1, reason: str, candidates: Sequence[CandidateV1]) -> WhyNot:
    facts: dict[str, JsonValue] = {"source": one.source, "place": one.place}
    kept = [each for each in candidates if each.kept and each.place is not None]
    by: int | None = None
    if reason == "max_per_source":
        of_source = [each for each in candidates if each.source == one.source and each.place is not None]
        before = sum((each.place or 0) < (one.place or 0) for each in of_source)
        by = max(before - sum(each.kept for each in of_source) + 1, 1)
        facts["before"] = before
    elif reason in ("max_total_items", "over_fetch") and one.place is not None and kept:
        by = max(one.place - max(each.place or 0 for each in kept), 1)
        facts["kept"] = len(kept)
    return WhyNot(
        stage="cap",
        code=reason,
        by_how_much=None if by is None else float(by),
        unit=None if by is None else "places",
        facts=facts,
    )


def _no_tokens(decision: RecallDecisionV1, one: CandidateV1, limits: Limits | None, fate: Fate | None) -> WhyNot:
    if limits is None:
        return WhyNot(stage="budget", code="token_budget", facts={"place": one.place})
    left = max(limits.budget_tokens - decision.tokens, 0)
    facts: dict[str, JsonValue] = {"place": one.place, "budget": limits.budget_tokens, "left": left}
    if fate is None or fate.tokens is None:
        return WhyNot(stage="budget", code="line_too_long", facts=facts)
    by = fate.tokens - left
    if by <= 0:
        return WhyNot(stage="budget", code="not_tried", facts=facts)
    facts["tokens"] = fate.tokens
    return WhyNot(stage="budget", code="line_too_long", by_how_much=float(by), unit="tokens", facts=facts)


def _beyond_pool(limits: Limits, fate: Fate) -> WhyNot:
    facts: dict[str, JsonValue] = {"ranks": {**fate.ranks}, "rank_pool": limits.rank_pool}
    if fate.pool_place is None:
        return WhyNot(stage="rank_pool", code="rank_pool", facts=facts)
    by = float(max(fate.pool_place - limits.rank_pool, 1))
    facts["place"] = fate.pool_place
    return WhyNot(stage="rank_pool", code="rank_pool", by_how_much=by, unit="places", facts=facts)


def _narrowed(again: RecallDecisionV1) -> WhyNot:
    """It would be found, were the search as wide as scope and options are: the question itself narrows it."""
    understood = again.understood or {}
    time = understood.get("time")
    if isinstance(time, dict) and time.get("intervals"):
        return WhyNot(stage="time", code="time_searched")
    if understood.get("said_by"):
        return WhyNot(stage="filter", code="not_said_by")
    return WhyNot(stage="rank_pool", code="end_of_lists")


def _beyond_lists(limits: Limits, fate: Fate) -> WhyNot:
    rank, best = min((rank, name) for name, rank in fate.deep_ranks.items())
    return WhyNot(
        stage="rank_pool",
        code="beyond_lists",
        by_how_much=float(max(rank - limits.source_limit, 1)),
        unit="places",
        facts={"source": best, "place": rank, "limit": limits.source_limit},
    )
