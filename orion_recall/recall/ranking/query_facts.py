"""The facts of a question and of its searches for the score parts."""

from __future__ import annotations

from collections.abc import Mapping

from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.part_values import QueryFacts
from orion_recall.text.normal import content_words, stems


def facts_of(
    understood: Understanding,
    *,
    similarities: Mapping[int, float],
    late: Mapping[int, float],
    followed: Mapping[str, Mapping[int, float]],
    unindexed: frozenset[int],
    told_unknown: frozenset[int],
    evidence: Mapping[int, float],
) -> QueryFacts:
    """The facts that the question itself gives, and those of its searches: see `QueryFacts`."""
    question = understood.question
    return QueryFacts(
        now=question.now,
        named_speaker=understood.named_speaker,
        asker=understood.asker if understood.is_first_person else None,
        time=question.time,
        session_id=question.session_id,
        terms=stems(content_words(question.text)),
        entities=tuple([entity.name for entity in understood.entities]),
        similarities=similarities,
        late=late,
        followed=followed,
        unindexed=unindexed,
        told_unknown=told_unknown,
        evidence=evidence,
    )
