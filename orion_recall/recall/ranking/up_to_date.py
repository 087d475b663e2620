"""What is true now before what was: successions in order, then newer values of what is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from orion_recall.profile.sections import Succession
from orion_recall.recall.ranking.newer import kind_asked, newer_values
from orion_recall.recall.ranking.news import with_news
from orion_recall.recall.ranking.score import in_order
from orion_recall.recall.ranking.successions import STEP, moved, with_successions
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import NewerThan, ScoredCandidate
from orion_recall.values import Question


def up_to_date(
    scored: Sequence[ScoredCandidate], understood: Understanding, settings: Succession
) -> Sequence[ScoredCandidate]:
    """The candidates, best first, in the order that the question's tense asks for."""
    question, wants_all = understood.question, understood.shape is not None
    if not (wants_all or settings.outdated == "keep"):
        scored = with_news(scored, question)
    ordered = with_successions(
        scored, question.tense, settings, now=question.now, asked=question.text, wants_all=wants_all
    )
    return ordered if wants_all else with_newer_values(ordered, question, settings)


def with_newer_values(
    ranked: Sequence[ScoredCandidate], question: Question, settings: Succession
) -> Sequence[ScoredCandidate]:
    """The candidates, best first, those that tell a newer value than the first one before it."""
    if settings.outdated == "keep" or not (newer := newer_values(ranked, question)):
        return ranked
    first, best = ranked[0], ranked[0].score
    why = NewerThan(first.candidate.key, first.memory.id, kind_asked(question))
    scores = {item.candidate.key: best + (len(newer) - place) * STEP for place, item in enumerate(newer)}
    return in_order(
        moved(item, scores[item.candidate.key], why) if item.candidate.key in scores else item for item in ranked
    )
