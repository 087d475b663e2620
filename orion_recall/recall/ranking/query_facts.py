"""The facts of a question for its score parts, before anything is searched."""

from __future__ import annotations

from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.part_values import QueryFacts


def facts_of(understood: Understanding) -> QueryFacts:
    """The facts that the question itself gives; those of its searches are still missing."""
    question = understood.question
    return QueryFacts(
        now=question.now,
        named_speaker=understood.named_speaker,
        asker=understood.asker if understood.is_first_person else None,
        who=understood.who,
        asks_family=understood.asks_family,
        time=question.time,
        answer_type=question.answer_type,
        asks_assistant=understood.asks_assistant,
        session_id=question.session_id,
        wants_chatter=understood.wants_chatter,
        entities=tuple(entity.name for entity in understood.entities),
    )
