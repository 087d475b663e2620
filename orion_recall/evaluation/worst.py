"""The queries with the worst scores under a profile: ranks of their evidence, and the kind of failure.

semantic_gap     a missed memory shares no content word with the question (stemmed): "ML", "machine learning"
several_words    a missed memory shares some of the question's content words, and not all: "quantum computing"
pronoun          the question or a missed memory refers by a pronoun: "that thing we discussed", "she sold it"
time             the question names a time, or asks for one
other_session    a missed memory is of another session than the query, or without one than the best memory

A query may have several of them, or none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.measures import Wanted, depths_with, judged, measure
from orion_recall.evaluation.trials import Trials, line_of
from orion_recall.models.sparse import SparseEncoder
from orion_recall.recall.types import Recalled
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.text.normal import memory_key
from orion_recall.values import NO_TIME, MemoryView, QuestionTime

FailureType = Literal["semantic_gap", "several_words", "pronoun", "time", "other_session"]
FAILURE_TYPES: tuple[FailureType, ...] = get_args(FailureType)

_SHOWN_MEMORIES = 3
_PRONOUN: Final = re.compile(
    r"\b(?:he|him|his|she|hers?|they|them|theirs?|it|its|(?:this|that|these|those) (?:thing|one|stuff)s?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One memory of the evidence: its rank, or None and why it is not ranked."""

    id: str
    rank: int | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstQuery:
    """One query, its value of the measure, its evidence, the best ranked memories, and the types of its failure."""

    query: JudgedQuery
    value: float
    evidence: tuple[Evidence, ...]
    found: tuple[ScoredCandidate, ...]
    failures: tuple[FailureType, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The worst queries, and of all below 1 how many there are and how often each type of failure."""

    queries: Sequence[WorstQuery]
    below: int
    failures: Counter[FailureType] = field(default_factory=Counter[FailureType])


async def worst(trials: Trials, *, by: str, limit: int, depth: int = 5) -> Worst:
    """The `limit` worst queries by the measure `by`; of equals those first whose evidence ranks lowest.

    Evidence at a rank beyond `depth` is missed.
    """
    profile, sparse = trials.plan.profile, SparseEncoder()
    wanted, found = Wanted(depths=depths_with(by, (depth,))), list[WorstQuery]()
    async for query, recalled in trials.recalls(profile, what=profile.profile, queries=judged(trials.plan.queries)):
        measured = measure({query.id: line_of(recalled)}, [query], wanted)
        value = float(measured.values[0, measured.measures.index(by)])
        if value < 1:
            evidence = tuple(_evidence(name, query, recalled) for name in sorted(query.evidence))
            missed = [each.id for each in evidence if each.rank is None or each.rank > depth]
            failures = await _failures(trials, sparse, query, recalled, missed)
            best = tuple(recalled.ranked[:_SHOWN_MEMORIES])
            found.append(WorstQuery(query=query, value=value, evidence=evidence, found=best, failures=failures))
    found.sort(key=lambda one: (one.value, -max(each.rank or 10_000 for each in one.evidence)))
    counted = Counter[FailureType](name for one in found for name in one.failures)
    return Worst(queries=found[:limit], below=len(found), failures=counted)


def failure_types(
    query: JudgedQuery,
    missed: Sequence[MemoryView],
    *,
    best: MemoryView | None,
    time: QuestionTime,
    sparse: SparseEncoder,
) -> tuple[FailureType, ...]:
    """The types of one query. `best` is the best ranked memory, `time` what the question says of times."""
    wanted = frozenset(sparse.encode_query(query.text).indices)
    shared = [len(wanted & frozenset(sparse.encode_document(one.text).indices)) for one in missed]
    session = query.session_id or (best.session_id if best is not None else None)
    holds: dict[FailureType, bool] = {
        "semantic_gap": any(count == 0 for count in shared),
        "several_words": any(0 < count < len(wanted) for count in shared),
        "pronoun": any(_PRONOUN.search(text) for text in (query.text, *(one.text for one in missed))),
        "time": bool(time.intervals) or time.asks_when,
        "other_session": session is not None and any(one.session_id != session for one in missed),
    }
    return tuple(name for name in FAILURE_TYPES if holds[name])


async def _failures(
    trials: Trials, sparse: SparseEncoder, query: JudgedQuery, recalled: Recalled, missed: Sequence[str]
) -> tuple[FailureType, ...]:
    index, keys = trials.opened.index, [memory_key(query.conversation, name) for name in missed]
    read: Mapping[int, MemoryView] = await index.fetch(keys) if index is not None and keys else {}
    time = recalled.understood.question.time if recalled.understood is not None else NO_TIME
    best = recalled.ranked[0].memory if recalled.ranked else None
    texts = [read[key] for key in keys if key in read]
    return failure_types(query, texts, best=best, time=time, sparse=sparse)


def _evidence(name: str, query: JudgedQuery, recalled: Recalled) -> Evidence:
    for rank, item in enumerate(recalled.ranked, 1):
        if item.memory.id == name:
            return Evidence(id=name, rank=rank)
    return Evidence(id=name, rank=None, why=_not_ranked(memory_key(query.conversation, name), recalled))


def _not_ranked(key: int, recalled: Recalled) -> str:
    if recalled.result and any(item.candidate.key == key for item in recalled.result.scored):
        return "near-duplicate of a better one, or below the profile's min_score"
    ranks = {
        report.source: place
        for report in recalled.reports
        for place, hit in enumerate(report.hits, 1)
        if hit.key == key
    }
    if ranks:
        found_by = ", ".join(f"{source} at {place}" for source, place in ranks.items())
        return f"found by {found_by}, and not among those that were ranked"
    return "no source found it"
