"""Why a memory is not in an answer: the first stage of the recall that lost it, and by how much.

A memory is lost by the record (deleted, not stored or not indexed yet), by what was asked (scope, filter, time),
by the search (a source that was silent, a list that was too short, no list at all), or by the ranking (a
near-duplicate, its score, a cap, the budget of tokens). What the decision kept decides; the rest is found out by
asking again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from orion_recall.contracts import CandidateV1, RecallDecisionV1, SourceStats
from orion_recall.recall.report.asked_again import Limits
from orion_recall.recall.report.explain_words import ordinal
from orion_recall.text.normal import one_line

Stage = Literal[
    "kept",
    "kept_now",
    "not_searched",
    "not_stored",
    "deleted",
    "not_indexed",
    "scope",
    "filter",
    "time",
    "source",
    "never_found",
    "rank_pool",
    "near_duplicate",
    "superseded",
    "score",
    "cap",
    "budget",
    "unknown",
]
"""`kept`: it is in the answer. `kept_now`: it was not, and would be now. `unknown`: it cannot be told any more."""
Unit = Literal["places", "score", "tokens", "seconds", "changes"]
_FILTERS: Mapping[str, str] = {
    "excluded": "The query leaves it out by its id (options.exclude, or the turn that is answered).",
    "own_turn": "It is taken as the question itself, just said.",
    "not_said_by": "The question is taken as asking for what somebody said, and it is not among that: said by "
    "somebody else, at another time, or not found to be about what is asked.",
    "other_people": "None of the people whom the question names was found in it.",
    "instructs_reader": "It reads as an instruction to its reader, and the profile holds such memories back "
    "(reader_instructions).",
    "filtered": "The query may not see it: it is outside its scope or filters.",
}
_CAPS: Mapping[str, str] = {
    "source_top_k": "Its source had brought all that it may",
    "max_per_source": "There were enough items of its source (max_per_source)",
    "repetition": "An item before it has most of its words (max_repetition)",
    "max_total_items": "The bundle was full (k, max_total_items)",
    "over_fetch": "Its layer of the cascade had brought all that it may",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """The first stage that lost a memory, by how much (None where that is no number), and both in words.

    `by_how_much` is in `unit`: places of a list, points of the score, tokens, seconds, or changes of the record.
    `notes` say what it was found out from.
    """

    stage: Stage
    by_how_much: float | None = None
    unit: Unit | None = None
    words: str
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
    one = next((each for each in candidates if each.id == memory_id), None)
    if memory_id in decision.selected_ids:
        place = decision.selected_ids.index(memory_id) + 1
        return WhyNot(stage="kept", words=f"It was handed over: it is {ordinal(place)} in the answer.")
    if one is None:
        return None
    reason = one.dropped or ""
    if reason in ("near_duplicate", "superseded"):
        return _for_another(one, candidates)
    if reason == "below_min_score" or reason == "no_answer":
        return _too_low(decision, one, limits)
    if reason in _CAPS:
        return _beyond_source(one, limits, candidates) or _capped(one, reason, candidates)
    if reason == "token_budget":
        return _no_tokens(decision, one, limits, fate)
    if reason == "other_time":
        return WhyNot(stage="time", words="It is not of the time that the question names.")
    if reason in _FILTERS:
        return WhyNot(stage="filter", words=_FILTERS[reason])
    return WhyNot(stage="unknown", words=f"It was left out: {reason or 'no reason was kept'}.")


def lost_in_search(
    decision: RecallDecisionV1, again: RecallDecisionV1, memory_id: str, limits: Limits, fate: Fate, *, data: str
) -> WhyNot | None:
    """What asking again says of a memory that the decision does not name; None where no list has it at all.

    `data` says in words on which data it was asked again.
    """
    silent = {name: one for name, one in decision.sources.items() if one.status in ("failed", "late")}
    found_by = set(fate.ranks or fate.deep_ranks)
    named = lost_as_candidate(again, memory_id, limits, fate)
    if found_by and found_by <= set(silent):
        return WhyNot(
            stage="source", words=f"Only {_and(sorted(found_by))} would have found it, and {_silent(silent)}."
        )
    still = {name: one for name, one in again.sources.items() if one.status in ("failed", "late")}
    if not found_by and named is None and (silent or still):
        words = f"No other source finds it: {_silent(silent or still)}."
        return WhyNot(stage="source", words=words) if still else None
    if named is not None and named.stage != "kept":
        return named
    if named is not None:
        place = ordinal(again.selected_ids.index(memory_id) + 1)
        words = f"It was not in the logged answer; asked again on {data}, it would be {place}"
        return WhyNot(stage="kept_now", words=f"{words}: data, build or times have changed since.")
    if fate.reason == "deleted":
        words = "It was changed or deleted just then: index and graph had not applied that yet."
        return WhyNot(stage="not_indexed", words=words)
    if fate.reason is not None:
        return WhyNot(stage="filter", words=_FILTERS.get(fate.reason, f"It was left out: {fate.reason}."))
    if fate.ranks:
        return _beyond_pool(limits, fate)
    if fate.deep_ranks and min(fate.deep_ranks.values()) <= limits.source_limit:
        return _narrowed(again)
    return _beyond_lists(limits, fate) if fate.deep_ranks else None


def _silent(sources: Mapping[str, SourceStats]) -> str:
    told = [f"{name} was {one.status} ({one.error or 'no reason given'})" for name, one in sources.items()]
    return "; ".join(told)


def never_found(fate: Fate) -> WhyNot:
    """No list has it, however long."""
    words = (
        f"No source finds it, in lists of up to {fate.deepest:,}: neither by the question's words, nor from what "
        "the question names, nor near enough in meaning (min_similarity)."
    )
    return WhyNot(stage="never_found", words=words)


def _for_another(one: CandidateV1, candidates: Sequence[CandidateV1]) -> WhyNot:
    other = next((each for each in candidates if each.id == one.dropped_for), None)
    name = one_line(one.dropped_for) if one.dropped_for else "another memory"
    is_repeated = one.dropped == "near_duplicate"
    words = f"It is nearly the same as {name}, which was kept in its place"
    if not is_repeated:
        words = f"It has a successor, {name}, and the profile leaves such memories out (superseded)"
    by = None if other is None or other.score is None or one.score is None else other.score - one.score
    told = "" if by is None else f" (its score is {abs(by):.3f} {'lower' if by >= 0 else 'higher'})"
    return WhyNot(
        stage="near_duplicate" if is_repeated else "superseded",
        by_how_much=by if by is None else round(by, 6),
        unit=None if by is None else "score",
        words=f"{words}{told}.",
    )


def _too_low(decision: RecallDecisionV1, one: CandidateV1, limits: Limits | None) -> WhyNot:
    if one.dropped == "no_answer":
        by = None if limits is None else _short_of_minimum(decision, limits)
        reason = decision.no_answer.reason if decision.no_answer else "it was not sure enough"
        words = f"It was found and withheld with the whole answer: {reason}"
        return WhyNot(stage="score", by_how_much=by, unit=None if by is None else "score", words=f"{words}.")
    if limits is None or one.score is None:
        return WhyNot(stage="score", words="Its score is under min_score.")
    by = round(limits.min_score - one.score, 6)
    words = f"Its score {one.score:.3f} is {by:.3f} under min_score {limits.min_score:g}."
    return WhyNot(stage="score", by_how_much=by, unit="score", words=words)


def _short_of_minimum(decision: RecallDecisionV1, limits: Limits) -> float | None:
    """By how much the first number that is under its minimum misses it."""
    best = max((one.score or 0.0 for one in decision.candidates or ()), default=None)
    numbers = (
        (decision.answer_probability, limits.minima.min_probability),
        (decision.confidence, limits.minima.min_confidence),
        (best, limits.minima.min_score),
    )
    return next((round(least - value, 6) for value, least in numbers if value is not None and value < least), None)


def _beyond_source(one: CandidateV1, limits: Limits | None, candidates: Sequence[CandidateV1]) -> WhyNot | None:
    """By how many places it missed what its source may bring; None where that is not known."""
    if one.dropped != "source_top_k" or one.place is None or limits is None:
        return None
    # The cap counts all of the source in the order, whether they were handed over or not.
    place = 1 + sum(each.source == one.source and 0 < (each.place or 0) < one.place for each in candidates)
    cap = limits.source_caps[one.source]
    if place <= cap.most:
        return None
    words = (
        f"{_CAPS['source_top_k']}: it is {ordinal(place)} of {one.source} in the order. {cap.words}; it would have "
        f"to be {place}, with room for so many in the answer."
    )
    return WhyNot(stage="cap", by_how_much=float(place - cap.most), unit="places", words=words)


def _capped(one: CandidateV1, reason: str, candidates: Sequence[CandidateV1]) -> WhyNot:
    kept = [each for each in candidates if each.kept and each.place is not None]
    if reason == "source_top_k":
        return WhyNot(stage="cap", words=f"{_CAPS[reason]} ({one.source}), and then there was no room.")
    if reason == "max_per_source":
        of_source = [each for each in candidates if each.source == one.source and each.place is not None]
        before = sum((each.place or 0) < (one.place or 0) for each in of_source)
        by = max(before - sum(each.kept for each in of_source) + 1, 1)
        told = f"{before} of {one.source} are ranked before it"
    elif one.place is not None and kept:
        by = max(one.place - max(each.place or 0 for each in kept), 1)
        told = f"it is {ordinal(one.place)} in the order, and {len(kept)} were handed over"
    else:
        return WhyNot(stage="cap", words=f"{_CAPS[reason]}.")
    if reason == "repetition":
        return WhyNot(stage="cap", words=f"{_CAPS[reason]}, and then there was no room: {told}.")
    return WhyNot(stage="cap", by_how_much=float(by), unit="places", words=f"{_CAPS[reason]}: {told}.")


def _no_tokens(decision: RecallDecisionV1, one: CandidateV1, limits: Limits | None, fate: Fate | None) -> WhyNot:
    place = "" if one.place is None else f"It is {ordinal(one.place)} in the order. "
    if limits is None:
        return WhyNot(
            stage="budget", words=f"{place}No tokens were left for it (max_tokens, render_budget_tokens)."
        )
    left = max(limits.budget_tokens - decision.tokens, 0)
    told = f"{place}Of {limits.budget_tokens} tokens (max_tokens, render_budget_tokens) {left} were left"
    if fate is None or fate.tokens is None:
        return WhyNot(stage="budget", words=f"{told}, and its line needs more.")
    by = fate.tokens - left
    if by <= 0:
        words = f"{told}; items before it did not fit, and after so many no more are tried (over_budget)."
        return WhyNot(stage="budget", words=words)
    words = f"{told}, and its shortest line needs {fate.tokens}."
    return WhyNot(stage="budget", by_how_much=float(by), unit="tokens", words=words)


def _beyond_pool(limits: Limits, fate: Fate) -> WhyNot:
    told = _and([f"{ordinal(rank)} of {name}" for name, rank in _best_first(fate.ranks)])
    if fate.pool_place is None:
        return WhyNot(
            stage="rank_pool", words=f"It is {told}, and not among the {limits.rank_pool} that are ranked."
        )
    by = max(fate.pool_place - limits.rank_pool, 1)
    words = (
        f"It is {told}, and {ordinal(fate.pool_place)} after the fusion; the first {limits.rank_pool} are ranked "
        "in full (rank_pool)."
    )
    return WhyNot(stage="rank_pool", by_how_much=float(by), unit="places", words=words)


def _narrowed(again: RecallDecisionV1) -> WhyNot:
    """It would be found, were the search as wide as scope and options are: the question itself narrows it."""
    understood = again.understood or {}
    time = understood.get("time")
    if isinstance(time, dict) and time.get("intervals"):
        return WhyNot(
            stage="time", words="It is not of the time that the question names, and that alone was searched."
        )
    if understood.get("said_by"):
        return WhyNot(stage="filter", words=_FILTERS["not_said_by"])
    return WhyNot(
        stage="rank_pool",
        words="It is near the end of its lists, where a search may break off at another place each time.",
    )


def _beyond_lists(limits: Limits, fate: Fate) -> WhyNot:
    (best, rank), *_ = _best_first(fate.deep_ranks)
    words = (
        f"It is not among the first {limits.source_limit} of any source (budget): it is {ordinal(rank)} of {best}."
    )
    by = max(rank - limits.source_limit, 1)
    return WhyNot(stage="rank_pool", by_how_much=float(by), unit="places", words=words)


def _best_first(ranks: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(ranks.items(), key=lambda one: (one[1], one[0]))


def _and(parts: Sequence[str]) -> str:
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"
